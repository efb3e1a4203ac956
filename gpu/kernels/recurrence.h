/*
 * Rows (b,h) of the recurrence, one warp each: where a row's tensors lie, a state split into Re x and Im x, and one step of
 * a diagonal plus low-rank system. Lane l of the warp owns the modes l, l + 32, ...; what is summed over modes is added up
 * by each lane in rising order, then over lanes in a fixed tree. Rows do not meet.
 */
#ifndef GPU_KERNELS_RECURRENCE_H
#define GPU_KERNELS_RECURRENCE_H

#include "gpu/kernels/discretise.h"

static inline __device__ int64_t lane_of_thread() { return threadIdx.x % 32; }

/* One row: h of all channels, b of the block, and its number in this launch. */
struct recurrence_row {
    int64_t h, b, number;
    bool exists; /* else the whole warp has nothing to do */
};
static inline __device__ recurrence_row row_of_warp(const gpu_recurrence &r)
{
    const int64_t number = int64_t(blockIdx.x) * gpu_warps + threadIdx.x / 32, row = r.first + number;
    return {r.channel + row / r.rows, row % r.rows, number, number < r.count};
}

/* S4_STEP_ROWS rows (N) of scratch: the state, and what is next to it. */
static inline __device__ double *state_of_warp(const gpu_recurrence &r, const recurrence_row &row)
{
    const int64_t size = S4_STEP_ROWS * 2 * r.shape.modes;
    return r.scratch ? r.scratch + row.number * size
                     : reinterpret_cast<double *>(s4_shared) + threadIdx.x / 32 * size;
}
static inline cudaLaunchConfig_t warps_config(const gpu_recurrence &r, cudaStream_t stream)
{
    const size_t shared = r.scratch ? 0 : size_t(gpu_warps * S4_STEP_ROWS * 2 * r.shape.modes) * sizeof(double);
    return grid_config(1, (r.count + gpu_warps - 1) / gpu_warps, shared, stream);
}

/* Element (row, output 0, sample 0) of a tensor. */
template <typename T>
static inline __device__ T *row_of_tensor(const gpu_recurrence &r, const recurrence_row &row, void *tensor,
                                          const s4_strides &strides)
{
    return static_cast<T *>(tensor) + row.b * strides.batch + (row.h - r.channel) * strides.channel;
}
template <typename T>
static inline __device__ const T *row_of_tensor(const gpu_recurrence &r, const recurrence_row &row, const void *tensor,
                                                const s4_strides &strides)
{
    return static_cast<const T *>(tensor) + row.b * strides.batch + (row.h - r.channel) * strides.channel;
}
static inline __device__ int64_t length_of_row(const gpu_recurrence &r, const recurrence_row &row)
{
    return r.lengths ? r.lengths[row.b] : r.length;
}
/* The first sample that is taken one by one: in chunks, the one after the last whole chunk. */
static inline __device__ int64_t first_of_row(const gpu_recurrence &r, const recurrence_row &row)
{
    return r.shape.chunk ? length_of_row(r, row) / r.shape.chunk * r.shape.chunk : 0;
}
static inline __device__ int64_t state_offset(const gpu_recurrence &r, const recurrence_row &row)
{
    return row.b * r.state_batch + (row.h - r.channel) * r.state_channel;
}

/* Pairs of a caller's state, or zeros if it is NULL, into own modes of x, and back. */
static inline __device__ void load_state(const gpu_recurrence &r, const recurrence_row &row, const double *states,
                                         double *x)
{
    const double *from = states + state_offset(r, row);
    for (int64_t n = lane_of_thread(); n < r.shape.modes; n += 32)
        put_split(x, r.shape.modes, n, states ? load_pair(from, n) : complex_d{0, 0});
}
static inline __device__ void store_state(const gpu_recurrence &r, const recurrence_row &row, const double *x,
                                          double *states)
{
    double *to = states + state_offset(r, row);
    for (int64_t n = lane_of_thread(); n < r.shape.modes; n += 32)
        store_pair(to, n, {x[n], x[r.shape.modes + n]});
}

/* a . b over the state, the same in all lanes; of both, own modes are read. */
static inline __device__ double inner_product(int64_t modes, const double *a, const double *b)
{
    double sum = 0;
    for (int64_t n = lane_of_thread(); n < modes; n += 32) sum += a[n] * b[n] + a[modes + n] * b[modes + n];
    return warp_total(sum);
}

/* next <- dA x + dB u; next may be x. */
static inline __device__ void advance(const s4_shape &s, const linear_rows &linear, double u, const double *x,
                                      double *next)
{
    const int64_t modes = s.modes, state = 2 * modes;
    double inner[S4_RANK_MAX];
    GPU_UNROLL
    for (int r = 0; r < S4_RANK_MAX; r++) inner[r] = r < s.rank ? inner_product(modes, linear.g + r * state, x) : 0;
    for (int64_t n = lane_of_thread(); n < modes; n += 32) {
        const complex_d f = {linear.f[n], linear.f[modes + n]};
        complex_d z = f * complex_d{x[n], x[modes + n]};
        z.re += linear.b[n] * u;
        z.im += linear.b[modes + n] * u;
        GPU_UNROLL
        for (int r = 0; r < S4_RANK_MAX; r++)
            if (r < s.rank) {
                z.re -= linear.p[r * state + n] * inner[r];
                z.im -= linear.p[r * state + modes + n] * inner[r];
            }
        put_split(next, modes, n, z);
    }
}

/* STEP_SYSTEM of a row's channel. */
static inline __device__ const double *system_of_row(const gpu_recurrence &r, const recurrence_row &row)
{
    return r.system + row.h * r.system_size;
}
static inline __device__ linear_rows linear_of_row(const gpu_recurrence &r, const recurrence_row &row)
{
    return linear_view(r.shape.modes, r.shape.rank, const_cast<double *>(system_of_row(r, row)));
}

#endif
