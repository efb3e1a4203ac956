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

/* Sample l of G, counted from the end for reversed modes. */
static double sample(const double *G, int64_t length, int reversed, int64_t l)
{
    return G[reversed ? length - 1 - l : l];
}

/* Moments and slopes of G for the modes of one order; `row` is scratch (L). */
static void sum_over_samples(const cpu_diagonal *diagonal, int reversed, const double *G, double *row)
{
    int64_t length = diagonal->powers.length;
    for (int64_t l = 0; l < length; l++) row[l] = sample(G, length, reversed, l);
    cpu_vandermonde_moments(&diagonal->powers, reversed, row, diagonal->moment);
    for (int64_t l = 0; l + 1 < length; l++) row[l] = (double)(l + 1) * sample(G, length, reversed, l + 1);
    row[length - 1] = 0.0;
    cpu_vandermonde_moments(&diagonal->powers, reversed, row, diagonal->slope);
}

/* Kernel k: writes gC, adds to g_b and to the modes' g_pole and g_weight. */
static void through_kernel(const cpu_kernel_lane *lane, const cpu_diagonal *diagonal, int64_t k, double *g_b,
                           double *g_c)
{
    for (int64_t n = 0; n < lane->shape->modes; n++) {
        cpu_mode *mode = &diagonal->mode[n];
        cpu_complex b = cpu_diagonal_b(lane, n), c = cpu_diagonal_c(lane, k, n);
        cpu_complex g_coefficient = cpu_scaled(2.0, diagonal->moment[n]);

        cpu_complex of_c = cpu_times_conj(g_coefficient, cpu_times(b, mode->weight));
        cpu_complex of_b = cpu_times_conj(g_coefficient, cpu_times(c, mode->weight));
        g_c[2 * n] = of_c.re;
        g_c[2 * n + 1] = of_c.im;
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
    int64_t modes = shape->modes, h = lane->h, dt_modes = shape->dt_modes;
    double *g_lambda = gradient->lambda + 2 * h * modes, *g_b = gradient->b + 2 * h * modes;
    double *g_dt = gradient->dt + h * dt_modes;

    cpu_diagonal diagonal = cpu_diagonal_open(lane);
    for (int64_t n = 0; n < 2 * modes; n++) g_b[n] = 0.0;
    for (int64_t n = 0; n < dt_modes; n++) g_dt[n] = 0.0;
    for (int64_t k = 0; k < shape->kernels; k++) {
        const double *G = cpu_kernel_gradient(lane, k);
        cpu_diagonal_coefficients(lane, &diagonal, k);
        if (diagonal.powers.reversed) sum_over_samples(&diagonal, 1, G, lane->row);
        if (diagonal.powers.reversed < modes) sum_over_samples(&diagonal, 0, G, lane->row);
        through_kernel(lane, &diagonal, k, g_b, gradient->c + 2 * (k * shape->d_model + h) * modes);
    }
    for (int64_t n = 0; n < modes; n++) {
        cpu_mode *mode = &diagonal.mode[n];
        rule->chain(mode);
        g_lambda[2 * n] = mode->g_lambda.re;
        g_lambda[2 * n + 1] = mode->g_lambda.im;
        g_dt[dt_modes == 1 ? 0 : n] += mode->g_dt;
    }
}
