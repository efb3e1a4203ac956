/*
 * Matrices Z that commute with A' = Lambda' - L R*, by their displacement: Lambda' Z - Z Lambda' = L (Z* R)* - (Z L) R*, so
 *   Z_ij = (sum over r of L_ir conj(v_jr) - u_ir conj(R_jr)) / (lambda_i - lambda_j),   u = Z L,   v = Z* R.
 * All live in the closed vector (n modes, then their conjugates), Z = [[Z1, Z2], [conj Z2, conj Z1]]: rows of the first half
 * tell everything. What the quotient cannot give is kept as it is: Z_ii (own), Z_i,n+i (mirror), and the carried entries,
 * whose eigenvalues nearly coincide.
 *
 * Rank 1 is symmetric: L = R = p, real, Z = Z^T and v = conj(u); only L's real part and u are kept.
 *
 * Vectors are split and zero-padded: (2,padded). A strip holds, for `lanes` successive i, and every j, four rows of lanes:
 * re and im of two entries, those with j and with n+j.
 */
#ifndef CPU_LEVEL_STRUCTURED_H
#define CPU_LEVEL_STRUCTURED_H

#include "cpu/level.h"
#include "cpu/phi.h"

/* Entry (i, j) of Z1 (half 0) or Z2 (half 1), i and j apart. */
typedef struct cpu_carried {
    int32_t i, j, half;
} cpu_carried;

typedef struct cpu_displacement {
    int64_t modes, padded, rank;
    double *left, *right; /* (R,2,padded); rank 1: left only */
    double *inverse;      /* (4,padded,n): 1 / (lambda_i - lambda_j) in the order of strips; 0 where Z is kept */
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
    /* inverse from Lambda' (2,padded), whose padding is apart from all of it. 1 if two that are apart in i and j, or one of
     * them and the conjugate of another, are closer than `limit`. */
    int (*invert)(const cpu_displacement *d, const double *lambda, double limit);
    /* sum = a + b + a b, but for the carried entries; sum is neither */
    void (*compose)(const cpu_displacement *d, const cpu_commuting *a, const cpu_commuting *b, cpu_commuting *sum);
    /* out = row z, both (2,padded): first halves of closed vectors, out padded with zeros */
    void (*row_times)(const cpu_displacement *d, const cpu_commuting *z, const double *row, double *out);
    /* strip of rows i, from `first` on (a multiple of lanes) */
    void (*rows)(const cpu_displacement *d, const cpu_commuting *z, int64_t first, double *strip);
} cpu_structured;
CPU_LEVEL_TABLES(cpu_structured, cpu_structured_at)

#endif
