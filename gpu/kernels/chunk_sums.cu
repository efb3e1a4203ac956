/*
 * Sums over the chunks of all rows of a channel, for the gradients of its matrices: U^T G_c, S^T G_c, U^T L, L^T S; of a
 * diagonal X only L conj(S), mode by mode.
 *
 * A block makes a square of 32 by 32 of one channel. 16 chunks of a row are multiplied and added in the dtype, what they give
 * is added in double, row by row and chunk by chunk ascending: so bits depend neither on tiles nor on blocks of the batch.
 */
#include "gpu/kernels/chunk_rows.h"

namespace
{

constexpr int side = 32, deep = 16;

template <typename T>
__device__ void load_rows(const T *panel, int64_t width, int64_t column, int64_t rows, T *loaded)
{
    for (int i = int(threadIdx.x); i < deep * side; i += gpu_threads) {
        const int64_t row = i / side, at = column + i % side;
        loaded[i] = row < rows && at < width ? panel[row * width + at] : T(0);
    }
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads, 4)
    k_chunk_sums(gpu_chunk_tile t, channel_range range, int64_t row_parts, int64_t column_parts, gpu_chunk_sum p)
{
    T *of_left = reinterpret_cast<T *>(s4_shared), *of_right = of_left + deep * side;
    const int x = int(threadIdx.x) % 16, y = int(threadIdx.x) / 16;
    const int64_t h = range.first + grid_row(row_parts * column_parts), part = grid_part(row_parts * column_parts);
    const int64_t row = part / column_parts * side, column = part % column_parts * side;
    const channel_lanes lanes = lanes_of(t.rows, h);
    if (lanes.count == 0 || (p.upper && row >= column + side)) return; /* the whole block */
    double *sums = p.sums + h * p.sums_channel, sum[4][2] = {};
    GPU_UNROLL
    for (int r = 0; r < 4; r++) GPU_UNROLL
        for (int c = 0; c < 2; c++) {
            const int64_t at_row = row + y * 4 + r, at_column = column + x + 16 * c;
            if (at_row < p.left_width && at_column < p.right_width)
                sum[r][c] = sums[at_row * p.right_width + at_column];
        }
    GPU_ROLLED
    for (int64_t i = 0; i < lanes.count; i++) {
        const int64_t lane = lanes.first + i * lanes.step, chunks = chunk_row_of(t, lane).chunks;
        const T *left = static_cast<const T *>(p.left) + lane * p.left_lane;
        const T *right = static_cast<const T *>(p.right) + lane * p.right_lane;
        GPU_ROLLED
        for (int64_t j = 0; j < chunks; j += deep) {
            __syncthreads(); /* what was loaded before has been read */
            load_rows(left + j * p.left_width, p.left_width, row, chunks - j, of_left);
            load_rows(right + j * p.right_width, p.right_width, column, chunks - j, of_right);
            __syncthreads();
            T some[4][2] = {};
            GPU_ROLLED
            for (int k = 0; k < deep; k++) GPU_UNROLL
            for (int r = 0; r < 4; r++) GPU_UNROLL
            for (int c = 0; c < 2; c++) some[r][c] += of_left[k * side + y * 4 + r] * of_right[k * side + x + 16 * c];
            GPU_UNROLL
            for (int r = 0; r < 4; r++) GPU_UNROLL
            for (int c = 0; c < 2; c++) sum[r][c] += double(some[r][c]);
        }
    }
    GPU_UNROLL
    for (int r = 0; r < 4; r++) GPU_UNROLL
        for (int c = 0; c < 2; c++) {
            const int64_t at_row = row + y * 4 + r, at_column = column + x + 16 * c;
            if (at_row < p.left_width && at_column < p.right_width)
                sums[at_row * p.right_width + at_column] = sum[r][c];
        }
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_chunk_mode_sums(gpu_chunk_tile t, channel_range range, int64_t parts, gpu_chunk_sum p)
{
    const int64_t h = range.first + grid_row(parts), re = grid_element(parts), im = t.state / 2 + re;
    const channel_lanes lanes = lanes_of(t.rows, h);
    if (re >= t.state / 2 || lanes.count == 0) return;
    double *sums = p.sums + h * p.sums_channel;
    complex_d sum = {sums[re], sums[im]};
    for (int64_t i = 0; i < lanes.count; i++) {
        const int64_t lane = lanes.first + i * lanes.step, chunks = chunk_row_of(t, lane).chunks;
        const T *left = static_cast<const T *>(p.left) + lane * p.left_lane;
        const T *right = static_cast<const T *>(p.right) + lane * p.right_lane;
        for (int64_t j = 0; j < chunks; j++, left += t.state, right += t.state) {
            const complex_d l = {double(left[re]), double(left[im])}, s = {double(right[re]), double(right[im])};
            sum.re += l.re * s.re;
            sum.re += l.im * s.im;
            sum.im += l.im * s.re;
            sum.im -= l.re * s.im;
        }
    }
    sums[re] = sum.re;
    sums[im] = sum.im;
}

template <typename T> cudaError_t launch_sums(const gpu_chunk_tile &t, const gpu_chunk_sum &sum, cudaStream_t stream)
{
    const channel_range range = channels_of(t.rows);
    const int64_t row_parts = (sum.left_width + side - 1) / side, column_parts = (sum.right_width + side - 1) / side;
    const cudaLaunchConfig_t config =
        grid_config(range.count, row_parts * column_parts, 2 * deep * side * sizeof(T), stream);
    return cudaLaunchKernelEx(&config, k_chunk_sums<T>, t, range, row_parts, column_parts, sum);
}

template <typename T>
cudaError_t launch_mode_sums(const gpu_chunk_tile &t, const gpu_chunk_sum &sum, cudaStream_t stream)
{
    const channel_range range = channels_of(t.rows);
    const int64_t parts = grid_parts(t.state / 2);
    const cudaLaunchConfig_t config = grid_config(range.count, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_chunk_mode_sums<T>, t, range, parts, sum);
}

} // namespace

extern "C" cudaError_t gpu_launch_chunk_sums(const gpu_chunk_tile *tile, const gpu_chunk_sum *sum, cudaStream_t stream)
{
    return tile->rows.dtype == S4_F64 ? launch_sums<double>(*tile, *sum, stream)
                                      : launch_sums<float>(*tile, *sum, stream);
}

extern "C" cudaError_t gpu_launch_chunk_mode_sums(const gpu_chunk_tile *tile, const gpu_chunk_sum *sum,
                                                  cudaStream_t stream)
{
    return tile->rows.dtype == S4_F64 ? launch_mode_sums<double>(*tile, *sum, stream)
                                      : launch_mode_sums<float>(*tile, *sum, stream);
}
