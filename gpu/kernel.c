/*
 * The kernel stage: effective parameters -> K, and dL/dK -> gradients of the effective parameters. Those of a diagonal
 * system are in diagonal.c. DPLR: the kernels of the block, (channel, kernel) with kernels inside, are taken in tiles
 * of exactly tile_channels, the last filled up with zeros: a lane of a tile is a kernel. So one FFT plan serves all.
 *
 * A kernel that is not finite is an error, which names the first such channel and frequency or sample, where the host
 * waits for the device anyway: when kernels are made at refresh, or to be handed out. Where they are made again in
 * every forward and backward pass, which must not wait, nobody asks.
 */
#include "gpu/kernel.h"
#include "gpu/setup.h"

gpu_system gpu_system_of(const s4_task *task)
{
    const s4_shape *s = task->shape;
    return (gpu_system){
        .view = s4_system_view(s, task->buffer[S4_BUFFER_SYSTEM]),
        .d_model = s->d_model,
        .modes = s->modes,
        .rank = s->rank,
        .n_ssm = s->n_ssm,
        .dt_modes = s->dt_modes,
    };
}

gpu_flag_word *gpu_bad_index(const s4_task *task)
{
    const s4_shape *s = task->shape;
    gpu_flag_word *flags = task->buffer[S4_BUFFER_FLAGS];
    return s->resident || s->direction == S4_DIRECTION_KERNEL ? flags + GPU_FLAG_KERNEL : NULL;
}

/* ---- DPLR -------------------------------------------------------------------------------------------------------- */

/* The tile that begins with kernel `done` of the block. */
static gpu_kernel_tile tile_at(const s4_task *task, int64_t done)
{
    const s4_shape *s = task->shape;
    const int64_t left = task->channels * s->kernels - done;
    return (gpu_kernel_tile){
        .system = gpu_system_of(task),
        .channel = task->channel,
        .channels = task->channels,
        .kernels = s->kernels,
        .first = done,
        .count = left < s->tile_channels ? left : s->tile_channels,
        .lanes = s->tile_channels,
        .length = s->kernel_length,
        .sums = s->kernel_dtype,
        .rows = task->buffer[S4_BUFFER_KERNEL_ROWS],
        .bad_index = gpu_bad_index(task),
    };
}

static s4_status dplr_kernels(const s4_task *task, const char *operation)
{
    const s4_shape *s = task->shape;
    void *out = task->buffer[S4_BUFFER_KERNEL];
    for (int64_t done = 0; done < task->channels * s->kernels; done += s->tile_channels) {
        const gpu_kernel_tile tile = tile_at(task, done);
        GPU_TRY(
            gpu_launched(task, gpu_launch_kernel_spectrum(&tile, gpu_stream(task)), operation, "k_kernel_spectrum"));
        GPU_TRY(gpu_transform_rows(task, GPU_KERNEL_INVERSE, tile.rows, operation));
        GPU_TRY(gpu_launched(task, gpu_launch_kernel_store(&tile, s->dtype, out, gpu_stream(task)), operation,
                             "k_kernel_store"));
    }
    return S4_OK;
}

static s4_status dplr_backward(const s4_task *task, const char *operation)
{
    const s4_shape *s = task->shape;
    const double *gradient = task->buffer[S4_BUFFER_KERNEL_GRADIENT];
    void *adjoint = task->buffer[S4_BUFFER_KERNEL_ADJOINT];
    double *terms = task->buffer[S4_BUFFER_KERNEL_TERMS];
    const s4_system_gradient out = s4_system_gradient_view(s, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]);
    for (int64_t done = 0; done < task->channels * s->kernels; done += s->tile_channels) {
        const gpu_kernel_tile tile = tile_at(task, done);
        GPU_TRY(gpu_launched(task, gpu_launch_gradient_load(&tile, gradient, gpu_stream(task)), operation,
                             "k_gradient_load"));
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

/* ---- both kinds of systems --------------------------------------------------------------------------------------- */

static int64_t frequencies_of(int64_t length) { return length / 2 + 1; }
static int64_t samples_of(int64_t length) { return length; }

static const struct {
    s4_status (*kernels)(const s4_task *task, const char *operation);
    s4_status (*backward)(const s4_task *task, const char *operation);
    int64_t (*points)(int64_t length); /* bad_index is (channel, kernel, point) */
    const char *point, *causes;
} kinds[] = {
    [S4_MODE_DPLR] = {dplr_kernels, dplr_backward, frequencies_of, "frequency",
                      "an eigenvalue of A is on the boundary of stability (0 at frequency 0), or out of range"},
    [S4_MODE_DIAG] = {gpu_diagonal_kernels, gpu_diagonal_backward, samples_of, "sample",
                      "an eigenvalue of A is 2 / dt (bilinear), grows beyond all bounds, or is out of range"},
};

s4_status gpu_kernel_fail(const s4_shape *s, int64_t failed)
{
    const int64_t points = kinds[s->mode].points(s->kernel_length), all_points = s->kernels * points;
    return gpu_host->fail(
        S4_ERROR_SINGULAR, "the kernel of channel %lld (row %lld of C) is not finite at %s %lld of 0 ... %lld: %s%s",
        (long long)(failed / all_points), (long long)(failed % all_points / points), kinds[s->mode].point,
        (long long)(failed % points), (long long)(points - 1), kinds[s->mode].causes,
        s->kernel_dtype == S4_F32 ? "; kernel_dtype f64 has more range" : "");
}

/* The flags begin anew with the first block, unless the set-up on the device has begun them. */
static s4_status kernel(const s4_task *task)
{
    const int in_refresh = task->shape->direction != S4_DIRECTION_KERNEL;
    const int after_setup = in_refresh && task->buffer[S4_BUFFER_RAW] != NULL;
    gpu_flag_word *flags;
    if (gpu_bad_index(task)) GPU_TRY(gpu_flags_open(task, task->channel == 0 && !after_setup, &flags));
    return kinds[task->shape->mode].kernels(task, "kernel");
}

static s4_status kernel_backward(const s4_task *task)
{
    return kinds[task->shape->mode].backward(task, "kernel backward");
}

s4_status gpu_kernel(const s4_task *task) { return gpu_on_device(task, "kernel", kernel); }

s4_status gpu_kernel_backward(const s4_task *task) { return gpu_on_device(task, "kernel backward", kernel_backward); }
