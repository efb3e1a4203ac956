/*
 * A channel's scratch of set-up: matrices (N,N), then rows (N); dA as a matrix; and I - dA^L factored, or refused.
 */
#ifndef GPU_KERNELS_SET_UP_LANE_H
#define GPU_KERNELS_SET_UP_LANE_H

#include <float.h>

#include "gpu/kernels/discretise.h"
#include "gpu/kernels/matrices.h"

struct setup_lane {
    double *matrix[4];                    /* the last only where the gradient of a read-out is made */
    double *linear;                       /* (2 + 2R,N) */
    double *row, *other, *signs, *pivots; /* (N) */
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
    return view;
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
