/*
 * A channel's scratch of set-up: matrices (N,N) in a lane that has them, then rows (N); dA as a matrix; and I - dA^L
 * factored, or refused.
 */
#ifndef GPU_KERNELS_SET_UP_LANE_H
#define GPU_KERNELS_SET_UP_LANE_H

#include <float.h>

#include "gpu/kernels/structured_power.h"

struct setup_lane {
    double *matrix[4];                    /* the last only where the gradient of a read-out is made */
    double *linear;                       /* (2 + 2R,N) */
    double *row, *other, *signs, *pivots; /* (N) */
    double *power;                        /* DPLR: rows of a structured_power */
};

static inline __device__ setup_lane setup_lane_view(const s4_shape &s, const gpu_setup_tile &t, int64_t lane)
{
    const int64_t state = 2 * s.modes, square = state * state;
    double *base = t.lanes + lane * t.lane_size;
    setup_lane view;
    for (int i = 0; i < 4; i++) view.matrix[i] = base + i * square;
    view.linear = base + t.lane_rows;
    view.row = view.linear + (2 + 2 * s.rank) * state;
    view.other = view.row + state;
    view.signs = view.other + state;
    view.pivots = view.signs + state;
    view.power = view.pivots + state;
    return view;
}

static inline __device__ double *view_commuting(double *at, int64_t rows, int64_t state, commuting &x)
{
    x.u = at;
    x.v = x.u + rows;
    x.own = x.v + rows;
    x.mirror = x.own + state;
    x.carried = x.mirror + state;
    return x.carried + state;
}

static inline __device__ structured_power structured_power_view(const s4_shape &s, const setup_lane &lane)
{
    const int64_t state = 2 * s.modes, rows = s.rank * state;
    structured_power view;
    view.of.modes = int(s.modes);
    view.of.lambda = lane.power;
    view.of.left = view.of.lambda + state;
    view.of.right = view.of.left + rows;
    view.of.rotation = view.of.right + rows;
    view.of.ends = view.of.rotation + state;
    view.of.columns = view.of.ends + s.modes;
    view.f = nullptr;
    view.p = view.of.columns + s.modes;
    view.g = view.p + rows;
    view.g_product = view.g + rows;
    double *at = view_commuting(view.g_product + rows, rows, state, view.x);
    view_commuting(at, rows, state, view.next);
    view.turned = lane.other;
    view.product = lane.row;
    return view;
}

/* The displacement of channel h; false if too many eigenvalues nearly coincide for it. */
template <int R>
static inline __device__ bool open_displacement(const gpu_model &m, const structured_power &power, int64_t h)
{
    double *sizes = power.product;
    build_displacement<R>(m, h, power.of);
    put_sizes<R>(power.of, sizes);
    return find_carried(power.of, sizes);
}

/* dA, or its transpose. */
static inline __device__ void dense_linear(const s4_shape &s, const linear_rows &linear, double *dA, int transposed)
{
    const int64_t state = 2 * s.modes;
    for (int64_t i = threadIdx.x; i < state * state; i += gpu_threads)
        dA[i] = transposed ? linear_entry(linear, s.modes, s.rank, i % state, i / state)
                           : linear_entry(linear, s.modes, s.rank, i / state, i % state);
    __syncthreads();
}

/* power, dA^length of channel h, <- factors of I - power, with pivots in the lane. */
static inline __device__ void undo_factor(const gpu_model &m, const setup_lane &lane, int64_t h, double *power)
{
    const int64_t state = 2 * m.shape.modes;
    double *shared = reinterpret_cast<double *>(s4_shared);
    double norm = 1;
    for (int64_t i = 0; i < state; i++) {
        double *row = power + i * state, sum = 0;
        for (int64_t j = threadIdx.x; j < state; j += gpu_threads) {
            row[j] = (i == j) - row[j];
            sum += fabs(row[j]);
        }
        sum = sum_for_all(sum, shared);
        if (!(sum <= norm)) norm = sum; /* NaN stays */
    }
    if (threadIdx.x == 0 && !is_finite(norm)) raise_flag(m.flags, GPU_FLAG_OVERFLOW, h, norm);
    factor(state, power, lane.pivots, shared);
    const double condition = 1 / (norm * inverse_norm(state, power, lane.row, lane.signs, shared));
    if (threadIdx.x == 0 && is_finite(norm) && !(condition >= double(state) * DBL_EPSILON))
        raise_flag(m.flags, GPU_FLAG_UNDO, h, condition);
}

#endif
