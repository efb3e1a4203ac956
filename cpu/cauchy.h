/*
 * The sums of the generating function of one channel, shared by the kernel and its gradient.
 *
 * Rows b in [B, P_1 ... P_R], columns c in [C~, Q_1 ... Q_R] with Q = conj P; w = dt Lambda, v_bc = dt b c, with a dt
 * of every mode if it is untied. At the angle theta, with S = sin theta and c = cos theta, a conjugate pair of modes
 * together has real coefficients:
 *
 *   sigma_bc = sum over the stored modes of (4 i S Re v - 2 c Re(v conj w)) / (c^2 |w|^2 - 4 S^2 - 4 i S c Re w)
 *   kappa = sigma_00 - c sigma_01 (I + c sigma_11)^-1 sigma_10
 *
 * One denominator serves all (1+R)^2 pairs. Frequencies are worked on in tiles of constant size.
 */
#ifndef CPU_CAUCHY_H
#define CPU_CAUCHY_H

#include <complex.h>
#include <string.h>

#include "cpu/place.h"

#define CPU_SIDE_MAX (1 + S4_RANK_MAX)
#define CPU_PAIRS_MAX (CPU_SIDE_MAX * CPU_SIDE_MAX)
#define CPU_TILE 8 /* frequencies */

/* Effective parameters of one channel with one of its rows of C~, each (n,2). Entry n of column c is
 * (re, column_sign[c] * im). The step of mode n is dt[n * dt_stride]. */
typedef struct cpu_channel {
    int64_t modes, side, pairs; /* n, 1 + R, (1+R)^2; pair (b,c) has index b * side + c */
    int64_t dt_stride;          /* 0: one step for all modes, 1: untied */
    const double *dt;
    const double *lambda;
    const double *row[CPU_SIDE_MAX];
    const double *column[CPU_SIDE_MAX];
    double column_sign[CPU_SIDE_MAX];
} cpu_channel;
cpu_channel cpu_channel_view(const s4_shape *shape, const s4_system *system, int64_t h, int64_t k);

/* Sine and cosine of pi k / L for the frequencies k of one tile. */
typedef struct cpu_angles {
    double sine[CPU_TILE], cosine[CPU_TILE];
} cpu_angles;
/* From frequency `first` on; beyond the last, L/2, the last is repeated. */
void cpu_cauchy_angles(int64_t length, int64_t first, cpu_angles *angles);

/*
 * Per mode and lane, cpu_cauchy_stride doubles of scratch. The first 2 + 2 (1+R)^2 are made here:
 * Re w, |w|^2, then of each pair Re v, Re(v conj w). As many again are free for the gradient.
 */
#define CPU_TERMS_OF_SUMS(pairs) (2 + 2 * (pairs))
static inline int64_t cpu_cauchy_stride(const cpu_channel *channel) { return 2 * CPU_TERMS_OF_SUMS(channel->pairs); }
void cpu_cauchy_terms(const cpu_channel *channel, double *terms);

/* One complex number per pair and frequency of a tile. */
typedef struct cpu_pair_tile {
    double re[CPU_PAIRS_MAX][CPU_TILE], im[CPU_PAIRS_MAX][CPU_TILE];
} cpu_pair_tile;
void cpu_cauchy_sums(const cpu_channel *channel, const double *terms, const cpu_angles *angles, cpu_pair_tile *sigma);

/* 1 / denominator of one mode at the frequencies of a tile. */
static inline void cpu_cauchy_inverse(const double *term, const cpu_angles *angles, double *re, double *im)
{
    for (int j = 0; j < CPU_TILE; j++) {
        double sine = angles->sine[j], cosine = angles->cosine[j];
        double den_re = cosine * cosine * term[1] - 4.0 * sine * sine;
        double den_im = -4.0 * sine * cosine * term[0];
        double scale = 1.0 / (den_re * den_re + den_im * den_im);
        re[j] = den_re * scale;
        im[j] = -den_im * scale;
    }
}

/* re + i im for any re and im, finite or not: what CMPLX is, where a compiler has it. */
static inline double complex cpu_c99(double re, double im)
{
    double parts[2] = {re, im};
    double complex value;
    memcpy(&value, parts, sizeof value);
    return value;
}

/* kappa at frequency j of a tile; right = (I + c sigma_11)^-1 sigma_10 and left = sigma_01 (I + c sigma_11)^-1, R
 * each; left may be NULL. Not finite where I + c sigma_11 is singular. */
double complex cpu_woodbury(const cpu_channel *channel, const cpu_pair_tile *sigma, double cosine, int j,
                            double complex *right, double complex *left);

#endif
