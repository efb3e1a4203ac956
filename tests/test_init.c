/*
 * HiPPO-LegS. The diagonal plus low-rank form must describe the real matrix it was made from:
 * A[m][k] = -sqrt(2m+1) sqrt(2k+1) for m > k, -(m+1) for m = k, 0 above; B[m] = sqrt(2m+1); P[m] = sqrt(m + 1/2).
 */
#include <complex.h>
#include <math.h>

#include "expect.h"
#include "layers.h"
#include "session.h"
#include "tolerances.h"

enum { N = 4 };

/* Solves for the eigenvector of A + P P^T = V Lambda V* that belongs to `lambda`, by two steps of inverse iteration
 * with a shift next to it. */
static void eigenvector(double complex lambda, double complex v[N])
{
    for (int m = 0; m < N; m++)
        v[m] = 1 + 0.3 * m + I * (0.7 - 0.2 * m);
    for (int step = 0; step < 3; step++) {
        double complex a[N][N];
        for (int m = 0; m < N; m++)
            for (int k = 0; k < N; k++) {
                const double low_rank = sqrt(m + 0.5) * sqrt(k + 0.5);
                a[m][k] = low_rank + (m > k ? -sqrt(2 * m + 1) * sqrt(2 * k + 1) : m == k ? -(m + 1.0) : 0.0);
                if (m == k)
                    a[m][k] -= lambda + 1e-7;
            }
        for (int p = 0; p < N; p++) { /* elimination with row exchange */
            int best = p;
            for (int m = p + 1; m < N; m++)
                if (cabs(a[m][p]) > cabs(a[best][p]))
                    best = m;
            for (int k = 0; k < N; k++) {
                const double complex swap = a[p][k];
                a[p][k] = a[best][k];
                a[best][k] = swap;
            }
            const double complex swap = v[p];
            v[p] = v[best];
            v[best] = swap;
            for (int m = p + 1; m < N; m++) {
                const double complex factor = a[m][p] / a[p][p];
                for (int k = p; k < N; k++)
                    a[m][k] -= factor * a[p][k];
                v[m] -= factor * v[p];
            }
        }
        double size = 0;
        for (int m = N - 1; m >= 0; m--) {
            for (int k = m + 1; k < N; k++)
                v[m] -= a[m][k] * v[k];
            v[m] /= a[m][m];
        }
        for (int m = 0; m < N; m++)
            size += creal(v[m]) * creal(v[m]) + cimag(v[m]) * cimag(v[m]);
        for (int m = 0; m < N; m++)
            v[m] /= sqrt(size);
    }
}

