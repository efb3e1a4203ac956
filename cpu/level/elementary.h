/*
 * Elementary functions of vectors, by their Taylor series on the short interval that a caller has reduced an argument to,
 * as exact as those of the C library to about one unit in the last place. Sums, products and bit patterns only.
 */
#ifndef CPU_LEVEL_ELEMENTARY_H
#define CPU_LEVEL_ELEMENTARY_H

#include "cpu/level/vector.h"

/* Lanes of a comparison: all bits, or none. */
typedef int64_t cpu_masks __attribute__((vector_size(CPU_VECTOR_BYTES)));

static inline cpu_doubles cpu_select_doubles(cpu_masks mask, cpu_doubles where, cpu_doubles elsewhere)
{
    return (cpu_doubles)((mask & (cpu_masks)where) | (~mask & (cpu_masks)elsewhere));
}
static inline cpu_doubles cpu_absolute_doubles(cpu_doubles x)
{
    return (cpu_doubles)((cpu_masks)x & (INT64_MAX + (cpu_masks){0}));
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
    static const double of_sine[] = {-1.0 / 6,          1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
                                     -1.0 / 39916800,   1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
    static const double of_cosine[] = {1.0 / 24,        -1.0 / 720,         1.0 / 40320,          -1.0 / 3628800,
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

#endif
