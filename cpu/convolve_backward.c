/*
 * Convolution, backward. With DY_c, U the spectra of dy_c and u, all sums in the order of batch, then outputs:
 *
 *   du = inverse of (sum over c of conj(K^_c) DY_c) + sum over c of D_c dy_c;   dD_c = sum over b, t of u dy_c;
 *   dK_c = inverse of (sum over b of conj(U) DY_c), its end, read backwards, being the gradient of a backward kernel
 *
 * One thread owns a channel with all its rows, so no sum depends on the number of threads; blocks of the batch follow
 * one another and continue the same sums. Sums over the batch are in double.
 */
#include <string.h>

#include "cpu/convolve.h"

/* Everything of row b of channel i; dy: of output 0. sums: of the channel, or NULL; du: nowhere, or the row's; `next`:
 * u of the row that follows, or NULL. */
static void backward_row(const s4_task *task, int64_t b, int64_t i, cpu_source u, cpu_source dy, cpu_target du,
                         double *sums, const void *next)
{
    int begin = task->row + b == 0;
    const s4_shape *shape = task->shape;
    const cpu_row_functions *functions = cpu_rows_of(task);
    const double *d = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]).d + task->channel + i;
    double *gradient_d = s4_system_gradient_view(shape, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]).d + task->channel + i;
    int64_t points = cpu_ring_of(task)->points, rows = s4_ring_rows(shape), outputs = shape->channels;
    cpu_ring_row row = {
        .ring = cpu_ring_of(task),
        .work = CPU_RING_FORWARD,
        .wide = shape->length > points,
        .source = u,
        .row = cpu_scratch_row(task, S4_BUFFER_ROWS_U, rows, 0),
        .cold = b == 0 || !cpu_stays_warm(task),
        .next = u.stride == 1 && dy.stride == 1 ? dy.samples : NULL,
    };
    if (sums) functions->row(&row);
    row.u = row.row;
    row.row = cpu_scratch_row(task, S4_BUFFER_ROWS_DY, 1, 0);
    if (outputs > 1) row.sum = cpu_scratch_row(task, S4_BUFFER_ROWS_U, rows, 1);
    row.skip = (cpu_skip){
        .d = d, .d_stride = shape->d_model, .source = dy, .output_stride = task->dy_strides.output, .outputs = outputs};
    row.target = du;
    row.next = next;
    row.source = dy;
    for (int64_t c = 0; c < outputs; c++) {
        row.source.samples = (const char *)dy.samples + functions->size * (size_t)(c * task->dy_strides.output);
        if (task->wanted & S4_WANTED_D) gradient_d[c * shape->d_model] += functions->inner(u, row.source);
        row.work = CPU_RING_FORWARD;
        if (sums) row.work |= CPU_RING_GRADIENT;
        if (sums && begin) row.work |= CPU_RING_BEGIN;
        if (task->du) row.work |= CPU_RING_ADJOINT;
        if (task->du && c > 0) row.work |= CPU_RING_ADD;
        if (task->du) row.work |= c < outputs - 1 ? CPU_RING_SUM : CPU_RING_INVERSE;
        row.gradient = sums ? sums + c * 2 * points : NULL;
        row.kernel = cpu_spectrum_of(task, i, c);
        if (sums || task->du) functions->row(&row);
    }
}

/* All rows of channel i. */
static void backward_channel(const s4_task *task, int64_t i, double *sums)
{
    for (int64_t b = 0; b < task->rows; b++) {
        cpu_source u = cpu_source_of(task, task->u, &task->u_strides, b, i, 0);
        const void *next = NULL;
        cpu_target du = {0};
        if (b + 1 < task->rows && u.stride == 1)
            next = cpu_source_of(task, task->u, &task->u_strides, b + 1, i, 0).samples;
        if (task->du) du = cpu_target_of(task, task->du, &task->du_strides, b, i, 0);
        backward_row(task, b, i, u, cpu_source_of(task, task->dy, &task->dy_strides, b, i, 0), du, sums, next);
    }
}

