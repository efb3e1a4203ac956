/*
 * The Cauchy sums of one frequency and the small linear algebra on them, shared by the kernel and its gradient.
 *
 * theta = pi k / L, S = sin theta, c = cos theta, w = dt Lambda, v_bc = dt b c with b in [B, P_1 .. P_R] and
 * c in [C~, Q_1 .. Q_R], Q = conj P:
 *   sigma_bc = sum over modes of (4iS Re v - 2c Re(v conj w)) / (c^2 |w|^2 - 4S^2 - 4iSc Re w)
 * Both numbers of the numerator and both of the denominator are real and do not depend on the frequency: they are
 * what is staged in shared memory.
 *
 * T is the type of the sums and of all that is made of them. In single precision the real parts of denominators are
 * double all the same, up to their rounding: they are differences, small where a mode resonates, and that is where
 * sigma is large. So are the inverses of pivots, whose squares may be beyond the range of T.
 */
#ifndef GPU_KERNELS_CAUCHY_H
#define GPU_KERNELS_CAUCHY_H

#include "gpu/kernels/system.h"

/* sin and cos of pi k / L for 0 <= k <= L/2; the argument stays within a quarter of pi, so that L = 2k gives exactly
 * 1 and 0. */
struct angle {
    double sine, cosine;
};
static inline __device__ angle frequency_angle(int64_t k, int64_t length)
{
    angle a;
    if (4 * k <= length)
        sincospi(double(k) / double(length), &a.sine, &a.cosine);
    else
        sincospi(double(length - 2 * k) / double(2 * length), &a.cosine, &a.sine);
    return a;
}

/* An angle as the sums need it. */
template <typename T> struct rounded_angle {
    T sine, cosine;
    double cosine_squared, four_sine_squared;
};
template <typename T> static inline __device__ rounded_angle<T> round_angle(angle a)
{
    return {T(a.sine), T(a.cosine), a.cosine * a.cosine, 4 * a.sine * a.sine};
}

/* ---- rows of a tile ------------------------------------------------------------------------------------------- */

/* Which kernel a lane is. */
struct kernel_row {
    int64_t h, k;
};
static inline __device__ kernel_row row_of_lane(const gpu_kernel_tile &t, int64_t lane)
{
    return {t.channel + (t.first + lane) / t.kernels, (t.first + lane) % t.kernels};
}
/* Its row in (kernels, channels of the block, L). */
static inline __device__ int64_t row_in_block(const gpu_kernel_tile &t, int64_t lane)
{
    return (t.first + lane) % t.kernels * t.channels + (t.first + lane) / t.kernels;
}

/* Row b of [B, P_1 .. P_R], column c of [C~, Q_1 .. Q_R]. */
static inline __device__ complex_d row_entry(const gpu_system &s, kernel_row of, int64_t n, int b)
{
    return b == 0 ? system_b(s, of.h, n) : system_p(s, of.h, n, b - 1);
}
static inline __device__ complex_d column_entry(const gpu_system &s, kernel_row of, int64_t n, int c)
{
    return c == 0 ? system_c(s, of.h, of.k, n) : conj(system_p(s, of.h, n, c - 1));
}

/* ---- what is staged per mode --------------------------------------------------------------------------------- */

template <int R> constexpr int pairs = (1 + R) * (1 + R);
template <typename T, int R> struct staged_mode {
    double w_norm; /* |w|^2 */
    T w_re;
    alignas(2 * sizeof(T)) T factors[2 * pairs<R>]; /* of every pair (b,c): p = Re v, q = Re(v conj w) */
};

/* Stages modes [first, first + count) of a row; all threads take part, a barrier must follow. */
template <typename T, int R>
static inline __device__ void stage_modes(const gpu_system &s, kernel_row of, int64_t first, int count,
                                          staged_mode<T, R> *stage)
{
    for (int i = int(threadIdx.x); i < count * pairs<R>; i += gpu_threads) {
        const int mode = i / pairs<R>, pair = i % pairs<R>;
        const int64_t n = first + mode;
        const double dt = system_dt(s, of.h, n);
        const complex_d w = dt * system_lambda(s, of.h, n);
        const complex_d v = dt * (row_entry(s, of, n, pair / (1 + R)) * column_entry(s, of, n, pair % (1 + R)));
        if (pair == 0) {
            stage[mode].w_norm = norm(w);
            stage[mode].w_re = T(w.re);
        }
        stage[mode].factors[2 * pair] = T(v.re);
        stage[mode].factors[2 * pair + 1] = T(v.re * w.re + v.im * w.im);
    }
}

