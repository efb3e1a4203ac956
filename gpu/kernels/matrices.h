/*
 * Square matrices (N,N), real, row-major, in global memory, and rows (N), of one block of threads: product, power, row
 * times matrix, and the factors and the solution of c M = r with its condition number.
 *
 * Every element is one sum over k ascending, and what is reduced over threads has a fixed shape. Every function is
 * called by all threads of the block, which may read the result when it returns.
 */
#ifndef GPU_KERNELS_MATRICES_H
#define GPU_KERNELS_MATRICES_H

#include "gpu/kernels/complex.h"

constexpr int matrix_tile = 32, matrix_stride = matrix_tile + 1;
/* Doubles of shared memory: two tiles; reductions need less. */
constexpr int matrix_shared = 2 * matrix_tile * matrix_stride;

static inline __device__ void load_tile(int size, const double *matrix, int row, int column, double *tile)
{
    GPU_ROLLED
    for (int i = int(threadIdx.x); i < matrix_tile * matrix_tile; i += gpu_threads) {
        const int r = row + i / matrix_tile, c = column + i % matrix_tile;
        tile[i / matrix_tile * matrix_stride + i % matrix_tile] =
            r < size && c < size ? matrix[int64_t(r) * size + c] : 0;
    }
}

/* product = a b, or += a b; product is neither a nor b. A thread makes 4 rows by 2 columns of a tile. */
static inline __device__ void matrix_product(int size, const double *a, const double *b, double *product, bool adds,
                                             double *shared)
{
    double *of_a = shared, *of_b = shared + matrix_tile * matrix_stride;
    const int x = int(threadIdx.x) % 16, y = int(threadIdx.x) / 16;
    GPU_ROLLED
    for (int row = 0; row < size; row += matrix_tile) GPU_ROLLED
    for (int column = 0; column < size; column += matrix_tile) {
        double sum[4][2] = {};
        GPU_ROLLED
        for (int k = 0; k < size; k += matrix_tile) {
            __syncthreads(); /* the previous tiles have been read */
            load_tile(size, a, row, k, of_a);
            load_tile(size, b, k, column, of_b);
            __syncthreads();
            for (int i = 0; i < matrix_tile; i++) GPU_UNROLL
            for (int r = 0; r < 4; r++) GPU_UNROLL
            for (int c = 0; c < 2; c++)
                sum[r][c] += of_a[(y * 4 + r) * matrix_stride + i] * of_b[i * matrix_stride + x + 16 * c];
        }
        GPU_UNROLL
        for (int r = 0; r < 4; r++) GPU_UNROLL
        for (int c = 0; c < 2; c++) {
            const int at_row = row + y * 4 + r, at_column = column + x + 16 * c;
            if (at_row >= size || at_column >= size) continue;
            double *out = product + int64_t(at_row) * size + at_column;
            *out = adds ? *out + sum[r][c] : sum[r][c];
        }
    }
    __syncthreads();
}

/* base^exponent, exponent >= 1, by squares and products from the highest bit down; the result is base or a scratch. */
static inline __device__ double *matrix_power(int size, double *base, int64_t exponent, double *scratch,
                                              double *other_scratch, double *shared)
{
    double *power = base, *next = scratch, *spare = other_scratch;
    int bit = 0;
    while (exponent >> (bit + 1)) bit++;
    while (bit-- > 0) {
        for (int by_base = 0; by_base <= int(exponent >> bit & 1); by_base++) {
            matrix_product(size, power, by_base ? base : power, next, false, shared);
            double *made = next;
            next = power == base ? spare : power;
            power = made;
        }
    }
    return power;
}

/* out = row * matrix; out is not row. */
static inline __device__ void row_times_matrix(int64_t size, const double *row, const double *matrix, double *out)
{
    for (int64_t j = threadIdx.x; j < size; j += gpu_threads) {
        double sum = 0;
        for (int64_t k = 0; k < size; k++) sum += row[k] * matrix[k * size + j];
        out[j] = sum;
    }
    __syncthreads();
}

/* Sum or maximum over the block of |x|, known to all threads. `shared` holds gpu_warps + 1 doubles. */
static inline __device__ double sum_for_all(double x, double *shared)
{
    x = block_sum(x, shared);
    if (threadIdx.x == 0) shared[gpu_warps] = x;
    __syncthreads();
    return shared[gpu_warps];
}

/* Index of the largest |x[i]|, first <= i < size, the first of equals; known to all threads. NaN loses. The first warp
 * finds it: lane l takes first + l, first + l + 32, ... `shared` holds one double; a barrier must stand between what used it
 * before and this. */
static inline __device__ int64_t largest_for_all(int64_t size, int64_t first, const double *x, double *shared)
{
    if (threadIdx.x < 32) {
        double best = -1;
        long long at = first;
        for (int64_t i = first + threadIdx.x; i < size; i += 32)
            if (fabs(x[i]) > best) {
                best = fabs(x[i]);
                at = i;
            }
        for (unsigned distance = 16; distance > 0; distance /= 2) {
            const double other = __shfl_down_sync(0xffffffffu, best, distance);
            const long long other_at = __shfl_down_sync(0xffffffffu, at, distance);
            if (other > best || (other == best && other_at < at)) {
                best = other;
                at = other_at;
            }
        }
        if (threadIdx.x == 0) shared[0] = double(at);
    }
    __syncthreads();
    return int64_t(shared[0]);
}

/* ---- c M = r ------------------------------------------------------------------------------------------------------ */

/*
 * Factors of T = M^T, T[i][k] = m[k * size + i], in place: L U = T with rows exchanged as `pivots` (size) say; L has ones
 * on its diagonal.
 */
