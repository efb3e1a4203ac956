/*
 * The HiPPO families: the diagonal plus low-rank form describes the matrix it was made from, as defined in "HiPPO:
 * Recurrent Memory with Optimal Polynomial Projections" (Gu et al., 2020) and "How to Train Your HiPPO" (Gu et al.,
 * 2022).
 */
#include <complex.h>
#include <math.h>

#include "expect.h"
#include "fresh.h"
#include "golden.h"
#include "layers.h"
#include "tolerances.h"

enum { LARGEST = 256 };
#define PI 3.14159265358979323846

/* Eigenvalues are good to a rounding of the largest one, some N^2; the resolvent, half a unit away, sees that. */
#define TOLERANCE_RESOLVENT 5e-12
/* Published files started in single precision. */
#define TOLERANCE_PUBLISHED 2e-6

/* ---- HiPPO matrices, from their definitions ------------------------------------------------------------------ */

static double hippo_p(s4_init init, int r, int m)
{
    switch (init) {
    case S4_INIT_LEGS: return sqrt(m + 0.5);
    case S4_INIT_LEGT: return m % 2 != r ? sqrt(m + 0.5) : 0;
    case S4_INIT_LAGT: return sqrt(0.5);
    default: return m % 2 ? 0 : m ? sqrt(2) : 1;
    }
}

static double hippo_b(s4_init init, int m)
{
    switch (init) {
    case S4_INIT_LEGS: return sqrt(2 * m + 1);
    case S4_INIT_LEGT: return sqrt(2 * m + 1) / 2;
    case S4_INIT_LAGT: return 1;
    default: return hippo_p(init, 0, m);
    }
}

static double hippo_a(s4_init init, int m, int k)
{
    const double roots = sqrt(2 * m + 1) * sqrt(2 * k + 1);
    switch (init) {
    case S4_INIT_LEGS: return m > k ? -roots : m == k ? -(m + 1) : 0;
    case S4_INIT_LEGT: return -0.5 * roots * (m < k && (k - m) % 2 ? -1 : 1);
    case S4_INIT_LAGT: return (m == k ? 0.5 : 0) - (m >= k ? 1 : 0);
    default: {
        double skew = 0;
        if (m == k + 1 && k % 2 == 0)
            skew = PI * (k / 2);
        if (k == m + 1 && m % 2 == 0)
            skew = -PI * (m / 2);
        return skew - hippo_b(init, m) * hippo_b(init, k);
    }
    }
}

/* x <- (s - A - P P^T)^-1 x for `count` right sides x (count, N). */
static void resolvent(s4_init init, int state, double complex s, int count, double complex *x)
{
    static double complex a[LARGEST][LARGEST];
    const int rank = (int)rank_of(init);
    for (int m = 0; m < state; m++)
        for (int k = 0; k < state; k++) {
            a[m][k] = (m == k ? s : 0) - hippo_a(init, m, k);
            for (int r = 0; r < rank; r++)
                a[m][k] -= hippo_p(init, r, m) * hippo_p(init, r, k);
        }
    for (int p = 0; p < state; p++) { /* the Hermitian part is positive: no exchange of rows is needed */
        for (int m = p + 1; m < state; m++) {
            const double complex factor = a[m][p] / a[p][p];
            for (int k = p + 1; k < state; k++)
                a[m][k] -= factor * a[p][k];
            for (int i = 0; i < count; i++)
                x[i * state + m] -= factor * x[i * state + p];
        }
    }
    for (int i = 0; i < count; i++)
        for (int m = state - 1; m >= 0; m--) {
            for (int k = m + 1; k < state; k++)
                x[i * state + m] -= a[m][k] * x[i * state + k];
            x[i * state + m] /= a[m][m];
        }
}

/* Lambda, P and B are those of A: y^T (s - A - P P^T)^-1 x is the sum over the modes and their conjugates of
 * conj(y_j) x_j / (s - Lambda_j), for all x and y of B and the columns of P. */
