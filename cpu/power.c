/*
 * Inner products, and dense square matrices of one channel, real, row-major: product, row times matrix, binary powers,
 *   X^1 = base;  for every lower bit of the exponent:  X <- X X, then X <- X base where the bit is 1.
 *
 * Loops run in the order i, k, j: the innermost walks rows of b and of the product, and sums every element over k
 * ascending, so values do not depend on how the compiler vectorises it. An inner product is eight sums, element i in
 * sum i modulo 8, for the same reason.
 */
#include <string.h>

#include "cpu/place.h"

double cpu_inner(int64_t count, const double *a, const double *b)
{
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;
    double tail[8] = {0};
    int64_t whole = count / 8 * 8;
    for (int64_t i = 0; i < whole; i += 8) {
        s0 += a[i] * b[i];
        s1 += a[i + 1] * b[i + 1];
        s2 += a[i + 2] * b[i + 2];
        s3 += a[i + 3] * b[i + 3];
        s4 += a[i + 4] * b[i + 4];
        s5 += a[i + 5] * b[i + 5];
        s6 += a[i + 6] * b[i + 6];
        s7 += a[i + 7] * b[i + 7];
    }
    for (int64_t i = whole; i < count; i++) tail[i - whole] = a[i] * b[i];
    return ((s0 + tail[0] + (s1 + tail[1])) + (s2 + tail[2] + (s3 + tail[3]))) +
           ((s4 + tail[4] + (s5 + tail[5])) + (s6 + tail[6] + (s7 + tail[7])));
}

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
