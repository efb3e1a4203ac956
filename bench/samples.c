/* splitmix64, 24 bits a sample. */
#include "samples.h"

static double next_sample(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return ((double)(z >> 40) + 0.5) / 8388608.0 - 1.0;
}

void samples_fill(s4_dtype dtype, void *data, int64_t count, uint64_t seed)
{
    uint64_t state = seed;
    for (int64_t i = 0; i < count; i++) {
        double sample = next_sample(&state);
        if (dtype == S4_F32)
            ((float *)data)[i] = (float)sample;
        else
            ((double *)data)[i] = sample;
    }
}
