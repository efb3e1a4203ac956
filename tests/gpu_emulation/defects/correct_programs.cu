/* Correct programs that do what the defects beside them do wrong. No build may raise
 * an alarm on any schedule. */
#include "defect.h"
#include <cufft.h>

namespace defects
{

namespace
{

__global__ void __launch_bounds__(N) k_block_sum(const float *__restrict__ x, float *__restrict__ sums)
{
    __shared__ float part[N / 32];
    float v = x[blockIdx.x * N + threadIdx.x];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, unsigned(d));
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        v = threadIdx.x < N / 32 ? part[threadIdx.x] : 0.0f;
        for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
        if (threadIdx.x == 0) sums[blockIdx.x] = v;
    }
}

__global__ void k_warp_sum(const float *x, float *y)
{
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    for (int d = 16; d; d /= 2) {
        if (int(threadIdx.x) < d) s[threadIdx.x] += s[threadIdx.x + d];
        __syncwarp();
    }
    y[threadIdx.x] = s[0];
}

__global__ void k_last_block_sums(float *y, float *sum, unsigned *ticket)
{
    __shared__ bool last;
    y[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        float total = 0;
        for (unsigned i = 0; i < gridDim.x * blockDim.x; i++) total += y[i];
        *sum = total;
    }
}

__global__ void k_reverse_twice(float *y)
{
    __shared__ float fixed[64];
    float *dynamic = reinterpret_cast<float *>(s4_shared);
    const unsigned i = threadIdx.x, last = blockDim.x - 1;
    for (int round = 0; round < 2; round++) {
        fixed[i] = float(blockIdx.x * blockDim.x + i);
        __syncthreads();
        dynamic[last - i] = fixed[i];
        __syncthreads();
        y[blockIdx.x * blockDim.x + last - i] = dynamic[i];
    }
}

__global__ void k_add(float *x, float value) { x[threadIdx.x] += value; }

__global__ void k_mathematics(float *wrong)
{
    int bad = 0;
    double s, c;
    for (int quarter = -8; quarter <= 8; quarter++) {
        sincospi(0.5 * quarter, &s, &c);
        const double exact[] = {0, 1, 0, -1};
        bad += s != exact[quarter & 3] || c != exact[(quarter + 1) & 3];
    }
    sincospi(1.0 / 3, &s, &c);
    bad += !(fabs(s - sqrt(0.75)) < 1e-15 && fabs(c - 0.5) < 1e-15);
    float sf, cf;
    sincospif(0.25f, &sf, &cf);
    bad += !(fabsf(sf - cf) < 1e-7f) || sinpif(1.0f) != 0.0f || cospif(1.0f) != -1.0f;
    bad += rsqrt(4.0) != 0.5 || rsqrtf(4.0f) != 0.5f || fma(2.0, 3.0, 1.0) != 7.0 || fmaf(2.0f, 3.0f, 1.0f) != 7.0f;
    bad += min(3, 5u) != 3u || max(2.0f, 3.0) != 3.0 || min(1ll << 40, 5) != 5;
    const double2 z = make_double2(1.0, 2.0);
    const float2 w = make_float2(1.0f, 2.0f);
    bad += z.y != 2.0 || w.y != 2.0f || __popc(255u) != 8 || __clz(1) != 31 || __brev(1u) != 0x80000000u;
    bad += __longlong_as_double(__double_as_longlong(1.5)) != 1.5 || __int_as_float(__float_as_int(1.5f)) != 1.5f;
    bad += __ballot_sync(0xffffffffu, threadIdx.x % 2) != 0xaaaaaaaau || !__all_sync(0xffffffffu, 1);
    bad += __shfl_sync(0xffffffffu, 1.5 * threadIdx.x, 3) != 4.5;
    bad += __shfl_up_sync(0xffffffffu, int(threadIdx.x), 1) != max(int(threadIdx.x) - 1, 0);
    bad += __syncthreads_count(threadIdx.x < 7) != 7 || __syncthreads_or(threadIdx.x == 40) != 0;
    wrong[threadIdx.x] = float(bad);
}

} // namespace

int correct_block_reduction()
{
    constexpr int blocks = 5;
    const Buffer x(blocks * N), sums(blocks);
    const cudaLaunchConfig_t c = configuration(dim3(blocks), dim3(N));
    REQUIRE(cudaLaunchKernelEx(&c, k_count, x, blocks * N));
    REQUIRE(cudaLaunchKernelEx(&c, k_block_sum, x, sums));
    return compare(sums, blocks, [](int b) { return float(N * (N * b) + N * (N - 1) / 2); });
}

int correct_warp_in_shared()
{
    const Buffer x(32), y(32);
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(32));
    REQUIRE(cudaLaunchKernelEx(&c, k_count, x, 32));
    REQUIRE(cudaLaunchKernelEx(&c, k_warp_sum, x, y));
    return compare(y, 32, [](int) { return 496.0f; });
}

int correct_last_block()
{
    const Buffer y(N), sum(1), ticket(1);
    REQUIRE(cudaMemset(ticket, 0, sizeof(unsigned)));
    const cudaLaunchConfig_t c = configuration(dim3(4), dim3(N / 4));
    REQUIRE(
        cudaLaunchKernelEx(&c, k_last_block_sums, y, sum, reinterpret_cast<unsigned *>(static_cast<float *>(ticket))));
    return compare(sum, 1, [](int) { return float(N); });
}

