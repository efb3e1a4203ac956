/*
 * The CPU place, seen from inside: every operation of its table (s4/backend.h says what each one reads and writes).
 *
 *   place.c       the table; open, close, describe
 *   transforms.c  raw -> effective parameters
 *   discretise.c  one bilinear step of a DPLR system in O(nR); dense dA and dB
 *   power.c       dense matrix products and powers
 *   set_up.c      C <-> C~ between lengths
 *   step_*.c      the recurrence: linear and dense
 *   chain.c       gradients of effective parameters -> gradients of raw parameters
 *   legs.c        HiPPO-LegS initialisation
 *   kernel*.c     C~ -> K by the generating function, and back
 *   fft.*         FFTW plans and their single rows
 *   convolve*.c   spectra, convolution, correlation
 */
#ifndef CPU_PLACE_H
#define CPU_PLACE_H

#include <stddef.h>
#include <stdint.h>

#include "s4/backend.h"

/* Services of the core: error texts. Set once, before any operation runs. */
extern const s4_host *cpu_host;

/* ---- set-up, recurrence, chain --------------------------------------------------------------------------------- */

s4_status cpu_transform(const s4_task *task);
s4_status cpu_read_out(const s4_task *task);
s4_status cpu_step_system(const s4_task *task);
s4_status cpu_step(const s4_task *task);
s4_status cpu_states(const s4_task *task);
s4_status cpu_chain(const s4_task *task);
s4_status cpu_discrete(const s4_setup *setup, double *dA, double *dB, int64_t power, double *dA_power);
s4_status cpu_convert_c(const s4_setup *setup, int64_t from, int64_t to, double *c);
s4_status cpu_effective(const s4_shape *shape, const s4_raw *raw, const s4_system *system);
s4_status cpu_legs(int64_t modes, double *scratch, double *lambda, double *p, double *b);

/* ---- parts of set-up and recurrence -------------------------------------------------------------------------- */

/* t(raw) and dt/draw of the five transforms (transforms.c). */
double cpu_transform_value(s4_transform transform, double raw);
double cpu_transform_slope(s4_transform transform, double raw);
/* Index of the first value that is NaN or infinite, or -1 (transforms.c). */
int64_t cpu_first_not_finite(int64_t count, const double *values);

/*
 * One channel's bilinear step (discretise.c). Every vector here is split: n real parts, then n imaginary parts, so
 * that it is at the same time a vector of the real basis [Re x; Im x] of size N.
 */
typedef struct cpu_linear {
    int64_t modes, rank;
    double *d, *e; /* (N): 1 / (1 - dt/2 Lambda), 1 + dt/2 Lambda */
    double *b;     /* (N): dB */
    double *p;     /* (R,N): sqrt(dt/2) P */
    double *g;     /* (R,N): (I + 2 Re sum conj(p) d p)^-1 (conj(p) d) */
} cpu_linear;

static inline int64_t cpu_linear_rows(int64_t rank) { return 3 + 2 * rank; }
/* The view of rows (cpu_linear_rows, N) at base. */
cpu_linear cpu_linear_view(int64_t modes, int64_t rank, double *base);
/* Fills it for channel h at step dt (lambda, b and p of the system). 0 if I - dt/2 A is singular, else 1. */
int cpu_linear_build(const s4_shape *shape, const s4_system *system, int64_t h, double dt, const cpu_linear *linear);
/* x <- dA x; scratch (N). */
void cpu_linear_advance(const cpu_linear *linear, double *x, double *scratch);
/* dA in the real basis, (N,N) row-major; scratch (2,N). */
void cpu_linear_dense(const cpu_linear *linear, double *dA, double *scratch);

/* Interleaved (n,2) <-> split (N). */
void cpu_split(int64_t modes, const double *interleaved, double *split);
void cpu_interleave(int64_t modes, const double *split, double *interleaved);

/* Square matrices (N,N), row-major (power.c); product is neither a nor b. */
void cpu_matrix_product(int64_t size, const double *a, const double *b, double *product);
/* base^exponent, exponent >= 0; the result is one of scratch[0], scratch[1], both (N,N). */
double *cpu_matrix_power(int64_t size, const double *base, int64_t exponent, double *const scratch[2]);
/* out = row * matrix, of sizes (N), (N,N). */
void cpu_row_times_matrix(int64_t size, const double *row, const double *matrix, double *out);

