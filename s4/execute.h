/* One call of a plan, and the loop that runs its operations. */
#ifndef S4_EXECUTE_H
#define S4_EXECUTE_H

#include "s4/workspace_object.h"

typedef struct s4_call {
    const s4_plan *plan;
    s4_workspace *workspace;
    int64_t batch, length; /* of this call */
    const void *u, *dy;
    void *y, *du, *kernel;
    const double *state_in;
    double *state_out;
    const double *dstate_out;
    double *dstate_in;
    const s4_raw *raw;
    const s4_gradients *gradients;
    unsigned wanted; /* backward: bits of s4_wanted and s4_wanted_too */
    s4_strides u_strides, y_strides, dy_strides, du_strides; /* of the caller's tensors */
    const int64_t *lengths;
    void *buffer[S4_PLACE_COUNT][S4_BUFFER_COUNT]; /* filled by s4_execute */
} s4_call;

/* A block of channels and batch rows. */
typedef struct s4_block {
    int64_t channel, channels, row, rows;
} s4_block;

/* Runs the operations of a phase, block by block. */
s4_status s4_execute(s4_call *call, s4_phase phase);

/* s4/transfers.c: runs one copy between places. */
s4_status s4_transfer_run(const s4_call *call, s4_transfer transfer, const s4_block *block);

#endif
