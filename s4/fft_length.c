/* FFT lengths of the convolution: a short list, so that few plans serve all sizes and none has a large prime. */
#include "s4/plan_object.h"

int64_t s4_fft_length(int64_t at_least)
{
    static const int64_t factors[] = {1, 3, 5};
    int64_t best = 0;
    for (int i = 0; i < 3; i++) {
        int64_t length = 2 * factors[i];
        while (length < at_least) length *= 2;
        if (!best || length < best) best = length;
    }
    return best;
}

int s4_fft_smooth(int64_t length)
{
    static const int64_t primes[] = {2, 3, 5, 7};
    for (int i = 0; i < 4; i++)
        while (length > 1 && length % primes[i] == 0) length /= primes[i];
    return length == 1;
}
