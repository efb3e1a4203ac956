/*
 * What the powers of dA of a DPLR channel commute with: A' = diag(dt) A = dt Lambda - (dt P) P*; where all modes have
 * one step size, A itself: differences of eigenvalues then belong to the copy, not to the channel.
 *
 * Rank 1 is made symmetric, D^-1 A' D = Lambda' - q q^T with q_i = sqrt(dt_i) |P_i| and D_i = sqrt(dt_i) P_i / |P_i|.
 * All is scaled by a power of two, so that the largest eigenvalue is of size 1 to 2.
 */
#include <math.h>
#include <string.h>

#include "cpu/structured_power.h"

/* Entries whose eigenvalues nearly coincide, (i,j) with (j,i); 0 if they are too many: one costs O(N), a squaring O(N^2). The
 * bound is twice that of the level, which rounds otherwise. */
static int find_carried(cpu_power *power, const double *sizes)
{
    cpu_displacement *d = &power->displacement;
    const double *left = sizes, *right = sizes + d->padded;
    for (int i = 0; i < d->modes; i++)
        for (int j = 0; j < i; j++)
            for (int half = 0; half < 2; half++) {
                cpu_complex gap = cpu_power_gap(power, i, j, half);
                double bound = (left[i] * right[j] + left[j] * right[i]) / (CPU_NEAR * CPU_NEAR) + CPU_NEAR_LEAST;
                if (gap.re * gap.re + gap.im * gap.im >= 2 * bound) continue;
                if (d->carried_count + 2 > d->modes) return 0;
                d->carried[d->carried_count++] = (cpu_carried){i, j, half};
                d->carried[d->carried_count++] = (cpu_carried){j, i, half};
            }
    return 1;
}

/* Lambda', L, R and the rotation of a channel, whose step sizes matter only if they are not all one. */
static void build_displacement(cpu_power *power, const s4_system *system, int64_t h)
{
    const s4_shape *shape = power->shape;
    cpu_displacement *d = &power->displacement;
    int64_t modes = d->modes, padded = d->padded, copy = h % shape->n_ssm;
    int is_untied = shape->dt_modes > 1, is_symmetric = d->rank == 1;
    memset(d->left, 0, (size_t)(4 * d->rank * padded) * sizeof *d->left);

    double largest = 0;
    for (int64_t n = 0; n < modes; n++) {
        const double *lambda = system->lambda + 2 * (copy * modes + n);
        double dt = is_untied ? cpu_dt(shape, system, h, n) : 1;
        cpu_split_put(power->lambda, padded, n, (cpu_complex){dt * lambda[0], dt * lambda[1]});
        largest = fmax(largest, hypot(dt * lambda[0], dt * lambda[1]));
    }
    double scale = largest > 0 ? ldexp(1, -ilogb(largest)) : 1;
    for (int64_t n = 0; n < modes; n++) {
        power->lambda[n] *= scale;
        power->lambda[padded + n] *= scale;
    }
    for (int64_t n = modes; n < padded; n++) cpu_split_put(power->lambda, padded, n, (cpu_complex){4, 0});

    for (int64_t n = 0; n < padded; n++) {
        cpu_split_put(power->rotation, padded, n, (cpu_complex){1, 0});
        cpu_split_put(power->inverse_rotation, padded, n, (cpu_complex){1, 0});
    }
    for (int64_t r = 0; r < d->rank; r++)
        for (int64_t n = 0; n < modes; n++) {
            const double *p = system->p + 2 * ((r * shape->n_ssm + copy) * modes + n);
            double dt = is_untied ? cpu_dt(shape, system, h, n) : 1, size = hypot(p[0], p[1]);
            double *left = d->left + r * 2 * padded, *right = d->right + r * 2 * padded;
            if (!is_symmetric) {
                cpu_split_put(left, padded, n, (cpu_complex){scale * dt * p[0], scale * dt * p[1]});
                cpu_split_put(right, padded, n, (cpu_complex){p[0], p[1]});
                continue;
            }
            cpu_complex phase = size > 0 ? (cpu_complex){p[0] / size, p[1] / size} : (cpu_complex){1, 0};
            double root = sqrt(dt);
            left[n] = sqrt(scale) * root * size;
            cpu_split_put(power->rotation, padded, n, (cpu_complex){root * phase.re, root * phase.im});
            cpu_split_put(power->inverse_rotation, padded, n, (cpu_complex){phase.re / root, -phase.im / root});
        }
}

/* |L_i|^2 and |R_i|^2 */
static void squared_sizes(const cpu_displacement *d, double *sizes)
{
    memset(sizes, 0, (size_t)(2 * d->padded) * sizeof *sizes);
    for (int64_t r = 0; r < d->rank; r++)
        for (int64_t n = 0; n < d->modes; n++) {
            cpu_complex left = cpu_split_at(d->left + r * 2 * d->padded, d->padded, n);
            cpu_complex right = d->rank == 1 ? left : cpu_split_at(d->right + r * 2 * d->padded, d->padded, n);
            sizes[n] += left.re * left.re + left.im * left.im;
            sizes[d->padded + n] += right.re * right.re + right.im * right.im;
        }
}

/* The differences of eigenvalues are those of the last channel if it has the same copy. */
void cpu_power_open(cpu_power *power, const s4_system *system, int64_t h)
{
    int64_t copy = h % power->shape->n_ssm;
    if (power->shape->dt_modes == 1 && copy == power->copy) return;
    build_displacement(power, system, h);
    cpu_displacement *d = &power->displacement;
    double *sizes = power->row;
    squared_sizes(d, sizes);
    d->carried_count = 0;
    power->is_dense = 0;
    if (power->level->invert(d, power->lambda, sizes)) {
        power->is_dense = !find_carried(power, sizes);
        if (!power->is_dense) power->level->invert(d, power->lambda, sizes);
    }
    power->copy = copy;
}
