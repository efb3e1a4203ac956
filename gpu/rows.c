/*
 * Rows (h,b) of a block in tiles, out of tensors of the caller and back: which rows a tile has, and which of two kernels
 * reads or writes a tensor, by whether its samples or its channels are neighbours.
 *
 * By FFT a tile has exactly tile_rows lanes, the last one filled up with zero rows, so that one FFT plan serves every block
 * size. In chunks it has as many as are left.
 */
#include "gpu/rows.h"

#include <stdlib.h>

/* Channels whose rows are neighbours: enough for whole memory sectors where channels are, and for many threads in sums
 * over the batch; few enough for several rows of a channel in a tile. Values do not depend on it. One where lanes of
 * chunks are rows of a recurrence, too, whose batch is inside. */
static int64_t group_of(const s4_task *task)
{
    const s4_shape *s = task->shape;
    const int64_t eighth = s4_gpu_row_lanes(s) / 8;
    if (s->chunk && s->states) return 1;
    return gpu_least(task->channels, eighth < 8 ? 8 : gpu_least(eighth, 32));
}

gpu_row_tile gpu_row_tile_at(const s4_task *task, int64_t done)
{
    const s4_shape *s = task->shape;
    const int64_t group = group_of(task), first_group = done / (task->rows * group);
    const int64_t row = done - first_group * task->rows * group,
                  size = gpu_least(group, task->channels - first_group * group);
    const int64_t lanes = s4_gpu_row_lanes(s), count = gpu_least(task->channels * task->rows - done, lanes);
    return (gpu_row_tile){
        .dtype = s->dtype,
        .first_group = first_group,
        .first_b = row / size,
        .first_h = row % size,
        .count = count,
        .lanes = s->chunk ? count : lanes,
        .channels = task->channels,
        .batch = task->rows,
        .group = group,
        .outputs = s->channels,
        .length = task->length,
        .fft_length = s4_gpu_row_length(s),
        .lengths = task->lengths,
    };
}

/* Whether channels are closer to each other than samples. */
static int lies_along_channels(const s4_task *task, const s4_strides *strides)
{
    return task->channels > 1 && task->length > 1 && llabs(strides->channel) < llabs(strides->time);
}

s4_status gpu_pad_rows(const s4_task *task, const gpu_row_tile *tile, const void *tensor, const s4_strides *strides,
                       int64_t outputs, const void *rows_u, void *rows, double *partials, const char *operation)
{
    if (!lies_along_channels(task, strides)) {
        GPU_LAUNCH(pad, tile, tensor, strides, outputs, rows_u, rows, partials);
        return S4_OK;
    }
    GPU_LAUNCH(pad_transposed, tile, tensor, strides, outputs, rows);
    if (partials) GPU_LAUNCH(skip_products, tile, rows_u, rows, partials);
    return S4_OK;
}

s4_status gpu_crop_rows(const s4_task *task, const gpu_row_tile *tile, const void *rows, const gpu_crop *crop,
                        const char *operation)
{
    if (lies_along_channels(task, &crop->to_strides))
        GPU_LAUNCH(crop_transposed, tile, rows, crop);
    else
        GPU_LAUNCH(crop, tile, rows, crop);
    return S4_OK;
}
