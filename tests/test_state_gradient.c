/*
 * Gradients through states: of the loss sum(y G) + Re sum(conj(ds) state_out) from a state x0, against finite differences
 * of the forward call with respect to every raw parameter, u and x0, and against the reference; and how they are asked
 * for and added up.
 */
#include <math.h>

#include "allocations.h"
#include "expect.h"
#include "layers.h"
#include "place.h"
#include "session.h"
#include "tolerances.h"

/* Differences at steps of 1e-3, extrapolated to sixth order, of a loss that is good to 1e-14. */
#define TOLERANCE_STATE_GRADIENT 1e-8

/* A layer with tensors of one call; x0, ds and dx0 may be NULL, and lengths. */
typedef struct sample {
    s4_layer *layer;
    int64_t B, T, L, states; /* states: numbers in x0 */
    double *u, *G, *x0, *ds;
    int wants_entering; /* dx0 */
    const int64_t *lengths;
} sample;

static const layer_shape dplr = {.d_model = 2, .d_state = 6, .rank = 1, .plain_transforms = 1};
static const layer_shape diagonal = {
    .d_model = 2, .d_state = 6, .mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .plain_transforms = 1};

static sample sample_open(s4_context *context, const layer_shape *shape, int64_t B, int64_t T, int64_t L, uint64_t seed)
{
    sample p = {.layer = layer_random(shape, seed), .B = B, .T = T, .L = L, .wants_entering = 1};
    const s4_layer_options o = layer_options(p.layer);
    if (o.mode == S4_MODE_DPLR)
        must(s4_layer_setup(context, p.layer, L));
    random_source random = {seed};
    p.states = B * o.d_model * o.d_state;
    p.u = random_samples(&random, B * o.d_model * T);
    p.G = random_samples(&random, B * o.d_model * o.channels * T);
    p.x0 = random_samples(&random, p.states);
    p.ds = random_samples(&random, p.states);
    return p;
}

static s4_problem sample_problem(const sample *p, s4_dtype dtype)
{
    s4_problem problem = problem_of(p->layer, S4_DIRECTION_TRAINING, dtype, p->B, p->T, p->L);
    problem.states = 1;
    problem.threads = 1;
    return problem;
}

static int64_t count_u(const sample *p) { return p->B * layer_options(p->layer).d_model * p->T; }
static int64_t count_y(const sample *p) { return count_u(p) * layer_options(p->layer).channels; }

static double loss_of(session *s, const sample *p)
{
    double *y = numbers(count_y(p)), *out = numbers(p->states), sum = 0;
    s4_forward_io io;
    S4_INIT(&io);
    io.u = p->u;
    io.y = y;
    io.state_in = p->x0;
    io.state_out = out;
    io.lengths = p->lengths;
    must(s4_plan_refresh(s->plan, p->layer, s->workspace));
    must(s4_plan_forward(s->plan, p->layer, s->workspace, &io));
    for (int64_t i = 0; i < count_y(p); i++) sum += y[i] * p->G[i];
    for (int64_t i = 0; p->ds && i < p->states; i++) sum += out[i] * p->ds[i];
    return sum;
}

/* Gradients of all that can be asked for. */
typedef struct result {
    gradients g;
    double *entering; /* of x0 */
} result;

static result result_zero(const sample *p)
{
    return (result){gradients_zero(p->layer, count_u(p)), numbers(p->states)};
}

static void backward_into(session *s, const sample *p, result *r, int accumulate)
{
    const s4_dtype dtype = s->info.problem.dtype;
    s4_backward_io io;
    S4_INIT(&io);
    io.u = tensor_of(dtype, count_u(p), p->u);
    io.dy = tensor_of(dtype, count_y(p), p->G);
    io.du = tensor_zero(dtype, count_u(p));
    io.state_in = p->x0;
    io.dstate_out = p->ds;
    io.dstate_in = p->wants_entering ? r->entering : NULL;
    io.lengths = p->lengths;
    io.gradients.accumulate = accumulate;
    for (int q = 0; q < S4_PARAMETER_COUNT; q++) io.gradients.parameter[q] = r->g.parameter[q];
    must(s4_plan_refresh(s->plan, p->layer, s->workspace));
    must(s4_plan_backward(s->plan, p->layer, s->workspace, &io));
    r->g.du = values_of(dtype, count_u(p), io.du);
}