/* With C = (1, 1, 1, 1) in the real basis, C V in that of the eigenvectors, the kernel is known by hand. */
Test(init, kernel_by_hand)
{
    static const double expected[4] = {0.547052197738568, 0.223439367527315, 0.063993929101352, -0.004599418612013};
    s4_context *context = context_open();
    s4_layer *layer = layer_legs(context, 1, N, 1);
    layer_data(layer, S4_PARAMETER_INV_DT)[0] = log(0.1);
    layer_data(layer, S4_PARAMETER_D)[0] = 0;
    double c[N];
    for (int n = 0; n < N / 2; n++) {
        const double complex lambda =
            -exp(layer_data(layer, S4_PARAMETER_A_REAL)[n]) - I * layer_data(layer, S4_PARAMETER_A_IMAG)[n];
        double complex v[N], b = 0, sum = 0;
        eigenvector(lambda, v);
        for (int m = 0; m < N; m++)
            b += conj(v[m]) * sqrt(2 * m + 1);
        for (int m = 0; m < N; m++)
            sum += v[m] * b / cabs(b); /* the phase that makes (V* B)_n real and positive */
        c[2 * n] = creal(sum);
        c[2 * n + 1] = cimag(sum);
    }
    layer_write_c(layer, c, 0);
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
    const s4_problem problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, 4, 4);
    session s = session_open(context, &problem);
    expect_close("K", 4, session_kernel(&s, layer), expected, TOLERANCE_INIT, 0);
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* V is unitary: it keeps the norms of B and P and the trace of A + P P^T, which is -N/2. */
Test(init, invariants)
{
    static const int64_t sizes[] = {2, 4, 16, 64, 256};
    s4_context *context = context_open();
    for (int i = 0; i < 5; i++) {
        const int64_t d_state = sizes[i], modes = d_state / 2;
        about("N = %d", (int)d_state);
        s4_layer *layer = layer_legs(context, 2, d_state, 1);
        cr_assert_eq(s4_layer_length(layer), 0);
        const double *B = layer_data(layer, S4_PARAMETER_B), *P = layer_data(layer, S4_PARAMETER_P),
                     *A_real = layer_data(layer, S4_PARAMETER_A_REAL), *A_imag = layer_data(layer, S4_PARAMETER_A_IMAG);
        double norm_b = 0, norm_p = 0;
        for (int64_t n = 0; n < modes; n++) {
            check(fabs(exp(A_real[n]) - 0.5) <= TOLERANCE_INIT, "[%s] Re Lambda is not -1/2", about_text());
            check(A_imag[n] > 0, "[%s] not the upper half of the spectrum", about_text());
            check(B[2 * n] > 0 && fabs(B[2 * n + 1]) <= TOLERANCE_INIT * B[2 * n], "[%s] B is not real", about_text());
            norm_b += 2 * (B[2 * n] * B[2 * n] + B[2 * n + 1] * B[2 * n + 1]);
            norm_p += 2 * (P[2 * n] * P[2 * n] + P[2 * n + 1] * P[2 * n + 1]);
        }
        const double square = (double)(d_state * d_state);
        check(fabs(norm_b / square - 1) <= TOLERANCE_INIT, "[%s] |B|^2 is %.17g", about_text(), norm_b);
        check(fabs(2 * norm_p / square - 1) <= TOLERANCE_INIT, "[%s] |P|^2 is %.17g", about_text(), norm_p);
        /* All copies begin alike. */
        expect_same_bits("A_imag of the copies", modes, A_imag + modes, A_imag);
        expect_same_bits("P of the copies", 2 * modes, P + 2 * modes, P);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

Test(init, random_numbers)
{
    enum { H = 64, STATE = 32 };
    s4_context *context = context_open();
    int64_t count;
    s4_layer *layer = layer_legs(context, H, STATE, 7), *again = layer_legs(context, H, STATE, 7),
             *other = layer_legs(context, H, STATE, 8);
    expect_same_bits("the same seed", layer_bits(layer, &count) ? count : 0, layer_bits(again, &count),
                     layer_bits(layer, &count));
    expect_other_bits("another seed", layer_count(layer, S4_PARAMETER_C), layer_data(other, S4_PARAMETER_C),
                      layer_data(layer, S4_PARAMETER_C));

    const double *inv_dt = layer_data(layer, S4_PARAMETER_INV_DT), *C = layer_data(layer, S4_PARAMETER_C);
    double mean_dt = 0, mean = 0, square = 0;
    for (int h = 0; h < H; h++) {
        check(inv_dt[h] >= log(1e-3) && inv_dt[h] <= log(1e-1), "inv_dt[%d] is %g", h, inv_dt[h]);
        mean_dt += inv_dt[h] / H;
    }
    for (int i = 0; i < H * STATE; i++) {
        mean += C[i] / (H * STATE);
        square += C[i] * C[i] / (H * STATE);
    }
    /* Five standard deviations of each mean. */
    check(fabs(mean_dt - (log(1e-3) + log(1e-1)) / 2) <= 5 * log(100) / sqrt(12.0 * H), "mean of log dt %g", mean_dt);
    check(fabs(mean) <= 5 * sqrt(0.5 / (H * STATE)), "mean of C %g", mean);
    check(fabs(square - 0.5) <= 5 * sqrt(0.5 / (H * STATE)), "variance of the parts of C is %g, not 1/2", square);

    s4_init_options init;
    S4_INIT(&init);
    init.dt_min = 0.01;
    init.dt_max = 0.02;
    must(s4_layer_init_legs(context, layer, &init));
    for (int h = 0; h < H; h++)
        check(inv_dt[h] >= log(0.01) && inv_dt[h] <= log(0.02), "inv_dt[%d] is %g", h, inv_dt[h]);
    s4_layer_destroy(layer);
    s4_layer_destroy(again);
    s4_layer_destroy(other);
    s4_context_destroy(context);
}

Test(init, refused)
{
    s4_context *context = context_open();
    const layer_shape rank2 = {.d_model = 1, .d_state = 4, .rank = 2, .plain_transforms = 1};
    const layer_shape softplus = {.d_model = 1, .d_state = 4, .rank = 1, .dt_transform = S4_TRANSFORM_SOFTPLUS,
                                  .real_transform = S4_TRANSFORM_EXP, .imag_transform = S4_TRANSFORM_NONE};
    const layer_shape plain = {.d_model = 1, .d_state = 4, .rank = 1, .plain_transforms = 1};
    s4_init_options init;
    S4_INIT(&init);
    s4_layer *layer = layer_random(&rank2, 1);
    int64_t count;
    const double *before = layer_bits(layer, &count);
    must_refuse(s4_layer_init_legs(context, layer, &init), S4_ERROR_UNSUPPORTED, "rank");
    expect_same_bits("parameters", count, layer_bits(layer, &count), before);
    s4_layer_destroy(layer);
    layer = layer_random(&softplus, 1);
    must_refuse(s4_layer_init_legs(context, layer, &init), S4_ERROR_UNSUPPORTED, "transform");
    s4_layer_destroy(layer);
    layer = layer_random(&plain, 1);
    init.dt_min = 0.1;
    init.dt_max = 0.01;
    must_refuse(s4_layer_init_legs(context, layer, &init), S4_ERROR_ARGUMENT, "dt_m");
    init.dt_min = -1;
    must_refuse(s4_layer_init_legs(context, layer, &init), S4_ERROR_ARGUMENT, "dt_min");
    s4_layer_destroy(layer);
    s4_context_destroy(context);
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
        {2, 0, 1, 0, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "d_state"},
        {2, -2, 1, 0, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "d_state"},
        {2, 4, 5, 0, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "rank"},
        {2, 4, -1, 0, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "rank"},
        {4, 4, 1, 3, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "n_ssm"},
        {4, 4, 1, -1, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "n_ssm"},
        {4, 4, 1, 8, 1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "n_ssm"},
        {4, 4, 1, 0, 2, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_UNSUPPORTED, "channels"},
        {4, 4, 1, 0, -1, S4_MODE_DPLR, S4_BILINEAR, S4_ERROR_ARGUMENT, "channels"},
        {4, 4, 1, 0, 1, S4_MODE_DIAG, S4_BILINEAR, S4_ERROR_UNSUPPORTED, "diag"},
        {4, 4, 1, 0, 1, S4_MODE_DPLR, S4_ZOH, S4_ERROR_UNSUPPORTED, "discretisation"},
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
