/* Largest difference between two arrays, and the largest value of the second. Not-a-number stays not-a-number. */
#ifndef BENCH_DIFFERENCE_H
#define BENCH_DIFFERENCE_H

#include "s4/s4.h"

struct difference {
    double error; /* max abs(a - b) */
    double scale; /* max abs(b) */
};

/* Adds `count` elements to what was seen before; begin with {0, 0}. */
void difference_add(struct difference *difference, s4_dtype a_dtype, const void *a, s4_dtype b_dtype, const void *b,
                    int64_t count);
/* error / scale; the error itself if the scale is 0. */
double difference_relative(const struct difference *difference);
/* The larger; not-a-number if either is. */
double larger(double a, double b);
/* Element of a f32 or f64 array. */
double element(s4_dtype dtype, const void *data, int64_t index);

#endif