static result backward(session *s, const sample *p)
{
    result r = result_zero(p);
    backward_into(s, p, &r, 0);
    return r;
}

static result backward_alone(s4_context *context, const sample *p, const s4_problem *problem)
{
    session s = session_open(context, problem);
    const result r = backward(&s, p);
    session_close(&s);
    return r;
}

static void expect_same_results(const sample *p, const result *got, const result *expected)
{
    expect_same_gradients(&got->g, &expected->g);
    expect_same_bits("gradient of x0", p->states, got->entering, expected->entering);
}

/* ---- against finite differences ----------------------------------------------------------------------------------- */

/* Central differences at three steps, extrapolated to sixth order. */
static double derivative(session *s, const sample *p, double *value)
{
    const double at = *value, step = 1e-3;
    double difference[3];
    for (int i = 0; i < 3; i++) {
        const double h = step * (i + 1);
        *value = at + h;
        must(s4_layer_changed(p->layer, S4_PARAMETER_ALL));
        const double up = loss_of(s, p);
        *value = at - h;
        must(s4_layer_changed(p->layer, S4_PARAMETER_ALL));
        difference[i] = (up - loss_of(s, p)) / (2 * h);
    }
    *value = at;
    must(s4_layer_changed(p->layer, S4_PARAMETER_ALL));
    return 1.5 * difference[0] - 0.6 * difference[1] + 0.1 * difference[2];
}

static result differences(session *s, sample *p)
{
    result r = result_zero(p);
    for (int q = 0; q < S4_PARAMETER_COUNT; q++)
        for (int64_t i = 0; i < r.g.count[q]; i++)
            r.g.parameter[q][i] = derivative(s, p, &layer_data(p->layer, (s4_parameter)q)[i]);
    for (int64_t i = 0; i < count_u(p); i++) r.g.du[i] = derivative(s, p, &p->u[i]);
    double *given = p->x0;
    if (!given)
        p->x0 = numbers(p->states);
    for (int64_t i = 0; p->wants_entering && i < p->states; i++) r.entering[i] = derivative(s, p, &p->x0[i]);
    p->x0 = given;
    return r;
}

static void compare(s4_context *context, sample *p)
{
    const s4_problem problem = sample_problem(p, S4_F64);
    if (!session_offered(context, &problem) || (p->lengths && place_has_gpu()))
        return;
    session s = session_open(context, &problem);
    const result expected = differences(&s, p), got = backward(&s, p);
    expect_close_gradients(&got.g, &expected.g, TOLERANCE_STATE_GRADIENT);
    expect_close("gradient of x0", p->states, got.entering, expected.entering, TOLERANCE_STATE_GRADIENT, 1e-6);
    session_close(&s);
    const s4_problem single = sample_problem(p, S4_F32);
    s = session_open(context, &single);
    const result rounded = backward(&s, p);
    expect_close_gradients(&rounded.g, &expected.g, TOLERANCE_F32_GRADIENT);
    expect_close("gradient of x0, f32", p->states, rounded.entering, expected.entering, TOLERANCE_F32_GRADIENT, 1e-6);
    session_close(&s);
}

Test(state_gradient, of_dplr_layers)
{
    static const int64_t lengths[][2] = {{9, 9}, {7, 12}, {1, 4}, {1, 1}, {2, 2}};
    s4_context *context = context_open();
    for (int rank = 1; rank <= 3; rank++)
        for (int i = 0; i < 5; i++) {
            about("rank %d, input %d, kernel %d", rank, (int)lengths[i][0], (int)lengths[i][1]);
            layer_shape shape = dplr;
            shape.rank = rank;
            sample p = sample_open(context, &shape, 2, lengths[i][0], lengths[i][1], (uint64_t)(10 * rank + i));
            compare(context, &p);
            s4_layer_destroy(p.layer);
        }
    s4_context_destroy(context);
}

