/*
 * What the convolution makes of kernels, and gives back to them: the padded rows of K^_c = rfft of the forward kernel
 * at 0, 1 ... and of the backward kernel at nf - 1, nf - 2 ...; and, from the sums over the batch of conj(U) DY_c, the
 * gradients of both, which lie in the inverse transform as the kernels do in the row.
 */
#include "gpu/kernels/grid.h"
#include "gpu/kernels/launchers.h"

namespace
{

/* First sample of the forward kernel of row `row`, and how far behind it the backward kernel's lies. */
static inline __device__ int64_t kernel_begin(const gpu_output_tile &t, int64_t row)
{
    const int64_t i = row / t.outputs, c = row - i * t.outputs;
    return (c * t.channels + i) * t.kernel_length;
}
static inline __device__ int64_t backward_offset(const gpu_output_tile &t)
{
    return t.outputs * t.channels * t.kernel_length;
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_kernel_pad(gpu_output_tile t, int64_t parts, int64_t stride, const T *__restrict__ kernel, T *__restrict__ rows)
{
    const int64_t lane = grid_row(parts), j = grid_element(parts), from_end = t.fft_length - 1 - j;
    if (from_end < 0) return;
    T value = 0;
    if (lane < t.count) {
        const int64_t begin = kernel_begin(t, t.first + lane);
        if (j < t.reach) value = kernel[begin + j];
        if (t.bidirectional && from_end < t.reach) value = kernel[begin + backward_offset(t) + from_end];
    }
    rows[lane * stride + j] = value;
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_spectrum_store(gpu_output_tile t, int64_t parts, int64_t stride, const T *__restrict__ rows,
                     complex_of<T> *__restrict__ spectrum)
{
    const int64_t lane = grid_row(parts), k = grid_element(parts), frequencies = t.fft_length / 2 + 1;
    if (k < frequencies)
        spectrum[(t.first + lane) * frequencies + k] = reinterpret_cast<const complex_of<T> *>(rows + lane * stride)[k];
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads) k_sums_load(gpu_output_tile t, int64_t parts, int64_t stride,
                                                           const double2 *__restrict__ sums, T *__restrict__ rows)
{
    const int64_t lane = grid_row(parts), k = grid_element(parts), frequencies = t.fft_length / 2 + 1;
    if (k >= frequencies) return;
    const double2 sum = lane < t.count ? sums[(t.first + lane) * frequencies + k] : make_double2(0, 0);
    reinterpret_cast<complex_of<T> *>(rows + lane * stride)[k] = complex_value<T>(T(sum.x), T(sum.y));
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_kernel_gradient(gpu_output_tile t, int64_t parts, int64_t stride, double scale, const T *__restrict__ rows,
                      double *__restrict__ gradient)
{
    const int64_t lane = grid_row(parts), j = grid_element(parts), begin = kernel_begin(t, t.first + lane);
    if (j >= t.kernel_length) return;
    const T *row = rows + lane * stride;
    gradient[begin + j] = j < t.reach ? double(row[j]) * scale : 0;
    if (t.bidirectional)
        gradient[begin + backward_offset(t) + j] = j < t.reach ? double(row[t.fft_length - 1 - j]) * scale : 0;
}

template <typename T>
cudaError_t launch_kernel_pad(const gpu_output_tile &t, const void *kernel, void *rows, cudaStream_t stream)
{
    const int64_t parts = grid_parts(t.fft_length);
    const cudaLaunchConfig_t config = grid_config(t.lanes, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_kernel_pad<T>, t, parts, s4_row_stride(t.fft_length),
                              static_cast<const T *>(kernel), static_cast<T *>(rows));
}
template <typename T>
cudaError_t launch_spectrum_store(const gpu_output_tile &t, const void *rows, void *spectrum, cudaStream_t stream)
{
    const int64_t parts = grid_parts(t.fft_length / 2 + 1);
    const cudaLaunchConfig_t config = grid_config(t.count, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_spectrum_store<T>, t, parts, s4_row_stride(t.fft_length),
                              static_cast<const T *>(rows), static_cast<complex_of<T> *>(spectrum));
}
template <typename T>
cudaError_t launch_sums_load(const gpu_output_tile &t, const double *sums, void *rows, cudaStream_t stream)
{
    const int64_t parts = grid_parts(t.fft_length / 2 + 1);
    const cudaLaunchConfig_t config = grid_config(t.lanes, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_sums_load<T>, t, parts, s4_row_stride(t.fft_length),
                              reinterpret_cast<const double2 *>(sums), static_cast<T *>(rows));
}
template <typename T>
cudaError_t launch_kernel_gradient(const gpu_output_tile &t, const void *rows, double *gradient, cudaStream_t stream)
{
    const int64_t parts = grid_parts(t.kernel_length);
    const cudaLaunchConfig_t config = grid_config(t.count, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_kernel_gradient<T>, t, parts, s4_row_stride(t.fft_length),
                              1 / double(t.fft_length), static_cast<const T *>(rows), gradient);
}

} // namespace

extern "C" cudaError_t gpu_launch_kernel_pad(const gpu_output_tile *tile, const void *kernel, void *rows,
                                             cudaStream_t stream)
{
    return tile->dtype == S4_F64 ? launch_kernel_pad<double>(*tile, kernel, rows, stream)
                                 : launch_kernel_pad<float>(*tile, kernel, rows, stream);
}

extern "C" cudaError_t gpu_launch_spectrum_store(const gpu_output_tile *tile, const void *rows, void *spectrum,
                                                 cudaStream_t stream)
{
    return tile->dtype == S4_F64 ? launch_spectrum_store<double>(*tile, rows, spectrum, stream)
                                 : launch_spectrum_store<float>(*tile, rows, spectrum, stream);
}

extern "C" cudaError_t gpu_launch_sums_load(const gpu_output_tile *tile, const double *sums, void *rows,
                                            cudaStream_t stream)
{
    return tile->dtype == S4_F64 ? launch_sums_load<double>(*tile, sums, rows, stream)
                                 : launch_sums_load<float>(*tile, sums, rows, stream);
}

extern "C" cudaError_t gpu_launch_kernel_gradient(const gpu_output_tile *tile, const void *rows, double *gradient,
                                                  cudaStream_t stream)
{
    return tile->dtype == S4_F64 ? launch_kernel_gradient<double>(*tile, rows, gradient, stream)
                                 : launch_kernel_gradient<float>(*tile, rows, gradient, stream);
}
