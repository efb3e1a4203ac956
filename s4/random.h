/* Random numbers, the same on every platform: xoshiro256++ (Blackman, Vigna 2019), seeded through splitmix64. */
#ifndef S4_RANDOM_H
#define S4_RANDOM_H

#include <stdint.h>

typedef struct s4_random {
    uint64_t state[4];
    double spare; /* second number of the last pair of normals */
    int has_spare;
} s4_random;

void s4_random_seed(s4_random *random, uint64_t seed);
double s4_random_uniform(s4_random *random); /* in (0, 1) */
double s4_random_normal(s4_random *random);  /* mean 0, variance 1, by Marsaglia's polar method */

#endif