/* 1 / denominator of a staged mode. */
template <typename T, int R>
static inline __device__ complex_in<T> staged_inverse(const staged_mode<T, R> &mode, const rounded_angle<T> &a)
{
    complex_in<T> denominator;
    denominator.re = T(a.cosine_squared * mode.w_norm - a.four_sine_squared);
    denominator.im = -4 * a.sine * a.cosine * mode.w_re;
    return inverse(denominator);
}

/* ---- sums ---------------------------------------------------------------------------------------------------- */

template <typename T, int R> struct cauchy_sums {
    complex_in<T> sigma[1 + R][1 + R];
};

constexpr int staged_chunk = 32; /* modes staged at a time */
template <typename T, int R> constexpr size_t staged_bytes = staged_chunk * sizeof(staged_mode<T, R>);

/* All sums of a row at one frequency, modes in rising order. All threads of the block take part. */
template <typename T, int R>
static inline __device__ void sum_over_modes(const gpu_system &s, kernel_row of, const rounded_angle<T> &a,
                                             cauchy_sums<T, R> &sums)
{
    staged_mode<T, R> *stage = reinterpret_cast<staged_mode<T, R> *>(s4_shared);
    GPU_UNROLL
    for (int b = 0; b <= R; b++) GPU_UNROLL
    for (int c = 0; c <= R; c++) sums.sigma[b][c] = {0, 0};
    for (int64_t first = 0; first < s.modes; first += staged_chunk) {
        const int count = int(s.modes - first < staged_chunk ? s.modes - first : staged_chunk);
        if (first > 0) __syncthreads(); /* the previous modes have been read */
        stage_modes(s, of, first, count, stage);
        __syncthreads();
        for (int mode = 0; mode < count; mode++) {
            const complex_in<T> r = staged_inverse(stage[mode], a);
            const complex_in<T> per_p = {-4 * a.sine * r.im, 4 * a.sine * r.re}; /* 4iS r */
            const complex_in<T> per_q = -2 * a.cosine * r;
            GPU_UNROLL
            for (int b = 0; b <= R; b++) GPU_UNROLL
            for (int c = 0; c <= R; c++) {
                const T *of_pair = stage[mode].factors + 2 * (b * (1 + R) + c);
                const T p = of_pair[0], q = of_pair[1];
                sums.sigma[b][c].re += p * per_p.re + q * per_q.re;
                sums.sigma[b][c].im += p * per_p.im + q * per_q.im;
            }
        }
    }
}

/* x = (I + c sigma_11)^-1 x, or with the transposed matrix. Elimination; the largest pivot is bubbled up by
 * exchanges with constant indices, so that everything stays in registers. */
template <bool transposed, typename T, int R>
static inline __device__ void solve_woodbury(const cauchy_sums<T, R> &sums, T cosine, complex_in<T> (&x)[R])
{
    complex_in<T> m[R][R];
    GPU_UNROLL
    for (int i = 0; i < R; i++) GPU_UNROLL
    for (int j = 0; j < R; j++) {
        m[i][j] = cosine * (transposed ? sums.sigma[1 + j][1 + i] : sums.sigma[1 + i][1 + j]);
        if (i == j) m[i][j].re += 1;
    }
    complex_in<T> pivot[R];
    GPU_UNROLL
    for (int j = 0; j < R; j++) {
        GPU_UNROLL
        for (int i = j + 1; i < R; i++) {
            const bool larger = norm(complex_cast<double>(m[i][j])) > norm(complex_cast<double>(m[j][j]));
            GPU_UNROLL
            for (int k = j; k < R; k++) {
                const complex_in<T> upper = m[j][k], lower = m[i][k];
                m[j][k] = larger ? lower : upper;
                m[i][k] = larger ? upper : lower;
            }
            const complex_in<T> upper = x[j], lower = x[i];
            x[j] = larger ? lower : upper;
            x[i] = larger ? upper : lower;
        }
        pivot[j] = complex_cast<T>(inverse(complex_cast<double>(m[j][j])));
        GPU_UNROLL
        for (int i = j + 1; i < R; i++) {
            const complex_in<T> factor = m[i][j] * pivot[j];
            GPU_UNROLL
            for (int k = j + 1; k < R; k++) m[i][k] = m[i][k] - factor * m[j][k];
            x[i] = x[i] - factor * x[j];
        }
    }
    GPU_UNROLL
    for (int i = R - 1; i >= 0; i--) {
        GPU_UNROLL
        for (int k = i + 1; k < R; k++) x[i] = x[i] - m[i][k] * x[k];
        x[i] = pivot[i] * x[i];
    }
}

#endif
