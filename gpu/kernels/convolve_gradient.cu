/*
 * The adjoint of the convolution at every frequency, and what the convolution gives to the parameters' gradients:
 *   conj(K^_c) DY_c, summed over c, whose inverse transform is du but for D;
 *   sum over b of conj(U) DY_c per channel, output and frequency, whose inverse transform is dL/dK_c;
 *   dL/dD_c = sum over b, t of u dy_c.
 * Sums of gradients are in double whatever the dtype, and over the batch in rising order of b, one addition after the
 * other, through all tiles and blocks; so bits do not depend on how the batch was cut.
 */
#include "gpu/kernels/rows.h"

namespace
{

/* A block of threads sums a part of a row as k_pad does. */
template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_skip_products(gpu_row_tile t, int64_t parts, int64_t stride, const T *__restrict__ rows_u,
                    const T *__restrict__ rows_dy, double *__restrict__ partials)
{
    const int64_t row = grid_row(parts), lane = row % t.lanes, first = grid_first_element(parts);
    double sum = 0;
    GPU_UNROLL
    for (int e = 0; e < grid_each; e++) {
        const int64_t j = first + e * gpu_threads;
        if (j < t.length) sum += double(rows_u[lane * stride + j]) * double(rows_dy[row * stride + j]);
    }
    sum = block_sum(sum, reinterpret_cast<double *>(s4_shared));
    if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

/* One warp per channel and output. */
__global__ void __launch_bounds__(gpu_threads)
    k_skip_sums(gpu_row_tile t, channel_range range, int64_t parts, const double *__restrict__ partials, int begin,
                int64_t d_model, double *__restrict__ gradient_d)
{
    const int index = int(blockIdx.x * gpu_warps + threadIdx.x / 32), outputs = int(t.outputs);
    if (index >= int(range.count) * outputs) return; /* the whole warp */
    const int h = int(range.first) + index / outputs, c = index % outputs;
    const channel_lanes lanes = lanes_of(t, h);
    if (lanes.count == 0) return;
    double *to = gradient_d + (c * d_model + h);
    const double *of_row = partials + (c * t.lanes + lanes.first) * parts;
    double total = begin && lanes.begins ? 0 : *to;
    for (int64_t i = 0; i < lanes.count; i++, of_row += lanes.step * parts) {
        double sum = 0;
        GPU_ROLLED
        for (int64_t part = threadIdx.x % 32; part < parts; part += 32 * grid_each) {
            double value[grid_each];
            GPU_UNROLL
            for (int e = 0; e < grid_each; e++) value[e] = part + 32 * e < parts ? of_row[part + 32 * e] : 0;
            GPU_UNROLL
            for (int e = 0; e < grid_each; e++) sum += value[e];
        }
        total += warp_sum(sum); /* lane 0's counts */
    }
    if (threadIdx.x % 32 == 0) *to = total;
}

/* One thread per channel and frequency; the lanes of the channel some at a time, so that their loads overlap. */
constexpr int lanes_at_a_time = 4;

template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_spectra_backward(gpu_row_tile t, channel_range range, int64_t parts, int64_t stride, const T *__restrict__ rows_u,
                       const complex_of<T> *__restrict__ spectrum, int begin, T *rows_dy, double2 *__restrict__ sums)
{
    const int64_t h = range.first + grid_row(parts), k = grid_element(parts), frequencies = t.fft_length / 2 + 1;
    const channel_lanes lanes = lanes_of(t, h);
    if (k >= frequencies || lanes.count == 0) return;
    const int64_t row_step = lanes.step * stride, first = lanes.first * stride + 2 * k;
    for (int64_t c = 0; c < t.outputs; c++) {
        const int64_t at = (h * t.outputs + c) * frequencies + k;
        const T *of_output = rows_dy + c * t.lanes * stride;
        const complex_of<T> s = spectrum ? spectrum[at] : complex_value<T>(0, 0);
        double2 sum = !sums || (begin && lanes.begins) ? make_double2(0, 0) : sums[at];
        for (int64_t i = 0; i < lanes.count; i += lanes_at_a_time) {
            complex_of<T> u[lanes_at_a_time], g[lanes_at_a_time], z[lanes_at_a_time];
            GPU_UNROLL
            for (int a = 0; a < lanes_at_a_time; a++) {
                u[a] = g[a] = z[a] = complex_value<T>(0, 0);
                if (i + a >= lanes.count) continue;
                const int64_t element = first + (i + a) * row_step;
                if (sums) u[a] = *reinterpret_cast<const complex_of<T> *>(rows_u + element);
                g[a] = *reinterpret_cast<const complex_of<T> *>(of_output + element);
                if (spectrum && c > 0) z[a] = *reinterpret_cast<const complex_of<T> *>(rows_dy + element);
            }
            GPU_UNROLL
            for (int a = 0; a < lanes_at_a_time; a++) {
                if (i + a >= lanes.count) continue;
                if (sums) {
                    sum.x += double(u[a].x) * double(g[a].x);
                    sum.x += double(u[a].y) * double(g[a].y);
                    sum.y += double(u[a].x) * double(g[a].y);
                    sum.y -= double(u[a].y) * double(g[a].x);
                }
                if (spectrum) {
                    z[a].x += s.x * g[a].x;
                    z[a].x += s.y * g[a].y;
                    z[a].y += s.x * g[a].y;
                    z[a].y -= s.y * g[a].x;
                    *reinterpret_cast<complex_of<T> *>(rows_dy + first + (i + a) * row_step) = z[a];
                }
            }
        }
        if (sums) sums[at] = sum;
    }
}

template <typename T>
cudaError_t launch_skip_products(const gpu_row_tile &t, const void *rows_u, const void *rows_dy, double *partials,
                                 cudaStream_t stream)
{
    const int64_t parts = s4_skip_parts(t.length);
    const cudaLaunchConfig_t config = grid_config(t.outputs * t.lanes, parts, gpu_warps * sizeof(double), stream);
    return cudaLaunchKernelEx(&config, k_skip_products<T>, t, parts, s4_row_stride(t.fft_length),
                              static_cast<const T *>(rows_u), static_cast<const T *>(rows_dy), partials);
}

template <typename T>
cudaError_t launch_spectra_backward(const gpu_row_tile &t, const void *rows_u, const void *spectrum, int begin,
                                    void *rows_dy, double *sums, cudaStream_t stream)
{
    const channel_range range = channels_of(t);
    const int64_t parts = grid_parts(t.fft_length / 2 + 1);
    const cudaLaunchConfig_t config = grid_config(range.count, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_spectra_backward<T>, t, range, parts, s4_row_stride(t.fft_length),
                              static_cast<const T *>(rows_u), static_cast<const complex_of<T> *>(spectrum), begin,
                              static_cast<T *>(rows_dy), reinterpret_cast<double2 *>(sums));
}

} // namespace

extern "C" cudaError_t gpu_launch_skip_products(const gpu_row_tile *tile, const void *rows_u, const void *rows_dy,
                                                double *partials, cudaStream_t stream)
{
    return tile->dtype == S4_F64 ? launch_skip_products<double>(*tile, rows_u, rows_dy, partials, stream)
                                 : launch_skip_products<float>(*tile, rows_u, rows_dy, partials, stream);
}

extern "C" cudaError_t gpu_launch_skip_sums(const gpu_row_tile *tile, const double *partials, int begin,
                                            int64_t d_model, double *gradient_d, cudaStream_t stream)
{
    const channel_range range = channels_of(*tile);
    const int64_t warps = range.count * tile->outputs;
    const cudaLaunchConfig_t config = grid_config((warps + gpu_warps - 1) / gpu_warps, 1, 0, stream);
    return cudaLaunchKernelEx(&config, k_skip_sums, *tile, range, s4_skip_parts(tile->length), partials, begin, d_model,
                              gradient_d);
}

extern "C" cudaError_t gpu_launch_spectra_backward(const gpu_row_tile *tile, const void *rows_u, const void *spectrum,
                                                   int begin, void *rows_dy, double *sums, cudaStream_t stream)
{
    return tile->dtype == S4_F64
               ? launch_spectra_backward<double>(*tile, rows_u, spectrum, begin, rows_dy, sums, stream)
               : launch_spectra_backward<float>(*tile, rows_u, spectrum, begin, rows_dy, sums, stream);
}
