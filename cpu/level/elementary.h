/*
 * Elementary functions of vectors, by their Taylor series on the short interval that a caller has reduced an argument
 * to, as exact as those of the C library to about one unit in the last place. Sums, products and bit patterns only.
 */
#ifndef CPU_LEVEL_ELEMENTARY_H
#define CPU_LEVEL_ELEMENTARY_H

#include "cpu/level/vector.h"

/* Lanes of a comparison: all bits, or none. */
typedef int64_t cpu_masks __attribute__((vector_size(CPU_VECTOR_BYTES)));
typedef int32_t cpu_float_masks __attribute__((vector_size(CPU_VECTOR_BYTES)));

static inline cpu_doubles cpu_select_doubles(cpu_masks mask, cpu_doubles where, cpu_doubles elsewhere)
{
    return (cpu_doubles)((mask & (cpu_masks)where) | (~mask & (cpu_masks)elsewhere));
}
/* first, first + 1, ... */
static inline cpu_doubles cpu_counting_doubles(double first)
{
    cpu_doubles v;
    for (int j = 0; j < CPU_DOUBLES; j++) v[j] = first + j;
    return v;
}

/* Added and taken off again it rounds to the nearest integer; in between the lowest bits are that integer. */
#define CPU_ROUNDER 0x1.8p52

/* Sine and cosine of |x| <= pi/4; of x = 0 exactly 0 and 1. */
static inline void cpu_sine_cosine(cpu_doubles x, cpu_doubles *sine, cpu_doubles *cosine)
{
    static const double of_sine[] = {-1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
                                     -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
    static const double of_cosine[] = {
        1.0 / 24,        -1.0 / 720,         1.0 / 40320,          -1.0 / 3628800,
        1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000, -1.0 / 6402373705728000};
    cpu_doubles square = x * x, half = 0.5 * square;
    cpu_doubles s = cpu_all_doubles(of_sine[7]), c = cpu_all_doubles(of_cosine[7]);
    for (int i = 6; i >= 0; i--) {
        s = of_sine[i] + square * s;
        c = of_cosine[i] + square * c;
    }
    cpu_doubles rounded = 1.0 - half;
    *sine = x + x * square * s;
    *cosine = rounded + ((1.0 - rounded) - half + square * square * c);
}

/* 2^k for an integer |k| <= 1022 */
static inline cpu_doubles cpu_power_of_two(cpu_doubles k)
{
    return (cpu_doubles)(((cpu_masks)(k + CPU_ROUNDER) + 1023) << 52);
}

/* e^x; too large (or NaN): infinite. Below the least exponent it is 0: what that small a factor leaves out is never seen,
 * and products with it are no subnormal numbers, which are slow. */
#define CPU_LEAST_EXPONENT -690.0
static inline cpu_doubles cpu_exponential(cpu_doubles x)
{
    static const double coefficient[] = {1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
                                         1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
                                         1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
    const double log2_e = 1.44269504088896340736, ln_2 = 0x1.62e42feep-1, ln_2_rest = 0x1.a39ef35793c76p-33;
    const cpu_doubles most = cpu_all_doubles(1500.0), least = cpu_all_doubles(CPU_LEAST_EXPONENT);
    x = cpu_select_doubles((cpu_masks)(x < most), x, most);
    cpu_masks seen = (cpu_masks)(x > least);
    x = cpu_select_doubles(seen, x, least);
    cpu_doubles k = (x * log2_e + CPU_ROUNDER) - CPU_ROUNDER;
    cpu_doubles rest = (x - k * ln_2) - k * ln_2_rest, sum = cpu_all_doubles(coefficient[11]);
    for (int i = 10; i >= 0; i--) sum = coefficient[i] + rest * sum;
    sum = 1.0 + (rest + rest * rest * sum);
    cpu_doubles half = (0.5 * k + CPU_ROUNDER) - CPU_ROUNDER; /* 2^k itself may be out of range */
    return cpu_select_doubles(seen, sum * cpu_power_of_two(half) * cpu_power_of_two(k - half), cpu_all_doubles(0.0));
}

/* Sine and cosine of 2 pi x, |x| <= 1/2 or a little more. */
static inline void cpu_sine_cosine_of_turns(cpu_doubles x, cpu_doubles *sine, cpu_doubles *cosine)
{
    const double two_pi = 6.28318530717958647693;
    cpu_doubles rounded = 4.0 * x + CPU_ROUNDER, s, c;
    cpu_masks quarter = (cpu_masks)rounded; /* its two lowest bits */
    cpu_sine_cosine(two_pi * (x - 0.25 * (rounded - CPU_ROUNDER)), &s, &c);
    cpu_masks even = (quarter & 1) - 1;
    *sine = (cpu_doubles)((cpu_masks)cpu_select_doubles(even, s, c) ^ (quarter & 2) << 62);
    *cosine = (cpu_doubles)((cpu_masks)cpu_select_doubles(even, c, s) ^ ((quarter + 1) & 2) << 62);
}

#endif
