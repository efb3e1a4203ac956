/*
 * The Cauchy sums of one frequency and the small linear algebra on them, shared by the kernel and its gradient.
 *
 * theta = pi k / L, S = sin theta, c = cos theta, w = dt Lambda, v_bc = dt b c with b in [B, P_1 .. P_R] and
 * c in [C~, Q_1 .. Q_R], Q = conj P:
 *   sigma_bc = sum over modes of (4iS Re v - 2c Re(v conj w)) / (c^2 |w|^2 - 4S^2 - 4iSc Re w)
 * Both numbers of the numerator and both of the denominator are real and do not depend on the frequency: they are
 * what is staged in shared memory.
 */
#ifndef GPU_KERNELS_CAUCHY_H
#define GPU_KERNELS_CAUCHY_H

#include "gpu/kernels/grid.h"
#include "gpu/kernels/launchers.h"

struct complex_d {
    double re, im;
};
static inline __device__ complex_d operator*(complex_d a, complex_d b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
static inline __device__ complex_d operator*(double a, complex_d b) { return {a * b.re, a * b.im}; }
static inline __device__ complex_d operator-(complex_d a, complex_d b) { return {a.re - b.re, a.im - b.im}; }
static inline __device__ complex_d conj(complex_d a) { return {a.re, -a.im}; }
static inline __device__ double norm(complex_d a) { return a.re * a.re + a.im * a.im; }
static inline __device__ complex_d inverse(complex_d a)
{
    const double scale = 1 / norm(a);
    return {a.re * scale, -a.im * scale};
}

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

/* ---- parameters of one channel ------------------------------------------------------------------------------- */

static inline __device__ complex_d load_complex(const double *pairs, int64_t index)
{
    const double2 z = reinterpret_cast<const double2 *>(pairs)[index];
    return {z.x, z.y};
}
static inline __device__ complex_d system_lambda(const gpu_kernel_tile &t, int64_t h, int64_t n)
{
    return load_complex(t.system.lambda, h % t.n_ssm * t.modes + n);
}
/* Row b of [B, P_1 .. P_R]. */
static inline __device__ complex_d system_row(const gpu_kernel_tile &t, int64_t h, int64_t n, int b)
{
    const int64_t at = h % t.n_ssm * t.modes + n;
    return b == 0 ? load_complex(t.system.b, at) : load_complex(t.system.p, (b - 1) * t.n_ssm * t.modes + at);
}
/* Column c of [C~, Q_1 .. Q_R]. */
static inline __device__ complex_d system_column(const gpu_kernel_tile &t, int64_t h, int64_t n, int c)
{
    return c == 0 ? load_complex(t.system.c, h * t.modes + n) : conj(system_row(t, h, n, c));
}

/* ---- what is staged per mode --------------------------------------------------------------------------------- */

/* |w|^2, Re w, then for every pair (b,c) p = Re v and q = Re(v conj w). */
template <int R> constexpr int pairs = (1 + R) * (1 + R);
template <int R> constexpr int staged = 2 + 2 * pairs<R>;

/* Stages modes [first, first + count) of channel h; all threads take part, a barrier must follow. */
template <int R>
static inline __device__ void stage_modes(const gpu_kernel_tile &t, int64_t h, int64_t first, int count, double *stage)
{
    const double dt = t.system.dt[h];
    for (int i = int(threadIdx.x); i < count * pairs<R>; i += gpu_threads) {
        const int mode = i / pairs<R>, pair = i % pairs<R>;
        const int64_t n = first + mode;
        const complex_d w = dt * system_lambda(t, h, n);
        const complex_d v = dt * (system_row(t, h, n, pair / (1 + R)) * system_column(t, h, n, pair % (1 + R)));
        double *of_mode = stage + mode * staged<R>;
        if (pair == 0) {
            of_mode[0] = norm(w);
            of_mode[1] = w.re;
        }
        of_mode[2 + 2 * pair] = v.re;
        of_mode[3 + 2 * pair] = v.re * w.re + v.im * w.im;
    }
}

/* 1 / denominator of a staged mode. */
static inline __device__ complex_d staged_inverse(const double *of_mode, angle a)
{
    complex_d denominator;
    denominator.re = a.cosine * a.cosine * of_mode[0] - 4 * a.sine * a.sine;
    denominator.im = -4 * a.sine * a.cosine * of_mode[1];
    return inverse(denominator);
}

/* ---- sums ---------------------------------------------------------------------------------------------------- */

template <int R> struct cauchy_sums {
    complex_d sigma[1 + R][1 + R];
};

constexpr int staged_chunk = 32; /* modes staged at a time */

/* All sums of channel h at one frequency, modes in rising order. All threads of the block take part. */
template <int R>
static inline __device__ void sum_over_modes(const gpu_kernel_tile &t, int64_t h, angle a, cauchy_sums<R> &sums)
{
    double *stage = reinterpret_cast<double *>(s4_shared);
    GPU_UNROLL
    for (int b = 0; b <= R; b++) GPU_UNROLL
    for (int c = 0; c <= R; c++) sums.sigma[b][c] = {0, 0};
    for (int64_t first = 0; first < t.modes; first += staged_chunk) {
        const int count = int(t.modes - first < staged_chunk ? t.modes - first : staged_chunk);
        if (first > 0) __syncthreads(); /* the previous modes have been read */
        stage_modes<R>(t, h, first, count, stage);
        __syncthreads();
        for (int mode = 0; mode < count; mode++) {
            const double *of_mode = stage + mode * staged<R>;
            const complex_d r = staged_inverse(of_mode, a);
            const complex_d per_p = {-4 * a.sine * r.im, 4 * a.sine * r.re}; /* 4iS r */
            const complex_d per_q = -2 * a.cosine * r;
            GPU_UNROLL
            for (int b = 0; b <= R; b++) GPU_UNROLL
            for (int c = 0; c <= R; c++) {
                const double p = of_mode[2 + 2 * (b * (1 + R) + c)], q = of_mode[3 + 2 * (b * (1 + R) + c)];
                sums.sigma[b][c].re += p * per_p.re + q * per_q.re;
                sums.sigma[b][c].im += p * per_p.im + q * per_q.im;
            }
        }
    }
}

/* x = (I + c sigma_11)^-1 x, or with the transposed matrix. Elimination; the largest pivot is bubbled up by
 * exchanges with constant indices, so that everything stays in registers. */
template <int R, bool transposed>
static inline __device__ void solve_woodbury(const cauchy_sums<R> &sums, double cosine, complex_d (&x)[R])
{
    complex_d m[R][R];
    GPU_UNROLL
    for (int i = 0; i < R; i++) GPU_UNROLL
    for (int j = 0; j < R; j++) {
        m[i][j] = cosine * (transposed ? sums.sigma[1 + j][1 + i] : sums.sigma[1 + i][1 + j]);
        if (i == j) m[i][j].re += 1;
    }
    complex_d pivot[R];
    GPU_UNROLL
    for (int j = 0; j < R; j++) {
        GPU_UNROLL
        for (int i = j + 1; i < R; i++) {
            const bool larger = norm(m[i][j]) > norm(m[j][j]);
            GPU_UNROLL
            for (int k = j; k < R; k++) {
                const complex_d upper = m[j][k], lower = m[i][k];
                m[j][k] = larger ? lower : upper;
                m[i][k] = larger ? upper : lower;
            }
            const complex_d upper = x[j], lower = x[i];
            x[j] = larger ? lower : upper;
            x[i] = larger ? upper : lower;
        }
        pivot[j] = inverse(m[j][j]);
        GPU_UNROLL
        for (int i = j + 1; i < R; i++) {
            const complex_d factor = m[i][j] * pivot[j];
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
