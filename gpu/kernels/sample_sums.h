/*
 * What one step of a recurrence gives to dA and dB, and the step of an adjoint. With m_t+1 the adjoint of x_t+1,
 *   m_t = dA^T m_t+1;   dA and dB get the sums over samples of m_t+1 x_t^T and m_t+1 u[t].
 * A diagonal layer needs of these left conj(right), mode by mode, and left u, with left = m_t+1 and right = x_t. A DPLR
 * layer is an implicit step, whose adjoint has left = (m_t+1 + m_t) / 2 and right = x_t + x_t+1, and needs left
 * (right . p_r) and right (left . dt p_r) besides.
 *
 * Rows (N) of the real basis, of one warp: every lane has own modes.
 */
#ifndef GPU_KERNELS_SAMPLE_SUMS_H
#define GPU_KERNELS_SAMPLE_SUMS_H

#include "gpu/kernels/recurrence.h"

/* As in STATE_SUMS. */
struct sample_sums {
    double *mode, *input, *along_p, *onto_p, *read_out;
};
static inline __device__ sample_sums sample_sums_view(const s4_shape &s, double *rows)
{
    const int64_t state = 2 * s.modes;
    sample_sums sums;
    sums.mode = rows;
    sums.input = sums.mode + state;
    sums.along_p = sums.input + state;
    sums.onto_p = sums.along_p + s.rank * state;
    sums.read_out = sums.onto_p + s.rank * state;
    return sums;
}

/* A step: m_t+1 and m_t, x_t and x_t+1. */
struct sample_step {
    const double *adjoint, *before, *now, *next;
};

/* before = dA^T adjoint */
static inline __device__ void step_back(const s4_shape &s, const linear_rows &linear, const double *adjoint,
                                        double *before)
{
    const int64_t modes = s.modes, state = 2 * modes;
    double inner[S4_RANK_MAX];
    GPU_UNROLL
    for (int i = 0; i < S4_RANK_MAX; i++)
        inner[i] = i < s.rank ? inner_product(modes, linear.p + i * state, adjoint) : 0;
    for (int64_t n = lane_of_thread(); n < modes; n += 32) {
        const complex_d m = {adjoint[n], adjoint[modes + n]};
        complex_d earlier = conj(complex_d{linear.f[n], linear.f[modes + n]}) * m;
        GPU_UNROLL
        for (int i = 0; i < S4_RANK_MAX; i++)
            if (i < s.rank) {
                earlier.re -= linear.g[i * state + n] * inner[i];
                earlier.im -= linear.g[i * state + modes + n] * inner[i];
            }
        put_split(before, modes, n, earlier);
    }
}

struct sample_pair {
    complex_d left, right;
};
static inline __device__ sample_pair pair_at(const s4_shape &s, const sample_step &step, int64_t n)
{
    const complex_d m = {step.adjoint[n], step.adjoint[s.modes + n]}, x = {step.now[n], step.now[s.modes + n]};
    if (s.mode == S4_MODE_DIAG) return {m, x};
    const complex_d before = {step.before[n], step.before[s.modes + n]};
    const complex_d after = {step.next[n], step.next[s.modes + n]};
    return {{(m.re + before.re) / 2, (m.im + before.im) / 2}, {x.re + after.re, x.im + after.im}};
}

/* Adds what a step by input u of channel h gives. */
static inline __device__ void add_sample(const s4_shape &s, const s4_system &system, int64_t h, const sample_sums &sums,
                                         const sample_step &step, double u)
{
    const int64_t modes = s.modes, state = 2 * modes;
    for (int64_t n = lane_of_thread(); n < modes; n += 32) {
        const sample_pair at = pair_at(s, step, n);
        sums.mode[n] += at.left.re * at.right.re;
        sums.mode[n] += at.left.im * at.right.im;
        sums.mode[modes + n] += at.left.im * at.right.re;
        sums.mode[modes + n] -= at.left.re * at.right.im;
        sums.input[n] += at.left.re * u;
        sums.input[modes + n] += at.left.im * u;
    }
    for (int64_t i = 0; i < s.rank; i++) {
        double right_p = 0, left_p = 0;
        for (int64_t n = lane_of_thread(); n < modes; n += 32) {
            const sample_pair at = pair_at(s, step, n);
            const complex_d p = p_at(s, system, h, i, n);
            right_p += at.right.re * p.re + at.right.im * p.im;
            left_p += dt_at(s, system, h, n) * (at.left.re * p.re + at.left.im * p.im);
        }
        right_p = warp_total(right_p);
        left_p = warp_total(left_p);
        double *along = sums.along_p + i * state, *onto = sums.onto_p + i * state;
        for (int64_t n = lane_of_thread(); n < modes; n += 32) {
            const sample_pair at = pair_at(s, step, n);
            along[n] += right_p * at.left.re;
            along[modes + n] += right_p * at.left.im;
            onto[n] += left_p * at.right.re;
            onto[modes + n] += left_p * at.right.im;
        }
    }
}

#endif
