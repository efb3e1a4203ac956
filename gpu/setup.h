/* Set-up, recurrence and chain of the GPU place, seen from its own host code. */
#ifndef GPU_SETUP_H
#define GPU_SETUP_H

#include "gpu/device.h"
#include "gpu/kernels/launchers_setup.h"

/* ---- flags.c ---- */

/* FLAGS for an operation that may find something wrong: all ones before the first since they were read, or `anew`: at the
 * begin of a refresh, since another plan may have used the memory. */
s4_status gpu_flags_open(const s4_task *task, int anew, gpu_flag_word **flags);
s4_status gpu_check_flags(s4_device *device, s4_queue *queue, const s4_shape *shape, void *const *buffer);

/* ---- set_up.c ---- */

s4_status gpu_transform_raw(const s4_task *task);
s4_status gpu_read_out(const s4_task *task);
s4_status gpu_step_system(const s4_task *task);
s4_status gpu_chain(const s4_task *task);
/* What kernels of set-up are told of a task; the tile of channels that begins with `first`, in lanes with matrices. */
s4_status gpu_model_open(const s4_task *task, int anew, gpu_model *model);
gpu_setup_tile gpu_dense_tile_at(const s4_task *task, int64_t first);

/* ---- states.c ---- */

/* Rows of the block, and what the ways back are told; sums are those of STATE_SUMS. */
gpu_recurrence gpu_recurrence_of(const s4_task *task);
gpu_backward gpu_backward_of(const s4_task *task);
/* The states that leave. */
s4_status gpu_absorb(const s4_task *task, gpu_recurrence rows, const char *operation);
/* Back along x, along z, or both, in pieces that STATE_ROWS has lanes for; sums of the block's first channel and on, begun
 * with batch row 0. */
s4_status gpu_rows_backward(const s4_task *task, gpu_recurrence rows, const gpu_backward *way, const int *along,
                            double *sums, const char *operation);
s4_status gpu_step(const s4_task *task);
s4_status gpu_states(const s4_task *task);
s4_status gpu_states_backward(const s4_task *task);
s4_status gpu_state_gradients(const s4_task *task);

#endif
