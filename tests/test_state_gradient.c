/*
 * Gradients through states: of the loss sum(y G) + Re sum(conj(ds) state_out) from a state x0, against finite differences
 * of the forward call with respect to every raw parameter, u and x0, and against the reference. The differences, which
 * take thousands of calls, are the CPU's wherever the test runs; the forward call of the place is compared with the CPU's.
 */
#include <math.h>

#include "derivative.h"
#include "expect.h"
#include "place.h"
#include "state_sample.h"
#include "tolerances.h"

/* Differences at steps of 1e-3, extrapolated to sixth order, of a loss that is good to 1e-14. */
#define TOLERANCE_STATE_GRADIENT 1e-8

static void forward_into(session *s, const sample *p, double *y, double *out)
{
    s4_forward_io io;
    S4_INIT(&io);
    io.u = p->u;
    io.y = y;
    io.state_in = p->x0;
    io.state_out = out;
    io.lengths = p->lengths;
    must(s4_plan_forward(s->plan, p->layer, s->workspace, &io));
}

static double loss_of(session *s, const void *call)
{
    const sample *p = call;
    double *y = numbers(count_y(p)), *out = numbers(p->states), sum = 0;
    forward_into(s, p, y, out);
    for (int64_t i = 0; i < count_y(p); i++) sum += y[i] * p->G[i];
    for (int64_t i = 0; p->ds && i < p->states; i++) sum += out[i] * p->ds[i];
    return sum;
}

static double refreshed_loss_of(session *s, const void *call)
{
    must(s4_plan_refresh(s->plan, ((const sample *)call)->layer, s->workspace));
    return loss_of(s, call);
}

/* ---- against finite differences ----------------------------------------------------------------------------------- */

static result differences(session *s, sample *p)
{
    result r = result_zero(p);
    for (int q = 0; q < S4_PARAMETER_COUNT; q++)
        for (int64_t i = 0; i < r.g.count[q]; i++)
            r.g.parameter[q][i] =
                derivative_of(refreshed_loss_of, s, p, p->layer, &layer_data(p->layer, (s4_parameter)q)[i]);
    must(s4_plan_refresh(s->plan, p->layer, s->workspace));
    for (int64_t i = 0; i < count_u(p); i++) r.g.du[i] = derivative_of(loss_of, s, p, NULL, &p->u[i]);
    double *given = p->x0;
    if (!given)
        p->x0 = numbers(p->states);
    for (int64_t i = 0; p->wants_entering && i < p->states; i++)
        r.entering[i] = derivative_of(loss_of, s, p, NULL, &p->x0[i]);
    p->x0 = given;
    return r;
}

static void expect_same_forward(session *s, session *cpu, const sample *p)
{
    double *y = numbers(count_y(p)), *out = numbers(p->states), *cpu_y = numbers(count_y(p)), *cpu_out = numbers(p->states);
    forward_into(s, p, y, out);
    forward_into(cpu, p, cpu_y, cpu_out);
    expect_close("y", count_y(p), y, cpu_y, TOLERANCE_FORWARD, 0);
    expect_close("the state that leaves", p->states, out, cpu_out, TOLERANCE_FORWARD, 0);
}

static void compare(s4_context *context, sample *p)
{
    const s4_problem problem = sample_problem(p, S4_F64);
    if (!session_offered(context, &problem) || (p->lengths && place_has_gpu()))
        return;
    s4_problem on_cpu = problem;
    must(s4_placement_parse("cpu", &on_cpu.placement));
    session s = session_ready(context, &problem, p->layer), cpu = session_ready(context, &on_cpu, p->layer);
    expect_same_forward(&s, &cpu, p);
    const result expected = differences(&cpu, p), got = backward(&s, p);
    session_close(&cpu);
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
    static const int64_t lengths[][2] = {{9, 9}, {7, 12}, {1, 4}, {1, 1}, {2, 2}, {3, 3}, {8, 8}, {31, 33}, {64, 64}};
    s4_context *context = context_open();
    for (int rank = 1; rank <= 3; rank++)
        for (int i = 0; i < 9; i++) {
            about("rank %d, input %d, kernel %d", rank, (int)lengths[i][0], (int)lengths[i][1]);
            layer_shape shape = sample_dplr;
            shape.rank = rank;
            sample p = sample_open(context, &shape, 2, lengths[i][0], lengths[i][1], (uint64_t)(10 * rank + i));
            compare(context, &p);
            s4_layer_destroy(p.layer);
        }
    s4_context_destroy(context);
}

Test(state_gradient, of_diagonal_layers)
{
    static const int64_t lengths[][2] = {{9, 9}, {7, 12}, {12, 7}, {1, 4}, {1, 1}, {2, 2}, {3, 3}, {8, 3}, {31, 33}, {64, 64}};
    s4_context *context = context_open();
    for (int rule = S4_BILINEAR; rule <= S4_ZOH; rule++)
        for (int i = 0; i < 10; i++) {
            about("%s, input %d, kernel %d", s4_discretisation_name((s4_discretisation)rule), (int)lengths[i][0],
                  (int)lengths[i][1]);
            layer_shape shape = sample_diagonal;
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
    static const int64_t lengths[] = {1, 2, 3, 8, 31, 64};
    s4_context *context = context_open();
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 6; j++) {
            const int64_t T = lengths[j], L = j % 2 ? T : T + 1, ends[] = {(T + 1) / 2};
            about("shape %d, input %d, kernel %d", i, (int)T, (int)L);
            sample p = sample_open(context, &shapes[i], 1, T, L, (uint64_t)(80 + i));
            compare(context, &p);
            p.lengths = ends;
            about("shape %d, input %d of which half counts, kernel %d", i, (int)T, (int)L);
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
        sample p = sample_open(context, i == 0 ? &sample_dplr : &sample_diagonal, 3, 7, 8, (uint64_t)(90 + i));
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
        sample p = sample_open(context, i & 8 ? &sample_diagonal : &sample_dplr, 2, 6, 6, (uint64_t)(100 + i));
        p.x0 = i & 1 ? p.x0 : NULL;
        p.ds = i & 2 ? p.ds : NULL;
        p.wants_entering = (i & 4) != 0;
        compare(context, &p);
        s4_layer_destroy(p.layer);
    }
    s4_context_destroy(context);
}

/* ---- against the reference ---------------------------------------------------------------------------------------- */

/* The reference is slow: each schedule of an emulated GPU compares with one of its lengths. */
Test(state_gradient, against_reference)
{
    static const int64_t lengths[][2] = {{31, 31}, {33, 40}, {16, 16}, {5, 64}};
    s4_context *context = context_open();
    for (int rank = 1; rank <= 3; rank++)
        for (int i = 0; i < 4; i++) {
            if (place_schedule() >= 0 && i != place_schedule() % 4)
                continue;
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
