/*
 * The pointwise parts of the causal convolution y = irfft(rfft(u) K^)[:T] + D u and of its adjoint
 * du = irfft(conj(K^) rfft(dy))[:T] + D dy. The transforms between them are cuFFT's, in place on padded rows.
 */
#include "gpu/kernels/grid.h"
#include "gpu/kernels/launchers.h"

namespace
{

struct row_place {
    int64_t h, b; /* in the block */
};
static inline __device__ row_place place_of(const gpu_row_tile &t, int64_t lane)
{
    const int64_t row = t.first + lane;
    return {row / t.batch, row % t.batch};
}
static inline __device__ int64_t tensor_row(const gpu_row_tile &t, row_place place)
{
    return place.b * t.batch_stride + place.h * t.length;
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_pad(gpu_row_tile t, int64_t parts, int64_t stride, const T *__restrict__ tensor, T *__restrict__ rows)
{
    const int64_t lane = grid_row(parts), j = grid_element(parts);
    if (j >= t.fft_length) return;
    T value = 0;
    if (lane < t.count && j < t.length) value = tensor[tensor_row(t, place_of(t, lane)) + j];
    rows[lane * stride + j] = value;
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_multiply(gpu_row_tile t, int64_t parts, int64_t stride, const complex_of<T> *__restrict__ spectrum, T sign,
               T *__restrict__ rows)
{
    const int64_t lane = grid_row(parts), k = grid_element(parts), frequencies = t.fft_length / 2 + 1;
    if (k >= frequencies) return;
    complex_of<T> *row = reinterpret_cast<complex_of<T> *>(rows + lane * stride);
    const complex_of<T> x = row[k], s = spectrum[place_of(t, lane).h * frequencies + k];
    const T s_im = sign * s.y;
    row[k] = complex_value<T>(x.x * s.x - x.y * s_im, x.x * s_im + x.y * s.x);
}

/* `from` and `to` may be the same: a thread reads its element before it writes it. */
template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_crop(gpu_row_tile t, int64_t parts, int64_t stride, T scale, const T *__restrict__ rows,
           const double *__restrict__ d, const T *from, T *to)
{
    const int64_t lane = grid_row(parts), j = grid_element(parts);
    if (j >= t.length) return;
    const row_place place = place_of(t, lane);
    const int64_t at = tensor_row(t, place) + j;
    to[at] = rows[lane * stride + j] * scale + T(d[place.h]) * from[at];
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_spectrum_store(gpu_row_tile t, int64_t parts, int64_t stride, const T *__restrict__ rows,
                     complex_of<T> *__restrict__ spectrum)
{
    const int64_t lane = grid_row(parts), k = grid_element(parts), frequencies = t.fft_length / 2 + 1;
    if (k < frequencies)
        spectrum[lane * frequencies + k] = reinterpret_cast<const complex_of<T> *>(rows + lane * stride)[k];
}

template <typename T> cudaError_t launch_pad(const gpu_row_tile &t, const void *tensor, void *rows, cudaStream_t stream)
{
    const int64_t parts = grid_parts(t.fft_length);
    const cudaLaunchConfig_t config = grid_config(t.lanes, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_pad<T>, t, parts, s4_row_stride(t.fft_length), static_cast<const T *>(tensor),
                              static_cast<T *>(rows));
}
template <typename T>
cudaError_t launch_multiply(const gpu_row_tile &t, const void *spectrum, int conjugate, void *rows, cudaStream_t stream)
{
    const int64_t parts = grid_parts(t.fft_length / 2 + 1);
    const cudaLaunchConfig_t config = grid_config(t.count, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_multiply<T>, t, parts, s4_row_stride(t.fft_length),
                              static_cast<const complex_of<T> *>(spectrum), T(conjugate ? -1 : 1),
                              static_cast<T *>(rows));
}
template <typename T>
cudaError_t launch_crop(const gpu_row_tile &t, const void *rows, const double *d, const void *from, void *to,
                        cudaStream_t stream)
{
    const int64_t parts = grid_parts(t.length);
    const cudaLaunchConfig_t config = grid_config(t.count, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_crop<T>, t, parts, s4_row_stride(t.fft_length), T(1 / double(t.fft_length)),
                              static_cast<const T *>(rows), d, static_cast<const T *>(from), static_cast<T *>(to));
}
template <typename T>
cudaError_t launch_spectrum_store(const gpu_row_tile &t, const void *rows, void *spectrum, cudaStream_t stream)
{
    const int64_t parts = grid_parts(t.fft_length / 2 + 1);
    const cudaLaunchConfig_t config = grid_config(t.count, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_spectrum_store<T>, t, parts, s4_row_stride(t.fft_length),
                              static_cast<const T *>(rows), static_cast<complex_of<T> *>(spectrum));
}

} // namespace

extern "C" cudaError_t gpu_launch_pad(const gpu_row_tile *tile, const void *tensor, void *rows, cudaStream_t stream)
{
    return tile->dtype == S4_F64 ? launch_pad<double>(*tile, tensor, rows, stream)
                                 : launch_pad<float>(*tile, tensor, rows, stream);
}

extern "C" cudaError_t gpu_launch_multiply(const gpu_row_tile *tile, const void *spectrum, int conjugate, void *rows,
                                           cudaStream_t stream)
{
    return tile->dtype == S4_F64 ? launch_multiply<double>(*tile, spectrum, conjugate, rows, stream)
                                 : launch_multiply<float>(*tile, spectrum, conjugate, rows, stream);
}

extern "C" cudaError_t gpu_launch_crop(const gpu_row_tile *tile, const void *rows, const double *d, const void *from,
                                       void *to, cudaStream_t stream)
{
    return tile->dtype == S4_F64 ? launch_crop<double>(*tile, rows, d, from, to, stream)
                                 : launch_crop<float>(*tile, rows, d, from, to, stream);
}

extern "C" cudaError_t gpu_launch_spectrum_store(const gpu_row_tile *tile, const void *rows, void *spectrum,
                                                 cudaStream_t stream)
{
    return tile->dtype == S4_F64 ? launch_spectrum_store<double>(*tile, rows, spectrum, stream)
                                 : launch_spectrum_store<float>(*tile, rows, spectrum, stream);
}
