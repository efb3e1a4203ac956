/*
 * Discretisation of one channel of A = Lambda - P P* (P absent in diagonal layers), by mode with the step sizes dt:
 *   bilinear  dA = (I - dt/2 A)^-1 (I + dt/2 A),   dB = (I - dt/2 A)^-1 dt B
 *   zoh       dA = e^a,   dB = dt phi1(a) B,   a = dt Lambda; diagonal layers only.
 *
 * Bilinear, with the half step a = dt/2 Lambda, d = 1/(1 - a), and by Woodbury:
 *   (I - dt/2 A)^-1 x = d o (x - dt/2 P (g^T x)),   g = (I_R + 2 Re sum_n conj(P) d dt/2 P^T)^-1 (conj(P) o d);
 * and since dA is twice that less I, one step is O(nR):
 *   dA x = f o x - sum_r p_r (g_r . x),   f = (1 + a)/(1 - a),   p = d o dt P,
 * vectors split into n real and n imaginary parts, rows [2 Re g, -2 Im g].
 *
 * One block per channel; its threads share the modes.
 */
#ifndef GPU_KERNELS_DISCRETISE_H
#define GPU_KERNELS_DISCRETISE_H

#include "gpu/kernels/phi.h"
#include "gpu/kernels/raw.h"

/* Rows (N) of one channel: f, dB, p (R,N), g (R,N), one behind the other. */
struct linear_rows {
    double *f, *b, *p, *g;
};
static inline __device__ linear_rows linear_view(int64_t modes, int64_t rank, double *base)
{
    const int64_t state = 2 * modes;
    return {base, base + state, base + 2 * state, base + (2 + rank) * state};
}

/* Doubles of shared memory. */
constexpr int discretise_capacitance = 0;
constexpr int discretise_inverse = S4_RANK_MAX * S4_RANK_MAX;
constexpr int discretise_inner = 2 * S4_RANK_MAX * S4_RANK_MAX;
constexpr int discretise_warps = discretise_inner + S4_RANK_MAX;
constexpr int discretise_shared = discretise_warps + gpu_warps;

static inline __device__ double dt_at(const s4_shape &s, const s4_system &system, int64_t h, int64_t n)
{
    return system.dt[s.dt_modes > 1 ? h * s.dt_modes + n : h];
}
static inline __device__ complex_d p_at(const s4_shape &s, const s4_system &system, int64_t h, int64_t r, int64_t n)
{
    return load_complex(system.p, (r * s.n_ssm + h % s.n_ssm) * s.modes + n);
}

static inline __device__ void put_split(double *split, int64_t modes, int64_t n, complex_d z)
{
    split[n] = z.re;
    split[modes + n] = z.im;
}

/* The diagonal part, and what the low-rank one is made from: p, and g before the capacitance is solved. */
static inline __device__ void build_mode(const gpu_model &m, int64_t h, double scale, int64_t n, const linear_rows &out)
{
    const s4_shape &s = m.shape;
    const int64_t modes = s.modes, of_copy = h % s.n_ssm * modes + n;
    const double dt = scale * dt_at(s, m.system, h, n);
    const complex_d lambda = load_complex(m.system.lambda, of_copy), dt_b = dt * load_complex(m.system.b, of_copy);
    if (s.discretisation == S4_ZOH) {
        const complex_d a = dt * lambda;
        put_split(out.f, modes, n, exp_complex(a));
        put_split(out.b, modes, n, phi1(a) * dt_b);
        return;
    }
    const complex_d a = dt / 2 * lambda, denominator = {1 - a.re, -a.im};
    const complex_d d = quotient({1, 0}, denominator);
    put_split(out.f, modes, n, quotient({1 + a.re, a.im}, denominator));
    put_split(out.b, modes, n, d * dt_b);
    for (int64_t r = 0; r < s.rank; r++) {
        const complex_d p = p_at(s, m.system, h, r, n), g = conj(p) * d;
        put_split(out.p + r * 2 * modes, modes, n, d * (dt * p));
        put_split(out.g + r * 2 * modes, modes, n, {2 * g.re, -2 * g.im});
    }
}

/* inverse <- capacitance^-1, both (R,R) with row stride S4_RANK_MAX, by elimination with row exchange; a zero pivot
 * leaves what is not finite. By one thread. */
static inline __device__ void invert_capacitance(int rank, double *capacitance, double *inverse)
{
    for (int r = 0; r < rank; r++)
        for (int s = 0; s < rank; s++) inverse[r * S4_RANK_MAX + s] = r == s;
    for (int k = 0; k < rank; k++) {
        int pivot = k;
        for (int r = k + 1; r < rank; r++)
            if (fabs(capacitance[r * S4_RANK_MAX + k]) > fabs(capacitance[pivot * S4_RANK_MAX + k])) pivot = r;
        double *row = capacitance + k * S4_RANK_MAX, *inverse_row = inverse + k * S4_RANK_MAX;
        for (int s = 0; s < rank && pivot != k; s++) {
            const double upper = row[s], inverse_upper = inverse_row[s];
            row[s] = capacitance[pivot * S4_RANK_MAX + s];
            inverse_row[s] = inverse[pivot * S4_RANK_MAX + s];
            capacitance[pivot * S4_RANK_MAX + s] = upper;
            inverse[pivot * S4_RANK_MAX + s] = inverse_upper;
        }
        const double diagonal = row[k];
        for (int s = 0; s < rank; s++) {
            row[s] /= diagonal;
            inverse_row[s] /= diagonal;
        }
        for (int r = 0; r < rank; r++) {
            if (r == k) continue;
            const double factor = capacitance[r * S4_RANK_MAX + k];
            for (int s = 0; s < rank; s++) {
                capacitance[r * S4_RANK_MAX + s] -= factor * row[s];
                inverse[r * S4_RANK_MAX + s] -= factor * inverse_row[s];
            }
        }
    }
}