Test(state_gradient, of_diagonal_layers)
{
    static const int64_t lengths[][2] = {{9, 9}, {7, 12}, {12, 7}, {1, 4}, {1, 1}};
    s4_context *context = context_open();
    for (int rule = S4_BILINEAR; rule <= S4_ZOH; rule++)
        for (int i = 0; i < 5; i++) {
            about("%s, input %d, kernel %d", s4_discretisation_name((s4_discretisation)rule), (int)lengths[i][0],
                  (int)lengths[i][1]);
            layer_shape shape = diagonal;
            shape.discretisation = (s4_discretisation)rule;
            sample p = sample_open(context, &shape, 2, lengths[i][0], lengths[i][1], (uint64_t)(50 + 10 * rule + i));
            compare(context, &p);
            s4_layer_destroy(p.layer);
        }
    s4_context_destroy(context);
}

/* Every other thing that a layer can have. */
Test(state_gradient, of_layers_of_every_kind)
{
    static const layer_shape shapes[] = {
        {.d_model = 4, .d_state = 4, .rank = 2, .n_ssm = 2, .channels = 2, .plain_transforms = 1},
        {.d_model = 2, .d_state = 4, .rank = 2, .dt_untied = 1, .channels = 2, .plain_transforms = 1},
        {.d_model = 2, .d_state = 6, .rank = 1, .bandlimit = 0.2, .plain_transforms = 1},
        {.d_model = 2, .d_state = 4, .rank = 1, .dt_transform = S4_TRANSFORM_SOFTPLUS,
         .real_transform = S4_TRANSFORM_RELU, .imag_transform = S4_TRANSFORM_EXP},
        {.d_model = 4, .d_state = 4, .n_ssm = 2, .channels = 2, .mode = S4_MODE_DIAG, .discretisation = S4_ZOH,
         .plain_transforms = 1},
        {.d_model = 2, .d_state = 4, .dt_untied = 1, .channels = 2, .mode = S4_MODE_DIAG, .plain_transforms = 1},
        {.d_model = 2, .d_state = 6, .mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .bandlimit = 0.2,
         .plain_transforms = 1}};
    s4_context *context = context_open();
    for (int i = 0; i < 7; i++) {
        about("shape %d", i);
        sample p = sample_open(context, &shapes[i], 2, 7, 8, (uint64_t)(80 + i));
        compare(context, &p);
        s4_layer_destroy(p.layer);
    }
    s4_context_destroy(context);
}

Test(state_gradient, with_lengths)
{
    static const int64_t lengths[] = {7, 0, 3};
    s4_context *context = context_open();
    for (int i = 0; i < 2; i++) {
        about("%s", i == 0 ? "dplr" : "diag");
        sample p = sample_open(context, i == 0 ? &dplr : &diagonal, 3, 7, 8, (uint64_t)(90 + i));
        p.lengths = lengths;
        compare(context, &p);
        s4_layer_destroy(p.layer);
    }
    s4_context_destroy(context);
}

/* Each of x0, the gradient of the state that leaves, and that of the state that enters may be missing. */
Test(state_gradient, of_what_is_given)
{
    s4_context *context = context_open();
    for (int i = 0; i < 16; i++) {
        about("%s, %s x0, %s ds, %s dx0", i & 8 ? "diag" : "dplr", i & 1 ? "with" : "no", i & 2 ? "with" : "no",
              i & 4 ? "with" : "no");
        sample p = sample_open(context, i & 8 ? &diagonal : &dplr, 2, 6, 6, (uint64_t)(100 + i));
        p.x0 = i & 1 ? p.x0 : NULL;
        p.ds = i & 2 ? p.ds : NULL;
        p.wants_entering = (i & 4) != 0;
        compare(context, &p);
        s4_layer_destroy(p.layer);
    }
    s4_context_destroy(context);
}

/* ---- against the reference ---------------------------------------------------------------------------------------- */

