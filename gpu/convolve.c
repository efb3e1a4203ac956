/*
 * The convolution stage. The rows (h,b) of a block, h outside and b inside, are taken in tiles of exactly tile_rows
 * rows; the last tile is filled up with zero rows. So one FFT plan serves every block size, and what is computed for a
 * row does not depend on where in a tile it lies. All gradients of a tile are taken before du overwrites dy.
 */
#include "gpu/device.h"
#include "gpu/kernels/launchers.h"

static int64_t element_bytes(const s4_task *task) { return task->shape->dtype == S4_F64 ? 8 : 4; }

/* The tile that begins `done` rows into the `total` rows of a tensor (batch, channels, length). */
static gpu_row_tile tile_at(const s4_task *task, int64_t done, int64_t total, int64_t batch, int64_t batch_stride,
                            int64_t length)
{
    const s4_shape *s = task->shape;
    const int64_t left = total - done;
    return (gpu_row_tile){
        .dtype = s->dtype,
        .first = done,
        .count = left < s->tile_rows ? left : s->tile_rows,
        .lanes = s->tile_rows,
        .batch = batch,
        .batch_stride = batch_stride,
        .length = length,
        .fft_length = s->fft_length,
    };
}

/* Tiles of u, y, dy, du. */
static gpu_row_tile tensor_tile(const s4_task *task, int64_t done)
{
    return tile_at(task, done, task->channels * task->rows, task->rows, task->u_strides.batch, task->length);
}

/* Tiles of what has one row per channel. */
static gpu_row_tile channel_tile(const s4_task *task, int64_t done)
{
    return tile_at(task, done, task->channels, 1, 0, task->shape->kernel_length);
}

/* Spectrum of the block's first channel. */
static char *spectrum_of_block(const s4_task *task)
{
    const int64_t row = task->shape->resident ? task->channel : 0;
    const int64_t row_bytes = (task->shape->fft_length / 2 + 1) * 2 * element_bytes(task);
    return (char *)task->buffer[S4_BUFFER_SPECTRUM] + row * row_bytes;
}

static const double *skip_of_block(const s4_task *task)
{
    return s4_system_view(task->shape, task->buffer[S4_BUFFER_SYSTEM]).d + task->channel;
}

static s4_status spectrum(const s4_task *task)
{
    static const char operation[] = "spectrum";
    const s4_shape *s = task->shape;
    void *rows = task->buffer[S4_BUFFER_ROWS_U];
    const char *kernel = task->buffer[S4_BUFFER_KERNEL];
    const int64_t row_bytes = (s->fft_length / 2 + 1) * 2 * element_bytes(task);
    for (int64_t done = 0; done < task->channels; done += s->tile_rows) {
        const gpu_row_tile tile = channel_tile(task, done);
        GPU_TRY(gpu_launched(task, gpu_launch_pad(&tile, kernel, rows, gpu_stream(task)), operation, "k_pad"));
        GPU_TRY(gpu_transform_rows(task, GPU_ROWS_FORWARD, rows, operation));
        GPU_TRY(gpu_launched(
            task, gpu_launch_spectrum_store(&tile, rows, spectrum_of_block(task) + done * row_bytes, gpu_stream(task)),
            operation, "k_spectrum_store"));
    }
    return S4_OK;
}

static s4_status convolve(const s4_task *task)
{
    static const char operation[] = "convolve";
    void *rows = task->buffer[S4_BUFFER_ROWS_U];
    const void *kept = spectrum_of_block(task);
    for (int64_t done = 0; done < task->channels * task->rows; done += task->shape->tile_rows) {
        const gpu_row_tile tile = tensor_tile(task, done);
        GPU_TRY(gpu_launched(task, gpu_launch_pad(&tile, task->u, rows, gpu_stream(task)), operation, "k_pad"));
        GPU_TRY(gpu_transform_rows(task, GPU_ROWS_FORWARD, rows, operation));
        GPU_TRY(
            gpu_launched(task, gpu_launch_multiply(&tile, kept, 0, rows, gpu_stream(task)), operation, "k_multiply"));
        GPU_TRY(gpu_transform_rows(task, GPU_ROWS_INVERSE, rows, operation));
        GPU_TRY(gpu_launched(task,
                             gpu_launch_crop(&tile, rows, skip_of_block(task), task->u, task->y, gpu_stream(task)),
                             operation, "k_crop"));
    }
    return S4_OK;
}

