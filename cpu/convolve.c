/*
 * Convolution with the kernels, forward; c counts the outputs of a channel:
 *
 *   y_c[t] = sum over s <= t of K_c[t-s] u[s]  (+ sum over s > t of K1_c[s-t-1] u[s])  + D_c u[t]
 *
 * The spectra are made once per channel, then every row (b,h,c) is padded, transformed, multiplied and transformed back
 * in the scratch row of its thread. The FFT length is the planned one whatever the number of samples in a call, so
 * that a row's bits do not depend on the call.
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
    const char *kernels = task->buffer[S4_BUFFER_KERNEL];
    char *spectra = task->buffer[S4_BUFFER_SPECTRUM], *rows = task->buffer[S4_BUFFER_ROWS_U];
    int64_t spectrum_stride = 2 * (fft->length / 2 + 1), row_stride = s4_row_stride(fft->length);
    int64_t outputs = shape->channels, first = shape->resident ? task->channel : 0;

#pragma omp parallel for schedule(static) num_threads(cpu_lanes(shape->threads))
    for (int64_t row = 0; row < task->channels * outputs; row++) {
        int64_t i = row / outputs, c = row % outputs;
        const char *kernel = kernels + size * ((c * task->channels + i) * shape->kernel_length);
        const char *backward_kernel =
            shape->bidirectional ? kernel + size * (outputs * task->channels * shape->kernel_length) : NULL;
        functions->spectrum(fft, kernel, backward_kernel, cpu_kernel_reach(shape),
                            rows + size * (omp_get_thread_num() * row_stride),
                            spectra + size * (((first + i) * outputs + c) * spectrum_stride));
    }
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
    const char *spectra = task->buffer[S4_BUFFER_SPECTRUM];
    char *rows = task->buffer[S4_BUFFER_ROWS_U];
    int64_t spectrum_stride = 2 * (fft->length / 2 + 1), row_stride = s4_row_stride(fft->length);
    int64_t outputs = shape->channels, first = shape->resident ? task->channel : 0;

#pragma omp parallel for schedule(static) num_threads(cpu_lanes(shape->threads))
    for (int64_t row = 0; row < task->rows * task->channels * outputs; row++) {
        int64_t b = row / outputs / task->channels, i = row / outputs % task->channels, c = row % outputs;
        cpu_source u = cpu_source_of(task, task->u, &task->u_strides, b, i, 0);
        cpu_target y = cpu_target_of(task, task->y, &task->y_strides, b, i, c);
        char *scratch = rows + size * (omp_get_thread_num() * row_stride);
        functions->load(fft, u, scratch);
        functions->convolve(fft, spectra + size * (((first + i) * outputs + c) * spectrum_stride),
                            d[c * shape->d_model + task->channel + i], u, scratch, y);
    }
    return S4_OK;
}
