/*
 * FFTW behind a small interface: real transforms of one row, in place, in both precisions.
 *
 * A row of real length m holds m reals, or their m/2 + 1 complex frequencies; the next row of a buffer is
 * s4_row_stride(m) reals further on, so every row is aligned like the first one, one plan serves all rows, and bits
 * do not depend on the row. Nothing is scaled: inverse(forward(x)) = m x.
 */
#ifndef CPU_FFT_H
#define CPU_FFT_H

#include "cpu/place.h"

typedef struct cpu_fft {
    s4_dtype dtype;
    int64_t length;     /* reals in a row; 0: no plans */
    void *forward;      /* r2c */
    void *inverse;      /* c2r */
} cpu_fft;

/* What cpu_prepare makes for a shape. */
typedef struct cpu_prepared {
    cpu_fft kernel;      /* double, kernel_length: K^ <-> K */
    cpu_fft convolution; /* dtype of the plan, fft_length */
} cpu_prepared;

/* Plans are the same in every process: nothing is measured. S4_ERROR_MEMORY, S4_ERROR_LIBRARY; *fft is empty then. */
s4_status cpu_fft_open(cpu_fft *fft, s4_dtype dtype, int64_t length);
void cpu_fft_close(cpu_fft *fft);

/* Reals to frequencies and back. The row must begin at a multiple of 64 bytes. Any thread, any number at once. */
void cpu_fft_forward_f32(const cpu_fft *fft, float *row);
void cpu_fft_forward_f64(const cpu_fft *fft, double *row);
void cpu_fft_inverse_f32(const cpu_fft *fft, float *row);
void cpu_fft_inverse_f64(const cpu_fft *fft, double *row);

#endif
