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
    double *rows;                  /* (lanes, row stride of L) */
    unsigned long long *bad_index; /* smallest (channel, kernel, frequency) at which K^ is not finite, or NULL */
} gpu_kernel_tile;

/* rows = K^ for k = 0 .. L/2, complex */
cudaError_t gpu_launch_kernel_spectrum(const gpu_kernel_tile *tile, cudaStream_t stream);
/* kernel (kernels, channels of the block, L) of dtype: the tile's rows / L */
cudaError_t gpu_launch_kernel_store(const gpu_kernel_tile *tile, s4_dtype dtype, void *kernel, cudaStream_t stream);

/* rows = those of gradient (kernels, channels of the block, L), zeros behind */
cudaError_t gpu_launch_gradient_load(const gpu_kernel_tile *tile, const double *gradient, cudaStream_t stream);
/* adjoint (lanes, 1+2R, row stride of L) = factors of the gradients of the Cauchy sums, from rows = rfft(gradient) */
cudaError_t gpu_launch_kernel_adjoint(const gpu_kernel_tile *tile, double *adjoint, cudaStream_t stream);
/* terms (lanes, modes, s4_gpu_mode_sums) = sums over the frequencies, per mode */
cudaError_t gpu_launch_mode_sums(const gpu_kernel_tile *tile, const double *adjoint, double *terms,
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

/* ---- convolution: lane l is row `first + l` of the block, whose rows (h,b) have h outside, b inside ------------ */

typedef struct gpu_row_tile {
    s4_dtype dtype;
    int64_t first, count, lanes;
    int64_t batch;        /* rows b in the block */
    int64_t batch_stride; /* of the block's tensors: element (b,h,t) at b * batch_stride + h * length + t */
    int64_t length;       /* T */
    int64_t fft_length;   /* nf; F = nf/2 + 1 */
} gpu_row_tile;

/* rows (lanes, row stride of nf) = tensor's rows, padded with zeros */
cudaError_t gpu_launch_pad(const gpu_row_tile *tile, const void *tensor, void *rows, cudaStream_t stream);
/* rows *= spectrum[h], or its conjugate; spectrum dt complex (channels of the block, F) */
cudaError_t gpu_launch_multiply(const gpu_row_tile *tile, const void *spectrum, int conjugate, void *rows,
                                cudaStream_t stream);
/* to = rows / nf + d[h] * from, cut to T; d (channels of the block); to may be from */
cudaError_t gpu_launch_crop(const gpu_row_tile *tile, const void *rows, const double *d, const void *from, void *to,
                            cudaStream_t stream);
/* spectrum (count, F) = rows, for a tile of one row per channel; spectrum is that of the tile's first lane */
cudaError_t gpu_launch_spectrum_store(const gpu_row_tile *tile, const void *rows, void *spectrum, cudaStream_t stream);

/* sums (channels of the block, F) double complex += conj(rows_u) * rows_dy, b ascending; from zero at b = 0 if
 * `begin` */
cudaError_t gpu_launch_accumulate(const gpu_row_tile *tile, const void *rows_u, const void *rows_dy, int begin,
                                  double *sums, cudaStream_t stream);
/* gradient_d (channels of the block) += sum over t of u * dy, b ascending; from zero at b = 0 if `begin` */
cudaError_t gpu_launch_skip_gradient(const gpu_row_tile *tile, const void *u, const void *dy, int begin,
                                     double *gradient_d, cudaStream_t stream);
/* rows = sums, rounded to the tile's dtype: one row per channel; sums are those of the tile's first lane */
cudaError_t gpu_launch_sums_load(const gpu_row_tile *tile, const double *sums, void *rows, cudaStream_t stream);
/* gradient (count, kernel_length) = rows / nf, in double; gradient is that of the tile's first lane */
cudaError_t gpu_launch_gradient_store(const gpu_row_tile *tile, const void *rows, int64_t kernel_length,
                                      double *gradient, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
