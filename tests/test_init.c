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
