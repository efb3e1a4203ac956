/* One call of a plan, and the loop that runs its operations. */
#ifndef S4_EXECUTE_H
#define S4_EXECUTE_H

#include "s4/workspace_object.h"

/* A block of channels and batch rows. */
typedef struct s4_block {
    int64_t channel, channels, row, rows;
} s4_block;

typedef struct s4_call s4_call;
struct s4_call {
    const s4_plan *plan;
    s4_workspace *workspace;
    int64_t batch, length; /* of this call */
    const void *u, *dy;
    void *y, *du, *kernel;
    const double *state_in;
    double *state_out;
    const double *dstate_out;
    double *dstate_in;
    const s4_raw *raw;             /* on the host */
    unsigned changed;              /* refresh: bits of s4_parameter that differ from what the device has */
    const s4_gradients *gradients; /* on the host, or where the tensors are if the set-up runs there, too */
    unsigned wanted;               /* backward: bits of s4_wanted and s4_wanted_too */
    s4_strides u_strides, y_strides, dy_strides, du_strides; /* of the caller's tensors */
    const int64_t *lengths;

    /* Filled by s4_execute. */
    void *buffer[S4_PLACE_COUNT][S4_BUFFER_COUNT];
    s4_raw device_raw;
    s4_gradients device_gradients;
    int64_t round;   /* blocks of samples that were staged so far; a block's slot is round % S4_SLOTS */
    s4_block landing; /* block whose output is on its way to the host; rows 0: none */
    int64_t operations[S4_PLACE_COUNT], to_device, to_host; /* what ran, and bytes that moved */
    s4_call *follower; /* on the CPU, in shadow mode; else NULL */
};

/* Runs the operations of a phase, block by block. */
s4_status s4_execute(s4_call *call, s4_phase phase);

/* What operations on the device found so far, waited for. */
s4_status s4_execute_check(const s4_call *call);

/* Runs one entry of the CPU place for a block, and nothing around it. */
s4_status s4_execute_operation(s4_call *call, const s4_operation_row *row, const s4_block *block);

/* s4/ledger.c: what ran in a phase against what the plan says. */
s4_status s4_ledger_check(const s4_call *call, s4_phase phase);

/* s4/transfers.c: runs one copy between places. */
s4_status s4_transfer_run(s4_call *call, const s4_operation_row *row, const s4_block *block);
/* A copy in one of the workspace's lanes, counted. */
s4_status s4_transfer_copy(s4_call *call, s4_lane lane, const s4_copy *copy);

/* s4/staging.c: samples on their way between the caller's tensors on the host and the device. */
s4_status s4_stage_up(s4_call *call, s4_buffer stage, s4_buffer block_buffer, const void *from, const s4_strides *strides,
                      int64_t outputs, const s4_block *block);
s4_status s4_stage_down(s4_call *call, const s4_block *block);
/* Around every operation on staged samples: waits for what goes up; says when it is done. */
s4_status s4_stage_enter(const s4_call *call);
s4_status s4_stage_leave(const s4_call *call);
/* The last output reaches the caller. */
s4_status s4_stage_finish(s4_call *call);
/* Bytes of one slot of a staged buffer. */
size_t s4_stage_slot(const s4_call *call, s4_buffer buffer);

#endif
