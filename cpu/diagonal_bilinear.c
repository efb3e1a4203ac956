/*
 * A mode of a diagonal system under the bilinear rule: p = (1 + a/2) / (1 - a/2), w = dt / (1 - a/2), a = dt Lambda.
 * With q = 1 / (1 - a/2):
 *
 *   dp/da = q^2;   dw/dt = q^2 at fixed Lambda;   dw/dLambda = dt^2/2 q^2
 *
 * Log |p| is exact for |p| near 1, where powers decay slowly: |p|^2 = 1 + 2 Re a / |1 - a/2|^2.
 */
#include "cpu/diagonal.h"

#include <math.h>

static cpu_complex inverse(cpu_complex a)
{
    return cpu_quotient((cpu_complex){1.0, 0.0}, (cpu_complex){1.0 - 0.5 * a.re, -0.5 * a.im});
}

static void discretise(cpu_mode *mode, cpu_pole *pole)
{
    cpu_complex a = cpu_scaled(mode->dt, mode->lambda);
    double above = hypot(1.0 + 0.5 * a.re, 0.5 * a.im), below = hypot(1.0 - 0.5 * a.re, 0.5 * a.im);
    double excess = 2.0 * a.re / (below * below);
    pole->log_modulus = fabs(excess) < 0.5 ? 0.5 * log1p(excess) : log(above / below);
    pole->angle = atan2(0.5 * a.im, 1.0 + 0.5 * a.re) + atan2(0.5 * a.im, 1.0 - 0.5 * a.re);
    pole->reversed = 0;
    mode->weight = cpu_scaled(mode->dt, inverse(a));
}

static void chain(cpu_mode *mode)
{
    double dt = mode->dt;
    cpu_complex q = inverse(cpu_scaled(dt, mode->lambda)), q_squared = cpu_times(q, q);
    cpu_complex g_a = cpu_times_conj(mode->g_pole, q_squared);

    mode->g_lambda = (cpu_complex){0.0, 0.0};
    mode->g_dt = 0.0;
    cpu_add(&mode->g_lambda, cpu_scaled(dt, g_a));
    cpu_add(&mode->g_lambda, cpu_times_conj(mode->g_weight, cpu_scaled(0.5 * dt * dt, q_squared)));
    mode->g_dt += cpu_times_conj(g_a, mode->lambda).re;
    mode->g_dt += cpu_times_conj(mode->g_weight, q_squared).re;
}

const cpu_diagonal_rule cpu_diagonal_bilinear = {discretise, chain};
