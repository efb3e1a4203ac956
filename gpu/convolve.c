/*
 * The convolution stage. The rows (h,b) of a block are taken in tiles of exactly tile_rows rows; the last tile is
 * filled up with zero rows. So one FFT plan serves every block size, and what is computed for a row does not depend on
 * where in a tile it lies. With M outputs a tile of u has M tiles of products, or of dy, which the same plan transforms
 * one after the other. All gradients of a tile are taken before du overwrites dy.
 */
#include <stdlib.h>

#include "gpu/device.h"
#include "gpu/kernels/launchers.h"

#define LAUNCH(kernel, ...)                                                                                            \
    GPU_TRY(gpu_launched(task, gpu_launch_##kernel(__VA_ARGS__, gpu_stream(task)), operation, "k_" #kernel))

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static size_t element_bytes(const s4_task *task) { return task->shape->dtype == S4_F64 ? 8 : 4; }

/* Channels whose rows are neighbours: enough for whole memory sectors where channels are, and for many threads in sums
 * over the batch; few enough for several rows of a channel in a tile. Values do not depend on it. */
static int64_t group_of(const s4_task *task)
{
    const int64_t eighth = task->shape->tile_rows / 8;
    return least(task->channels, eighth < 8 ? 8 : least(eighth, 32));
}

/* The tile of u, y, dy, du that begins `done` rows in. */
static gpu_row_tile row_tile(const s4_task *task, int64_t done)
{
    const s4_shape *s = task->shape;
    const int64_t group = group_of(task), first_group = done / (task->rows * group);
    const int64_t row = done - first_group * task->rows * group,
                  size = least(group, task->channels - first_group * group);
    return (gpu_row_tile){
        .dtype = s->dtype,
        .first_group = first_group,
        .first_b = row / size,
        .first_h = row % size,
        .count = least(task->channels * task->rows - done, s->tile_rows),
        .lanes = s->tile_rows,
        .channels = task->channels,
        .batch = task->rows,
        .group = group,
        .outputs = s->channels,
        .length = task->length,
        .fft_length = s->fft_length,
        .lengths = task->lengths,
    };
}

/* The tile of kernels and spectra that begins `done` rows in. */
static gpu_output_tile output_tile(const s4_task *task, int64_t done)
{
    const s4_shape *s = task->shape;
    return (gpu_output_tile){
        .dtype = s->dtype,
        .bidirectional = s->bidirectional,
        .first = done,
        .count = least(task->channels * s->channels - done, s->tile_rows),
        .lanes = s->tile_rows,
        .channels = task->channels,
        .outputs = s->channels,
        .kernel_length = s->kernel_length,
        .reach = least(s->kernel_length, s->length),
        .fft_length = s->fft_length,
    };
}

/* Spectrum of the block's first channel. */
static void *spectrum_of_block(const s4_task *task)
{
    const int64_t row = task->shape->resident ? task->channel * task->shape->channels : 0;
    const int64_t reals = (task->shape->fft_length / 2 + 1) * 2;
    return (char *)task->buffer[S4_BUFFER_SPECTRUM] + (size_t)(row * reals) * element_bytes(task);
}

static const double *skip_of_block(const s4_task *task)
{
    return s4_system_view(task->shape, task->buffer[S4_BUFFER_SYSTEM]).d + task->channel;
}

/* Whether channels are closer to each other than samples. */
static int lies_along_channels(const s4_task *task, const s4_strides *strides)
{
    return task->channels > 1 && task->length > 1 && llabs(strides->channel) < llabs(strides->time);
}

/* Pads `outputs` rows per lane of a tensor; with the products with rows_u, if there are to be partial sums. */
static s4_status pad(const s4_task *task, const gpu_row_tile *tile, const void *tensor, const s4_strides *strides,
                     int64_t outputs, const void *rows_u, void *rows, double *partials, const char *operation)
{
    if (!lies_along_channels(task, strides)) {
        LAUNCH(pad, tile, tensor, strides, outputs, rows_u, rows, partials);
        return S4_OK;
    }
    LAUNCH(pad_transposed, tile, tensor, strides, outputs, rows);
    if (partials) LAUNCH(skip_products, tile, rows_u, rows, partials);
    return S4_OK;
}

static s4_status crop(const s4_task *task, const gpu_row_tile *tile, const void *rows, const gpu_crop *crop,
                      const char *operation)
{
    if (lies_along_channels(task, &crop->to_strides))
        LAUNCH(crop_transposed, tile, rows, crop);
    else
        LAUNCH(crop, tile, rows, crop);
    return S4_OK;
}

/* Transforms the tiles of `outputs` outputs. */
static s4_status transform(const s4_task *task, gpu_transform which, void *rows, int64_t outputs, const char *operation)
{
    const s4_shape *s = task->shape;
    const size_t tile = (size_t)(s->tile_rows * s4_row_stride(s->fft_length)) * element_bytes(task);
    for (int64_t c = 0; c < outputs; c++)
        GPU_TRY(gpu_transform_rows(task, which, (char *)rows + (size_t)c * tile, operation));
    return S4_OK;
}

static s4_status spectrum(const s4_task *task)
{
    static const char operation[] = "spectrum";
    void *rows = task->buffer[S4_BUFFER_ROWS_U];
    const int64_t total = task->channels * task->shape->channels;
    for (int64_t done = 0; done < total; done += task->shape->tile_rows) {
        const gpu_output_tile tile = output_tile(task, done);
        LAUNCH(kernel_pad, &tile, task->buffer[S4_BUFFER_KERNEL], rows);
        GPU_TRY(gpu_transform_rows(task, GPU_ROWS_FORWARD, rows, operation));
        LAUNCH(spectrum_store, &tile, rows, spectrum_of_block(task));
    }
    return S4_OK;
}

static s4_status convolve(const s4_task *task)
{
    static const char operation[] = "convolve";
    const s4_shape *s = task->shape;
    void *rows_u = task->buffer[S4_BUFFER_ROWS_U], *rows = s->channels > 1 ? task->buffer[S4_BUFFER_ROWS_DY] : rows_u;
    const gpu_crop y = {
        .from = task->u,
        .to = task->y,
        .from_strides = task->u_strides,
        .to_strides = task->y_strides,
        .outputs_from = 1,
        .outputs_to = s->channels,
        .d = skip_of_block(task),
        .d_model = s->d_model,
    };
    for (int64_t done = 0; done < task->channels * task->rows; done += s->tile_rows) {
        const gpu_row_tile tile = row_tile(task, done);
        GPU_TRY(pad(task, &tile, task->u, &task->u_strides, 1, NULL, rows_u, NULL, operation));
        GPU_TRY(transform(task, GPU_ROWS_FORWARD, rows_u, 1, operation));
        LAUNCH(multiply, &tile, spectrum_of_block(task), rows_u, rows);
        GPU_TRY(transform(task, GPU_ROWS_INVERSE, rows, s->channels, operation));
        GPU_TRY(crop(task, &tile, rows, &y, operation));
    }
    return S4_OK;
}

/* The work area of the FFTs holds partial sums before they need it. */
static s4_status convolve_backward(const s4_task *task)
{
    static const char operation[] = "convolve backward";
    const s4_shape *s = task->shape;
    void *rows_u = task->buffer[S4_BUFFER_ROWS_U], *rows_dy = task->buffer[S4_BUFFER_ROWS_DY];
    double *sums = task->wanted & S4_WANTED_KERNEL ? task->buffer[S4_BUFFER_GRADIENT_SPECTRUM] : NULL;
    double *partials = NULL, *gradient_d = NULL;
    if (task->wanted & S4_WANTED_D) {
        partials = task->buffer[S4_BUFFER_CONVOLVE_FFT_WORK];
        gradient_d = s4_system_gradient_view(s, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]).d + task->channel;
    }
    const void *spectra = task->du ? spectrum_of_block(task) : NULL;
    const int begin = task->row == 0;
    const gpu_crop du = {
        .from = task->dy,
        .to = task->du,
        .from_strides = task->dy_strides,
        .to_strides = task->du_strides,
        .outputs_from = s->channels,
        .outputs_to = 1,
        .d = skip_of_block(task),
        .d_model = s->d_model,
    };
    for (int64_t done = 0; done < task->channels * task->rows; done += s->tile_rows) {
        const gpu_row_tile tile = row_tile(task, done);
        if (sums || partials) GPU_TRY(pad(task, &tile, task->u, &task->u_strides, 1, NULL, rows_u, NULL, operation));
        GPU_TRY(pad(task, &tile, task->dy, &task->dy_strides, s->channels, rows_u, rows_dy, partials, operation));
        if (partials) LAUNCH(skip_sums, &tile, partials, begin, s->d_model, gradient_d);
        if (!sums && !spectra) continue;
        if (sums) GPU_TRY(transform(task, GPU_ROWS_FORWARD, rows_u, 1, operation));
        GPU_TRY(transform(task, GPU_ROWS_FORWARD, rows_dy, s->channels, operation));
        LAUNCH(spectra_backward, &tile, rows_u, spectra, begin, rows_dy, sums);
        if (!spectra) continue;
        GPU_TRY(transform(task, GPU_ROWS_INVERSE, rows_dy, 1, operation));
        GPU_TRY(crop(task, &tile, rows_dy, &du, operation));
    }
    return S4_OK;
}

static s4_status correlate(const s4_task *task)
{
    static const char operation[] = "correlate";
    void *rows = task->buffer[S4_BUFFER_ROWS_U];
    const int64_t total = task->channels * task->shape->channels;
    for (int64_t done = 0; done < total; done += task->shape->tile_rows) {
        const gpu_output_tile tile = output_tile(task, done);
        LAUNCH(sums_load, &tile, task->buffer[S4_BUFFER_GRADIENT_SPECTRUM], rows);
        GPU_TRY(gpu_transform_rows(task, GPU_ROWS_INVERSE, rows, operation));
        LAUNCH(kernel_gradient, &tile, rows, task->buffer[S4_BUFFER_KERNEL_GRADIENT]);
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
