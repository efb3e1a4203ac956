/*
 * The recurrence between chunks, in place: x <- X x + v, X = dA^tau, forward for the states before chunks, and back with
 * its transpose for the adjoints of the states behind them.
 *
 * A dense X is stored less I, so what a step changes keeps its relative precision; x is carried in double, and multiplied
 * as the panel has it. A block takes some rows of one channel, step by step; a thread one element at a time. A diagonal X
 * needs one thread per mode of a row.
 */
#include "gpu/kernels/chunk_rows.h"

namespace
{

/* Rows of a channel in a block: as many as its threads have elements for. */
__host__ __device__ int64_t rows_of_block(int64_t state) { return state < gpu_threads ? gpu_threads / state : 1; }

/* The row that a thread works in. */
struct scan_row {
    int64_t lane;
    chunk_row row;
};

/* Element m of what is carried in a row. */
__device__ double *carried(const gpu_chunk_tile &t, const gpu_chunk_scan &s, const scan_row &at, int64_t m)
{
    return s.carry + at.lane * t.state + m;
}
template <typename T>
__device__ T *panel_of(const gpu_chunk_tile &t, const gpu_chunk_scan &s, const scan_row &at, int64_t j)
{
    return static_cast<T *>(s.panel) + (at.lane * t.count + j) * t.state;
}

__device__ void begin_row(const gpu_chunk_tile &t, const gpu_chunk_scan &s, const scan_row &at, int64_t m)
{
    const int64_t element = element_of_state(t, m);
    *carried(t, s, at, m) = s.first.at && element >= 0 ? states_of_row(s.first, at.row.place)[element] : 0;
}

/* What is carried into chunk j, and to where `whole` says. */
__device__ double enter_chunk(const gpu_chunk_tile &t, const gpu_chunk_scan &s, const scan_row &at, int64_t m, int64_t j)
{
    const int64_t element = element_of_state(t, m);
    double x = *carried(t, s, at, m);
    if (!s.whole.at || element < 0) return x;
    double *whole = states_of_row(s.whole, at.row.place) + element;
    if (s.back && at.row.whole == j + 1) x += *whole;
    if (!s.back && at.row.whole == j) *whole = x;
    return x;
}

/* After all steps of a row. */
__device__ void leave_row(const gpu_chunk_tile &t, const gpu_chunk_scan &s, const scan_row &at, int64_t m)
{
    const int64_t element = element_of_state(t, m);
    if (element < 0) return;
    double x = *carried(t, s, at, m);
    if (s.whole.at) {
        double *whole = states_of_row(s.whole, at.row.place) + element;
        if (s.back && at.row.whole == 0) x += *whole;
        if (!s.back && at.row.whole == at.row.chunks) *whole = x;
    }
    if (s.last.at) states_of_row(s.last, at.row.place)[element] = x;
}

/* A thread has one element of one row, or, where the state has more elements than the block has threads, some of the one
 * row there is. */
template <typename T>
__global__ void __launch_bounds__(gpu_threads)
    k_chunk_scan(gpu_chunk_tile t, channel_range range, int64_t parts, gpu_chunk_scan s)
{
    const int64_t h = range.first + grid_row(parts), most = rows_of_block(t.state), first = grid_part(parts) * most;
    const channel_lanes lanes = lanes_of(t.rows, h);
    if (first >= lanes.count) return; /* the whole block */
    const int64_t rows = most < lanes.count - first ? most : lanes.count - first;
    const int64_t own = threadIdx.x / t.state, own_m = threadIdx.x % t.state;
    const T *power = static_cast<const T *>(s.power) + h * s.power_channel;
    int64_t steps = 0;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t chunks = chunk_row_of(t, lanes.first + (first + i) * lanes.step).chunks;
        steps = chunks > steps ? chunks : steps;
    }
    scan_row at = {};
    if (own < rows) {
        at.lane = lanes.first + (first + own) * lanes.step;
        at.row = chunk_row_of(t, at.lane);
        for (int64_t m = own_m; m < t.state; m += gpu_threads) begin_row(t, s, at, m);
    }
    for (int64_t step = 0; step < steps; step++) {
        const int64_t j = s.back ? steps - 1 - step : step;
        T *panel = panel_of<T>(t, s, at, j);
        for (int64_t m = own_m; m < t.state && j < at.row.chunks; m += gpu_threads) {
            const double x = enter_chunk(t, s, at, m, j);
            *carried(t, s, at, m) = x + double(panel[m]);
            panel[m] = T(x);
        }
        __syncthreads(); /* the states before this chunk */
        for (int64_t m = own_m; m < t.state && j < at.row.chunks; m += gpu_threads) {
            T sum = 0;
            for (int64_t k = 0; k < t.state; k++) sum += power[k * t.state + m] * panel[k];
            *carried(t, s, at, m) += double(sum);
        }
    }
    for (int64_t m = own_m; m < t.state && own < rows; m += gpu_threads) leave_row(t, s, at, m);
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads) k_chunk_scan_modes(gpu_chunk_tile t, int64_t parts, gpu_chunk_scan s)
{
    const int64_t re = grid_element(parts), im = t.state / 2 + re;
    if (re >= t.state / 2) return;
    scan_row at = {grid_row(parts), {}};
    at.row = chunk_row_of(t, at.lane);
    const T *power = static_cast<const T *>(s.power) + at.row.place.h * s.power_channel;
    const double *poles = reinterpret_cast<const double *>(power);
    const complex_d pole = {poles[re], poles[im]};
    begin_row(t, s, at, re);
    begin_row(t, s, at, im);
    for (int64_t step = 0; step < at.row.chunks; step++) {
        const int64_t j = s.back ? at.row.chunks - 1 - step : step;
        T *panel = panel_of<T>(t, s, at, j);
        const complex_d x = {enter_chunk(t, s, at, re, j), enter_chunk(t, s, at, im, j)}, next = pole * x;
        *carried(t, s, at, re) = next.re + double(panel[re]);
        *carried(t, s, at, im) = next.im + double(panel[im]);
        panel[re] = T(x.re);
        panel[im] = T(x.im);
    }
    leave_row(t, s, at, re);
    leave_row(t, s, at, im);
}

