/* Dense complex algebra by the schoolbook: elimination with partial pivoting, product, power, and
 * the low-rank identity (Woodbury). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference_internal.h"

/* Solves m x = rhs for `columns` right sides; m: (size,size) is destroyed, rhs: (size,columns)
 * becomes x. A singular m gives infinities or NaN, which no tolerance accepts. */
void ref_gauss_solve(int size, int columns, ref_complex *m, ref_complex *rhs)
{
    for (int k = 0; k < size; ++k) {
        int pivot = k;
        for (int i = k + 1; i < size; ++i)
            if (cabsl(m[i * size + k]) > cabsl(m[pivot * size + k]))
                pivot = i;
        for (int j = k; j < size && pivot != k; ++j) {
            ref_complex swap = m[k * size + j];
            m[k * size + j] = m[pivot * size + j];
            m[pivot * size + j] = swap;
        }
        for (int j = 0; j < columns && pivot != k; ++j) {
            ref_complex swap = rhs[k * columns + j];
            rhs[k * columns + j] = rhs[pivot * columns + j];
            rhs[pivot * columns + j] = swap;
        }
        for (int i = k + 1; i < size; ++i) {
            ref_complex factor = m[i * size + k] / m[k * size + k];
            for (int j = k + 1; j < size; ++j)
                m[i * size + j] -= factor * m[k * size + j];
            for (int j = 0; j < columns; ++j)
                rhs[i * columns + j] -= factor * rhs[k * columns + j];
        }
    }
    for (int k = size - 1; k >= 0; --k)
        for (int j = 0; j < columns; ++j) {
            ref_complex sum = rhs[k * columns + j];
            for (int i = k + 1; i < size; ++i)
                sum -= m[k * size + i] * rhs[i * columns + j];
            rhs[k * columns + j] = sum / m[k * size + k];
        }
}

/* out = x y, all (size,size); out is neither x nor y. */
void ref_multiply(int size, const ref_complex *x, const ref_complex *y, ref_complex *out)
{
    for (int i = 0; i < size; ++i) {
        for (int j = 0; j < size; ++j)
            out[i * size + j] = 0;
        for (int k = 0; k < size; ++k)
            for (int j = 0; j < size; ++j)
                out[i * size + j] += x[i * size + k] * y[k * size + j];
    }
}

void ref_matrix_power(int size, const ref_complex *x, int exponent, enum ref_power_method method,
                      ref_complex *out)
{
    ref_check(exponent >= 0, "negative power");
    size_t count = (size_t)size * (size_t)size, bytes = count * sizeof *x;
    ref_complex *product = ref_allocate(count, sizeof *product);
    ref_complex *square = ref_allocate(count, sizeof *square);
    for (size_t i = 0; i < count; ++i)
        out[i] = 0;
    for (int i = 0; i < size; ++i)
        out[i * size + i] = 1;
    memcpy(square, x, bytes);
    if (method == REF_POWER_REPEATED) {
        for (int l = 0; l < exponent; ++l) {
            ref_multiply(size, out, x, product);
            memcpy(out, product, bytes);
        }
    } else {
        for (int rest = exponent; rest > 0; rest /= 2) {
            if (rest % 2) {
                ref_multiply(size, out, square, product);
                memcpy(out, product, bytes);
            }
            if (rest > 1) {
                ref_multiply(size, square, square, product);
                memcpy(square, product, bytes);
            }
        }
    }
    free(product);
    free(square);
}

/* x = (D + sum_r left_r right_r^T)^-1 rhs
 *   = D^-1 (rhs - left (I + right^T D^-1 left)^-1 right^T D^-1 rhs);
 * inverse_diagonal: (size) D^-1; left, right: (rank,size); x is not rhs. */
void ref_low_rank_solve(int size, int rank, const ref_complex *inverse_diagonal,
                        const ref_complex *left, const ref_complex *right, const ref_complex *rhs,
                        ref_complex *x)
{
    enum { RANK_MAX = 16 };
    ref_complex capacitance[RANK_MAX * RANK_MAX], weight[RANK_MAX];
    ref_check(rank <= RANK_MAX, "rank too large for the reference");
    for (int i = 0; i < size; ++i)
        x[i] = inverse_diagonal[i] * rhs[i];
    for (int r = 0; r < rank; ++r) {
        weight[r] = ref_dot(size, right + r * size, x);
        for (int s = 0; s < rank; ++s) {
            ref_complex sum = r == s;
            for (int i = 0; i < size; ++i)
                sum += right[r * size + i] * inverse_diagonal[i] * left[s * size + i];
            capacitance[r * rank + s] = sum;
        }
    }
    ref_gauss_solve(rank, 1, capacitance, weight);
    for (int r = 0; r < rank; ++r)
        for (int i = 0; i < size; ++i)
            x[i] -= inverse_diagonal[i] * left[r * size + i] * weight[r];
}
