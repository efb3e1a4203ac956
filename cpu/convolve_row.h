/*
 * The arithmetic of one row (batch b, channel h) of the convolution, in the dtype of the plan.
 *
 * With nf = fft_length, at least as long as signal and kernel together, a zero-padded circular convolution is the
 * causal one:  y[t] = irfft(K^ U)[t] + D u[t]. Scratch rows (s4_row_stride(nf) elements) hold samples, then their
 * spectrum, in place. A spectrum has nf/2 + 1 complex and is not scaled. Every function works on exactly one row, so
 * a sample that is not finite stays in its row.
 */
#ifndef CPU_CONVOLVE_ROW_H
#define CPU_CONVOLVE_ROW_H

#include "cpu/fft.h"

typedef struct cpu_convolve_row {
    size_t size; /* bytes of an element */

    /* spectrum (nf/2 + 1 complex) of the first `count` samples of the kernel */
    void (*spectrum)(const cpu_fft *fft, const void *kernel, int64_t count, void *row, void *spectrum);

    /* y = K * u + d u, `count` samples; y may be u */
    void (*convolve)(const cpu_fft *fft, const void *spectrum, double d, int64_t count, const void *u, void *row,
                     void *y);

    /* gradient_spectrum += conj(U) DY;  *gradient_d += sum of u dy;  du = irfft(conj(K^) DY) + d dy unless du is
     * NULL; du may be dy */
    void (*backward)(const cpu_fft *fft, const void *spectrum, double d, int64_t count, const void *u, const void *dy,
                     void *row_u, void *row_dy, double *gradient_spectrum, double *gradient_d, void *du);

    /* kernel_gradient = first `count` samples of irfft(gradient_spectrum) */
    void (*correlate)(const cpu_fft *fft, const double *gradient_spectrum, int64_t count, void *row,
                      double *kernel_gradient);
} cpu_convolve_row;

extern const cpu_convolve_row cpu_convolve_rows[]; /* by dtype: S4_F32, S4_F64 */

/* Samples of the kernel that can reach an output: those beyond the planned input meet no sample. */
static inline int64_t cpu_kernel_reach(const s4_shape *shape)
{
    return shape->kernel_length < shape->length ? shape->kernel_length : shape->length;
}

#endif
