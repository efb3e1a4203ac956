/* Arrays of double for tests: see numbers.h. */
#include "numbers.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* Everything made here is reachable from this list, so that a leak checker reports the library's leaks only. */
typedef struct block {
    struct block *next;
    _Alignas(max_align_t) double data[];
} block;
static block *blocks;

double *numbers(int64_t count)
{
    block *b = calloc(1, sizeof *b + sizeof(double) * (size_t)(count > 0 ? count : 1));
    if (!b)
        abort();
    b->next = blocks;
    blocks = b;
    return b->data;
}

double *numbers_copy(int64_t count, const double *from)
{
    double *copy = numbers(count);
    memcpy(copy, from, sizeof *copy * (size_t)count);
    return copy;
}

/* splitmix64 (Steele, Lea, Flood, 2014). */
static uint64_t random_next(random_source *random)
{
    uint64_t z = (random->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double random_uniform(random_source *random, double low, double high)
{
    return low + (high - low) * (double)(random_next(random) >> 11) * 0x1p-53;
}

double *random_samples(random_source *random, int64_t count)
{
    double *samples = numbers(count);
    for (int64_t i = 0; i < count; i++)
        samples[i] = (double)(float)random_uniform(random, -1, 1);
    return samples;
}

void *tensor_of(s4_dtype dtype, int64_t count, const double *values)
{
    double *doubles = numbers(count);
    if (dtype == S4_F64) {
        memcpy(doubles, values, sizeof *doubles * (size_t)count);
        return doubles;
    }
    float *floats = (float *)(void *)doubles;
    for (int64_t i = 0; i < count; i++)
        floats[i] = (float)values[i];
    return floats;
}

double *values_of(s4_dtype dtype, int64_t count, const void *tensor)
{
    double *values = numbers(count);
    for (int64_t i = 0; i < count; i++)
        values[i] = dtype == S4_F64 ? ((const double *)tensor)[i] : (double)((const float *)tensor)[i];
    return values;
}

void *tensor_zero(s4_dtype dtype, int64_t count)
{
    (void)dtype;
    return numbers(count);
}
