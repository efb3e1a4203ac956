/*
 * s4_plan: decides, from shapes alone and before anything runs, where every operation runs and where every byte
 * lives. s4_workspace: the memory a plan executes in. Execution follows the plan and allocates nothing.
 *
 *   s4_plan_create -> s4_plan_prepare -> s4_workspace_create -> s4_plan_refresh -> forward / backward / step ...
 *
 * Two threads may execute one plan with different workspaces.
 */
#ifndef S4_PLAN_H
#define S4_PLAN_H

#include "context.h"
#include "layer.h"

S4_BEGIN_DECLS

typedef struct s4_plan s4_plan;
typedef struct s4_workspace s4_workspace;

/* Stage -> place. */
typedef struct s4_placement {
    s4_place stage[S4_STAGE_COUNT];
} s4_placement;
/* Presets "cpu", "gpu", "split" (kernel and convolve on the GPU, the rest on the CPU), "auto", or
 * "stage=place,stage=place" on top of cpu: "convolve=gpu". S4_ERROR_ARGUMENT lists the choices. */
S4_API s4_status s4_placement_parse(const char *text, s4_placement *placement);

typedef struct s4_problem {
    size_t struct_size;
    s4_direction direction;
    s4_mode mode;
    int64_t batch;         /* B in 1 .. 2^31 */
    int64_t length;        /* T in 1 .. 2^28: samples of u and y; unused for S4_DIRECTION_KERNEL */
    int64_t kernel_length; /* L in 1 .. 2^28; 0 = length */
    int64_t d_model, d_state, rank, n_ssm, channels; /* as in s4_layer_options; 0 = its default */
    int bidirectional, dt_untied;                    /* as in s4_layer_options */
    s4_discretisation discretisation;
    s4_dtype dtype;
    s4_placement placement; /* all zero = cpu. AUTO: see s4_placement_choose; without it, CPU */
    s4_algorithm algorithm; /* of forward and training, see below */
    s4_step_mode step_mode;
    double rate;            /* multiplies dt; 0 = 1. Training a DPLR layer by FFT needs 1 */
    int rate_parity;        /* 1: as the published code: the stored C~ is used as it is at rate * dt, which is not its
                             * kernel (DPLR; kernel_length must be the stored length divided by rate, rounded) */
    s4_layout layout;       /* of dense u, y and their gradients */
    int states;             /* forward and training: calls may give states; not with bidirectional or dss; training a DPLR
                             * layer by FFT then needs length <= kernel_length */
    int threads;            /* CPU threads; 0 = all processors of this process */
    int64_t host_budget, device_budget; /* bytes; 0 = none */
    int64_t pinned_budget; /* bytes of the host's that are pinned, for samples on their way to a GPU; 0 = none */
    unsigned frozen;       /* training: bits 1 << s4_parameter of what is not trained: it takes no memory and no time, and a
                            * gradient of it may not be asked for */
    s4_place tensors;      /* where u, y, their gradients, states and lengths are: S4_PLACE_CPU, or S4_PLACE_GPU (device
                            * memory; see cuda.h), which needs convolve, or step, on the GPU */
    const char *placement_reason; /* why AUTO became what it is, for the report; NULL, or a text that outlives the plan */
    int kernel_f32;        /* 1: the sums of a DPLR layer's kernels and of their gradients in single precision, all but
                            * the differences in their denominators (kernel_dtype f32 in reports). Right for legs: kernels
                            * to some 1e-6 of the largest value, gradients to some 1e-4. Where Lambda hardly decays (legt,
                            * fourier, hippo) kernels may be off by 1e-3 and gradients, which cancel, altogether; steps of
                            * such layers below 1e-5 are out of range. On either place; S4_ERROR_UNSUPPORTED for kernels of
                            * diagonal layers; without effect where none are made: CHUNKED, steps */
    int either_leaf;       /* 1: the layer is set up as the plan says, so that AUTO is free in training a DPLR layer, too */
} s4_problem;

/*
 * FFT makes a kernel of kernel_length, its spectrum, and transforms every row. CHUNKED goes from chunk to chunk of a few
 * dozen samples by the state between them: time and memory of a sample do not grow with the length. It is
 * S4_ERROR_UNSUPPORTED for bidirectional and dss layers, with rate_parity, and where kernel_length < length (the memory of a
 * recurrence is not cut). It runs where stage convolve is placed; no kernel is made, wherever stage kernel is.
 * AUTO is what should take less time on one core, CHUNKED only where that is possible; FFT where kernel or convolve is on the
 * GPU, whose prices are not known. What counts is what a user waits for once parameters have changed: in training a refresh, a
 * forward and a backward, as every step has; in direction forward a refresh and a forward, by a DPLR layer that stores C~. It
 * depends on the sizes of the problem, the batch among them, not on threads, budgets or the machine; calls of fewer rows or
 * samples have the plan's algorithm. Who runs many forwards a refresh may plan for as many rows at once, or set the algorithm.
 * The leaf: a DPLR layer trains C~ of kernel_length by FFT, and plain C by CHUNKED. As a problem does not tell what a layer
 * stores, AUTO trains a DPLR layer by FFT; with either_leaf it is free, and the caller sets the layer up for what
 * s4_plan_describe says: s4_layer_setup to kernel_length for FFT, to 0 for CHUNKED. A diagonal layer trains C either way. Other
 * directions take either leaf; those that do not convolve have FFT.
 */

