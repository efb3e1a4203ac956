/*
 * Sums of powers of n complex numbers without a table of n x L: with m, a power of two near the root of L, and
 * l = m j + i, the powers are p^l = p^(m j) p^i: products of a coarse and a fine power, of which there are few.
 */
#ifndef GPU_KERNELS_VANDERMONDE_H
#define GPU_KERNELS_VANDERMONDE_H

#include "gpu/kernels/diagonal_rules.h"
#include "gpu/kernels/system.h"

static inline __device__ int64_t channel_of_lane(const gpu_diagonal_tile &t, int64_t lane)
{
    return t.channel + t.first + lane;
}
/* Row of kernel k of a lane in (kernels, channels of the block, L). */
static inline __device__ int64_t row_in_block(const gpu_diagonal_tile &t, int64_t lane, int64_t k)
{
    return k * t.channels + t.first + lane;
}
static inline __device__ diagonal_mode mode_of(const gpu_diagonal_tile &t, int64_t h, int64_t n)
{
    return {double(t.length), system_dt(t.system, h, n), system_lambda(t.system, h, n)};
}
/* Columns i that the threads of a block take side by side; the others take other rows j. */
static inline __device__ int64_t columns_of_block(const gpu_diagonal_tile &t)
{
    return t.width < gpu_threads ? t.width : gpu_threads;
}

#endif
