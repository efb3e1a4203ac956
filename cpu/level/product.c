/*
 * Products of small matrices in both precisions: product_typed.h, once for each.
 *
 * A tile of TILE_ROWS rows and two vectors of columns is kept in registers over the whole depth: every element of b
 * that is loaded serves TILE_ROWS products. Rows that are left are tiles of four, two and one.
 */
#include "cpu/level/product.h"

#include <string.h>

#include "cpu/level/vector.h"

#if CPU_VECTOR_BYTES == 64
#define TILE_ROWS 8 /* 32 registers */
#define STEP_ROWS 4
#else
#define TILE_ROWS 6 /* 16 registers */
#define STEP_ROWS 2
#endif

/* Before a loop over registers: none of it may stay a loop. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* As many floats as a vector of doubles has. */
typedef float cpu_half_floats __attribute__((vector_size(CPU_VECTOR_BYTES / 2)));

/* What becomes of a product. */
typedef enum ending { SET, ADD, SUM } ending;

static inline void add_floats(double *to, cpu_floats v)
{
    cpu_half_floats half[2];
    memcpy(half, &v, sizeof v);
    cpu_store_doubles(to, cpu_load_doubles(to) + __builtin_convertvector(half[0], cpu_doubles));
    to += CPU_DOUBLES;
    cpu_store_doubles(to, cpu_load_doubles(to) + __builtin_convertvector(half[1], cpu_doubles));
}
static inline cpu_doubles doubles_of_floats(const float *from)
{
    cpu_half_floats half;
    memcpy(&half, from, sizeof half);
    return __builtin_convertvector(half, cpu_doubles);
}
static inline void store_as_floats(float *to, cpu_doubles v)
{
    cpu_half_floats half = __builtin_convertvector(v, cpu_half_floats);
    memcpy(to, &half, sizeof half);
}
static inline void add_doubles(double *to, cpu_doubles v) { cpu_store_doubles(to, cpu_load_doubles(to) + v); }

#define REAL float
#define VECTOR cpu_floats
#define LANES CPU_FLOATS
#define TYPED(name) name##_f32
#define LOAD cpu_load_floats
#define STORE cpu_store_floats
#define ALL cpu_all_floats
#define ADD_TO_DOUBLES add_floats
#define TO_DOUBLES doubles_of_floats
#define FROM_DOUBLES store_as_floats
#include "cpu/level/product_typed.h"
#undef REAL
#undef VECTOR
#undef LANES
#undef TYPED
#undef LOAD
#undef STORE
#undef ALL
#undef ADD_TO_DOUBLES
#undef TO_DOUBLES
#undef FROM_DOUBLES

#define REAL double
#define VECTOR cpu_doubles
#define LANES CPU_DOUBLES
#define TYPED(name) name##_f64
#define LOAD cpu_load_doubles
#define STORE cpu_store_doubles
#define ALL cpu_all_doubles
#define ADD_TO_DOUBLES add_doubles
#define TO_DOUBLES cpu_load_doubles
#define FROM_DOUBLES cpu_store_doubles
#include "cpu/level/product_typed.h"
#undef REAL
#undef VECTOR
#undef LANES
#undef TYPED
#undef LOAD
#undef STORE
#undef ALL
#undef ADD_TO_DOUBLES
#undef TO_DOUBLES
#undef FROM_DOUBLES

#define TABLE(suffix, real)                                                                                            \
    {                                                                                                                  \
        .size = sizeof(real), .set = set_##suffix, .add = add_##suffix, .sum = sum_##suffix,                           \
        .steps_dense = steps_dense_##suffix, .steps_modes = steps_modes_##suffix, .inner = inner_##suffix,             \
        .sum_modes = sum_modes_##suffix                                                                                \
    }

const cpu_products CPU_AT_LEVEL(cpu_products_at) = {
    .of = {[S4_F32] = TABLE(f32, float), [S4_F64] = TABLE(f64, double)}};