/* Decides what AUTO in `placement` leaves open by what the context has: kernel and convolve (or step) go to the GPU where
 * there is one that is no emulation, offers the problem in its budgets, and where the work is worth the way; all else is
 * the CPU's. placement_reason says why. */
S4_API s4_status s4_placement_choose(s4_context *context, s4_problem *problem);

/* Arithmetic only: no device, no large memory. S4_ERROR_ARGUMENT names the field, its value and the bound;
 * S4_ERROR_OUT_OF_BUDGET tells what is needed, what was given and the largest batch that would fit;
 * S4_ERROR_UNSUPPORTED. *plan is NULL then. */
S4_API s4_status s4_plan_create(const s4_problem *problem, s4_plan **plan);
S4_API void s4_plan_destroy(s4_plan *plan);

/* FFT plans are ESTIMATE'd: the same in every process. S4_ERROR_UNAVAILABLE says why a place is not there,
 * S4_ERROR_UNSUPPORTED what a place that is there does not offer.
 * Preparing twice with one context is a no-op; with another it is S4_ERROR_ORDER. */
S4_API s4_status s4_plan_prepare(s4_plan *plan, s4_context *context);

/* What was decided. */
typedef struct s4_plan_info {
    s4_problem problem; /* defaults filled in */
    int64_t fft_length; /* 0 where there is no convolution by FFT */
    int64_t chunk;      /* samples of a chunk; 0 where there is no chunked convolution */
    int64_t block_channels, block_batch; /* what is in work at a time */
    int resident;       /* 1: kernel spectra (chunk matrices) of all channels are kept from refresh on; 0: made again, block
                         * by block */
    int64_t host_peak, device_peak;         /* bytes of the workspace */
    int64_t host_minimum, device_minimum;   /* the smallest budgets this problem can be planned in */
    int64_t pinned;                         /* bytes of host_peak that are pinned: samples on their way to a GPU */
    int64_t host_reserve, device_reserve;   /* bound on what FFTW, cuFFT and CUDA hold inside, apart from the peaks */
    int64_t to_device, to_host;             /* bytes moved by one refresh + forward (+ backward), or step, or kernel */
    int64_t buffers, operations;            /* how many there are */
} s4_plan_info;
S4_API s4_status s4_plan_describe(const s4_plan *plan, s4_plan_info *info);

typedef struct s4_buffer_info {
    const char *name;
    s4_place place;
    int64_t bytes, offset; /* offset in the block of its place */
    int first, last;       /* operations that use it, as indices of s4_plan_operation */
} s4_buffer_info;
typedef struct s4_operation_info {
    const char *name;
    s4_stage stage;
    s4_place place;
    const char *phase; /* "refresh", "kernel", "forward", "backward", "step" */
    const char *loop;  /* "once", "channels" (each block of channels), "batch" (each block of channels and batch) */
} s4_operation_info;
S4_API s4_status s4_plan_buffer(const s4_plan *plan, int64_t index, s4_buffer_info *info);
S4_API s4_status s4_plan_operation(const s4_plan *plan, int64_t index, s4_operation_info *info);

/* The report. Writes at most `capacity` bytes with the final 0 to `text` (may be NULL if capacity is 0) and the
 * full size, with the 0, to *needed. */
typedef enum s4_report_format { S4_REPORT_TEXT = 0, S4_REPORT_JSON = 1 } s4_report_format;
S4_API s4_status s4_plan_report(const s4_plan *plan, s4_report_format format, char *text, size_t capacity,
                                size_t *needed);

/* One block per place, of the plan's peaks. The plan must be prepared. */
S4_API s4_status s4_workspace_create(const s4_plan *plan, s4_workspace **workspace);
/* The same from the caller's memory: host_block of host_bytes, 64-byte aligned. S4_ERROR_ORDER if it is too small.
 * Device blocks are made by the library. The caller keeps ownership of host_block. */
S4_API s4_status s4_workspace_create_in(const s4_plan *plan, void *host_block, size_t host_bytes,
                                        s4_workspace **workspace);
