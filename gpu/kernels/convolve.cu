/*
 * The pointwise parts of the convolution y_c = irfft(rfft(u) K^_c)[:T] + D_c u, and what its adjoint
 * du = irfft(sum over c of conj(K^_c) rfft(dy_c))[:T] + sum over c of D_c dy_c shares with it: rows in, rows out. The
 * transforms between them are cuFFT's, in place on padded rows.
 *
 * What comes from a tensor of the caller, or goes there, exists twice. Where samples are neighbours, threads are laid
 * along them. Where channels are, a block of threads takes a square of lanes and samples, along lanes on the tensor's
 * side and along samples on the other, and turns it in shared memory.
 */
#include "gpu/kernels/rows.h"

namespace
{

constexpr int square = 32, square_pitch = square + 1;
constexpr int square_step = gpu_threads / square, square_each = square / square_step; /* a thread's elements */

/* Adds what this block's part of a row contributes to sum over t of u dy. */
template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_pad(gpu_row_tile t, int64_t parts, int64_t stride, s4_strides at, const T *__restrict__ tensor,
          const T *__restrict__ rows_u, T *__restrict__ rows, double *__restrict__ partials, int64_t skip_parts)
{
    const int64_t row = grid_row(parts), part = grid_part(parts), c = row / t.lanes, lane = row - c * t.lanes;
    const int64_t first = grid_first_element(parts);
    const T *from = tensor;
    int64_t count = 0;
    if (lane < t.count) {
        const row_place place = place_of(t, lane);
        from = tensor + (place.b * at.batch + place.h * at.channel + c * at.output);
        count = samples_that_count(t, place.b);
    }
    T value[grid_each];
    GPU_UNROLL
    for (int e = 0; e < grid_each; e++) {
        const int64_t j = first + e * gpu_threads;
        value[e] = j < count ? from[j * at.time] : T(0);
    }
    GPU_UNROLL
    for (int e = 0; e < grid_each; e++) {
        const int64_t j = first + e * gpu_threads;
        if (j < t.fft_length) rows[row * stride + j] = value[e];
    }
    if (!partials || part >= skip_parts) return; /* the whole block */
    double sum = 0;
    GPU_UNROLL
    for (int e = 0; e < grid_each; e++) {
        const int64_t j = first + e * gpu_threads;
        if (j < t.length) sum += double(rows_u[lane * stride + j]) * double(value[e]);
    }
    sum = block_sum(sum, reinterpret_cast<double *>(s4_shared));
    if (threadIdx.x == 0) partials[row * skip_parts + part] = sum;
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_pad_transposed(gpu_row_tile t, int64_t parts, int64_t stride, s4_strides at, int64_t squares,
                     const T *__restrict__ tensor, T *__restrict__ rows)
{
    T *turned = reinterpret_cast<T *>(s4_shared);
    const int x = int(threadIdx.x) % square, y = int(threadIdx.x) / square;
    const int64_t row = grid_row(parts), c = row / squares, lane = (row - c * squares) * square;
    const int64_t first = grid_part(parts) * square;
    const T *from = tensor;
    int64_t count = 0;
    if (lane + x < t.count) {
        const row_place place = place_of(t, lane + x);
        from = tensor + (place.b * at.batch + place.h * at.channel + c * at.output);
        count = samples_that_count(t, place.b);
    }
    GPU_UNROLL
    for (int e = 0; e < square_each; e++) {
        const int i = y + e * square_step;
        turned[x * square_pitch + i] = first + i < count ? from[(first + i) * at.time] : T(0);
    }
    __syncthreads();
    if (first + x >= t.fft_length) return;
    GPU_UNROLL
    for (int e = 0; e < square_each; e++) {
        const int i = y + e * square_step;
        if (lane + i < t.lanes) rows[(c * t.lanes + lane + i) * stride + first + x] = turned[i * square_pitch + x];
    }
}

/* With one output the product may take the place of U. */
template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_multiply(gpu_row_tile t, int64_t parts, int64_t stride, const complex_of<T> *__restrict__ spectrum,
               const T *rows_u, T *rows)
{
    const int64_t lane = grid_row(parts), first = grid_first_element(parts), frequencies = t.fft_length / 2 + 1;
    const bool used = lane < t.count;
    const complex_of<T> *of_channel = used ? spectrum + place_of(t, lane).h * t.outputs * frequencies : spectrum;
    complex_of<T> u[grid_each];
    GPU_UNROLL
    for (int e = 0; e < grid_each; e++) {
        const int64_t k = first + e * gpu_threads;
        u[e] = k < frequencies ? reinterpret_cast<const complex_of<T> *>(rows_u + lane * stride)[k]
                               : complex_value<T>(0, 0);
    }
    for (int64_t c = 0; c < t.outputs; c++) {
        complex_of<T> *to = reinterpret_cast<complex_of<T> *>(rows + (c * t.lanes + lane) * stride);
        GPU_UNROLL
        for (int e = 0; e < grid_each; e++) {
            const int64_t k = first + e * gpu_threads;
            if (k >= frequencies) continue;
            const complex_of<T> s = used ? of_channel[c * frequencies + k] : complex_value<T>(0, 0);
            to[k] = complex_value<T>(u[e].x * s.x - u[e].y * s.y, u[e].x * s.y + u[e].y * s.x);
        }
    }
}

/* Elements of output o at one place of the tensors. */
template <typename T> struct crop_place {
    const T *from;
    T *to;
    const double *d;
    int64_t count;
};
template <typename T>
static inline __device__ crop_place<T> crop_place_of(const gpu_row_tile &t, const gpu_crop &crop, int64_t o,
                                                     int64_t lane)
{
    const row_place place = place_of(t, lane);
    const s4_strides &from = crop.from_strides, &to = crop.to_strides;
    crop_place<T> at = {nullptr, static_cast<T *>(crop.to), nullptr, samples_that_count(t, place.b)};
    at.to += place.b * to.batch + place.h * to.channel + o * to.output;
    if (!crop.outputs_from) return at;
    at.from = static_cast<const T *>(crop.from) + (place.b * from.batch + place.h * from.channel);
    at.d = crop.d + (o * crop.d_model + place.h);
    return at;
}

template <typename T>
static inline __device__ T add_skip(const gpu_crop &crop, const crop_place<T> &at, int64_t j, T value)
{
    if (j >= at.count) return 0;
    for (int64_t i = 0; i < crop.outputs_from; i++)
        value += T(at.d[i * crop.d_model]) * at.from[i * crop.from_strides.output + j * crop.from_strides.time];
    return value;
}

/* `from` and `to` may be the same: a thread reads some of its elements before it writes them. */
template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_crop(gpu_row_tile t, int64_t parts, int64_t stride, T scale, const T *__restrict__ rows, gpu_crop crop)
{
    const int64_t row = grid_row(parts), o = row / t.count, lane = row - o * t.count;
    const int64_t first = grid_first_element(parts);
    const crop_place<T> at = crop_place_of<T>(t, crop, o, lane);
    T value[grid_each];
    GPU_UNROLL
    for (int e = 0; e < grid_each; e++) {
        const int64_t j = first + e * gpu_threads;
        value[e] = 0;
        if (j < t.length) value[e] = add_skip(crop, at, j, rows[(o * t.lanes + lane) * stride + j] * scale);
    }
    GPU_UNROLL
    for (int e = 0; e < grid_each; e++) {
        const int64_t j = first + e * gpu_threads;
        if (j < t.length) at.to[j * crop.to_strides.time] = value[e];
    }
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_crop_transposed(gpu_row_tile t, int64_t parts, int64_t stride, int64_t squares, T scale,
                      const T *__restrict__ rows, gpu_crop crop)
{
    T *turned = reinterpret_cast<T *>(s4_shared);
    const int x = int(threadIdx.x) % square, y = int(threadIdx.x) / square;
    const int64_t row = grid_row(parts), o = row / squares, lane = (row - o * squares) * square;
    const int64_t first = grid_part(parts) * square;
    GPU_UNROLL
    for (int e = 0; e < square_each; e++) {
        const int i = y + e * square_step;
        if (lane + i < t.count && first + x < t.length)
            turned[i * square_pitch + x] = rows[(o * t.lanes + lane + i) * stride + first + x] * scale;
    }
    __syncthreads();
    if (lane + x >= t.count) return;
    const crop_place<T> at = crop_place_of<T>(t, crop, o, lane + x);
    GPU_ROLLED
    for (int i = y; i < square; i += grid_each * square_step) {
        T value[grid_each];
        GPU_UNROLL
        for (int e = 0; e < grid_each; e++) {
            const int64_t j = first + i + e * square_step;
            value[e] = 0;
            if (j < t.length) value[e] = add_skip(crop, at, j, turned[x * square_pitch + i + e * square_step]);
        }
        GPU_UNROLL
        for (int e = 0; e < grid_each; e++) {
            const int64_t j = first + i + e * square_step;
            if (j < t.length) at.to[j * crop.to_strides.time] = value[e];
        }
    }
}

int64_t squares_of(int64_t lanes) { return (lanes + square - 1) / square; }

template <typename T>
cudaError_t launch_pad(const gpu_row_tile &t, const void *tensor, const s4_strides &strides, int64_t outputs,
                       const void *rows_u, void *rows, double *partials, cudaStream_t stream)
{
    static_assert(S4_SKIP_PART == grid_each * gpu_threads, "partial sums are those of a block of k_pad");
    const int64_t parts = grid_wide_parts(t.fft_length);
    const cudaLaunchConfig_t config = grid_config(outputs * t.lanes, parts, gpu_warps * sizeof(double), stream);
    return cudaLaunchKernelEx(&config, k_pad<T>, t, parts, s4_row_stride(t.fft_length), strides,
                              static_cast<const T *>(tensor), static_cast<const T *>(rows_u), static_cast<T *>(rows),
                              partials, s4_skip_parts(t.length));
}
template <typename T>
cudaError_t launch_pad_transposed(const gpu_row_tile &t, const void *tensor, const s4_strides &strides, int64_t outputs,
                                  void *rows, cudaStream_t stream)
{
    const int64_t parts = (t.fft_length + square - 1) / square, squares = squares_of(t.lanes);
    const cudaLaunchConfig_t config = grid_config(outputs * squares, parts, square * square_pitch * sizeof(T), stream);
    return cudaLaunchKernelEx(&config, k_pad_transposed<T>, t, parts, s4_row_stride(t.fft_length), strides, squares,
                              static_cast<const T *>(tensor), static_cast<T *>(rows));
}
template <typename T>
cudaError_t launch_multiply(const gpu_row_tile &t, const void *spectrum, const void *rows_u, void *rows,
                            cudaStream_t stream)
{
    const int64_t parts = grid_wide_parts(t.fft_length / 2 + 1);
    const cudaLaunchConfig_t config = grid_config(t.lanes, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_multiply<T>, t, parts, s4_row_stride(t.fft_length),
                              static_cast<const complex_of<T> *>(spectrum), static_cast<const T *>(rows_u),
                              static_cast<T *>(rows));
}
template <typename T>
cudaError_t launch_crop(const gpu_row_tile &t, const void *rows, const gpu_crop &crop, cudaStream_t stream)
{
    const int64_t parts = grid_wide_parts(t.length);
    const cudaLaunchConfig_t config = grid_config(crop.outputs_to * t.count, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_crop<T>, t, parts, s4_row_stride(t.fft_length), T(crop.scale),
                              static_cast<const T *>(rows), crop);
}
template <typename T>
cudaError_t launch_crop_transposed(const gpu_row_tile &t, const void *rows, const gpu_crop &crop, cudaStream_t stream)
{
    const int64_t parts = (t.length + square - 1) / square, squares = squares_of(t.count);
    const cudaLaunchConfig_t config =
        grid_config(crop.outputs_to * squares, parts, square * square_pitch * sizeof(T), stream);
    return cudaLaunchKernelEx(&config, k_crop_transposed<T>, t, parts, s4_row_stride(t.fft_length), squares,
                              T(crop.scale), static_cast<const T *>(rows), crop);
}

} // namespace

#define BY_DTYPE(function, ...)                                                                                        \
    (tile->dtype == S4_F64 ? function<double>(*tile, __VA_ARGS__) : function<float>(*tile, __VA_ARGS__))

extern "C" cudaError_t gpu_launch_pad(const gpu_row_tile *tile, const void *tensor, const s4_strides *strides,
                                      int64_t outputs, const void *rows_u, void *rows, double *partials,
                                      cudaStream_t stream)
{
    return BY_DTYPE(launch_pad, tensor, *strides, outputs, rows_u, rows, partials, stream);
}

extern "C" cudaError_t gpu_launch_pad_transposed(const gpu_row_tile *tile, const void *tensor,
                                                 const s4_strides *strides, int64_t outputs, void *rows,
                                                 cudaStream_t stream)
{
    return BY_DTYPE(launch_pad_transposed, tensor, *strides, outputs, rows, stream);
}

extern "C" cudaError_t gpu_launch_multiply(const gpu_row_tile *tile, const void *spectrum, const void *rows_u,
                                           void *rows, cudaStream_t stream)
{
    return BY_DTYPE(launch_multiply, spectrum, rows_u, rows, stream);
}

extern "C" cudaError_t gpu_launch_crop(const gpu_row_tile *tile, const void *rows, const gpu_crop *crop,
                                       cudaStream_t stream)
{
    return BY_DTYPE(launch_crop, rows, *crop, stream);
}

extern "C" cudaError_t gpu_launch_crop_transposed(const gpu_row_tile *tile, const void *rows, const gpu_crop *crop,
                                                  cudaStream_t stream)
{
    return BY_DTYPE(launch_crop_transposed, rows, *crop, stream);
}
