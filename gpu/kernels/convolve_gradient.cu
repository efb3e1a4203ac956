/*
 * What the convolution gives to the parameters' gradients, accumulated in double whatever the dtype:
 *   sum over b of conj(U^) DY^ per channel and frequency, whose inverse transform, cut to L, is dL/dK;
 *   dL/dD = sum over b, t of u dy.
 * Sums over the batch run in rising order of b, one addition after the other, through all tiles and blocks; so bits
 * do not depend on how the batch was cut.
 */
#include "gpu/kernels/grid.h"
#include "gpu/kernels/launchers.h"

namespace
{

/* Lanes [first, last) of the tile that belong to channel h of the block, and whether they begin at b = 0. */
struct channel_lanes {
    int64_t first, last;
    bool begins;
};
static inline __device__ channel_lanes lanes_of(const gpu_row_tile &t, int64_t h)
{
    const int64_t begin = h * t.batch - t.first, end = begin + t.batch;
    return {begin > 0 ? begin : 0, end < t.count ? end : t.count, begin >= 0};
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_accumulate(gpu_row_tile t, int64_t parts, int64_t stride, const T *__restrict__ rows_u,
                 const T *__restrict__ rows_dy, int begin, double2 *__restrict__ sums)
{
    const int64_t h = t.first / t.batch + grid_row(parts), k = grid_element(parts);
    const int64_t frequencies = t.fft_length / 2 + 1;
    if (k >= frequencies) return;
    const channel_lanes lanes = lanes_of(t, h);
    double2 sum = begin && lanes.begins ? make_double2(0, 0) : sums[h * frequencies + k];
    for (int64_t lane = lanes.first; lane < lanes.last; lane++) {
        const complex_of<T> u = reinterpret_cast<const complex_of<T> *>(rows_u + lane * stride)[k];
        const complex_of<T> g = reinterpret_cast<const complex_of<T> *>(rows_dy + lane * stride)[k];
        sum.x += double(u.x) * double(g.x) + double(u.y) * double(g.y);
        sum.y += double(u.x) * double(g.y) - double(u.y) * double(g.x);
    }
    sums[h * frequencies + k] = sum;
}

/* One block per channel. */
template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_skip_gradient(gpu_row_tile t, const T *__restrict__ u, const T *__restrict__ dy, int begin,
                    double *__restrict__ gradient_d)
{
    const int64_t h = t.first / t.batch + int64_t(blockIdx.x);
    const channel_lanes lanes = lanes_of(t, h);
    double total = begin && lanes.begins ? 0 : gradient_d[h]; /* thread 0's counts */
    for (int64_t lane = lanes.first; lane < lanes.last; lane++) {
        const int64_t b = t.first + lane - h * t.batch, row = b * t.batch_stride + h * t.length;
        double sum = 0;
        for (int64_t j = int64_t(threadIdx.x); j < t.length; j += gpu_threads)
            sum += double(u[row + j]) * double(dy[row + j]);
        total += block_sum(sum, reinterpret_cast<double *>(s4_shared));
    }
    if (threadIdx.x == 0) gradient_d[h] = total;
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_sums_load(gpu_row_tile t, int64_t parts, int64_t stride, const double2 *__restrict__ sums, T *__restrict__ rows)
{
    const int64_t lane = grid_row(parts), k = grid_element(parts), frequencies = t.fft_length / 2 + 1;
    if (k >= frequencies) return;
    const double2 sum = lane < t.count ? sums[lane * frequencies + k] : make_double2(0, 0);
    reinterpret_cast<complex_of<T> *>(rows + lane * stride)[k] = complex_value<T>(T(sum.x), T(sum.y));
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_gradient_store(int64_t kernel_length, int64_t parts, int64_t stride, double scale, const T *__restrict__ rows,
                     double *__restrict__ gradient)
{
    const int64_t lane = grid_row(parts), j = grid_element(parts);
    if (j < kernel_length) gradient[lane * kernel_length + j] = double(rows[lane * stride + j]) * scale;
}

/* Channels that have lanes in the tile. */
int64_t tile_channels(const gpu_row_tile &t) { return (t.first + t.count - 1) / t.batch - t.first / t.batch + 1; }

template <typename T>
cudaError_t launch_accumulate(const gpu_row_tile &t, const void *rows_u, const void *rows_dy, int begin, double *sums,
                              cudaStream_t stream)
{
    const int64_t parts = grid_parts(t.fft_length / 2 + 1);
    const cudaLaunchConfig_t config = grid_config(tile_channels(t), parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_accumulate<T>, t, parts, s4_row_stride(t.fft_length),
                              static_cast<const T *>(rows_u), static_cast<const T *>(rows_dy), begin,
                              reinterpret_cast<double2 *>(sums));
}
template <typename T>
cudaError_t launch_skip_gradient(const gpu_row_tile &t, const void *u, const void *dy, int begin, double *gradient_d,
                                 cudaStream_t stream)
{
    const cudaLaunchConfig_t config = grid_config(tile_channels(t), 1, gpu_warps * sizeof(double), stream);
    return cudaLaunchKernelEx(&config, k_skip_gradient<T>, t, static_cast<const T *>(u), static_cast<const T *>(dy),
                              begin, gradient_d);
}
template <typename T>
cudaError_t launch_sums_load(const gpu_row_tile &t, const double *sums, void *rows, cudaStream_t stream)
{
    const int64_t parts = grid_parts(t.fft_length / 2 + 1);
    const cudaLaunchConfig_t config = grid_config(t.lanes, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_sums_load<T>, t, parts, s4_row_stride(t.fft_length),
                              reinterpret_cast<const double2 *>(sums), static_cast<T *>(rows));
}
template <typename T>
cudaError_t launch_gradient_store(const gpu_row_tile &t, const void *rows, int64_t kernel_length, double *gradient,
                                  cudaStream_t stream)
{
    const int64_t parts = grid_parts(kernel_length);
    const cudaLaunchConfig_t config = grid_config(t.count, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_gradient_store<T>, kernel_length, parts, s4_row_stride(t.fft_length),
                              1 / double(t.fft_length), static_cast<const T *>(rows), gradient);
}

} // namespace

extern "C" cudaError_t gpu_launch_accumulate(const gpu_row_tile *tile, const void *rows_u, const void *rows_dy,
                                             int begin, double *sums, cudaStream_t stream)
{
    return tile->dtype == S4_F64 ? launch_accumulate<double>(*tile, rows_u, rows_dy, begin, sums, stream)
                                 : launch_accumulate<float>(*tile, rows_u, rows_dy, begin, sums, stream);
}

extern "C" cudaError_t gpu_launch_skip_gradient(const gpu_row_tile *tile, const void *u, const void *dy, int begin,
                                                double *gradient_d, cudaStream_t stream)
{
    return tile->dtype == S4_F64 ? launch_skip_gradient<double>(*tile, u, dy, begin, gradient_d, stream)
                                 : launch_skip_gradient<float>(*tile, u, dy, begin, gradient_d, stream);
}

extern "C" cudaError_t gpu_launch_sums_load(const gpu_row_tile *tile, const double *sums, void *rows,
                                            cudaStream_t stream)
{
    return tile->dtype == S4_F64 ? launch_sums_load<double>(*tile, sums, rows, stream)
                                 : launch_sums_load<float>(*tile, sums, rows, stream);
}

extern "C" cudaError_t gpu_launch_gradient_store(const gpu_row_tile *tile, const void *rows, int64_t kernel_length,
                                                 double *gradient, cudaStream_t stream)
{
    return tile->dtype == S4_F64 ? launch_gradient_store<double>(*tile, rows, kernel_length, gradient, stream)
                                 : launch_gradient_store<float>(*tile, rows, kernel_length, gradient, stream);
}
