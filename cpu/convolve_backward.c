/*
 * Convolution, backward. With DY_c, U the spectra of dy_c and u, all sums in the order of batch, then outputs:
 *
 *   du = sum over c of irfft(conj(K^_c) DY_c) + D_c dy_c;   dD_c = sum over b, t of u dy_c;
 *   dK_c = irfft(sum over b of conj(U) DY_c), its end, read backwards, being the gradient of a backward kernel
 *
 * One thread owns a channel with all its rows, so no sum depends on the number of threads; blocks of the batch follow
 * one another and continue the same sums. Sums over the batch are in double.
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
    const char *spectra = task->buffer[S4_BUFFER_SPECTRUM];
    char *rows_u = task->buffer[S4_BUFFER_ROWS_U], *rows_dy = task->buffer[S4_BUFFER_ROWS_DY];
    int64_t spectrum_stride = 2 * (fft->length / 2 + 1), row_stride = s4_row_stride(fft->length);
    int64_t outputs = shape->channels, first = shape->resident ? task->channel : 0;
    int kernel_wanted = (task->wanted & S4_WANTED_KERNEL) != 0; /* GRADIENT_SPECTRUM may not be there else */

#pragma omp parallel for schedule(static) num_threads(cpu_lanes(shape->threads))
    for (int64_t i = 0; i < task->channels; i++) {
        int64_t lane = omp_get_thread_num() * row_stride, h = task->channel + i;
        char *row_u = rows_u + size * lane, *row_dy = rows_dy + size * lane;
        double *of_channel = kernel_wanted ? gradient_spectra + i * outputs * spectrum_stride : NULL;
        if (task->row == 0) {
            if (kernel_wanted)
                memset(of_channel, 0, sizeof(double) * outputs * spectrum_stride);
            for (int64_t c = 0; c < outputs; c++) gradient_d[c * shape->d_model + h] = 0.0;
        }
        for (int64_t b = 0; b < task->rows; b++) {
            cpu_source u = cpu_source_of(task, task->u, &task->u_strides, b, i, 0);
            if (kernel_wanted) functions->load(fft, u, row_u);
            for (int64_t c = 0; c < outputs; c++) {
                cpu_source dy = cpu_source_of(task, task->dy, &task->dy_strides, b, i, c);
                functions->load(fft, dy, row_dy);
                functions->gradient(fft, u, dy, row_u, row_dy, kernel_wanted ? of_channel + c * spectrum_stride : NULL,
                                    &gradient_d[c * shape->d_model + h]);
                if (!task->du) continue;
                functions->adjoint(fft, spectra + size * (((first + i) * outputs + c) * spectrum_stride),
                                   d[c * shape->d_model + h], dy, row_dy, c > 0,
                                   cpu_target_of(task, task->du, &task->du_strides, b, i, 0));
            }
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
    int64_t length = shape->kernel_length, reach = cpu_kernel_reach(shape), outputs = shape->channels;

#pragma omp parallel for schedule(static) num_threads(cpu_lanes(shape->threads))
    for (int64_t row = 0; row < task->channels * outputs; row++) {
        int64_t i = row / outputs, c = row % outputs;
        double *gradient = kernel_gradients + (c * task->channels + i) * length;
        double *backward_gradient = shape->bidirectional ? gradient + outputs * task->channels * length : NULL;
        functions->correlate(fft, gradient_spectra + row * spectrum_stride, reach,
                             rows + functions->size * (omp_get_thread_num() * row_stride), gradient, backward_gradient);
        memset(gradient + reach, 0, sizeof(double) * (length - reach));
        if (backward_gradient) memset(backward_gradient + reach, 0, sizeof(double) * (length - reach));
    }
    return S4_OK;
}