static inline __device__ void factor(int64_t size, double *m, double *pivots, double *shared)
{
    for (int64_t k = 0; k < size; k++) {
        const int64_t pivot = largest_for_all(size, k, m + k * size, shared);
        if (threadIdx.x == 0) pivots[k] = double(pivot);
        if (pivot != k)
            for (int64_t j = threadIdx.x; j < size; j += gpu_threads) {
                const double upper = m[j * size + k];
                m[j * size + k] = m[j * size + pivot];
                m[j * size + pivot] = upper;
            }
        __syncthreads();
        const double diagonal = m[k * size + k];
        for (int64_t i = k + 1 + threadIdx.x; i < size; i += gpu_threads) m[k * size + i] /= diagonal;
        __syncthreads();
        for (int64_t j = k + 1 + threadIdx.x / 32; j < size; j += gpu_warps) {
            const double factor_of_column = m[j * size + k];
            for (int64_t i = k + 1 + threadIdx.x % 32; i < size; i += 32)
                m[j * size + i] -= m[k * size + i] * factor_of_column;
        }
        /* the next column is what the first warp has just written; of the last there is nothing to write */
    }
}

/* Exchanges of rows as they were made, or back. By one thread. */
static inline __device__ void exchange_rows(int64_t size, const double *pivots, bool back, double *x)
{
    for (int64_t i = 0; i < size; i++) {
        const int64_t k = back ? size - 1 - i : i, pivot = int64_t(pivots[k]);
        const double upper = x[k];
        x[k] = x[pivot];
        x[pivot] = upper;
    }
}

/* x <- T^-1 x, or the solution with T transposed; without `pivots`, of L U. The diagonal of U is divided out when all that
 * need it are done. With pivots, a barrier must stand between what wrote x and this. */
static inline __device__ void solve(int64_t size, const double *m, const double *pivots, bool transposed, double *x)
{
    if (threadIdx.x == 0 && pivots && !transposed) exchange_rows(size, pivots, false, x);
    /* L x, from above; or U^T x. */
    for (int64_t k = 0; k + 1 < size; k++) {
        __syncthreads(); /* x[k] */
        const double x_k = transposed ? x[k] / m[k * size + k] : x[k];
        for (int64_t i = k + 1 + threadIdx.x; i < size; i += gpu_threads)
            x[i] -= (transposed ? m[i * size + k] : m[k * size + i]) * x_k;
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < size && transposed; i += gpu_threads) x[i] /= m[i * size + i];
    /* U x, from below; or L^T x. */
    for (int64_t k = size - 1; k > 0; k--) {
        __syncthreads(); /* x[k], from below */
        const double x_k = transposed ? x[k] : x[k] / m[k * size + k];
        for (int64_t i = threadIdx.x; i < k; i += gpu_threads)
            x[i] -= (transposed ? m[i * size + k] : m[k * size + i]) * x_k;
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < size && !transposed; i += gpu_threads) x[i] /= m[i * size + i];
    if (threadIdx.x == 0 && pivots && transposed) exchange_rows(size, pivots, true, x);
    __syncthreads();
}

static inline __device__ double sum_of_sizes(int64_t size, const double *x, double *shared)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < size; i += gpu_threads) sum += fabs(x[i]);
    return sum_for_all(sum, shared);
}

/*
 * A lower bound of |T^-1| in the 1-norm that is rarely too small by more than a factor of three (Hager; Higham 1988): the
 * norm is convex, and solutions with T and its transpose climb to a local maximum over unit vectors; a vector of
 * alternating signs guards against cancellation. An exchange of columns changes no norm. x and signs: (size) scratch.
 */
static inline __device__ double inverse_norm(int64_t size, const double *m, double *x, double *signs, double *shared)
{
    constexpr int most = 11; /* solutions: with T and its transpose by turns, then the guard */
    double norm = 0;
    int64_t unit = -1; /* the unit vector that x was, -1: the mean of all */
    bool is_guard = false;
    for (int64_t i = threadIdx.x; i < size; i += gpu_threads) x[i] = 1 / double(size);
    GPU_ROLLED
    for (int step = 0; step < most; step++) {
        const bool climbs = step % 2 == 0 || is_guard;
        solve(size, m, nullptr, !climbs, x);
        bool at_top = step == most - 2;
        if (is_guard) {
            const double guard = 2 * sum_of_sizes(size, x, shared) / (3 * double(size));
            return guard > norm ? guard : norm;
        }
        if (climbs) {
            const double reached = sum_of_sizes(size, x, shared);
            int changes = 0;
            for (int64_t i = threadIdx.x; i < size; i += gpu_threads) {
                const double sign = x[i] >= 0 ? 1 : -1;
                changes += unit < 0 || sign != signs[i];
                x[i] = signs[i] = sign;
            }
            at_top = sum_for_all(double(changes), shared) == 0 || (unit >= 0 && !(reached > norm));
            if (!(reached <= norm)) norm = reached;
        } else {
            const int64_t next = largest_for_all(size, 0, x, shared);
            const bool same = threadIdx.x == 0 && unit >= 0 && fabs(x[next]) == fabs(x[unit]);
            at_top = sum_for_all(same, shared) > 0 || at_top;
            unit = next;
            for (int64_t i = threadIdx.x; i < size; i += gpu_threads) x[i] = i == unit;
        }
        if (!at_top) continue;
        is_guard = true;
        for (int64_t i = threadIdx.x; i < size; i += gpu_threads) {
            const double value = 1 + double(i) / double(size - 1);
            x[i] = i % 2 ? -value : value;
        }
    }
    return norm;
}

#endif
