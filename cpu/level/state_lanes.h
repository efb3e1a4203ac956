/*
 * Lanes of doubles for states: loads and stores of what is left of a vector, sums over lanes, and complex numbers as they lie
 * in a caller's states, pair by pair.
 */
#ifndef CPU_LEVEL_STATE_LANES_H
#define CPU_LEVEL_STATE_LANES_H

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "cpu/level/vector.h"

#define LANES CPU_DOUBLES
#define INLINE static inline __attribute__((always_inline))

typedef cpu_doubles lanes;

/* ---- parts of vectors: the first `count` lanes, the others 0 ------------------------------------------------------- */

static inline lanes load(const double *from, int64_t count)
{
    if (count == LANES) return cpu_load_doubles(from);
#if defined(__AVX512F__)
    return (lanes)_mm512_maskz_loadu_pd((__mmask8)((1u << count) - 1), from);
#elif defined(__AVX2__)
    __m256i used = _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_set_epi64x(3, 2, 1, 0));
    return (lanes)_mm256_maskload_pd(from, used);
#else
    lanes part = {0};
    for (int64_t i = 0; i < count; i++) part[i] = from[i];
    return part;
#endif
}

static inline void store(double *to, int64_t count, lanes value)
{
    if (count == LANES) {
        cpu_store_doubles(to, value);
        return;
    }
#if defined(__AVX512F__)
    _mm512_mask_storeu_pd(to, (__mmask8)((1u << count) - 1), (__m512d)value);
#elif defined(__AVX2__)
    __m256i used = _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_set_epi64x(3, 2, 1, 0));
    _mm256_maskstore_pd(to, used, (__m256d)value);
#else
    for (int64_t i = 0; i < count; i++) to[i] = value[i];
#endif
}

static inline double sum_of(lanes v)
{
#if CPU_DOUBLES == 8
    lanes a = v + __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    lanes b = a + __builtin_shufflevector(a, a, 2, 3, 0, 1, 6, 7, 4, 5);
    return b[0] + b[1];
#elif CPU_DOUBLES == 4
    lanes a = v + __builtin_shufflevector(v, v, 2, 3, 0, 1);
    return a[0] + a[1];
#else
    return v[0] + v[1];
#endif
}

/* ---- complex numbers --------------------------------------------------------------------------------------------- */

#if CPU_DOUBLES == 8
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#define LOW 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#elif CPU_DOUBLES == 4
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#define LOW 0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#else
#define EVEN 0, 2
#define ODD 1, 3
#define LOW 0, 2
#define HIGH 1, 3
#endif

/* `count` complex numbers (count,2) as re and im, and back. */
INLINE void load_pairs(const double *from, int64_t count, lanes *re, lanes *im)
{
    int64_t low = 2 * count < LANES ? 2 * count : LANES, high = 2 * count - low;
    lanes a = load(from, low), b = {0};
    if (high) b = load(from + LANES, high);
    *re = __builtin_shufflevector(a, b, EVEN);
    *im = __builtin_shufflevector(a, b, ODD);
}

INLINE void store_pairs(double *to, int64_t count, lanes re, lanes im)
{
    int64_t low = 2 * count < LANES ? 2 * count : LANES, high = 2 * count - low;
    store(to, low, __builtin_shufflevector(re, im, LOW));
    if (high) store(to + LANES, high, __builtin_shufflevector(re, im, HIGH));
}

#endif
