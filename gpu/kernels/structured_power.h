/*
 * Powers X = dA^L of one DPLR channel by displacement (displacement.h): binary powers in O(R N^2 log L), of O(R N)
 * numbers.
 *   X <- X X:   u' = X u,   v' = X* v,   own'_i = sum over k of X_ik X_ki,   mirror'_i = sum over k of X_ik X_k,n+i;
 *   X <- dA X, dA = diag(f) - sum over r of p_r g_r^T (discretise.h):
 *               u <- dA u,   v <- dA* v,   X_ij <- f_i X_ij - sum over r of p_ir (g_r^T X)_j for what is kept of X.
 *
 * Successive threads share a row where a block has more threads than the channel has modes: thread t of a row of
 * `parts` takes j = t, t + parts, ..., and what they have is added by a shuffle tree.
 */
#ifndef GPU_KERNELS_STRUCTURED_POWER_H
#define GPU_KERNELS_STRUCTURED_POWER_H

#include "gpu/kernels/displacement.h"

struct structured_power {
    displacement of;
    const double *f;           /* (N) */
    double *p, *g, *g_product; /* (R,N), in the basis in which A' is symmetric; g^T X */
    double *turned, *product;  /* (N): a row on its way through X */
    commuting x, next;
};

/* Doubles of shared memory: inner products. */
constexpr int structured_shared = 2 * S4_RANK_MAX * S4_RANK_MAX;

/* ---- rows of threads --------------------------------------------------------------------------------------------- */

/* Threads that share a row, a power of two. */
static inline __device__ int parts_of_row(int modes)
{
    int parts = 32;
    while (parts > 1 && parts * modes > gpu_threads) parts /= 2;
    return parts;
}

