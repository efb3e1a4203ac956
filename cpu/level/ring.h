/*
 * The transform of the convolution. A real signal x of at most 2M samples is a polynomial in t; in the ring of
 * polynomials modulo t^M - i it has the M complex coefficients x[j] + i x[j+M], and a product there is
 *
 *   (sum of a[j] t^j) (sum of b[j] t^j) = sum over j < M of (y[j] + i y[j+M]) t^j,   y = the linear convolution of a, b
 *
 * as long as y has no more than 2M samples (a sample beyond comes back at t^(j-2M), negated, as t^2M = -1). So M
 * complex points, half as many as a padded row has reals, carry one real row with nothing of another one, and spectra
 * multiply point by point: no pairs k, M-k, unlike the halves of a real FFT. |t| = 1 at every root, hence conj(A(t)) =
 * A(1/t): the conjugate spectrum is the adjoint.
 *
 * The transform splits the modulus, t^n - s = product over p of (t^(n/r) - s_p), s_p the r-th roots of s, until the
 * moduli are t - s: sample j of the tree's p-th child is sum over q of s_p^q x[j + q n/r]. Its twiddles depend on the
 * node of the tree only, not on j, and what comes out is in the order of the tree's leaves, the same for every row:
 * nothing is ever put into order. The inverse climbs up again, unscaled: inverse(forward(x)) = M x.
 *
 * In a row, LANES numbers of a vector stand together: LANES real parts, then LANES imaginary ones. When a node has as
 * many vectors as a vector has lanes ("block"), it is transposed half-way down, so that lanes are never mixed. The walk
 * is depth-first, and a row's spectrum is multiplied while its block is in registers: whatever its length, a row goes
 * through each cache once down and once up.
 *
 * M = r 2^k with r = 1, 3, 5 and 2^k at least the square of a vector's lanes: s4_ring_points.
 */
#ifndef CPU_LEVEL_RING_H
#define CPU_LEVEL_RING_H

#include "cpu/level.h"

#define CPU_RING_LEVELS 40

typedef struct cpu_ring {
    int64_t points;                   /* M */
    int levels;                       /* above the blocks */
    int radix[CPU_RING_LEVELS];       /* 2, 3, 4, 5 */
    int64_t twiddle[CPU_RING_LEVELS]; /* where a level's begin in the table; of blocks: at twiddle[levels] */
    int short_table;                  /* twiddles of blocks are made in every row, from a few factors */
    int64_t table_count;              /* reals */
    void *table;                      /* in the precision of the rows, from a multiple of 64 bytes on */
} cpu_ring;

/* The samples of a row in a tensor of the caller. `count` of them are read; a target has zeros from there to length. */
typedef struct cpu_source {
    const void *samples;
    int64_t stride, count;
} cpu_source;
typedef struct cpu_target {
    void *samples;
    int64_t stride, count, length;
} cpu_target;

/* sum over c < outputs of d[c * d_stride] * (source, c outputs further on) */
typedef struct cpu_skip {
    const double *d;
    int64_t d_stride;
    cpu_source source;
    int64_t output_stride; /* in elements of the source */
    int64_t outputs;
} cpu_skip;

/* What happens to the spectrum Z of a row, block by block, in this order. */
typedef enum cpu_ring_work {
    CPU_RING_FORWARD = 1,    /* samples -> Z; else Z is that of `from` */
    CPU_RING_GRADIENT = 2,   /* gradient += conj(u) Z */
    CPU_RING_MULTIPLY = 4,   /* Z := kernel Z */
    CPU_RING_ADJOINT = 8,    /* Z := conj(kernel) Z */
    CPU_RING_ADD = 16,       /* Z := sum + Z */
    CPU_RING_SUM = 32,       /* sum := Z */
    CPU_RING_INVERSE = 64,   /* Z -> samples */
    CPU_RING_BEGIN = 128,    /* gradient := 0 first */
    CPU_RING_IN_PLACE = 256, /* samples are in `row` already, and stay there */

    CPU_RING_CONVOLVE = CPU_RING_FORWARD | CPU_RING_MULTIPLY | CPU_RING_INVERSE,
    CPU_RING_BACKWARD = CPU_RING_FORWARD | CPU_RING_ADJOINT | CPU_RING_INVERSE
} cpu_ring_work;

/* Rows have M complex numbers and begin at multiples of 64 bytes. */
typedef struct cpu_ring_row {
    const cpu_ring *ring;
    unsigned work;
    int wide;          /* samples from M on exist: of every call of a plan, or of none */
    cpu_source source; /* FORWARD */
    void *row;
    const void *from, *kernel, *u;
    int cold;         /* the kernel is not in the core's cache: it is fetched before it is met */
    double *gradient; /* of M complex numbers, in the order of spectra */
    void *sum;
    cpu_skip skip; /* INVERSE: target = samples + skip */
    cpu_target target;
    const void
        *next; /* samples, side by side and as many as those of `source`, that are read next: fetched meanwhile */
} cpu_ring_row;

typedef struct cpu_row_functions {
    size_t size; /* bytes of an element */

    /* Fills all but `table` of a ring, then, with a table, that. */
    void (*plan)(cpu_ring *ring, int64_t points);
    void (*fill)(cpu_ring *ring);

    void (*row)(const cpu_ring_row *row);

    /* Channels that stand side by side, `time` elements from one sample to the next, to rows `stride` elements apart,
     * and back. */
    void (*stage_in)(const void *from, int64_t time, int64_t channels, int64_t count, void *to, int64_t stride);
    void (*stage_out)(const void *from, int64_t stride, int64_t channels, int64_t count, void *to, int64_t time);

    /* spectrum / M of the first `count` samples of the forward kernel and, unless it is NULL, of the backward one */
    void (*spectrum)(const cpu_ring *ring, const void *kernel, const void *backward_kernel, int64_t count,
                     void *spectrum);

    /* Gradients of the first `count` samples of the forward kernel and, unless it is NULL, of the backward one, from
     * their spectrum. */
    void (*correlate)(const cpu_ring *ring, const double *gradient, int64_t count, void *row, double *kernel_gradient,
                      double *backward_gradient);

    /* to <- factor * row, rounded. 0 if a number of the row is not finite. */
    int (*round)(const double *row, double factor, int64_t count, void *to);

    /* sum of a b over the samples of both, in an order of its own that depends on their number only */
    double (*inner)(cpu_source a, cpu_source b);
} cpu_row_functions;

/* By dtype: S4_F32, S4_F64. */
typedef struct cpu_row_types {
    cpu_row_functions dtype[2];
} cpu_row_types;
CPU_LEVEL_TABLES(cpu_row_types, cpu_rows_at)

#endif
