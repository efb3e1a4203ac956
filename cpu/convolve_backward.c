/*
 * Convolution, backward. With DY, U the spectra of dy and u, all sums in double and in the order of the batch:
 *
 *   du = irfft(conj(K^) DY) + D dy;   dD = sum over b, t of u dy;   dK = irfft(sum over b of conj(U) DY)
 *
 * One thread owns a channel with all its rows, so no sum depends on the number of threads; blocks of the batch follow
 * one another and continue the same sums.
 */
#include <omp.h>
#include <string.h>

#include "cpu/convolve_row.h"

/* u, dy, SPECTRUM -> du; adds into GRADIENT_SPECTRUM and SYSTEM_GRADIENT.d, from zero in the first block of rows. */
s4_status cpu_convolve_backward(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    const cpu_fft *fft = &((const cpu_prepared *)task->prepared)->convolution;
    const cpu_convolve_row *functions = &cpu_convolve_rows[shape->dtype];
    size_t size = functions->size;
    const double *d = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]).d;
    double *gradient_d = s4_system_gradient_view(shape, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]).d;
    double *gradient_spectra = task->buffer[S4_BUFFER_GRADIENT_SPECTRUM];
    const char *spectra = task->buffer[S4_BUFFER_SPECTRUM], *u = task->u, *dy = task->dy;
    char *rows_u = task->buffer[S4_BUFFER_ROWS_U], *rows_dy = task->buffer[S4_BUFFER_ROWS_DY], *du = task->du;
    int64_t spectrum_stride = 2 * (fft->length / 2 + 1), row_stride = s4_row_stride(fft->length);
    int64_t first = shape->resident ? task->channel : 0;

#pragma omp parallel for schedule(static) num_threads(shape->threads)
    for (int64_t i = 0; i < task->channels; i++) {
        size_t lane = size * (omp_get_thread_num() * row_stride);
        int64_t h = task->channel + i;
        double *gradient_spectrum = gradient_spectra + i * spectrum_stride;
        if (task->row == 0) {
            memset(gradient_spectrum, 0, sizeof(double) * spectrum_stride);
            gradient_d[h] = 0.0;
        }
        for (int64_t b = 0; b < task->rows; b++) {
            size_t samples = size * (b * task->batch_stride + i * task->length);
            functions->backward(fft, spectra + size * ((first + i) * spectrum_stride), d[h], task->length,
                                u + samples, dy + samples, rows_u + lane, rows_dy + lane, gradient_spectrum,
                                &gradient_d[h], du ? du + samples : NULL);
        }
    }
    return S4_OK;
}

/* GRADIENT_SPECTRUM -> KERNEL_GRADIENT of the block's channels. */
s4_status cpu_correlate(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    const cpu_fft *fft = &((const cpu_prepared *)task->prepared)->convolution;
    const cpu_convolve_row *functions = &cpu_convolve_rows[shape->dtype];
    const double *gradient_spectra = task->buffer[S4_BUFFER_GRADIENT_SPECTRUM];
    double *kernel_gradients = task->buffer[S4_BUFFER_KERNEL_GRADIENT];
    char *rows = task->buffer[S4_BUFFER_ROWS_U];
    int64_t spectrum_stride = 2 * (fft->length / 2 + 1), row_stride = s4_row_stride(fft->length);
    int64_t length = shape->kernel_length, reach = cpu_kernel_reach(shape);

#pragma omp parallel for schedule(static) num_threads(shape->threads)
    for (int64_t i = 0; i < task->channels; i++) {
        double *kernel_gradient = kernel_gradients + i * length;
        functions->correlate(fft, gradient_spectra + i * spectrum_stride, reach,
                             rows + functions->size * (omp_get_thread_num() * row_stride), kernel_gradient);
        memset(kernel_gradient + reach, 0, sizeof(double) * (length - reach));
    }
    return S4_OK;
}
