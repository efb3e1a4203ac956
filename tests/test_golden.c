/*
 * The library against the published S4 module: every golden case, everything that it holds, in double and in single
 * precision. A GPU place may refuse a case by name: it is left out then, with a line on standard error.
 */
#include <math.h>

#include "expect.h"
#include "golden.h"
#include "layers.h"
#include "place.h"
#include "tolerances.h"

#define CHUNKED_CASES 28 /* those with states, none of which cuts its kernel */

static double gradient_tolerance(const golden_entry *entry, s4_dtype dtype)
{
    return dtype == S4_F64 ? entry->gradient : TOLERANCE_F32_GRADIENT;
}

static double kernel_tolerance(const golden_entry *entry, s4_dtype dtype)
{
    return dtype == S4_F64 ? entry->forward : TOLERANCE_F32_KERNEL;
}

static double output_tolerance(const golden_entry *entry, s4_dtype dtype)
{
    return dtype == S4_F64 ? entry->forward : TOLERANCE_F32_OUTPUT;
}

/* Every case in both precisions, and how many of them `compare` has compared. */
static int over_cases(int (*compare)(s4_context *context, const golden_entry *entry, golden_case *g, s4_dtype dtype))
{
    int compared = 0;
    s4_context *context = context_open();
    for (int i = 0; i < golden_count; i++)
        for (int d = 0; d < 2; d++) {
            const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
            golden_case g;
            about("%s %s", golden_list[i].name, s4_dtype_name(dtype));
            golden_open(&golden_list[i], &g);
            compared += compare(context, &golden_list[i], &g, dtype);
            golden_close(&g);
        }
    s4_context_destroy(context);
    return compared;
}

/* None may be lost where no place refuses any. */
static void expect_compared(int compared, int cases)
{
    check(place_has_gpu() ? compared > 0 && compared <= 2 * cases : compared == 2 * cases, "%d compared, not %d", compared,
          2 * cases);
}

Test(golden, all_cases_are_there)
{
    cr_assert_eq(golden_count, 34);
}

/* Set-up is on the host whatever the place: the rest of these tests is once enough. */
Test(golden, discrete_system)
{
    s4_context *context = context_open();
    int seen = 0;
    for (int i = 0; i < golden_count; i++) {
        about("%s", golden_list[i].name);
        golden_case g;
        golden_open(&golden_list[i], &g);
        double *dA = numbers(g.matrices), *dB = numbers(g.vectors), *dA_L = numbers(g.matrices);
        if (!g.dA) { /* dss */
            must_refuse(s4_layer_discrete(context, g.layer, 1, dA, dB, g.length, dA_L), S4_ERROR_UNSUPPORTED, "dss");
        } else {
            seen++;
            must(s4_layer_discrete(context, g.layer, 1, dA, dB, g.length, dA_L));
            expect_close("dA", g.matrices, dA, g.dA, golden_list[i].forward, 0);
            expect_close("dB", g.vectors, dB, g.dB, golden_list[i].forward, 0);
            if (g.dA_L)
                expect_close("dA_L", g.matrices, dA_L, g.dA_L, golden_list[i].forward, 0);
        }
        golden_close(&g);
    }
    cr_assert_eq(seen, golden_count - 2);
    s4_context_destroy(context);
}

Test(golden, setup)
{
    s4_context *context = context_open();
    for (int i = 0; i < golden_count; i++) {
        about("%s", golden_list[i].name);
        golden_case g;
        golden_open(&golden_list[i], &g);
        cr_assert_eq(s4_layer_length(g.layer), 0);
        if (g.is_dplr) {
            must(s4_layer_setup(context, g.layer, g.length));
            cr_assert_eq(s4_layer_length(g.layer), g.length);
            expect_close("C_tilde", layer_count(g.layer, S4_PARAMETER_C), layer_data(g.layer, S4_PARAMETER_C), g.C_tilde,
                         golden_list[i].forward, 0);
        } else {
            must_refuse(s4_layer_setup(context, g.layer, g.length), S4_ERROR_UNSUPPORTED, "diagonal");
        }
        golden_close(&g);
    }
    s4_context_destroy(context);
}

