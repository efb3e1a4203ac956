/*
 * Sums of powers of n complex numbers, |p| <= 1 or near it, without a table of n x L: with m = s4_vandermonde_width(L)
 * and l = m j + i the powers are a product of two small matrices, p^l = p^(m j) p^i, and
 *
 *   row[l] = Re sum over n of (c_n p_n^(m j)) p_n^i          (product)
 *   s_n = sum over l of row[l] conj(p_n^l)
 *       = sum over j of conj(p_n^(m j)) (sum over i of row[m j + i] conj(p_n^i))    (moments)
 *
 * A power is the exponential of l log p, never a repeated product. A number may be taken for the samples in reverse
 * order: p^(L-1-l) instead of p^l.
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

typedef struct cpu_vandermonde {
    int64_t modes, length, width, rows; /* n, L, m, ceil(L / m) */
    cpu_pole *pole;                     /* (n) */
    int64_t reversed;                   /* how many of the poles are */
    double *fine_re, *fine_im;          /* (n,m): p^i */
    double *coarse;                     /* (n,rows,2): p^(m j) */
} cpu_vandermonde;

static inline int64_t cpu_vandermonde_rows(int64_t length)
{
    int64_t width = s4_vandermonde_width(length);
    return (length + width - 1) / width;
}
/* Doubles of the two matrices. */
static inline int64_t cpu_vandermonde_count(int64_t modes, int64_t length)
{
    return 2 * modes * (s4_vandermonde_width(length) + cpu_vandermonde_rows(length));
}
/* Matrices at base, of these poles, made. */
cpu_vandermonde cpu_vandermonde_make(int64_t modes, int64_t length, cpu_pole *pole, double *base);

/* row (L); modes whose c is 0 are left out. */
void cpu_vandermonde_product(const cpu_vandermonde *v, const cpu_complex *c, double *row);
/* s (n) of the modes that are (not) reversed, the row being given in their order. Others are left as they are. */
void cpu_vandermonde_moments(const cpu_vandermonde *v, int reversed, const double *row, cpu_complex *s);

#endif
