/* A lane of CHUNK_SETUP: rows of a channel's chunk, dA in factors, and, DPLR, matrices; and padded states. */
#ifndef GPU_KERNELS_CHUNK_LANE_H
#define GPU_KERNELS_CHUNK_LANE_H

#include "gpu/kernels/launchers_chunk.h"
#include "gpu/kernels/sample_sums.h"
#include "gpu/kernels/set_up_lane.h"

struct chunk_lane {
    double *v, *w; /* (tau,N) */
    double *linear;
    double *row[S4_CHUNK_SETUP_ROWS]; /* (N) */
    double *matrices;                 /* (N,N) each */
};
static inline __device__ chunk_lane chunk_lane_view(const s4_shape &s, const gpu_chunk_channels &c)
{
    const int64_t state = c.state;
    chunk_lane lane;
    lane.v = c.lanes + blockIdx.x * c.lane_size;
    lane.w = lane.v + s.chunk * state;
    lane.linear = lane.w + s.chunk * state;
    double *at = lane.linear + (2 + 2 * s.rank) * state;
    for (int i = 0; i < S4_CHUNK_SETUP_ROWS; i++, at += state) lane.row[i] = at;
    lane.matrices = at;
    return lane;
}

/* Where number i of a padded state (`state`) is in a split one (2 modes), or -1; and back. */
static inline __device__ int64_t split_of_padded(int64_t modes, int64_t state, int64_t i)
{
    const int64_t half = state / 2, n = i < half ? i : i - half;
    return n < modes ? n + (i < half ? 0 : modes) : -1;
}
static inline __device__ int64_t padded_of_split(int64_t modes, int64_t state, int64_t i)
{
    return i < modes ? i : state / 2 + i - modes;
}

/* v_t of all t. By one warp. */
static inline __device__ void step_inputs(const s4_shape &s, const linear_rows &linear, double *v)
{
    const int64_t state = 2 * s.modes;
    for (int64_t n = lane_of_thread(); n < s.modes; n += 32)
        put_split(v, s.modes, n, {linear.b[n], linear.b[s.modes + n]});
    for (int64_t t = 1; t < s.chunk; t++) advance(s, linear, 0, v + (t - 1) * state, v + t * state);
}

/* The row [2 Re C, -2 Im C] of an output. By one warp. */
static inline __device__ void load_read_out(const gpu_model &m, int64_t h, int64_t output, double *row)
{
    const int64_t modes = m.shape.modes;
    for (int64_t n = lane_of_thread(); n < modes; n += 32) {
        const complex_d c = load_complex(m.system.c, (output * m.shape.d_model + h) * modes + n);
        put_split(row, modes, n, {2 * c.re, -2 * c.im});
    }
}

#endif
