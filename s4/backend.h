/*
 * The interface between the core and a place (cpu/, gpu/): one table of typed functions per place.
 *
 * The core decides; a backend computes. Every operation gets one s4_task: the shape that the plan fixed, the buffers
 * the plan laid out (each in the memory of the task's place), the block of channels and batch rows in work, and the
 * tensors of the caller. An operation allocates nothing, and its values for one channel depend neither on the block
 * nor on the number of threads. A missing optional entry is S4_ERROR_UNSUPPORTED, never a detour.
 *
 * Seen by s4/, cpu/ and gpu/ (there also by plain C host code and .cu files). Names no library type.
 */
#ifndef S4_BACKEND_H
#define S4_BACKEND_H

#include "s4/buffer_sizes.h"
#include "s4/layer.h"
#include "s4/plan.h"
#include "s4/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

#define S4_BACKEND_VERSION 5

/* ---- buffers ------------------------------------------------------------------------------------------------- */

/*
 * Shapes of buffers; complex counts as two. nf = fft_length, F = nf/2 + 1, on the CPU s4_ring_points; dt = dtype of the
 * plan. Row stride: s4_row_stride.
 * "lanes": CPU: one per thread; GPU: tile_channels for the kernel and set-up, s4_gpu_row_lanes for the convolution, where
 * a row in chunks is padded to s4_gpu_row_length instead of nf.
 * Kept channels: d_model if resident, else block_channels; row of channel h: h if resident, else h - task->channel.
 * All buffers begin at multiples of 256 bytes; their contents are unknown at first.
 */
typedef enum s4_buffer {
    S4_BUFFER_SYSTEM,            /* double, effective parameters of all channels: see s4_system_view */
    S4_BUFFER_RAW,               /* double, GPU: raw parameters, see s4_raw_offset */
    S4_BUFFER_RAW_GRADIENT,      /* double, GPU: gradients of raw parameters, the same layout without plain C */
    S4_BUFFER_STAGE_GRADIENT,    /* the same on the host, on its way to the caller's */
    S4_BUFFER_FLAGS,             /* int64 (S4_FLAGS), GPU: what operations found, see s4_backend.check */
    S4_BUFFER_SETUP_MATRICES,    /* double: scratch of powers and solves: CPU (threads, s4_setup_lane(n)),
                                  * GPU s4_gpu_setup_scratch */
    S4_BUFFER_STEP_SYSTEM,       /* double (H, s4_step_system): cpu/step_system.c */
    S4_BUFFER_STEP_ROWS,         /* double (threads, S4_STEP_ROWS, N): CPU scratch of states */
    S4_BUFFER_STATE_ROWS,        /* double (threads, s4_state_lane): scratch of states_backward */
    S4_BUFFER_STATE_SUMS,        /* double (H, s4_state_sums(shape), N): sums of states_backward, see s4_state_sums */
    S4_BUFFER_KERNEL_ROWS,       /* double (lanes, row stride of L): K^ complex, then K as L reals, in place; CPU, DPLR:
                                  * (lanes, kernels, row stride of L) */
    S4_BUFFER_KERNEL_TERMS,      /* double: CPU (lanes, s4_cpu_kernel_scratch), GPU s4_gpu_kernel_scratch */
    S4_BUFFER_KERNEL_ADJOINT,    /* kernel_dtype (lanes, 1+2R, row stride of L), GPU, DPLR, training: factors of the
                                  * sums' adjoints */
    S4_BUFFER_KERNEL_FFT_WORK,   /* bytes, GPU: work area of the kernel's FFTs */
    S4_BUFFER_KERNEL,            /* dt (kernels, channels of the block, L) */
    S4_BUFFER_SPECTRUM,          /* dt complex (kept channels, M, F): of forward and backward kernel together */
    S4_BUFFER_ROWS_U,            /* dt (lanes, row stride of nf): padded u, then its spectrum, in place; CPU: complex
                                  * (lanes, s4_ring_rows, F) */
    S4_BUFFER_ROWS_DY,           /* GPU: dt (M, lanes, row stride of nf), the same of dy, or of outputs; CPU: complex
                                  * (lanes, F) */
    S4_BUFFER_ROWS_STAGE,        /* dt (lanes, 1 or in training 2, stage_channels, s4_stage_stride), CPU: rows of u, of dy */
    S4_BUFFER_CONVOLVE_FFT_WORK, /* bytes, GPU: work area of the convolution's FFTs; before them, double (M, lanes,
                                  * s4_skip_parts(T)): parts of sums of u dy */
    S4_BUFFER_BLOCK_U,           /* dt (S4_SLOTS, block_batch, block_channels, T), GPU, tensors on the host: u */
    S4_BUFFER_BLOCK_DY,          /* dt (S4_SLOTS, block_batch, M, block_channels, T), likewise: dy */
    S4_BUFFER_BLOCK_OUT,         /* the same, likewise: y, or du (block_batch, block_channels, T) */
    S4_BUFFER_BLOCK_STATE,       /* double (block_batch, block_channels, n, 2), likewise: state in and out */
    S4_BUFFER_BLOCK_DSTATE,      /* the same: gradient of the state out, then in */
    S4_BUFFER_LENGTHS,           /* int64 (batch), likewise */
    S4_BUFFER_STAGE_U,           /* as BLOCK_U, on the host and pinned: on its way to the device */
    S4_BUFFER_STAGE_DY,
    S4_BUFFER_STAGE_OUT,
    S4_BUFFER_GRADIENT_SPECTRUM, /* double complex (channels of the block, M, F): sum over the batch of conj(U) * DY;
                                  * NULL if the shape wants nothing that comes through the kernel */
    S4_BUFFER_KERNEL_GRADIENT,   /* double (kernels, channels of the block, L): dL/dK */
    S4_BUFFER_SYSTEM_GRADIENT,   /* double, all channels: see s4_system_gradient_view */
    S4_BUFFER_CHUNK_SYSTEM,      /* dt (kept channels, s4_chunk_system): cpu/chunk.h */
    S4_BUFFER_CHUNK_ROWS,        /* bytes: scratch of chunk_forward and chunk_backward: CPU (threads, s4_chunk_lane), GPU
                                  * lanes of s4_gpu_chunk_lane_doubles, then of s4_gpu_chunk_lane_elements */
    S4_BUFFER_CHUNK_SUMS,        /* double (channels of the block, s4_chunk_sums): gradients of the chunk matrices */
    S4_BUFFER_CHUNK_SETUP,       /* double (threads; GPU s4_gpu_chunk_setup_lanes; s4_chunk_setup): scratch of
                                  * chunk_matrices and chunk_gradient */
    S4_BUFFER_COUNT
} s4_buffer;

