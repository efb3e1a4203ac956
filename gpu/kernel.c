/*
 * The kernel stage: effective parameters -> K, and dL/dK -> gradients of the effective parameters. The channels of a
 * block are taken tile by tile; a lane of a tile is a channel.
 */
#include "gpu/device.h"
#include "gpu/kernels/launchers.h"

/* The tile of the block's channels that begins `done` channels in. */
static gpu_kernel_tile tile_at(const s4_task *task, int64_t done)
{
    const s4_shape *s = task->shape;
    const int64_t left = task->channels - done;
    return (gpu_kernel_tile){
        .system = s4_system_view(s, task->buffer[S4_BUFFER_SYSTEM]),
        .channel = task->channel + done,
        .count = left < s->tile_channels ? left : s->tile_channels,
        .lanes = s->tile_channels,
        .d_model = s->d_model,
        .modes = s->modes,
        .rank = s->rank,
        .n_ssm = s->n_ssm,
        .length = s->kernel_length,
        .rows = task->buffer[S4_BUFFER_KERNEL_ROWS],
    };
}

static s4_status kernel(const s4_task *task)
{
    static const char operation[] = "kernel";
    const s4_shape *s = task->shape;
    char *out = task->buffer[S4_BUFFER_KERNEL];
    const int64_t row_bytes = s->kernel_length * (s->dtype == S4_F64 ? 8 : 4);
    for (int64_t done = 0; done < task->channels; done += s->tile_channels) {
        const gpu_kernel_tile tile = tile_at(task, done);
        GPU_TRY(
            gpu_launched(task, gpu_launch_kernel_spectrum(&tile, gpu_stream(task)), operation, "k_kernel_spectrum"));
        GPU_TRY(gpu_transform_rows(task, GPU_KERNEL_INVERSE, tile.rows, operation));
        GPU_TRY(gpu_launched(task, gpu_launch_kernel_store(&tile, s->dtype, out + done * row_bytes, gpu_stream(task)),
                             operation, "k_kernel_store"));
    }
    return S4_OK;
}

static s4_status kernel_backward(const s4_task *task)
{
    static const char operation[] = "kernel backward";
    const s4_shape *s = task->shape;
    const double *gradient = task->buffer[S4_BUFFER_KERNEL_GRADIENT];
    double *adjoint = task->buffer[S4_BUFFER_KERNEL_ADJOINT], *terms = task->buffer[S4_BUFFER_KERNEL_TERMS];
    const s4_system_gradient out = s4_system_gradient_view(s, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]);
    for (int64_t done = 0; done < task->channels; done += s->tile_channels) {
        const gpu_kernel_tile tile = tile_at(task, done);
        GPU_TRY(gpu_launched(task,
                             gpu_launch_gradient_load(&tile, gradient + done * s->kernel_length, gpu_stream(task)),
                             operation, "k_gradient_load"));
        GPU_TRY(gpu_transform_rows(task, GPU_KERNEL_FORWARD, tile.rows, operation));
        GPU_TRY(gpu_launched(task, gpu_launch_kernel_adjoint(&tile, adjoint, gpu_stream(task)), operation,
                             "k_kernel_adjoint"));
        GPU_TRY(gpu_launched(task, gpu_launch_mode_sums(&tile, adjoint, terms, gpu_stream(task)), operation,
                             "k_mode_sums"));
        GPU_TRY(gpu_launched(task, gpu_launch_mode_gradients(&tile, terms, &out, gpu_stream(task)), operation,
                             "k_mode_gradients"));
    }
    return S4_OK;
}

s4_status gpu_kernel(const s4_task *task) { return gpu_on_device(task, "kernel", kernel); }

s4_status gpu_kernel_backward(const s4_task *task) { return gpu_on_device(task, "kernel backward", kernel_backward); }
