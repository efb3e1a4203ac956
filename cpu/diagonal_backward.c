/*
 * Gradients of a diagonal system from the gradients G of its kernels, K[l] = 2 Re sum over n of c_n p_n^l, c = C B w:
 *
 *   gc = 2 sum over l of G_l conj(p^l);   gp = 2 conj(c) sum over l of l G_l conj(p^(l-1))
 *   gC = conj(B w) gc;   gB = conj(C w) gc;   gw = conj(C B) gc
 *
 * then from p and w to Lambda and dt by the discretisation. B, p and w belong to all kernels of the channel: theirs are
 * summed, k ascending. Log p appears nowhere: p may be 0.
 */
#include "cpu/diagonal.h"

/* Kernel k: writes gC; of the rest, adds to g_b and to the modes' g_pole and g_weight, unless g_b is NULL. */
static void through_kernel(const cpu_kernel_lane *lane, const cpu_diagonal *diagonal, int64_t k, double *g_b,
                           double *g_c)
{
    for (int64_t n = 0; n < lane->shape->modes; n++) {
        cpu_mode *mode = &diagonal->mode[n];
        cpu_complex b = cpu_diagonal_b(lane, n), c = cpu_diagonal_c(lane, k, n);
        cpu_complex g_coefficient = cpu_scaled(2.0, diagonal->moment[n]);

        cpu_complex of_c = cpu_times_conj(g_coefficient, cpu_times(b, mode->weight));
        g_c[2 * n] = of_c.re;
        g_c[2 * n + 1] = of_c.im;
        if (!g_b) continue;
        cpu_complex of_b = cpu_times_conj(g_coefficient, cpu_times(c, mode->weight));
        g_b[2 * n] += of_b.re;
        g_b[2 * n + 1] += of_b.im;
        cpu_add(&mode->g_weight, cpu_times_conj(g_coefficient, cpu_times(c, b)));
        cpu_add(&mode->g_pole, cpu_times_conj(cpu_scaled(2.0, diagonal->slope[n]), diagonal->c[n]));
    }
}

void cpu_diagonal_backward(const cpu_kernel_lane *lane, const s4_system_gradient *gradient)
{
    const s4_shape *shape = lane->shape;
    const cpu_diagonal_rule *rule = cpu_diagonal_rule_of(shape);
    const int system = (lane->task->wanted & S4_WANTED_SYSTEM) != 0;
    int64_t modes = shape->modes, h = lane->h, dt_modes = shape->dt_modes;
    double *g_lambda = gradient->lambda + 2 * h * modes, *g_b = system ? gradient->b + 2 * h * modes : NULL;
    double *g_dt = gradient->dt + h * dt_modes;

    cpu_diagonal diagonal = cpu_diagonal_open(lane);
    for (int64_t n = 0; system && n < 2 * modes; n++) g_b[n] = 0.0;
    for (int64_t k = 0; k < shape->kernels; k++) {
        cpu_diagonal_coefficients(lane, &diagonal, k);
        cpu_vandermonde_moments(&diagonal.powers, cpu_kernel_gradient(lane, k), diagonal.moment,
                                system ? diagonal.slope : NULL);
        through_kernel(lane, &diagonal, k, g_b, gradient->c + 2 * (k * shape->d_model + h) * modes);
    }
    if (!system) return;
    for (int64_t n = 0; n < dt_modes; n++) g_dt[n] = 0.0;
    for (int64_t n = 0; n < modes; n++) {
        cpu_mode *mode = &diagonal.mode[n];
        rule->chain(mode);
        g_lambda[2 * n] = mode->g_lambda.re;
        g_lambda[2 * n + 1] = mode->g_lambda.im;
        g_dt[dt_modes == 1 ? 0 : n] += mode->g_dt;
    }
}