/* All rows of channels [i, i + channels), which stand side by side. sums: of channel i, or NULL. */
static void backward_staged(const s4_task *task, int64_t i, int64_t channels, double *sums, int64_t sums_stride)
{
    int64_t dy_rows = task->shape->stage_channels;
    for (int64_t b = 0; b < task->rows; b++) {
        int64_t count = cpu_samples_that_count(task, b);
        cpu_stage_in(task, task->u, &task->u_strides, b, i, channels, 0);
        cpu_stage_in(task, task->dy, &task->dy_strides, b, i, channels, dy_rows);
        for (int64_t j = 0; j < channels; j++) {
            char *u = cpu_staged_row(task, j), *dy = cpu_staged_row(task, dy_rows + j);
            backward_row(task, b, i + j, (cpu_source){u, 1, count}, (cpu_source){dy, 1, count},
                         (cpu_target){dy, 1, count, count}, sums ? sums + j * sums_stride : NULL, NULL);
        }
        if (task->du) cpu_stage_out(task, dy_rows, b, i, channels, task->du, &task->du_strides);
    }
}

/* u, dy, SPECTRUM -> du; adds into GRADIENT_SPECTRUM and SYSTEM_GRADIENT.d, from zero in the first block of rows. */
s4_status cpu_convolve_backward(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    double *gradient_d = s4_system_gradient_view(shape, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]).d + task->channel;
    double *gradient_spectra = task->buffer[S4_BUFFER_GRADIENT_SPECTRUM];
    int64_t outputs = shape->channels, count = outputs * 2 * cpu_ring_of(task)->points;
    int staged = cpu_is_staged(task, &task->u_strides) && cpu_is_staged(task, &task->dy_strides) &&
                 (!task->du || cpu_is_staged(task, &task->du_strides));
    int64_t together = staged ? shape->stage_channels : 1;

    atomic_llong taken = 0;
#pragma omp parallel num_threads(cpu_lanes(shape->threads))
    for (int64_t i; (i = cpu_next_task(&taken, together)) < task->channels;) {
        int64_t channels = together < task->channels - i ? together : task->channels - i;
        double *sums = task->wanted & S4_WANTED_KERNEL ? gradient_spectra + i * count : NULL;
        for (int64_t c = 0; task->row == 0 && c < outputs; c++)
            memset(gradient_d + c * shape->d_model + i, 0, sizeof(double) * (size_t)channels);
        if (staged)
            backward_staged(task, i, channels, sums, count);
        else
            backward_channel(task, i, sums);
    }
    return S4_OK;
}

/* GRADIENT_SPECTRUM -> KERNEL_GRADIENT of the block's channels. */
s4_status cpu_correlate(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    const double *gradient_spectra = task->buffer[S4_BUFFER_GRADIENT_SPECTRUM];
    double *kernel_gradients = task->buffer[S4_BUFFER_KERNEL_GRADIENT];
    int64_t length = shape->kernel_length, reach = cpu_kernel_reach(shape), outputs = shape->channels;

    atomic_llong taken = 0;
#pragma omp parallel num_threads(cpu_lanes(shape->threads))
    for (int64_t row; (row = cpu_next_task(&taken, 1)) < task->channels * outputs;) {
        int64_t i = row / outputs, c = row % outputs;
        double *gradient = kernel_gradients + (c * task->channels + i) * length;
        double *backward_gradient = shape->bidirectional ? gradient + outputs * task->channels * length : NULL;
        cpu_rows_of(task)->correlate(cpu_ring_of(task), gradient_spectra + row * 2 * cpu_ring_of(task)->points, reach,
                                     cpu_scratch_row(task, S4_BUFFER_ROWS_U, s4_ring_rows(shape), 0), gradient,
                                     backward_gradient);
        memset(gradient + reach, 0, sizeof(double) * (size_t)(length - reach));
        if (backward_gradient) memset(backward_gradient + reach, 0, sizeof(double) * (size_t)(length - reach));
    }
    return S4_OK;
}
