/*
 * What plain C host code calls: one function per kernel of gpu/kernels. Each puts one launch on `stream` and returns
 * what the launch returned; all pointers but the structs' own addresses are device memory.
 *
 * A "tile" is a piece of a block of rows that one batched FFT transforms: `lanes` rows, of which the first `count`
 * carry data and the rest are written as zeros, so that every transform has the same size.
 */
#ifndef GPU_KERNELS_LAUNCHERS_H
#define GPU_KERNELS_LAUNCHERS_H

#include <cuda_runtime_api.h>

#include "s4/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- kernel stage ----------------------------------------------------------------------------------------------- */

/* Effective parameters of all channels. */
typedef struct gpu_system {
    s4_system view;
    int64_t d_model, modes, rank, n_ssm, dt_modes;
} gpu_system;

/* DPLR: lane l is row first + l of the block's (channel, kernel), kernels inside: the kernels of a channel are
 * neighbours. */
typedef struct gpu_kernel_tile {
    gpu_system system;
    int64_t channel, channels, kernels; /* of the block */
    int64_t first, count, lanes;
    int64_t length;                /* L */
    int64_t sums;                  /* s4_dtype of the sums; a kernel's argument has no padding */
    double *rows;                  /* (lanes, row stride of L) */
    unsigned long long *bad_index; /* smallest (channel, kernel, frequency) at which K^ is not finite, or NULL */
} gpu_kernel_tile;

/* rows = K^ for k = 0 .. L/2, complex */
cudaError_t gpu_launch_kernel_spectrum(const gpu_kernel_tile *tile, cudaStream_t stream);
/* kernel (kernels, channels of the block, L) of dtype: the tile's rows / L */
cudaError_t gpu_launch_kernel_store(const gpu_kernel_tile *tile, s4_dtype dtype, void *kernel, cudaStream_t stream);

/* rows = those of gradient (kernels, channels of the block, L), zeros behind */
cudaError_t gpu_launch_gradient_load(const gpu_kernel_tile *tile, const double *gradient, cudaStream_t stream);
/* adjoint (lanes, 1+2R, row stride of L), of the sums' type = factors of the gradients of the Cauchy sums, from rows =
 * rfft(gradient) */
cudaError_t gpu_launch_kernel_adjoint(const gpu_kernel_tile *tile, void *adjoint, cudaStream_t stream);
/* terms (lanes, modes, s4_gpu_mode_sums) = sums over the frequencies, per mode */
cudaError_t gpu_launch_mode_sums(const gpu_kernel_tile *tile, const void *adjoint, double *terms,
                                 cudaStream_t stream);
/* gradient of the effective parameters, all but d. What the kernels of a channel share is written by the first of them,
 * and the others add, in rising order, in this tile and in the next. */
cudaError_t gpu_launch_mode_gradients(const gpu_kernel_tile *tile, const double *terms,
                                      const s4_system_gradient *gradient, cudaStream_t stream);

/* Diagonal: lane l is channel `channel + first + l`, with all its kernels. l = width * j + i, rows of j. */
typedef struct gpu_diagonal_tile {
    gpu_system system;
    s4_discretisation discretisation;
    int64_t channel, channels, kernels; /* of the block */
    int64_t first, count;
    int64_t length, width, rows;   /* L, m, ceil(L / m) */
    double *fine;                  /* (lanes, modes, m) complex: p^i */
    double *coarse;                /* (lanes, modes, rows) complex: p^(m j) */
    double *weight;                /* (lanes, modes) complex: w */
    double *moments;               /* (lanes, kernels, modes, 2) complex: see vandermonde_gradient.cu */
    double *growing;               /* dss: (lanes, kernels, L): what the modes that grow give */
    unsigned long long *bad_index; /* smallest (channel, kernel, sample) that is not finite, or NULL */
} gpu_diagonal_tile;

/* fine, coarse and weight */
cudaError_t gpu_launch_powers(const gpu_diagonal_tile *tile, cudaStream_t stream);
/* growing */
cudaError_t gpu_launch_growing_product(const gpu_diagonal_tile *tile, cudaStream_t stream);
/* kernel (kernels, channels of the block, L) of dtype: the tile's channels */
cudaError_t gpu_launch_product(const gpu_diagonal_tile *tile, s4_dtype dtype, void *kernel, cudaStream_t stream);

/* moments of gradient (kernels, channels of the block, L) */
cudaError_t gpu_launch_moments(const gpu_diagonal_tile *tile, const double *gradient, cudaStream_t stream);
/* gradient of the effective parameters, all but d, of the tile's channels */
cudaError_t gpu_launch_diagonal_gradients(const gpu_diagonal_tile *tile, const s4_system_gradient *gradient,
                                          cudaStream_t stream);

/* ---- convolution ------------------------------------------------------------------------------------------------ */

