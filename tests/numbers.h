/* Arrays of double for tests. They live until the test program ends (each test is a process of its own). */
#ifndef S4_TEST_NUMBERS_H
#define S4_TEST_NUMBERS_H

#include <stdint.h>

#include "s4/s4.h"

double *numbers(int64_t count); /* zeros */
double *numbers_copy(int64_t count, const double *from);

/* Random numbers, the same in every run. */
typedef struct random_source {
    uint64_t state;
} random_source;
double random_uniform(random_source *random, double low, double high);
/* Samples in (-1, 1) that single precision holds exactly, so that both dtypes get the same input. */
double *random_samples(random_source *random, int64_t count);

/* The same values in another dtype, and back. */
void *tensor_of(s4_dtype dtype, int64_t count, const double *values);
double *values_of(s4_dtype dtype, int64_t count, const void *tensor);
void *tensor_zero(s4_dtype dtype, int64_t count);

#endif