/* Effective parameters: what travels between places (O(H N) numbers). Complex interleaved, and first, so that every
 * pair is aligned to its size. */
typedef struct s4_system {
    double *lambda; /* (S,n,2) */
    double *b;      /* (S,n,2) */
    double *p;      /* (R,S,n,2) */
    double *c;      /* (kernels,H,n,2), bandlimited: C~ of kernel_length (DPLR kernel, by fft), else plain C */
    double *dt;     /* (H,dt_modes): rate * t(inv_dt) */
    double *d;      /* (M,H) */
} s4_system;

static inline s4_system s4_system_view(const s4_shape *s, double *base)
{
    s4_system v;
    v.lambda = base;
    v.b = v.lambda + s->n_ssm * s->modes * 2;
    v.p = v.b + s->n_ssm * s->modes * 2;
    v.c = v.p + s->rank * s->n_ssm * s->modes * 2;
    v.dt = v.c + s->kernels * s->d_model * s->modes * 2;
    v.d = v.dt + s->d_model * s->dt_modes;
    return v;
}
static inline int64_t s4_system_count(const s4_shape *s)
{
    return (s->n_ssm * (2 + s->rank) + s->kernels * s->d_model) * s->modes * 2 +
           s->d_model * (s->dt_modes + s->channels);
}

/* Gradients with respect to the effective parameters, per channel (not yet summed over the copies' channels). d alone has
 * memory where nothing that comes through the kernel is wanted and no states are used. */
typedef struct s4_system_gradient {
    double *lambda; /* (H,n,2) */
    double *b;      /* (H,n,2) */
    double *p;      /* (R,H,n,2) */
    double *c;      /* (kernels,H,n,2) */
    double *dt;     /* (H,dt_modes) */
    double *d;      /* (M,H): made by convolve_backward; all others by kernel_backward, and states_backward adds;
                     * chunked: by chunk_backward and chunk_gradient */
} s4_system_gradient;

