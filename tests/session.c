/* One problem from plan to results: see session.h. */
#include "session.h"

#include <math.h>
#include <stdio.h>

#include "expect.h"
#include "layers.h"
#include "place.h"
#include "tolerances.h"

s4_problem problem_of(const s4_layer *layer, s4_direction direction, s4_dtype dtype, int64_t batch, int64_t length,
                      int64_t kernel_length)
{
    const s4_layer_options options = layer_options(layer);
    s4_problem problem;
    S4_INIT(&problem);
    problem.direction = direction;
    problem.mode = options.mode;
    problem.batch = batch;
    problem.length = length;
    problem.kernel_length = kernel_length;
    problem.d_model = options.d_model;
    problem.d_state = options.d_state;
    problem.rank = options.rank;
    problem.n_ssm = options.n_ssm;
    problem.channels = options.channels;
    problem.bidirectional = options.bidirectional;
    problem.dt_untied = options.dt_untied;
    problem.discretisation = options.discretisation;
    problem.dtype = dtype;
    problem.placement = place_placement();
    problem.algorithm = S4_ALGORITHM_FFT;
    return problem;
}

s4_context *context_open(void)
{
    s4_context_options options;
    S4_INIT(&options);
    options.threads = 2;
    options.strict = 1;
    s4_context *context;
    must(s4_context_create(&options, &context));
    place_required(context);
    return context;
}

int session_offered(s4_context *context, const s4_problem *problem)
{
    s4_plan *plan;
    if (!place_has_gpu())
        return 1;
    s4_status status = s4_plan_create(problem, &plan);
    if (!status) {
        status = s4_plan_prepare(plan, context);
        s4_plan_destroy(plan);
    }
    if (status != S4_ERROR_UNSUPPORTED)
        return 1;
    fprintf(stderr, "SKIPPED [%s]: placement %s: %s\n", about_text(), place_text(), s4_last_error());
    return 0;
}

void session_required(s4_context *context, s4_layer *layer, const s4_problem *problem)
{
    if (session_offered(context, problem))
        return;
    s4_layer_destroy(layer);
    s4_context_destroy(context);
    cr_skip_test("placement %s: %s", place_text(), s4_last_error());
}

session session_open(s4_context *context, const s4_problem *problem)
{
    session s = {.context = context};
    must(s4_plan_create(problem, &s.plan));
    must(s4_plan_prepare(s.plan, context));
    must(s4_workspace_create(s.plan, &s.workspace));
    must(s4_plan_describe(s.plan, &s.info));
    return s;
}

session session_ready(s4_context *context, const s4_problem *problem, const s4_layer *layer)
{
    session s = session_open(context, problem);
    must(s4_plan_refresh(s.plan, layer, s.workspace));
    return s;
}

void session_close(session *s)
{
    s4_workspace_destroy(s->workspace);
    s4_plan_destroy(s->plan);
    s->workspace = NULL;
    s->plan = NULL;
}

double *session_kernel(session *s, const s4_layer *layer)
{
    const s4_problem *p = &s->info.problem;
    const int64_t count = (p->bidirectional ? 2 : 1) * p->channels * p->d_model * p->kernel_length;
    void *K = tensor_zero(p->dtype, count);
    must(s4_plan_refresh(s->plan, layer, s->workspace));
    must(s4_plan_kernel(s->plan, layer, s->workspace, K));
    return values_of(p->dtype, count, K);
}

static int64_t samples(const s4_problem *p, int64_t batch, int64_t length)
{
    return (batch > 0 ? batch : p->batch) * p->d_model * (length > 0 ? length : p->length);
}

double *session_forward(session *s, const s4_layer *layer, int64_t batch, int64_t length, const double *u,
                        const double *state_in, double *state_out)
{
    const s4_problem *p = &s->info.problem;
    const int64_t count = samples(p, batch, length);
    s4_forward_io io;
    S4_INIT(&io);
    io.batch = batch;
    io.length = length;
    io.u = tensor_of(p->dtype, count, u);
    io.y = tensor_zero(p->dtype, count * p->channels);
    io.state_in = state_in;
    io.state_out = state_out;
    must(s4_plan_refresh(s->plan, layer, s->workspace));
    must(s4_plan_forward(s->plan, layer, s->workspace, &io));
    return values_of(p->dtype, count * p->channels, io.y);
}