Test(state_gradient, against_reference)
{
    static const int64_t lengths[][2] = {{31, 31}, {33, 40}, {16, 16}, {5, 64}};
    s4_context *context = context_open();
    for (int rank = 1; rank <= 3; rank++)
        for (int i = 0; i < 4; i++) {
            about("rank %d, input %d, kernel %d", rank, (int)lengths[i][0], (int)lengths[i][1]);
            layer_shape shape = {.d_model = 4, .d_state = 6, .rank = rank, .n_ssm = 2, .dt_untied = i % 2,
                                 .plain_transforms = 1};
            sample p = sample_open(context, &shape, 2, lengths[i][0], lengths[i][1], (uint64_t)(150 + 10 * rank + i));
            const s4_problem problem = sample_problem(&p, S4_F64);
            if (!session_offered(context, &problem)) {
                s4_layer_destroy(p.layer);
                continue;
            }
            const struct ref_layer reference = layer_reference(p.layer);
            result expected = result_zero(&p);
            const struct ref_loss loss = {.leaf = REF_LEAF_C_TILDE, .route = REF_ROUTE_STRUCTURED,
                                          .c_tilde = layer_data(p.layer, S4_PARAMETER_C), .kernel_length = (int)p.L,
                                          .batch = (int)p.B, .input_length = (int)p.T, .u = p.u, .G = p.G,
                                          .state_in = p.x0, .g_state_out = p.ds};
            const struct ref_gradients out = {.inv_dt = expected.g.parameter[S4_PARAMETER_INV_DT],
                                              .A_real = expected.g.parameter[S4_PARAMETER_A_REAL],
                                              .A_imag = expected.g.parameter[S4_PARAMETER_A_IMAG],
                                              .B = expected.g.parameter[S4_PARAMETER_B],
                                              .P = expected.g.parameter[S4_PARAMETER_P],
                                              .C = expected.g.parameter[S4_PARAMETER_C],
                                              .D = expected.g.parameter[S4_PARAMETER_D],
                                              .u = expected.g.du,
                                              .state_in = expected.entering};
            const double miss = ref_gradients(&reference, &loss, &out);
            check(miss <= TOLERANCE_GRADIENT_DIFFERENCE, "[%s] the reference is good to %.3g only", about_text(), miss);
            const result got = backward_alone(context, &p, &problem);
            expect_close_gradients(&got.g, &expected.g, TOLERANCE_GRADIENT_DIFFERENCE + miss);
            expect_close("gradient of x0", p.states, got.entering, expected.entering, TOLERANCE_GRADIENT_DIFFERENCE, 0);
            s4_layer_destroy(p.layer);
        }
    s4_context_destroy(context);
}

enum { WHOLE = 300, FIRST = 137, CHANNELS = 2 };

static void compare_two_calls(s4_context *context, const layer_shape *shape)
{
    enum { T = WHOLE, H = CHANNELS };
    sample whole = sample_open(context, shape, 1, T, T, 200);
    const s4_problem problem = sample_problem(&whole, S4_F64);
    if (!session_offered(context, &problem)) {
        s4_layer_destroy(whole.layer);
        return;
    }
    session s = session_open(context, &problem);
    const result expected = backward(&s, &whole);
    session_close(&s);

    sample part[2] = {whole, whole};
    result got = result_zero(&whole), tail = result_zero(&whole);
    for (int i = 1; i >= 0; i--) {
        sample *p = &part[i];
        const int64_t from = i == 0 ? 0 : FIRST;
        p->T = i == 0 ? FIRST : T - FIRST;
        p->u = numbers(H * p->T);
        p->G = numbers(H * p->T);
        for (int64_t h = 0; h < H; h++)
            for (int64_t t = 0; t < p->T; t++) {
                p->u[h * p->T + t] = whole.u[h * T + from + t];
                p->G[h * p->T + t] = whole.G[h * T + from + t];
            }
    }
    s4_problem parts = problem;
    parts.length = FIRST;
    s = session_open(context, &parts);
    double *between = numbers(whole.states);
    session_forward(&s, whole.layer, 0, 0, part[0].u, whole.x0, between);
    session_close(&s);
    part[1].x0 = between;
    parts.length = T - FIRST;
    s = session_open(context, &parts);
    backward_into(&s, &part[1], &got, 0);
    session_close(&s);
    memcpy(tail.g.du, got.g.du, sizeof(double) * (size_t)(H * part[1].T));
    part[0].ds = numbers_copy(whole.states, got.entering);
    parts.length = FIRST;
    s = session_open(context, &parts);
    backward_into(&s, &part[0], &got, 1);
    session_close(&s);

    double *du = numbers(H * T);
    for (int64_t h = 0; h < H; h++)
        for (int64_t t = 0; t < T; t++)
            du[h * T + t] = t < FIRST ? got.g.du[h * FIRST + t] : tail.g.du[h * (T - FIRST) + t - FIRST];
    got.g.du = du;
    got.g.du_count = H * T;
    expect_close_gradients(&got.g, &expected.g, TOLERANCE_STATE);
    expect_close("gradient of x0", whole.states, got.entering, expected.entering, TOLERANCE_STATE, 0);
    s4_layer_destroy(whole.layer);
}

