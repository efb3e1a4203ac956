/*
 * Gradients through states: of the recurrence (states_backward.c) and of the conversion of the read-out
 * (read_out_backward.c). Both add to the sums of state_sums.h.
 */
#ifndef CPU_STATES_BACKWARD_H
#define CPU_STATES_BACKWARD_H

#include "cpu/state_sums.h"

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