/* One thread's part of S4_BUFFER_SETUP_MATRICES: three matrices, and rows (N) behind them. Building dA overlays
 * matrix[1] and all behind it but the last row. */
typedef struct cpu_lane {
    double *matrix[3];
    double *linear;    /* rows of a cpu_linear of any rank, in matrix[1] and behind */
    double *unit;      /* (2,N) behind those: scratch of cpu_linear_dense */
    double *condition; /* (6,N) behind the matrices: work areas of the solve */
    double *row;       /* (N), the last */
} cpu_lane;
cpu_lane cpu_lane_view(const s4_shape *shape, double *matrices, int thread);

/* What went wrong first, by channel: found in parallel, told once by the calling thread, whose error text it is. */
typedef enum cpu_failure_kind {
    CPU_FAILURE_NONE,
    CPU_FAILURE_STEP,     /* I - dt/2 A is singular; value: dt */
    CPU_FAILURE_UNDO,     /* I - dA^length is singular; value: reciprocal condition number */
    CPU_FAILURE_OVERFLOW, /* dA^length, or what it gives, is not finite */
    CPU_FAILURE_LIBRARY   /* LAPACK refuses an argument; value: its info */
} cpu_failure_kind;
typedef struct cpu_failure {
    cpu_failure_kind kind;
    int64_t channel, length;
    double value;
} cpu_failure;
void cpu_failure_merge(cpu_failure *first, const cpu_failure *other);
s4_status cpu_failure_raise(const s4_shape *shape, const cpu_failure *first);

/* C of the raw parameters at length `to` (0 = plain) for step shape->rate * dt. Channel h is written, interleaved, at
 * c + h * stride (doubles). Lanes in `matrices`. (set_up.c) */
s4_status cpu_read_c(const s4_shape *shape, const s4_system *system, const s4_raw *raw, double *matrices, int64_t to,
                     double *c, int64_t stride);

/*
 * STEP_SYSTEM of one channel (step_system.c).
 *   linear: rows of a cpu_linear, then C, split: (4 + 2R, N)
 *   dense:  dA of the real basis, transposed (N,N); dB (N); the read-out [2 Re C, -2 Im C] (N)
 */
static inline int64_t cpu_step_system_count(const s4_shape *shape)
{
    int64_t state = 2 * shape->modes;
    int dense = shape->direction == S4_DIRECTION_STEP && shape->step_mode == S4_STEP_DENSE;
    return dense ? (state + 2) * state : (cpu_linear_rows(shape->rank) + 1) * state;
}

/* One row (b,h) of the recurrence. */
typedef struct cpu_step_row {
    const s4_shape *shape;
    const double *system; /* STEP_SYSTEM of the channel */
    double d;             /* skip */
    const void *u;        /* (length), dtype of the shape */
    void *y;              /* (length); may be u */
    int64_t length;
    double *x;       /* (N), split: the state, updated */
    double *scratch; /* (N) */
} cpu_step_row;
void cpu_step_linear(const cpu_step_row *row);
void cpu_step_dense(const cpu_step_row *row);
/* y[t] += 2 Re C dA^{t+1} x; u and d unused. */
void cpu_respond_linear(const cpu_step_row *row);
/* The state alone: y and d unused. */
void cpu_absorb_linear(const cpu_step_row *row);

static inline double cpu_sample(s4_dtype dtype, const void *samples, int64_t t)
{
    return dtype == S4_F32 ? (double)((const float *)samples)[t] : ((const double *)samples)[t];
}
static inline void cpu_put_sample(s4_dtype dtype, void *samples, int64_t t, double value)
{
    if (dtype == S4_F32)
        ((float *)samples)[t] = (float)value;
    else
        ((double *)samples)[t] = value;
}

/* ---- kernel and convolution ---------------------------------------------------------------------------------- */

s4_status cpu_kernel(const s4_task *task);
s4_status cpu_kernel_backward(const s4_task *task);
s4_status cpu_spectrum(const s4_task *task);
s4_status cpu_convolve(const s4_task *task);
s4_status cpu_convolve_backward(const s4_task *task);
s4_status cpu_correlate(const s4_task *task);
s4_status cpu_prepare(s4_device *device, const s4_shape *shape, const int64_t *bytes, void **prepared);
void cpu_unprepare(s4_device *device, void *prepared);

/* "FFTW <version> ..." of the FFT library in use. */
void cpu_fft_describe(char *text, size_t size);

#endif