/* A layer cut into two calls, the state handed over: the gradients of one call. Several strides, and a part of one. */
Test(state_gradient, of_two_calls_add_up)
{
    s4_context *context = context_open();
    about("dplr");
    compare_two_calls(context, &dplr);
    about("diag");
    compare_two_calls(context, &diagonal);
    s4_context_destroy(context);
}

/* ---- how they are asked for --------------------------------------------------------------------------------------- */

/* Threads and budgets change nothing but time and memory. */
Test(state_gradient, does_not_depend_on_the_plan)
{
    static const int threads[] = {2, 5};
    s4_context *context = context_open();
    for (int i = 0; i < 2; i++) {
        layer_shape shape = i == 0 ? dplr : diagonal;
        shape.d_model = 7;
        sample p = sample_open(context, &shape, 3, 40, 45, (uint64_t)(210 + i));
        s4_problem problem = sample_problem(&p, S4_F64);
        if (!session_offered(context, &problem)) {
            s4_layer_destroy(p.layer);
            continue;
        }
        session s = session_open(context, &problem);
        const result expected = backward(&s, &p);
        const int64_t least = s.info.host_minimum;
        session_close(&s);
        for (int j = 0; j < 2; j++) {
            about("%s, %d threads", i == 0 ? "dplr" : "diag", threads[j]);
            problem.threads = threads[j];
            const result got = backward_alone(context, &p, &problem);
            expect_same_results(&p, &got, &expected);
        }
        about("%s, the smallest budget", i == 0 ? "dplr" : "diag");
        problem.threads = 1;
        problem.host_budget = least;
        const result got = backward_alone(context, &p, &problem);
        expect_same_results(&p, &got, &expected);
        s4_layer_destroy(p.layer);
    }
    s4_context_destroy(context);
}

/* Nothing of states given: the bits of a plan without. */
Test(state_gradient, of_no_states)
{
    s4_context *context = context_open();
    sample p = sample_open(context, &dplr, 2, 9, 9, 220);
    s4_problem problem = sample_problem(&p, S4_F64);
    p.x0 = p.ds = NULL;
    p.wants_entering = 0;
    const result got = backward_alone(context, &p, &problem);
    problem.states = 0;
    const result expected = backward_alone(context, &p, &problem);
    expect_same_results(&p, &got, &expected);
    s4_layer_destroy(p.layer);
    s4_context_destroy(context);
}

