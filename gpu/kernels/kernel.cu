/*
 * The S4 kernel from C~:   K^ = e^{i theta} [sigma_00 - c sigma_01 (I + c sigma_11)^-1 sigma_10],  K = irfft(K^, L)
 * with sigma_01[r] = (B, Q_r), sigma_10[r] = (P_r, C~), sigma_11[r,s] = (P_r, Q_s).
 *
 * One thread per kernel and frequency: sums, Woodbury and phase in one go, nothing is stored per mode. A channel has a
 * kernel for every row of C~. Rows are double whatever the type T of the sums.
 */
#include "gpu/kernels/cauchy.h"

namespace
{

template <typename T, int R>
__global__ void __launch_bounds__(gpu_threads, 2) k_kernel_spectrum(gpu_kernel_tile t, int64_t parts, int64_t stride)
{
    const int64_t lane = grid_row(parts), k = grid_element(parts), frequencies = t.length / 2 + 1;
    double2 *row = reinterpret_cast<double2 *>(t.rows + lane * stride);
    if (lane >= t.count) { /* the whole block */
        if (k < frequencies) row[k] = make_double2(0, 0);
        return;
    }
    const rounded_angle<T> a = round_angle<T>(frequency_angle(k < frequencies ? k : 0, t.length));
    cauchy_sums<T, R> sums;
    const kernel_row of = row_of_lane(t, lane);
    sum_over_modes(t.system, of, a, sums);
    if (k >= frequencies) return;
    complex_in<T> x[R];
    GPU_UNROLL
    for (int r = 0; r < R; r++) x[r] = sums.sigma[1 + r][0];
    solve_woodbury<false>(sums, a.cosine, x);
    complex_in<T> correction = {0, 0};
    GPU_UNROLL
    for (int r = 0; r < R; r++) {
        const complex_in<T> term = sums.sigma[0][1 + r] * x[r];
        correction.re += term.re;
        correction.im += term.im;
    }
    const complex_in<T> phase = {a.cosine, a.sine};
    const complex_in<T> value = phase * (sums.sigma[0][0] - a.cosine * correction);
    row[k] = make_double2(value.re, value.im);
    if (!is_finite(value.re) || !is_finite(value.im))
        report_index(t.bad_index, (of.h * t.kernels + of.k) * frequencies + k);
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_kernel_store(gpu_kernel_tile t, int64_t parts, int64_t stride, double scale, T *__restrict__ kernel)
{
    const int64_t lane = grid_row(parts), j = grid_element(parts);
    if (j < t.length) kernel[row_in_block(t, lane) * t.length + j] = T(t.rows[lane * stride + j] * scale);
}

template <typename T, int R> cudaError_t launch_spectrum(const gpu_kernel_tile &t, cudaStream_t stream)
{
    const int64_t parts = grid_parts(t.length / 2 + 1);
    const cudaLaunchConfig_t config = grid_config(t.lanes, parts, staged_bytes<T, R>, stream);
    return cudaLaunchKernelEx(&config, k_kernel_spectrum<T, R>, t, parts, s4_row_stride(t.length));
}
template <typename T> cudaError_t launch_spectrum_of_rank(const gpu_kernel_tile &t, cudaStream_t stream)
{
    switch (t.system.rank) {
    case 1:
        return launch_spectrum<T, 1>(t, stream);
    case 2:
        return launch_spectrum<T, 2>(t, stream);
    case 3:
        return launch_spectrum<T, 3>(t, stream);
    case 4:
        return launch_spectrum<T, 4>(t, stream);
    default:
        return cudaErrorInvalidValue;
    }
}

template <typename T> cudaError_t launch_store(const gpu_kernel_tile &t, void *kernel, cudaStream_t stream)
{
    const int64_t parts = grid_parts(t.length);
    const cudaLaunchConfig_t config = grid_config(t.count, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_kernel_store<T>, t, parts, s4_row_stride(t.length), 1 / double(t.length),
                              static_cast<T *>(kernel));
}

} // namespace

extern "C" cudaError_t gpu_launch_kernel_spectrum(const gpu_kernel_tile *tile, cudaStream_t stream)
{
    return tile->sums == S4_F32 ? launch_spectrum_of_rank<float>(*tile, stream)
                                : launch_spectrum_of_rank<double>(*tile, stream);
}

extern "C" cudaError_t gpu_launch_kernel_store(const gpu_kernel_tile *tile, s4_dtype dtype, void *kernel,
                                               cudaStream_t stream)
{
    return dtype == S4_F64 ? launch_store<double>(*tile, kernel, stream) : launch_store<float>(*tile, kernel, stream);
}
