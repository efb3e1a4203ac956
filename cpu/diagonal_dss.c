/*
 * A mode of a diagonal state space (dss): a softmax over the samples of the kernel, so that it depends on the length.
 *
 *   K[l] = Re sum over n of C B (e^a - 1) recip(x) S_l,  x = (e^(a L) - 1) Lambda,  recip(x) = conj(x) / (|x|^2 + 1e-7)
 *   Re Lambda <= 0:  a =  dt Lambda,  S_l = e^(a l)
 *   Re Lambda  > 0:  a = -dt Lambda,  S_l = e^(a (L-1-l)): the same powers in reverse order, none of them above 1
 *
 * so p = e^a and w = (e^a - 1) recip(x) / 2. Backward, with r = recip(x), which is not holomorphic:
 *   gx = (-x^2 gr + 1e-7 conj(gr)) / (|x|^2 + 1e-7)^2
 */
#include "cpu/diagonal.h"

#define SOFTENING 1e-7

/* +1, or -1 for a mode that grows. */
static double sign_of(const cpu_mode *mode) { return mode->lambda.re > 0.0 ? -1.0 : 1.0; }

static double softened(cpu_complex x) { return x.re * x.re + x.im * x.im + SOFTENING; }

static cpu_complex recip(cpu_complex x) { return cpu_scaled(1.0 / softened(x), (cpu_complex){x.re, -x.im}); }

static void discretise(cpu_mode *mode, cpu_pole *pole)
{
    cpu_complex a = cpu_scaled(sign_of(mode) * mode->dt, mode->lambda);
    cpu_complex over_length = cpu_expm1(cpu_scaled((double)mode->length, a));
    cpu_complex r = recip(cpu_times(over_length, mode->lambda));
    *pole = (cpu_pole){a.re, a.im, mode->lambda.re > 0.0};
    mode->weight = cpu_scaled(0.5, cpu_times(cpu_expm1(a), r));
}

static void chain(cpu_mode *mode)
{
    double step = sign_of(mode) * mode->dt, length = (double)mode->length;
    cpu_complex a = cpu_scaled(step, mode->lambda), e = cpu_exp(a);
    cpu_complex e_length = cpu_exp(cpu_scaled(length, a)), over_length = cpu_expm1(cpu_scaled(length, a));
    cpu_complex x = cpu_times(over_length, mode->lambda), r = recip(x);

    cpu_complex g_r = cpu_times_conj(mode->g_weight, cpu_scaled(0.5, cpu_expm1(a)));
    cpu_complex g_x = {0.0, 0.0};
    cpu_add(&g_x, cpu_scaled(-1.0, cpu_times(cpu_times(x, x), g_r)));
    cpu_add(&g_x, cpu_scaled(SOFTENING, (cpu_complex){g_r.re, -g_r.im}));
    g_x = cpu_scaled(1.0 / (softened(x) * softened(x)), g_x);

    cpu_complex g_a = {0.0, 0.0};
    cpu_add(&g_a, cpu_times_conj(mode->g_pole, e));
    cpu_add(&g_a, cpu_times_conj(mode->g_weight, cpu_scaled(0.5, cpu_times(e, r))));
    cpu_add(&g_a, cpu_times_conj(cpu_times_conj(g_x, mode->lambda), cpu_scaled(length, e_length)));

    mode->g_lambda = (cpu_complex){0.0, 0.0};
    cpu_add(&mode->g_lambda, cpu_scaled(step, g_a));
    cpu_add(&mode->g_lambda, cpu_times_conj(g_x, over_length));
    mode->g_dt = sign_of(mode) * cpu_times_conj(g_a, mode->lambda).re;
}

const cpu_diagonal_rule cpu_diagonal_dss = {discretise, chain};
