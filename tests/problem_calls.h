/* All calls that a problem's direction has, into one block of bytes: for tests that compare bits and count memory. */
#ifndef S4_TEST_PROBLEM_CALLS_H
#define S4_TEST_PROBLEM_CALLS_H

#include "session.h"

/* Inputs, and one block of bytes for all that comes out. */
typedef struct tensors {
    void *u, *dy;
    double *state, *dstate;
    size_t bytes, y, du, state_out, dstate_in, gradient[S4_PARAMETER_COUNT]; /* offsets in the block */
} tensors;

tensors tensors_for(s4_layer *layer, const s4_problem *p);

/* Refresh, then kernel, step, or forward and backward with every gradient of what is not frozen. */
s4_status execute(const s4_problem *p, const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace,
                  const tensors *t, unsigned char *out);

s4_plan_info describe(const s4_problem *problem);

#endif
