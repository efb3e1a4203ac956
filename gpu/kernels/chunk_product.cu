/*
 * Products of panels with the matrices of their channels, all of one form: with chunks of samples as rows of U and G_c, the
 * states before them S, and adjoints of the states behind them L,
 *   inputs of the states   U M_B
 *   outputs                U Toep_c + S M_C,c
 *   inputs of adjoints     sum over c of G_c M_C,c^T
 *   du                     sum over c of G_c Toep_c^T + L M_B^T
 *
 * A block makes a square of 64 chunks, of all rows of a channel, by 32 columns; a thread 4 by 4. Every element is one sum
 * in the dtype, k ascending, so that it does not depend on what else is in the tile.
 */
#include "gpu/kernels/chunk_rows.h"

namespace
{

constexpr int high = 64, wide = 32, deep = 16;
constexpr int high_pitch = high + 1;
constexpr int threads_wide = wide / 4;
constexpr int rows_apart = gpu_threads / deep, row_loads = high / rows_apart;
constexpr int deep_apart = gpu_threads / wide, column_loads = deep / deep_apart;

/* A chunk of a lane; none: -1. */
struct chunk_place {
    int64_t lane;
    int chunk;
};
/* Chunk number i of a channel's rows. */
__device__ chunk_place chunk_at(const gpu_chunk_tile &t, const channel_lanes &lanes, int64_t i)
{
    const int64_t row = i / t.count, lane = lanes.first + row * lanes.step;
    const int chunk = int(i - row * t.count);
    if (row >= lanes.count || chunk >= chunk_row_of(t, lane).chunks) return {-1, 0};
    return {lane, chunk};
}

template <typename T>
__device__ void load_left(const chunk_place *places, const gpu_chunk_factor &f, int64_t k, int thread, T *of_left)
{
    const int64_t at_k = k + thread % deep, period = at_k / f.period;
    const T *a = static_cast<const T *>(f.a) + period * f.a_next + (at_k - period * f.period);
    GPU_UNROLL
    for (int e = 0; e < row_loads; e++) {
        const int row = thread / deep + e * rows_apart;
        const chunk_place place = places[row];
        const bool exists = place.lane >= 0 && at_k < f.depth;
        of_left[thread % deep * high_pitch + row] = exists ? a[place.lane * f.a_lane + place.chunk * f.period] : T(0);
    }
}

template <typename T>
__device__ void load_right(const gpu_chunk_factor &f, int64_t h, int64_t k, int64_t column, int64_t columns, int thread,
                           T *of_right)
{
    const int64_t at_column = column + thread % wide;
    GPU_UNROLL
    for (int e = 0; e < column_loads; e++) {
        const int row = thread / wide + e * deep_apart;
        const int64_t at_k = k + row, period = at_k / f.period;
        const int64_t at = h * f.b_channel + period * f.b_next + f.b_first + (at_k - period * f.period) * f.b_step;
        of_right[row * wide + thread % wide] =
            at_k < f.depth && at_column < columns ? static_cast<const T *>(f.b)[at + at_column] : T(0);
    }
}

/* Whether the rows from k on of a matrix are 0 in these columns. A period is whole steps deep. */
__device__ bool is_zero(const gpu_chunk_factor &f, int64_t k, int64_t column)
{
    const int64_t row = k % f.period;
    return (f.triangle == GPU_CHUNK_UPPER && row >= column + wide) || (f.triangle == GPU_CHUNK_LOWER && row + deep <= column);
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads, 4)
    k_chunk_product(gpu_chunk_tile t, channel_range range, int64_t row_parts, int64_t column_parts, gpu_chunk_product p)
{
    chunk_place *places = reinterpret_cast<chunk_place *>(s4_shared);
    T *of_left = reinterpret_cast<T *>(places + high), *of_right = of_left + deep * high_pitch;
    const int thread = int(threadIdx.x), x = thread % threads_wide, y = thread / threads_wide;
    const int64_t h = range.first + grid_row(row_parts * column_parts), part = grid_part(row_parts * column_parts);
    const int64_t column = part % column_parts * wide, row = part / column_parts * high;
    const channel_lanes lanes = lanes_of(t.rows, h);
    if (row >= lanes.count * t.count) return; /* the whole block */
    if (thread < high) places[thread] = chunk_at(t, lanes, row + thread);
    T sum[4][4] = {};
    for (int i = 0; i < int(p.factors); i++) {
        const gpu_chunk_factor &f = p.factor[i];
        GPU_ROLLED
        for (int64_t k = 0; k < f.depth; k += deep) {
            if (is_zero(f, k, column)) continue; /* the whole block */
            __syncthreads(); /* the places are there; what was loaded before has been read */
            load_left(places, f, k, thread, of_left);
            load_right(f, h, k, column, p.columns, thread, of_right);
            __syncthreads();
            for (int at = 0; at < deep; at++) {
                T left[4], right[4];
                GPU_UNROLL
                for (int e = 0; e < 4; e++) left[e] = of_left[at * high_pitch + y * 4 + e];
                GPU_UNROLL
                for (int e = 0; e < 4; e++) right[e] = of_right[at * wide + x + e * threads_wide];
                GPU_UNROLL
                for (int r = 0; r < 4; r++) GPU_UNROLL
                for (int c = 0; c < 4; c++) sum[r][c] += left[r] * right[c];
            }
        }
    }
    GPU_UNROLL
    for (int r = 0; r < 4; r++) {
        const chunk_place place = places[y * 4 + r];
        if (place.lane < 0) continue;
        T *out = static_cast<T *>(p.out) + (place.lane * p.out_lane + place.chunk * p.columns);
        GPU_UNROLL
        for (int c = 0; c < 4; c++) {
            const int64_t at = column + x + c * threads_wide;
            if (at < p.columns) out[at] = p.adds ? out[at] + sum[r][c] : sum[r][c];
        }
    }
}

template <typename T>
cudaError_t launch(const gpu_chunk_tile &t, const gpu_chunk_product &product, cudaStream_t stream)
{
    const channel_range range = channels_of(t.rows);
    const int64_t row_parts = (most_lanes(t) * t.count + high - 1) / high;
    const int64_t column_parts = (product.columns + wide - 1) / wide;
    const size_t shared = high * sizeof(chunk_place) + deep * (high_pitch + wide) * sizeof(T);
    const cudaLaunchConfig_t config = grid_config(range.count, row_parts * column_parts, shared, stream);
    return cudaLaunchKernelEx(&config, k_chunk_product<T>, t, range, row_parts, column_parts, product);
}

} // namespace

extern "C" cudaError_t gpu_launch_chunk_product(const gpu_chunk_tile *tile, const gpu_chunk_product *product,
                                                cudaStream_t stream)
{
    return tile->rows.dtype == S4_F64 ? launch<double>(*tile, *product, stream) : launch<float>(*tile, *product, stream);
}