Test(state_gradient, accumulates)
{
    s4_context *context = context_open();
    sample p = sample_open(context, &dplr, 2, 9, 9, 230);
    const s4_problem problem = sample_problem(&p, S4_F64);
    session s = session_open(context, &problem);
    const result once = backward(&s, &p);
    result sum = result_zero(&p), expected = result_zero(&p);
    for (int q = 0; q < S4_PARAMETER_COUNT; q++)
        for (int64_t i = 0; i < sum.g.count[q]; i++) {
            sum.g.parameter[q][i] = (double)i;
            expected.g.parameter[q][i] = (double)i + once.g.parameter[q][i];
        }
    expected.g.du = once.g.du;
    expected.entering = once.entering;
    backward_into(&s, &p, &sum, 1);
    expect_same_results(&p, &sum, &expected);
    session_close(&s);
    s4_layer_destroy(p.layer);
    s4_context_destroy(context);
}

/* dx0 in the place of ds; no du; no gradients of parameters; fewer rows and samples than planned. */
Test(state_gradient, parts_and_places)
{
    enum { B = 3, T = 9, H = 2 };
    s4_context *context = context_open();
    sample p = sample_open(context, &dplr, B, T, T, 240);
    const s4_problem problem = sample_problem(&p, S4_F64);
    session s = session_open(context, &problem);
    const result expected = backward(&s, &p);
    s4_backward_io io;
    S4_INIT(&io);
    io.u = p.u;
    io.dy = p.G;
    io.state_in = p.x0;
    double *over = numbers_copy(p.states, p.ds);
    io.dstate_out = io.dstate_in = over;
    must(s4_plan_backward(s.plan, p.layer, s.workspace, &io));
    expect_same_bits("gradient of x0 in the place of ds", p.states, over, expected.entering);

    double *entering = numbers(p.states), *du = numbers(H * T);
    io.dstate_out = p.ds;
    io.dstate_in = entering;
    io.du = du;
    io.batch = 1;
    must(s4_plan_backward(s.plan, p.layer, s.workspace, &io));
    expect_same_bits("gradient of x0 of one row", p.states / B, entering, expected.entering);
    expect_same_bits("du of one row", H * T, du, expected.g.du);
    session_close(&s);
    s4_layer_destroy(p.layer);
    s4_context_destroy(context);
}

/* Samples that lie otherwise: time before channel, planned, and every other number of larger tensors. */
Test(state_gradient, of_other_layouts)
{
    enum { B = 2, T = 9, H = 2, M = 2 };
    s4_context *context = context_open();
    layer_shape shape = dplr;
    shape.channels = M;
    sample p = sample_open(context, &shape, B, T, T, 250);
    s4_problem problem = sample_problem(&p, S4_F64);
    problem.placement = (s4_placement){{S4_PLACE_CPU}};
    const result expected = backward_alone(context, &p, &problem);
    double *u = numbers(2 * B * T * H), *dy = numbers(2 * B * T * M * H), *du = numbers(2 * B * T * H);
    for (int layout = 0; layout < 2; layout++) {
        const int64_t gap = 1 + layout;
        about(layout ? "strides" : "blh");
        for (int64_t b = 0; b < B; b++)
            for (int64_t t = 0; t < T; t++) {
                for (int64_t h = 0; h < H; h++) u[gap * ((b * T + t) * H + h)] = p.u[(b * H + h) * T + t];
                for (int64_t h = 0; h < M * H; h++) dy[gap * ((b * T + t) * M * H + h)] = p.G[(b * M * H + h) * T + t];
            }
        problem.layout = layout ? S4_LAYOUT_BHL : S4_LAYOUT_BLH;
        session s = session_open(context, &problem);
        result got = result_zero(&p);
        s4_backward_io io;
        S4_INIT(&io);
        io.u = u;
        io.dy = dy;
        io.du = du;
        io.state_in = p.x0;
        io.dstate_out = p.ds;
        io.dstate_in = got.entering;
        for (int q = 0; q < S4_PARAMETER_COUNT; q++) io.gradients.parameter[q] = got.g.parameter[q];
        const int64_t of_u[] = {2 * T * H, 2, 2 * H}, of_dy[] = {2 * T * M * H, 2, 2 * M * H};
        for (int i = 0; layout && i < 3; i++) {
            io.u_strides[i] = io.du_strides[i] = of_u[i];
            io.dy_strides[i] = of_dy[i];
        }
        must(s4_plan_refresh(s.plan, p.layer, s.workspace));
        must(s4_plan_backward(s.plan, p.layer, s.workspace, &io));
        for (int64_t b = 0; b < B; b++)
            for (int64_t t = 0; t < T; t++)
                for (int64_t h = 0; h < H; h++) got.g.du[(b * H + h) * T + t] = du[gap * ((b * T + t) * H + h)];
        expect_same_results(&p, &got, &expected);
        session_close(&s);
    }
    s4_layer_destroy(p.layer);
    s4_context_destroy(context);
}

