/*
 * A mode of a diagonal system under each discretisation: from dt and Lambda its pole p and weight w, and from gradients
 * of those back to Lambda and dt. a = dt Lambda.
 *
 *   bilinear  p = (1 + a/2)/(1 - a/2),  w = dt q,  q = 1/(1 - a/2):
 *               dp/da = q^2;  dw/dt = q^2 at fixed Lambda;  dw/dLambda = dt^2/2 q^2
 *             log |p| from |p|^2 = 1 + 2 Re a / |1 - a/2|^2, exact for |p| near 1, where powers decay slowly
 *   zoh       p = e^a,  w = dt phi1(a):  dp/da = e^a;  dw/dt = e^a;  dw/dLambda = dt^2 phi1'(a)
 *   dss       of a kernel of L samples; where Re Lambda > 0, a = -dt Lambda and the samples are counted from the last:
 *             p = e^a,  w = (e^a - 1) r / 2,  r = recip(x) = conj(x) / (|x|^2 + 1e-7),  x = (e^(a L) - 1) Lambda;
 *             not holomorphic: gx = (-x^2 gr + 1e-7 conj(gr)) / (|x|^2 + 1e-7)^2
 */
#ifndef GPU_KERNELS_DIAGONAL_RULES_H
#define GPU_KERNELS_DIAGONAL_RULES_H

#include "gpu/kernels/phi.h"
#include "s4/layer.h"

/* p = exp(log_modulus + i angle); log_modulus is -infinity for p = 0. */
struct diagonal_pole {
    double log_modulus, angle;
};
/* e >= 0. A power is an exponential, never a repeated product. */
static inline __device__ complex_d power(diagonal_pole p, int64_t e)
{
    if (e == 0) return {1, 0}; /* of p = 0, too */
    return exp(double(e) * p.log_modulus) * cis(double(e) * p.angle);
}

struct diagonal_mode {
    double length, dt; /* L */
    complex_d lambda;
};
struct mode_gradient {
    complex_d lambda;
    double dt;
};

/* Whether a mode's powers belong to the samples in reverse order. */
static inline __device__ bool is_growing(s4_discretisation rule, complex_d lambda)
{
    return rule == S4_DSS && lambda.re > 0;
}

static inline __device__ complex_d bilinear_inverse(complex_d a)
{
    return quotient({1, 0}, {1 - 0.5 * a.re, -0.5 * a.im});
}

static inline __device__ double dss_softened(complex_d x) { return norm(x) + 1e-7; }
static inline __device__ complex_d dss_recip(complex_d x) { return (1 / dss_softened(x)) * conj(x); }
static inline __device__ double dss_step(const diagonal_mode &mode) { return mode.lambda.re > 0 ? -mode.dt : mode.dt; }

/* ---- dt, Lambda -> p, w ------------------------------------------------------------------------------------------ */

static inline __device__ diagonal_pole pole_of(s4_discretisation rule, const diagonal_mode &mode)
{
    if (rule == S4_DSS) {
        const complex_d a = dss_step(mode) * mode.lambda;
        return {a.re, a.im};
    }
    const complex_d a = mode.dt * mode.lambda;
    if (rule == S4_ZOH) return {a.re, a.im};
    const double above = hypot(1 + 0.5 * a.re, 0.5 * a.im), below = hypot(1 - 0.5 * a.re, 0.5 * a.im);
    const double excess = 2 * a.re / (below * below);
    const double log_modulus = fabs(excess) < 0.5 ? 0.5 * log1p(excess) : log(above / below);
    return {log_modulus, atan2(0.5 * a.im, 1 + 0.5 * a.re) + atan2(0.5 * a.im, 1 - 0.5 * a.re)};
}

static inline __device__ complex_d weight_of(s4_discretisation rule, const diagonal_mode &mode)
{
    if (rule == S4_DSS) {
        const complex_d a = dss_step(mode) * mode.lambda;
        const complex_d x = expm1_complex(mode.length * a) * mode.lambda;
        return 0.5 * (expm1_complex(a) * dss_recip(x));
    }
    const complex_d a = mode.dt * mode.lambda;
    return mode.dt * (rule == S4_ZOH ? phi1(a) : bilinear_inverse(a));
}

/* ---- and back ---------------------------------------------------------------------------------------------------- */

static inline __device__ mode_gradient bilinear_chain(const diagonal_mode &mode, complex_d g_pole, complex_d g_weight)
{
    const double dt = mode.dt;
    const complex_d q = bilinear_inverse(dt * mode.lambda), q_squared = q * q;
    const complex_d g_a = g_pole * conj(q_squared);
    mode_gradient g = {{0, 0}, 0};
    add(g.lambda, dt * g_a);
    add(g.lambda, (0.5 * dt * dt) * (g_weight * conj(q_squared)));
    g.dt += (g_a * conj(mode.lambda)).re;
    g.dt += (g_weight * conj(q_squared)).re;
    return g;
}

static inline __device__ mode_gradient zoh_chain(const diagonal_mode &mode, complex_d g_pole, complex_d g_weight)
{
    const double dt = mode.dt;
    const complex_d a = dt * mode.lambda, e = exp_complex(a);
    const complex_d g_a = g_pole * conj(e);
    mode_gradient g = {{0, 0}, 0};
    add(g.lambda, dt * g_a);
    add(g.lambda, (dt * dt) * (g_weight * conj(phi1_slope(a))));
    g.dt += (g_a * conj(mode.lambda)).re;
    g.dt += (g_weight * conj(e)).re;
    return g;
}

static inline __device__ mode_gradient dss_chain(const diagonal_mode &mode, complex_d g_pole, complex_d g_weight)
{
    const double step = dss_step(mode);
    const complex_d a = step * mode.lambda, over_length = expm1_complex(mode.length * a);
    const complex_d x = over_length * mode.lambda;

    const complex_d g_r = 0.5 * (g_weight * conj(expm1_complex(a)));
    complex_d g_x = {0, 0};
    add(g_x, -1.0 * (x * x * g_r));
    add(g_x, 1e-7 * conj(g_r));
    g_x = (1 / (dss_softened(x) * dss_softened(x))) * g_x;

    const complex_d e = exp_complex(a), e_length = exp_complex(mode.length * a);
    complex_d g_a = {0, 0};
    add(g_a, g_pole * conj(e));
    add(g_a, 0.5 * (g_weight * conj(e * dss_recip(x))));
    add(g_a, mode.length * (g_x * conj(mode.lambda) * conj(e_length)));

    mode_gradient g = {{0, 0}, 0};
    add(g.lambda, step * g_a);
    add(g.lambda, g_x * conj(over_length));
    g.dt = (mode.lambda.re > 0 ? -1 : 1) * (g_a * conj(mode.lambda)).re;
    return g;
}

static inline __device__ mode_gradient chain_of(s4_discretisation rule, const diagonal_mode &mode, complex_d g_pole,
                                                complex_d g_weight)
{
    if (rule == S4_DSS) return dss_chain(mode, g_pole, g_weight);
    return rule == S4_ZOH ? zoh_chain(mode, g_pole, g_weight) : bilinear_chain(mode, g_pole, g_weight);
}

#endif
