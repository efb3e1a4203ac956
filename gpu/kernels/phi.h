/*
 * Complex functions of a = dt Lambda that diagonal systems need, exact near a = 0:
 *   e^a,   e^a - 1 = expm1(x) cos y - 2 sin(y/2)^2 + i e^x sin y,
 *   phi1(a) = (e^a - 1)/a = sum_k a^k/(k+1)!,   phi1'(a) = (e^a - phi1(a))/a = sum_k (k+1) a^k/(k+2)!.
 *
 * Sine and cosine take the nearest multiple of a quarter turn off first, with pi/2 in two parts and fused
 * multiplications, so that the error of a phase of many turns is that of the phase itself. (The library's own sine
 * would do it in local memory.)
 */
#ifndef GPU_KERNELS_PHI_H
#define GPU_KERNELS_PHI_H

#include "gpu/kernels/complex.h"

/* e^(iy) */
static inline __device__ complex_d cis(double y)
{
    const double quarters = rint(y * 0.6366197723675814);
    double angle = fma(-quarters, 1.5707963267948966, y);
    angle = fma(-quarters, 6.123233995736766e-17, angle);
    double sine, cosine;
    sincospi(angle * 0.3183098861837907, &sine, &cosine);
    const double turn = quarters - 4 * floor(0.25 * quarters); /* 0, 1, 2 or 3 */
    const bool odd = turn == 1 || turn == 3;
    const double re = odd ? sine : cosine, im = odd ? cosine : sine;
    return {turn == 1 || turn == 2 ? -re : re, turn >= 2 ? -im : im};
}

static inline __device__ complex_d exp_complex(complex_d a) { return exp(a.re) * cis(a.im); }

static inline __device__ complex_d expm1_complex(complex_d a)
{
    const complex_d phase = cis(a.im);
    const double half = cis(0.5 * a.im).im;
    return {expm1(a.re) * phase.re - 2 * half * half, exp(a.re) * phase.im};
}

/* x / y; the larger part of y is divided out first, so that nothing in between overflows. */
static inline __device__ complex_d quotient(complex_d x, complex_d y)
{
    const bool real = fabs(y.re) >= fabs(y.im);
    const double large = real ? y.re : y.im, ratio = (real ? y.im : y.re) / large;
    const double scale = large + (real ? y.im : y.re) * ratio;
    const double re = real ? x.re + x.im * ratio : x.re * ratio + x.im;
    const double im = real ? x.im - x.re * ratio : x.im * ratio - x.re;
    return {re / scale, im / scale};
}

static inline __device__ bool is_within(complex_d a, double radius)
{
    return fabs(a.re) < radius && fabs(a.im) < radius && norm(a) < radius * radius;
}

/* 1 + factor a sum */
static inline __device__ complex_d horner(double factor, complex_d a, complex_d sum)
{
    const complex_d product = factor * (a * sum);
    return {1 + product.re, product.im};
}

static inline __device__ complex_d phi1(complex_d a)
{
    if (!is_within(a, 0.03125)) return quotient(expm1_complex(a), a);
    complex_d sum = {1, 0}; /* 1 + a/2 (1 + a/3 (1 + ...)) */
    GPU_ROLLED
    for (int k = 9; k >= 2; k--) sum = horner(1.0 / k, a, sum);
    return sum;
}

static inline __device__ complex_d phi1_slope(complex_d a)
{
    if (!is_within(a, 0.5)) return quotient(exp_complex(a) - phi1(a), a);
    complex_d sum = {1, 0}; /* each term is a (k+1) / (k (k+2)) times the one before */
    GPU_ROLLED
    for (int k = 15; k >= 1; k--) sum = horner((k + 1.0) / (k * (k + 2.0)), a, sum);
    return 0.5 * sum;
}

#endif