/* Channels that all but d has memory for. */
static inline int64_t s4_system_gradient_channels(const s4_shape *s)
{
    return s->states || (s->wanted & S4_WANTED_KERNEL) ? s->d_model : 0;
}
static inline s4_system_gradient s4_system_gradient_view(const s4_shape *s, double *base)
{
    int64_t channels = s4_system_gradient_channels(s);
    s4_system_gradient v;
    v.lambda = base;
    v.b = v.lambda + channels * s->modes * 2;
    v.p = v.b + channels * s->modes * 2;
    v.c = v.p + s->rank * channels * s->modes * 2;
    v.dt = v.c + s->kernels * channels * s->modes * 2;
    v.d = v.dt + channels * s->dt_modes;
    return v;
}
static inline int64_t s4_system_gradient_count(const s4_shape *s)
{
    int64_t channels = s4_system_gradient_channels(s);
    return channels * (2 + s->rank + s->kernels) * s->modes * 2 + channels * s->dt_modes + s->d_model * s->channels;
}

/* ---- one operation ------------------------------------------------------------------------------------------- */

typedef struct s4_device s4_device; /* a backend's own */
typedef struct s4_queue s4_queue;   /* a backend's own: streams and events that a workspace's work goes through */

/* Raw parameters, as s4_layer holds them. */
typedef struct s4_raw {
    const double *parameter[S4_PARAMETER_COUNT];
    s4_transform dt_transform, real_transform, imag_transform;
    double bandlimit;       /* 0 = off */
    int64_t c_length;       /* length that parameter[C] belongs to, 0 = plain */
    const double *plain_c;  /* (kernels,H,n,2) plain C kept beside C~, or NULL; never with a bandlimit */
} s4_raw;

/* Elements from one batch row, one input channel, one output of the same channel, one sample to the next. */
typedef struct s4_strides {
    int64_t batch, channel, output, time;
} s4_strides;

typedef struct s4_task {
    s4_device *device;
    s4_queue *queue; /* of the workspace; NULL on the CPU */
    const s4_shape *shape;
    void *prepared;           /* what prepare returned */
    void *const *buffer;      /* [S4_BUFFER_COUNT], in the memory of this place; NULL where the plan has none */
    int64_t channel, channels; /* block: channels [channel, channel + channels) */
    int64_t row, rows;         /* block: batch rows [row, row + rows) */
    int64_t length;            /* samples in this call, <= shape->length (step: any) */

    /* Tensors of the block in this place, dtype of the plan. Pointers are to element (row, channel, 0) of u and du, and to
     * (row, output 0 of channel, 0) of y and dy. They lie inside the caller's arrays, with any strides, or, on the GPU
     * where those are on the host, in BLOCK_U, BLOCK_DY and BLOCK_OUT, dense. */
    const void *u, *dy;
    void *y, *du; /* y may be u, du may be dy (M = 1); du may be NULL */
    s4_strides u_strides, y_strides, dy_strides, du_strides;
    const int64_t *lengths; /* of batch row `row` and on: samples that count; NULL: all; in this place */

    /* States (.., n, 2) of element (row, channel), or NULL; state_batch doubles from one batch row to the next. */
    const double *state_in;
    double *state_out;        /* may be state_in */
    const double *dstate_out; /* states_backward only */
    double *dstate_in;        /* may be dstate_out */
    int64_t state_batch;

    const s4_raw *raw;             /* transform, read_out, step_system, chain; its pointers are of this place */
    const s4_gradients *gradients; /* chain; pointers of this place */
    unsigned wanted;               /* backward: bits of s4_wanted */
} s4_task;

typedef s4_status (*s4_operation)(const s4_task *task);

/* ---- set-up outside plans (layers) ----------------------------------------------------------------------------- */

/* All of the shape that describes a layer, threads and rate count. */
typedef struct s4_setup {
    s4_device *device;
    const s4_shape *shape;
    s4_system system; /* effective parameters; dt at rate 1 */
    double *matrices; /* (threads, s4_setup_lane(n)) scratch */
} s4_setup;

