/* What the operations of the convolution share: the ring of the plan's rows (cpu/level/ring.h), and rows of tensors. */
#ifndef CPU_CONVOLVE_H
#define CPU_CONVOLVE_H

#include <omp.h>

#include "cpu/fft.h"
#include "cpu/level/ring.h"

/* The table of a ring's twiddles. S4_ERROR_MEMORY; *ring is empty then. */
s4_status cpu_ring_open(cpu_ring *ring, const s4_device *device, const s4_shape *shape);
void cpu_ring_close(cpu_ring *ring);

/* Threads take a few rows at a time, fewer where they would not have several turns each. Bits do not depend on it. */
#define CPU_TASK_ROWS 8
#define CPU_TASKS_PER_THREAD 8

static inline const cpu_ring *cpu_ring_of(const s4_task *task) { return &((const cpu_prepared *)task->prepared)->ring; }
static inline const cpu_row_functions *cpu_rows_of(const s4_task *task)
{
    return &cpu_rows_at(task->device)->dtype[task->shape->dtype];
}

/* Samples of a kernel that can reach an output: those beyond the planned input meet no sample. */
static inline int64_t cpu_kernel_reach(const s4_shape *shape)
{
    return shape->kernel_length < shape->length ? shape->kernel_length : shape->length;
}

/* Row `index` of the calling thread in ROWS_U or ROWS_DY, which hold `rows` of each. */
static inline void *cpu_scratch_row(const s4_task *task, s4_buffer buffer, int64_t rows, int64_t index)
{
    size_t bytes = 2 * cpu_rows_of(task)->size * (size_t)cpu_ring_of(task)->points;
    return (char *)task->buffer[buffer] + bytes * (size_t)(omp_get_thread_num() * rows + index);
}

/* Whether the spectra of a channel are still in a core's cache when its next row meets them. */
#define CPU_WARM_BYTES (1 << 19)
static inline int cpu_stays_warm(const s4_task *task)
{
    int64_t spectrum = 2 * (int64_t)cpu_rows_of(task)->size * cpu_ring_of(task)->points;
    return spectrum * task->shape->channels <= CPU_WARM_BYTES;
}

/* Spectrum of output c of channel i of the block. */
static inline char *cpu_spectrum_of(const s4_task *task, int64_t i, int64_t c)
{
    size_t bytes = 2 * cpu_rows_of(task)->size * (size_t)cpu_ring_of(task)->points;
    int64_t first = task->shape->resident ? task->channel : 0;
    return (char *)task->buffer[S4_BUFFER_SPECTRUM] + bytes * (size_t)((first + i) * task->shape->channels + c);
}

/* Of row b and channel i of the block; of output c. */
static inline int64_t cpu_samples_that_count(const s4_task *task, int64_t b)
{
    return task->lengths ? task->lengths[b] : task->length;
}
static inline cpu_source cpu_source_of(const s4_task *task, const void *tensor, const s4_strides *strides, int64_t b,
                                       int64_t i, int64_t c)
{
    int64_t offset = b * strides->batch + i * strides->channel + c * strides->output;
    int64_t size = (int64_t)cpu_rows_of(task)->size;
    return (cpu_source){(const char *)tensor + size * offset, strides->time, cpu_samples_that_count(task, b)};
}
static inline cpu_target cpu_target_of(const s4_task *task, void *tensor, const s4_strides *strides, int64_t b,
                                       int64_t i, int64_t c)
{
    int64_t offset = b * strides->batch + i * strides->channel + c * strides->output;
    int64_t size = (int64_t)cpu_rows_of(task)->size;
    return (cpu_target){(char *)tensor + size * offset, strides->time, cpu_samples_that_count(task, b), task->length};
}

/* Whether this tensor's channels stand side by side, and are turned into rows by a few at a time. */
static inline int cpu_is_staged(const s4_task *task, const s4_strides *strides)
{
    return task->shape->stage_channels && strides->channel == 1 && strides->time != 1;
}
/* The calling thread's staged row `index`; of u, then of dy. */
static inline char *cpu_staged_row(const s4_task *task, int64_t index)
{
    const s4_shape *shape = task->shape;
    int64_t rows = shape->stage_channels * (shape->direction == S4_DIRECTION_TRAINING ? 2 : 1);
    return (char *)task->buffer[S4_BUFFER_ROWS_STAGE] +
           cpu_rows_of(task)->size * (size_t)((omp_get_thread_num() * rows + index) * s4_stage_stride(shape));
}
/* Channels [i, i + channels) of batch row b of the block: into staged rows from `index` on; back, with zeros behind. */
void cpu_stage_in(const s4_task *task, const void *tensor, const s4_strides *strides, int64_t b, int64_t i,
                  int64_t channels, int64_t index);
void cpu_stage_out(const s4_task *task, int64_t index, int64_t b, int64_t i, int64_t channels, void *tensor,
                   const s4_strides *strides);

#endif