int correct_reused_shared()
{
    constexpr int blocks = 20;
    const Buffer y(blocks * 64);
    const cudaLaunchConfig_t c = configuration(dim3(blocks), dim3(64), 64 * sizeof(float));
    REQUIRE(cudaLaunchKernelEx(&c, k_reverse_twice, y));
    return compare(y, blocks * 64, [](int i) { return float(i); });
}

int correct_stream_order()
{
    const Buffer x(N), y(N);
    const Stream a, b;
    const Event filled;
    const cudaLaunchConfig_t fill = configuration(dim3(1), dim3(N), 0, a), copy = configuration(dim3(1), dim3(N), 0, b);
    REQUIRE(cudaLaunchKernelEx(&fill, k_count, x, N));
    REQUIRE(cudaEventRecord(filled, a));
    REQUIRE(cudaStreamWaitEvent(b, filled, 0));
    REQUIRE(cudaLaunchKernelEx(&copy, k_copy, x, y, N));
    REQUIRE(cudaStreamSynchronize(b));
    return compare_to_count(y, N);
}

int correct_pinned_pipeline()
{
    const Buffer x(N);
    const Pinned h(N);
    const Stream s;
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(N), 0, s);
    for (int i = 0; i < N; i++) h[i] = float(i) - 3.0f;
    for (int round = 0; round < 3; round++) {
        REQUIRE(cudaMemcpyAsync(x, h, N * sizeof(float), cudaMemcpyHostToDevice, s));
        REQUIRE(cudaLaunchKernelEx(&c, k_add, x, 1.0f));
        REQUIRE(cudaMemcpyAsync(h, x, N * sizeof(float), cudaMemcpyDeviceToHost, s));
    }
    REQUIRE(cudaStreamSynchronize(s));
    if (wrong(h, N, [](int i) { return float(i); })) return 1;
    std::vector<float> pageable(N); /* such a copy is complete when the call returns */
    REQUIRE(cudaMemcpyAsync(pageable.data(), x, N * sizeof(float), cudaMemcpyDeviceToHost, s));
    return wrong(pageable.data(), N, [](int i) { return float(i); });
}

int correct_graph()
{
    const Buffer x(N), y(N);
    const Stream s, side;
    const Event fork, join;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    REQUIRE(cudaMemset(x, 0, N * sizeof(float)));
    REQUIRE(cudaDeviceSynchronize());
    REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    const cudaLaunchConfig_t main_stream = configuration(dim3(1), dim3(N), 0, s);
    const cudaLaunchConfig_t side_stream = configuration(dim3(1), dim3(N), 0, side);
    REQUIRE(cudaLaunchKernelEx(&main_stream, k_add, x, 1.0f));
    REQUIRE(cudaEventRecord(fork, s));
    REQUIRE(cudaStreamWaitEvent(side, fork, 0));
    REQUIRE(cudaLaunchKernelEx(&side_stream, k_copy, x, y, N));
    REQUIRE(cudaEventRecord(join, side));
    REQUIRE(cudaStreamWaitEvent(s, join, 0));
    REQUIRE(cudaStreamEndCapture(s, &graph));
    REQUIRE(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 3; i++) REQUIRE(cudaGraphLaunch(executable, s));
    REQUIRE(cudaStreamSynchronize(s));
    REQUIRE(cudaGraphExecDestroy(executable));
    REQUIRE(cudaGraphDestroy(graph));
    return compare(y, N, [](int) { return 3.0f; });
}

int correct_mathematics()
{
    const Buffer y(32);
    const cudaLaunchConfig_t c = configuration(dim3(1), dim3(32));
    REQUIRE(cudaLaunchKernelEx(&c, k_mathematics, y));
    return compare(y, 32, [](int) { return 0.0f; });
}

/* What a library has to survive: the nth call fails, for every n. */
static int all_or_nothing()
{
    void *device = nullptr, *pinned = nullptr;
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    cufftHandle plan = 0;
    std::size_t work;
    const bool planned = cufftCreate(&plan) == CUFFT_SUCCESS;
    const bool ok = planned && cufftMakePlan1d(plan, 64, CUFFT_C2C, 2, &work) == CUFFT_SUCCESS &&
                    cudaMalloc(&device, 1024) == cudaSuccess && cudaMallocHost(&pinned, 1024) == cudaSuccess &&
                    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess &&
                    cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess;
    if (event) cudaEventDestroy(event);
    if (stream) cudaStreamDestroy(stream);
    cudaFreeHost(pinned);
    cudaFree(device);
    if (planned) cufftDestroy(plan);
    return ok ? 0 : 1;
}

int correct_failures()
{
    int failed = 0;
    for (int nth = 1; nth < 20; nth++) {
        s4_emulation_fail_call(nullptr, nth, 0);
        failed += all_or_nothing();
        s4_emulation_fail_call(nullptr, 0, 0);
        if (s4_emulation_live_objects()) return 1;
    }
    s4_emulation_counts counts;
    s4_emulation_get_counts(&counts);
    if (failed != 6 || counts.device_bytes) return 1;
    s4_emulation_set_devices(0);
    int count = -1, plan = 0;
    if (cudaGetDeviceCount(&count) != cudaErrorNoDevice || count != -1 || cufftCreate(&plan) != CUFFT_INTERNAL_ERROR)
        return 1;
    s4_emulation_reset();
    return cudaGetDeviceCount(&count) == cudaSuccess && count == 1 ? 0 : 1;
}

} // namespace defects
