/*
 * The chunked state form of the convolution, seen by its operations. Chunks of tau samples of a row are rows of U, the
 * states before them rows of S; with K the kernel, c = [2 Re C, -2 Im C] and X = dA^tau in the real basis [Re x; Im x]:
 *
 *   Y_c = U Toep_c + S M_C,c,   S' = S X^T + U M_B
 *   Toep_c[i][t] = K_c[t - i] (+ D_c where t = i),   M_C,c[:,t] = (c_c dA^(t+1))^T,   M_B[t,:] = (dA^(tau-1-t) dB)^T
 *
 *   chunk_matrices.c  these matrices
 *   chunk_panel.*     chunks of a few rows, side by side, and the states before them
 *   chunk_forward.c   y, and the states that leave
 *   chunk_backward.c  du, sums for the gradients of the matrices
 *   chunk_gradient.c  from these to the effective parameters
 *
 * A state in work has s4_chunk_state reals: each half of the split state (place.h), padded with zeros.
 */
#ifndef CPU_CHUNK_H
#define CPU_CHUNK_H

#include "cpu/level/product.h"
#include "cpu/place.h"

/* CHUNK_SYSTEM of one channel, in the dtype of the plan. The kernel of an output is tau zeros, then K, so that row i of
 * Toep begins at element tau - i; on the way back it is K in reverse, then zeros, and row t begins at tau - 1 - t. */
typedef struct cpu_chunk_system {
    void *power;  /* DPLR: X^T - I; diagonal: poles^tau in double, real parts, then imaginary */
    void *into;   /* M_B (tau, N^) */
    void *out;    /* M_C (M; N^, tau) */
    void *kernel; /* (M; 2 tau) */
    /* Training: what the way back multiplies with. */
    void *power_back;  /* DPLR: X - I; diagonal: the conjugates */
    void *into_back;   /* M_B^T (N^, tau) */
    void *out_back;    /* M_C^T (M; tau, N^) */
    void *kernel_back; /* (M; 2 tau) */
} cpu_chunk_system;
cpu_chunk_system cpu_chunk_system_at(const s4_task *task, int64_t h);

/* CHUNK_SUMS of one channel, in double: sums over the chunks of all rows. G: rows of dy; L: adjoints of the states that
 * leave the chunks. */
typedef struct cpu_chunk_sums {
    double *kernel; /* U^T G (M; tau, tau): K's gradient along its diagonals, those below the main one unused */
    double *out;    /* S^T G (M; N^, tau): of M_C */
    double *into;   /* U^T L (tau, N^): of M_B */
    double *power;  /* DPLR: L^T S (N^, N^): of X; diagonal: of poles^tau, real parts, then imaginary */
    double *ends;   /* rows of cpu_state_sums: what ends of rows inside a chunk give */
} cpu_chunk_sums;
cpu_chunk_sums cpu_chunk_sums_at(const s4_task *task, int64_t h);

/* Split state (N) <-> padded. */
void cpu_chunk_pad(const s4_shape *shape, const double *split, double *padded);
void cpu_chunk_unpad(const s4_shape *shape, const double *padded, double *split);
/* The read-out [2 Re C, -2 Im C] (N) of one output. */
void cpu_chunk_read_out(const s4_shape *shape, const s4_system *system, int64_t h, int64_t output, double *row);
/* dA (N^,N^), padded; scratch (N,N). */
void cpu_chunk_dense(const s4_shape *shape, const cpu_linear *linear, double *scratch, double *dA);
/* c = a b, all (size, size). */
void cpu_chunk_square_product(const cpu_product *product, int64_t size, const double *a, const double *b, double *c);

#endif
