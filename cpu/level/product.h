/*
 * Products of small matrices, and steps of small linear recurrences, in the dtype of a plan.
 *
 * Element (i,j) of a product is one sum over the depth, ascending, whatever the number of rows: a row's bits do not
 * depend on the rows that are multiplied with it. Where many products are summed, the sums are in double.
 */
#ifndef CPU_LEVEL_PRODUCT_H
#define CPU_LEVEL_PRODUCT_H

#include "cpu/level.h"

/* Columns come in multiples of this many elements. */
#define CPU_PRODUCT_COLUMNS 16

/* Triangles of zeros that need not be multiplied. */
typedef enum cpu_product_part {
    CPU_PRODUCT_WHOLE,
    CPU_PRODUCT_B_UPPER, /* b[k][j] = 0 where k > j */
    CPU_PRODUCT_B_LOWER, /* b[k][j] = 0 where k < j */
    CPU_PRODUCT_C_UPPER  /* c[i][j] is wanted where i <= j; it may be left as it is elsewhere */
} cpu_product_part;

/* a (rows, depth) by b (depth, columns); elements of b and c lie one after the other in a row. c may not overlap. */
typedef struct cpu_matrices {
    int64_t rows, columns, depth;
    const void *a;
    int64_t a_row, a_depth; /* from one row, one position of the depth to the next; in elements, as all strides */
    const void *b;
    int64_t b_depth;
    void *c;
    int64_t c_row;
    cpu_product_part part;
} cpu_matrices;

/* `steps` steps of a recurrence, of `rows` rows side by side; carry (rows, state): the states, double. The inputs
 * (rows, state) of a step are replaced by the states before it; those of the next are `step` elements further on, or
 * back. */
typedef struct cpu_chunk_recurrence {
    int64_t rows, state; /* state: a multiple of CPU_PRODUCT_COLUMNS */
    int64_t steps, step;
    const void *matrix;  /* dense: (state, state), row k: what element k of a state gives, less itself */
    const double *poles; /* modes: state/2 real parts, then imaginary parts */
    double *carry;
    void *inputs;  /* of the first step */
    void *scratch; /* (rows, state) */
} cpu_chunk_recurrence;

typedef struct cpu_product {
    size_t size;                                  /* bytes of an element */
    void (*set)(const cpu_matrices *m);           /* c = a b */
    void (*add)(const cpu_matrices *m);           /* c += a b */
    void (*sum)(const cpu_matrices *m);           /* c += a b, c in double */
    void (*steps_dense)(const cpu_chunk_recurrence *r); /* carry += carry matrix + input */
    void (*steps_modes)(
        const cpu_chunk_recurrence *r); /* carry = poles o carry + input, complex; real parts, then imaginary */
    /* sum of a o b, `count` a multiple of CPU_PRODUCT_COLUMNS, in double */
    double (*inner)(int64_t count, const void *a, const void *b);
    /* sum (state) += l conj(s) mode by mode, over `rows` rows (state) of l and s */
    void (*sum_modes)(int64_t rows, int64_t state, const void *l, const void *s, double *sum);
} cpu_product;

typedef struct cpu_products {
    cpu_product of[2]; /* by dtype */
} cpu_products;
CPU_LEVEL_TABLES(cpu_products, cpu_products_at)

#endif
