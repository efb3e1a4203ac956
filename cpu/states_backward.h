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

/*
 * read_out of a DPLR channel h: from the gradient of plain C to that of the leaf C~ of length L, in place; what the power
 * dA^L between them gives is added to mode, along_p and onto_p. matrix: (N,N) scratch. 0 with *failure filled.
 */
int cpu_read_out_backward(const s4_shape *shape, const double *step_system, int64_t h, const cpu_lane *lane,
                          double *matrix, const cpu_state_sums *sums, cpu_failure *failure);

#endif
