/*
 * Sums over samples that lead to the gradients of a channel's parameters: what the recurrence in reverse, the conversion
 * of the read-out and chunks all add to. Vectors are split, rows (N) of the real basis [Re x; Im x].
 */
#ifndef CPU_STATE_SUMS_H
#define CPU_STATE_SUMS_H

#include "cpu/place.h"

/* Sums of one channel. `left` and `right` are those of the file state_sums.c, summed over samples and rows. */
typedef struct cpu_state_sums {
    double *mode;     /* (N): sum of left conj(right), mode by mode */
    double *input;    /* (N): sum of left u */
    double *along_p;  /* (R,N): sum of left (right . p_r) */
    double *onto_p;   /* (R,N): sum of right (left . dt p_r) */
    double *read_out; /* (M,N): gradient of the rows [2 Re C, -2 Im C] */
    double *p, *dt_p; /* (R,N): columns of P, and dt o P */
} cpu_state_sums;

/* The sums in rows (cpu_state_sums_rows, N). */
int64_t cpu_state_sums_rows(const s4_shape *shape);
cpu_state_sums cpu_state_sums_at(const s4_shape *shape, double *rows);
/* p and dt_p of channel h. */
void cpu_state_sums_columns(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_state_sums *sums);
/* Zero, with the columns of P of channel h. */
void cpu_state_sums_clear(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_state_sums *sums);
/* left and right of one sample into the sums. */
void cpu_state_sums_add(const s4_shape *shape, const cpu_state_sums *sums, const double *left, const double *right,
                        double u);
/* From the sums of channel h to its effective parameters, added. */
void cpu_state_sums_finish(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_state_sums *sums,
                           const s4_system_gradient *gradient);

/* sum += factor x */
static inline void cpu_add_scaled(int64_t count, double factor, const double *x, double *sum)
{
#pragma omp simd
    for (int64_t n = 0; n < count; n++) sum[n] += factor * x[n];
}

#endif
