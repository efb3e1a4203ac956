/*
 * e^a, e^a - 1, phi1(a) = (e^a - 1)/a and its slope phi1'(a) = (e^a - phi1(a))/a for complex a = x + iy:
 *   e^a - 1 = expm1(x) cos y - 2 sin(y/2)^2 + i e^x sin y,
 * and near a = 0, where the quotients would be 0/0 or cancel, by their series
 *   phi1(a) = sum_k a^k/(k+1)!,   phi1'(a) = sum_k (k+1) a^k/(k+2)!.
 */
#include <math.h>

#include "cpu/phi.h"

/* By Smith's way: the larger part of y is divided out first. */
cpu_complex cpu_quotient(cpu_complex x, cpu_complex y)
{
    if (fabs(y.re) >= fabs(y.im)) {
        double ratio = y.im / y.re, scale = y.re + y.im * ratio;
        return (cpu_complex){(x.re + x.im * ratio) / scale, (x.im - x.re * ratio) / scale};
    }
    double ratio = y.re / y.im, scale = y.re * ratio + y.im;
    return (cpu_complex){(x.re * ratio + x.im) / scale, (x.im * ratio - x.re) / scale};
}

cpu_complex cpu_exp(cpu_complex a)
{
    double size = exp(a.re);
    return (cpu_complex){size * cos(a.im), size * sin(a.im)};
}

cpu_complex cpu_expm1(cpu_complex a)
{
    double half = sin(a.im / 2);
    return (cpu_complex){expm1(a.re) * cos(a.im) - 2 * half * half, exp(a.re) * sin(a.im)};
}

static int is_within(cpu_complex a, double radius)
{
    return fabs(a.re) < radius && fabs(a.im) < radius && a.re * a.re + a.im * a.im < radius * radius;
}

/* Terms that count in double at the radius within which the series is used. */
#define PHI1_RADIUS 0.03125
#define PHI1_TERMS 9
#define SLOPE_RADIUS 0.5
#define SLOPE_TERMS 16

cpu_complex cpu_phi1(cpu_complex a)
{
    if (!is_within(a, PHI1_RADIUS)) return cpu_quotient(cpu_expm1(a), a);
    cpu_complex sum = {1, 0}; /* 1 + a/2 (1 + a/3 (1 + ...)) */
    for (int k = PHI1_TERMS; k >= 2; k--) {
        sum = cpu_times(sum, (cpu_complex){a.re / k, a.im / k});
        sum.re += 1;
    }
    return sum;
}

cpu_complex cpu_phi1_slope(cpu_complex a)
{
    if (!is_within(a, SLOPE_RADIUS)) {
        cpu_complex e = cpu_exp(a), phi1 = cpu_phi1(a);
        return cpu_quotient((cpu_complex){e.re - phi1.re, e.im - phi1.im}, a);
    }
    double coefficient[SLOPE_TERMS], factorial = 1;
    for (int k = 0; k < SLOPE_TERMS; k++) {
        factorial *= k + 2;
        coefficient[k] = (k + 1) / factorial;
    }
    cpu_complex sum = {coefficient[SLOPE_TERMS - 1], 0};
    for (int k = SLOPE_TERMS - 2; k >= 0; k--) {
        sum = cpu_times(sum, a);
        sum.re += coefficient[k];
    }
    return sum;
}
