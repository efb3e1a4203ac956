/*
 * The library against the published S4 module: every golden case, everything that it holds, in double and in single
 * precision.
 */
#include <math.h>

#include "expect.h"
#include "golden.h"
#include "layers.h"
#include "tolerances.h"

static const double gradient_tolerance[] = {[S4_F32] = TOLERANCE_F32_GRADIENT, [S4_F64] = TOLERANCE_GRADIENT};

static double kernel_tolerance(const golden_entry *entry, s4_dtype dtype)
{
    return dtype == S4_F64 ? entry->forward : TOLERANCE_F32_KERNEL;
}

static double output_tolerance(const golden_entry *entry, s4_dtype dtype)
{
    return dtype == S4_F64 ? entry->forward : TOLERANCE_F32_OUTPUT;
}

Test(golden, discrete_system)
{
    s4_context *context = context_open();
    for (int i = 0; i < golden_count; i++) {
        about("%s", golden_list[i].name);
        golden_case g;
        golden_open(&golden_list[i], &g);
        const int64_t matrices = g.d_model * g.d_state * g.d_state * 2, vectors = g.d_model * g.d_state * 2;
        double *dA = numbers(matrices), *dB = numbers(vectors), *dA_L = numbers(matrices);
        must(s4_layer_discrete(context, g.layer, 1, dA, dB, g.length, dA_L));
        expect_close("dA", matrices, dA, g.dA, golden_list[i].forward, 0);
        expect_close("dB", vectors, dB, g.dB, golden_list[i].forward, 0);
        expect_close("dA_L", matrices, dA_L, g.dA_L, golden_list[i].forward, 0);
        golden_close(&g);
    }
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
        must(s4_layer_setup(context, g.layer, g.length));
        cr_assert_eq(s4_layer_length(g.layer), g.length);
        expect_close("C_tilde", layer_count(g.layer, S4_PARAMETER_C), layer_data(g.layer, S4_PARAMETER_C), g.C_tilde,
                     golden_list[i].forward, 0);
        golden_close(&g);
    }
    s4_context_destroy(context);
}

/* From plain C and from the golden C~. */
static void kernels(s4_context *context, s4_dtype dtype)
{
    for (int i = 0; i < golden_count; i++) {
        golden_case g;
        about("%s %s", golden_list[i].name, s4_dtype_name(dtype));
        golden_open(&golden_list[i], &g);
        const s4_problem problem =
            problem_of(g.layer, S4_DIRECTION_KERNEL, dtype, 1, g.length, g.length);
        session s = session_open(context, &problem);
        const double tolerance = kernel_tolerance(&golden_list[i], dtype);
        expect_close("K from C", g.d_model * g.length, session_kernel(&s, g.layer), g.K, tolerance, 0);
        layer_write_c(g.layer, g.C_tilde, g.length);
        expect_close("K from C~", g.d_model * g.length, session_kernel(&s, g.layer), g.K, tolerance, 0);
        session_close(&s);
        golden_close(&g);
    }
}

Test(golden, kernel)
{
    s4_context *context = context_open();
    kernels(context, S4_F64);
    kernels(context, S4_F32);
    s4_context_destroy(context);
}

static void outputs(s4_context *context, s4_dtype dtype)
{
    for (int i = 0; i < golden_count; i++) {
        golden_case g;
        about("%s %s", golden_list[i].name, s4_dtype_name(dtype));
        golden_open(&golden_list[i], &g);
        s4_problem problem =
            problem_of(g.layer, S4_DIRECTION_FORWARD, dtype, g.batch, g.input_length, g.length);
        session s = session_open(context, &problem);
        const int64_t count = g.batch * g.d_model * g.input_length;
        const double tolerance = output_tolerance(&golden_list[i], dtype);
        expect_close("y", count, session_forward(&s, g.layer, 0, 0, g.u, NULL, NULL), g.y, tolerance, 0);
        session_close(&s);
        golden_close(&g);
    }
}

Test(golden, output)
{
    s4_context *context = context_open();
    outputs(context, S4_F64);
    outputs(context, S4_F32);
    s4_context_destroy(context);
}

static void convolve_states(s4_context *context, const golden_entry *entry, golden_case *g, s4_dtype dtype)
{
    s4_problem problem = problem_of(g->layer, S4_DIRECTION_FORWARD, dtype, g->batch, g->input_length, g->length);
    problem.states = 1;
    session s = session_open(context, &problem);
    const int64_t states = g->batch * g->d_model * g->d_state, count = g->batch * g->d_model * g->input_length;
    double *state_out = numbers(states);
    double *y = session_forward(&s, g->layer, 0, 0, g->u, g->state_in, state_out);
    expect_close("y of a convolution with states", count, y, g->state_y, output_tolerance(entry, dtype), 0);
    /* States are double whatever the dtype; u is single precision then. */
    expect_close("state after a convolution", states, state_out, g->state_out, output_tolerance(entry, dtype), 0);
    session_close(&s);
}

static void step_states(s4_context *context, const golden_entry *entry, golden_case *g, s4_dtype dtype,
                        s4_step_mode mode)
{
    s4_problem problem = problem_of(g->layer, S4_DIRECTION_STEP, dtype, g->batch, g->input_length, 0);
    problem.step_mode = mode;
    session s = session_open(context, &problem);
    const int64_t states = g->batch * g->d_model * g->d_state, count = g->batch * g->d_model * g->input_length;
    double *state = numbers_copy(states, g->state_in);
    double *y = session_step(&s, g->layer, 0, 0, g->u, state);
    expect_close("y of steps", count, y, g->state_y, output_tolerance(entry, dtype), 0);
    expect_close("state after steps", states, state, g->state_out, output_tolerance(entry, dtype), 0);
    session_close(&s);
}

Test(golden, states)
{
    s4_context *context = context_open();
    int seen = 0;
    for (int i = 0; i < golden_count; i++) {
        golden_case g;
        about("%s", golden_list[i].name);
        golden_open(&golden_list[i], &g);
        if (g.state_in) {
            seen++;
            for (int d = 0; d < 2; d++) {
                const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
                about("%s %s convolution", golden_list[i].name, s4_dtype_name(dtype));
                convolve_states(context, &golden_list[i], &g, dtype);
                for (int m = S4_STEP_LINEAR; m <= S4_STEP_DENSE; m++) {
                    about("%s %s %s", golden_list[i].name, s4_dtype_name(dtype), s4_step_mode_name((s4_step_mode)m));
                    step_states(context, &golden_list[i], &g, dtype, (s4_step_mode)m);
                }
            }
        }
        golden_close(&g);
    }
    cr_assert_eq(seen, golden_count - 1); /* all but the one that cuts its kernel */
    s4_context_destroy(context);
}

Test(golden, gradients)
{
    s4_context *context = context_open();
    for (int i = 0; i < golden_count; i++)
        for (int d = 0; d < 2; d++) {
            const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
            golden_case g;
            about("%s %s", golden_list[i].name, s4_dtype_name(dtype));
            golden_open(&golden_list[i], &g);
            must(s4_layer_setup(context, g.layer, g.length));
            const s4_problem problem =
                problem_of(g.layer, S4_DIRECTION_TRAINING, dtype, g.batch, g.input_length, g.length);
            session s = session_open(context, &problem);
            const gradients got = session_backward(&s, g.layer, 0, 0, g.u, g.G);
            expect_close_gradients(&got, &g.gradient, gradient_tolerance[dtype]);
            session_close(&s);
            golden_close(&g);
        }
    s4_context_destroy(context);
}
