/*
 * Convolution with the kernels, forward; c counts the outputs of a channel:
 *
 *   y_c[t] = sum over s <= t of K_c[t-s] u[s]  (+ sum over s > t of K1_c[s-t-1] u[s])  + D_c u[t]
 *
 * The spectra are made once per channel. Every row (b,h) then goes through its thread's scratch alone: it is
 * transformed, multiplied and transformed back; once for all its outputs there, once for each back. The length of the
 * transform is the planned one whatever the number of samples in a call, so that a row's bits do not depend on the
 * call.
 */
#include "cpu/convolve.h"

#include <stdlib.h>
#include <string.h>

/* ---- the ring ---------------------------------------------------------------------------------------------------- */

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

/* ---- operations -------------------------------------------------------------------------------------------------- */

/* KERNEL -> SPECTRUM of the block's channels. */
s4_status cpu_spectrum(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    const cpu_row_functions *functions = cpu_rows_of(task);
    const char *kernels = task->buffer[S4_BUFFER_KERNEL];
    int64_t outputs = shape->channels, length = shape->kernel_length;

    atomic_llong taken = 0;
#pragma omp parallel num_threads(cpu_lanes(shape->threads))
    for (int64_t row; (row = cpu_next_task(&taken, 1)) < task->channels * outputs;) {
        int64_t i = row / outputs, c = row % outputs;
        const char *kernel = kernels + functions->size * (size_t)((c * task->channels + i) * length);
        const char *backward_kernel =
            shape->bidirectional ? kernel + functions->size * (size_t)(outputs * task->channels * length) : NULL;
        functions->spectrum(cpu_ring_of(task), kernel, backward_kernel, cpu_kernel_reach(shape),
                            cpu_spectrum_of(task, i, c));
    }
    return S4_OK;
}

void cpu_stage_in(const s4_task *task, const void *tensor, const s4_strides *strides, int64_t b, int64_t i,
                  int64_t channels, int64_t index)
{
    cpu_source source = cpu_source_of(task, tensor, strides, b, i, 0);
    cpu_rows_of(task)->stage_in(source.samples, source.stride, channels, source.count, cpu_staged_row(task, index),
                                s4_stage_stride(task->shape));
}

void cpu_stage_out(const s4_task *task, int64_t index, int64_t b, int64_t i, int64_t channels, void *tensor,
                   const s4_strides *strides)
{
    const cpu_row_functions *functions = cpu_rows_of(task);
    cpu_target target = cpu_target_of(task, tensor, strides, b, i, 0);
    functions->stage_out(cpu_staged_row(task, index), s4_stage_stride(task->shape), channels, target.count,
                         target.samples, target.stride);
    for (int64_t t = target.count; t < target.length; t++)
        memset((char *)target.samples + functions->size * (size_t)(t * target.stride), 0,
               functions->size * (size_t)channels);
}

/* Row b of channel i; y: of output 0. `next` are the samples of the row that follows, or NULL. */
static void convolve_row(const s4_task *task, int64_t b, int64_t i, cpu_source u, cpu_target y, const void *next)
{
    const s4_shape *shape = task->shape;
    const cpu_row_functions *functions = cpu_rows_of(task);
    const double *d = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]).d + task->channel + i;
    int64_t rows = s4_ring_rows(shape), outputs = shape->channels;
    cpu_ring_row row = {
        .ring = cpu_ring_of(task),
        .work = CPU_RING_CONVOLVE,
        .wide = shape->length > cpu_ring_of(task)->points,
        .source = u,
        .row = cpu_scratch_row(task, S4_BUFFER_ROWS_U, rows, 0),
        .cold = b == 0 || !cpu_stays_warm(task),
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
        row.target = y;
        row.target.samples = (char *)y.samples + functions->size * (size_t)(c * task->y_strides.output);
        functions->row(&row);
    }
}

static void convolve_staged(const s4_task *task, int64_t b, int64_t i, int64_t channels)
{
    int64_t count = cpu_samples_that_count(task, b);
    cpu_stage_in(task, task->u, &task->u_strides, b, i, channels, 0);
    for (int64_t j = 0; j < channels; j++) {
        char *samples = cpu_staged_row(task, j);
        convolve_row(task, b, i + j, (cpu_source){samples, 1, count}, (cpu_target){samples, 1, count, count}, NULL);
    }
    cpu_stage_out(task, 0, b, i, channels, task->y, &task->y_strides);
}

/* Task n of those of the block: row n % rows of the group of channels n / rows. `is_followed`: n + 1 comes next here. */
static void convolve_task(const s4_task *task, int64_t n, int64_t together, int is_followed)
{
    int64_t rows = task->rows, b = n % rows, i = n / rows * together, left = task->channels - i;
    if (cpu_is_staged(task, &task->u_strides) && cpu_is_staged(task, &task->y_strides)) {
        convolve_staged(task, b, i, together < left ? together : left);
        return;
    }
    const void *next = NULL;
    if (task->u_strides.time == 1 && is_followed)
        next = cpu_source_of(task, task->u, &task->u_strides, (n + 1) % rows, (n + 1) / rows, 0).samples;
    convolve_row(task, b, i, cpu_source_of(task, task->u, &task->u_strides, b, i, 0),
                 cpu_target_of(task, task->y, &task->y_strides, b, i, 0), next);
}

/* u, SPECTRUM, SYSTEM.d -> y of the block's rows. Rows of one channel follow one another, as they share a spectrum.
 * Where samples of several channels share a cache line, so many channels of one batch row go together. */
s4_status cpu_convolve(const s4_task *task)
{
    int staged = cpu_is_staged(task, &task->u_strides) && cpu_is_staged(task, &task->y_strides);
    int64_t threads = cpu_lanes(task->shape->threads), together = staged ? task->shape->stage_channels : 1;
    int64_t count = task->rows * ((task->channels + together - 1) / together);
    int64_t share = task->rows * task->channels / (CPU_TASKS_PER_THREAD * threads);
    int64_t grain = staged || share < 1 ? 1 : share < CPU_TASK_ROWS ? share : CPU_TASK_ROWS;
    atomic_llong taken = 0;

#pragma omp parallel num_threads((int)threads)
    for (int64_t first; (first = cpu_next_task(&taken, grain)) < count;) {
        int64_t end = first + grain < count ? first + grain : count;
        for (int64_t n = first; n < end; n++) convolve_task(task, n, together, n + 1 < end);
    }
    return S4_OK;
}
