/* Initialisation: its random numbers and step sizes, what it takes and what it refuses. */
#include <math.h>

#include "expect.h"
#include "fresh.h"
#include "layers.h"
#include "tolerances.h"

/* ---- random numbers ------------------------------------------------------------------------------------------ */

/* Mean and variance within five standard deviations of theirs; the variance of a square is `spread` times
 * variance^2. */
static void expect_law(const char *what, int64_t count, const double *x, double mean, double variance, double spread)
{
    double sum = 0, square = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (x[i] - mean) / (double)count;
        square += (x[i] - mean) * (x[i] - mean) / (double)count;
    }
    check(fabs(sum) <= 5 * sqrt(variance / (double)count), "[%s] %s: mean is %g off", about_text(), what, sum);
    check(fabs(square / variance - 1) <= 5 * sqrt(spread / (double)count), "[%s] %s: variance is %g, not %g",
          about_text(), what, square, variance);
}

Test(init_options, random_numbers)
{
    enum { H = 96 };
    s4_context *context = context_new();
    for (int i = 0; i < 8; i++) {
        const int untied = i & 1, diagonal = i & 2, wide = i & 4;
        about("untied %d, diagonal %d, wide %d", untied, diagonal, wide);
        s4_layer_options options = options_new(diagonal ? S4_MODE_DIAG : S4_MODE_DPLR, H, 32, !diagonal);
        options.dt_untied = untied;
        options.channels = wide ? 3 : 1;
        options.bidirectional = wide != 0;
        s4_init_options start = init_new(diagonal ? S4_INIT_DIAG_INV : S4_INIT_LAGT, 7);
        start.dt_min = wide ? 0.01 : 0;
        start.dt_max = wide ? 0.02 : 0;
        const double low = log(wide ? 0.01 : 1e-3), high = log(wide ? 0.02 : 1e-1);
        int64_t count;
        s4_layer *layer = layer_new(context, &options, &start), *again = layer_new(context, &options, &start);
        start.seed = 8;
        s4_layer *other = layer_new(context, &options, &start);
        expect_same_bits("the same seed", layer_bits(layer, &count) ? count : 0, layer_bits(again, &count),
                         layer_bits(layer, &count));
        static const s4_parameter random[] = {S4_PARAMETER_INV_DT, S4_PARAMETER_C, S4_PARAMETER_D};
        for (int k = 0; k < 3; k++)
            expect_other_bits("another seed", layer_count(layer, random[k]), layer_data(other, random[k]),
                              layer_data(layer, random[k]));
        const double *inv_dt = layer_data(layer, S4_PARAMETER_INV_DT);
        const int64_t steps = layer_count(layer, S4_PARAMETER_INV_DT);
        cr_assert_eq(steps, untied ? H * 16 : H);
        for (int64_t h = 0; h < steps; h++)
            check(inv_dt[h] >= low && inv_dt[h] <= high, "[%s] inv_dt[%d] is %g", about_text(), (int)h, inv_dt[h]);
        expect_law("inv_dt", steps, inv_dt, (low + high) / 2, (high - low) * (high - low) / 12, 0.8);
        cr_assert_eq(layer_count(layer, S4_PARAMETER_C), (wide ? 6 : 1) * H * 32);
        cr_assert_eq(layer_count(layer, S4_PARAMETER_D), (wide ? 3 : 1) * H);
        expect_law("C", layer_count(layer, S4_PARAMETER_C), layer_data(layer, S4_PARAMETER_C), 0, 0.5, 2);
        expect_law("D", layer_count(layer, S4_PARAMETER_D), layer_data(layer, S4_PARAMETER_D), 0, 1, 2);
        s4_layer_destroy(layer);
        s4_layer_destroy(again);
        s4_layer_destroy(other);
    }
    s4_context_destroy(context);
}

