/* Planted defects: kernels whose threads or blocks do not wait for each other. */
#include "defect.h"

namespace defects
{

namespace
{

__global__ void k_reverse_without_barrier(float *y)
{
    __shared__ float s[N];
    s[threadIdx.x] = float(N - 1 - threadIdx.x);
    y[threadIdx.x] = s[N - 1 - threadIdx.x];
}

__global__ void k_tiles_with_one_barrier(float *y)
{
    __shared__ float s[N];
    float sum = 0;
    for (int tile = 0; tile < 3; tile++) {
        s[threadIdx.x] = float(N - 1 - threadIdx.x) + float(tile);
        __syncthreads();
        sum += s[N - 1 - threadIdx.x];
    }
    y[threadIdx.x] = sum - 2.0f * float(threadIdx.x) - 3.0f;
}

__global__ void k_warp_in_step(float *y)
{
    __shared__ float s[32];
    s[threadIdx.x] = float(threadIdx.x);
    for (int d = 16; d; d /= 2)
        if (int(threadIdx.x) < d) s[threadIdx.x] += s[threadIdx.x + d];
    y[threadIdx.x] = threadIdx.x ? float(threadIdx.x) : s[0] - 496.0f;
}

__global__ void k_two_sums(float *y)
{
    __shared__ float warps[N / 32];
    float total = 0;
    for (int round = 0; round < 2; round++) {
        float x = float(round);
        for (unsigned d = 16; d; d /= 2) x += __shfl_down_sync(0xffffffffu, x, d);
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
        __syncthreads();
        if (threadIdx.x == 0)
            for (int warp = 0; warp < N / 32; warp++) total += warps[warp];
    }
    y[threadIdx.x] = threadIdx.x ? float(threadIdx.x) : total - float(N);
}

__global__ void k_divergent(float *y)
{
    if (threadIdx.x < 100) __syncthreads();
    y[threadIdx.x] = float(threadIdx.x);
}

__global__ void k_two_barriers(float *y)
{
    if (threadIdx.x < 100)
        __syncthreads();
    else
        __syncthreads();
    y[threadIdx.x] = float(threadIdx.x);
}

__global__ void k_early_return(float *y, int n)
{
    if (int(threadIdx.x) >= n) return;
    y[threadIdx.x] = float(threadIdx.x);
    __syncthreads();
}

__global__ void k_half_a_warp(float *y, unsigned mask)
{
    float v = float(threadIdx.x);
    if (threadIdx.x % 32 < 16) v += 0.0f * __shfl_xor_sync(mask, v, 1);
    y[threadIdx.x] = v;
}

__global__ void k_from_outside(float *y)
{
    float v = float(threadIdx.x);
    if (threadIdx.x % 32 < 16) v = __shfl_sync(0x0000ffffu, v, int(threadIdx.x % 32) + 16) - 16.0f;
    y[threadIdx.x] = v;
}

__global__ void k_add_without_atomics(float *sum, float *y)
{
    *sum += 1.0f;
    y[blockIdx.x * blockDim.x + threadIdx.x] = float(blockIdx.x * blockDim.x + threadIdx.x);
}

__global__ void k_last_block_wins(float *y)
{
    y[threadIdx.x] = blockIdx.x == gridDim.x - 1 ? float(threadIdx.x) : -1.0f;
}

__global__ void k_chain(float *y)
{
    if (threadIdx.x == 0) y[blockIdx.x] = blockIdx.x ? y[blockIdx.x - 1] + 1.0f : 0.0f;
}

template <typename... P, typename... A>
int run(void (*kernel)(P...), unsigned blocks, unsigned threads, int n, A... more)
{
    const Buffer y(N);
    const cudaLaunchConfig_t c = configuration(dim3(blocks), dim3(threads));
    REQUIRE(cudaLaunchKernelEx(&c, kernel, y, more...));
    return compare_to_count(y, n);
}

} // namespace

int missing_barrier() { return run(k_reverse_without_barrier, 1, N, N); }
int missing_second_barrier() { return run(k_tiles_with_one_barrier, 1, N, N); }
int missing_syncwarp() { return run(k_warp_in_step, 1, 32, 32); }
int missing_barrier_between_sums() { return run(k_two_sums, 1, N, N); }
int divergent_barrier() { return run(k_divergent, 1, N, N); }
int two_barriers() { return run(k_two_barriers, 1, N, N); }
int early_return() { return run(k_early_return, 1, N, 100, 100); }
int mask_too_wide() { return run(k_half_a_warp, 1, N, N, 0xffffffffu); }
int mask_lacks_caller() { return run(k_half_a_warp, 1, N, N, 0x00007fffu); }
int shuffle_from_outside() { return run(k_from_outside, 1, N, N); }
int blocks_overwrite() { return run(k_last_block_wins, 4, N, N); }
int block_order() { return run(k_chain, 16, 32, 16); }

int lost_update()
{
    const Buffer sum(1), y(N);
    REQUIRE(cudaMemset(sum, 0, sizeof(float)));
    const cudaLaunchConfig_t c = configuration(dim3(2), dim3(N / 2));
    REQUIRE(cudaLaunchKernelEx(&c, k_add_without_atomics, sum, y));
    return compare_to_count(y, N);
}

} // namespace defects
