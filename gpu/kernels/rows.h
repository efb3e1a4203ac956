/* Where the rows of a tile belong, and which lanes of it belong to a channel: the order that launchers.h describes. */
#ifndef GPU_KERNELS_ROWS_H
#define GPU_KERNELS_ROWS_H

#include "gpu/kernels/grid.h"
#include "gpu/kernels/launchers.h"

struct row_place {
    int64_t h, b; /* in the block */
};

static inline __host__ __device__ int channels_of_group(const gpu_row_tile &t, int64_t g)
{
    const int64_t left = t.channels - g * t.group;
    return int(left < t.group ? left : t.group);
}

/* Rows of the tile's first group from first_b on. Lanes are counted in 32 bits, so that division is quick. */
static inline __host__ __device__ int64_t rows_of_first_group(const gpu_row_tile &t)
{
    return (t.batch - t.first_b) * channels_of_group(t, t.first_group);
}

static inline __device__ row_place place_of(const gpu_row_tile &t, int64_t lane)
{
    const int64_t left = rows_of_first_group(t), rows = t.batch * t.group;
    int64_t g = t.first_group, b = t.first_b;
    int row = int(lane + t.first_h);
    if (row >= left) {
        row -= int(left);
        const int whole = rows <= row ? row / int(rows) : 0;
        row -= int(whole * rows);
        g += 1 + whole;
        b = 0;
    }
    const int size = channels_of_group(t, g), further = row / size;
    return {g * t.group + row - further * size, b + further};
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
    const int g = int(h) / int(t.group), within = int(h) - g * int(t.group), size = channels_of_group(t, g);
    int64_t before = 0, first = within - t.first_h;
    if (g == t.first_group) {
        before = t.first_b + (first < 0);
        if (first < 0) first += size;
    } else
        first += rows_of_first_group(t) + (g - t.first_group - 1) * t.batch * t.group;
    const int64_t there = first < t.count ? (int(t.count - first) + size - 1) / size : 0;
    const int64_t left = t.batch - before;
    return {first, size, there < left ? there : left, before == 0};
}

/* Channels that may have lanes in the tile: all of its groups. */
struct channel_range {
    int64_t first, count;
};
static inline channel_range channels_of(const gpu_row_tile &t)
{
    const int64_t rows = t.batch * t.group, beyond = t.first_h + t.count - rows_of_first_group(t);
    const int64_t groups = 1 + (beyond > 0 ? (beyond + rows - 1) / rows : 0);
    const int64_t first = t.first_group * t.group, end = first + groups * t.group;
    return {first, (end < t.channels ? end : t.channels) - first};
}

#endif
