/*
 * Kernels of a diagonal system, K[l] = 2 Re sum over n of C_n B_n w_n p_n^l, by the product of two small matrices of
 * powers, and the way back. The channels of the block are taken in tiles of tile_channels, each with all its kernels,
 * which share the powers.
 */
#include "gpu/kernel.h"

static gpu_diagonal_tile tile_at(const s4_task *task, int64_t done)
{
    const s4_shape *s = task->shape;
    const int64_t left = task->channels - done;
    gpu_diagonal_tile tile = {
        .system = gpu_system_of(task),
        .discretisation = s->discretisation,
        .channel = task->channel,
        .channels = task->channels,
        .kernels = s->kernels,
        .first = done,
        .count = left < s->tile_channels ? left : s->tile_channels,
        .length = s->kernel_length,
        .width = s4_vandermonde_width(s->kernel_length),
        .bad_index = gpu_bad_index(task),
    };
    const int64_t modes = s->tile_channels * s->modes; /* of all lanes */
    tile.rows = (tile.length + tile.width - 1) / tile.width;
    tile.fine = task->buffer[S4_BUFFER_KERNEL_TERMS];
    tile.coarse = tile.fine + 2 * modes * tile.width;
    tile.weight = tile.coarse + 2 * modes * tile.rows;
    tile.moments = tile.weight + 2 * modes;
    tile.growing = tile.moments + 4 * modes * s->kernels;
    return tile;
}

s4_status gpu_diagonal_kernels(const s4_task *task, const char *operation)
{
    const s4_shape *s = task->shape;
    void *out = task->buffer[S4_BUFFER_KERNEL];
    for (int64_t done = 0; done < task->channels; done += s->tile_channels) {
        const gpu_diagonal_tile tile = tile_at(task, done);
        GPU_TRY(gpu_launched(task, gpu_launch_powers(&tile, gpu_stream(task)), operation, "k_powers"));
        if (s->discretisation == S4_DSS)
            GPU_TRY(gpu_launched(task, gpu_launch_growing_product(&tile, gpu_stream(task)), operation, "k_product"));
        GPU_TRY(gpu_launched(task, gpu_launch_product(&tile, s->dtype, out, gpu_stream(task)), operation, "k_product"));
    }
    return S4_OK;
}

s4_status gpu_diagonal_backward(const s4_task *task, const char *operation)
{
    const s4_shape *s = task->shape;
    const double *gradient = task->buffer[S4_BUFFER_KERNEL_GRADIENT];
    const s4_system_gradient out = s4_system_gradient_view(s, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]);
    for (int64_t done = 0; done < task->channels; done += s->tile_channels) {
        const gpu_diagonal_tile tile = tile_at(task, done);
        GPU_TRY(gpu_launched(task, gpu_launch_powers(&tile, gpu_stream(task)), operation, "k_powers"));
        GPU_TRY(gpu_launched(task, gpu_launch_moments(&tile, gradient, gpu_stream(task)), operation, "k_moments"));
        GPU_TRY(gpu_launched(task, gpu_launch_diagonal_gradients(&tile, &out, gpu_stream(task)), operation,
                             "k_diagonal_gradients"));
    }
    return S4_OK;
}
