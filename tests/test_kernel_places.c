/*
 * The kernel stage of the place of the environment against that of the CPU, forward and backward: every kind of layer
 * at every kind of length, and what both say of kernels that are not finite.
 */
#include <math.h>
#include <stdio.h>

#include "expect.h"
#include "layers.h"
#include "place.h"
#include "session.h"
#include "tolerances.h"

#define DPLR .mode = S4_MODE_DPLR, .plain_transforms = 1
#define DIAG(method) .mode = S4_MODE_DIAG, .discretisation = S4_##method, .plain_transforms = 1

/* Five channels of some copies, so that kernels fill tiles that do not end with a channel. */
static const layer_shape shapes[] = {
    {DPLR, .d_model = 5, .d_state = 8, .rank = 1},
    {DPLR, .d_model = 5, .d_state = 6, .rank = 2, .n_ssm = 1, .channels = 3},
    {DPLR, .d_model = 5, .d_state = 4, .rank = 3, .channels = 2, .bidirectional = 1},
    {DPLR, .d_model = 4, .d_state = 10, .rank = 4, .n_ssm = 2, .dt_untied = 1},
    {DPLR, .d_model = 3, .d_state = 6, .rank = 1, .bidirectional = 1, .dt_untied = 1},
    {DPLR, .d_model = 1, .d_state = 2, .rank = 2, .channels = 2},
    {DIAG(BILINEAR), .d_model = 5, .d_state = 8},
    {DIAG(BILINEAR), .d_model = 4, .d_state = 6, .n_ssm = 2, .channels = 3, .bidirectional = 1, .dt_untied = 1},
    {DIAG(ZOH), .d_model = 5, .d_state = 10, .n_ssm = 1, .channels = 2},
    {DIAG(ZOH), .d_model = 3, .d_state = 6, .bidirectional = 1, .dt_untied = 1},
    {DIAG(DSS), .d_model = 4, .d_state = 8, .channels = 2, .n_ssm = 2},
    {DIAG(DSS), .d_model = 3, .d_state = 4, .bidirectional = 1, .dt_untied = 1},
};
#define SHAPES (int)(sizeof shapes / sizeof shapes[0])

static const int64_t lengths[] = {1, 2, 3, 8, 31, 64, 1000};
#define LENGTHS (int)(sizeof lengths / sizeof lengths[0])

static void say(const layer_shape *s, int64_t length, s4_dtype dtype)
{
    about("%s %s, rank %d, %d channels%s%s, length %d, %s", s4_mode_name(s->mode),
          s4_discretisation_name(s->discretisation), (int)s->rank, s->channels ? (int)s->channels : 1,
          s->bidirectional ? ", bidirectional" : "", s->dt_untied ? ", untied" : "", (int)length, s4_dtype_name(dtype));
}

static s4_context *context_of_gpu(void)
{
    if (!place_has_gpu()) cr_skip_test("no GPU place in this run");
    return context_open();
}

/* A dss layer has modes that grow, too. */
static s4_layer *layer_of(const layer_shape *given, uint64_t seed)
{
    layer_shape shape = *given;
    if (shape.discretisation != S4_DSS) return layer_random(&shape, seed);
    shape.plain_transforms = 0;
    shape.dt_transform = S4_TRANSFORM_EXP;
    s4_layer *layer = layer_random(&shape, seed);
    for (int64_t i = 0; i < layer_count(layer, S4_PARAMETER_A_REAL); i += 3)
        layer_data(layer, S4_PARAMETER_A_REAL)[i] *= -1;
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
    return layer;
}

static void compare_kernels(s4_context *context, s4_layer *layer, int64_t length, s4_dtype dtype)
{
    s4_problem problem = problem_of(layer, S4_DIRECTION_KERNEL, dtype, 1, length, length);
    const int64_t count = layer_kernels(layer) * problem.d_model * length;
    session s = session_open(context, &problem);
    const double *got = session_kernel(&s, layer);
    session_close(&s);
    must(s4_placement_parse("cpu", &problem.placement));
    s = session_open(context, &problem);
    expect_close("K", count, got, session_kernel(&s, layer),
                 dtype == S4_F64 ? TOLERANCE_PLACES_KERNEL : TOLERANCE_F32_KERNEL, 0);
    session_close(&s);
}

