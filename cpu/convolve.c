/*
 * Convolution with the kernel, forward:  y[t] = sum over s <= t of K[t-s] u[s]  + D u[t].
 *
 * The kernel's spectrum is made once per channel, then every row (b,h) is padded, transformed, multiplied and
 * transformed back in the scratch row of its thread. The FFT length is the planned one whatever the number of samples
 * in a call, so that a row's bits do not depend on the call.
 */
#include <omp.h>

#include "cpu/convolve_row.h"

/* KERNEL -> SPECTRUM of the block's channels. */
s4_status cpu_spectrum(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    const cpu_fft *fft = &((const cpu_prepared *)task->prepared)->convolution;
    const cpu_convolve_row *functions = &cpu_convolve_rows[shape->dtype];
    size_t size = functions->size;
    const char *kernel = task->buffer[S4_BUFFER_KERNEL];
    char *spectrum = task->buffer[S4_BUFFER_SPECTRUM], *rows = task->buffer[S4_BUFFER_ROWS_U];
    int64_t spectrum_stride = 2 * (fft->length / 2 + 1), row_stride = s4_row_stride(fft->length);
    int64_t first = shape->resident ? task->channel : 0;

#pragma omp parallel for schedule(static) num_threads(shape->threads)
    for (int64_t i = 0; i < task->channels; i++)
        functions->spectrum(fft, kernel + size * (i * shape->kernel_length), cpu_kernel_reach(shape),
                            rows + size * (omp_get_thread_num() * row_stride),
                            spectrum + size * ((first + i) * spectrum_stride));
    return S4_OK;
}

/* u, SPECTRUM, SYSTEM.d -> y of the block's rows. */
s4_status cpu_convolve(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    const cpu_fft *fft = &((const cpu_prepared *)task->prepared)->convolution;
    const cpu_convolve_row *functions = &cpu_convolve_rows[shape->dtype];
    size_t size = functions->size;
    const double *d = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]).d;
    const char *spectrum = task->buffer[S4_BUFFER_SPECTRUM], *u = task->u;
    char *rows = task->buffer[S4_BUFFER_ROWS_U], *y = task->y;
    int64_t spectrum_stride = 2 * (fft->length / 2 + 1), row_stride = s4_row_stride(fft->length);
    int64_t first = shape->resident ? task->channel : 0;

#pragma omp parallel for schedule(static) num_threads(shape->threads)
    for (int64_t row = 0; row < task->rows * task->channels; row++) {
        int64_t b = row / task->channels, i = row % task->channels;
        size_t samples = size * (b * task->batch_stride + i * task->length);
        functions->convolve(fft, spectrum + size * ((first + i) * spectrum_stride), d[task->channel + i],
                            task->length, u + samples, rows + size * (omp_get_thread_num() * row_stride), y + samples);
    }
    return S4_OK;
}