/* ---- one product of a contraction ------------------------------------------------------------------------------ */

/*
 * z[b,i,j] = sum_k (sum_p x[b,i,k,p]) (sum_q y[b,k,j,q]), sums in double, ascending. Each of b, i, j, k, p, q is a group of
 * axes, slowest first, maybe of none. A group's positions are counted row-major over its axes. No size is 0.
 */
typedef enum s4_product_group {
    S4_PRODUCT_BATCH,   /* b: axes of x, y and z */
    S4_PRODUCT_ROWS,    /* i: of x and z */
    S4_PRODUCT_COLUMNS, /* j: of y and z */
    S4_PRODUCT_DEPTH,   /* k: of x and y */
    S4_PRODUCT_X_ALONE, /* p */
    S4_PRODUCT_Y_ALONE, /* q */
    S4_PRODUCT_GROUPS
} s4_product_group;

enum { S4_PRODUCT_X, S4_PRODUCT_Y, S4_PRODUCT_Z, S4_PRODUCT_TENSORS };
#define S4_PRODUCT_AXES 16 /* of a group */

typedef struct s4_product_axis {
    int64_t size;
    int64_t stride[S4_PRODUCT_TENSORS]; /* in elements (pairs, if complex) */
} s4_product_axis;

typedef struct s4_product {
    int is_complex, threads;
    s4_dtype dtype[S4_PRODUCT_TENSORS];
    const void *x, *y;
    void *z;
    int axes[S4_PRODUCT_GROUPS];
    s4_product_axis axis[S4_PRODUCT_GROUPS][S4_PRODUCT_AXES];
    double *scratch; /* s4_product_scratch doubles */
} s4_product;

/* Reals of z in work at a time are (TILE, TILE), zero-padded; of x and y, DEPTH positions of k are packed at a time. */
#define S4_PRODUCT_TILE 4
#define S4_PRODUCT_DEPTH_MAX 256

/* The largest number that sizes are counted to: eight times it does not overflow yet. */
#define S4_PRODUCT_HUGE ((int64_t)1 << 57)
static inline int64_t s4_product_times(int64_t a, int64_t b)
{
    return b && a > S4_PRODUCT_HUGE / b ? S4_PRODUCT_HUGE : a * b;
}

static inline int64_t s4_product_padded(int64_t lines)
{
    return (lines + S4_PRODUCT_TILE - 1) / S4_PRODUCT_TILE * S4_PRODUCT_TILE;
}

/* Doubles of scratch: packed x (b, i, k) and y (b, k, j), and sums (b, i, j) where k is packed in parts. A complex
 * product is packed as a real one: twice the rows, twice the depth. */
