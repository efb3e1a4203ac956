/* Planted defects: host code that does not wait, or waits where it must not. */
#include "defect.h"

namespace defects
{

namespace
{

/* A stream fills x; another copies it, after waiting for an event recorded before or
 * after the filling, or for nothing. */
enum class Wait { for_nothing, too_early };

int across_streams(Wait wait)
{
    const Buffer x(N), y(N);
    const Stream a, b;
    const Event e;
    const cudaLaunchConfig_t fill = configuration(dim3(1), dim3(N), 0, a), copy = configuration(dim3(1), dim3(N), 0, b);
    REQUIRE(cudaEventRecord(e, a));
    REQUIRE(cudaLaunchKernelEx(&fill, k_count, x, N));
    if (wait == Wait::too_early) REQUIRE(cudaStreamWaitEvent(b, e, 0));
    REQUIRE(cudaLaunchKernelEx(&copy, k_copy, x, y, N));
    REQUIRE(cudaStreamSynchronize(b));
    return compare_to_count(y, N);
}

} // namespace

int missing_stream_wait() { return across_streams(Wait::for_nothing); }
int event_too_early() { return across_streams(Wait::too_early); }

int read_before_synchronize()
{
    const Buffer x(N);
    const Pinned h(N);
    const Stream s;
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(N), 0, s);
    REQUIRE(cudaLaunchKernelEx(&c, k_count, x, N));
    REQUIRE(cudaMemcpyAsync(h, x, N * sizeof(float), cudaMemcpyDeviceToHost, s));
    const int result = wrong(h, N, [](int i) { return float(i); });
    REQUIRE(cudaStreamSynchronize(s));
    return result;
}

int source_reused()
{
    const Buffer x(N);
    const Pinned h(N);
    const Stream s;
    for (int i = 0; i < N; i++) h[i] = float(i);
    REQUIRE(cudaMemcpyAsync(x, h, N * sizeof(float), cudaMemcpyHostToDevice, s));
    for (int i = 0; i < N; i++) h[i] = 0.0f;
    REQUIRE(cudaStreamSynchronize(s));
    return compare_to_count(x, N);
}

int freed_too_early()
{
    const Stream s;
    float *x;
    REQUIRE(cudaMalloc(&x, N * sizeof(float)));
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(N), 0, s);
    REQUIRE(cudaLaunchKernelEx(&c, k_count, x, N));
    REQUIRE(cudaFree(x));
    REQUIRE(cudaStreamSynchronize(s));
    return 0;
}

int destroyed_stream()
{
    const Buffer x(N);
    cudaStream_t s;
    REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    REQUIRE(cudaStreamDestroy(s));
    REQUIRE(cudaMemsetAsync(x, 0, N * sizeof(float), s));
    return 0;
}

int synchronize_in_capture()
{
    const Buffer x(N);
    const Stream s;
    cudaGraph_t graph;
    REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    REQUIRE(cudaMemsetAsync(x, 0, N * sizeof(float), s));
    cudaStreamSynchronize(s);
    REQUIRE(cudaStreamEndCapture(s, &graph));
    REQUIRE(cudaGraphDestroy(graph));
    return 0;
}

int unjoined_capture()
{
    const Buffer x(N);
    const Stream s, side;
    const Event fork;
    cudaGraph_t graph;
    REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    REQUIRE(cudaEventRecord(fork, s));
    REQUIRE(cudaStreamWaitEvent(side, fork, 0));
    REQUIRE(cudaMemsetAsync(x, 0, N * sizeof(float), side));
    REQUIRE(cudaStreamEndCapture(s, &graph));
    REQUIRE(cudaGraphDestroy(graph));
    return 0;
}

int host_function_waits()
{
    const Stream s;
    REQUIRE(cudaLaunchHostFunc(s, [](void *) { cudaDeviceSynchronize(); }, nullptr));
    REQUIRE(cudaStreamSynchronize(s));
    return 0;
}

int kernel_dies()
{
    const Buffer x(N);
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(N));
    s4_emulation_fail_call("kernel", 1, cudaErrorIllegalAddress);
    REQUIRE(cudaLaunchKernelEx(&c, k_count, x, N));
    if (cudaDeviceSynchronize() != cudaErrorIllegalAddress || cudaGetLastError() != cudaErrorIllegalAddress) return 0;
    REQUIRE(cudaMemset(x, 0, N * sizeof(float))); /* must fail as well */
    return 0;
}

} // namespace defects