__global__ void __launch_bounds__(gpu_threads)
    k_chunk_gather_states(gpu_chunk_tile t, int64_t parts, gpu_chunk_states from, double *__restrict__ to)
{
    const int64_t lane = grid_row(parts), i = grid_element(parts);
    if (i < 2 * t.modes) to[lane * 2 * t.modes + i] = states_of_row(from, place_of(t.rows, lane))[i];
}

template <typename T> cudaError_t launch(const gpu_chunk_tile &t, const gpu_chunk_scan &scan, cudaStream_t stream)
{
    if (!scan.is_dense) {
        const int64_t parts = grid_parts(t.state / 2);
        const cudaLaunchConfig_t config = grid_config(t.rows.count, parts, 0, stream);
        return cudaLaunchKernelEx(&config, k_chunk_scan_modes<T>, t, parts, scan);
    }
    const channel_range range = channels_of(t.rows);
    const int64_t rows = rows_of_block(t.state), parts = (most_lanes(t) + rows - 1) / rows;
    const cudaLaunchConfig_t config = grid_config(range.count, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_chunk_scan<T>, t, range, parts, scan);
}

} // namespace

extern "C" cudaError_t gpu_launch_chunk_scan(const gpu_chunk_tile *tile, const gpu_chunk_scan *scan, cudaStream_t stream)
{
    return tile->rows.dtype == S4_F64 ? launch<double>(*tile, *scan, stream) : launch<float>(*tile, *scan, stream);
}

extern "C" cudaError_t gpu_launch_chunk_gather_states(const gpu_chunk_tile *tile, const gpu_chunk_states *from,
                                                      double *to, cudaStream_t stream)
{
    const int64_t parts = grid_parts(2 * tile->modes);
    const cudaLaunchConfig_t config = grid_config(tile->rows.count, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_chunk_gather_states, *tile, parts, *from, to);
}
