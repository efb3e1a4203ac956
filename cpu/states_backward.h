/*
 * Gradients through states: what the recurrence (states_backward.c) and the conversion of the read-out
 * (read_out_backward.c) both add to. Vectors are split, rows (N) of the real basis [Re x; Im x].
 */
#ifndef CPU_STATES_BACKWARD_H
#define CPU_STATES_BACKWARD_H

#include "cpu/place.h"

/* Sums of one channel. `left` and `right` are those of the file states_backward.c, summed over samples and rows. */
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
/* Zero, with the columns of P of channel h. */
void cpu_state_sums_clear(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_state_sums *sums);
/* left and right of one sample into the sums. */
void cpu_state_sums_add(const s4_shape *shape, const cpu_state_sums *sums, const double *left, const double *right,
                        double u);
/* From the sums of channel h to its effective parameters, added. */
void cpu_state_sums_finish(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_state_sums *sums,
                           const s4_system_gradient *gradient);
/* out = dA^T m */
void cpu_linear_back(const cpu_linear *linear, const double *m, double *out);

/*
 * The last `count` samples of row b, channel h, from sample `first` on, of a row whose other states are met elsewhere; x
 * (N): x_first. adjoint (N): that of the state that leaves the row, then that of x_first. What they give is added to sums
 * and, unless it is NULL, to du (count), of the plan's dtype.
 */
void cpu_states_backward_end(const s4_task *task, int64_t b, int64_t h, int64_t first, int64_t count, const double *x,
                             const cpu_state_sums *sums, double *adjoint, void *du);

/*
 * read_out of a DPLR channel h: from the gradient of plain C to that of the leaf C~ of length L, in place; what the power
 * dA^L between them gives is added to mode, along_p and onto_p. matrix: (N,N) scratch. 0 with *failure filled.
 */
int cpu_read_out_backward(const s4_shape *shape, const double *step_system, int64_t h, const cpu_lane *lane,
                          double *matrix, const cpu_state_sums *sums, cpu_failure *failure);

#endif