/* The low-rank part: g, and what it takes from dB. */
static inline __device__ void build_low_rank(const gpu_model &m, int64_t h, double scale, const linear_rows &out,
                                             double *shared)
{
    const s4_shape &s = m.shape;
    const int64_t modes = s.modes, state = 2 * modes;
    const int rank = int(s.rank);
    double *capacitance = shared + discretise_capacitance, *inverse = shared + discretise_inverse;
    double *inner = shared + discretise_inner, *warps = shared + discretise_warps;
    GPU_ROLLED
    for (int pair = 0; pair < rank * rank; pair++) {
        const int r = pair / rank, column = pair % rank;
        const double *p_column = out.p + column * state;
        double sum = 0;
        GPU_ROLLED
        for (int64_t n = threadIdx.x; n < modes; n += gpu_threads) {
            const complex_d p = p_at(s, m.system, h, r, n);
            sum += p.re * p_column[n] + p.im * p_column[modes + n];
        }
        sum = block_sum(sum, warps);
        if (threadIdx.x == 0) capacitance[r * S4_RANK_MAX + column] = (r == column) + sum;
    }
    if (threadIdx.x == 0) invert_capacitance(rank, capacitance, inverse);
    __syncthreads();
    GPU_ROLLED
    for (int64_t i = threadIdx.x; i < state; i += gpu_threads) {
        double g[S4_RANK_MAX];
        GPU_UNROLL
        for (int r = 0; r < S4_RANK_MAX; r++) g[r] = r < rank ? out.g[r * state + i] : 0;
        GPU_UNROLL
        for (int r = 0; r < S4_RANK_MAX; r++) {
            if (r >= rank) continue;
            double sum = 0;
            GPU_UNROLL
            for (int k = 0; k < S4_RANK_MAX; k++)
                if (k < rank) sum += inverse[r * S4_RANK_MAX + k] * g[k];
            out.g[r * state + i] = sum;
        }
    }
    __syncthreads(); /* g is read by others below */
    GPU_ROLLED
    for (int r = 0; r < rank; r++) {
        const double *g = out.g + r * state;
        double sum = 0;
        GPU_ROLLED
        for (int64_t n = threadIdx.x; n < modes; n += gpu_threads) {
            const complex_d b = load_complex(m.system.b, h % s.n_ssm * modes + n);
            sum += scale * dt_at(s, m.system, h, n) * (g[n] * b.re + g[modes + n] * b.im);
        }
        sum = block_sum(sum, warps);
        if (threadIdx.x == 0) inner[r] = sum;
    }
    __syncthreads();
    GPU_ROLLED
    for (int64_t i = threadIdx.x; i < state; i += gpu_threads)
        for (int r = 0; r < rank; r++) out.b[i] -= out.p[r * state + i] * inner[r] / 2;
}

/* Rows of channel h at step scale * dt into base (2 + 2R,N). All threads of the block take part, and may read them when it
 * returns. What is not finite is flagged: it shows in one of the rows. */
static inline __device__ linear_rows discretise(const gpu_model &m, int64_t h, double scale, double *base,
                                                double *shared)
{
    const s4_shape &s = m.shape;
    const linear_rows out = linear_view(s.modes, s.rank, base);
    GPU_ROLLED
    for (int64_t n = threadIdx.x; n < s.modes; n += gpu_threads) build_mode(m, h, scale, n, out);
    if (s.rank > 0) build_low_rank(m, h, scale, out, shared);
    __syncthreads();
    GPU_ROLLED
    for (int64_t i = threadIdx.x; i < (2 + 2 * s.rank) * 2 * s.modes; i += gpu_threads)
        if (!is_finite(base[i])) raise_flag(m.flags, GPU_FLAG_STEP, h, scale * dt_at(s, m.system, h, 0));
    return out;
}

/* dA in the real basis: entry (row, column). */
static inline __device__ double linear_entry(const linear_rows &linear, int64_t modes, int64_t rank, int64_t row,
                                             int64_t column)
{
    const int64_t state = 2 * modes, n = row % modes;
    double entry = 0;
    if (column % modes == n) {
        if ((row < modes) == (column < modes))
            entry = linear.f[n];
        else
            entry = row < modes ? -linear.f[modes + n] : linear.f[modes + n];
    }
    for (int64_t r = 0; r < rank; r++) entry -= linear.p[r * state + row] * linear.g[r * state + column];
    return entry;
}

#endif
