/*
 * The HiPPO matrices of size N in diagonal plus low-rank form.
 *
 * m is the row, k the column, r_m = sqrt(2m+1):
 *   legs     A = -r_m r_k below the diagonal, -(m+1) on it, 0 above; B = r, P = r/sqrt2
 *   legt     A = -1/2 r_m r_k [(-1)^(m-k) above the diagonal, else 1]; B = r/2; P in two columns: the odd entries, then
 *            the even entries, of r/sqrt2
 *   lagt     A = 1/2 I - (1 on and below the diagonal); B = 1, P = sqrt(1/2)
 *   fourier  A = K - B B^T, K[2j+1,2j] = -K[2j,2j+1] = pi j; P = B = (1, 0, sqrt2, 0, sqrt2, 0, ...)
 * In each, A + P P^T = -decay I + K with K skew. The Hermitian -iK = V diag(w) V* gives
 * A = V (Lambda - (V*P)(V*P)*) V* with Lambda = -decay + i w. Eigenvalues come in pairs +-w; kept are the n with the
 * most negative w, ascending.
 *
 * An eigenvector is free up to a phase: each is rotated so that (V*B)_j is real and positive.
 *
 * fourier is known in closed form: K is made of blocks of two, with eigenvectors (1, i)/sqrt2 to w = -pi j, so that V*B
 * is 1, and 1/sqrt2 in block 0. There the eigenvalue 0 is double and its eigenvector one choice of many.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <lapacke.h>

#include "cpu/place.h"

static double root(int64_t m) { return sqrt((double)(2 * m + 1)); }

static double legs_skew(int64_t m, int64_t k) { return -0.5 * root(m) * root(k); }
static double legt_skew(int64_t m, int64_t k) { return (m - k) % 2 ? -0.5 * root(m) * root(k) : 0; }
static double lagt_skew(int64_t m, int64_t k)
{
    (void)m, (void)k;
    return -0.5;
}

static double legs_p(int64_t column, int64_t m)
{
    (void)column;
    return sqrt((double)m + 0.5);
}
static double legt_p(int64_t column, int64_t m) { return (m % 2 == 0) == (column == 1) ? sqrt((double)m + 0.5) : 0; }
static double lagt_p(int64_t column, int64_t m)
{
    (void)column, (void)m;
    return sqrt(0.5);
}

static double legt_b(int64_t m) { return 0.5 * root(m); }
static double lagt_b(int64_t m)
{
    (void)m;
    return 1;
}

typedef struct family {
    const char *name;
    double decay;                         /* -Re Lambda */
    int64_t rank;                         /* columns of P */
    double (*skew)(int64_t m, int64_t k); /* K[m,k], m > k */
    double (*p)(int64_t column, int64_t m);
    double (*b)(int64_t m);
} family;

static const family families[] = {
    [S4_INIT_LEGS] = {"legs", 0.5, 1, legs_skew, legs_p, root},
    [S4_INIT_LEGT] = {"legt", 0, 2, legt_skew, legt_p, legt_b},
    [S4_INIT_LAGT] = {"lagt", 0, 1, lagt_skew, lagt_p, lagt_b},
};

/* Lower triangle of -iK, by columns, interleaved. */
static void fill_hermitian(const family *f, int64_t state, double *matrix)
{
    for (int64_t k = 0; k < state; k++)
        for (int64_t m = k; m < state; m++) {
            matrix[2 * (k * state + m)] = 0;
            matrix[2 * (k * state + m) + 1] = m == k ? 0 : -f->skew(m, k);
        }
}

/* vector (N,2): column j of V. p (R,n,2), b (n,2). */
static void project_mode(const family *f, int64_t modes, const double *vector, int64_t j, double *p, double *b)
{
    double b_re = 0, b_im = 0;
    for (int64_t m = 0; m < 2 * modes; m++) {
        b_re += vector[2 * m] * f->b(m);
        b_im -= vector[2 * m + 1] * f->b(m);
    }
    double size = hypot(b_re, b_im), turn_re = b_re / size, turn_im = -b_im / size;
    b[2 * j] = size;
    b[2 * j + 1] = 0;
    for (int64_t r = 0; r < f->rank; r++) {
        double p_re = 0, p_im = 0;
        for (int64_t m = 0; m < 2 * modes; m++) {
            p_re += vector[2 * m] * f->p(r, m);
            p_im -= vector[2 * m + 1] * f->p(r, m);
        }
        p[2 * (r * modes + j)] = p_re * turn_re - p_im * turn_im;
        p[2 * (r * modes + j) + 1] = p_re * turn_im + p_im * turn_re;
    }
}

static void fourier(int64_t modes, double *lambda, double *p, double *b)
{
    const double pi = 3.14159265358979323846;
    for (int64_t i = 0; i < modes; i++) {
        int64_t block = modes - 1 - i;
        lambda[2 * i] = -0.0;
        lambda[2 * i + 1] = -pi * (double)block;
        b[2 * i] = block ? 1 : sqrt(0.5);
        b[2 * i + 1] = 0;
    }
    memcpy(p, b, (size_t)modes * 2 * sizeof *b);
}

s4_status cpu_hippo(s4_init init, int64_t modes, double *scratch, double *lambda, double *p, double *b)
{
    if (init == S4_INIT_FOURIER) {
        fourier(modes, lambda, p, b);
        return S4_OK;
    }
    if ((int)init < 0 || init > S4_INIT_LAGT)
        return cpu_host->fail(S4_ERROR_ARGUMENT, "init is %d, which names no HiPPO matrix", (int)init);
    _Static_assert(sizeof(lapack_int) <= sizeof(double), "as s4_hippo_scratch counts");
    const family *f = &families[init];
    int64_t state = 2 * modes;
    /* LAPACK documents the sizes of its three work areas. */
    int64_t complex_count = 2 * state + state * state, real_count = 1 + 5 * state + 2 * state * state;
    double *matrix = scratch, *work = matrix + 2 * state * state, *real_work = work + 2 * complex_count;
    double *frequency = real_work + real_count;
    lapack_int *integer_work = (lapack_int *)(void *)(frequency + state);
    fill_hermitian(f, state, matrix);
    lapack_int info =
        LAPACKE_zheevd_work(LAPACK_COL_MAJOR, 'V', 'L', (lapack_int)state, (lapack_complex_double *)matrix,
                            (lapack_int)state, frequency, (lapack_complex_double *)work, (lapack_int)complex_count,
                            real_work, (lapack_int)real_count, integer_work, (lapack_int)(3 + 5 * state));
    if (info)
        return cpu_host->fail(S4_ERROR_LIBRARY, "zheevd of HiPPO %s, N = %" PRId64 ", returned info = %d", f->name,
                              state, (int)info);
    for (int64_t j = 0; j < modes; j++) {
        lambda[2 * j] = -f->decay;
        lambda[2 * j + 1] = frequency[j];
        project_mode(f, modes, matrix + 2 * j * state, j, p, b);
    }
    return S4_OK;
}