static s4_status convolve_backward(const s4_task *task)
{
    static const char operation[] = "convolve backward";
    void *rows_u = task->buffer[S4_BUFFER_ROWS_U], *rows_dy = task->buffer[S4_BUFFER_ROWS_DY];
    double *sums = task->buffer[S4_BUFFER_GRADIENT_SPECTRUM];
    double *gradient_d =
        s4_system_gradient_view(task->shape, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]).d + task->channel;
    const int begin = task->row == 0;
    for (int64_t done = 0; done < task->channels * task->rows; done += task->shape->tile_rows) {
        const gpu_row_tile tile = tensor_tile(task, done);
        if (task->wanted & S4_WANTED_D)
            GPU_TRY(gpu_launched(
                task, gpu_launch_skip_gradient(&tile, task->u, task->dy, begin, gradient_d, gpu_stream(task)),
                operation, "k_skip_gradient"));
        if (!task->du && !(task->wanted & S4_WANTED_KERNEL)) continue;
        GPU_TRY(gpu_launched(task, gpu_launch_pad(&tile, task->dy, rows_dy, gpu_stream(task)), operation, "k_pad"));
        GPU_TRY(gpu_transform_rows(task, GPU_ROWS_FORWARD, rows_dy, operation));
        if (task->wanted & S4_WANTED_KERNEL) {
            GPU_TRY(gpu_launched(task, gpu_launch_pad(&tile, task->u, rows_u, gpu_stream(task)), operation, "k_pad"));
            GPU_TRY(gpu_transform_rows(task, GPU_ROWS_FORWARD, rows_u, operation));
            GPU_TRY(gpu_launched(task, gpu_launch_accumulate(&tile, rows_u, rows_dy, begin, sums, gpu_stream(task)),
                                 operation, "k_accumulate"));
        }
        if (!task->du) continue;
        GPU_TRY(gpu_launched(task, gpu_launch_multiply(&tile, spectrum_of_block(task), 1, rows_dy, gpu_stream(task)),
                             operation, "k_multiply"));
        GPU_TRY(gpu_transform_rows(task, GPU_ROWS_INVERSE, rows_dy, operation));
        GPU_TRY(gpu_launched(task,
                             gpu_launch_crop(&tile, rows_dy, skip_of_block(task), task->dy, task->du, gpu_stream(task)),
                             operation, "k_crop"));
    }
    return S4_OK;
}

static s4_status correlate(const s4_task *task)
{
    static const char operation[] = "correlate";
    const s4_shape *s = task->shape;
    void *rows = task->buffer[S4_BUFFER_ROWS_U];
    const double *sums = task->buffer[S4_BUFFER_GRADIENT_SPECTRUM];
    double *gradient = task->buffer[S4_BUFFER_KERNEL_GRADIENT];
    for (int64_t done = 0; done < task->channels; done += s->tile_rows) {
        const gpu_row_tile tile = channel_tile(task, done);
        const double *from = sums + done * (s->fft_length / 2 + 1) * 2;
        GPU_TRY(
            gpu_launched(task, gpu_launch_sums_load(&tile, from, rows, gpu_stream(task)), operation, "k_sums_load"));
        GPU_TRY(gpu_transform_rows(task, GPU_ROWS_INVERSE, rows, operation));
        GPU_TRY(gpu_launched(task,
                             gpu_launch_gradient_store(&tile, rows, s->kernel_length,
                                                       gradient + done * s->kernel_length, gpu_stream(task)),
                             operation, "k_gradient_store"));
    }
    return S4_OK;
}

s4_status gpu_spectrum(const s4_task *task) { return gpu_on_device(task, "spectrum", spectrum); }

s4_status gpu_convolve(const s4_task *task) { return gpu_on_device(task, "convolve", convolve); }

s4_status gpu_convolve_backward(const s4_task *task)
{
    return gpu_on_device(task, "convolve backward", convolve_backward);
}

s4_status gpu_correlate(const s4_task *task) { return gpu_on_device(task, "correlate", correlate); }
