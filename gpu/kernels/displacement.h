/*
 * Matrices X of one channel that commute with A' = diag(dt) A = dt Lambda - (dt P) P*, or with A where all modes have one
 * step size, known by their displacement: Lambda' X - X Lambda' = L (X* R)* - (X L) R*, so
 *   X_ij = (sum over r of L_ir conj(v_jr) - u_ir conj(R_jr)) / (lambda_i - lambda_j),   u = X L,   v = X* R.
 * All live in the closed vector (n modes, then their conjugates), X = [[X1, X2], [conj X2, conj X1]]: rows of the first half
 * tell everything. What the quotient cannot give is kept as it is: X_ii (own), X_i,n+i (mirror), and the carried entries,
 * whose eigenvalues nearly coincide.
 *
 * Rank 1 is made symmetric, D^-1 A' D = Lambda' - q q^T with q_i = sqrt(dt_i) |P_i| and D_i = sqrt(dt_i) P_i / |P_i|: then
 * L = R = q, real, X = X^T and v = conj(u); neither right nor v is used. All is scaled by a power of two, so that the
 * largest eigenvalue is of size 1 to 2.
 *
 * Vectors are split, (N). Every function is called by all threads of the block.
 */
#ifndef GPU_KERNELS_DISPLACEMENT_H
#define GPU_KERNELS_DISPLACEMENT_H

#include "gpu/kernels/discretise.h"
#include "gpu/kernels/matrices.h"

/* Eigenvalues nearly coincide where |L_i| |R_j| is more than this times their distance: a quotient loses as much. */
constexpr double displacement_near = 4;
/* So that what is divided by is never 0. */
constexpr double displacement_near_least = 1e-200;

struct displacement {
    int modes;
    double *lambda;         /* (N): Lambda' */
    double *left, *right;   /* (R,N): L and R; rank 1: left, whose imaginary part is 0 */
    double *rotation;       /* (N): D */
    double *ends, *columns; /* (n): row i has the carried entries before ends[i]; j of entry (i,j), n + j of (i,n+j) */
};

/* What is known of X. */
struct commuting {
    double *u, *v;        /* (R,N) */
    double *own, *mirror; /* (N) */
    double *carried;      /* (N): at most n entries */
};

static inline __device__ complex_d split_entry(const double *split, int modes, int n)
{
    return {split[n], split[modes + n]};
}

static inline __device__ complex_d eigenvalue(const displacement &d, int n) { return split_entry(d.lambda, d.modes, n); }

/* ---- eigenvalues --------------------------------------------------------------------------------------------------- */

/* Lambda', L, R and D of channel h; the step sizes matter only if they are not all one. sizes (N): scratch. A barrier must
 * stand before what others have written is read. */
template <int R>
static inline __device__ void build_displacement(const gpu_model &m, int64_t h, const displacement &d, double *sizes,
                                                 double *shared)
{
    const s4_shape &s = m.shape;
    const bool is_untied = s.dt_modes > 1;
    for (int n = int(threadIdx.x); n < d.modes; n += gpu_threads) {
        const double dt = is_untied ? dt_at(s, m.system, h, n) : 1;
        const complex_d lambda = dt * load_complex(m.system.lambda, h % s.n_ssm * s.modes + n);
        put_split(d.lambda, d.modes, n, lambda);
        sizes[n] = hypot(lambda.re, lambda.im);
    }
    __syncthreads();
    const double largest = sizes[largest_for_all(d.modes, 0, sizes, shared)];
    const double scale = largest > 0 && is_finite(largest) ? ldexp(1.0, -ilogb(largest)) : 1;
    for (int n = int(threadIdx.x); n < d.modes; n += gpu_threads) {
        const double dt = is_untied ? dt_at(s, m.system, h, n) : 1;
        put_split(d.lambda, d.modes, n, scale * eigenvalue(d, n));
        if (R == 1) {
            const complex_d p = p_at(s, m.system, h, 0, n);
            const double size = hypot(p.re, p.im), root = sqrt(dt);
            const complex_d phase = size > 0 ? complex_d{p.re / size, p.im / size} : complex_d{1, 0};
            put_split(d.left, d.modes, n, {sqrt(scale) * root * size, 0});
            put_split(d.rotation, d.modes, n, root * phase);
            continue;
        }
        put_split(d.rotation, d.modes, n, {1, 0});
        GPU_ROLLED
        for (int r = 0; r < R; r++) {
            const complex_d p = p_at(s, m.system, h, r, n);
            put_split(d.left + r * 2 * d.modes, d.modes, n, scale * dt * p);
            put_split(d.right + r * 2 * d.modes, d.modes, n, p);
        }
    }
}

