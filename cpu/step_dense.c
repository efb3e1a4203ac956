/*
 * The recurrence with dense dA in the real basis [Re x; Im x], O(N^2) a sample: x <- dA x + dB u[t],
 * y[t] = c x + D u[t] with c = [2 Re C, -2 Im C]. dA is stored by columns: the sum over columns keeps the innermost
 * loop on contiguous memory.
 */
#include <string.h>

#include "cpu/place.h"

void cpu_step_dense(const cpu_step_row *row)
{
    s4_dtype dtype = row->shape->dtype;
    int64_t state = 2 * row->shape->modes;
    const double *dA = row->system, *dB = dA + state * state, *c = dB + state;
    double *x = row->x, *next = row->scratch;
    for (int64_t t = 0; t < row->length; t++) {
        double u = cpu_sample(dtype, row->u, t);
#pragma omp simd
        for (int64_t m = 0; m < state; m++) next[m] = dB[m] * u;
        for (int64_t k = 0; k < state; k++) {
            const double *column = dA + k * state;
            double factor = x[k];
#pragma omp simd
            for (int64_t m = 0; m < state; m++) next[m] += column[m] * factor;
        }
        memcpy(x, next, (size_t)state * sizeof *x);
        double y = row->d * u;
        for (int64_t m = 0; m < state; m++) y += c[m] * x[m];
        cpu_put_sample(dtype, row->y, t, y);
    }
}
