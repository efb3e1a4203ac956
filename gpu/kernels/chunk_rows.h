/* The rows of a channel in a tile of chunks: which of their chunks have samples that count, and where states of the caller
 * lie. */
#ifndef GPU_KERNELS_CHUNK_ROWS_H
#define GPU_KERNELS_CHUNK_ROWS_H

#include "gpu/kernels/launchers_chunk.h"
#include "gpu/kernels/raw.h"
#include "gpu/kernels/rows.h"

struct chunk_row {
    row_place place;
    int64_t chunks, whole; /* with samples that count; full of them */
};
static inline __device__ chunk_row chunk_row_of(const gpu_chunk_tile &t, int64_t lane)
{
    const row_place place = place_of(t.rows, lane);
    const int64_t length = samples_that_count(t.rows, place.b);
    return {place, (length + t.chunk - 1) / t.chunk, length / t.chunk};
}

/* Number i of N^ of a state: element of a pair, or -1 where it is padded. */
static inline __device__ int64_t element_of_state(const gpu_chunk_tile &t, int64_t i)
{
    const int64_t half = t.state / 2, n = i < half ? i : i - half;
    return n < t.modes ? 2 * n + (i >= half) : -1;
}

/* The state of a row. */
static inline __device__ double *states_of_row(const gpu_chunk_states &states, const row_place &place)
{
    return states.at + (place.b * states.batch + place.h * states.channel);
}

/* Lanes that a channel may have in a tile. */
static inline int64_t most_lanes(const gpu_chunk_tile &t)
{
    return t.rows.batch < t.rows.count ? t.rows.batch : t.rows.count;
}

#endif
