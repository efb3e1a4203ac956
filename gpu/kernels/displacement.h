/*
 * Matrices X of one channel that commute with A' = diag(dt) A = dt Lambda - (dt P) P*, or with A where all modes have
 * one step size, known by their displacement: Lambda' X - X Lambda' = L (X* R)* - (X L) R*, so
 *   X_ij = (sum over r of L_ir conj(v_jr) - u_ir conj(R_jr)) / (lambda_i - lambda_j),   u = X L,   v = X* R.
 * All live in the closed vector (n modes, then their conjugates), X = [[X1, X2], [conj X2, conj X1]]: rows of the first
 * half tell everything. What the quotient cannot give is kept as it is: X_ii (own), X_i,n+i (mirror), and the carried
 * entries, whose eigenvalues nearly coincide.
 *
 * Rank 1 is made symmetric, D^-1 A' D = Lambda' - q q^T with q_i = sqrt(dt_i) |P_i| and D_i = sqrt(dt_i) P_i / |P_i|:
 * then L = R = q, real, X = X^T and v = conj(u); neither right nor v is used. All is scaled by a power of two, so that
 * the largest part of an eigenvalue is of size 1 to 2.
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

static inline __device__ complex_d eigenvalue(const displacement &d, int n)
{
    return split_entry(d.lambda, d.modes, n);
}

/* ---- eigenvalues ------------------------------------------------------------------------------------------------- */

/* Lambda' of mode n before it is scaled, with a step size only if they are not all one. */
static inline __device__ complex_d unscaled_eigenvalue(const gpu_model &m, int64_t h, int n)
{
    const complex_d lambda = load_complex(m.system.lambda, h % m.shape.n_ssm * m.shape.modes + n);
    return (m.shape.dt_modes > 1 ? dt_at(m.shape, m.system, h, n) : 1) * lambda;
}

/* Lambda', L, R and D of channel h. Every thread finds the scale for itself. A barrier must stand before what others
 * have written is read. */
