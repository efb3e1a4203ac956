/*
 * The system of the recurrence, but for its read-outs: dA in factors, or as a matrix, and dB. One block per channel.
 */
#include "gpu/kernels/set_up_lane.h"

namespace
{

__global__ void __launch_bounds__(gpu_threads, 2) k_step_linear_system(gpu_model m, gpu_setup_tile t, double *base)
{
    const int64_t h = t.first + blockIdx.x;
    discretise(m, h, 1, base + h * t.step_system_size, reinterpret_cast<double *>(s4_shared));
}

__global__ void __launch_bounds__(gpu_threads, 2) k_step_dense_system(gpu_model m, gpu_setup_tile t, double *base)
{
    const int64_t state = 2 * m.shape.modes, h = t.first + blockIdx.x;
    const setup_lane lane = setup_lane_view(m.shape, t, blockIdx.x);
    const linear_rows linear = discretise(m, h, 1, lane.linear, reinterpret_cast<double *>(s4_shared));
    double *dA = base + h * t.step_system_size, *dB = dA + state * state;
    dense_linear(m.shape, linear, dA, 1);
    for (int64_t i = threadIdx.x; i < state; i += gpu_threads) dB[i] = linear.b[i];
}

constexpr size_t shared_bytes = discretise_shared * sizeof(double);

} // namespace

extern "C" cudaError_t gpu_launch_step_linear_system(const gpu_model *model, const gpu_setup_tile *tile, double *base,
                                                     cudaStream_t stream)
{
    const cudaLaunchConfig_t config = grid_config(tile->count, 1, shared_bytes, stream);
    return cudaLaunchKernelEx(&config, k_step_linear_system, *model, *tile, base);
}

extern "C" cudaError_t gpu_launch_step_dense_system(const gpu_model *model, const gpu_setup_tile *tile, double *base,
                                                    cudaStream_t stream)
{
    const cudaLaunchConfig_t config = grid_config(tile->count, 1, shared_bytes, stream);
    return cudaLaunchKernelEx(&config, k_step_dense_system, *model, *tile, base);
}
