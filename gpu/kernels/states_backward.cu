/*
 * Gradients through the states of a row: of the state that leaves, x_T, and of the response to the one that enters, x_0,
 *   x_t+1 = dA x_t + dB u[t];   y_c[t] gets c z_t+1,  c = [2 Re C_c, -2 Im C_c],  z_t+1 = dA z_t,  z_0 = x_0.
 * Back in time, in the real basis [Re x; Im x]:
 *   m_T = dL/dx_T,                      m_t = dA^T m_t+1                        along x
 *   m_t+1 += sum over c of dy_c[t] c,   m_t = dA^T m_t+1, from m_T = 0          along z
 *   du[t] += dB . m_t+1;   dL/dc += dy_c[t] z_t+1;   dL/dx_0 = m_0 of both.
 * What reaches dA and dB is in sample_sums.h; along z with m_t+1 after dy was added.
 *
 * One warp per row. States are met in reverse: every stride-th is kept, the others are made again from the one before, a
 * stride at a time. A row's sums begin at zero; they are added to those of its channel afterwards, b ascending. Of a row
 * in chunks only the samples after the last whole one are walked.
 */
#include "gpu/kernels/sample_sums.h"

namespace
{

/* A lane of STATE_ROWS, and the rows of it that every sample changes: in shared memory where they fit. */
struct backward_lane {
    double *entering; /* (N): gradient of x_0 */
    double *kept;     /* (ceil(T / stride),N) */
    double *states;   /* (stride + 1,N) */
    double *resting;  /* (s4_state_sums,N): sums at rest */
    double *adjoint, *before; /* (N): m_t+1, m_t */
    sample_sums sums;         /* at work */
};

__device__ backward_lane open_lane(const gpu_recurrence &r, const gpu_backward &w, const recurrence_row &row)
{
    const int64_t state = 2 * r.shape.modes;
    double *base = r.scratch + row.number * w.lane_size;
    backward_lane lane;
    lane.resting = base;
    double *work = w.in_shared ? reinterpret_cast<double *>(s4_shared) + threadIdx.x / 32 * (w.sums + 2) * state : base;
    lane.sums = sample_sums_view(r.shape, work);
    lane.adjoint = work + w.sums * state;
    lane.before = lane.adjoint + state;
    lane.entering = base + (w.sums + 2) * state;
    lane.kept = lane.entering + state;
    lane.states = lane.kept + (w.span + w.stride - 1) / w.stride * state;
    return lane;
}

/* Own modes of all sums, from zero or from where they rest. */
__device__ void load_sums(const gpu_recurrence &r, const gpu_backward &w, const backward_lane &lane)
{
    for (int64_t i = 0; i < 2 * w.sums; i++)
        for (int64_t n = lane_of_thread(); n < r.shape.modes; n += 32) {
            const int64_t at = i * r.shape.modes + n;
            if (w.begins) lane.sums.mode[at] = 0;
            else if (w.in_shared) lane.sums.mode[at] = lane.resting[at];
        }
}
__device__ void store_sums(const gpu_recurrence &r, const gpu_backward &w, const backward_lane &lane)
{
    if (!w.in_shared) return;
    for (int64_t i = 0; i < 2 * w.sums; i++)
        for (int64_t n = lane_of_thread(); n < r.shape.modes; n += 32)
            lane.resting[i * r.shape.modes + n] = lane.sums.mode[i * r.shape.modes + n];
}

/* One of the two ways back: along x, with u and du, or along z, with dy. */
template <typename T> struct backward_path {
    linear_rows linear;
    const double *read_outs;
    const T *u, *dy; /* NULL: not along this path */
    T *du;           /* or NULL */
    int64_t h, length;
    bool is_zero; /* z of no x_0: only adjoints are wanted */
};

template <typename T>
__device__ double input_at(const gpu_recurrence &r, const backward_path<T> &path, int64_t t)
{
    return path.u ? double(path.u[t * r.u_strides.time]) : 0;
}

/* Keeps every stride-th state of the row; lane.states: the first, overwritten. */
template <typename T>
__device__ void keep_states(const gpu_recurrence &r, const gpu_backward &w, const backward_path<T> &path,
                            const backward_lane &lane)
{
    const int64_t modes = r.shape.modes;
    for (int64_t t = 0; t < path.length; t++) {
        if (t % w.stride == 0) {
            double *kept = lane.kept + t / w.stride * 2 * modes;
            for (int64_t n = lane_of_thread(); n < modes; n += 32)
                put_split(kept, modes, n, {lane.states[n], lane.states[modes + n]});
        }
        advance(r.shape, path.linear, input_at(r, path, t), lane.states, lane.states);
    }
}

/* `count` states after the kept one at sample `first`, into lane.states behind it. */
template <typename T>
__device__ void make_states(const gpu_recurrence &r, const gpu_backward &w, const backward_path<T> &path,
                            const backward_lane &lane, int64_t first, int64_t count)
{
    const int64_t modes = r.shape.modes, state = 2 * modes;
    const double *kept = lane.kept + first / w.stride * state;
    for (int64_t n = lane_of_thread(); n < modes; n += 32)
        put_split(lane.states, modes, n, {kept[n], kept[modes + n]});
    for (int64_t i = 0; i < count; i++)
        advance(r.shape, path.linear, input_at(r, path, first + i), lane.states + i * state,
                lane.states + (i + 1) * state);
}

/* dy of one sample into m_t+1 and the read-outs; next: z_t+1. */
template <typename T>
__device__ void add_outputs(const gpu_recurrence &r, const backward_path<T> &path, const backward_lane &lane, int64_t t,
                            const double *next)
{
    const int64_t modes = r.shape.modes, state = 2 * modes;
    for (int64_t c = 0; c < r.shape.channels; c++) {
        const double dy = double(path.dy[c * r.dy_strides.output + t * r.dy_strides.time]);
        const double *row = path.read_outs + c * state;
        double *sum = lane.sums.read_out + c * state;
        for (int64_t n = lane_of_thread(); n < modes; n += 32) {
            lane.adjoint[n] += dy * row[n];
            lane.adjoint[modes + n] += dy * row[modes + n];
            if (path.is_zero) continue;
            sum[n] += dy * next[n];
            sum[modes + n] += dy * next[modes + n];
        }
    }
}

template <typename T>
__device__ void add_to_du(const gpu_recurrence &r, const backward_path<T> &path, const backward_lane &lane, int64_t t)
{
    const double added = inner_product(r.shape.modes, path.linear.b, lane.adjoint);
    T *du = path.du + t * r.du_strides.time;
    if (lane_of_thread() == 0) *du = T(double(*du) + added);
}

/* From m_T in lane.adjoint and x_0 in lane.states to m_0 in lane.adjoint, with all sums on the way. */
template <typename T>
__device__ void walk_back(const gpu_recurrence &r, const gpu_backward &w, const backward_path<T> &path,
                          backward_lane &lane)
{
    const int64_t state = 2 * r.shape.modes;
    if (!path.is_zero) keep_states(r, w, path, lane);
    int64_t first = path.length;
    for (int64_t t = path.length - 1; t >= 0; t--) {
        if (t < first) {
            const int64_t end = first;
            first = t / w.stride * w.stride;
            if (!path.is_zero) make_states(r, w, path, lane, first, end - first);
        }
        const double *now = lane.states + (t - first) * state, *next = now + state;
        if (path.dy) add_outputs(r, path, lane, t, next);
        if (path.du) add_to_du(r, path, lane, t);
        step_back(r.shape, path.linear, lane.adjoint, lane.before);
        const sample_step step = {lane.adjoint, lane.before, now, next};
        if (!path.is_zero) add_sample(r.shape, w.system, path.h, lane.sums, step, input_at(r, path, t));
        double *const earlier = lane.before;
        lane.before = lane.adjoint;
        lane.adjoint = earlier;
    }
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads, 2) k_states_backward(gpu_recurrence r, gpu_backward w)
{
    const recurrence_row row = row_of_warp(r);
    if (!row.exists) return;
    const s4_shape &s = r.shape;
    backward_lane lane = open_lane(r, w, row);
    backward_path<T> path = {};
    path.linear = linear_of_row(r, row);
    path.read_outs = system_of_row(r, row) + (2 + 2 * s.rank) * 2 * s.modes;
    path.h = row.h;
    const int64_t first = first_of_row(r, row);
    path.length = length_of_row(r, row) - first;
    path.is_zero = w.along_z && !r.state_in;
    if (w.along_z)
        path.dy = row_of_tensor<T>(r, row, r.dy, r.dy_strides) + first * r.dy_strides.time;
    else {
        if (r.u) path.u = row_of_tensor<T>(r, row, r.u, r.u_strides) + first * r.u_strides.time;
        if (r.du) path.du = row_of_tensor<T>(r, row, r.du, r.du_strides) + first * r.du_strides.time;
    }
    load_sums(r, w, lane);
    load_state(r, row, w.along_z ? nullptr : r.dstate_out, lane.adjoint);
    load_state(r, row, r.state_in, lane.states);
    walk_back(r, w, path, lane);
    store_sums(r, w, lane);
    for (int64_t n = lane_of_thread(); n < s.modes; n += 32) {
        complex_d entering = {lane.adjoint[n], lane.adjoint[s.modes + n]};
        if (!w.begins) add(entering, {lane.entering[n], lane.entering[s.modes + n]});
        put_split(lane.entering, s.modes, n, entering);
        if (w.ends && r.dstate_in) store_pair(r.dstate_in + state_offset(r, row), n, entering);
    }
}

/* One block per channel and part of its sums. */
__global__ void __launch_bounds__(gpu_threads, 2) k_state_sums(gpu_recurrence r, gpu_backward w, int64_t parts, int from_zero,
                                                            double *sums)
{
    const int64_t i = grid_element(parts), count = w.sums * 2 * r.shape.modes;
    if (i >= count) return;
    const int64_t channel = r.first / r.rows + grid_row(parts), begin = channel * r.rows; /* of the block; its first row */
    double *out = sums + channel * w.sums_channel + i;
    double sum = from_zero && begin >= r.first ? 0 : *out;
    for (int64_t row = begin < r.first ? r.first : begin; row < begin + r.rows && row < r.first + r.count; row++)
        sum += r.scratch[(row - r.first) * w.lane_size + i];
    *out = sum;
}

} // namespace

extern "C" cudaError_t gpu_launch_states_backward(const gpu_recurrence *recurrence, const gpu_backward *way,
                                                  cudaStream_t stream)
{
    const gpu_recurrence &r = *recurrence;
    const size_t shared =
        way->in_shared ? size_t(gpu_warps * (way->sums + 2) * 2 * r.shape.modes) * sizeof(double) : 0;
    const cudaLaunchConfig_t config = grid_config(1, (r.count + gpu_warps - 1) / gpu_warps, shared, stream);
    return r.shape.dtype == S4_F64 ? cudaLaunchKernelEx(&config, k_states_backward<double>, r, *way)
                                   : cudaLaunchKernelEx(&config, k_states_backward<float>, r, *way);
}

extern "C" cudaError_t gpu_launch_state_sums(const gpu_recurrence *recurrence, const gpu_backward *way, int from_zero,
                                             double *sums, cudaStream_t stream)
{
    const gpu_recurrence &r = *recurrence;
    const int64_t channels = (r.first + r.count - 1) / r.rows - r.first / r.rows + 1;
    const int64_t parts = grid_parts(way->sums * 2 * r.shape.modes);
    const cudaLaunchConfig_t config = grid_config(channels, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_state_sums, r, *way, parts, from_zero, sums);
}
