/*
 * Initialisation: diagonal families, copies and transforms (HiPPO matrices: test_hippo.c); random numbers have the law
 * they should; what cannot be served is refused and leaves the layer alone.
 */
#include <complex.h>
#include <math.h>

#include "expect.h"
#include "fresh.h"
#include "layers.h"
#include "tolerances.h"

#define PI 3.14159265358979323846
enum { N = 4 };

Test(init, diagonal_kernels_by_hand)
{
    static const struct {
        s4_init init;
        int hold;
        double expected[3];
    } cases[] = {
        {S4_INIT_DIAG_LIN, 1, {0.115641179620568, 0.097282693707354, 0.079737185534164}},
        {S4_INIT_DIAG_LIN, 0, {0.115693677367253, 0.097394217202172, 0.079897738908319}},
        {S4_INIT_DIAG_INV, 1, {0.12649117019098, 0.126843580176767, 0.123338532133884}},
        {S4_INIT_DIAG_REAL, 1, {0.121331796489582, 0.114310679169003, 0.10773701632087}},
    };
    static const double c[4] = {1, 0.5, 0.25, -1}, dt = 0.05;
    s4_context *context = context_new();
    for (int i = 0; i < 4; i++) {
        about("%s, hold %d", s4_init_name(cases[i].init), cases[i].hold);
        const s4_layer_options options = options_new(S4_MODE_DIAG, 1, N, 0);
        const s4_init_options start = init_new(cases[i].init, 1);
        s4_layer *layer = layer_new(context, &options, &start);
        const double *b = layer_data(layer, S4_PARAMETER_B), *real = layer_data(layer, S4_PARAMETER_A_REAL),
                     *imag = layer_data(layer, S4_PARAMETER_A_IMAG);
        double kernel[3] = {0};
        for (int j = 0; j < N / 2; j++) {
            const double complex lambda = -real[j] - I * imag[j], z = dt * lambda;
            const double complex power = cases[i].hold ? cexp(z) : (1 + z / 2) / (1 - z / 2);
            double complex term = (c[2 * j] + I * c[2 * j + 1]) * (b[2 * j] + I * b[2 * j + 1]);
            term *= cases[i].hold ? (cexp(z) - 1) / lambda : dt / (1 - z / 2);
            for (int l = 0; l < 3; l++, term *= power)
                kernel[l] += 2 * creal(term);
        }
        expect_close("K", 3, kernel, cases[i].expected, TOLERANCE_INIT, 0);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* ---- diagonal families, mixes, copies ------------------------------------------------------------------------ */

Test(init, diagonal_families)
{
    static const int sizes[] = {2, 8, 64};
    s4_context *context = context_new();
    for (int i = 0; i < 18; i++) {
        const s4_init init = S4_INIT_DIAG_LIN + i % 6;
        const int state = sizes[i / 6], n = state / 2;
        about("%s, N = %d", s4_init_name(init), state);
        const s4_layer_options options = options_new(S4_MODE_DIAG, 4, state, 0);
        const s4_layer_options dplr = options_new(S4_MODE_DPLR, 1, state, 1);
        const s4_init_options start = init_new(init, 3), legs_start = init_new(S4_INIT_LEGS, 3);
        s4_layer *layer = layer_new(context, &options, &start), *legs = layer_new(context, &dplr, &legs_start);
        double *real = numbers(4 * n), *imag = numbers(4 * n), *b = numbers(4 * n * 2);
        for (int s = 0; s < 4; s++)
            for (int j = 0; j < n; j++) {
                const double formula[] = {PI * j,
                                          state / PI * (state / (2 * j + 1.0) - 1),
                                          state / PI * (state / (j + 1.0) - 1),
                                          (1 + 2 * j) * (1 + 2 * j) / PI,
                                          0,
                                          layer_data(legs, S4_PARAMETER_A_IMAG)[j]};
                real[s * n + j] = init == S4_INIT_DIAG_REAL ? j + 1 : 0.5;
                imag[s * n + j] = formula[i % 6];
                b[2 * (s * n + j)] = init == S4_INIT_DIAG_LEGS ? layer_data(legs, S4_PARAMETER_B)[2 * j] : 1;
            }
        expect_close("A_real", 4 * n, layer_data(layer, S4_PARAMETER_A_REAL), real, TOLERANCE_ROUNDING, 0);
        expect_close("A_imag", 4 * n, layer_data(layer, S4_PARAMETER_A_IMAG), imag, TOLERANCE_ROUNDING, 1);
        expect_close("B", 4 * n * 2, layer_data(layer, S4_PARAMETER_B), b, TOLERANCE_ROUNDING, 0);
        s4_layer_destroy(layer);
        s4_layer_destroy(legs);
    }
    s4_context_destroy(context);
}

/* Copies are alike, those of hippo legs and fourier in turn; columns of P that a family has no use for are 0, whatever
 * was there. */
Test(init, copies)
{
    enum { STATE = 16, MODES = 8, COPIES = 3, RANK = 4 };
    s4_context *context = context_new();
    s4_layer_options options = options_new(S4_MODE_DPLR, 2 * COPIES, STATE, RANK);
    options.n_ssm = COPIES;
    const s4_layer_options one = options_new(S4_MODE_DPLR, 1, STATE, RANK);
    for (int i = 0; i < 15; i++) {
        const s4_init init = (s4_init)(i / 3);
        const int s = i % 3;
        about("%s, copy %d", s4_init_name(init), s);
        const s4_init_options start = init_new(init, 5);
        const s4_init member = init != S4_INIT_HIPPO ? init : s % 2 ? S4_INIT_FOURIER : S4_INIT_LEGS;
        const s4_init_options alone = init_new(member, 5);
        s4_layer *layer, *single = layer_new(context, &one, &alone);
        must(s4_layer_create(&options, &layer));
        double *P = layer_data(layer, S4_PARAMETER_P);
        for (int64_t k = 0; k < layer_count(layer, S4_PARAMETER_P); k++)
            P[k] = 9;
        must(s4_layer_init(context, layer, &start));
        expect_same_bits("A_real", MODES, layer_data(layer, S4_PARAMETER_A_REAL) + s * MODES,
                         layer_data(single, S4_PARAMETER_A_REAL));
        expect_same_bits("A_imag", MODES, layer_data(layer, S4_PARAMETER_A_IMAG) + s * MODES,
                         layer_data(single, S4_PARAMETER_A_IMAG));
        expect_same_bits("B", STATE, layer_data(layer, S4_PARAMETER_B) + s * STATE, layer_data(single, S4_PARAMETER_B));
        for (int r = 0; r < RANK; r++) {
            const double *column = P + (r * COPIES + s) * STATE;
            if (r < rank_of(init))
                expect_same_bits("P", STATE, column, layer_data(single, S4_PARAMETER_P) + r * STATE);
            else
                check(largest(STATE, column) == 0, "[%s] column %d of P is not 0", about_text(), r);
        }
        s4_layer_destroy(layer);
        s4_layer_destroy(single);
    }
    s4_context_destroy(context);
}

/* ---- transforms and clamps ----------------------------------------------------------------------------------- */

/* The effective start is the same by every transform, but for the clamp; dt too. */
Test(init, transforms)
{
    enum { STATE = 16, MODES = 8, H = 5 };
    s4_context *context = context_new();
    for (int i = 0; i < 11 * 25; i++) {
        const s4_init init = i / 25;
        const s4_transform real = i / 5 % 5, imag = i % 5;
        about("%s, transforms %s, %s", s4_init_name(init), s4_transform_name(real), s4_transform_name(imag));
        s4_layer_options options = options_new(mode_of(init), H, STATE, rank_of(init));
        const s4_init_options start = init_new(init, 2);
        s4_layer *plain = layer_new(context, &options, &start), *layer;
        options.real_transform = real;
        options.imag_transform = imag;
        options.dt_transform = real;
        must(s4_layer_create(&options, &layer));
        const int beyond = (imag == S4_TRANSFORM_SIGMOID && init != S4_INIT_DIAG_REAL) ||
                           (real == S4_TRANSFORM_SIGMOID && init == S4_INIT_DIAG_REAL);
        if (beyond) { /* above 1 */
            must_refuse(s4_layer_init(context, layer, &start), S4_ERROR_ARGUMENT, "sigmoid");
        } else {
            must(s4_layer_init(context, layer, &start));
            const s4_parameter which[] = {S4_PARAMETER_A_REAL, S4_PARAMETER_A_IMAG};
            for (int k = 0; k < 2; k++)
                for (int64_t j = 0; j < layer_count(layer, which[k]); j++) {
                    const s4_transform transform = k ? imag : real;
                    const double least = transform == S4_TRANSFORM_NONE   ? 0
                                         : transform == S4_TRANSFORM_RELU ? 2e-4
                                                                          : 1e-4;
                    const double expected = fmax(layer_data(plain, which[k])[j], least);
                    const double got = ref_transform((enum ref_transform)transform, layer_data(layer, which[k])[j]);
                    check(fabs(got - expected) <= TOLERANCE_ROUNDING * fmax(expected, 1),
                          "[%s] %s %d: %.17g, not %.17g", about_text(), k ? "-Im" : "-Re", (int)j, got, expected);
                }
            for (int h = 0; h < H; h++) {
                const double expected = exp(layer_data(plain, S4_PARAMETER_INV_DT)[h]);
                const double got = ref_transform((enum ref_transform)real, layer_data(layer, S4_PARAMETER_INV_DT)[h]);
                check(fabs(got - expected) <= TOLERANCE_ROUNDING, "[%s] dt %.17g, not %.17g", about_text(), got,
                      expected);
            }
        }
        s4_layer_destroy(plain);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* In every family, whatever the transforms. */
Test(init, clamped)
{
    s4_context *context = context_new();
    for (int i = 0; i < 22; i++) {
        const s4_init init = i / 2;
        about("%s, clamps %d", s4_init_name(init), i % 2);
        const s4_layer_options options = options_new(mode_of(init), 2, 64, rank_of(init));
        s4_init_options start = init_new(init, 1);
        s4_layer *free = layer_new(context, &options, &start);
        start.published_clamps = i % 2;
        s4_layer *layer = layer_new(context, &options, &start);
        int64_t count;
        if (!start.published_clamps)
            expect_same_bits("the start", layer_bits(layer, &count) ? count : 0, layer_bits(layer, &count),
                             layer_bits(free, &count));
        for (int64_t j = 0; start.published_clamps && j < layer_count(layer, S4_PARAMETER_A_REAL); j++) {
            const double *b = layer_data(layer, S4_PARAMETER_B) + 2 * j;
            const double *whole = layer_data(free, S4_PARAMETER_B) + 2 * j;
            const double real = layer_data(layer, S4_PARAMETER_A_REAL)[j];
            const double imag = layer_data(layer, S4_PARAMETER_A_IMAG)[j];
            check(real == fmax(layer_data(free, S4_PARAMETER_A_REAL)[j], 1e-4), "[%s] -Re %g", about_text(), real);
            check(imag == fmax(layer_data(free, S4_PARAMETER_A_IMAG)[j], 1e-4), "[%s] -Im %g", about_text(), imag);
            check(fabs(b[1]) <= 2, "[%s] Im B[%d] is %g", about_text(), (int)j, b[1]);
            if (fabs(b[1]) < 2)
                check(fabs(hypot(b[0], b[1]) / whole[0] - 1) <= TOLERANCE_INIT, "[%s] |B[%d]| is not kept",
                      about_text(), (int)j);
            else
                check(fabs(b[0]) <= whole[0], "[%s] Re B[%d] is %g", about_text(), (int)j, b[0]);
        }
        s4_layer_destroy(free);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

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

Test(init, random_numbers)
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

Test(init, dt_spaced)
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

Test(init, defaults)
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
Test(init, refused)
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

Test(init, without_memory)
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

Test(init, names)
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
Test(init, layers_that_cannot_be)
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
