/*
 * The generating function of one channel, shared by its kernels and their gradients; the arithmetic over frequencies is
 * in level/cauchy.c.
 *
 * Rows b in [B, P_1 ... P_R], columns c in [C~_1 ... C~_M, Q_1 ... Q_R] with Q = conj P and a C~ for each of the M
 * kernels; w = dt Lambda, v_bc = dt b c, with a dt of every mode if it is untied. At the angle theta, with S = sin
 * theta and c = cos theta, a conjugate pair of modes together has real coefficients:
 *
 *   sigma_bc = sum over the stored modes of (i S p_bc + c q_bc) / den,  p = Re v, q = -Re(v conj w) / 2,
 *   den = c^2 |w|^2 / 4 - S^2 - i S c Re w
 *   kappa_k = sigma_0k - c z sigma_1k,  z = sigma_01 (I + c sigma_11)^-1
 *
 * where 0 is the row B, 1 are the rows P or columns Q, and k is the column of a kernel. One denominator serves all
 * pairs.
 */
#ifndef CPU_CAUCHY_H
#define CPU_CAUCHY_H

#include "cpu/place.h"

#define CPU_SIDE_MAX (1 + S4_RANK_MAX)

/* Effective parameters of one channel. */
typedef struct cpu_channel {
    int64_t modes, rank, side, kernels, pairs; /* n, R, 1 + R, M, (1+R)(M+R) */
    int64_t dt_stride;                         /* of a mode; 0: one step for all */
    int64_t kernel_stride;                     /* from one C~ to the next */
    const double *dt, *lambda, *c_tilde;
    const double *row[CPU_SIDE_MAX]; /* each (n,2) */
} cpu_channel;
cpu_channel cpu_channel_view(const s4_shape *shape, const s4_system *system, int64_t h);

/* Index of a pair. First those of B with the columns of kernels, which gradients do not need the sums of; then those of
 * P with them, then those of the columns Q. */
static inline int64_t cpu_pair(const cpu_channel *channel, int64_t b, int64_t c)
{
    if (c >= channel->kernels) return c * channel->side + b;
    return b == 0 ? c : channel->kernels + c * channel->rank + b - 1;
}
static inline int64_t cpu_column_of_q(const cpu_channel *channel, int64_t r) { return channel->kernels + r; }

/* Entry n of column c. */
static inline void cpu_column(const cpu_channel *channel, int64_t c, int64_t n, double *re, double *im)
{
    int of_kernel = c < channel->kernels;
    const double *column =
        of_kernel ? channel->c_tilde + c * channel->kernel_stride : channel->row[1 + c - channel->kernels];
    *re = column[2 * n];
    *im = of_kernel ? column[2 * n + 1] : -column[2 * n + 1]; /* Q = conj P */
}

/* Frequencies are worked on in tiles. Sums over them are taken in spans of fixed size, each in the lanes of a vector,
 * and spans are added in ascending order: bits do not depend on who works on which span. */
#define CPU_TILE S4_CAUCHY_TILE
#define CPU_SPAN (64 * CPU_TILE)

static inline int64_t cpu_spans(int64_t frequencies) { return (frequencies + CPU_SPAN - 1) / CPU_SPAN; }

/* What is kept per mode, of each pair two: coefficients, and sums over frequencies. */
static inline int64_t cpu_cauchy_terms(const cpu_channel *channel) { return 2 + 2 * channel->pairs; }

/* A thread's scratch, s4_cpu_kernel_scratch doubles. What is `real` has the precision of the sums, kernel_dtype. */
typedef struct cpu_cauchy {
    const cpu_channel *channel;
    s4_dtype dtype;     /* of the sums */
    int64_t length;     /* L: frequencies k = 0 ... L/2, theta = pi k / L */
    int64_t row_stride; /* s4_row_stride(L) */
    double *rows;       /* (M, row_stride): K^ of the kernels, or rfft of their gradients */
    double *terms;      /* (n, 2): Re w, |w|^2 / 4 */
    void *factors;      /* real (n, pairs, 2): p, q */
    double *totals;     /* (n, 2 + 2 pairs): U, V; X, Y of each pair: see kernel_backward.c */
    void *lanes;        /* real (n, 2 + 2 pairs, lanes): the same of one span, before its lanes are added */
    void *inverse;      /* real (n, 2, TILE): 1 / den */
    double *angle;      /* (5, TILE): S, c, S^2, c^2, S c */
    void *rounded;      /* real (5, TILE): the same */
    void *sigma;        /* real (pairs, 2, TILE) */
    void *adjoint;      /* real (pairs, 4, TILE): c conj g_bc, S conj g_bc */
} cpu_cauchy;
/* Views, terms and factors made. */
cpu_cauchy cpu_cauchy_open(const cpu_channel *channel, const s4_shape *shape, double *rows, double *scratch);

#endif
