/* Planted defects: host code that mixes up, outlives or forgets memory. */
#include "defect.h"

namespace defects
{

int host_reads_device()
{
    const Buffer x(N);
    REQUIRE(cudaMemset(x, 0, N * sizeof(float)));
    REQUIRE(cudaDeviceSynchronize());
    return wrong(x, N, [](int) { return 0.0f; });
}

int host_pointer_to_kernel()
{
    const Buffer y(N);
    const std::vector<float> x(N);
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(N));
    REQUIRE(cudaLaunchKernelEx(&c, k_copy, x.data(), y, N));
    return compare(y, N, [](int) { return 0.0f; });
}

int wrong_direction()
{
    const Buffer x(N);
    std::vector<float> h(N);
    REQUIRE(cudaMemset(x, 0, N * sizeof(float)));
    REQUIRE(cudaMemcpy(h.data(), x, N * sizeof(float), cudaMemcpyHostToDevice));
    return 0;
}

int copy_too_long()
{
    const Buffer x(N);
    std::vector<float> h(N + 1);
    REQUIRE(cudaMemset(x, 0, N * sizeof(float)));
    REQUIRE(cudaMemcpy(h.data(), x, (N + 1) * sizeof(float), cudaMemcpyDeviceToHost));
    return 0;
}

int use_after_free()
{
    float *x = nullptr;
    REQUIRE(cudaMalloc(&x, N * sizeof(float)));
    REQUIRE(cudaFree(x));
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(N));
    REQUIRE(cudaLaunchKernelEx(&c, k_count, x, N));
    REQUIRE(cudaDeviceSynchronize());
    return 0;
}

int graph_after_free()
{
    float *x = nullptr;
    const Stream s;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    REQUIRE(cudaMalloc(&x, N * sizeof(float)));
    REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(N), 0, s);
    REQUIRE(cudaLaunchKernelEx(&c, k_count, x, N));
    REQUIRE(cudaStreamEndCapture(s, &graph));
    REQUIRE(cudaGraphInstantiate(&executable, graph, 0));
    REQUIRE(cudaFree(x));
    REQUIRE(cudaGraphLaunch(executable, s));
    REQUIRE(cudaStreamSynchronize(s));
    REQUIRE(cudaGraphExecDestroy(executable));
    REQUIRE(cudaGraphDestroy(graph));
    return 0;
}

int double_free()
{
    float *x = nullptr;
    REQUIRE(cudaMalloc(&x, N * sizeof(float)));
    cudaFree(x);
    cudaFree(x);
    return 0;
}

int free_interior()
{
    float *x = nullptr;
    REQUIRE(cudaMalloc(&x, N * sizeof(float)));
    cudaFree(x + 4);
    return 0;
}

int leak()
{
    float *x = nullptr;
    REQUIRE(cudaMalloc(&x, N * sizeof(float)));
    return 0;
}

int pinned_overrun()
{
    const Pinned h(200);
    for (int i = 0; i <= 200; i++) h[i] = 0.0f;
    return 0;
}

int too_many_threads()
{
    const Buffer x(N);
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(2048));
    REQUIRE(cudaLaunchKernelEx(&c, k_count, x, N));
    return 0;
}

int too_much_shared()
{
    const Buffer x(N);
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(N), 64 * 1024);
    REQUIRE(cudaLaunchKernelEx(&c, k_count, x, N));
    return 0;
}

int out_of_memory()
{
    float *x = nullptr;
    s4_emulation_set_memory(1 << 20);
    REQUIRE(cudaMalloc(&x, (1 << 20) + 1));
    return 0;
}

} // namespace defects