/* |L_i|^2 and |R_i|^2 of own modes into sizes (N). */
template <int R> static inline __device__ void put_sizes(const displacement &d, double *sizes)
{
    for (int n = int(threadIdx.x); n < d.modes; n += gpu_threads) {
        double left = 0, right = 0;
        GPU_ROLLED
        for (int r = 0; r < R; r++) {
            left += norm(split_entry(d.left + r * 2 * d.modes, d.modes, n));
            right += norm(split_entry((R == 1 ? d.left : d.right) + r * 2 * d.modes, d.modes, n));
        }
        sizes[n] = left;
        sizes[d.modes + n] = right;
    }
}

/* Whether the quotient of (i,j), or with `half` of (i,n+j), loses digits; (j,i) gives the same bit. */
static inline __device__ bool nearly_coincide(const displacement &d, const double *sizes, int i, int j, int half)
{
    const int a = i > j ? i : j, b = i > j ? j : i;
    const complex_d of_a = eigenvalue(d, a), of_b = eigenvalue(d, b);
    const double across = sizes[a] * sizes[d.modes + b], back = sizes[b] * sizes[d.modes + a];
    const double bound = (across + back) / (displacement_near * displacement_near) + displacement_near_least;
    return norm(of_a - (half ? conj(of_b) : of_b)) < bound;
}

/* Finds the entries that must be carried, row by row; false if they are too many: one costs O(N), a square O(N^2). Of sizes
 * own modes have been put. A barrier must stand before the columns are read. */
static inline __device__ bool find_carried(const displacement &d, const double *sizes)
{
    const int modes = d.modes;
    GPU_ROLLED
    for (int fills = 0; fills < 2; fills++) {
        __syncthreads(); /* sizes, or the ends of all rows */
        if (fills && d.ends[modes - 1] > modes) return false;
        for (int i = int(threadIdx.x); i < modes; i += gpu_threads) {
            int at = fills && i > 0 ? int(d.ends[i - 1]) : 0;
            for (int j = 0; j < modes; j++)
                for (int half = 0; half < 2 && j != i; half++)
                    if (nearly_coincide(d, sizes, i, j, half)) {
                        if (fills && at < modes) d.columns[at] = half * modes + j;
                        at++;
                    }
            if (!fills) d.ends[i] = at;
        }
        if (fills) break;
        __syncthreads(); /* the counts of all rows */
        if (threadIdx.x == 0)
            for (int i = 1; i < modes; i++) d.ends[i] += d.ends[i - 1];
    }
    return true;
}

static inline __device__ int carried_count(const displacement &d) { return int(d.ends[d.modes - 1]); }

/* The carried entries of a row. */
struct carried_range {
    int first, end;
};
static inline __device__ carried_range carried_of(const displacement &d, int i)
{
    return {i > 0 ? int(d.ends[i - 1]) : 0, int(d.ends[i])};
}
/* The number of entry (i,j), or (i,n+j), in its row's range; -1: it is not carried. */
static inline __device__ int carried_at(const displacement &d, const carried_range &row, int column)
{
    for (int e = row.first; e < row.end; e++)
        if (int(d.columns[e]) == column) return e;
    return -1;
}

/* ---- entries -------------------------------------------------------------------------------------------------------- */

/* X_ij and X_i,n+j; or of a column, X_ji and X_n+j,i. */
struct entry_pair {
    complex_d near, far;
};

/* What a thread that works on row and column i has of them. */
template <int R> struct cross {
    int i;
    complex_d lambda, left[R], right[R], u[R], v[R];
    carried_range carried;
};

template <int R> static inline __device__ cross<R> load_cross(const displacement &d, const commuting &x, int i)
{
    cross<R> of;
    of.i = i;
    of.lambda = eigenvalue(d, i);
    of.carried = carried_of(d, i);
    GPU_UNROLL
    for (int r = 0; r < R; r++) {
        of.left[r] = split_entry(d.left + r * 2 * d.modes, d.modes, i);
        of.u[r] = split_entry(x.u + r * 2 * d.modes, d.modes, i);
        if (R == 1) continue;
        of.right[r] = split_entry(d.right + r * 2 * d.modes, d.modes, i);
        of.v[r] = split_entry(x.v + r * 2 * d.modes, d.modes, i);
    }
    return of;
}

/* Entries of the row that are kept as they are, in place of quotients. */
template <int R>
static inline __device__ void put_kept_row(const displacement &d, const commuting &x, const cross<R> &of, int j,
                                           entry_pair &row)
{
    if (j == of.i) row = {split_entry(x.own, d.modes, j), split_entry(x.mirror, d.modes, j)};
    if (of.carried.first == of.carried.end) return;
    const int near = carried_at(d, of.carried, j), far = carried_at(d, of.carried, d.modes + j);
    if (near >= 0) row.near = split_entry(x.carried, d.modes, near);
    if (far >= 0) row.far = split_entry(x.carried, d.modes, far);
}

