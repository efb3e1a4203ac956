/*
 * Z = dA^L - I of one DPLR channel. The difference is what C~ = C (I - dA^L) = -C Z needs, and is exact where dA^L is close to
 * I. Z is kept by its displacement (cpu/level/structured.h), O(N) numbers of which every entry follows, or as a matrix where
 * too many eigenvalues nearly coincide.
 */
#ifndef CPU_STRUCTURED_POWER_H
#define CPU_STRUCTURED_POWER_H

#include "cpu/level/structured.h"
#include "cpu/place.h"

/* One thread's, in two matrices of its lane; one channel after the other. */
typedef struct cpu_power {
    const s4_shape *shape;
    const cpu_structured *level;
    const cpu_lane *lane;
    cpu_displacement displacement;
    cpu_commuting base, z, next;
    double *lambda;                  /* (2,padded): Lambda' */
    double *rotation, *inverse_rotation; /* (2,padded): what makes A symmetric */
    double *row, *product;           /* (2,padded) */
    int64_t copy;                    /* whose differences of eigenvalues are there; -1: none */
    int is_dense;
    double *dense, *dense_next;      /* (N,N), real basis */
} cpu_power;

cpu_power cpu_power_view(const s4_device *device, const s4_shape *shape, const cpu_lane *lane);
/* Z of channel h at step scale * dt, length >= 1. 0 if dA is not finite. Z may be not finite: see cpu_power_is_finite. */
int cpu_power_raise(cpu_power *power, const s4_system *system, int64_t h, double scale, int64_t length);
int cpu_power_is_finite(const cpu_power *power);
/* Z of twice the length. */
void cpu_power_double(cpu_power *power);
/* out = row Z, (N) of the real basis [Re c, -Im c]. */
void cpu_power_row(cpu_power *power, const double *row, double *out);
/* Z in the real basis, (N,N), in the lane's matrix 2 or one of the others. The lane's first rows are lost. */
double *cpu_power_matrix(cpu_power *power);

#endif
