/*
 * Options of DPLR layers and of both kinds: a step for every mode, bandlimits, rates and their parity with the published
 * code.
 */
#include <math.h>

#include "compare.h"
#include "expect.h"
#include "layers.h"
#include "naive.h"
#include "place.h"
#include "tolerances.h"

static const layer_shape untied = {.d_model = 4, .d_state = 6, .rank = 2, .n_ssm = 2, .plain_transforms = 1,
                                   .dt_untied = 1};

/* ---- a step for every mode ------------------------------------------------------------------------------------------ */

static s4_context *context_for_untied(void)
{
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&untied, 1);
    const s4_problem problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, 4, 4);
    session_required(context, layer, &problem);
    s4_layer_destroy(layer);
    return context;
}

Test(options, untied_kernels)
{
    static const int64_t lengths[] = {1, 2, 7, 64, 101};
    s4_context *context = context_for_untied();
    for (int rank = 1; rank <= S4_RANK_MAX; rank++)
        for (int i = 0; i < 5; i++) {
            about("rank %d, length %d", rank, (int)lengths[i]);
            layer_shape shape = untied;
            shape.rank = rank;
            s4_layer *layer = layer_random(&shape, (uint64_t)(10 * rank + i));
            compare_kernel(context, layer, i == 3 ? 2 : 1, lengths[i], TOLERANCE_FORWARD_RANK);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

Test(options, untied_gradients)
{
    static const compare_sizes sizes[] = {{2, 12, 12}, {1, 5, 9}, {1, 1, 1}};
    s4_context *context = context_for_untied();
    for (int rank = 1; rank <= 3; rank++)
        for (int i = 0; i < 3; i++) {
            about("rank %d, length %d", rank, (int)sizes[i].length);
            layer_shape shape = untied;
            shape.rank = rank;
            s4_layer *layer = layer_random(&shape, (uint64_t)(10 * rank + i));
            must(s4_layer_setup(context, layer, sizes[i].kernel_length));
            compare_gradients(context, layer, &sizes[i], TOLERANCE_GRADIENT_DIFFERENCE);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

Test(options, untied_setup_and_steps)
{
    static const compare_sizes sizes = {2, 30, 30};
    s4_context *context = context_for_untied();
    s4_layer *layer = layer_random(&untied, 4);
    const int64_t count = layer_count(layer, S4_PARAMETER_C), N = untied.d_state, square = untied.d_model * N * N * 2;
    const struct ref_layer reference = layer_reference(layer);
    double *expected = numbers(count), *dA = numbers(square), *expected_dA = numbers(square),
           *dB = numbers(untied.d_model * N * 2), *expected_dB = numbers(untied.d_model * N * 2);
    for (int h = 0; h < untied.d_model; h++)
        ref_discretise(&reference, h, &expected_dA[h * N * N * 2], &expected_dB[h * N * 2]);
    must(s4_layer_discrete(context, layer, 1, dA, dB, 0, NULL));
    expect_close("dA", square, dA, expected_dA, TOLERANCE_FORWARD_RANK, 0);
    expect_close("dB", untied.d_model * N * 2, dB, expected_dB, TOLERANCE_FORWARD_RANK, 0);
    for (int mode = S4_STEP_LINEAR; mode <= S4_STEP_DENSE; mode++) {
        about("%s", s4_step_mode_name((s4_step_mode)mode));
        compare_steps(context, layer, (s4_step_mode)mode, &sizes, TOLERANCE_STATE);
    }
    const double *c = numbers_copy(count, layer_data(layer, S4_PARAMETER_C));
    ref_c_tilde(&reference, 13, expected);
    must(s4_layer_setup(context, layer, 13));
    expect_close("C~", count, layer_data(layer, S4_PARAMETER_C), expected, TOLERANCE_FORWARD_RANK, 0);
    layer_write_c(layer, expected, 13);
    must(s4_layer_setup(context, layer, 0));
    expect_close("C", count, layer_data(layer, S4_PARAMETER_C), c, TOLERANCE_UNDO, 0);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* ---- bandlimits ---------------------------------------------------------------------------------------------------- */

/* A limit that takes some modes out and leaves some. */
static s4_layer *limited(s4_mode mode, s4_discretisation method, uint64_t seed)
{
    const layer_shape shape = {.mode = mode, .discretisation = method, .d_model = 3, .d_state = 8,
                               .rank = mode == S4_MODE_DPLR, .plain_transforms = 1, .bandlimit = 0.2};
    s4_layer *layer = layer_random(&shape, seed);
    layer_shape free_shape = shape;
    free_shape.bandlimit = 0;
    s4_layer *free_layer = layer_random(&free_shape, seed);
    expect_other_bits("K without a limit", 3 * 8, naive_kernels(free_layer, 1, 8), naive_kernels(layer, 1, 8));
    cr_assert(largest(3 * 8, naive_kernels(layer, 1, 8)) > 0, "nothing is left");
    s4_layer_destroy(free_layer);
    return layer;
}

Test(options, bandlimit)
{
    static const compare_sizes sizes = {2, 12, 12};
    s4_context *context = context_open();
    for (int i = 0; i < 4; i++) {
        const s4_mode mode = i == 0 ? S4_MODE_DPLR : S4_MODE_DIAG;
        s4_layer *layer = limited(mode, i == 0 ? S4_BILINEAR : (s4_discretisation)(i - 1), (uint64_t)i);
        const char *name = s4_discretisation_name(layer_options(layer).discretisation);
        about("%s %s, bandlimit, kernel", s4_mode_name(mode), name);
        compare_kernel(context, layer, 1, 20, TOLERANCE_FORWARD);
        /* The limit is that of the trained step: at another rate the same modes are out. */
        about("%s %s, bandlimit, rate 2", s4_mode_name(mode), name);
        compare_kernel(context, layer, 2, 20, TOLERANCE_FORWARD);
        about("%s %s, bandlimit, output", s4_mode_name(mode), name);
        compare_output(context, layer, &sizes, TOLERANCE_FORWARD);
        if (i < 3) {
            about("%s %s, bandlimit, steps", s4_mode_name(mode), name);
            compare_steps(context, layer, S4_STEP_LINEAR, &sizes, TOLERANCE_STATE);
        }
        about("%s %s, bandlimit, gradients", s4_mode_name(mode), name);
        layer_make_trainable(context, layer, 12);
        compare_gradients(context, layer, &sizes, TOLERANCE_GRADIENT_DIFFERENCE);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* What is stored keeps all its modes: set-up and back. */
Test(options, bandlimit_leaves_what_is_stored)
{
    s4_context *context = context_open();
    s4_layer *layer = limited(S4_MODE_DPLR, S4_BILINEAR, 9);
    const int64_t count = layer_count(layer, S4_PARAMETER_C);
    const double *c = numbers_copy(count, layer_data(layer, S4_PARAMETER_C));
    const struct ref_layer reference = layer_reference(layer);
    double *expected = numbers(count);
    ref_c_tilde(&reference, 13, expected);
    must(s4_layer_setup(context, layer, 13));
    expect_close("C~", count, layer_data(layer, S4_PARAMETER_C), expected, TOLERANCE_FORWARD, 0);
    layer_write_c(layer, expected, 13);
    must(s4_layer_setup(context, layer, 0));
    expect_close("C", count, layer_data(layer, S4_PARAMETER_C), c, TOLERANCE_UNDO, 0);
    s4_layer_destroy(layer);
    static const double bad[] = {-0.1, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        s4_layer_options options;
        S4_INIT(&options);
        options.d_model = 2;
        options.d_state = 4;
        options.bandlimit = bad[i];
        must_refuse(s4_layer_create(&options, &layer), S4_ERROR_ARGUMENT, "bandlimit");
    }
    s4_context_destroy(context);
}

/* ---- rates ---------------------------------------------------------------------------------------------------------- */

/* C~ of another rate is that of rate * dt: exact, from C, from a kept C and from an imported C~. */
Test(options, rates)
{
    static const double rates[] = {0.5, 2, 3.7};
    static const layer_shape shape = {.d_model = 2, .d_state = 8, .rank = 1, .plain_transforms = 1};
    enum { L = 40 };
    s4_context *context = context_open();
    for (int i = 0; i < 3; i++) {
        about("rate %g", rates[i]);
        s4_layer *layer = layer_random(&shape, 5);
        const double *expected = naive_kernels(layer, rates[i], L);
        s4_problem problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, L, L);
        problem.rate = rates[i];
        session s = session_open(context, &problem);
        expect_close("K from C", 2 * L, session_kernel(&s, layer), expected, TOLERANCE_FORWARD, 0);
        must(s4_layer_setup(context, layer, 100));
        expect_close("K from a kept C", 2 * L, session_kernel(&s, layer), expected, TOLERANCE_FORWARD, 0);
        layer_write_c(layer, numbers_copy(16, layer_data(layer, S4_PARAMETER_C)), 100);
        expect_close("K from C~", 2 * L, session_kernel(&s, layer), expected, TOLERANCE_UNDO, 0);
        session_close(&s);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* Parity takes the C~ that is stored, and only for the length that goes with it. */
Test(options, rate_parity_is_for_one_length)
{
    static const layer_shape shape = {.d_model = 2, .d_state = 8, .rank = 1, .plain_transforms = 1};
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shape, 5);
    s4_problem problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, 20, 20);
    problem.rate = 2;
    problem.rate_parity = 1;
    session s = session_open(context, &problem);
    must_refuse(s4_plan_refresh(s.plan, layer, s.workspace), S4_ERROR_ARGUMENT, "rate_parity"); /* plain C */
    must(s4_layer_setup(context, layer, 50));
    must_refuse(s4_plan_refresh(s.plan, layer, s.workspace), S4_ERROR_ARGUMENT, "25");
    must(s4_layer_setup(context, layer, 40));
    must(s4_plan_refresh(s.plan, layer, s.workspace));
    session_close(&s);
    problem.rate = 1; /* at rate 1 there is no difference */
    problem.kernel_length = problem.length = 40;
    s = session_open(context, &problem);
    const double *parity = session_kernel(&s, layer);
    session_close(&s);
    problem.rate_parity = 0;
    s = session_open(context, &problem);
    expect_same_bits("K", 80, parity, session_kernel(&s, layer));
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* A diagonal layer trains at any rate: as one whose steps are that much longer does at rate 1. */
Test(options, training_at_another_rate)
{
    enum { B = 2, H = 2, L = 12 };
    s4_context *context = context_open();
    random_source random = {7};
    const double *u = random_samples(&random, B * H * L), *G = random_samples(&random, B * H * L);
    for (int method = 0; method < 3; method++) {
        about("%s", s4_discretisation_name((s4_discretisation)method));
        const layer_shape shape = {.mode = S4_MODE_DIAG, .discretisation = (s4_discretisation)method, .d_model = H,
                                   .d_state = 6, .plain_transforms = 1};
        s4_layer *layer = layer_random(&shape, 8);
        gradients g[2];
        for (int i = 0; i < 2; i++) {
            s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, S4_F64, B, L, L);
            problem.rate = i == 0 ? 2.5 : 1;
            session_required(context, layer, &problem);
            session s = session_open(context, &problem);
            g[i] = session_backward(&s, layer, 0, 0, u, G);
            session_close(&s);
            for (int h = 0; h < H; h++) layer_data(layer, S4_PARAMETER_INV_DT)[h] += log(2.5);
            must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        }
        expect_close_gradients(&g[0], &g[1], TOLERANCE_GRADIENT);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}
