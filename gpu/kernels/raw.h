/*
 * The five transforms f of raw parameters and their slopes, the bandlimit, and how what is wrong is told:
 *   Lambda = -f(A_real) - i f(A_imag),   dt = rate f(inv_dt);
 *   a bandlimit alpha takes C as 0 where f(inv_dt) |Im Lambda| / 2 pi >= alpha / 2.
 */
#ifndef GPU_KERNELS_RAW_H
#define GPU_KERNELS_RAW_H

#include "gpu/kernels/complex.h"
#include "gpu/kernels/launchers_setup.h"

/* Pairs of the caller's, and of raw parameters: aligned as a double is. */
static inline __device__ complex_d load_pair(const double *pairs, int64_t index)
{
    return {pairs[2 * index], pairs[2 * index + 1]};
}
static inline __device__ void store_pair(double *pairs, int64_t index, complex_d z)
{
    pairs[2 * index] = z.re;
    pairs[2 * index + 1] = z.im;
}

/* Tells of element `index`; of the value there goes what six digits show. Elements beyond 2^31 count as the last. */
static inline __device__ void raise_flag(gpu_flag_word *flags, int flag, int64_t index, double value)
{
    const gpu_flag_word last = 0x7fffffffu, shown = gpu_flag_word(__double_as_longlong(value)) >> 32;
    atomicMin(flags + flag, (gpu_flag_word(index) < last ? gpu_flag_word(index) : last) << 32 | shown);
}

/* e^-|x| never overflows. */
static inline __device__ double transform_value(s4_transform transform, double x)
{
    switch (transform) {
    case S4_TRANSFORM_EXP:
        return exp(x);
    case S4_TRANSFORM_RELU:
        return (x > 0 ? x : 0) + 1e-4;
    case S4_TRANSFORM_SIGMOID: {
        const double small = exp(-fabs(x));
        return (x >= 0 ? 1 : small) / (1 + small);
    }
    case S4_TRANSFORM_SOFTPLUS:
        return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
    default:
        return x;
    }
}

static inline __device__ double transform_slope(s4_transform transform, double x)
{
    switch (transform) {
    case S4_TRANSFORM_EXP:
        return exp(x);
    case S4_TRANSFORM_RELU:
        return x > 0 ? 1 : 0;
    case S4_TRANSFORM_SIGMOID: {
        const double small = exp(-fabs(x));
        return small / ((1 + small) * (1 + small));
    }
    case S4_TRANSFORM_SOFTPLUS:
        return transform_value(S4_TRANSFORM_SIGMOID, x);
    default:
        return 1;
    }
}

/* Whether C of channel h, mode n counts as 0. */
static inline __device__ bool is_bandlimited(const gpu_model &m, int64_t h, int64_t n)
{
    if (!(m.raw.bandlimit > 0)) return false;
    constexpr double two_pi = 6.28318530717958647692528676655900577;
    const s4_shape &s = m.shape;
    const double inv_dt = m.raw.parameter[S4_PARAMETER_INV_DT][s.dt_modes > 1 ? h * s.dt_modes + n : h];
    const double omega = transform_value(m.raw.imag_transform,
                                         m.raw.parameter[S4_PARAMETER_A_IMAG][h % s.n_ssm * s.modes + n]);
    return transform_value(m.raw.dt_transform, inv_dt) * fabs(omega) / two_pi >= m.raw.bandlimit / 2;
}

#endif
