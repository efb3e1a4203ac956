/*
 * Shuffles of two vectors that transpose square tiles, of both precisions: a vector is a few units of 128 bits, each of
 * which holds a group of 4 floats or 2 doubles. `interleave` works in every unit alone; `units` moves whole units.
 */
#ifndef CPU_LEVEL_TRANSPOSE_H
#define CPU_LEVEL_TRANSPOSE_H

#include "cpu/level/vector.h"

#define CPU_UNITS (CPU_VECTOR_BYTES / 16)

/* The same pattern in every unit; indices from CPU_FLOATS (CPU_DOUBLES) on are of the second vector. */
#define CPU_UNIT4(o, a, b, c, d) (a) + (o), (b) + (o), (c) + (o), (d) + (o)
#define CPU_UNIT2(o, a, b) (a) + (o), (b) + (o)
#if CPU_UNITS == 4
#define CPU_EVERY4(...)                                                                                                \
    CPU_SPREAD4(0, __VA_ARGS__), CPU_SPREAD4(4, __VA_ARGS__), CPU_SPREAD4(8, __VA_ARGS__), CPU_SPREAD4(12, __VA_ARGS__)
#define CPU_EVERY2(...)                                                                                                \
    CPU_SPREAD2(0, __VA_ARGS__), CPU_SPREAD2(2, __VA_ARGS__), CPU_SPREAD2(4, __VA_ARGS__), CPU_SPREAD2(6, __VA_ARGS__)
#elif CPU_UNITS == 2
#define CPU_EVERY4(...) CPU_SPREAD4(0, __VA_ARGS__), CPU_SPREAD4(4, __VA_ARGS__)
#define CPU_EVERY2(...) CPU_SPREAD2(0, __VA_ARGS__), CPU_SPREAD2(2, __VA_ARGS__)
#else
#define CPU_EVERY4(...) CPU_SPREAD4(0, __VA_ARGS__)
#define CPU_EVERY2(...) CPU_SPREAD2(0, __VA_ARGS__)
#endif
#define CPU_SPREAD4(o, ...) CPU_UNIT4(o, __VA_ARGS__)
#define CPU_SPREAD2(o, ...) CPU_UNIT2(o, __VA_ARGS__)

#define F CPU_FLOATS
#define D CPU_DOUBLES

/* x[0..3] of floats: in every unit, the 4 x 4 tile is transposed. */
static inline void cpu_transpose_groups_f32(cpu_floats *x)
{
    cpu_floats low_a = __builtin_shufflevector(x[0], x[1], CPU_EVERY4(0, F, 1, F + 1));
    cpu_floats high_a = __builtin_shufflevector(x[0], x[1], CPU_EVERY4(2, F + 2, 3, F + 3));
    cpu_floats low_b = __builtin_shufflevector(x[2], x[3], CPU_EVERY4(0, F, 1, F + 1));
    cpu_floats high_b = __builtin_shufflevector(x[2], x[3], CPU_EVERY4(2, F + 2, 3, F + 3));
    x[0] = __builtin_shufflevector(low_a, low_b, CPU_EVERY4(0, 1, F, F + 1));
    x[1] = __builtin_shufflevector(low_a, low_b, CPU_EVERY4(2, 3, F + 2, F + 3));
    x[2] = __builtin_shufflevector(high_a, high_b, CPU_EVERY4(0, 1, F, F + 1));
    x[3] = __builtin_shufflevector(high_a, high_b, CPU_EVERY4(2, 3, F + 2, F + 3));
}

/* x[0..1] of doubles: the 2 x 2 tile. */
static inline void cpu_transpose_groups_f64(cpu_doubles *x)
{
    cpu_doubles low = __builtin_shufflevector(x[0], x[1], CPU_EVERY2(0, D));
    x[1] = __builtin_shufflevector(x[0], x[1], CPU_EVERY2(1, D + 1));
    x[0] = low;
}

/* x[0 .. CPU_UNITS - 1]: the tile of whole units. */
#if CPU_UNITS == 4
#define CPU_EVEN_UNITS_F32 0, 1, 2, 3, 8, 9, 10, 11, F, F + 1, F + 2, F + 3, F + 8, F + 9, F + 10, F + 11
#define CPU_ODD_UNITS_F32 4, 5, 6, 7, 12, 13, 14, 15, F + 4, F + 5, F + 6, F + 7, F + 12, F + 13, F + 14, F + 15
#define CPU_EVEN_UNITS_F64 0, 1, 4, 5, D, D + 1, D + 4, D + 5
#define CPU_ODD_UNITS_F64 2, 3, 6, 7, D + 2, D + 3, D + 6, D + 7
#define CPU_TRANSPOSE_UNITS(type, suffix)                                                                              \
    static inline void cpu_transpose_units_##suffix(type *x)                                                           \
    {                                                                                                                  \
        type even_a = __builtin_shufflevector(x[0], x[1], CPU_EVEN_UNITS_##suffix##_);                                 \
        type odd_a = __builtin_shufflevector(x[0], x[1], CPU_ODD_UNITS_##suffix##_);                                   \
        type even_b = __builtin_shufflevector(x[2], x[3], CPU_EVEN_UNITS_##suffix##_);                                 \
        type odd_b = __builtin_shufflevector(x[2], x[3], CPU_ODD_UNITS_##suffix##_);                                   \
        x[0] = __builtin_shufflevector(even_a, even_b, CPU_EVEN_UNITS_##suffix##_);                                    \
        x[1] = __builtin_shufflevector(odd_a, odd_b, CPU_EVEN_UNITS_##suffix##_);                                      \
        x[2] = __builtin_shufflevector(even_a, even_b, CPU_ODD_UNITS_##suffix##_);                                     \
        x[3] = __builtin_shufflevector(odd_a, odd_b, CPU_ODD_UNITS_##suffix##_);                                       \
    }
#elif CPU_UNITS == 2
#define CPU_EVEN_UNITS_F32 0, 1, 2, 3, F, F + 1, F + 2, F + 3
#define CPU_ODD_UNITS_F32 4, 5, 6, 7, F + 4, F + 5, F + 6, F + 7
#define CPU_EVEN_UNITS_F64 0, 1, D, D + 1
#define CPU_ODD_UNITS_F64 2, 3, D + 2, D + 3
#define CPU_TRANSPOSE_UNITS(type, suffix)                                                                              \
    static inline void cpu_transpose_units_##suffix(type *x)                                                           \
    {                                                                                                                  \
        type even = __builtin_shufflevector(x[0], x[1], CPU_EVEN_UNITS_##suffix##_);                                   \
        x[1] = __builtin_shufflevector(x[0], x[1], CPU_ODD_UNITS_##suffix##_);                                         \
        x[0] = even;                                                                                                   \
    }
#else
#define CPU_TRANSPOSE_UNITS(type, suffix)                                                                              \
    static inline void cpu_transpose_units_##suffix(type *x) { (void)x; }
#endif
#define CPU_EVEN_UNITS_f32_ CPU_EVEN_UNITS_F32
#define CPU_ODD_UNITS_f32_ CPU_ODD_UNITS_F32
#define CPU_EVEN_UNITS_f64_ CPU_EVEN_UNITS_F64
#define CPU_ODD_UNITS_f64_ CPU_ODD_UNITS_F64
CPU_TRANSPOSE_UNITS(cpu_floats, f32)
CPU_TRANSPOSE_UNITS(cpu_doubles, f64)

#undef F
#undef D

#endif
