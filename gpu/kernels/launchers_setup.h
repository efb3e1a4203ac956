/*
 * Set-up, recurrence and the chain back to raw parameters: what plain C host code calls, one function per kernel. Each
 * puts one launch on `stream` and returns what the launch returned; pointers inside the structs are device memory.
 */
#ifndef GPU_KERNELS_LAUNCHERS_SETUP_H
#define GPU_KERNELS_LAUNCHERS_SETUP_H

#include <cuda_runtime_api.h>

#include "gpu/flags.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What every kernel here may ask for. */
typedef struct gpu_model {
    s4_shape shape;
    s4_raw raw;       /* where the operation has one */
    s4_system system; /* all channels */
    gpu_flag_word *flags;
} gpu_model;

/* ---- transforms.cu --------------------------------------------------------------------------------------------- */

/* SYSTEM of raw parameters */
cudaError_t gpu_launch_transform(const gpu_model *model, cudaStream_t stream);

/* ---- chain.cu -------------------------------------------------------------------------------------------------- */

/* gradient (count) of one raw parameter = what those of the effective ones give, or += if `accumulate` */
cudaError_t gpu_launch_chain(const gpu_model *model, s4_parameter which, int64_t count, const s4_system_gradient *from,
                             int accumulate, double *gradient, cudaStream_t stream);

/* ---- read_out.cu, set_up.cu ------------------------------------------------------------------------------------- */

/* Channels first .. first + count - 1; channel first + l works in lane l of SETUP_MATRICES. */
typedef struct gpu_setup_tile {
    int64_t first, count;
    double *marks; /* (H): 0, or 1 where the read-outs of a channel need matrices */
    double *lanes;
    int64_t lane_size, lane_rows; /* doubles of a lane, and of its matrices, behind which its rows are */
    int64_t step_system_size;
} gpu_setup_tile;

/* Read-outs C (rows,H,n) -> undone from length `undo`, doubled `doublings` times from length `from`, set up for length
 * `set_up`; 0: not done. */
typedef struct gpu_conversion {
    const double *c;
    int64_t rows;
    int64_t undo, from, set_up;
    int doublings;
    double scale_from, scale_to; /* of the system's dt, for the first two and for the last */
    double *out;                 /* row r of channel h at out + r * out_row + h * out_channel */
    int64_t out_row, out_channel;
    int as_rows; /* [2 Re C, -2 Im C] instead of pairs */
} gpu_conversion;

/* Conversions without `undo`; a channel for which that takes matrices is marked instead. */
cudaError_t gpu_launch_read_out(const gpu_model *model, const gpu_setup_tile *tile, const gpu_conversion *conversion,
                                cudaStream_t stream);
/* Of all channels those that are marked, or, with `undo`, all; the lanes of the tile have matrices, and take turns. */
cudaError_t gpu_launch_read_out_by_matrices(const gpu_model *model, const gpu_setup_tile *tile,
                                            const gpu_conversion *conversion, cudaStream_t stream);
/* STEP_SYSTEM, all but the read-outs, of the tile's channels; base is that of channel 0. */
cudaError_t gpu_launch_step_linear_system(const gpu_model *model, const gpu_setup_tile *tile, double *base,
                                          cudaStream_t stream);
cudaError_t gpu_launch_step_dense_system(const gpu_model *model, const gpu_setup_tile *tile, double *base,
                                         cudaStream_t stream);

/* ---- step.cu, states.cu: rows (h,b) of the block, h outside, b inside ---------------------------------------------- */

typedef struct gpu_recurrence {
    s4_shape shape;
    int64_t channel, rows;             /* first channel of the block; batch rows in the block */
    int64_t first, count;              /* rows (h,b) of this launch */
    int64_t length;
    const int64_t *lengths;            /* or NULL */
    const double *system;              /* STEP_SYSTEM of channel 0 */
    int64_t system_size;
    const double *d;                   /* (M,H) */
    const void *u, *dy; /* on the way back u may be NULL: the sums are then of u = 0 */
    void *y, *du;
    s4_strides u_strides, y_strides, dy_strides, du_strides;
    const double *state_in, *dstate_out;
    double *state_out, *dstate_in;
    int64_t state_batch, state_channel; /* doubles from one row, one channel of states to the next */
    double *scratch; /* count lanes, or NULL where all fits shared memory */
} gpu_recurrence;

cudaError_t gpu_launch_step(const gpu_recurrence *recurrence, cudaStream_t stream);
/* y += response to state_in */
cudaError_t gpu_launch_respond(const gpu_recurrence *recurrence, cudaStream_t stream);
/* state_out */
cudaError_t gpu_launch_absorb(const gpu_recurrence *recurrence, cudaStream_t stream);

/* ---- states_backward.cu ------------------------------------------------------------------------------------------ */

/* One of the two ways back over the same rows: along x, then along z. */
typedef struct gpu_backward {
    s4_system system;
    int64_t span;      /* s4_gpu_state_span */
    int64_t stride;    /* s4_state_stride of it */
    int64_t sums;      /* s4_state_sums */
    int64_t sums_channel; /* doubles from one channel of the sums to the next */
    int64_t lane_size; /* s4_gpu_state_lane */
    int along_z;
    int begins, ends; /* the first, the last way of these rows */
    int in_shared;    /* what every sample changes is in shared memory */
} gpu_backward;

/* du, dstate_in and, in the lanes, sums of every row. */
cudaError_t gpu_launch_states_backward(const gpu_recurrence *recurrence, const gpu_backward *way, cudaStream_t stream);
/* sums (channels of the block; s4_state_sums, N) of the rows' channels += those of the rows, b ascending; `from_zero`:
 * instead of what was there before their first row */
cudaError_t gpu_launch_state_sums(const gpu_recurrence *recurrence, const gpu_backward *way, int from_zero, double *sums,
                                  cudaStream_t stream);

/* ---- state_gradients.cu, read_out_gradient.cu ---------------------------------------------------------------------- */

/* sums (H, row_count, N): the read-outs' from plain C to the leaf C~, and what dA^L between them gives to the others */
cudaError_t gpu_launch_read_out_gradient(const gpu_model *model, const gpu_setup_tile *tile, int64_t row_count,
                                         const double *step_system, double *sums, cudaStream_t stream);
/* Sums (channels; s4_state_sums, N), `size` doubles from one channel to the next. */
typedef struct gpu_channel_sums {
    int64_t channel, channels, size;
    const double *sums;
} gpu_channel_sums;
/* gradient of the effective parameters of these channels, all but d, += what the sums give, or, `anew`, = */
cudaError_t gpu_launch_state_gradients(const gpu_model *model, const gpu_channel_sums *sums, int anew,
                                       const s4_system_gradient *gradient, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
