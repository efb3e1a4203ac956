/*
 * Matrices X that commute with A' = Lambda' - L R*, by their displacement: Lambda' X - X Lambda' = L (X* R)* - (X L) R*, so
 *   X_ij = (sum over r of L_ir conj(v_jr) - u_ir conj(R_jr)) / (lambda_i - lambda_j),   u = X L,   v = X* R.
 * All live in the closed vector (n modes, then their conjugates), X = [[X1, X2], [conj X2, conj X1]]: rows of the first half
 * tell everything. What the quotient cannot give is kept as it is: X_ii (own), X_i,n+i (mirror), and the carried entries,
 * whose eigenvalues nearly coincide.
 *
 * Rank 1 is symmetric: L = R = p, real, X = X^T and v = conj(u); only L's real part and u are kept.
 *
 * Vectors are split and zero-padded: (2,padded). A strip holds, for `lanes` successive i, and every j, four rows of lanes:
 * re and im of two entries, those with j and with n+j.
 */
#ifndef CPU_LEVEL_STRUCTURED_H
#define CPU_LEVEL_STRUCTURED_H

#include "cpu/level.h"
#include "cpu/phi.h"

/* Entry (i, j) of X1 (half 0) or X2 (half 1), i and j apart. */
typedef struct cpu_carried {
    int32_t i, j, half;
} cpu_carried;

/* Eigenvalues nearly coincide where |L_i| |R_j| is more than this times their distance: a quotient loses as much. Undamped
 * layers, whose I - X is nearly singular, show every digit of it. */
#define CPU_NEAR 4.0
/* So that what is divided by is never 0. */
#define CPU_NEAR_LEAST 1e-200

typedef struct cpu_displacement {
    int64_t modes, padded, rank;
    double *left, *right; /* (R,2,padded); rank 1: left only */
    double *inverse;      /* (4,padded,n): 1 / (lambda_i - lambda_j) in the order of strips; 0 where X is kept */
    double *strip[2];
    cpu_carried *carried; /* (carried_count) */
    int64_t carried_count;
} cpu_displacement;

typedef struct cpu_commuting {
    double *u, *v;        /* (R,2,padded); rank 1: u only */
    double *own, *mirror; /* (2,padded) */
    cpu_complex *carried; /* (carried_count) */
} cpu_commuting;

typedef struct cpu_structured {
    int64_t lanes;
    /* inverse from Lambda' (2,padded), whose padding is apart from all of it, and the squared sizes of rows of L and of R
     * (2,padded). 1 if two eigenvalues nearly coincide, of i and j apart or of one and the conjugate of another. */
    int (*invert)(const cpu_displacement *d, const double *lambda, const double *sizes);
    /* out = x x, but for the carried entries; out is not x */
    void (*square)(const cpu_displacement *d, const cpu_commuting *x, const cpu_commuting *out);
    /* out = row x, both (2,padded): first halves of closed vectors, out padded with zeros */
    void (*row_times)(const cpu_displacement *d, const cpu_commuting *x, const double *row, double *out);
    /* strip of rows i, from `first` on (a multiple of lanes) */
    void (*rows)(const cpu_displacement *d, const cpu_commuting *x, int64_t first, double *strip);
} cpu_structured;
CPU_LEVEL_TABLES(cpu_structured, cpu_structured_at)

#endif