/* From plain C and from the golden C~. */
static int kernel(s4_context *context, const golden_entry *entry, golden_case *g, s4_dtype dtype)
{
    const s4_problem problem = problem_of(g->layer, S4_DIRECTION_KERNEL, dtype, 1, g->length, g->length);
    if (!session_offered(context, &problem))
        return 0;
    session s = session_open(context, &problem);
    const int64_t count = g->kernels * g->d_model * g->length;
    const double tolerance = kernel_tolerance(entry, dtype), *K = session_kernel(&s, g->layer);
    expect_close("K from C", count, K, g->K, tolerance, 0);
    if (g->K_direct)
        expect_close("K from C against the recurrence", count, K, g->K_direct, tolerance, 0);
    if (g->is_dplr) {
        layer_write_c(g->layer, g->C_tilde, g->length);
        expect_close("K from C~", count, session_kernel(&s, g->layer), g->K, tolerance, 0);
    }
    session_close(&s);
    return 1;
}

Test(golden, kernel)
{
    expect_compared(over_cases(kernel), golden_count);
}

/* Twice the step, half the length. A DPLR layer as the published code has it: its C~ stays that of the trained step,
 * which is not the layer's kernel at rate 2: without the option another one comes out. */
static int kernel_at_rate_2(s4_context *context, const golden_entry *entry, golden_case *g, s4_dtype dtype)
{
    const int64_t L = g->length / 2, count = g->kernels * g->d_model * L;
    if (!g->K_rate_2)
        return 0;
    s4_problem problem = problem_of(g->layer, S4_DIRECTION_KERNEL, dtype, 1, L, L);
    problem.rate = 2;
    problem.rate_parity = g->is_dplr;
    if (!session_offered(context, &problem))
        return 0;
    if (g->is_dplr)
        must(s4_layer_setup(context, g->layer, g->length));
    session s = session_open(context, &problem);
    expect_close("K at rate 2", count, session_kernel(&s, g->layer), g->K_rate_2, kernel_tolerance(entry, dtype), 0);
    session_close(&s);
    if (g->is_dplr) {
        problem.rate_parity = 0;
        s = session_open(context, &problem);
        const double off = distance(count, session_kernel(&s, g->layer), g->K_rate_2) / largest(count, g->K_rate_2);
        check(off > 1e-3 && off < 1, "[%s] the right kernel is %g from that of the parity option", about_text(), off);
        session_close(&s);
    }
    return 1;
}

Test(golden, kernel_at_rate_2)
{
    expect_compared(over_cases(kernel_at_rate_2), 2);
}

static int output(s4_context *context, const golden_entry *entry, golden_case *g, s4_dtype dtype)
{
    const s4_problem problem =
        problem_of(g->layer, S4_DIRECTION_FORWARD, dtype, g->batch, g->input_length, g->length);
    if (!session_offered(context, &problem))
        return 0;
    session s = session_open(context, &problem);
    expect_close("y", g->outputs, session_forward(&s, g->layer, 0, 0, g->u, NULL, NULL), g->y,
                 output_tolerance(entry, dtype), 0);
    session_close(&s);
    return 1;
}

Test(golden, output)
{
    expect_compared(over_cases(output), golden_count);
}

/* What chunks can do is what has states; a DPLR layer trains another leaf there. */
static int in_chunks(s4_context *context, const golden_entry *entry, golden_case *g, s4_dtype dtype)
{
    if (!g->state_in || g->input_length > g->length)
        return 0;
    s4_problem problem = problem_of(g->layer, S4_DIRECTION_FORWARD, dtype, g->batch, g->input_length, g->length);
    problem.algorithm = S4_ALGORITHM_CHUNKED;
    problem.states = 1;
    session s = session_open(context, &problem);
    double *state_out = numbers(g->states);
    expect_close("y", g->outputs, session_forward(&s, g->layer, 0, 0, g->u, NULL, NULL), g->y,
                 output_tolerance(entry, dtype), 0);
    const double *y = session_forward(&s, g->layer, 0, 0, g->u, g->state_in, state_out);
    expect_close("y from a state", g->outputs, y, g->state_y, output_tolerance(entry, dtype), 0);
    expect_close("state", g->states, state_out, g->state_out, output_tolerance(entry, dtype), 0);
    session_close(&s);
    if (g->is_dplr || !g->has_gradient)
        return 1;
    problem.direction = S4_DIRECTION_TRAINING;
    problem.states = 0;
    s = session_open(context, &problem);
    const gradients got = session_backward(&s, g->layer, 0, 0, g->u, g->G);
    expect_close_gradients(&got, &g->gradient, gradient_tolerance(entry, dtype));
    session_close(&s);
    return 1;
}