/* Of the column: X_ji, and X_n+j,i = conj(X_j,n+i). Where (i,j) is carried, (j,i) is. */
template <int R>
static inline __device__ void put_kept_column(const displacement &d, const commuting &x, const cross<R> &of, int j,
                                              entry_pair &column)
{
    if (j == of.i) column = {split_entry(x.own, d.modes, j), conj(split_entry(x.mirror, d.modes, j))};
    if (of.carried.first == of.carried.end) return;
    const carried_range of_j = carried_of(d, j);
    const int near = carried_at(d, of_j, of.i), far = carried_at(d, of_j, d.modes + of.i);
    if (near >= 0) column.near = split_entry(x.carried, d.modes, near);
    if (far >= 0) column.far = conj(split_entry(x.carried, d.modes, far));
}

/* 1 / (lambda_i - lambda_j) and 1 / (lambda_i - conj(lambda_j)); of j = i nothing that counts. */
template <int R> static inline __device__ entry_pair inverse_gaps(const displacement &d, const cross<R> &of, int j)
{
    const complex_d lambda = eigenvalue(d, j);
    return {inverse(of.lambda - lambda), inverse(of.lambda - conj(lambda))};
}

/* Rank 1: q_i u_j - u_i q_j, and the same with conj(u_j), over the gaps. */
static inline __device__ entry_pair symmetric_entries(const displacement &d, const commuting &x, const cross<1> &of,
                                                      const entry_pair &gaps, int j)
{
    const double q = d.left[j], q_i = of.left[0].re;
    const complex_d u = split_entry(x.u, d.modes, j), u_i = of.u[0];
    const double re = q_i * u.re - u_i.re * q, along = q_i * u.im, across = u_i.im * q;
    entry_pair row = {gaps.near * complex_d{re, along - across}, gaps.far * complex_d{re, -along - across}};
    put_kept_row(d, x, of, j, row);
    return row;
}

/* sum of L_i conj(v_j) - u_i conj(R_j), and of L_i v_j - u_i R_j, over the gaps. */
template <int R>
static inline __device__ entry_pair row_entries(const displacement &d, const commuting &x, const cross<R> &of,
                                                const entry_pair &gaps, int j)
{
    complex_d near = {0, 0}, far = {0, 0};
    GPU_UNROLL
    for (int r = 0; r < R; r++) {
        const complex_d v = split_entry(x.v + r * 2 * d.modes, d.modes, j);
        const complex_d right = split_entry(d.right + r * 2 * d.modes, d.modes, j);
        add(near, of.left[r] * conj(v) - of.u[r] * conj(right));
        add(far, of.left[r] * v - of.u[r] * right);
    }
    entry_pair row = {gaps.near * near, gaps.far * far};
    put_kept_row(d, x, of, j, row);
    return row;
}

/* sum of u_j conj(R_i) - L_j conj(v_i), and of conj(u_j R_i) - conj(L_j v_i), over the gaps. */
template <int R>
static inline __device__ entry_pair column_entries(const displacement &d, const commuting &x, const cross<R> &of,
                                                   const entry_pair &gaps, int j)
{
    complex_d near = {0, 0}, far = {0, 0};
    GPU_UNROLL
    for (int r = 0; r < R; r++) {
        const complex_d u = split_entry(x.u + r * 2 * d.modes, d.modes, j);
        const complex_d left = split_entry(d.left + r * 2 * d.modes, d.modes, j);
        add(near, u * conj(of.right[r]) - left * conj(of.v[r]));
        add(far, conj(u * of.right[r] - left * of.v[r]));
    }
    entry_pair column = {gaps.near * near, gaps.far * far};
    put_kept_column(d, x, of, j, column);
    return column;
}

/* X_ji and X_n+j,i for any rank: a symmetric matrix has its rows for columns. */
template <int R>
static inline __device__ entry_pair any_column(const displacement &d, const commuting &x, const cross<R> &of, int j)
{
    const entry_pair gaps = inverse_gaps(d, of, j);
    if constexpr (R == 1)
        return symmetric_entries(d, x, of, gaps, j);
    else
        return column_entries(d, x, of, gaps, j);
}
template <int R>
static inline __device__ entry_pair any_row(const displacement &d, const commuting &x, const cross<R> &of, int j)
{
    const entry_pair gaps = inverse_gaps(d, of, j);
    if constexpr (R == 1)
        return symmetric_entries(d, x, of, gaps, j);
    else
        return row_entries(d, x, of, gaps, j);
}

#endif
