/*
 * The kernel of a diagonal system, K[l] = 2 Re sum over n of c_n p_n^l with c_n = C_n B_n w_n: what the discretisations
 * have in common. Each one gives, from dt and Lambda of a mode, its pole p and its weight w, and carries gradients of p
 * and w back to Lambda and dt.
 *
 *   diagonal_zoh.c        p = e^a,                    w = dt phi1(a),      a = dt Lambda
 *   diagonal_bilinear.c   p = (1 + a/2) / (1 - a/2),  w = dt / (1 - a/2)
 *   diagonal_dss.c        p = e^a,                    w depends on the length of the kernel, too
 */
#ifndef CPU_DIAGONAL_H
#define CPU_DIAGONAL_H

#include "cpu/kernel.h"
#include "cpu/vandermonde.h"

/* A mode of a channel. A gradient g stands for dL/dRe + i dL/dIm. */
typedef struct cpu_mode {
    int64_t length; /* L */
    double dt;
    cpu_complex lambda, weight;
    cpu_complex g_pole, g_weight;
    cpu_complex g_lambda; /* what follows from these two */
    double g_dt;
} cpu_mode;

typedef struct cpu_diagonal_rule {
    void (*discretise)(cpu_mode *mode, cpu_pole *pole); /* length, dt, lambda -> weight, *pole */
    void (*chain)(cpu_mode *mode);                      /* g_pole, g_weight -> g_lambda, g_dt */
} cpu_diagonal_rule;
extern const cpu_diagonal_rule cpu_diagonal_bilinear, cpu_diagonal_zoh, cpu_diagonal_dss;
const cpu_diagonal_rule *cpu_diagonal_rule_of(const s4_shape *shape);

/* The scratch of a lane. */
typedef struct cpu_diagonal {
    cpu_vandermonde powers; /* of the poles */
    cpu_mode *mode;         /* (n) */
    cpu_complex *c;         /* (n): C B w of the kernel in work */
    cpu_complex *moment;    /* (n): sum over l of G_l conj(p^l) */
    cpu_complex *slope;     /* (n): sum over l of l G_l conj(p^(l-1)) */
} cpu_diagonal;
/* Weights and powers of the channel lane->h, made. */
cpu_diagonal cpu_diagonal_open(const cpu_kernel_lane *lane);
/* c of kernel k. */
void cpu_diagonal_coefficients(const cpu_kernel_lane *lane, const cpu_diagonal *diagonal, int64_t k);

static inline cpu_complex cpu_diagonal_b(const cpu_kernel_lane *lane, int64_t n)
{
    const double *b = lane->system.b + 2 * (lane->h % lane->shape->n_ssm * lane->shape->modes + n);
    return (cpu_complex){b[0], b[1]};
}
static inline cpu_complex cpu_diagonal_c(const cpu_kernel_lane *lane, int64_t k, int64_t n)
{
    const double *c = lane->system.c + 2 * ((k * lane->shape->d_model + lane->h) * lane->shape->modes + n);
    return (cpu_complex){c[0], c[1]};
}

/* x conj(y) */
static inline cpu_complex cpu_times_conj(cpu_complex x, cpu_complex y)
{
    return (cpu_complex){x.re * y.re + x.im * y.im, x.im * y.re - x.re * y.im};
}
static inline cpu_complex cpu_scaled(double factor, cpu_complex x)
{
    return (cpu_complex){factor * x.re, factor * x.im};
}
static inline void cpu_add(cpu_complex *sum, cpu_complex term)
{
    sum->re += term.re;
    sum->im += term.im;
}

#endif
