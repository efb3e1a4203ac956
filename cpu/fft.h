/*
 * FFTW behind a small interface: the real transforms of DPLR kernels, one row at a time, in place, in double. (The
 * convolution has transforms of its own: level/ring.h.)
 *
 * A row of real length m holds m reals, or their m/2 + 1 complex frequencies; the next row of a buffer is
 * s4_row_stride(m) reals further on, so every row is aligned like the first one, one plan serves all rows, and bits
 * do not depend on the row. Nothing is scaled: inverse(forward(x)) = m x.
 */
#ifndef CPU_FFT_H
#define CPU_FFT_H

#include "cpu/level/ring.h"
#include "cpu/place.h"

typedef struct cpu_fft {
    int64_t length; /* reals in a row; 0: no plans */
    void *forward;  /* r2c */
    void *inverse;  /* c2r */
} cpu_fft;

/* What cpu_prepare makes for a shape. */
typedef struct cpu_prepared {
    cpu_fft kernel; /* DPLR: double, kernel_length: K^ <-> K */
    cpu_ring ring;  /* of the convolution */
} cpu_prepared;
/* Length of the FFTs that a shape needs, or 0. */
int64_t cpu_fft_length(const s4_shape *shape);

/* Nothing is measured: plans are those of this process's wisdom where there is some, else estimated, the same in every
 * process. `untuned`: estimated, whatever wisdom there is. S4_ERROR_MEMORY, S4_ERROR_LIBRARY; *fft is empty then. */
s4_status cpu_fft_open(cpu_fft *fft, int64_t length, int untuned);
void cpu_fft_close(cpu_fft *fft);

/* Reals to frequencies and back. The row must begin at a multiple of 64 bytes. Any thread, any number at once. */
void cpu_fft_forward(const cpu_fft *fft, double *row);
void cpu_fft_inverse(const cpu_fft *fft, double *row);

/* ---- for wisdom.c ---------------------------------------------------------------------------------------------- */

/* Wisdom belongs to the whole process, and so to whoever else uses FFTW in it. The four that follow want the lock. */
void cpu_fft_lock(void);
void cpu_fft_unlock(void);

/* Measures both directions, for at most `seconds` each; what is found becomes wisdom. S4_ERROR_MEMORY. */
s4_status cpu_fft_measure(int64_t length, double seconds);
/* The wisdom as text; free() it. NULL: no memory. */
char *cpu_fft_wisdom(void);
/* Adds wisdom from text; 0 if it is none of this FFTW. */
int cpu_fft_learn(const char *text);
void cpu_fft_forget(void);
/* What tells this FFTW apart: version and code it was built with. */
const char *cpu_fft_version(void);

#endif
