/*
 * A mode of a diagonal system under zero-order hold: p = e^a, w = dt phi1(a), a = dt Lambda, phi1(a) = (e^a - 1)/a.
 *
 *   dp/da = e^a;   dw/dt = e^a at fixed Lambda;   dw/dLambda = dt^2 phi1'(a)
 */
#include "cpu/diagonal.h"

static void discretise(cpu_mode *mode, cpu_pole *pole)
{
    cpu_complex a = cpu_scaled(mode->dt, mode->lambda);
    *pole = (cpu_pole){a.re, a.im, 0};
    mode->weight = cpu_scaled(mode->dt, cpu_phi1(a));
}

static void chain(cpu_mode *mode)
{
    double dt = mode->dt;
    cpu_complex a = cpu_scaled(dt, mode->lambda), e = cpu_exp(a);
    cpu_complex g_a = cpu_times_conj(mode->g_pole, e);

    mode->g_lambda = (cpu_complex){0.0, 0.0};
    mode->g_dt = 0.0;
    cpu_add(&mode->g_lambda, cpu_scaled(dt, g_a));
    cpu_add(&mode->g_lambda, cpu_times_conj(mode->g_weight, cpu_scaled(dt * dt, cpu_phi1_slope(a))));
    mode->g_dt += cpu_times_conj(g_a, mode->lambda).re;
    mode->g_dt += cpu_times_conj(mode->g_weight, e).re;
}

const cpu_diagonal_rule cpu_diagonal_zoh = {discretise, chain};