template <int R>
static inline __device__ void build_displacement(const gpu_model &m, int64_t h, const displacement &d)
{
    const s4_shape &s = m.shape;
    double largest = 0;
    GPU_ROLLED
    for (int n = 0; n < d.modes; n++) {
        const complex_d lambda = unscaled_eigenvalue(m, h, n);
        largest = fmax(largest, fmax(fabs(lambda.re), fabs(lambda.im)));
    }
    const double scale = largest > 0 && is_finite(largest) ? ldexp(1.0, -ilogb(largest)) : 1;
    GPU_ROLLED
    for (int n = int(threadIdx.x); n < d.modes; n += gpu_threads) {
        const double dt = s.dt_modes > 1 ? dt_at(s, m.system, h, n) : 1;
        put_split(d.lambda, d.modes, n, scale * unscaled_eigenvalue(m, h, n));
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
    GPU_ROLLED
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

/* Finds the entries that must be carried, row by row; false if they are too many: one costs O(N), a square O(N^2). Of
 * sizes own modes have been put. A barrier must stand before the columns are read. */
static inline __device__ bool find_carried(const displacement &d, const double *sizes)
{
    const int modes = d.modes;
    GPU_ROLLED
    for (int fills = 0; fills < 2; fills++) {
        __syncthreads(); /* sizes, or the ends of all rows */
        if (fills && d.ends[modes - 1] > modes) return false;
        GPU_ROLLED
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

/* ---- entries ----------------------------------------------------------------------------------------------------- */

struct entry_pair {
    complex_d near, far;
};

/* Where row i crosses column j: X_ij and X_i,n+j, and of column i X_ji and X_n+j,i. */
struct crossing {
    entry_pair row, column;
};

/* What a thread that works on row and column i has of them; q and u are those of rank 1. */
struct cross {
    int i;
    complex_d lambda, u;
    double q;
    carried_range carried;
};

static inline __device__ cross load_cross(const displacement &d, const commuting &x, int i)
{
    return {i, eigenvalue(d, i), split_entry(x.u, d.modes, i), d.left[i], carried_of(d, i)};
}

/* Entries that are kept as they are, in place of quotients. Where (i,j) is carried, (j,i) is. */
static inline __device__ void put_kept(const displacement &d, const commuting &x, const cross &of, int j, crossing &at)
{
    if (j == of.i) {
        const complex_d own = split_entry(x.own, d.modes, j), mirror = split_entry(x.mirror, d.modes, j);
        at = {{own, mirror}, {own, conj(mirror)}};
    }
    if (of.carried.first == of.carried.end) return;
    const carried_range of_j = carried_of(d, j);
    GPU_ROLLED
    for (int half = 0; half < 2; half++) {
        const int in_row = carried_at(d, of.carried, half * d.modes + j);
        if (in_row < 0) continue;
        const complex_d row = split_entry(x.carried, d.modes, in_row);
        const complex_d column = split_entry(x.carried, d.modes, carried_at(d, of_j, half * d.modes + of.i));
        if (half) {
            at.row.far = row;
            at.column.far = conj(column);
        } else {
            at.row.near = row;
            at.column.near = column;
        }
    }
}

/* Rank 1: q_i u_j - u_i q_j, and the same with conj(u_j). Rows are columns. */
static inline __device__ entry_pair symmetric_numerators(const displacement &d, const commuting &x, const cross &of,
                                                         int j)
{
    const double q = d.left[j];
    const complex_d u = split_entry(x.u, d.modes, j);
    const double re = of.q * u.re - of.u.re * q, along = of.q * u.im, across = of.u.im * q;
    return {{re, along - across}, {re, -along - across}};
}

/* Row: sum of L_i conj(v_j) - u_i conj(R_j), and of L_i v_j - u_i R_j. Column, whose gaps have the other sign: sum of
 * u_j conj(R_i) - L_j conj(v_i), and of conj(u_j R_i) - conj(L_j v_i). */
template <int R>
static inline __device__ crossing numerators(const displacement &d, const commuting &x, const cross &of, int j)
{
    crossing sum = {};
    GPU_ROLLED
    for (int r = 0; r < R; r++) {
        const int rows = r * 2 * d.modes;
        const complex_d left_i = split_entry(d.left + rows, d.modes, of.i);
        const complex_d left_j = split_entry(d.left + rows, d.modes, j);
        const complex_d u_i = split_entry(x.u + rows, d.modes, of.i), u_j = split_entry(x.u + rows, d.modes, j);
        const complex_d right_i = split_entry(d.right + rows, d.modes, of.i);
        const complex_d right_j = split_entry(d.right + rows, d.modes, j);
        const complex_d v_i = split_entry(x.v + rows, d.modes, of.i), v_j = split_entry(x.v + rows, d.modes, j);
        add(sum.row.near, left_i * conj(v_j) - u_i * conj(right_j));
        add(sum.row.far, left_i * v_j - u_i * right_j);
        add(sum.column.near, u_j * conj(right_i) - left_j * conj(v_i));
        add(sum.column.far, conj(u_j * right_i - left_j * v_i));
    }
    return sum;
}

template <int R>
static inline __device__ crossing entries(const displacement &d, const commuting &x, const cross &of, int j)
{
    const complex_d lambda = eigenvalue(d, j);
    /* j = i: not used */
    const complex_d gap = inverse(of.lambda - lambda), far_gap = inverse(of.lambda - conj(lambda));
    crossing at;
    if constexpr (R == 1) {
        const entry_pair sum = symmetric_numerators(d, x, of, j);
        at.row = at.column = {gap * sum.near, far_gap * sum.far};
    } else {
        const crossing sum = numerators<R>(d, x, of, j);
        at = {{gap * sum.row.near, far_gap * sum.row.far}, {gap * sum.column.near, far_gap * sum.column.far}};
    }
    put_kept(d, x, of, j, at);
    return at;
}

#endif
