/*
 * The convolution in chunks (s4/buffer_sizes.h says in what form): what plain C host code calls, one function per kernel.
 * Each puts one launch on `stream` and returns what the launch returned; pointers inside the structs are device memory.
 *
 * A chunk of a row has tau samples, the state before it N^ numbers. Panels are (lanes; chunks, width): of samples, whose
 * lanes are padded rows, width is tau; of states it is N^. Matrices are those of CHUNK_SYSTEM (cpu/chunk.h), of the dtype.
 */
#ifndef GPU_KERNELS_LAUNCHERS_CHUNK_H
#define GPU_KERNELS_LAUNCHERS_CHUNK_H

#include "gpu/kernels/launchers.h"
#include "gpu/kernels/launchers_setup.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows cut into chunks. What depends on a row is made of its own chunks alone, those that have samples that count. */
typedef struct gpu_chunk_tile {
    gpu_row_tile rows;
    int64_t chunk, count; /* tau; chunks of a padded row */
    int64_t modes, state; /* n, N^ */
} gpu_chunk_tile;

/* ---- chunk_product.cu -------------------------------------------------------------------------------------------- */

/*
 * A part of the depth of a product, k = 0 .. depth - 1, in periods: of chunk j of a lane,
 *   a_k      at a + lane * a_lane + j * period + k / period * a_next + k % period
 * and of channel h of the block, row k of its matrix
 *   b_k,i    at b + h * b_channel + k / period * b_next + b_first + k % period * b_step + i.
 * Where it is a triangle, it is 0 for i < k % period (upper) or i > k % period (lower), and a_k need not meet it.
 */
typedef enum gpu_chunk_triangle { GPU_CHUNK_WHOLE, GPU_CHUNK_UPPER, GPU_CHUNK_LOWER } gpu_chunk_triangle;
typedef struct gpu_chunk_factor {
    const void *a, *b;
    int64_t a_lane, a_next;
    int64_t b_channel, b_next, b_first, b_step;
    int64_t period, depth, triangle;
} gpu_chunk_factor;

/* panel out (columns wide) = sum over factors and k of a_k b_k; `adds`: += */
typedef struct gpu_chunk_product {
    gpu_chunk_factor factor[2];
    int64_t factors, columns;
    void *out;
    int64_t out_lane;
    int64_t adds;
} gpu_chunk_product;
cudaError_t gpu_launch_chunk_product(const gpu_chunk_tile *tile, const gpu_chunk_product *product, cudaStream_t stream);

/* ---- chunk_scan.cu ----------------------------------------------------------------------------------------------- */

/* States as the caller has them, pairs, of row b and channel h of the block. */
typedef struct gpu_chunk_states {
    double *at; /* or NULL */
    int64_t batch, channel;
} gpu_chunk_states;

/*
 * From chunk to chunk of every row, x <- X x + v, where v, a row of the panel, becomes what x was. Forward: from `first`,
 * or 0; the state after the last whole chunk goes to `whole`. Back, with the transpose of X, from 0: `whole` is added
 * where the last whole chunk ends, and what comes out at the begin goes to `last`.
 */
typedef struct gpu_chunk_scan {
    int64_t is_dense, back;
    const void *power;     /* dense: X - I by columns, of the dtype; else poles^tau in double (cpu/chunk.h) */
    int64_t power_channel; /* elements of the dtype from one channel to the next */
    void *panel;           /* (lanes; chunks, N^) */
    double *carry;         /* (lanes, N^), scratch */
    gpu_chunk_states first, whole, last;
} gpu_chunk_scan;
cudaError_t gpu_launch_chunk_scan(const gpu_chunk_tile *tile, const gpu_chunk_scan *scan, cudaStream_t stream);
/* Copies states of every row: `to`, lane by lane, (lanes; n, 2). */
cudaError_t gpu_launch_chunk_gather_states(const gpu_chunk_tile *tile, const gpu_chunk_states *from, double *to,
                                           cudaStream_t stream);

/* ---- chunk_sums.cu ----------------------------------------------------------------------------------------------- */

/* sums (left wide, right wide) of every channel += sum over rows and chunks of left^T right, b ascending. `upper`: nothing is
 * added where no column is at or beyond its row. */
typedef struct gpu_chunk_sum {
    const void *left, *right; /* panels */
    int64_t left_lane, left_width, right_lane, right_width;
    int64_t upper;
    double *sums;         /* of the block's first channel */
    int64_t sums_channel; /* doubles from one channel to the next */
} gpu_chunk_sum;
cudaError_t gpu_launch_chunk_sums(const gpu_chunk_tile *tile, const gpu_chunk_sum *sum, cudaStream_t stream);
/* The same of left conj(right) of each mode alone, in panels of states: real parts, then imaginary. */
cudaError_t gpu_launch_chunk_mode_sums(const gpu_chunk_tile *tile, const gpu_chunk_sum *sum, cudaStream_t stream);

/* ---- chunk_matrices.cu, chunk_gradient.cu ------------------------------------------------------------------------- */

/* Channels first .. first + count - 1 of the block that begins with `channel`; channel first + l works in lane l of
 * CHUNK_SETUP. */
typedef struct gpu_chunk_channels {
    int64_t channel, first, count;
    int64_t state; /* N^ */
    double *lanes;
    int64_t lane_size;
} gpu_chunk_channels;

/* Parts of CHUNK_SYSTEM, of the dtype: those of the block's first channel. */
typedef struct gpu_chunk_system {
    void *power, *into, *out, *kernel;
    void *power_back, *into_back, *out_back, *kernel_back; /* training, else NULL */
    int64_t channel;                                       /* elements from one channel to the next */
} gpu_chunk_system;
cudaError_t gpu_launch_chunk_matrices(const gpu_model *model, const gpu_chunk_channels *channels,
                                      const gpu_chunk_system *system, cudaStream_t stream);

/* Parts of CHUNK_SUMS: those of the block's first channel. */
typedef struct gpu_chunk_gradients {
    double *kernel, *out, *into, *power, *ends;
    int64_t channel;      /* doubles from one channel to the next */
    int64_t wants_system; /* else only C */
} gpu_chunk_gradients;
/* Into `ends`, which are sums as in STATE_SUMS, what the others give. */
cudaError_t gpu_launch_chunk_gradient(const gpu_model *model, const gpu_chunk_channels *channels,
                                      const gpu_chunk_gradients *sums, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
