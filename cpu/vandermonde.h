/*
 * Sums of powers of n complex numbers, |p| <= 1 or near it, without a table of n x L: with m =
 * s4_cpu_vandermonde_width(L) and l = m j + i the powers are a product of two small matrices, p^l = p^(m j) p^i, and
 *
 *   row[l] = Re sum over n of (c_n p_n^(m j)) p_n^i          (product)
 *   s_n = sum over l of row[l] conj(p_n^l)
 *       = sum over i of conj(p_n^i) (sum over j of row[m j + i] conj(p_n^(m j)))    (moments)
 *
 * are products of small real matrices (level/vandermonde.c). A power is the exponential of l log p, or one
 * product of two such; its angle, in turns, is reduced exactly. A number may be taken for the samples in reverse order:
 * p^(L-1-l) instead of p^l.
 */
#ifndef CPU_VANDERMONDE_H
#define CPU_VANDERMONDE_H

#include "cpu/phi.h"
#include "cpu/place.h"

/* p = exp(log_modulus + i angle); log_modulus is -infinity for p = 0. */
typedef struct cpu_pole {
    double log_modulus, angle;
    int64_t reversed; /* 1: L-1-l for l */
} cpu_pole;

#define CPU_PANEL S4_VANDERMONDE_PANEL
#define CPU_ROW_BLOCK 4 /* rows of the coarse matrix in work at a time */

typedef struct cpu_vandermonde {
    const s4_device *device;
    int64_t modes, length, width, rows; /* n, L, m, ceil(L / m) */
    int64_t padded_rows;                /* s4_cpu_vandermonde_rows */
    cpu_pole *pole;                     /* (n) */
    int64_t reversed;                   /* how many of the poles are */
    double *fine;                       /* (m / PANEL, n, 2, PANEL): p^i, re and im */
    double *coarse;                     /* (n, 2, padded rows): p^(m j), re and im; 0 beyond the last row */
    int64_t *reach;                     /* (n): rows of which p^(m j) has not decayed to 0 */
    int64_t *active;                    /* (n): the modes that a block of rows is made of */
    double *factor;                     /* (n, ROW_BLOCK, 2): their c p^(m j) */
    double *samples;                    /* (2, padded rows, PANEL): columns of row[l], and of (l + 1) row[l + 1] */
    double *lanes; /* (n, 4, S4_VECTOR_LANES): moments and slopes, re and im, before lanes are added */
} cpu_vandermonde;

/* Doubles of all that, without the poles. */
static inline int64_t cpu_vandermonde_count(int64_t modes, int64_t length)
{
    int64_t rows = s4_cpu_vandermonde_rows(length);
    return 2 * modes * (s4_cpu_vandermonde_width(length) + rows) + 2 * CPU_PANEL * rows +
           modes * (2 + 2 * CPU_ROW_BLOCK + 4 * S4_VECTOR_LANES);
}
/* Matrices at base, of these poles, made. */
cpu_vandermonde cpu_vandermonde_make(const s4_device *device, int64_t modes, int64_t length, cpu_pole *pole,
                                     double *base);

/* row (L) */
void cpu_vandermonde_product(const cpu_vandermonde *v, const cpu_complex *c, double *row);
/* moment (n): s of the row; slope (n): s of (l + 1) row[l + 1], that is, sum over l of l row[l] conj(p^(l-1)), or NULL.
 * A reversed mode has both of the row in reverse order. */
void cpu_vandermonde_moments(const cpu_vandermonde *v, const double *row, cpu_complex *moment, cpu_complex *slope);

#endif
