/*
 * Gradients against finite differences of the definition: every option of a layer and of a call at every length of a short
 * list, odd and even, the shortest among them. Differences are taken of each real and each imaginary part.
 */
#include <math.h>

#include "compare.h"
#include "expect.h"
#include "layers.h"
#include "naive.h"
#include "place.h"
#include "tolerances.h"

static const int64_t lengths[] = {1, 2, 3, 8, 31, 64};
#define LENGTHS ((int)(sizeof lengths / sizeof lengths[0]))

typedef enum kernel_kind { AS_LONG, LONGER, SHORTER } kernel_kind;

static const struct {
    char name[32];
    int64_t n_ssm, channels;
    int bidirectional, dt_untied;
    double bandlimit;
    kernel_kind kernel;
    int rows_end; /* rows of different lengths */
} options[] = {
    {.name = "plain"},
    {.name = "one copy for two channels", .n_ssm = 1},
    {.name = "three outputs", .channels = 3},
    {.name = "bidirectional", .bidirectional = 1},
    {.name = "untied", .dt_untied = 1},
    {.name = "bandlimit", .bandlimit = 0.2},
    {.name = "kernel longer", .kernel = LONGER},
    {.name = "kernel shorter", .kernel = SHORTER},
    {.name = "rows of different lengths", .rows_end = 1},
    {.name = "all at once", .n_ssm = 1, .channels = 2, .bidirectional = 1, .dt_untied = 1, .bandlimit = 0.2,
     .kernel = SHORTER, .rows_end = 1},
};
#define OPTIONS ((int)(sizeof options / sizeof options[0]))

static int64_t kernel_length(kernel_kind kind, int64_t length)
{
    return kind == LONGER ? length + 3 : kind == SHORTER ? (length + 1) / 2 : length;
}

static void compare_at(s4_context *context, const layer_shape *shape, const compare_sizes *sizes, int rows_end,
                       uint64_t seed)
{
    const int64_t ends[] = {sizes->length, (sizes->length + 1) / 3};
    s4_layer *layer = layer_random(shape, seed);
    layer_make_trainable(context, layer, sizes->kernel_length);
    if (rows_end)
        compare_gradients_of_rows(context, layer, sizes, ends, TOLERANCE_GRADIENT_DIFFERENCE);
    else
        compare_gradients(context, layer, sizes, TOLERANCE_GRADIENT_DIFFERENCE);
    s4_layer_destroy(layer);
}

/* Every option at every length, of one kind of layer. */
static void compare_options(s4_context *context, layer_shape shape)
{
    for (int o = 0; o < OPTIONS; o++)
        for (int i = 0; i < LENGTHS; i++) {
            const compare_sizes sizes = {2, lengths[i], kernel_length(options[o].kernel, lengths[i])};
            if (shape.discretisation == S4_DSS && sizes.kernel_length == 1)
                continue;
            shape.n_ssm = options[o].n_ssm;
            shape.channels = options[o].channels;
            shape.bidirectional = options[o].bidirectional;
            shape.dt_untied = options[o].dt_untied;
            shape.bandlimit = options[o].bandlimit;
            about("%s %s, rank %d, %s, length %d, kernel %d", s4_mode_name(shape.mode),
                  s4_discretisation_name(shape.discretisation), (int)shape.rank, options[o].name, (int)sizes.length,
                  (int)sizes.kernel_length);
            compare_at(context, &shape, &sizes, options[o].rows_end, (uint64_t)(100 * o + i));
        }
}

/* Backward is a pure function: twice the same bits, in the same workspace and in a fresh one, whatever ran between. */
Test(gradient_options, twice_the_same_bits)
{
    enum { H = 2, T = 31, L = 29 };
    s4_context *context = context_open();
    for (int kind = 0; kind < 4; kind++)
        for (int o = 0; o < OPTIONS; o++)
            for (int d = 0; d < 2; d++) {
                const layer_shape shape = {.mode = kind ? S4_MODE_DIAG : S4_MODE_DPLR, .rank = kind ? 0 : 2,
                                           .discretisation = kind ? (s4_discretisation)(kind - 1) : S4_BILINEAR,
                                           .d_model = H, .d_state = 4, .n_ssm = options[o].n_ssm,
                                           .channels = options[o].channels, .bidirectional = options[o].bidirectional,
                                           .dt_untied = options[o].dt_untied, .bandlimit = options[o].bandlimit,
                                           .plain_transforms = 1};
                about("kind %d, %s, %s", kind, options[o].name, d ? "f32" : "f64");
                s4_layer *layer = layer_random(&shape, 1);
                layer_make_trainable(context, layer, L);
                const s4_problem problem =
                    problem_of(layer, S4_DIRECTION_TRAINING, d ? S4_F32 : S4_F64, 2, T, L);
                if (session_offered(context, &problem)) {
                    const int64_t ends[] = {T, 7}, *lengths_of_rows = options[o].rows_end && !place_has_gpu() ? ends : NULL;
                    random_source random = {2};
                    const double *u = random_samples(&random, 2 * H * T),
                                 *dy = random_samples(&random, 2 * H * T * layer_options(layer).channels);
                    session s = session_open(context, &problem), fresh = session_open(context, &problem);
                    const gradients first = session_backward_rows(&s, layer, 0, 0, lengths_of_rows, u, dy);
                    session_forward(&s, layer, 0, 0, dy, NULL, NULL);
                    const gradients again = session_backward_rows(&s, layer, 0, 0, lengths_of_rows, u, dy),
                                    other = session_backward_rows(&fresh, layer, 0, 0, lengths_of_rows, u, dy);
                    expect_same_gradients(&again, &first);
                    expect_same_gradients(&other, &first);
                    session_close(&s);
                    session_close(&fresh);
                }
                s4_layer_destroy(layer);
            }
    s4_context_destroy(context);
}

