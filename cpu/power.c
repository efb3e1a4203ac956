/*
 * Dense square matrices of one channel, real, row-major: product, row times matrix, and binary powers,
 *   X^1 = base;  for every lower bit of the exponent:  X <- X X, then X <- X base where the bit is 1.
 *
 * Loops run in the order i, k, j: the innermost walks rows of b and of the product, and sums every element over k
 * ascending, so values do not depend on how the compiler vectorises it.
 */
#include <string.h>

#include "cpu/place.h"

void cpu_row_times_matrix(int64_t size, const double *row, const double *matrix, double *out)
{
    memset(out, 0, (size_t)size * sizeof *out);
    for (int64_t k = 0; k < size; k++) {
        const double *matrix_row = matrix + k * size;
        double factor = row[k];
#pragma omp simd
        for (int64_t j = 0; j < size; j++) out[j] += factor * matrix_row[j];
    }
}

void cpu_matrix_product(int64_t size, const double *a, const double *b, double *product)
{
    for (int64_t i = 0; i < size; i++) cpu_row_times_matrix(size, a + i * size, b, product + i * size);
}

double *cpu_matrix_power(int64_t size, const double *base, int64_t exponent, double *const scratch[2])
{
    size_t bytes = (size_t)size * (size_t)size * sizeof *base;
    double *power = scratch[0];
    double *next = scratch[1];
    if (exponent == 0) {
        memset(power, 0, bytes);
        for (int64_t i = 0; i < size; i++) power[i * size + i] = 1;
        return power;
    }
    memcpy(power, base, bytes);
    int bit = 0;
    while (exponent >> (bit + 1)) bit++;
    while (bit-- > 0) {
        cpu_matrix_product(size, power, power, next);
        double *squared = next;
        next = power;
        power = squared;
        if (!(exponent >> bit & 1)) continue;
        cpu_matrix_product(size, power, base, next);
        double *multiplied = next;
        next = power;
        power = multiplied;
    }
    return power;
}
