/*
 * Complex vectors, and the small linear systems of the low-rank correction, one in every lane: elimination with row
 * exchanges, each lane its own.
 */
#ifndef CPU_LEVEL_WOODBURY_H
#define CPU_LEVEL_WOODBURY_H

#include "cpu/level/elementary.h"
#include "s4/layer.h"

typedef struct cpu_complexes {
    cpu_doubles re, im;
} cpu_complexes;

/* sum + x y, sum - x y */
static inline cpu_complexes cpu_plus_product(cpu_complexes sum, cpu_complexes x, cpu_complexes y)
{
    return (cpu_complexes){sum.re + x.re * y.re - x.im * y.im, sum.im + x.re * y.im + x.im * y.re};
}
static inline cpu_complexes cpu_minus_product(cpu_complexes sum, cpu_complexes x, cpu_complexes y)
{
    return (cpu_complexes){sum.re - x.re * y.re + x.im * y.im, sum.im - x.re * y.im - x.im * y.re};
}
static inline cpu_complexes cpu_product(cpu_complexes x, cpu_complexes y)
{
    return (cpu_complexes){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
static inline cpu_complexes cpu_scaled_complexes(cpu_doubles factor, cpu_complexes x)
{
    return (cpu_complexes){factor * x.re, factor * x.im};
}

/* The larger part in size: as good as the modulus to choose a pivot by, and never out of range. */
static inline cpu_doubles cpu_size_of(cpu_complexes x)
{
    cpu_doubles re = cpu_absolute_doubles(x.re), im = cpu_absolute_doubles(x.im);
    return cpu_select_doubles((cpu_masks)(re > im), re, im);
}

/* 1 / x, without overflow in between; not finite for x = 0. */
static inline cpu_complexes cpu_inverse(cpu_complexes x)
{
    cpu_doubles shrink = 1.0 / cpu_size_of(x), re = x.re * shrink, im = x.im * shrink;
    cpu_doubles scale = shrink / (re * re + im * im);
    return (cpu_complexes){re * scale, -im * scale};
}

static inline void cpu_exchange(cpu_masks where, cpu_complexes *x, cpu_complexes *y)
{
    cpu_complexes kept = *x;
    x->re = cpu_select_doubles(where, y->re, kept.re);
    x->im = cpu_select_doubles(where, y->im, kept.im);
    y->re = cpu_select_doubles(where, kept.re, y->re);
    y->im = cpu_select_doubles(where, kept.im, y->im);
}

/* x <- matrix^-1 x; destroys the matrix. */
static inline __attribute__((always_inline)) void cpu_solve(int size, cpu_complexes (*matrix)[S4_RANK_MAX],
                                                            cpu_complexes *x)
{
    cpu_complexes inverse[S4_RANK_MAX];
    for (int i = 0; i < size; i++) {
        for (int row = i + 1; row < size; row++) {
            cpu_masks larger = (cpu_masks)(cpu_size_of(matrix[row][i]) > cpu_size_of(matrix[i][i]));
            for (int column = i; column < size; column++)
                cpu_exchange(larger, &matrix[i][column], &matrix[row][column]);
            cpu_exchange(larger, &x[i], &x[row]);
        }
        inverse[i] = cpu_inverse(matrix[i][i]);
        for (int row = i + 1; row < size; row++) {
            cpu_complexes factor = cpu_product(matrix[row][i], inverse[i]);
            for (int column = i + 1; column < size; column++)
                matrix[row][column] = cpu_minus_product(matrix[row][column], factor, matrix[i][column]);
            x[row] = cpu_minus_product(x[row], factor, x[i]);
        }
    }
    for (int i = size - 1; i >= 0; i--) {
        for (int column = i + 1; column < size; column++) x[i] = cpu_minus_product(x[i], matrix[i][column], x[column]);
        x[i] = cpu_product(x[i], inverse[i]);
    }
}

#endif