Test(gradient_options, dplr)
{
    s4_context *context = context_open();
    for (int rank = 1; rank <= 3; rank++)
        compare_options(context, (layer_shape){.d_model = 2, .d_state = 4, .rank = rank, .plain_transforms = 1});
    s4_context_destroy(context);
}

Test(gradient_options, diagonal)
{
    s4_context *context = context_open();
    for (int rule = S4_BILINEAR; rule <= S4_DSS; rule++)
        compare_options(context, (layer_shape){.mode = S4_MODE_DIAG, .discretisation = (s4_discretisation)rule,
                                               .d_model = 2, .d_state = 4, .plain_transforms = 1});
    s4_context_destroy(context);
}

/* K[0] of dss at length 1 is Re(C B / Lambda), but for the 1e-7 of its definition: what is left of its gradient by dt is
 * 1e-7 of terms that cancel, so that its last digits are rounding in the definition, too. All others are what they are
 * at other lengths. */
Test(gradient_options, dss_at_length_1)
{
    enum { H = 2, T = 8 };
    const layer_shape shape = {.mode = S4_MODE_DIAG, .discretisation = S4_DSS, .d_model = H, .d_state = 4,
                               .plain_transforms = 1};
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shape, 1);
    const s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, S4_F64, 1, T, 1);
    session_required(context, layer, &problem);
    random_source random = {1};
    const double *u = random_samples(&random, H * T), *G = random_samples(&random, H * T);
    gradients expected = naive_gradients(layer, 1, 1, T, u, G);
    session s = session_open(context, &problem);
    const gradients got = session_backward(&s, layer, 0, 0, u, G);
    const double of_c = largest(expected.count[S4_PARAMETER_C], expected.parameter[S4_PARAMETER_C]);
    expect_close("gradient of inv_dt", H, got.parameter[S4_PARAMETER_INV_DT], expected.parameter[S4_PARAMETER_INV_DT],
                 TOLERANCE_GRADIENT_DIFFERENCE, of_c);
    expected.parameter[S4_PARAMETER_INV_DT] = got.parameter[S4_PARAMETER_INV_DT];
    expect_close_gradients(&got, &expected, TOLERANCE_GRADIENT_DIFFERENCE);
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* Each transform of each of the three parameters that have one. */
Test(gradient_options, transforms)
{
    s4_context *context = context_open();
    for (int mode = S4_MODE_DPLR; mode <= S4_MODE_DIAG; mode++)
        for (int t = S4_TRANSFORM_NONE; t <= S4_TRANSFORM_SOFTPLUS; t++)
            for (int which = 0; which < 3; which++)
                for (int i = 0; i < LENGTHS; i++) {
                    const layer_shape shape = {.mode = (s4_mode)mode, .d_model = 1, .d_state = 4,
                                               .rank = mode == S4_MODE_DPLR,
                                               .discretisation = mode == S4_MODE_DPLR ? S4_BILINEAR : S4_ZOH,
                                               .dt_transform = which == 0 ? (s4_transform)t : S4_TRANSFORM_EXP,
                                               .real_transform = which == 1 ? (s4_transform)t : S4_TRANSFORM_EXP,
                                               .imag_transform = which == 2 ? (s4_transform)t : S4_TRANSFORM_NONE};
                    const compare_sizes sizes = {1, lengths[i], lengths[i]};
                    about("%s, transform %s of %s, length %d", s4_mode_name(shape.mode),
                          s4_transform_name((s4_transform)t),
                          which == 0 ? "inv_dt" : which == 1 ? "A_real" : "A_imag", (int)lengths[i]);
                    compare_at(context, &shape, &sizes, 0, (uint64_t)(10 * t + i));
                }
    s4_context_destroy(context);
}