Test(init_options, dt_spaced)
{
    enum { H = 9 };
    s4_context *context = context_new();
    for (int i = 0; i < 4; i++) {
        const int channels = i & 1 ? H : 1, steps = i & 2 ? 4 : 1;
        about("H = %d, %d steps", channels, steps);
        s4_layer_options options = options_new(S4_MODE_DPLR, channels, 8, 1);
        options.dt_untied = steps > 1;
        s4_init_options start = init_new(S4_INIT_LEGS, 1);
        start.dt_spaced = 1;
        s4_layer *layer = layer_new(context, &options, &start);
        double *expected = numbers(channels * steps);
        for (int h = 0; h < channels; h++)
            for (int j = 0; j < steps; j++)
                expected[h * steps + j] = log(1e-3) + (channels > 1 ? h * log(100) / (channels - 1.0) : 0);
        expect_close("inv_dt", channels * steps, layer_data(layer, S4_PARAMETER_INV_DT), expected, TOLERANCE_ROUNDING,
                     0);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* ---- refusals and names -------------------------------------------------------------------------------------- */

Test(init_options, defaults)
{
    s4_context *context = context_new();
    for (int diagonal = 0; diagonal < 2; diagonal++) {
        about("diagonal %d", diagonal);
        const s4_layer_options options = options_new(diagonal ? S4_MODE_DIAG : S4_MODE_DPLR, 3, 8, !diagonal);
        const s4_init_options start = init_new(diagonal ? S4_INIT_DIAG_LIN : S4_INIT_LEGS, 0);
        s4_layer *layer = layer_new(context, &options, NULL), *named = layer_new(context, &options, &start);
        int64_t count;
        expect_same_bits("the start", layer_bits(named, &count) ? count : 0, layer_bits(layer, &count),
                         layer_bits(named, &count));
        if (!diagonal) {
            must(s4_layer_set_length(layer, 8));
            must(s4_layer_init(context, layer, NULL));
            cr_assert_eq(s4_layer_length(layer), 0);
        }
        s4_layer_destroy(layer);
        s4_layer_destroy(named);
    }
    s4_context_destroy(context);
}

/* What is refused leaves the parameters, and what C is, as they were. */
Test(init_options, refused)
{
    static const struct {
        s4_mode mode;
        int64_t rank;
        s4_transform dt, real, imag;
        int init;
        double dt_min, dt_max;
        char word[16];
    } cases[] = {
        {S4_MODE_DPLR, 1, S4_TRANSFORM_EXP, S4_TRANSFORM_EXP, S4_TRANSFORM_NONE, S4_INIT_LEGT, 0, 0, "rank is 1"},
        {S4_MODE_DPLR, 1, S4_TRANSFORM_EXP, S4_TRANSFORM_EXP, S4_TRANSFORM_NONE, S4_INIT_DIAG_LIN, 0, 0, "diag-lin"},
        {S4_MODE_DPLR, 1, S4_TRANSFORM_EXP, S4_TRANSFORM_EXP, S4_TRANSFORM_NONE, S4_INIT_DIAG_LEGS, 0, 0, "diag-legs"},
        {S4_MODE_DIAG, 0, S4_TRANSFORM_EXP, S4_TRANSFORM_EXP, S4_TRANSFORM_NONE, S4_INIT_LEGS, 0, 0, "legs"},
        {S4_MODE_DIAG, 0, S4_TRANSFORM_EXP, S4_TRANSFORM_EXP, S4_TRANSFORM_NONE, S4_INIT_HIPPO, 0, 0, "hippo"},
        {S4_MODE_DPLR, 1, S4_TRANSFORM_EXP, S4_TRANSFORM_EXP, S4_TRANSFORM_NONE, 11, 0, 0, "init is 11"},
        {S4_MODE_DPLR, 1, S4_TRANSFORM_EXP, S4_TRANSFORM_EXP, S4_TRANSFORM_NONE, -1, 0, 0, "init is -1"},
        {S4_MODE_DPLR, 1, S4_TRANSFORM_EXP, S4_TRANSFORM_EXP, S4_TRANSFORM_NONE, S4_INIT_LEGS, 0.1, 0.01, "dt_max"},
        {S4_MODE_DPLR, 1, S4_TRANSFORM_EXP, S4_TRANSFORM_EXP, S4_TRANSFORM_NONE, S4_INIT_LEGS, 0.5, 0, "dt_max"},
        {S4_MODE_DPLR, 1, S4_TRANSFORM_EXP, S4_TRANSFORM_EXP, S4_TRANSFORM_NONE, S4_INIT_LEGS, -1, 0, "dt_min"},
        {S4_MODE_DPLR, 1, S4_TRANSFORM_EXP, S4_TRANSFORM_EXP, S4_TRANSFORM_NONE, S4_INIT_LEGS, NAN, 0, "dt_min"},
        {S4_MODE_DPLR, 1, S4_TRANSFORM_EXP, S4_TRANSFORM_EXP, S4_TRANSFORM_NONE, S4_INIT_LEGS, 0, NAN, "dt_max"},
        {S4_MODE_DPLR, 1, S4_TRANSFORM_EXP, S4_TRANSFORM_EXP, S4_TRANSFORM_NONE, S4_INIT_LEGS, 0, INFINITY, "dt_max"},
        {S4_MODE_DPLR, 1, S4_TRANSFORM_RELU, S4_TRANSFORM_EXP, S4_TRANSFORM_NONE, S4_INIT_LEGS, 1e-4, 0, "dt_min"},
        {S4_MODE_DPLR, 1, S4_TRANSFORM_SIGMOID, S4_TRANSFORM_EXP, S4_TRANSFORM_NONE, S4_INIT_LEGS, 0, 1, "dt_max"},
        {S4_MODE_DPLR, 1, S4_TRANSFORM_EXP, S4_TRANSFORM_EXP, S4_TRANSFORM_SIGMOID, S4_INIT_LEGS, 0, 0, "A_imag"},
        {S4_MODE_DPLR, 1, S4_TRANSFORM_EXP, S4_TRANSFORM_EXP, S4_TRANSFORM_SIGMOID, S4_INIT_HIPPO, 0, 0, "A_imag"},
        {S4_MODE_DIAG, 0, S4_TRANSFORM_EXP, S4_TRANSFORM_SIGMOID, S4_TRANSFORM_NONE, S4_INIT_DIAG_REAL, 0, 0, "A_real"},
    };
    s4_context *context = context_new();
    s4_layer *layer = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("case %d", (int)i);
        s4_layer_options options = options_new(cases[i].mode, 2, 8, cases[i].rank);
        options.dt_transform = cases[i].dt;
        options.real_transform = cases[i].real;
        options.imag_transform = cases[i].imag;
        s4_init_options start = init_new((s4_init)cases[i].init, 1);
        start.dt_min = cases[i].dt_min;
        start.dt_max = cases[i].dt_max;
        must(s4_layer_create(&options, &layer));
        const s4_parameter all[] = {S4_PARAMETER_INV_DT, S4_PARAMETER_A_REAL, S4_PARAMETER_B, S4_PARAMETER_C};
        for (int k = 0; k < 4; k++)
            layer_data(layer, all[k])[0] = 3 + k;
        const int64_t length = cases[i].mode == S4_MODE_DPLR ? 8 : 0;
        must(s4_layer_set_length(layer, length));
        int64_t count;
        const double *before = layer_bits(layer, &count);
        must_refuse(s4_layer_init(context, layer, &start), S4_ERROR_ARGUMENT, cases[i].word);
        expect_same_bits("parameters", count, layer_bits(layer, &count), before);
        cr_assert_eq(s4_layer_length(layer), length);
        start.struct_size = 0;
        must_refuse(s4_layer_init(context, layer, &start), S4_ERROR_ARGUMENT, "struct_size");
        must_refuse(s4_layer_init(NULL, layer, NULL), S4_ERROR_ARGUMENT, "context");
        expect_same_bits("parameters", count, layer_bits(layer, &count), before);
        s4_layer_destroy(layer);
    }
    must_refuse(s4_layer_init(context, NULL, NULL), S4_ERROR_ARGUMENT, "layer");
    s4_context_destroy(context);
}

static void *no_memory(void *user, size_t bytes, size_t alignment)
{
    (void)user, (void)bytes, (void)alignment;
    return NULL;
}

static void no_release(void *user, void *pointer) { (void)user, (void)pointer; }

Test(init_options, without_memory)
{
    s4_context_options options;
    s4_context *context = context_new(), *poor;
    S4_INIT(&options);
    options.allocate = no_memory;
    options.release = no_release;
    must(s4_context_create(&options, &poor));
    for (int i = 0; i < 11; i++) {
        about("%s", s4_init_name((s4_init)i));
        const s4_layer_options shape = options_new(mode_of((s4_init)i), 2, 8, rank_of((s4_init)i));
        s4_init_options start = init_new((s4_init)i, 1);
        s4_layer *layer = layer_new(context, &shape, &start);
        int64_t count;
        const double *before = layer_bits(layer, &count);
        start.seed = 2;
        must_refuse(s4_layer_init(poor, layer, &start), S4_ERROR_MEMORY, "");
        expect_same_bits("parameters", count, layer_bits(layer, &count), before);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(poor);
    s4_context_destroy(context);
}

Test(init_options, names)
{
    static const char names[][12] = {"legs",     "legt",      "lagt",      "fourier",   "hippo",    "diag-lin",
                                     "diag-inv", "diag-inv2", "diag-quad", "diag-real", "diag-legs"};
    for (int i = 0; i < 11; i++) {
        s4_init init = -1;
        cr_assert_str_eq(s4_init_name((s4_init)i), names[i]);
        must(s4_init_parse(names[i], &init));
        cr_assert_eq((int)init, i);
    }
    cr_assert_str_eq(s4_init_name((s4_init)11), "?");
    s4_init init = S4_INIT_LAGT;
    must_refuse(s4_init_parse("diag", &init), S4_ERROR_ARGUMENT, "diag-legs");
    must_refuse(s4_init_parse(NULL, &init), S4_ERROR_ARGUMENT, "init");
    cr_assert_eq(init, S4_INIT_LAGT);
}

/* What cannot be is refused by name, never rounded to something near. */
Test(init_options, layers_that_cannot_be)
{
    static const struct {
        int64_t d_model, d_state, rank, n_ssm, channels;
        s4_mode mode;
        s4_discretisation discretisation;
        s4_status status;
        char word[16];
    } cases[] = {
        {0, 4, 1, 0, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "d_model"},
        {-1, 4, 1, 0, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "d_model"},
        {2, 5, 1, 0, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "d_state"},
        {2, 5, 0, 0, 1, S4_MODE_DIAG, S4_ZOH, S4_ERROR_ARGUMENT, "d_state"},
        {2, 0, 1, 0, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "d_state"},
        {2, -2, 1, 0, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "d_state"},
        {2, 4, 5, 0, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "rank"},
        {2, 4, -1, 0, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "rank"},
        {2, 4, 1, 0, 1, S4_MODE_DIAG, S4_ZOH, S4_ERROR_ARGUMENT, "rank"},
        {4, 4, 1, 3, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "n_ssm"},
        {4, 4, 1, -1, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "n_ssm"},
        {4, 4, 1, 8, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "n_ssm"},
        {4, 4, 1, 0, S4_CHANNELS_MAX + 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "channels"},
        {4, 4, 1, 0, -1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "channels"},
        {4, 4, 1, 0, 1, S4_MODE_DPLR, S4_ZOH, S4_ERROR_UNSUPPORTED, "discretisation"},
        {4, 4, 1, 0, 1, S4_MODE_DPLR, S4_DSS, S4_ERROR_UNSUPPORTED, "discretisation"},
        {(int64_t)1 << 62, 4, 1, 0, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "d_model"},
        {1, (int64_t)1 << 62, 1, 0, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "d_state"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("case %d", (int)i);
        s4_layer_options options;
        S4_INIT(&options);
        options.d_model = cases[i].d_model;
        options.d_state = cases[i].d_state;
        options.rank = cases[i].rank;
        options.n_ssm = cases[i].n_ssm;
        options.channels = cases[i].channels;
        options.mode = cases[i].mode;
        options.discretisation = cases[i].discretisation;
        s4_layer *layer = (s4_layer *)(void *)&options;
        must_refuse(s4_layer_create(&options, &layer), cases[i].status, cases[i].word);
        check(layer == NULL, "[%s] the pointer is not NULL", about_text());
    }
}
