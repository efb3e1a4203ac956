/* Planted defects: kernels that touch memory which is not theirs or not written. */
#include "defect.h"

namespace defects
{

namespace
{

__global__ void k_write_at(float *x, int from, int n)
{
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) x[from + i] = float(i);
}

__global__ void k_read_next(const float *x, float *y, int n)
{
    const int i = int(threadIdx.x);
    if (i < n) y[i] = x[i + 1] - 1.0f;
}

__global__ void k_static_shared(float *y, int first_written, int last_written)
{
    __shared__ float s[N];
    const int i = int(threadIdx.x);
    if (i >= first_written) s[i + last_written - (N - 1)] = float(i);
    __syncthreads();
    y[i] = s[i];
}

__global__ void k_dynamic_shared(float *y, int first_written, int shift)
{
    float *s = reinterpret_cast<float *>(s4_shared);
    const int i = int(threadIdx.x);
    if (i >= first_written) s[i + shift] = float(i);
    __syncthreads();
    y[i] = s[i + shift];
}

__global__ void k_first_block_writes(float *y)
{
    __shared__ float s[N];
    if (blockIdx.x == 0) s[threadIdx.x] = float(threadIdx.x);
    __syncthreads();
    if (blockIdx.x == 1) y[threadIdx.x] = s[threadIdx.x];
}

__global__ void k_large_local(float *y, int n)
{
    volatile float a[100000];
    for (int i = 0; i < n; i++) a[i] = float(i);
    y[threadIdx.x] = a[threadIdx.x];
}

__global__ void k_misaligned(const float *x, float *y)
{
    const float4 &source = *reinterpret_cast<const float4 *>(x + 1 + 4 * threadIdx.x);
    const float4 v = source;
    y[4 * threadIdx.x] = v.x - 1;
    y[4 * threadIdx.x + 1] = v.y - 1;
    y[4 * threadIdx.x + 2] = v.z - 1;
    y[4 * threadIdx.x + 3] = v.w - 1;
}

int write_at(int floats, int from, int blocks, int threads)
{
    const Buffer x{std::size_t(floats)};
    const cudaLaunchConfig_t c = configuration(dim3(unsigned(blocks)), dim3(N));
    REQUIRE(cudaLaunchKernelEx(&c, k_write_at, x, from, threads));
    return from < 0 ? compare(x, floats - 1, [](int i) { return float(i + 1); }) : compare_to_count(x, floats);
}

int read_next(int floats)
{
    const Buffer x{std::size_t(floats)}, y(N);
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(N));
    REQUIRE(cudaLaunchKernelEx(&c, k_count, x, floats));
    REQUIRE(cudaLaunchKernelEx(&c, k_read_next, x, y, floats));
    return compare_to_count(y, floats);
}

} // namespace

int global_write_behind_end() { return write_at(N, 0, 2, N + 1); }
int global_write_in_slack() { return write_at(100, 0, 1, 101); }
int global_write_before_begin() { return write_at(N, -1, 1, N); }
int global_read_behind_end() { return read_next(N); }
int global_read_in_slack() { return read_next(100); }

int global_uninitialised()
{
    const Buffer x(N), y(N);
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(N));
    REQUIRE(cudaLaunchKernelEx(&c, k_count, x, N - 1));
    REQUIRE(cudaLaunchKernelEx(&c, k_copy, x, y, N));
    return compare_to_count(y, N);
}

int shared_static_overflow()
{
    const Buffer y(N);
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(N));
    REQUIRE(cudaLaunchKernelEx(&c, k_static_shared, y, N - 1, N)); /* one thread writes, at s[N] */
    return 0;                                                      /* leaves it to the sanitizer */
}

int shared_static_uninitialised()
{
    const Buffer y(N);
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(N));
    REQUIRE(cudaLaunchKernelEx(&c, k_static_shared, y, 1, N - 1));
    return compare_to_count(y, N);
}

int shared_dynamic_overflow()
{
    const Buffer y(N);
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(N), N * sizeof(float));
    REQUIRE(cudaLaunchKernelEx(&c, k_dynamic_shared, y, 0, 1));
    return compare_to_count(y, N);
}

int shared_dynamic_uninitialised()
{
    const Buffer y(N);
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(N), N * sizeof(float));
    REQUIRE(cudaLaunchKernelEx(&c, k_dynamic_shared, y, 1, 0));
    return compare_to_count(y, N);
}

int shared_from_earlier_block()
{
    const Buffer y(N);
    const cudaLaunchConfig_t c = configuration(dim3(2), dim3(N));
    REQUIRE(cudaLaunchKernelEx(&c, k_first_block_writes, y));
    return compare_to_count(y, N);
}

int local_array_too_large()
{
    const Buffer y(N);
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(N));
    REQUIRE(cudaLaunchKernelEx(&c, k_large_local, y, 100000));
    return compare_to_count(y, N);
}

int misaligned_vector()
{
    const Buffer x(N), y(N);
    const cudaLaunchConfig_t count = configuration(dim3(1), dim3(N)), c = configuration(dim3(1), dim3(N / 4 - 1));
    REQUIRE(cudaLaunchKernelEx(&count, k_count, x, N));
    REQUIRE(cudaLaunchKernelEx(&c, k_misaligned, x, y));
    return compare_to_count(y, N - 4);
}

} // namespace defects
