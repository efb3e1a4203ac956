/*
 * Vectors of the level a source is compiled for: as many doubles (floats) as a register holds. Only what the compiler's
 * vector extensions do not write by themselves: + - * / on vectors, and vector with scalar, are the language's.
 */
#ifndef CPU_LEVEL_VECTOR_H
#define CPU_LEVEL_VECTOR_H

#include <stdint.h>

#if defined(__AVX512F__)
#define CPU_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define CPU_VECTOR_BYTES 32
#else
#define CPU_VECTOR_BYTES 16
#endif
#define CPU_DOUBLES (CPU_VECTOR_BYTES / 8) /* lanes of a cpu_doubles */
#define CPU_FLOATS (CPU_VECTOR_BYTES / 4)

typedef double cpu_doubles __attribute__((vector_size(CPU_VECTOR_BYTES)));
typedef float cpu_floats __attribute__((vector_size(CPU_VECTOR_BYTES)));
/* As they lie in memory: anywhere an element may lie. */
typedef double cpu_doubles_stored __attribute__((vector_size(CPU_VECTOR_BYTES), aligned(8), may_alias));
typedef float cpu_floats_stored __attribute__((vector_size(CPU_VECTOR_BYTES), aligned(4), may_alias));

static inline cpu_doubles cpu_load_doubles(const double *from) { return *(const cpu_doubles_stored *)from; }
static inline void cpu_store_doubles(double *to, cpu_doubles v) { *(cpu_doubles_stored *)to = v; }
static inline cpu_doubles cpu_all_doubles(double value) { return value - (cpu_doubles){0}; } /* x - 0 is x */
static inline cpu_floats cpu_load_floats(const float *from) { return *(const cpu_floats_stored *)from; }
static inline void cpu_store_floats(float *to, cpu_floats v) { *(cpu_floats_stored *)to = v; }
static inline cpu_floats cpu_all_floats(float value) { return value - (cpu_floats){0}; }

/* After it a product in `v` is rounded, whatever it is added to: which of two products is fused with their sum is the
 * compiler's choice, which can be another one where the same code is inlined again. */
#if defined(__AVX512F__)
#define CPU_ROUNDED(v) __asm__("" : "+v"(v))
#elif defined(__x86_64__)
#define CPU_ROUNDED(v) __asm__("" : "+x"(v))
#elif defined(__aarch64__)
#define CPU_ROUNDED(v) __asm__("" : "+w"(v))
#else
#define CPU_ROUNDED(v) __asm__("" : "+m"(v))
#endif

/* The lanes of `low`, then those of `high`, rounded. */
static inline cpu_floats cpu_rounded_floats(cpu_doubles low, cpu_doubles high)
{
    typedef float half __attribute__((vector_size(CPU_VECTOR_BYTES / 2)));
    half a = __builtin_convertvector(low, half), b = __builtin_convertvector(high, half);
#if CPU_VECTOR_BYTES == 64
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#elif CPU_VECTOR_BYTES == 32
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
#else
    return __builtin_shufflevector(a, b, 0, 1, 2, 3);
#endif
}

#endif
