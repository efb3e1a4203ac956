/*
 * X = dA^L of one DPLR channel, by its displacement (cpu/level/structured.h): O(N) numbers of which every entry follows; or as
 * a matrix, where too many eigenvalues nearly coincide.
 */
#ifndef CPU_STRUCTURED_POWER_H
#define CPU_STRUCTURED_POWER_H

#include "cpu/level/structured.h"
#include "cpu/place.h"

/* One thread's, in its lane; one channel after the other. */
typedef struct cpu_power {
    const s4_shape *shape;
    const cpu_structured *level;
    const cpu_lane *lane;
    cpu_displacement displacement;
    double *lambda;                      /* (2,padded): Lambda' */
    double *rotation, *inverse_rotation; /* (2,padded): D and D^-1, which make A' symmetric */
    double *f, *p, *g;                   /* dA = diag(f) - p g^T in that basis: (2,padded), (R,2,padded) twice */
    double *g_product;                   /* (R,2,padded) */
    double *row, *product;               /* (2,padded) */
    cpu_commuting x, next;
    int64_t copy; /* whose differences of eigenvalues are there; -1: none */
    int is_dense;
    double *dense, *dense_next; /* (N,N), real basis */
} cpu_power;

/* lambda'_i - lambda'_j, or (half) lambda'_i - conj(lambda'_j) */
static inline cpu_complex cpu_power_gap(const cpu_power *power, int64_t i, int64_t j, int half)
{
    const double *re = power->lambda, *im = power->lambda + power->displacement.padded;
    return (cpu_complex){re[i] - re[j], half ? im[i] + im[j] : im[i] - im[j]};
}

cpu_power cpu_power_view(const s4_device *device, const s4_shape *shape, const cpu_lane *lane);
/* X of channel h at step scale * dt, length >= 1. 0 if dA is not finite. X may be not finite: cpu_power_is_finite. */
int cpu_power_raise(cpu_power *power, const s4_system *system, int64_t h, double scale, int64_t length);
int cpu_power_is_finite(const cpu_power *power);
/* Its first step: Lambda', L, R, the rotation and the carried entries of channel h (structured_displacement.c). */
void cpu_power_open(cpu_power *power, const s4_system *system, int64_t h);
/* X of twice the length. */
void cpu_power_double(cpu_power *power);
/* out = row X, (N) of the real basis [Re c, -Im c]. */
void cpu_power_row(cpu_power *power, const double *row, double *out);
/* X in the real basis, (N,N), in one of the lane's matrices. */
double *cpu_power_matrix(cpu_power *power);

#endif