Test(hippo, resolvents)
{
    static const int sizes[] = {2, 4, 6, 16, 64, LARGEST};
    static const s4_init families[] = {S4_INIT_LEGS, S4_INIT_LEGT, S4_INIT_LAGT, S4_INIT_FOURIER};
    static double complex x[3 * LARGEST];
    s4_context *context = context_new();
    for (int i = 0; i < 24; i++) {
        const s4_init init = families[i % 4];
        const int state = sizes[i / 4], n = state / 2, rank = (int)rank_of(init);
        about("%s, N = %d", s4_init_name(init), state);
        const s4_layer_options options = options_new(S4_MODE_DPLR, 1, state, rank);
        const s4_init_options start = init_new(init, 1);
        s4_layer *layer = layer_new(context, &options, &start);
        const double *real = layer_data(layer, S4_PARAMETER_A_REAL), *imag = layer_data(layer, S4_PARAMETER_A_IMAG),
                     *b = layer_data(layer, S4_PARAMETER_B), *p = layer_data(layer, S4_PARAMETER_P);
        for (int j = 0; j < n; j++) {
            check(b[2 * j] > 0 && b[2 * j + 1] == 0, "[%s] B[%d] is not real and positive", about_text(), j);
            check(j == 0 || imag[j] < imag[j - 1], "[%s] mode %d is not in order", about_text(), j);
            check(imag[j] > 0 || (imag[j] == 0 && init == S4_INIT_FOURIER && j == n - 1), "[%s] A_imag[%d] is %g",
                  about_text(), j, imag[j]);
            check(real[j] == (init == S4_INIT_LEGS ? 0.5 : 0), "[%s] A_real[%d] is %g", about_text(), j, real[j]);
        }
        for (int q = 0; q < 4; q++) {
            const double complex s = 0.5 + I * (double[]){0, 1, 0.5 * state, 0.25 * state * state}[q];
            double most = 0, error = 0;
            for (int c = 0; c <= rank; c++)
                for (int m = 0; m < state; m++)
                    x[c * state + m] = c == 0 ? hippo_b(init, m) : hippo_p(init, c - 1, m);
            resolvent(init, state, s, 1 + rank, x);
            for (int c = 0; c <= rank; c++)
                for (int d = 0; d <= rank; d++) {
                    const double *from = c == 0 ? b : p + (c - 1) * state, *to = d == 0 ? b : p + (d - 1) * state;
                    double complex expected = 0, got = 0;
                    for (int m = 0; m < state; m++)
                        expected += (d == 0 ? hippo_b(init, m) : hippo_p(init, d - 1, m)) * x[c * state + m];
                    for (int j = 0; j < n; j++) {
                        const double complex lambda = -real[j] - I * imag[j];
                        const double complex product =
                            (to[2 * j] - I * to[2 * j + 1]) * (from[2 * j] + I * from[2 * j + 1]);
                        got += product / (s - lambda) + conj(product) / (s - conj(lambda));
                    }
                    most = fmax(most, cabs(expected));
                    error = fmax(error, cabs(got - expected));
                }
            check(error <= TOLERANCE_RESOLVENT * most, "[%s] resolvent %d: error %g of %g", about_text(), q, error,
                  most);
        }
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* ---- kernels known by hand ----------------------------------------------------------------------------------- */

enum { N = 4 };

/* Solves x z = y by elimination with the largest pivot of all; what no column reaches is left out. */
static void solve(long double x[N][N], long double y[N], long double z[N])
{
    int column[N] = {0, 1, 2, 3}, rank = 0;
    for (; rank < N; rank++) {
        int row = rank, best = rank;
        for (int m = rank; m < N; m++)
            for (int k = rank; k < N; k++)
                if (fabsl(x[m][column[k]]) > fabsl(x[row][column[best]])) {
                    row = m;
                    best = k;
                }
        const int swap = column[rank];
        column[rank] = column[best];
        column[best] = swap;
        if (fabsl(x[row][column[rank]]) < 1e-12L)
            break;
        for (int k = 0; k < N; k++) {
            const long double entry = x[rank][k];
            x[rank][k] = x[row][k];
            x[row][k] = entry;
        }
        const long double entry = y[rank];
        y[rank] = y[row];
        y[row] = entry;
        for (int m = rank + 1; m < N; m++) {
            const long double factor = x[m][column[rank]] / x[rank][column[rank]];
            for (int k = 0; k < N; k++)
                x[m][k] -= factor * x[rank][k];
            y[m] -= factor * y[rank];
        }
    }
    for (int k = 0; k < N; k++)
        z[k] = 0;
    for (int p = rank - 1; p >= 0; p--) {
        long double sum = y[p];
        for (int k = p + 1; k < rank; k++)
            sum -= x[p][column[k]] * z[column[k]];
        z[column[p]] = sum / x[p][column[p]];
    }
}

/* C of the modes, closed, where C is `row` in the real basis: with V* A^k B = A'^k B' (' in the modes) and
 * row^T = sum_k z_k A^k B, V* row^T is sum_k z_k A'^k B'. */
static void read_out(s4_init init, const double row[N], const double complex a[N][N], const double complex b[N],
                     double complex c[N])
{
    long double x[N][N], y[N] = {row[0], row[1], row[2], row[3]}, z[N];
    double complex power[N];
    for (int m = 0; m < N; m++) {
        x[m][0] = hippo_b(init, m);
        power[m] = b[m];
        c[m] = 0;
    }
    for (int k = 1; k < N; k++)
        for (int m = 0; m < N; m++) {
            x[m][k] = 0;
            for (int i = 0; i < N; i++)
                x[m][k] += hippo_a(init, m, i) * x[i][k - 1];
        }
    solve(x, y, z);
    for (int k = 0; k < N; k++) {
        double complex next[N];
        for (int m = 0; m < N; m++) {
            c[m] += (double)z[k] * conj(power[m]);
            next[m] = 0;
            for (int i = 0; i < N; i++)
                next[m] += a[m][i] * power[i];
        }
        for (int m = 0; m < N; m++)
            power[m] = next[m];
    }
}

/* The modes, then their conjugates. */
static void close_vector(const double *half, double complex closed[N])
{
    for (int j = 0; j < N / 2; j++) {
        closed[j] = half[2 * j] + I * half[2 * j + 1];
        closed[j + N / 2] = conj(closed[j]);
    }
}

/* dA = e^(dt A) and dB = dt (1 + dt A / 2! + (dt A)^2 / 3! ...) B. */
static void hold(double dt, const double complex a[N][N], const double complex b[N], double complex da[N][N],
                 double complex db[N])
{
    double complex term[N][N];
    for (int m = 0; m < N; m++) {
        db[m] = 0;
        for (int k = 0; k < N; k++)
            term[m][k] = da[m][k] = m == k;
    }
    for (int order = 1; order < 40; order++) {
        double complex next[N][N];
        for (int m = 0; m < N; m++)
            for (int k = 0; k < N; k++) {
                db[m] += dt / order * term[m][k] * b[k];
                next[m][k] = 0;
                for (int i = 0; i < N; i++)
                    next[m][k] += dt / order * term[m][i] * a[i][k];
            }
        for (int m = 0; m < N; m++)
            for (int k = 0; k < N; k++)
                da[m][k] += term[m][k] = next[m][k];
    }
}

Test(hippo, kernels_by_hand)
{
    static const double ones[N] = {1, 1, 1, 1};
    static const struct {
        s4_init init;
        int hold;
        double expected[4];
    } cases[] = {
        {S4_INIT_LEGS, 0, {0.547052197738568, 0.223439367527315, 0.063993929101352, -0.004599418612013}},
        {S4_INIT_LEGS, 1, {0.529932869866827, 0.2212216586845, 0.067681434163752, 0.000573332837952}},
        {S4_INIT_LEGT, 0, {0.321402254081628, 0.216509973793743, 0.137369140899744, 0.080454162904802}},
        {S4_INIT_LAGT, 0, {0.362606745581102, 0.29276016050276, 0.232271113226713, 0.180142599291233}},
        {S4_INIT_FOURIER, 0, {0.226295966438529, 0.19432070069929, 0.159938791683843, 0.125168330605134}},
    };
    s4_context *context = context_new();
    for (int i = 0; i < 5; i++) {
        about("%s, hold %d", s4_init_name(cases[i].init), cases[i].hold);
        const s4_layer_options options = options_new(S4_MODE_DPLR, 1, N, rank_of(cases[i].init));
        const s4_init_options start = init_new(cases[i].init, 1);
        s4_layer *layer = layer_new(context, &options, &start);
        layer_data(layer, S4_PARAMETER_INV_DT)[0] = log(0.1);
        const struct ref_layer reference = layer_reference(layer);
        double complex a[N][N], da[N][N], b[N], db[N], c[N];
        close_vector(layer_data(layer, S4_PARAMETER_B), b);
        ref_dense_a(&reference, 0, (double *)a);
        if (cases[i].hold)
            hold(0.1, a, b, da, db);
        else
            ref_discretise(&reference, 0, (double *)da, (double *)db);
        read_out(cases[i].init, ones, a, b, c);
        double kernel[4];
        for (int l = 0; l < 4; l++) {
            double complex sum = 0, next[N];
            for (int m = 0; m < N; m++) {
                sum += c[m] * db[m];
                next[m] = 0;
                for (int k = 0; k < N; k++)
                    next[m] += da[m][k] * db[k];
            }
            kernel[l] = creal(sum);
            for (int m = 0; m < N; m++)
                db[m] = next[m];
        }
        expect_close("K", 4, kernel, cases[i].expected, TOLERANCE_INIT, 0);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* ---- published layers ----------------------------------------------------------------------------------------- */

static void check_turned(const char *what, int64_t j, double complex turn, const double *ours, const double *published)
{
    const double complex expected = published[0] + I * published[1];
    check(cabs(turn * (ours[0] + I * ours[1]) - expected) <= TOLERANCE_PUBLISHED * fmax(cabs(expected), 1),
          "[%s] %s[%d] is %g %+gi", about_text(), what, (int)j, ours[0], ours[1]);
}

/* Lambda, P and B of fresh published layers, where an eigenvector has a sign (legs) or a phase (fourier) of its own. */
Test(hippo, published_clamps)
{
    static const struct {
        char file[24];
        s4_init init;
    } cases[] = {
        {"dplr_legs_start", S4_INIT_LEGS},
        {"dplr_fourier", S4_INIT_FOURIER},
        {"dplr_hippo_mix", S4_INIT_HIPPO},
    };
    s4_context *context = context_new();
    for (int i = 0; i < 3; i++) {
        about("%s", cases[i].file);
        char path[1024];
        s4_layer *published;
        golden_path(cases[i].file, ".in.safetensors", sizeof path, path);
        must(s4_layer_load(path, NULL, NULL, &published));
        const s4_layer_options options = layer_options(published);
        s4_init_options start = init_new(cases[i].init, 1);
        start.published_clamps = 1;
        s4_layer *layer = layer_new(context, &options, &start);
        const int64_t count = layer_count(layer, S4_PARAMETER_A_REAL), modes = options.d_state / 2;
        expect_close("A_real", count, layer_data(layer, S4_PARAMETER_A_REAL),
                     layer_data(published, S4_PARAMETER_A_REAL), TOLERANCE_PUBLISHED, 0);
        expect_close("A_imag", count, layer_data(layer, S4_PARAMETER_A_IMAG),
                     layer_data(published, S4_PARAMETER_A_IMAG), TOLERANCE_PUBLISHED, 0);
        for (int64_t j = 0; j < count; j++) {
            const double *b = layer_data(layer, S4_PARAMETER_B) + 2 * j, *p = layer_data(layer, S4_PARAMETER_P) + 2 * j,
                         *b_published = layer_data(published, S4_PARAMETER_B) + 2 * j,
                         *p_published = layer_data(published, S4_PARAMETER_P) + 2 * j;
            double complex turn = (p_published[0] + I * p_published[1]) / (p[0] + I * p[1]);
            const int fourier = cases[i].init == S4_INIT_FOURIER || (cases[i].init == S4_INIT_HIPPO && j >= modes);
            turn = fourier ? turn / cabs(turn) : creal(turn) > 0 ? 1 : -1;
            check_turned("B", j, turn, b, b_published);
            check_turned("P", j, turn, p, p_published);
        }
        s4_layer_destroy(published);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* The clip is made where the first entry of every eigenvector is real. */
Test(hippo, published_phase)
{
    static const double first[N] = {1, 0, 0, 0};
    s4_context *context = context_new();
    for (s4_init init = S4_INIT_LEGS; init <= S4_INIT_LAGT; init++) {
        about("%s", s4_init_name(init));
        const s4_layer_options options = options_new(S4_MODE_DPLR, 1, N, rank_of(init));
        s4_init_options start = init_new(init, 1);
        start.published_clamps = 1;
        s4_layer *layer = layer_new(context, &options, &start);
        double complex a[N][N], b[N], v[N];
        for (int j = 0; j < N / 2; j++)
            layer_data(layer, S4_PARAMETER_A_REAL)[j] = init == S4_INIT_LEGS ? 0.5 : 0;
        const struct ref_layer reference = layer_reference(layer);
        ref_dense_a(&reference, 0, (double *)a);
        close_vector(layer_data(layer, S4_PARAMETER_B), b);
        if (init == S4_INIT_LEGS) { /* B is clipped, but it is sqrt 2 P */
            close_vector(layer_data(layer, S4_PARAMETER_P), b);
            for (int j = 0; j < N; j++)
                b[j] *= sqrt(2);
        }
        read_out(init, first, a, b, v);
        for (int j = 0; j < N / 2; j++)
            check(creal(v[j]) > 0 && fabs(cimag(v[j])) <= TOLERANCE_INIT, "[%s] eigenvector %d begins with %g %+gi",
                  about_text(), j, creal(v[j]), cimag(v[j]));
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}