static inline __device__ void add_parts(double &x, int parts)
{
    for (int distance = parts / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
}
static inline __device__ void add_parts(complex_d &z, int parts)
{
    add_parts(z.re, parts);
    add_parts(z.im, parts);
}

/* ---- X X --------------------------------------------------------------------------------------------------------- */

/* What a thread has of row i of the square. */
template <int R> struct square_sums {
    complex_d own, mirror, u[R], v[R];
};

/* Terms k = j and k = n + j of a row times x, closed. */
static inline __device__ void add_product(const entry_pair &row, complex_d x, complex_d &sum)
{
    add(sum, row.near * x);
    add(sum, row.far * conj(x));
}

/* Terms with k = j and k = n + j. */
template <int R>
static inline __device__ void add_to_square(const displacement &d, const commuting &x, const cross &of, int j,
                                            square_sums<R> &sums)
{
    const crossing at = entries<R>(d, x, of, j);
    add(sums.own, at.row.near * at.column.near);
    add(sums.own, at.row.far * at.column.far);
    add(sums.mirror, at.row.near * conj(at.column.far));
    add(sums.mirror, at.row.far * conj(at.column.near));
    GPU_UNROLL
    for (int r = 0; r < R; r++) {
        add_product(at.row, split_entry(x.u + r * 2 * d.modes, d.modes, j), sums.u[r]);
        if (R == 1) continue;
        const complex_d v = split_entry(x.v + r * 2 * d.modes, d.modes, j);
        add_product({conj(at.column.near), conj(at.column.far)}, v, sums.v[r]);
    }
}

/* Carried entries of the square: entry (n+k,j) is the conjugate of (k,n+j). One warp each. */
template <int R>
static inline __device__ void square_carried(const displacement &d, const commuting &x, const commuting &out)
{
    const int count = carried_count(d), modes = d.modes;
    GPU_ROLLED
    for (int e = int(threadIdx.x) / 32; e < count; e += gpu_warps) {
        int i = 0;
        while (int(d.ends[i]) <= e) i++;
        const int column = int(d.columns[e]), j = column % modes;
        const bool is_far = column >= modes;
        const cross of_i = load_cross(d, x, i), of_j = load_cross(d, x, j);
        complex_d sum = {0, 0};
        GPU_ROLLED
        for (int k = int(threadIdx.x) % 32; k < modes; k += 32) {
            const entry_pair left = entries<R>(d, x, of_i, k).row, right = entries<R>(d, x, of_j, k).column;
            add(sum, left.near * (is_far ? conj(right.far) : right.near));
            add(sum, left.far * (is_far ? conj(right.near) : right.far));
        }
        sum.re = warp_total(sum.re);
        sum.im = warp_total(sum.im);
        if (threadIdx.x % 32 == 0) put_split(out.carried, modes, e, sum);
    }
}

/* X <- X X. What there is of X has been written before a barrier. */
template <int R> static inline __device__ void square(structured_power &power)
{
    const displacement &d = power.of;
    const commuting x = power.x, out = power.next;
    const int modes = d.modes, parts = parts_of_row(modes), part = int(threadIdx.x) % parts;
    GPU_ROLLED
    for (int first = 0; first < modes; first += gpu_threads / parts) {
        const int i = first + int(threadIdx.x) / parts;
        square_sums<R> sums = {};
        if (i < modes) {
            const cross of = load_cross(d, x, i);
            GPU_ROLLED
            for (int j = part; j < modes; j += parts) add_to_square<R>(d, x, of, j, sums);
        }
        add_parts(sums.own, parts);
        add_parts(sums.mirror, parts);
        GPU_UNROLL
        for (int r = 0; r < R; r++) {
            add_parts(sums.u[r], parts);
            if (R > 1) add_parts(sums.v[r], parts);
        }
        if (i >= modes || part > 0) continue;
        put_split(out.own, modes, i, sums.own);
        put_split(out.mirror, modes, i, sums.mirror);
        GPU_UNROLL
        for (int r = 0; r < R; r++) {
            put_split(out.u + r * 2 * modes, modes, i, sums.u[r]);
            if (R > 1) put_split(out.v + r * 2 * modes, modes, i, sums.v[r]);
        }
    }
    square_carried<R>(d, x, out);
    __syncthreads(); /* the square */
    power.x = out;
    power.next = x;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* out = row X, first halves of closed vectors; out is not row. */
template <int R>
static inline __device__ void row_times(const displacement &d, const commuting &x, const double *row, double *out)
{
    const int modes = d.modes, parts = parts_of_row(modes), part = int(threadIdx.x) % parts;
    GPU_ROLLED
    for (int first = 0; first < modes; first += gpu_threads / parts) {
        const int i = first + int(threadIdx.x) / parts;
        complex_d sum = {0, 0};
        if (i < modes) {
            const cross of = load_cross(d, x, i);
            GPU_ROLLED
            for (int j = part; j < modes; j += parts)
                add_product(entries<R>(d, x, of, j).column, split_entry(row, modes, j), sum);
        }
        add_parts(sum, parts);
        if (i < modes && part == 0) put_split(out, modes, i, sum);
    }
}

/* row <- row + sign * row X, a row [Re C, -Im C]. A thread has own modes of row before and after. */
template <int R> static inline __device__ void add_row_times(const structured_power &power, double sign, double *row)
{
    const displacement &d = power.of;
    GPU_ROLLED
    for (int n = int(threadIdx.x); n < d.modes; n += gpu_threads)
        put_split(power.turned, d.modes, n, conj(split_entry(row, d.modes, n)) * split_entry(d.rotation, d.modes, n));
    __syncthreads(); /* the row, turned */
    row_times<R>(d, power.x, power.turned, power.product);
    __syncthreads(); /* the product */
    GPU_ROLLED
    for (int n = int(threadIdx.x); n < d.modes; n += gpu_threads) {
        const complex_d back = inverse(split_entry(d.rotation, d.modes, n));
        const complex_d c = conj(split_entry(power.product, d.modes, n) * back);
        row[n] += sign * c.re;
        row[d.modes + n] += sign * c.im;
    }
}

/* X in the real basis, (N,N): columns for 1 and i of a mode's pair X1_ij, X2_ij are X1 + X2 and i (X1 - X2). A barrier
 * must stand before it is read. */
template <int R> static inline __device__ void put_matrix(const structured_power &power, double *matrix)
{
    const displacement &d = power.of;
    const int modes = d.modes, parts = parts_of_row(modes);
    const int64_t state = 2 * modes;
    GPU_ROLLED
    for (int i = int(threadIdx.x) / parts; i < modes; i += gpu_threads / parts) {
        const cross of = load_cross(d, power.x, i);
        const complex_d turn = split_entry(d.rotation, modes, i);
        double *upper = matrix + i * state, *lower = matrix + (modes + i) * state;
        GPU_ROLLED
        for (int j = int(threadIdx.x) % parts; j < modes; j += parts) {
            const entry_pair row = entries<R>(d, power.x, of, j).row;
            const complex_d back = inverse(split_entry(d.rotation, modes, j));
            const complex_d x1 = row.near * (turn * back), x2 = row.far * (turn * conj(back));
            upper[j] = x1.re + x2.re;
            upper[modes + j] = x2.im - x1.im;
            lower[j] = x1.im + x2.im;
            lower[modes + j] = x1.re - x2.re;
        }
    }
}

/* ---- dA X -------------------------------------------------------------------------------------------------------- */

/* inner (R,R) = 2 Re of what right_r (conjugated if asked for) and x_c have for a product, number r * R + c. */
template <int R>
static inline __device__ void put_inner_products(int modes, const double *right, const double *x, bool conjugated,
                                                 double *inner)
{
    const double sign = conjugated ? -1 : 1;
    GPU_ROLLED
    for (int pair = int(threadIdx.x) / 32; pair < R * R; pair += gpu_warps) {
        const double *a = right + pair / R * 2 * modes, *b = x + pair % R * 2 * modes;
        double sum = 0;
        GPU_ROLLED
        for (int n = int(threadIdx.x) % 32; n < modes; n += 32)
            sum += a[n] * b[n] - sign * (a[modes + n] * b[modes + n]);
        sum = warp_total(sum);
        if (threadIdx.x % 32 == 0) inner[pair] = 2 * sum;
    }
}

/* x_c <- f x_c - sum over r of left_r inner_rc, or, conjugated, conj(f) and conj(left). */
template <int R>
static inline __device__ void apply_linear(const structured_power &power, const double *left, const double *inner,
                                           bool conjugated, double *x)
{
    const int modes = power.of.modes;
    GPU_ROLLED
    for (int n = int(threadIdx.x); n < modes; n += gpu_threads) {
        const complex_d f = split_entry(power.f, modes, n);
        GPU_ROLLED
        for (int c = 0; c < R; c++) {
            complex_d sum = (conjugated ? conj(f) : f) * split_entry(x + c * 2 * modes, modes, n);
            GPU_ROLLED
            for (int r = 0; r < R; r++) {
                const complex_d of_r = split_entry(left + r * 2 * modes, modes, n);
                sum = sum - inner[r * R + c] * (conjugated ? conj(of_r) : of_r);
            }
            put_split(x + c * 2 * modes, modes, n, sum);
        }
    }
}

/* Entry x = (i,j) of X, or, far, (i,n+j), of dA X. */
template <int R>
static inline __device__ complex_d advanced(const structured_power &power, int i, int j, bool is_far, complex_d x)
{
    const int modes = power.of.modes;
    complex_d sum = split_entry(power.f, modes, i) * x;
    GPU_ROLLED
    for (int r = 0; r < R; r++) {
        const complex_d product = split_entry(power.g_product + r * 2 * modes, modes, j);
        sum = sum - split_entry(power.p + r * 2 * modes, modes, i) * (is_far ? conj(product) : product);
    }
    return sum;
}

/* X <- dA X, of which g_product, and all else of X, have been written before a barrier. */
template <int R> static inline __device__ void multiply(const structured_power &power, double *shared)
{
    const displacement &d = power.of;
    const commuting &x = power.x;
    const int modes = d.modes;
    double *of_u = shared, *of_v = shared + R * R;
    put_inner_products<R>(modes, power.g, x.u, false, of_u);
    if (R > 1) put_inner_products<R>(modes, power.p, x.v, true, of_v);
    GPU_ROLLED
    for (int i = int(threadIdx.x); i < modes; i += gpu_threads) {
        put_split(x.own, modes, i, advanced<R>(power, i, i, false, split_entry(x.own, modes, i)));
        put_split(x.mirror, modes, i, advanced<R>(power, i, i, true, split_entry(x.mirror, modes, i)));
        const carried_range row = carried_of(d, i);
        for (int e = row.first; e < row.end; e++) {
            const int column = int(d.columns[e]);
            const complex_d was = split_entry(x.carried, modes, e);
            put_split(x.carried, modes, e, advanced<R>(power, i, column % modes, column >= modes, was));
        }
    }
    __syncthreads(); /* the inner products */
    apply_linear<R>(power, power.p, of_u, false, x.u);
    if (R > 1) apply_linear<R>(power, power.g, of_v, true, x.v);
    __syncthreads(); /* u, v, and what is kept */
}

/* X = I, whose g^T X is g, and dA in the basis of the displacement, from linear rows, whose g are [2 Re g, -2 Im g]. A
 * barrier must stand before it is read. */
template <int R> static inline __device__ void begin_power(const structured_power &power, const linear_rows &linear)
{
    const displacement &d = power.of;
    const commuting &x = power.x;
    const int modes = d.modes;
    GPU_ROLLED
    for (int n = int(threadIdx.x); n < modes; n += gpu_threads) {
        const complex_d turn = split_entry(d.rotation, modes, n);
        put_split(x.own, modes, n, {1, 0});
        put_split(x.mirror, modes, n, {0, 0});
        put_split(x.carried, modes, n, {0, 0});
        GPU_ROLLED
        for (int r = 0; r < R; r++) {
            const int64_t at = r * 2 * modes;
            const complex_d g = 0.5 * conj(split_entry(linear.g + at, modes, n)) * turn;
            put_split(power.p + at, modes, n, split_entry(linear.p + at, modes, n) * inverse(turn));
            put_split(power.g + at, modes, n, g);
            put_split(power.g_product + at, modes, n, g);
            put_split(x.u + at, modes, n, split_entry(d.left + at, modes, n));
            if (R > 1) put_split(x.v + at, modes, n, split_entry(d.right + at, modes, n));
        }
    }
}

/* X = dA^length, length >= 1, of the displacement and dA of one channel. */
template <int R>
static inline __device__ void raise_power(structured_power &power, const linear_rows &linear, int64_t length,
                                          double *shared)
{
    const displacement &d = power.of;
    int bit = 0;
    while (length >> (bit + 1)) bit++;
    power.f = linear.f;
    begin_power<R>(power, linear);
    __syncthreads(); /* X = I */
    GPU_ROLLED
    for (bool begins = true; begins || bit > 0; begins = false) {
        if (!begins) {
            square<R>(power);
            bit--;
            if (!(length >> bit & 1)) continue;
            GPU_ROLLED
            for (int r = 0; r < R; r++)
                row_times<R>(d, power.x, power.g + r * 2 * d.modes, power.g_product + r * 2 * d.modes);
            __syncthreads(); /* g^T X */
        }
        multiply<R>(power, shared);
    }
}

#endif
