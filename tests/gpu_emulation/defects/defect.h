/* What the cases share. A case returns 0 if all looked right to it, 1 if the numbers
 * were wrong, 3 if a call returned an error: what a test of the library would see. */
#ifndef S4_GPU_DEFECTS_DEFECT_H
#define S4_GPU_DEFECTS_DEFECT_H

#include "gpu_emulation.h"
#include "table.h"
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

extern __shared__ __align__(16) unsigned char s4_shared[];

#define REQUIRE(call)                                                                                                  \
    do {                                                                                                               \
        const int error_ = int(call);                                                                                  \
        if (error_) {                                                                                                  \
            std::printf("error %d: %s\n", error_, #call);                                                              \
            return 3;                                                                                                  \
        }                                                                                                              \
    } while (0)

namespace defects
{

constexpr int N = 128; /* elements of most buffers, threads of most blocks */

inline cudaLaunchConfig_t configuration(dim3 blocks, dim3 threads, std::size_t shared = 0,
                                        cudaStream_t stream = nullptr)
{
    cudaLaunchConfig_t c = {};
    c.gridDim = blocks;
    c.blockDim = threads;
    c.dynamicSmemBytes = shared;
    c.stream = stream;
    return c;
}

/* Frees what a case allocated, so that only one of them leaks. */
class Buffer
{
    float *p = nullptr;

  public:
    explicit Buffer(std::size_t floats) { cudaMalloc(&p, floats * sizeof(float)); }
    ~Buffer() { cudaFree(p); }
    Buffer(const Buffer &) = delete;
    operator float *() const { return p; }
};
class Pinned
{
    float *p = nullptr;

  public:
    explicit Pinned(std::size_t floats) { cudaMallocHost(&p, floats * sizeof(float)); }
    ~Pinned() { cudaFreeHost(p); }
    Pinned(const Pinned &) = delete;
    operator float *() const { return p; }
};
class Stream
{
    cudaStream_t s = nullptr;

  public:
    Stream() { cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking); }
    ~Stream() { cudaStreamDestroy(s); }
    Stream(const Stream &) = delete;
    operator cudaStream_t() const { return s; }
};
class Event
{
    cudaEvent_t e = nullptr;

  public:
    Event() { cudaEventCreateWithFlags(&e, cudaEventDisableTiming); }
    ~Event() { cudaEventDestroy(e); }
    Event(const Event &) = delete;
    operator cudaEvent_t() const { return e; }
};

/* x[i] = i, of all blocks. */
__global__ inline void k_count(float *x, int n)
{
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) x[i] = float(i);
}
__global__ inline void k_copy(const float *x, float *y, int n)
{
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) y[i] = x[i];
}

template <typename Expected> int wrong(const float *x, int n, Expected expected)
{
    for (int i = 0; i < n; i++)
        if (!(x[i] == expected(i))) { /* so that NaN is wrong */
            std::printf("wrong number: [%d] is %g, not %g\n", i, double(x[i]), double(expected(i)));
            return 1;
        }
    return 0;
}

/* Waits for everything and compares device memory. */
template <typename Expected> int compare(const float *device, int n, Expected expected)
{
    std::vector<float> host(static_cast<std::size_t>(n));
    REQUIRE(cudaDeviceSynchronize());
    REQUIRE(cudaMemcpy(host.data(), device, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
    return wrong(host.data(), n, expected);
}
inline int compare_to_count(const float *device, int n)
{
    return compare(device, n, [](int i) { return float(i); });
}

} // namespace defects
#endif
