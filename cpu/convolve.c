/*
 * Convolution with the kernels, forward; c counts the outputs of a channel:
 *
 *   y_c[t] = sum over s <= t of K_c[t-s] u[s]  (+ sum over s > t of K1_c[s-t-1] u[s])  + D_c u[t]
 *
 * The spectra are made once per channel. Every row (b,h) then goes through its thread's scratch alone: it is transformed,
 * multiplied and transformed back; once for all its outputs there, once for each back. The length of the transform is the
 * planned one whatever the number of samples in a call, so that a row's bits do not depend on the call.
 */
#include "cpu/convolve.h"

#include <stdlib.h>

/* ---- the ring ------------------------------------------------------------------------------------------------------ */

#define TABLE_ALIGNMENT 64

s4_status cpu_ring_open(cpu_ring *ring, const s4_device *device, const s4_shape *shape)
{
    const cpu_row_functions *functions = &cpu_rows_at(device)->dtype[shape->dtype];
    *ring = (cpu_ring){0};
    functions->plan(ring, s4_ring_points(shape));
    size_t bytes = (size_t)ring->table_count * functions->size;
    bytes = (bytes + TABLE_ALIGNMENT - 1) / TABLE_ALIGNMENT * TABLE_ALIGNMENT;
    ring->table = aligned_alloc(TABLE_ALIGNMENT, bytes);
    if (!ring->table)
        return cpu_host->fail(S4_ERROR_MEMORY, "the twiddles of a convolution of FFT length %lld need %zu bytes",
                              (long long)shape->fft_length, bytes);
    functions->fill(ring);
    return S4_OK;
}

void cpu_ring_close(cpu_ring *ring)
{
    free(ring->table);
    *ring = (cpu_ring){0};
}

/* ---- operations ----------------------------------------------------------------------------------------------------- */

/* KERNEL -> SPECTRUM of the block's channels. */
s4_status cpu_spectrum(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    const cpu_row_functions *functions = cpu_rows_of(task);
    const char *kernels = task->buffer[S4_BUFFER_KERNEL];
    int64_t outputs = shape->channels, length = shape->kernel_length;

#pragma omp parallel for schedule(dynamic) num_threads(cpu_lanes(shape->threads))
    for (int64_t row = 0; row < task->channels * outputs; row++) {
        int64_t i = row / outputs, c = row % outputs;
        const char *kernel = kernels + functions->size * (size_t)((c * task->channels + i) * length);
        const char *backward_kernel =
            shape->bidirectional ? kernel + functions->size * (size_t)(outputs * task->channels * length) : NULL;
        functions->spectrum(cpu_ring_of(task), kernel, backward_kernel, cpu_kernel_reach(shape),
                            cpu_spectrum_of(task, i, c));
    }
    return S4_OK;
}

/* Row b of channel i; `next` is that of the one that follows, or NULL. */
static void convolve_row(const s4_task *task, int64_t b, int64_t i, const void *next)
{
    const s4_shape *shape = task->shape;
    const cpu_row_functions *functions = cpu_rows_of(task);
    const double *d = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]).d + task->channel + i;
    int64_t rows = s4_ring_rows(shape), outputs = shape->channels;
    cpu_source u = cpu_source_of(task, task->u, &task->u_strides, b, i, 0);
    cpu_ring_row row = {
        .ring = cpu_ring_of(task),
        .work = CPU_RING_CONVOLVE,
        .wide = shape->length > cpu_ring_of(task)->points,
        .source = u,
        .row = cpu_scratch_row(task, S4_BUFFER_ROWS_U, rows, 0),
    };
    if (outputs == 1) {
        row.next = next;
    } else {
        row.work = CPU_RING_FORWARD;
        functions->row(&row);
        row.work = CPU_RING_MULTIPLY | CPU_RING_INVERSE;
        row.from = row.row;
        row.row = cpu_scratch_row(task, S4_BUFFER_ROWS_U, rows, 1);
    }
    for (int64_t c = 0; c < outputs; c++) {
        row.kernel = cpu_spectrum_of(task, i, c);
        row.skip = (cpu_skip){.d = d + c * shape->d_model, .source = u, .outputs = 1};
        row.target = cpu_target_of(task, task->y, &task->y_strides, b, i, c);
        functions->row(&row);
    }
}

/* u, SPECTRUM, SYSTEM.d -> y of the block's rows. Rows of one channel follow one another, as they share a spectrum; but
 * where samples of several channels share a cache line, channels of one batch row do. */
s4_status cpu_convolve(const s4_task *task)
{
    int by_channel = task->u_strides.time == 1, threads = cpu_lanes(task->shape->threads);
    int64_t rows = task->rows, channels = task->channels, share = rows * channels / (CPU_TASKS_PER_THREAD * threads);
    int grain = share > CPU_TASK_ROWS ? CPU_TASK_ROWS : share > 1 ? (int)share : 1;

#pragma omp parallel for schedule(dynamic, grain) num_threads(threads)
    for (int64_t n = 0; n < rows * channels; n++) {
        const void *next = NULL;
        if (by_channel && (n + 1) % grain && n + 1 < rows * channels)
            next = cpu_source_of(task, task->u, &task->u_strides, (n + 1) % rows, (n + 1) / rows, 0).samples;
        convolve_row(task, by_channel ? n % rows : n / channels, by_channel ? n / rows : n % channels, next);
    }
    return S4_OK;
}
