/* What a plan fixed of a problem: all that core and backends decide from. */
#ifndef S4_SHAPE_H
#define S4_SHAPE_H

#include "s4/plan.h"

/* What the gradients that a call asks for need of SYSTEM_GRADIENT. An operation makes at least these parts; what it is
 * not asked for costs nothing where leaving it out saves work. Operations that only make parts which nobody wants are
 * not run. */
typedef enum s4_wanted {
    S4_WANTED_D = 1,     /* d */
    S4_WANTED_C = 2,     /* c */
    S4_WANTED_SYSTEM = 4 /* lambda, b, p, dt */
} s4_wanted;
#define S4_WANTED_KERNEL (S4_WANTED_C | S4_WANTED_SYSTEM) /* all that come through the kernel */

typedef struct s4_shape {
    s4_direction direction;
    s4_dtype dtype;
    s4_dtype kernel_dtype;    /* of the sums that make DPLR kernels, and of their gradients */
    s4_step_mode step_mode;
    int64_t batch, length;    /* B, T as planned */
    int64_t kernel_length;    /* L */
    int64_t fft_length;       /* of the convolution, even, >= L + T - 1, bidirectional >= L + T; 0 without one */
    int64_t chunk;            /* tau, samples of a chunk, a power of two: the convolution is chunked; 0 where it is not */
    int64_t d_model;          /* H */
    int64_t modes;            /* n = N/2 */
    int64_t rank, n_ssm;      /* R (0: diagonal), S */
    s4_mode mode;
    s4_discretisation discretisation;
    int64_t channels;         /* M, outputs per input channel */
    int64_t kernels;          /* M, or 2 M if bidirectional: kernel M + c is the backward one of output c */
    int bidirectional;
    int64_t dt_modes;         /* step sizes per channel: 1, or n (untied) */
    int rate_parity;          /* the stored C~ is used as it is */
    int threads;              /* CPU lanes */
    int states;               /* forward and backward with state in and out */
    s4_place tensors;         /* where the caller's u, y, their gradients and states live */
    int resident;             /* spectra of all channels are kept */
    int64_t block_channels, block_batch;
    int64_t stage_channels;   /* CPU: channels of a (batch, time, channel) tensor that are turned at a time; else 0 */
    int64_t tile_rows;        /* GPU: rows (b,h) of one batched FFT of the convolution; constant for a length. Chunked: the
                               * most that are in work */
    int64_t tile_channels;    /* GPU: channels of one batched FFT of the kernel; constant for a length */
    double rate;
    unsigned wanted;          /* training: bits of s4_wanted that a call may ask for: 0 for what is frozen */
    unsigned trained;         /* training: bits 1 << s4_parameter of what is not frozen */
} s4_shape;

#endif
