/*
 * How threads are laid over rows, complex types by precision, and sums over a block of threads.
 *
 * Grids are one-dimensional, since only gridDim.x goes beyond 65535: a block's index is cut into a row and a part of
 * that row. Sums have a fixed shape: a thread adds its own elements in rising order, then lanes are added by a
 * shuffle tree, then warps in rising order. No floating-point atomics anywhere.
 */
#ifndef GPU_KERNELS_GRID_H
#define GPU_KERNELS_GRID_H

#include <cuda_runtime.h>

#include <stdint.h>

/* GPU_UNROLL: loops over register arrays. GPU_ROLLED: loops whose bodies already fill the registers. */
#if defined(__CUDACC__)
#define GPU_UNROLL _Pragma("unroll")
#define GPU_ROLLED _Pragma("unroll 1")
#else
#define GPU_UNROLL
#define GPU_ROLLED
#endif

/* The one dynamic shared array of all kernels. */
extern __shared__ __align__(16) unsigned char s4_shared[];

constexpr int gpu_threads = 128;
constexpr int gpu_warps = gpu_threads / 32;

template <typename T> struct gpu_complex;
template <> struct gpu_complex<float> {
    using type = float2;
};
template <> struct gpu_complex<double> {
    using type = double2;
};
template <typename T> using complex_of = typename gpu_complex<T>::type;

template <typename T> static inline __device__ complex_of<T> complex_value(T re, T im)
{
    complex_of<T> z;
    z.x = re;
    z.y = im;
    return z;
}

/* The row that this thread's block works in, and this thread's element of it. A grid is counted in 32 bits. */
static inline __device__ int64_t grid_row(int64_t parts) { return blockIdx.x / unsigned(parts); }
static inline __device__ int64_t grid_part(int64_t parts) { return blockIdx.x % unsigned(parts); }
static inline __device__ int64_t grid_element(int64_t parts)
{
    return grid_part(parts) * gpu_threads + int64_t(threadIdx.x);
}

/* Blocks for one row of `elements`. */
static inline int64_t grid_parts(int64_t elements) { return (elements + gpu_threads - 1) / gpu_threads; }

/* The same with several elements a thread, gpu_threads apart, so that several loads are under way at a time. */
constexpr int grid_each = 4;
static inline __device__ int64_t grid_first_element(int64_t parts)
{
    return grid_part(parts) * (grid_each * gpu_threads) + int64_t(threadIdx.x);
}
static inline int64_t grid_wide_parts(int64_t elements) { return grid_parts((elements + grid_each - 1) / grid_each); }

/* rows * parts blocks. What does not fit a grid becomes an empty one, which the launch refuses. */
static inline cudaLaunchConfig_t grid_config(int64_t rows, int64_t parts, size_t shared, cudaStream_t stream)
{
    const bool fits = rows >= 1 && parts >= 1 && rows <= INT32_MAX / parts;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(fits ? unsigned(rows * parts) : 0);
    config.blockDim = dim3(gpu_threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    return config;
}

static inline __device__ double warp_sum(double x)
{
    for (unsigned distance = 16; distance > 0; distance /= 2) x += __shfl_down_sync(0xffffffffu, x, distance);
    return x; /* right in lane 0 */
}

/* Sum over the warp, the same in all lanes. */
static inline __device__ double warp_total(double x)
{
    for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
    return x;
}

/* Sum over the block, right in thread 0. `warps` is shared memory of gpu_warps doubles; all threads take part. */
static inline __device__ double block_sum(double x, double *warps)
{
    x = warp_sum(x);
    __syncthreads(); /* the previous sum has been read */
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
    __syncthreads();
    double sum = 0;
    if (threadIdx.x == 0)
        for (int warp = 0; warp < gpu_warps; warp++) sum += warps[warp];
    return sum;
}

#endif