double *session_step(session *s, const s4_layer *layer, int64_t batch, int64_t length, const double *u,
                     double *state)
{
    const s4_problem *p = &s->info.problem;
    const int64_t count = samples(p, batch, length);
    s4_step_io io;
    S4_INIT(&io);
    io.batch = batch;
    io.length = length;
    io.u = tensor_of(p->dtype, count, u);
    io.y = tensor_zero(p->dtype, count * p->channels);
    io.state = state;
    must(s4_plan_refresh(s->plan, layer, s->workspace));
    must(s4_plan_step(s->plan, layer, s->workspace, &io));
    return values_of(p->dtype, count * p->channels, io.y);
}

gradients gradients_zero(s4_layer *layer, int64_t du_count)
{
    gradients g = {.du_count = du_count};
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        g.count[p] = layer_count(layer, (s4_parameter)p);
        g.parameter[p] = numbers(g.count[p]);
    }
    g.du = numbers(du_count);
    return g;
}

gradients session_backward(session *s, s4_layer *layer, int64_t batch, int64_t length, const double *u,
                           const double *dy)
{
    return session_backward_rows(s, layer, batch, length, NULL, u, dy);
}

gradients session_backward_rows(session *s, s4_layer *layer, int64_t batch, int64_t length, const int64_t *lengths,
                                const double *u, const double *dy)
{
    const s4_problem *p = &s->info.problem;
    const int64_t count = samples(p, batch, length);
    gradients g = gradients_zero(layer, count);
    s4_backward_io io;
    S4_INIT(&io);
    io.batch = batch;
    io.length = length;
    io.u = tensor_of(p->dtype, count, u);
    io.dy = tensor_of(p->dtype, count * p->channels, dy);
    io.du = tensor_zero(p->dtype, count);
    io.lengths = lengths;
    for (int q = 0; q < S4_PARAMETER_COUNT; q++)
        io.gradients.parameter[q] = p->frozen >> q & 1 ? NULL : g.parameter[q];
    must(s4_plan_refresh(s->plan, layer, s->workspace));
    must(s4_plan_backward(s->plan, layer, s->workspace, &io));
    g.du = values_of(p->dtype, count, io.du);
    return g;
}

double gradients_largest(const gradients *g)
{
    double value = largest(g->du_count, g->du);
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        value = fmax(value, largest(g->count[p], g->parameter[p]));
    return value;
}

static const char *const gradient_name[S4_PARAMETER_COUNT] = {
    [S4_PARAMETER_INV_DT] = "gradient of inv_dt", [S4_PARAMETER_A_REAL] = "gradient of A_real",
    [S4_PARAMETER_A_IMAG] = "gradient of A_imag", [S4_PARAMETER_B] = "gradient of B",
    [S4_PARAMETER_P] = "gradient of P",           [S4_PARAMETER_C] = "gradient of C",
    [S4_PARAMETER_D] = "gradient of D",
};

void expect_close_gradients(const gradients *got, const gradients *expected, double tolerance)
{
    const double floor = FLOOR_GRADIENT * gradients_largest(expected);
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        const int64_t count = expected->count[p];
        if (count == 0) /* P of a diagonal layer */
            continue;
        if (largest(count, expected->parameter[p]) >= floor) {
            expect_close(gradient_name[p], count, got->parameter[p], expected->parameter[p], tolerance, 0);
            continue;
        }
        const double error = distance(count, got->parameter[p], expected->parameter[p]);
        check(error <= floor, "[%s] %s: off by %.3g, more than the floor %.3g", about_text(), gradient_name[p], error,
              floor);
    }
    expect_close("du", expected->du_count, got->du, expected->du, tolerance, 0);
}

void expect_same_gradients(const gradients *got, const gradients *expected)
{
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        if (expected->count[p] > 0)
            expect_same_bits(gradient_name[p], expected->count[p], got->parameter[p], expected->parameter[p]);
    expect_same_bits("du", expected->du_count, got->du, expected->du);
}