Test(golden, in_chunks)
{
    const int compared = over_cases(in_chunks);
    check(compared == 2 * CHUNKED_CASES, "%d compared, not %d", compared, 2 * CHUNKED_CASES);
}

static int states_of_a_convolution(s4_context *context, const golden_entry *entry, golden_case *g, s4_dtype dtype)
{
    s4_problem problem = problem_of(g->layer, S4_DIRECTION_FORWARD, dtype, g->batch, g->input_length, g->length);
    problem.states = 1;
    if (!g->state_in || !session_offered(context, &problem))
        return 0;
    session s = session_open(context, &problem);
    double *state_out = numbers(g->states);
    const double *y = session_forward(&s, g->layer, 0, 0, g->u, g->state_in, state_out);
    expect_close("y", g->outputs, y, g->state_y, output_tolerance(entry, dtype), 0);
    /* States are double whatever the dtype; u is single precision then. */
    expect_close("state", g->states, state_out, g->state_out, output_tolerance(entry, dtype), 0);
    session_close(&s);
    return 1;
}

#define STATE_CASES 28 /* not the two of dss, the two that cut their kernel, the two that are bidirectional */

Test(golden, states_of_a_convolution)
{
    expect_compared(over_cases(states_of_a_convolution), STATE_CASES);
}

static void step_one(s4_context *context, const golden_entry *entry, golden_case *g, s4_dtype dtype, s4_step_mode mode)
{
    s4_problem problem = problem_of(g->layer, S4_DIRECTION_STEP, dtype, g->batch, g->input_length, 0);
    problem.step_mode = mode;
    about("%s %s %s", entry->name, s4_dtype_name(dtype), s4_step_mode_name(mode));
    session s = session_open(context, &problem);
    double *state = numbers_copy(g->states, g->state_in);
    const double *y = session_step(&s, g->layer, 0, 0, g->u, state);
    expect_close("y", g->outputs, y, g->state_y, output_tolerance(entry, dtype), 0);
    expect_close("state", g->states, state, g->state_out, output_tolerance(entry, dtype), 0);
    session_close(&s);
}

static int steps(s4_context *context, const golden_entry *entry, golden_case *g, s4_dtype dtype)
{
    if (!g->state_in)
        return 0;
    step_one(context, entry, g, dtype, S4_STEP_LINEAR);
    if (g->is_dplr)
        step_one(context, entry, g, dtype, S4_STEP_DENSE);
    return 1;
}

Test(golden, steps)
{
    expect_compared(over_cases(steps), STATE_CASES);
}

static int gradient(s4_context *context, const golden_entry *entry, golden_case *g, s4_dtype dtype)
{
    const s4_problem problem =
        problem_of(g->layer, S4_DIRECTION_TRAINING, dtype, g->batch, g->input_length, g->length);
    if (!g->has_gradient || !session_offered(context, &problem))
        return 0;
    if (g->is_dplr)
        must(s4_layer_setup(context, g->layer, g->length));
    session s = session_open(context, &problem);
    const gradients got = session_backward(&s, g->layer, 0, 0, g->u, g->G);
    expect_close_gradients(&got, &g->gradient, gradient_tolerance(entry, dtype));
    session_close(&s);
    return 1;
}

Test(golden, gradients)
{
    expect_compared(over_cases(gradient), golden_count - 1); /* the published code loses a term in one of dss */
}