/* A workspace serves every plan (of the same context) it is large enough for. */
S4_API void s4_workspace_destroy(s4_workspace *workspace);

/*
 * Execution. All tensors are on the host, of the plan's dtype unless said otherwise. With M = channels and
 * T = length: u, du (batch,H,T) and y, dy (batch,M*H,T), output channel c of input channel h at c*H + h; or time before
 * channel with S4_LAYOUT_BLH. Dense and row-major, or with strides: elements from one (batch row, channel, sample) to the
 * next, all three 0 = dense. batch and length may be smaller than planned (0 = as planned), with the same bits a row.
 *
 * lengths: (batch) samples that count in each row, 0 .. T, or NULL = all. What lies beyond is taken as absent: y and du
 * are 0 there, u and dy are not read, state_out is the state after the last sample that counts.
 */

/* Derives what depends on the parameters only. The layer must have the plan's shape (S4_ERROR_ARGUMENT). Training of a DPLR
 * layer by FFT needs one that stores C~ of the plan's kernel_length, in chunks one that stores plain C
 * (S4_ERROR_UNSUPPORTED says what to call). Other directions convert, in double. S4_ERROR_NOT_FINITE names the parameter
 * and index. On failure the workspace is stale. */
S4_API s4_status s4_plan_refresh(const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace);

/* K: (K,H,kernel_length), K = channels, twice that if bidirectional. */
S4_API s4_status s4_plan_kernel(const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace, void *K);

typedef struct s4_forward_io {
    size_t struct_size;
    int64_t batch, length;
    const void *u;
    void *y;                /* may be u, with the same strides, if channels is 1 and no states are used */
    const double *state_in; /* (batch,H,n,2) or NULL = 0 */
    double *state_out;      /* (batch,H,n,2) or NULL; may be state_in. State after the last sample */
    int64_t u_strides[3], y_strides[3]; /* batch, channel, time; 0 0 0 = dense */
    const int64_t *lengths; /* (batch) or NULL */
} s4_forward_io;
/* y_c[t] = sum_{s<=t} K_c[t-s] u[s] + D_c u[t] (+ 2 Re C_c dA^{t+1} x0) (+ sum_{s>t} K1_c[s-t-1] u[s]).  The kernel is cut at kernel_length; the response
 * to state_in is not. Needs a refresh with the same layer version (S4_ERROR_STALE). */
/* A sample that is not finite spoils its own row (batch, channel) only: all of it by FFT, in chunks what is near it and
 * after. */
S4_API s4_status s4_plan_forward(const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace,
                                 const s4_forward_io *io);

/* Gradients of the raw parameters, in double: parameter[p] is shaped like the view that s4_layer_parameter gives of p;
 * NULL = not wanted, and not computed. C: of the stored leaf. Complex ones are dL/dRe + i dL/dIm. Not of what the plan was
 * told is frozen (S4_ERROR_ARGUMENT). */
typedef struct s4_gradients {
    double *parameter[S4_PARAMETER_COUNT];
    int accumulate; /* 0: overwrite, 1: add */
} s4_gradients;

typedef struct s4_backward_io {
    size_t struct_size;
    int64_t batch, length;
    const void *u;
    const void *dy;
    void *du;       /* or NULL; may be dy, with the same strides, if channels is 1 and no states are used */
    s4_gradients gradients;
    int64_t u_strides[3], dy_strides[3], du_strides[3]; /* batch, channel, time; 0 0 0 = dense */
    const int64_t *lengths; /* (batch) or NULL */
    const double *state_in;   /* (batch,H,n,2) x0, or NULL = 0 */
    const double *dstate_out; /* (batch,H,n,2) dL/dRe + i dL/dIm of state_out, or NULL = 0 */
    double *dstate_in;        /* (batch,H,n,2) the same of state_in, or NULL; may be dstate_out */
} s4_backward_io;
/* A pure function of (parameters, u, dy, state_in, dstate_out): no preceding forward is needed. On failure du and gradients are undefined. */
S4_API s4_status s4_plan_backward(const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace,
                                  const s4_backward_io *io);

typedef struct s4_step_io {
    size_t struct_size;
    int64_t batch, length; /* length: samples in this call, any number >= 1; 0 = as planned */
    const void *u;
    void *y;               /* may be u, with the same strides, if channels is 1 */
    double *state;         /* (batch,H,n,2), updated; fastest at the begin of a cache line */
    int64_t u_strides[3], y_strides[3]; /* batch, channel, time; 0 0 0 = dense */
} s4_step_io;
S4_API s4_status s4_plan_step(const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace,
                              const s4_step_io *io);

S4_END_DECLS
#endif
