/*
 * The effective parameters of a channel h, and its rows of C: kernel k of the channel is made from row k. Channels
 * share Lambda, B and P with the other channels of their copy.
 */
#ifndef GPU_KERNELS_SYSTEM_H
#define GPU_KERNELS_SYSTEM_H

#include "gpu/kernels/complex.h"
#include "gpu/kernels/launchers.h"

static inline __device__ double system_dt(const gpu_system &s, int64_t h, int64_t n)
{
    return s.view.dt[s.dt_modes == 1 ? h : h * s.dt_modes + n];
}
static inline __device__ complex_d system_lambda(const gpu_system &s, int64_t h, int64_t n)
{
    return load_complex(s.view.lambda, h % s.n_ssm * s.modes + n);
}
static inline __device__ complex_d system_b(const gpu_system &s, int64_t h, int64_t n)
{
    return load_complex(s.view.b, h % s.n_ssm * s.modes + n);
}
static inline __device__ complex_d system_p(const gpu_system &s, int64_t h, int64_t n, int r)
{
    return load_complex(s.view.p, (r * s.n_ssm + h % s.n_ssm) * s.modes + n);
}
static inline __device__ complex_d system_c(const gpu_system &s, int64_t h, int64_t k, int64_t n)
{
    return load_complex(s.view.c, (k * s.d_model + h) * s.modes + n);
}

#endif
