/* Where the rows of a tile belong, and which lanes of it belong to a channel: the order that launchers.h describes. */
#ifndef GPU_KERNELS_ROWS_H
#define GPU_KERNELS_ROWS_H

#include "gpu/kernels/grid.h"
#include "gpu/kernels/launchers.h"

struct row_place {
    int64_t h, b; /* in the block */
};

static inline __device__ int64_t channels_of_group(const gpu_row_tile &t, int64_t g)
{
    const int64_t left = t.channels - g * t.group;
    return left < t.group ? left : t.group;
}

static inline __device__ row_place place_of(const gpu_row_tile &t, int64_t lane)
{
    const int64_t row = t.first + lane, rows = t.batch * t.group, g = row / rows;
    const int64_t size = channels_of_group(t, g), within = row - g * rows, b = within / size;
    return {g * t.group + within - b * size, b};
}

static inline __device__ int64_t samples_that_count(const gpu_row_tile &t, int64_t b)
{
    return t.lengths ? t.lengths[b] : t.length;
}

/* Lanes of channel h: `count` of them from `first` on, `step` apart, b rising; whether they begin at b = 0. */
struct channel_lanes {
    int64_t first, step, count;
    bool begins;
};
static inline __device__ channel_lanes lanes_of(const gpu_row_tile &t, int64_t h)
{
    const int64_t g = h / t.group, size = channels_of_group(t, g);
    const int64_t origin = g * t.group * t.batch + h - g * t.group - t.first; /* lane of b = 0, maybe before the tile */
    const int64_t before = origin < 0 ? (size - 1 - origin) / size : 0;
    const int64_t end = origin < t.count ? (t.count - origin + size - 1) / size : 0;
    const int64_t last = end < t.batch ? end : t.batch;
    return {origin + before * size, size, last > before ? last - before : 0, before == 0};
}

/* Channels that may have lanes in the tile: all of its groups. */
struct channel_range {
    int64_t first, count;
};
static inline channel_range channels_of(const gpu_row_tile &t)
{
    const int64_t rows = t.batch * t.group, first = t.first / rows * t.group;
    const int64_t end = ((t.first + t.count - 1) / rows + 1) * t.group;
    return {first, (end < t.channels ? end : t.channels) - first};
}

#endif
