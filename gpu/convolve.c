/*
 * The convolution stage by FFT. Rows (h,b) of a block are taken in tiles (rows.c); what is computed for a row does not depend
 * on where in a tile it lies. With M outputs a tile of u has M tiles of products, or of dy, which the same plan transforms
 * one after the other. All gradients of a tile are taken before du overwrites dy.
 */
#include "gpu/rows.h"

/* The tile of kernels and spectra that begins `done` rows in. */
static gpu_output_tile output_tile(const s4_task *task, int64_t done)
{
    const s4_shape *s = task->shape;
    return (gpu_output_tile){
        .dtype = s->dtype,
        .bidirectional = s->bidirectional,
        .first = done,
        .count = gpu_least(task->channels * s->channels - done, s->tile_rows),
        .lanes = s->tile_rows,
        .channels = task->channels,
        .outputs = s->channels,
        .kernel_length = s->kernel_length,
        .reach = gpu_least(s->kernel_length, s->length),
        .fft_length = s->fft_length,
    };
}

/* Spectrum of the block's first channel. */
static void *spectrum_of_block(const s4_task *task)
{
    const int64_t row = task->shape->resident ? task->channel * task->shape->channels : 0;
    const int64_t reals = (task->shape->fft_length / 2 + 1) * 2;
    return (char *)task->buffer[S4_BUFFER_SPECTRUM] + (size_t)(row * reals) * gpu_element_bytes(task);
}

static const double *skip_of_block(const s4_task *task)
{
    return s4_system_view(task->shape, task->buffer[S4_BUFFER_SYSTEM]).d + task->channel;
}

/* Transforms the tiles of `outputs` outputs. */
static s4_status transform(const s4_task *task, gpu_transform which, void *rows, int64_t outputs, const char *operation)
{
    const s4_shape *s = task->shape;
    const size_t tile = (size_t)(s->tile_rows * s4_row_stride(s->fft_length)) * gpu_element_bytes(task);
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
        GPU_LAUNCH(kernel_pad, &tile, task->buffer[S4_BUFFER_KERNEL], rows);
        GPU_TRY(gpu_transform_rows(task, GPU_ROWS_FORWARD, rows, operation));
        GPU_LAUNCH(spectrum_store, &tile, rows, spectrum_of_block(task));
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
        .scale = 1 / (double)s->fft_length,
        .d = skip_of_block(task),
        .d_model = s->d_model,
    };
    for (int64_t done = 0; done < task->channels * task->rows; done += s->tile_rows) {
        const gpu_row_tile tile = gpu_row_tile_at(task, done);
        GPU_TRY(gpu_pad_rows(task, &tile, task->u, &task->u_strides, 1, NULL, rows_u, NULL, operation));
        GPU_TRY(transform(task, GPU_ROWS_FORWARD, rows_u, 1, operation));
        GPU_LAUNCH(multiply, &tile, spectrum_of_block(task), rows_u, rows);
        GPU_TRY(transform(task, GPU_ROWS_INVERSE, rows, s->channels, operation));
        GPU_TRY(gpu_crop_rows(task, &tile, rows, &y, operation));
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
        .scale = 1 / (double)s->fft_length,
        .d = skip_of_block(task),
        .d_model = s->d_model,
    };
    for (int64_t done = 0; done < task->channels * task->rows; done += s->tile_rows) {
        const gpu_row_tile tile = gpu_row_tile_at(task, done);
        if (sums || partials) GPU_TRY(gpu_pad_rows(task, &tile, task->u, &task->u_strides, 1, NULL, rows_u, NULL, operation));
        GPU_TRY(gpu_pad_rows(task, &tile, task->dy, &task->dy_strides, s->channels, rows_u, rows_dy, partials, operation));
        if (partials) GPU_LAUNCH(skip_sums, &tile, partials, begin, s->d_model, gradient_d);
        if (!sums && !spectra) continue;
        if (sums) GPU_TRY(transform(task, GPU_ROWS_FORWARD, rows_u, 1, operation));
        GPU_TRY(transform(task, GPU_ROWS_FORWARD, rows_dy, s->channels, operation));
        GPU_LAUNCH(spectra_backward, &tile, rows_u, spectra, begin, rows_dy, sums);
        if (!spectra) continue;
        GPU_TRY(transform(task, GPU_ROWS_INVERSE, rows_dy, 1, operation));
        GPU_TRY(gpu_crop_rows(task, &tile, rows_dy, &du, operation));
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
        GPU_LAUNCH(sums_load, &tile, task->buffer[S4_BUFFER_GRADIENT_SPECTRUM], rows);
        GPU_TRY(gpu_transform_rows(task, GPU_ROWS_INVERSE, rows, operation));
        GPU_LAUNCH(kernel_gradient, &tile, rows, task->buffer[S4_BUFFER_KERNEL_GRADIENT]);
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
