/*
 * Powers of dA by displacement structure, as the set-up shows them: with C the unit vectors, C - C~ is dA^L, row by row. Against
 * dense powers in long double, where eigenvalues are apart, where they coincide or nearly do, and for every rank.
 */
#include <math.h>

#include "expect.h"
#include "layers.h"
#include "session.h"
#include "tolerances.h"

typedef enum spectrum {
    APART,
    CLOSE_PAIR,   /* two modes 1e-5 apart */
    EQUAL_PAIR,   /* two equal modes, and one that is the conjugate of another */
    REAL,         /* every mode is its own conjugate */
    ALL_EQUAL,    /* nothing but coincidences */
    FAR_DECOUPLED /* a P of zero in some modes */
} spectrum;

static const char *const spectra[] = {"apart", "close pair", "equal pair", "real", "all equal", "P of zero"};

static void shape_spectrum(s4_layer *layer, spectrum kind, int64_t modes)
{
    double *A_real = layer_data(layer, S4_PARAMETER_A_REAL), *A_imag = layer_data(layer, S4_PARAMETER_A_IMAG);
    double *P = layer_data(layer, S4_PARAMETER_P);
    if (kind == CLOSE_PAIR || kind == EQUAL_PAIR) {
        A_real[1] = A_real[0];
        A_imag[1] = A_imag[0] + (kind == CLOSE_PAIR ? 1e-5 : 0);
    }
    if (kind == EQUAL_PAIR && modes > 3) {
        A_real[3] = A_real[2];
        A_imag[3] = -A_imag[2];
    }
    for (int64_t n = 0; n < modes; n++) {
        if (kind == REAL) A_imag[n] = 0;
        if (kind == REAL) A_real[n] = log(0.3 + (double)n); /* the transform is exp */
        if (kind == ALL_EQUAL) A_real[n] = A_real[0];
        if (kind == ALL_EQUAL) A_imag[n] = A_imag[0];
    }
    if (kind == FAR_DECOUPLED) memset(P, 0, 2 * sizeof *P * (size_t)((modes + 1) / 2));
}

/* Channel h has for C the unit vector h, or i times it; all have the step sizes of channel 0. */
static void unit_read_outs(s4_layer *layer, int64_t modes, int64_t dt_modes)
{
    double *C = layer_data(layer, S4_PARAMETER_C), *inv_dt = layer_data(layer, S4_PARAMETER_INV_DT);
    memset(C, 0, sizeof *C * (size_t)layer_count(layer, S4_PARAMETER_C));
    for (int64_t h = 0; h < 2 * modes; h++) {
        C[h * 2 * modes + h] = 1;
        memcpy(&inv_dt[h * dt_modes], inv_dt, sizeof *inv_dt * (size_t)dt_modes);
    }
}

/* C - C~ against c dA^L, of closed rows (c, conj(c)). */
static void against_dense(s4_context *context, s4_layer *layer, int64_t modes, int64_t length)
{
    const int64_t N = 2 * modes, count = N * N;
    const struct ref_layer reference = layer_reference(layer);
    const double *c = numbers_copy(count, layer_data(layer, S4_PARAMETER_C));
    double *X = numbers(N * N * 2), *expected = numbers(count), *got = numbers(count);
    ref_power(&reference, 0, (int)length, REF_POWER_BINARY, X);
    for (int64_t h = 0; h < N; h++)
        for (int64_t k = 0; k < modes; k++)
            for (int64_t j = 0; j < modes; j++) {
                const double re = c[h * N + 2 * k], im = c[h * N + 2 * k + 1];
                const double *near = &X[2 * (k * N + j)], *far = &X[2 * ((modes + k) * N + j)];
                expected[h * N + 2 * j] += re * near[0] - im * near[1] + re * far[0] + im * far[1];
                expected[h * N + 2 * j + 1] += re * near[1] + im * near[0] + re * far[1] - im * far[0];
            }
    must(s4_layer_setup(context, layer, length));
    const double *c_tilde = layer_data(layer, S4_PARAMETER_C);
    for (int64_t i = 0; i < count; i++) got[i] = c[i] - c_tilde[i];
    expect_close("dA to the power", count, got, expected, TOLERANCE_STRUCTURED_POWER, 1);
    must(s4_layer_setup(context, layer, 0));
}

Test(power, structured_against_dense)
{
    static const int64_t lengths[] = {1, 2, 3, 1000, (int64_t)1 << 20};
    static const int64_t sizes[] = {1, 9};
    s4_context *context = context_open();
    for (int rank = 1; rank <= S4_RANK_MAX; rank++)
        for (int untied = 0; untied < 2; untied++)
            for (int kind = APART; kind <= FAR_DECOUPLED; kind++)
                for (int size = 0; size < 2; size++) {
                    const int64_t modes = sizes[size];
                    if (modes == 1 && (kind == CLOSE_PAIR || kind == EQUAL_PAIR)) continue;
                    const layer_shape shape = {.d_model = 2 * modes, .d_state = 2 * modes, .rank = rank, .n_ssm = 1,
                                               .plain_transforms = 1, .dt_untied = untied};
                    s4_layer *layer = layer_random(&shape, (uint64_t)(rank + 10 * kind));
                    shape_spectrum(layer, (spectrum)kind, modes);
                    unit_read_outs(layer, modes, untied ? modes : 1);
                    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
                    for (int i = 0; i < 5; i++) {
                        about("rank %d, %s dt, %s, n = %d, length %d", rank, untied ? "untied" : "tied",
                              spectra[kind], (int)modes, (int)lengths[i]);
                        against_dense(context, layer, modes, lengths[i]);
                    }
                    s4_layer_destroy(layer);
                }
    s4_context_destroy(context);
}

/* The starts that are used in practice, at their sizes, from slow to fast. */
Test(power, of_hippo_layers)
{
    static const s4_init families[] = {S4_INIT_LEGS, S4_INIT_LEGT, S4_INIT_LAGT, S4_INIT_FOURIER};
    static const double steps[] = {1e-5, 1e-3, 1e-1};
    enum { N = 64 };
    s4_context *context = context_open();
    for (int family = 0; family < 4; family++)
        for (int step = 0; step < 3; step++) {
            s4_layer_options options;
            S4_INIT(&options);
            options.d_model = options.d_state = N;
            options.n_ssm = 1;
            options.rank = families[family] == S4_INIT_LEGT ? 2 : 1;
            s4_layer *layer;
            must(s4_layer_create(&options, &layer));
            s4_init_options init;
            S4_INIT(&init);
            init.init = families[family];
            must(s4_layer_init(context, layer, &init));
            layer_data(layer, S4_PARAMETER_INV_DT)[0] = log(steps[step]);
            unit_read_outs(layer, N / 2, 1);
            must(s4_layer_changed(layer, S4_PARAMETER_ALL));
            about("%s, dt = %g", s4_init_name(families[family]), steps[step]);
            against_dense(context, layer, N / 2, 1000);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}