/* What is planned is what is taken, and nothing is taken while it runs. */
Test(state_gradient, memory)
{
    enum { T = 4000, N = 16 };
    s4_context *context = context_open();
    layer_shape shape = dplr;
    shape.d_state = N;
    sample p = sample_open(context, &shape, 1, T, T, 260);
    const s4_problem problem = sample_problem(&p, S4_F64);
    session s = session_open(context, &problem);
    const s4_plan_info with = s.info;
    must(s4_context_memory_reset(context, S4_PLACE_CPU)); /* of the set-up */
    must(s4_plan_refresh(s.plan, p.layer, s.workspace));
    double *du = numbers(count_u(&p)), *entering = numbers(p.states);
    s4_backward_io io;
    S4_INIT(&io);
    io.u = p.u;
    io.dy = p.G;
    io.du = du;
    io.state_in = p.x0;
    io.dstate_out = p.ds;
    io.dstate_in = entering;
    must(s4_plan_backward(s.plan, p.layer, s.workspace, &io));
    if (allocations_supported() && !place_has_gpu()) {
        allocations_begin();
        const s4_status status = s4_plan_backward(s.plan, p.layer, s.workspace, &io);
        const long count = allocations_end();
        must(status);
        cr_assert_eq(count, 0, "%ld allocations in a backward call", count);
    }
    s4_memory_use use;
    must(s4_context_memory(context, S4_PLACE_CPU, &use));
    cr_assert_eq(use.peak, with.host_peak, "measured %lld, planned %lld", (long long)use.peak,
                 (long long)with.host_peak);
    s4_problem without = problem;
    without.states = 0;
    session_close(&s);
    s = session_open(context, &without);
    check(with.host_peak - s.info.host_peak < (int64_t)(8 * N * T / 4), "states take %lld bytes more",
          (long long)(with.host_peak - s.info.host_peak));
    session_close(&s);
    s4_layer_destroy(p.layer);
    s4_context_destroy(context);
}

Test(state_gradient, refused)
{
    s4_context *context = context_open();
    sample p = sample_open(context, &dplr, 1, 9, 9, 270);
    s4_problem problem = sample_problem(&p, S4_F64);
    s4_plan *plan;
    problem.length = 10;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_ARGUMENT, "kernel_length");
    problem.length = 9;
    problem.bidirectional = 1;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_UNSUPPORTED, "bidirectional");
    problem.bidirectional = 0;
    problem.mode = S4_MODE_DIAG;
    problem.rank = 0;
    problem.discretisation = S4_DSS;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_UNSUPPORTED, "dss");

    for (int states = 0; states < 2; states++) {
        s4_problem given = sample_problem(&p, S4_F64);
        given.states = states;
        session s = session_open(context, &given);
        must(s4_plan_refresh(s.plan, p.layer, s.workspace));
        s4_backward_io io;
        S4_INIT(&io);
        io.u = p.u;
        io.dy = io.du = p.G;
        for (int which = 0; which < 3; which++) {
            io.state_in = which == 0 ? p.x0 : NULL;
            io.dstate_out = which == 1 ? p.ds : NULL;
            io.dstate_in = which == 2 ? p.ds : NULL;
            must_refuse(s4_plan_backward(s.plan, p.layer, s.workspace, &io), S4_ERROR_ARGUMENT,
                        states ? "du is dy" : which == 0 ? "state_in" : which == 1 ? "dstate_out" : "dstate_in");
        }
        session_close(&s);
    }
    s4_layer_destroy(p.layer);
    s4_context_destroy(context);
}
