/* Sums over modes, and over frequencies, of the generating function: the part of kernels and their gradients that takes
 * the time. Formulas in cpu/cauchy.h and cpu/kernel_backward.c. */
#ifndef CPU_LEVEL_CAUCHY_H
#define CPU_LEVEL_CAUCHY_H

#include "cpu/cauchy.h"
#include "cpu/level.h"

typedef struct cpu_cauchy_sums {
    /* K^ at `count` frequencies from `first`, a multiple of CPU_TILE, into the rows. 0 if one of them is not finite. */
    int (*spectrum)(const cpu_cauchy *work, int64_t first, int64_t count);
    /* The rows hold rfft of the kernels' gradients: adds the sums over these frequencies to `totals`. Without `system`,
     * X and Y of the kernels' columns alone. */
    void (*gradient)(const cpu_cauchy *work, int system, int64_t first, int64_t count);
} cpu_cauchy_sums;

/* By kernel_dtype: S4_F32, S4_F64. */
typedef struct cpu_cauchy_level {
    cpu_cauchy_sums of[2];
} cpu_cauchy_level;
CPU_LEVEL_TABLES(cpu_cauchy_level, cpu_cauchy_at)

#endif