static inline int64_t s4_product_scratch(int is_complex, int64_t batch, int64_t rows, int64_t columns, int64_t depth)
{
    int64_t parts = is_complex ? 2 : 1, packed = parts * (depth < S4_PRODUCT_HUGE ? depth : S4_PRODUCT_HUGE);
    int whole = packed <= S4_PRODUCT_DEPTH_MAX;
    int64_t i = s4_product_times(batch, s4_product_padded(parts * rows)), j = s4_product_padded(columns);
    int64_t k = whole ? packed : S4_PRODUCT_DEPTH_MAX;
    return s4_product_times(i, k) + s4_product_times(s4_product_times(batch, j), k) +
           (whole ? 0 : s4_product_times(i, j));
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Services of the core for a backend. */
typedef struct s4_host {
    /* Sets the thread's error text (printf) and returns code. */
    s4_status (*fail)(s4_status code, const char *format, ...)
#if defined(__GNUC__)
        __attribute__((format(printf, 2, 3)))
#endif
        ;
} s4_host;

typedef enum s4_lane { S4_LANE_WORK, S4_LANE_UP, S4_LANE_DOWN, S4_LANES } s4_lane;
#define S4_EVENTS 16

typedef struct s4_copy {
    int to_device; /* 1: host to device; 0: device to host */
    void *to;
    const void *from;
    size_t to_pitch, from_pitch, width, height;
} s4_copy;

typedef struct s4_device_ledger {
    int64_t launches, to_device, to_host;
} s4_device_ledger;

/* How a place is opened. */
typedef struct s4_open_options {
    int device_number;     /* GPU */
    const char *cpu_level; /* CPU: as in s4_context_options, or NULL */
} s4_open_options;

typedef struct s4_backend {
    int version; /* S4_BACKEND_VERSION */
    const char *name;

    /* life: open returns S4_ERROR_UNAVAILABLE with a text that says why; describe works on an open device, and on
     * NULL where the place could not be opened (fills what can be known). */
    s4_status (*open)(const s4_open_options *options, s4_device **device);
    void (*close)(s4_device *device);
    void (*describe)(s4_device *device, s4_place_info *info);

    /* memory of the place; NULL for the CPU, whose memory comes from the context's hooks */
    s4_status (*allocate)(s4_device *device, size_t bytes, void **pointer);
    void (*release)(s4_device *device, void *pointer);
    void (*ledger)(s4_device *device, s4_device_ledger *ledger);
    /* Makes host memory fit for asynchronous copies, and gives it back. */
    s4_status (*pin)(s4_device *device, void *pointer, size_t bytes);
    void (*unpin)(s4_device *device, void *pointer);

    /* Queues: three lanes (streams), and events between them. Operations run in lane WORK. */
    s4_status (*queue_create)(s4_device *device, s4_queue **queue);
    void (*queue_destroy)(s4_device *device, s4_queue *queue); /* waits for what is in it */
    /* WORK becomes the caller's stream (a cudaStream_t); NULL: the queue's own again. Waits for what is in it. */
    s4_status (*queue_use_stream)(s4_device *device, s4_queue *queue, void *stream);
    /* 2-D copy, asynchronous in a lane: `height` rows of `width` bytes. The host side must stay as it is until the lane
     * has got so far. */
    s4_status (*copy)(s4_device *device, s4_queue *queue, s4_lane lane, const s4_copy *copy);
    /* Event number `event` (0 .. S4_EVENTS - 1): lane reaches it; another lane, or the host, waits for it. An event that
     * was never recorded is not waited for. */
    s4_status (*record)(s4_device *device, s4_queue *queue, s4_lane lane, int event);
    s4_status (*wait)(s4_device *device, s4_queue *queue, s4_lane lane, int event);
    s4_status (*await)(s4_device *device, s4_queue *queue, int event);
    s4_status (*synchronise)(s4_device *device, s4_queue *queue); /* the host waits for all lanes; asynchronous errors */
    /* optional: what operations of this queue found so far, waited for: reads FLAGS and begins anew. S4_ERROR_NOT_FINITE,
     * S4_ERROR_SINGULAR with a text, as the CPU place says it at once. shape NULL: begins anew, whatever was found. */
    s4_status (*check)(s4_device *device, s4_queue *queue, const s4_shape *shape, void *const *buffer);

    /* FFT plans and what else a shape needs; checks that work areas fit the buffers' bytes (S4_ERROR_OUT_OF_BUDGET
     * with both numbers). bytes[S4_BUFFER_COUNT] are the plan's. */
    s4_status (*prepare)(s4_device *device, const s4_shape *shape, const int64_t *bytes, void **prepared);
    void (*unprepare)(s4_device *device, void *prepared);

    /* required of every place: kernel and convolution, forward and backward */
    s4_operation kernel;            /* SYSTEM -> KERNEL, channels of the block; scratch KERNEL_ROWS */
    s4_operation spectrum;          /* KERNEL -> SPECTRUM, channels of the block */
    s4_operation convolve;          /* u, SPECTRUM, SYSTEM.d -> y; scratch ROWS_U */
    s4_operation convolve_backward; /* u, dy, SPECTRUM -> du; adds into GRADIENT_SPECTRUM and SYSTEM_GRADIENT.d, b
                                     * ascending; a block with row == 0 begins from zero; scratch ROWS_U, ROWS_DY */
    s4_operation correlate;         /* GRADIENT_SPECTRUM -> KERNEL_GRADIENT; scratch ROWS_U */
    s4_operation kernel_backward;   /* SYSTEM, KERNEL_GRADIENT -> SYSTEM_GRADIENT (all but d); scratch KERNEL_ROWS */

    /* optional (NULL): set-up and recurrence */
    s4_operation transform;   /* raw -> SYSTEM (dt with rate; c copied as it is); checks that all is finite */
    s4_operation read_out;    /* DPLR: raw, SYSTEM -> SYSTEM.c: C~ of kernel_length at this rate, or plain C for step */
    s4_operation step_system; /* raw, SYSTEM -> STEP_SYSTEM (from plain C, made here if SYSTEM.c is C~) */
    s4_operation step;        /* STEP_SYSTEM, u, state_in -> y, state_out */
    s4_operation states;      /* STEP_SYSTEM, u, state_in -> y += response to state_in; state_out */
    s4_operation states_backward; /* SYSTEM, STEP_SYSTEM, u, dy, state_in, dstate_out -> adds what states give to du;
                                   * dstate_in; adds into STATE_SUMS, b ascending; a block with row == 0 begins from
                                   * zero; scratch STATE_ROWS */
    s4_operation state_gradients; /* SYSTEM, STEP_SYSTEM, STATE_SUMS -> adds to SYSTEM_GRADIENT, c being the leaf's;
                                   * scratch SETUP_MATRICES, STATE_ROWS */
    s4_operation chain;       /* raw, SYSTEM, SYSTEM_GRADIENT -> gradients of raw parameters */

    /* optional: reads and writes FFT wisdom. load: called once when the place is opened, unless it is to be ignored. tune:
     * measures the FFTs of a shape, then writes; path as in s4_context_tune */
    void (*load_wisdom)(s4_device *device);
    s4_status (*tune)(s4_device *device, const s4_shape *shape, double seconds, char *path, size_t path_size);

    /* optional: the chunked convolution, with states in and out; see S4_CHUNK_PANEL */
    s4_operation chunk_matrices; /* SYSTEM -> CHUNK_SYSTEM, channels of the block; scratch CHUNK_SETUP */
    s4_operation chunk_forward;  /* u, CHUNK_SYSTEM, state_in -> y, state_out; scratch CHUNK_ROWS; STEP_SYSTEM, STEP_ROWS;
                                  * GPU: ROWS_U, ROWS_DY */
    s4_operation chunk_backward; /* u, dy, CHUNK_SYSTEM, SYSTEM.d, states -> du, dstate_in; adds into SYSTEM_GRADIENT.d and
                                  * CHUNK_SUMS; a block with row == 0 begins from zero; scratch CHUNK_ROWS, STATE_ROWS;
                                  * STEP_SYSTEM; GPU: ROWS_U, ROWS_DY. CPU: whole batches only, for the same bits */
    s4_operation chunk_gradient; /* SYSTEM, CHUNK_SUMS -> SYSTEM_GRADIENT (all but d); scratch CHUNK_SETUP */

    /* optional, for layers: dA, dB (closed, see s4_layer_discrete), powers; conversion of the read-out */
    s4_status (*discrete)(const s4_setup *setup, double *dA, double *dB, int64_t power, double *dA_power);
    /* DPLR: c (kernels,H,n,2) from length `from` to length `to` (0 = plain), in place; undefined after a failure */
    s4_status (*convert_c)(const s4_setup *setup, int64_t from, int64_t to, double *c);
    /* effective parameters at rate 1 from raw ones; S4_ERROR_NOT_FINITE */
    s4_status (*effective)(const s4_shape *shape, const s4_raw *raw, const s4_system *system);
    /* Lambda (n,2), P (R,n,2), B (n,2) of a DPLR family with N = 2n, without clamps; s4_hippo_scratch. R is 2 for legt,
     * else 1. S4_INIT_HIPPO is the caller's business. */
    s4_status (*hippo)(s4_init init, int64_t modes, double *scratch, double *lambda, double *p, double *b);

    /* optional: one product of a contraction; values depend neither on threads nor on which part of x, y and z it is */
    s4_status (*contract)(const s4_product *product);
} s4_backend;

/* s4/registry.c finds these. The GPU's is exported by the module libs4_gpu.so. */
const s4_backend *cpu_backend(const s4_host *host);
typedef const s4_backend *(*s4_gpu_backend_function)(const s4_host *host);
#define S4_GPU_BACKEND_SYMBOL "s4_gpu_backend"

#ifdef __cplusplus
}
#endif
#endif
