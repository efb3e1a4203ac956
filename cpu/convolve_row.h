/*
 * The arithmetic of one row (batch b, channel h) of the convolution, in the dtype of the plan.
 *
 * With nf = fft_length, at least as long as signal and kernels together, a zero-padded circular convolution is the
 * linear one:  y_c[t] = irfft(K^_c U)[t] + D_c u[t]. Where a layer is bidirectional, K^_c is the spectrum of the
 * forward kernel at 0, 1 ... and of the backward kernel k1 at nf-1, nf-2 ...: sample nf-1-j meets u[t+j+1].
 *
 * Scratch rows (s4_row_stride(nf) elements) hold samples, then their spectrum, in place. A spectrum has nf/2 + 1
 * complex and is not scaled. Every function works on exactly one row, so a sample that is not finite stays in its row.
 */
#ifndef CPU_CONVOLVE_ROW_H
#define CPU_CONVOLVE_ROW_H

#include "cpu/fft.h"

/* The samples of a row in a tensor of the caller. `count` of them are read; a target has zeros from there to length. */
typedef struct cpu_source {
    const void *samples;
    int64_t stride, count;
} cpu_source;
typedef struct cpu_target {
    void *samples;
    int64_t stride, count, length;
} cpu_target;

typedef struct cpu_convolve_row {
    size_t size; /* bytes of an element */

    /* spectrum of the first `count` samples of the forward kernel and, unless it is NULL, of the backward one */
    void (*spectrum)(const cpu_fft *fft, const void *kernel, const void *backward_kernel, int64_t count, void *row,
                     void *spectrum);

    /* row = spectrum of the source, padded with zeros */
    void (*load)(const cpu_fft *fft, cpu_source source, void *row);

    /* y = irfft(K^ U) + d u, U in `row`, which is destroyed; y may be u */
    void (*convolve)(const cpu_fft *fft, const void *spectrum, double d, cpu_source u, void *row, cpu_target y);

    /* gradient_spectrum += conj(U) DY of the spectra in row_u, row_dy, unless it is NULL;  *gradient_d += sum of u dy */
    void (*gradient)(const cpu_fft *fft, cpu_source u, cpu_source dy, const void *row_u, const void *row_dy,
                     double *gradient_spectrum, double *gradient_d);

    /* du = irfft(conj(K^) DY) + d dy, DY in `row`, which is destroyed; `add`: du += that; du may be dy */
    void (*adjoint)(const cpu_fft *fft, const void *spectrum, double d, cpu_source dy, void *row, int add,
                    cpu_target du);

    /* Gradients of the first `count` samples of the forward kernel and, unless it is NULL, of the backward one, from
     * irfft(gradient_spectrum) */
    void (*correlate)(const cpu_fft *fft, const double *gradient_spectrum, int64_t count, void *row,
                      double *kernel_gradient, double *backward_gradient);
} cpu_convolve_row;

extern const cpu_convolve_row cpu_convolve_rows[]; /* by dtype: S4_F32, S4_F64 */

/* Samples of a kernel that can reach an output: those beyond the planned input meet no sample. */
static inline int64_t cpu_kernel_reach(const s4_shape *shape)
{
    return shape->kernel_length < shape->length ? shape->kernel_length : shape->length;
}

/* Of row b and channel i of the block; of output c. `b` counts from the block's first row. */
static inline int64_t cpu_samples_that_count(const s4_task *task, int64_t b)
{
    return task->lengths ? task->lengths[b] : task->length;
}
static inline cpu_source cpu_source_of(const s4_task *task, const void *tensor, const s4_strides *strides, int64_t b,
                                       int64_t i, int64_t c)
{
    int64_t offset = b * strides->batch + i * strides->channel + c * strides->output;
    int64_t size = (int64_t)cpu_convolve_rows[task->shape->dtype].size;
    return (cpu_source){(const char *)tensor + size * offset, strides->time, cpu_samples_that_count(task, b)};
}
static inline cpu_target cpu_target_of(const s4_task *task, void *tensor, const s4_strides *strides, int64_t b,
                                       int64_t i, int64_t c)
{
    int64_t offset = b * strides->batch + i * strides->channel + c * strides->output;
    int64_t size = (int64_t)cpu_convolve_rows[task->shape->dtype].size;
    return (cpu_target){(char *)tensor + size * offset, strides->time, cpu_samples_that_count(task, b), task->length};
}

#endif
