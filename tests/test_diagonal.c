/*
 * Diagonal layers, by zoh, bilinear and dss, against their definition: kernels at every kind of length, outputs, steps,
 * states, gradients, and what they do not have.
 */
#include <math.h>

#include "compare.h"
#include "expect.h"
#include "layers.h"
#include "naive.h"
#include "place.h"
#include "tolerances.h"

#define METHODS 3

static layer_shape shape_of(s4_discretisation method)
{
    const layer_shape shape = {.mode = S4_MODE_DIAG, .discretisation = method, .d_model = 2, .d_state = 6,
                               .plain_transforms = 1};
    return shape;
}

/* Opens a context, and skips the test where the place has no diagonal layers. */
static s4_context *context_for_diagonal(void)
{
    s4_context *context = context_open();
    const layer_shape shape = shape_of(S4_ZOH);
    s4_layer *layer = layer_random(&shape, 1);
    const s4_problem problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, 4, 4);
    session_required(context, layer, &problem);
    s4_layer_destroy(layer);
    return context;
}

/* ---- forward ------------------------------------------------------------------------------------------------------ */

Test(diagonal, lengths)
{
    static const int64_t lengths[] = {1, 2, 3, 7, 8, 13, 31, 64, 101, 1801, 14113};
    s4_context *context = context_for_diagonal();
    for (int method = 0; method < METHODS; method++)
        for (int i = 0; i < 11; i++) {
            about("%s, length %d", s4_discretisation_name((s4_discretisation)method), (int)lengths[i]);
            const layer_shape shape = shape_of((s4_discretisation)method);
            s4_layer *layer = layer_random(&shape, (uint64_t)(10 * i + method));
            compare_kernel(context, layer, 1, lengths[i], TOLERANCE_FORWARD);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* Few and many modes, shared copies, a step for every mode, other rates. */
Test(diagonal, shapes)
{
    static const int64_t d_state[] = {2, 4, 64};
    static const double rates[] = {1, 2, 0.5};
    s4_context *context = context_for_diagonal();
    for (int method = 0; method < METHODS; method++)
        for (int i = 0; i < 3; i++)
            for (int untied = 0; untied < 2; untied++) {
                about("%s, N = %d, untied %d, rate %g", s4_discretisation_name((s4_discretisation)method),
                      (int)d_state[i], untied, rates[i]);
                layer_shape shape = shape_of((s4_discretisation)method);
                shape.d_model = 6;
                shape.n_ssm = 3;
                shape.d_state = d_state[i];
                shape.dt_untied = untied;
                s4_layer *layer = layer_random(&shape, (uint64_t)i);
                compare_kernel(context, layer, rates[i], 50, TOLERANCE_FORWARD);
                s4_layer_destroy(layer);
            }
    s4_context_destroy(context);
}

/* dt |Lambda| under 1e-4: (e^a - 1)/a without the loss of e^a - 1, and Lambda = 0, where it is 1. */
Test(diagonal, small_steps)
{
    s4_context *context = context_for_diagonal();
    for (int method = 0; method < 2; method++) { /* dss divides by |x|^2 + 1e-7: nothing is left of a small x */
        about("%s", s4_discretisation_name((s4_discretisation)method));
        layer_shape shape = shape_of((s4_discretisation)method);
        shape.plain_transforms = 0;
        shape.dt_transform = S4_TRANSFORM_EXP;
        s4_layer *layer = layer_random(&shape, 3);
        layer_data(layer, S4_PARAMETER_INV_DT)[0] = log(1e-5);
        layer_data(layer, S4_PARAMETER_INV_DT)[1] = log(1e-3);
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        compare_kernel(context, layer, 1, 40, TOLERANCE_FORWARD);
        about("%s, Lambda = 0", s4_discretisation_name((s4_discretisation)method));
        layer_data(layer, S4_PARAMETER_A_REAL)[1] = layer_data(layer, S4_PARAMETER_A_IMAG)[1] = 0;
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        compare_kernel(context, layer, 1, 40, TOLERANCE_FORWARD);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* Values by hand (tests/golden/README.md): N = 4, B = 1, C = (1 + 0.5i, 0.25 - i), dt = 0.05. */
Test(diagonal, by_hand)
{
    static const struct {
        s4_init init;
        s4_discretisation method;
        double K[3];
    } cases[] = {
        {S4_INIT_DIAG_LIN, S4_ZOH, {0.115641179620568, 0.097282693707354, 0.079737185534164}},
        {S4_INIT_DIAG_LIN, S4_BILINEAR, {0.115693677367253, 0.097394217202172, 0.079897738908319}},
        {S4_INIT_DIAG_INV, S4_ZOH, {0.12649117019098, 0.126843580176767, 0.123338532133884}},
        {S4_INIT_DIAG_REAL, S4_ZOH, {0.121331796489582, 0.114310679169003, 0.10773701632087}},
    };
    static const double C[] = {1, 0.5, 0.25, -1};
    s4_context *context = context_for_diagonal();
    for (int i = 0; i < 4; i++) {
        about("%s %s", s4_init_name(cases[i].init), s4_discretisation_name(cases[i].method));
        s4_layer_options options;
        S4_INIT(&options);
        options.mode = S4_MODE_DIAG;
        options.d_model = 1;
        options.d_state = 4;
        options.discretisation = cases[i].method;
        options.transforms_given = 1; /* all three none */
        s4_init_options init;
        S4_INIT(&init);
        init.init = cases[i].init;
        s4_layer *layer;
        must(s4_layer_create(&options, &layer));
        must(s4_layer_init(context, layer, &init));
        memcpy(layer_data(layer, S4_PARAMETER_C), C, sizeof C);
        layer_data(layer, S4_PARAMETER_INV_DT)[0] = 0.05;
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        const s4_problem problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, 3, 3);
        session s = session_open(context, &problem);
        expect_close("K", 3, session_kernel(&s, layer), cases[i].K, TOLERANCE_FORWARD, 0);
        session_close(&s);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* A layer of growing modes: its exponents are counted from the last sample. */
static s4_layer *growing(uint64_t seed)
{
    layer_shape shape = shape_of(S4_DSS);
    shape.plain_transforms = 0;
    shape.dt_transform = S4_TRANSFORM_EXP;
    s4_layer *layer = layer_random(&shape, seed);
    for (int64_t i = 0; i < layer_count(layer, S4_PARAMETER_A_REAL); i += 2)
        layer_data(layer, S4_PARAMETER_A_REAL)[i] *= -1;
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
    return layer;
}

Test(diagonal, dss_of_growing_modes)
{
    static const int64_t lengths[] = {1, 2, 13, 40};
    s4_context *context = context_for_diagonal();
    s4_layer *layer = growing(4);
    for (int i = 0; i < 4; i++) {
        about("length %d", (int)lengths[i]);
        compare_kernel(context, layer, 1, lengths[i], TOLERANCE_FORWARD);
    }
    about("far too long for e^(aL) itself");
    layer_data(layer, S4_PARAMETER_INV_DT)[0] = layer_data(layer, S4_PARAMETER_INV_DT)[1] = log(0.5);
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
    const s4_problem problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, 4000, 4000);
    session s = session_open(context, &problem);
    cr_assert(isfinite(largest(2 * 4000, session_kernel(&s, layer))), "a growing mode overflows");
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* A dss kernel belongs to its length: it is no prefix of a longer one; the others are. */
Test(diagonal, prefixes)
{
    s4_context *context = context_for_diagonal();
    for (int method = 0; method < METHODS; method++) {
        about("%s", s4_discretisation_name((s4_discretisation)method));
        layer_shape shape = shape_of((s4_discretisation)method);
        shape.d_model = 1;
        s4_layer *layer = layer_random(&shape, 5);
        s4_problem problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, 16, 16);
        session s = session_open(context, &problem);
        const double *whole = session_kernel(&s, layer);
        session_close(&s);
        problem.length = problem.kernel_length = 8;
        s = session_open(context, &problem);
        const double off = distance(8, session_kernel(&s, layer), whole) / largest(16, whole);
        check(method == S4_DSS ? off > 1e-3 : off <= TOLERANCE_FORWARD, "[%s] 8 of 16 samples are off by %.3g",
              about_text(), off);
        session_close(&s);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

Test(diagonal, outputs)
{
    static const compare_sizes sizes[] = {{2, 30, 30}, {1, 12, 40}, {2, 40, 12}, {1, 1, 1}};
    s4_context *context = context_for_diagonal();
    for (int method = 0; method < METHODS; method++)
        for (int i = 0; i < 4; i++) {
            about("%s, length %d, kernel %d", s4_discretisation_name((s4_discretisation)method), (int)sizes[i].length,
                  (int)sizes[i].kernel_length);
            const layer_shape shape = shape_of((s4_discretisation)method);
            s4_layer *layer = layer_random(&shape, (uint64_t)i);
            compare_output(context, layer, &sizes[i], TOLERANCE_FORWARD);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* ---- steps and states ---------------------------------------------------------------------------------------------- */

Test(diagonal, steps_equal_convolution)
{
    static const compare_sizes sizes = {2, 45, 45};
    static const s4_step_mode modes[] = {S4_STEP_LINEAR, S4_STEP_DIAGONAL};
    s4_context *context = context_for_diagonal();
    for (int method = 0; method < 2; method++)
        for (int untied = 0; untied < 2; untied++)
            for (int m = 0; m < 2; m++) {
                about("%s, untied %d, %s", s4_discretisation_name((s4_discretisation)method), untied,
                      s4_step_mode_name(modes[m]));
                layer_shape shape = shape_of((s4_discretisation)method);
                shape.dt_untied = untied;
                s4_layer *layer = layer_random(&shape, 6);
                compare_steps(context, layer, modes[m], &sizes, TOLERANCE_STATE);
                s4_layer_destroy(layer);
            }
    s4_context_destroy(context);
}

/* dA, dB and a power of dA are (H,n): with them the kernel is a recurrence of numbers. */
Test(diagonal, discrete)
{
    enum { H = 2, MODES = 3, L = 12 };
    s4_context *context = context_open();
    for (int method = 0; method < 2; method++) {
        about("%s", s4_discretisation_name((s4_discretisation)method));
        const layer_shape shape = shape_of((s4_discretisation)method);
        s4_layer *layer = layer_random(&shape, 7);
        const double *expected = naive_kernels(layer, 2, L), *C = layer_data(layer, S4_PARAMETER_C);
        double dA[H * MODES * 2], dB[H * MODES * 2], power[H * MODES * 2], K[H * L] = {0}, last[H * MODES * 2];
        must(s4_layer_discrete(context, layer, 2, dA, dB, L - 1, power));
        for (int i = 0; i < H * MODES; i++) {
            double re = 1, im = 0;
            for (int l = 0; l < L; l++) {
                const double b_re = re * dB[2 * i] - im * dB[2 * i + 1], b_im = re * dB[2 * i + 1] + im * dB[2 * i];
                K[i / MODES * L + l] += 2 * (C[2 * i] * b_re - C[2 * i + 1] * b_im);
                last[2 * i] = re;
                last[2 * i + 1] = im;
                const double next = re * dA[2 * i] - im * dA[2 * i + 1];
                im = re * dA[2 * i + 1] + im * dA[2 * i];
                re = next;
            }
        }
        expect_close("K from dA and dB", H * L, K, expected, TOLERANCE_FORWARD, 0);
        expect_close("dA to the power", H * MODES * 2, power, last, TOLERANCE_FORWARD, 0);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* ---- gradients ------------------------------------------------------------------------------------------------------ */

Test(diagonal, gradients)
{
    static const compare_sizes sizes[] = {{2, 10, 10}, {1, 6, 11}, {2, 11, 6}, {1, 1, 1}, {1, 16, 16}};
    s4_context *context = context_for_diagonal();
    for (int method = 0; method < METHODS; method++)
        for (int untied = 0; untied < 2; untied++)
            for (int i = 0; i < 5; i++) {
                about("%s, untied %d, length %d, kernel %d", s4_discretisation_name((s4_discretisation)method), untied,
                      (int)sizes[i].length, (int)sizes[i].kernel_length);
                layer_shape shape = shape_of((s4_discretisation)method);
                shape.n_ssm = 1;
                shape.dt_untied = untied;
                /* K[0] of dss at length 1 is C B / Lambda but for the 1e-7: its gradient by dt is rounding. */
                compare_sizes size = sizes[i];
                if (method == S4_DSS && size.kernel_length == 1)
                    size.length = size.kernel_length = 2;
                s4_layer *layer = layer_random(&shape, (uint64_t)(20 + i));
                compare_gradients(context, layer, &size, TOLERANCE_GRADIENT_DIFFERENCE);
                s4_layer_destroy(layer);
            }
    s4_context_destroy(context);
}

Test(diagonal, gradients_of_growing_modes)
{
    static const compare_sizes sizes[] = {{2, 10, 10}, {1, 2, 2}};
    s4_context *context = context_for_diagonal();
    for (int i = 0; i < 2; i++) {
        about("length %d", (int)sizes[i].length);
        s4_layer *layer = growing(8);
        compare_gradients(context, layer, &sizes[i], TOLERANCE_GRADIENT_DIFFERENCE);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

Test(diagonal, gradients_through_transforms)
{
    static const compare_sizes sizes = {1, 8, 8};
    s4_context *context = context_for_diagonal();
    for (int t = S4_TRANSFORM_NONE; t <= S4_TRANSFORM_SOFTPLUS; t++)
        for (int which = 0; which < 3; which++) {
            about("transform %s of %s", s4_transform_name((s4_transform)t),
                  which == 0 ? "inv_dt" : which == 1 ? "A_real" : "A_imag");
            layer_shape shape = shape_of(S4_ZOH);
            shape.plain_transforms = 0;
            shape.dt_transform = which == 0 ? (s4_transform)t : S4_TRANSFORM_EXP;
            shape.real_transform = which == 1 ? (s4_transform)t : S4_TRANSFORM_EXP;
            shape.imag_transform = which == 2 ? (s4_transform)t : S4_TRANSFORM_NONE;
            s4_layer *layer = layer_random(&shape, (uint64_t)(60 + t));
            compare_gradients(context, layer, &sizes, TOLERANCE_GRADIENT_DIFFERENCE);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* A mode without damping or frequency, and a step so small that the series of (e^a - 1)/a is what is left. */
Test(diagonal, gradients_near_zero)
{
    static const compare_sizes sizes = {1, 8, 8};
    s4_context *context = context_for_diagonal();
    for (int method = 0; method < 2; method++) {
        about("%s", s4_discretisation_name((s4_discretisation)method));
        layer_shape shape = shape_of((s4_discretisation)method);
        shape.plain_transforms = 0;
        shape.dt_transform = S4_TRANSFORM_EXP;
        s4_layer *layer = layer_random(&shape, 9);
        layer_data(layer, S4_PARAMETER_INV_DT)[0] = log(1e-4);
        layer_data(layer, S4_PARAMETER_A_REAL)[1] = 1e-3;
        layer_data(layer, S4_PARAMETER_A_IMAG)[1] = 0;
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        /* (e^a - 1)/Lambda loses digits in the definition too, even in long double. */
        compare_gradients(context, layer, &sizes, TOLERANCE_GRADIENT_NEAR_ZERO);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* A pole that is 0: dt Lambda = -2 by bilinear. */
Test(diagonal, pole_at_zero)
{
    static const compare_sizes sizes = {1, 40, 40};
    s4_context *context = context_for_diagonal();
    layer_shape shape = shape_of(S4_BILINEAR);
    shape.plain_transforms = 0;
    shape.dt_transform = S4_TRANSFORM_EXP;
    s4_layer *layer = layer_random(&shape, 9);
    layer_data(layer, S4_PARAMETER_INV_DT)[0] = 0;
    layer_data(layer, S4_PARAMETER_A_REAL)[0] = 2;
    layer_data(layer, S4_PARAMETER_A_IMAG)[0] = 0;
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
    compare_gradients(context, layer, &sizes, TOLERANCE_GRADIENT_DIFFERENCE);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* ---- what there is not ---------------------------------------------------------------------------------------------- */

Test(diagonal, refused)
{
    s4_context *context = context_open();
    const layer_shape zoh = shape_of(S4_ZOH), dss = shape_of(S4_DSS);
    s4_layer *layer = layer_random(&zoh, 1), *kernel_only = layer_random(&dss, 1);
    s4_plan *plan;
    must_refuse(s4_layer_setup(context, layer, 8), S4_ERROR_UNSUPPORTED, "diagonal");
    must_refuse(s4_layer_discrete(context, kernel_only, 1, numbers(12), NULL, 0, NULL), S4_ERROR_UNSUPPORTED, "dss");
    s4_problem problem = problem_of(layer, S4_DIRECTION_STEP, S4_F64, 1, 8, 0);
    problem.step_mode = S4_STEP_DENSE;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_UNSUPPORTED, "dense");
    problem = problem_of(kernel_only, S4_DIRECTION_STEP, S4_F64, 1, 8, 0);
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_UNSUPPORTED, "dss");
    problem = problem_of(kernel_only, S4_DIRECTION_FORWARD, S4_F64, 1, 8, 8);
    problem.states = 1;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_UNSUPPORTED, "dss");
    problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, 8, 8);
    problem.rank = 1;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_ARGUMENT, "rank");
    problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, 8, 8);
    problem.discretisation = S4_DSS + 1;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_ARGUMENT, "discretisation");
    problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, 8, 8);
    problem.mode = S4_MODE_DPLR;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_UNSUPPORTED, "zoh");
    s4_layer_destroy(layer);
    s4_layer_destroy(kernel_only);
    s4_context_destroy(context);
}

/* Kernels of more samples than the sums over them take at a time. */
Test(diagonal, gradients_of_long_kernels)
{
    static const compare_sizes sizes = {1, 1100, 1100}; /* more than a panel wide, and a last row that is not full */
    s4_context *context = context_for_diagonal();
    for (int method = 0; method < METHODS; method++) {
        about("%s", s4_discretisation_name((s4_discretisation)method));
        layer_shape shape = shape_of((s4_discretisation)method);
        shape.d_model = shape.n_ssm = 1;
        s4_layer *layer = layer_random(&shape, 10);
        compare_gradients(context, layer, &sizes, TOLERANCE_GRADIENT_DIFFERENCE);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}
