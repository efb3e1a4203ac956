/*
 * e^a, e^a - 1, phi1(a) = (e^a - 1)/a and its slope phi1'(a) = (e^a - phi1(a))/a for complex a = x + iy:
 *   e^a - 1 = expm1(x) cos y - 2 sin(y/2)^2 + i e^x sin y,
 * and near a = 0, where the quotients would be 0/0 or cancel, by their series
 *   phi1(a) = sum_k a^k/(k+1)!,   phi1'(a) = sum_k (k+1) a^k/(k+2)!.
 */
#ifndef GPU_KERNELS_PHI_H
#define GPU_KERNELS_PHI_H

#include "gpu/kernels/complex.h"

/* x / y, without overflow in between: the larger part of y is divided out first. */
static inline __device__ complex_d quotient(complex_d x, complex_d y)
{
    if (fabs(y.re) >= fabs(y.im)) {
        const double ratio = y.im / y.re, scale = y.re + y.im * ratio;
        return {(x.re + x.im * ratio) / scale, (x.im - x.re * ratio) / scale};
    }
    const double ratio = y.re / y.im, scale = y.re * ratio + y.im;
    return {(x.re * ratio + x.im) / scale, (x.im * ratio - x.re) / scale};
}

/* cos y + i sin y, by y / pi in two parts: reduced without the memory that sincos needs for large y. */
static inline __device__ complex_d direction(double y)
{
    constexpr double inverse_pi = 0.31830988618379067154, rest = -1.9678676675182486e-17, pi = 3.14159265358979323846;
    const double half_turns = y * inverse_pi;
    const double small = pi * (fma(y, inverse_pi, -half_turns) + y * rest);
    double sine, cosine;
    sincospi(half_turns, &sine, &cosine);
    return {cosine - small * sine, sine + small * cosine};
}

static inline __device__ complex_d complex_exp(complex_d a) { return exp(a.re) * direction(a.im); }

static inline __device__ complex_d complex_expm1(complex_d a)
{
    const complex_d whole = direction(a.im);
    const double half = direction(a.im / 2).im;
    return {expm1(a.re) * whole.re - 2 * half * half, exp(a.re) * whole.im};
}

static inline __device__ bool is_within(complex_d a, double radius)
{
    return fabs(a.re) < radius && fabs(a.im) < radius && a.re * a.re + a.im * a.im < radius * radius;
}

static inline __device__ complex_d phi1(complex_d a)
{
    if (!is_within(a, 0.03125)) return quotient(complex_expm1(a), a);
    complex_d sum = {1, 0}; /* 1 + a/2 (1 + a/3 (1 + ...)) */
    GPU_ROLLED
    for (int k = 9; k >= 2; k--) {
        sum = sum * complex_d{a.re / k, a.im / k};
        sum.re += 1;
    }
    return sum;
}

/* The terms (k+1)/(k+2)!, from the last to the first, by (k+1)/(k+2)! = (k+1)(k+3)/(k+2) (k+2)/(k+3)!. */
static inline __device__ complex_d phi1_slope(complex_d a)
{
    if (!is_within(a, 0.5)) {
        const complex_d e = complex_exp(a), phi = phi1(a);
        return quotient(e - phi, a);
    }
    constexpr double last = 16 / 355687428096000.0; /* k = 15: 16/17! */
    double coefficient = last;
    complex_d sum = {last, 0};
    GPU_ROLLED
    for (int k = 14; k >= 0; k--) {
        coefficient *= double((k + 1) * (k + 3)) / (k + 2);
        sum = sum * a;
        sum.re += coefficient;
    }
    return sum;
}

#endif
