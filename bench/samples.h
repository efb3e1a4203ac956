/* Reproducible values between -1 and 1 for inputs and for directions. */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include "s4/s4.h"

/* The same seed gives the same values in both dtypes: all of them are exact in single precision. */
void samples_fill(s4_dtype dtype, void *data, int64_t count, uint64_t seed);

#endif
