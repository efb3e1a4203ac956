/* Powers of poles in vectors, and the products of their small matrices; formulas in cpu/vandermonde.h. */
#ifndef CPU_LEVEL_VANDERMONDE_H
#define CPU_LEVEL_VANDERMONDE_H

#include "cpu/level.h"
#include "cpu/vandermonde.h"

/* An angle in turns: a short number, of which multiples are exact, and the rest. */
typedef struct cpu_turns {
    double coarse, rest;
} cpu_turns;

typedef struct cpu_vandermonde_level {
    /* p^(first + step i), i < count, a multiple of S4_VECTOR_LANES. */
    void (*powers)(double log_modulus, cpu_turns turns, int64_t first, int64_t step, int64_t count, double *re,
                   double *im);
    /* Adds to row[l] the sum over the modes of one order, this being the row's. */
    void (*product)(const cpu_vandermonde *v, int reversed, const cpu_complex *c, double *row);
    /* Of the modes of one order; others are left as they are. */
    void (*moments)(const cpu_vandermonde *v, int reversed, const double *row, cpu_complex *moment, cpu_complex *slope);
} cpu_vandermonde_level;
CPU_LEVEL_TABLES(cpu_vandermonde_level, cpu_vandermonde_at)

#endif
