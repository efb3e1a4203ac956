/*
 * HiPPO-LegS of size N in diagonal plus low-rank form.
 *
 * A[m,k] = -sqrt(2m+1) sqrt(2k+1) for m > k, -(m+1) for m = k, 0 above; B[m] = sqrt(2m+1), P[m] = sqrt(m+1/2).
 * M = A + P P^T is -1/2 I plus the skew matrix K with K[m,k] = -1/2 sqrt(2m+1) sqrt(2k+1) below the diagonal. The
 * Hermitian -iK = V diag(w) V* gives A = V (Lambda - (V*P)(V*P)*) V* with Lambda = -1/2 + i w. Eigenvalues come in
 * pairs +-w; kept are the n with the most negative w, ascending.
 *
 * An eigenvector is free up to a phase: each is rotated so that (V*B)_j is real and positive.
 */
#include <inttypes.h>
#include <math.h>

#include <lapacke.h>

#include "cpu/place.h"

/* Lower triangle, by columns, interleaved. */
static void fill_hermitian(int64_t state, double *matrix)
{
    for (int64_t k = 0; k < state; k++)
        for (int64_t m = k; m < state; m++) {
            double entry = m == k ? 0 : 0.5 * sqrt((double)(2 * m + 1)) * sqrt((double)(2 * k + 1));
            matrix[2 * (k * state + m)] = 0;
            matrix[2 * (k * state + m) + 1] = entry;
        }
}

/* vector (N,2): column j of V. */
static void project_mode(int64_t state, const double *vector, int64_t j, double *p, double *b)
{
    double b_re = 0, b_im = 0, p_re = 0, p_im = 0;
    for (int64_t m = 0; m < state; m++) {
        double root_b = sqrt((double)(2 * m + 1)), root_p = sqrt((double)m + 0.5);
        b_re += vector[2 * m] * root_b;
        b_im -= vector[2 * m + 1] * root_b;
        p_re += vector[2 * m] * root_p;
        p_im -= vector[2 * m + 1] * root_p;
    }
    double size = hypot(b_re, b_im), turn_re = b_re / size, turn_im = -b_im / size;
    b[2 * j] = size;
    b[2 * j + 1] = 0;
    p[2 * j] = p_re * turn_re - p_im * turn_im;
    p[2 * j + 1] = p_re * turn_im + p_im * turn_re;
}

s4_status cpu_legs(int64_t modes, double *scratch, double *lambda, double *p, double *b)
{
    int64_t state = 2 * modes;
    double *matrix = scratch, *frequency = scratch + 2 * state * state;
    fill_hermitian(state, matrix);
    lapack_int info = LAPACKE_zheevd(LAPACK_COL_MAJOR, 'V', 'L', (lapack_int)state, (lapack_complex_double *)matrix,
                                     (lapack_int)state, frequency);
    if (info == LAPACK_WORK_MEMORY_ERROR)
        return cpu_host->fail(S4_ERROR_MEMORY, "work area of zheevd for N = %" PRId64, state);
    if (info)
        return cpu_host->fail(S4_ERROR_LIBRARY, "zheevd of HiPPO-LegS, N = %" PRId64 ", returned info = %d", state,
                              (int)info);
    for (int64_t j = 0; j < modes; j++) {
        lambda[2 * j] = -0.5;
        lambda[2 * j + 1] = frequency[j];
        project_mode(state, matrix + 2 * j * state, j, p, b);
    }
    return S4_OK;
}
