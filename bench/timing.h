/* Wall-clock time in nanoseconds. */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include <stdint.h>

int64_t now_ns(void); /* monotonic */
/* Sorts the values and returns the middle one (the lower of two). */
int64_t median_ns(int64_t *values, int64_t count);

#endif
