/* xoshiro256++ and normals by the polar method. */
#include "s4/random.h"

#include <math.h>

static uint64_t rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t next(s4_random *random)
{
    uint64_t *s = random->state, result = rotate(s[0] + s[3], 23) + s[0], shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate(s[3], 45);
    return result;
}

void s4_random_seed(s4_random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++) random->state[i] = splitmix64(&seed);
    random->has_spare = 0;
}

double s4_random_uniform(s4_random *random) { return ((double)(next(random) >> 12) + 0.5) * 0x1p-52; }

double s4_random_normal(s4_random *random)
{
    if (random->has_spare) {
        random->has_spare = 0;
        return random->spare;
    }
    double x, y, square;
    do {
        x = 2 * s4_random_uniform(random) - 1;
        y = 2 * s4_random_uniform(random) - 1;
        square = x * x + y * y;
    } while (square >= 1 || square == 0);
    double factor = sqrt(-2 * log(square) / square);
    random->spare = y * factor;
    random->has_spare = 1;
    return x * factor;
}
