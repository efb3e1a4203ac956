/*
 * States of a convolution: y_c[t] += 2 Re C_c dA^(t+1) x_0, the response to the state that enters; and the state that
 * leaves, the one after the last sample that counts.
 *
 * One warp per row takes all samples one after another, along x_0 alone and then along x_0 and u. Of a row in chunks those
 * after the last whole one are left: x_0 is the state before them.
 */
#include "gpu/kernels/recurrence.h"

namespace
{

template <typename T> __global__ void __launch_bounds__(gpu_threads) k_respond(gpu_recurrence r)
{
    const recurrence_row row = row_of_warp(r);
    if (!row.exists) return;
    const s4_shape &shape = r.shape;
    const int64_t state = 2 * shape.modes, length = length_of_row(r, row);
    const linear_rows linear = linear_of_row(r, row);
    const double *read_outs = system_of_row(r, row) + (2 + 2 * shape.rank) * state;
    double *x = state_of_warp(r, row);
    T *y = row_of_tensor<T>(r, row, r.y, r.y_strides);
    load_state(r, row, r.state_in, x);
    for (int64_t t = 0; t < length; t++) {
        advance(shape, linear, 0, x, x);
        for (int64_t c = 0; c < shape.channels; c++) {
            const double response = inner_product(shape.modes, read_outs + c * state, x);
            T *of_sample = y + c * r.y_strides.output + t * r.y_strides.time;
            if (lane_of_thread() == 0) *of_sample = T(double(*of_sample) + response);
        }
    }
}

template <typename T> __global__ void __launch_bounds__(gpu_threads) k_absorb(gpu_recurrence r)
{
    const recurrence_row row = row_of_warp(r);
    if (!row.exists) return;
    const linear_rows linear = linear_of_row(r, row);
    const T *u = row_of_tensor<T>(r, row, r.u, r.u_strides);
    double *x = state_of_warp(r, row);
    load_state(r, row, r.state_in, x);
    for (int64_t t = first_of_row(r, row); t < length_of_row(r, row); t++)
        advance(r.shape, linear, double(u[t * r.u_strides.time]), x, x);
    store_state(r, row, x, r.state_out);
}

} // namespace

extern "C" cudaError_t gpu_launch_respond(const gpu_recurrence *recurrence, cudaStream_t stream)
{
    const cudaLaunchConfig_t config = warps_config(*recurrence, stream);
    return recurrence->shape.dtype == S4_F64 ? cudaLaunchKernelEx(&config, k_respond<double>, *recurrence)
                                             : cudaLaunchKernelEx(&config, k_respond<float>, *recurrence);
}

extern "C" cudaError_t gpu_launch_absorb(const gpu_recurrence *recurrence, cudaStream_t stream)
{
    const cudaLaunchConfig_t config = warps_config(*recurrence, stream);
    return recurrence->shape.dtype == S4_F64 ? cudaLaunchKernelEx(&config, k_absorb<double>, *recurrence)
                                             : cudaLaunchKernelEx(&config, k_absorb<float>, *recurrence);
}