/*
 * Rows (h,b) of a block are ordered by groups of `group` channels, inside by b, inside by h: neighbours are neighbours in
 * tensors whose channels are, and the batch of a channel comes in rising order. Lane 0 is batch row first_b of channel
 * first_h of group first_group. Rows of c > 0, where a channel has several outputs, lie `lanes` rows further each: row
 * c * lanes + l.
 */
typedef struct gpu_row_tile {
    int64_t dtype; /* s4_dtype; a kernel's argument has no padding */
    int64_t first_group, first_b, first_h;
    int64_t count, lanes;
    int64_t channels, batch, group; /* of the block */
    int64_t outputs;                /* M */
    int64_t length;                 /* T */
    int64_t fft_length;             /* nf; F = nf/2 + 1 */
    const int64_t *lengths;         /* (batch): samples that count, or NULL: all */
} gpu_row_tile;

/* rows (outputs, lanes, row stride of nf) = samples that count of a tensor, zeros behind. `partials`, unless NULL:
 * (outputs, lanes, s4_skip_parts) sums of rows_u, which is (lanes, row stride), times what is written. */
cudaError_t gpu_launch_pad(const gpu_row_tile *tile, const void *tensor, const s4_strides *strides, int64_t outputs,
                           const void *rows_u, void *rows, double *partials, cudaStream_t stream);
/* The same without sums, for tensors whose channels are closer than their samples. */
cudaError_t gpu_launch_pad_transposed(const gpu_row_tile *tile, const void *tensor, const s4_strides *strides,
                                      int64_t outputs, void *rows, cudaStream_t stream);
/* rows of output c = rows_u times spectrum (channels of the block, M, F), dt complex; rows may be rows_u if M = 1 */
cudaError_t gpu_launch_multiply(const gpu_row_tile *tile, const void *spectrum, const void *rows_u, void *rows,
                                cudaStream_t stream);
/* to_o = scale rows_o + sum over i of d[o + i] from_i, cut to T, 0 where samples do not count; d (M, d_model), from its
 * element of the block's first channel on. outputs_to or outputs_from is 1, or outputs_from 0; then `to` may be `from`. */
typedef struct gpu_crop {
    const void *from;
    void *to;
    s4_strides from_strides, to_strides;
    int64_t outputs_from, outputs_to;
    double scale;
    const double *d;
    int64_t d_model;
} gpu_crop;
cudaError_t gpu_launch_crop(const gpu_row_tile *tile, const void *rows, const gpu_crop *crop, cudaStream_t stream);
cudaError_t gpu_launch_crop_transposed(const gpu_row_tile *tile, const void *rows, const gpu_crop *crop,
                                       cudaStream_t stream);

/* partials as gpu_launch_pad makes them, to the same bits, from padded rows */
cudaError_t gpu_launch_skip_products(const gpu_row_tile *tile, const void *rows_u, const void *rows_dy,
                                     double *partials, cudaStream_t stream);
/* gradient_d (M, d_model), from its element of the block's first channel on, += partials, b ascending; from zero at b = 0
 * if `begin` */
cudaError_t gpu_launch_skip_sums(const gpu_row_tile *tile, const double *partials, int begin, int64_t d_model,
                                 double *gradient_d, cudaStream_t stream);
/* Unless `sums` is NULL: sums (channels of the block, M, F) double complex += conj(rows_u) * rows_dy, b ascending; from
 * zero at b = 0 if `begin`. Unless `spectrum` is NULL: rows_dy of output 0 = sum over c of conj(spectrum_c) * rows_dy. */
cudaError_t gpu_launch_spectra_backward(const gpu_row_tile *tile, const void *rows_u, const void *spectrum, int begin,
                                        void *rows_dy, double *sums, cudaStream_t stream);

/* Tiles of what has a row per channel i and output c, outputs inside: lane l is row first + l. */
typedef struct gpu_output_tile {
    s4_dtype dtype;
    int bidirectional;
    int64_t first, count, lanes;
    int64_t channels, outputs; /* of the block */
    int64_t kernel_length;     /* L */
    int64_t reach;             /* samples of a kernel that meet the input */
    int64_t fft_length;
} gpu_output_tile;

/* rows (lanes, row stride of nf) = kernels (kernels, channels of the block, L), padded: forward ones from the begin on,
 * backward ones from the end back */
cudaError_t gpu_launch_kernel_pad(const gpu_output_tile *tile, const void *kernel, void *rows, cudaStream_t stream);
/* spectrum (channels of the block, M, F) = rows */
cudaError_t gpu_launch_spectrum_store(const gpu_output_tile *tile, const void *rows, void *spectrum,
                                      cudaStream_t stream);
/* rows = sums (channels of the block, M, F), rounded to the tile's dtype */
cudaError_t gpu_launch_sums_load(const gpu_output_tile *tile, const double *sums, void *rows, cudaStream_t stream);
/* gradient (kernels, channels of the block, L) = rows / nf, in double, 0 beyond the reach */
cudaError_t gpu_launch_kernel_gradient(const gpu_output_tile *tile, const void *rows, double *gradient,
                                       cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