Test(kernel_places, kernels)
{
    s4_context *context = context_of_gpu();
    for (int k = 0; k < SHAPES; k++)
        for (int i = 0; i < LENGTHS; i++) {
            s4_layer *layer = layer_of(&shapes[k], (uint64_t)(10 * k + i));
            for (int d = S4_F32; d <= S4_F64; d++) {
                say(&shapes[k], lengths[i], (s4_dtype)d);
                compare_kernels(context, layer, lengths[i], (s4_dtype)d);
            }
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

static void compare_backward(s4_context *context, s4_layer *layer, int64_t length, s4_dtype dtype)
{
    s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, dtype, 2, length, length);
    if (!session_offered(context, &problem)) return;
    const int64_t inputs = 2 * problem.d_model * length;
    random_source random = {(uint64_t)length};
    const double *u = random_samples(&random, inputs), *dy = random_samples(&random, inputs * problem.channels);
    session s = session_open(context, &problem);
    const gradients got = session_backward(&s, layer, 0, 0, u, dy);
    session_close(&s);
    must(s4_placement_parse("cpu", &problem.placement));
    s = session_open(context, &problem);
    const gradients expected = session_backward(&s, layer, 0, 0, u, dy);
    expect_close_gradients(&got, &expected, dtype == S4_F64 ? TOLERANCE_PLACES_GRADIENT : TOLERANCE_F32_PLACES);
    session_close(&s);
}

Test(kernel_places, gradients)
{
    s4_context *context = context_of_gpu();
    for (int k = 0; k < SHAPES; k++)
        for (int i = 0; i < LENGTHS; i++) {
            s4_layer *layer = layer_of(&shapes[k], (uint64_t)(10 * k + i));
            if (shapes[k].mode == S4_MODE_DPLR)
                must(s4_layer_setup(context, layer, lengths[i]));
            else if (shapes[k].discretisation == S4_DSS && lengths[i] == 1) {
                s4_layer_destroy(layer); /* K[0] is C B / Lambda but for the 1e-7: its gradient by dt is rounding */
                continue;
            }
            for (int d = lengths[i] > 100 ? S4_F64 : S4_F32; d <= S4_F64; d++) { /* an emulated GPU is slow */
                say(&shapes[k], lengths[i], (s4_dtype)d);
                compare_backward(context, layer, lengths[i], (s4_dtype)d);
            }
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* Phases of very many turns, and powers of both matrices that are far apart. */
Test(kernel_places, long_kernels)
{
    enum { L = 1 << 16 };
    s4_context *context = context_of_gpu();
    for (int method = S4_BILINEAR; method <= S4_DSS; method++) {
        const layer_shape shape = {
            .mode = S4_MODE_DIAG, .discretisation = (s4_discretisation)method, .d_model = 1, .d_state = 6};
        say(&shape, L, S4_F64);
        s4_layer *layer = layer_random(&shape, 7); /* all transforms none */
        for (int n = 0; n < 3; n++) {
            layer_data(layer, S4_PARAMETER_A_REAL)[n] = 1e-4 + 1e-3 * n;
            layer_data(layer, S4_PARAMETER_A_IMAG)[n] = 1 + 14 * n;
        }
        layer_data(layer, S4_PARAMETER_INV_DT)[0] = 0.1;
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        compare_kernels(context, layer, L, S4_F64);
        compare_backward(context, layer, L, S4_F64);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* More modes than are staged at a time, more than a block has threads, and groups of modes that are not full. */
Test(kernel_places, many_modes)
{
    static const layer_shape wide[] = {{DPLR, .d_model = 2, .d_state = 266, .rank = 1, .channels = 2},
                                       {DIAG(ZOH), .d_model = 2, .d_state = 266, .channels = 2},
                                       {DIAG(BILINEAR), .d_model = 1, .d_state = 66, .dt_untied = 1}};
    s4_context *context = context_of_gpu();
    for (int k = 0; k < 3; k++) {
        s4_layer *layer = layer_random(&wide[k], 8);
        if (wide[k].mode == S4_MODE_DPLR) must(s4_layer_setup(context, layer, 12));
        say(&wide[k], 12, S4_F64);
        compare_kernels(context, layer, 12, S4_F64);
        compare_backward(context, layer, 12, S4_F64);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* p = 0: all but its first power are 0, and its logarithm is nothing to take. */
Test(kernel_places, pole_of_zero)
{
    static const layer_shape shape = {.mode = S4_MODE_DIAG, .d_model = 2, .d_state = 4}; /* all transforms none */
    s4_context *context = context_of_gpu();
    s4_layer *layer = layer_random(&shape, 3);
    layer_data(layer, S4_PARAMETER_INV_DT)[1] = 0.5;
    layer_data(layer, S4_PARAMETER_A_REAL)[2] = 4; /* 2 / dt */
    layer_data(layer, S4_PARAMETER_A_IMAG)[2] = 0;
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
    say(&shape, 40, S4_F64);
    compare_kernels(context, layer, 40, S4_F64);
    compare_backward(context, layer, 40, S4_F64);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* a near 0, where quotients of what is near 0 are series; and on both sides of where the series end. */
Test(kernel_places, small_steps)
{
    static const double dt[] = {1e-6, 1e-3, 3e-2, 0.4};
    s4_context *context = context_of_gpu();
    for (int method = S4_BILINEAR; method <= S4_ZOH; method++) {
        const layer_shape shape = {.mode = S4_MODE_DIAG,
                                   .discretisation = (s4_discretisation)method,
                                   .d_model = 4,
                                   .d_state = 4}; /* all transforms none */
        say(&shape, 20, S4_F64);
        s4_layer *layer = layer_random(&shape, 4);
        memcpy(layer_data(layer, S4_PARAMETER_INV_DT), dt, sizeof dt);
        for (int i = 0; i < 8; i++) layer_data(layer, S4_PARAMETER_A_REAL)[i] = 0.5 + i % 2;
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        compare_kernels(context, layer, 20, S4_F64);
        s4_layer_destroy(layer);
        for (int h = 0; h < 4; h++) { /* one at a time, C so large that no gradient is small beside others */
            layer_shape one = shape;
            one.d_model = 1;
            one.dt_transform = S4_TRANSFORM_EXP;
            layer = layer_random(&one, 4);
            layer_data(layer, S4_PARAMETER_INV_DT)[0] = log(dt[h]);
            layer_data(layer, S4_PARAMETER_A_REAL)[0] = layer_data(layer, S4_PARAMETER_A_REAL)[1] = 1;
            for (int i = 0; i < 4; i++) layer_data(layer, S4_PARAMETER_C)[i] /= dt[h];
            must(s4_layer_changed(layer, S4_PARAMETER_ALL));
            compare_backward(context, layer, 2, S4_F64);
            s4_layer_destroy(layer);
        }
    }
    s4_context_destroy(context);
}

/* Powers beyond all numbers of a mode that a bandlimit takes out. */
Test(kernel_places, bandlimited_growth)
{
    static const layer_shape shape = {
        .mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .d_model = 2, .d_state = 4, .bandlimit = 0.5};
    s4_context *context = context_of_gpu();
    s4_layer *layer = layer_random(&shape, 3);
    layer_data(layer, S4_PARAMETER_INV_DT)[1] = 0.5;
    layer_data(layer, S4_PARAMETER_A_REAL)[2] = -300;
    layer_data(layer, S4_PARAMETER_A_IMAG)[2] = 6;
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
    say(&shape, 40, S4_F64);
    compare_kernels(context, layer, 40, S4_F64);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* ---- kernels that are not finite ------------------------------------------------------------ */

static void expect_singular(s4_context *context, s4_layer *layer, s4_direction direction, const char *word)
{
    const s4_problem problem = problem_of(layer, direction, S4_F64, 1, 8, 8);
    if (!session_offered(context, &problem)) return;
    double K[4 * 4 * 8];
    session s = session_open(context, &problem);
    s4_status status = s4_plan_refresh(s.plan, layer, s.workspace);
    if (direction == S4_DIRECTION_KERNEL && !status) status = s4_plan_kernel(s.plan, layer, s.workspace, K);
    must_refuse(status, S4_ERROR_SINGULAR, word);
    session_close(&s);
}

/* Both places name the first of them, where kernels are handed out and where they are refreshed. On every place: a test
 * of the CPU, too. */
Test(kernel_places, singular)
{
    enum { H = 4 };
    static const struct {
        layer_shape shape;
        double real; /* A_real of channels 2 and 3 */
        char word[64];
    } cases[] = {
        /* A has the eigenvalue 0: Lambda = 1, P = (1 + i)/2. */
        {{.mode = S4_MODE_DPLR, .d_model = H, .d_state = 2, .rank = 1, .channels = 2},
         -1,
         "channel 2 (row 0 of C) is not finite at frequency 0 of 0 ... 4"},
        /* Lambda = 2 / dt */
        {{.mode = S4_MODE_DIAG, .d_model = H, .d_state = 2, .channels = 2},
         -4,
         "channel 2 (row 0 of C) is not finite at sample 0 of 0 ... 7"},
        /* e^(a l) beyond all numbers, a = 150 */
        {{.mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .d_model = H, .d_state = 2, .channels = 2},
         -300,
         "channel 2 (row 0 of C) is not finite at sample 4 of 0 ... 7"},
    };
    s4_context *context = context_open();
    for (int i = 0; i < 6; i++) {
        const layer_shape *shape = &cases[i / 2].shape;
        const s4_direction direction = i % 2 ? S4_DIRECTION_FORWARD : S4_DIRECTION_KERNEL;
        about("%s %s, %s", s4_mode_name(shape->mode), s4_discretisation_name(shape->discretisation),
              s4_direction_name(direction));
        s4_layer *layer = layer_random(shape, 9); /* all transforms none: Lambda = -A_real - i A_imag */
        double *real = layer_data(layer, S4_PARAMETER_A_REAL), *imag = layer_data(layer, S4_PARAMETER_A_IMAG);
        for (int h = 0; h < H; h++) {
            layer_data(layer, S4_PARAMETER_INV_DT)[h] = 0.5;
            real[h] = h < 2 ? 0.5 : cases[i / 2].real;
            imag[h] = h < 2 ? 1 : 0;
            if (shape->mode == S4_MODE_DPLR)
                for (int part = 0; part < 2; part++) layer_data(layer, S4_PARAMETER_P)[2 * h + part] = 0.5;
        }
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        expect_singular(context, layer, direction, cases[i / 2].word);
        for (int h = 2; h < H; h++) real[h] = imag[h] = 1;
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        about("%s, %s, mended", s4_mode_name(shape->mode), s4_direction_name(direction));
        const s4_problem problem = problem_of(layer, direction, S4_F64, 1, 8, 8);
        if (session_offered(context, &problem)) {
            session s = session_open(context, &problem);
            must(s4_plan_refresh(s.plan, layer, s.workspace));
            session_close(&s);
        }
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}
