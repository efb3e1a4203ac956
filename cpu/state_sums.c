/*
 * What steps x_t+1 = dA x_t + dB u[t] of a channel give to its parameters. With m_t+1 the adjoint of x_t+1 and
 * m_t = dA^T m_t+1, dA and dB get the sums over samples and rows of m_t+1 x_t^T and m_t+1 u[t].
 *
 * A diagonal layer needs of these only left conj(right) and left u, mode by mode, with left = m_t+1 and right = x_t;
 * its discretisation takes them to Lambda, B and dt.
 *
 * A DPLR layer is bilinear, an implicit step: x_t+1 - x_t = dt (A (x_t + x_t+1) / 2 + B u[t]). Its adjoint, with
 *   left = (I - dt/2 A)^-T m_t+1 = (m_t+1 + m_t) / 2,   right = x_t + x_t+1,   Y = sum of left right^T
 * gives
 *   gA = dt/2 Y;   gB = dt sum of left u;   g dt_i = (Y A^T / 2 + sum of left u B^T)_ii,
 * and in the real basis A = Lambda - 2 sum over r of p_r p_r^T, so of Y only its diagonal by modes, Y p_r and
 * Y^T (dt p_r) are needed: O(nR) a sample. No matrix is built.
 */
#include "cpu/state_sums.h"

#include <string.h>

#include "cpu/diagonal.h"

/* ---- the sums ---------------------------------------------------------------------------------------------------- */

int64_t cpu_state_sums_rows(const s4_shape *shape) { return s4_state_sums(shape) + 2 * shape->rank; }

cpu_state_sums cpu_state_sums_at(const s4_shape *shape, double *rows)
{
    int64_t state = 2 * shape->modes, of_columns = shape->rank * state;
    cpu_state_sums sums = {.mode = rows, .input = rows + state, .along_p = rows + 2 * state};
    sums.onto_p = sums.along_p + of_columns;
    sums.read_out = sums.onto_p + of_columns;
    sums.p = sums.read_out + shape->channels * state;
    sums.dt_p = sums.p + of_columns;
    return sums;
}

void cpu_state_sums_columns(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_state_sums *sums)
{
    int64_t modes = shape->modes, state = 2 * modes;
    for (int64_t r = 0; r < shape->rank; r++) {
        double *p = sums->p + r * state, *dt_p = sums->dt_p + r * state;
        cpu_split(modes, system->p + (r * shape->n_ssm + h % shape->n_ssm) * state, p);
        for (int64_t n = 0; n < modes; n++) {
            double dt = cpu_dt(shape, system, h, n);
            dt_p[n] = dt * p[n];
            dt_p[modes + n] = dt * p[modes + n];
        }
    }
}

void cpu_state_sums_clear(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_state_sums *sums)
{
    memset(sums->mode, 0, (size_t)(s4_state_sums(shape) * 2 * shape->modes) * sizeof(double));
    cpu_state_sums_columns(shape, system, h, sums);
}

void cpu_state_sums_add(const s4_shape *shape, const cpu_state_sums *sums, const double *left, const double *right,
                        double u)
{
    int64_t modes = shape->modes, state = 2 * modes;
    const double *left_re = left, *left_im = left + modes, *right_re = right, *right_im = right + modes;
    double *mode_re = sums->mode, *mode_im = sums->mode + modes;
#pragma omp simd
    for (int64_t n = 0; n < modes; n++) {
        mode_re[n] += left_re[n] * right_re[n];
        mode_re[n] += left_im[n] * right_im[n];
        mode_im[n] += left_im[n] * right_re[n];
        mode_im[n] -= left_re[n] * right_im[n];
    }
    for (int64_t r = 0; r < shape->rank; r++) {
        double right_p = cpu_inner(state, right, sums->p + r * state);
        double left_p = cpu_inner(state, left, sums->dt_p + r * state);
        cpu_add_scaled(state, right_p, left, sums->along_p + r * state);
        cpu_add_scaled(state, left_p, right, sums->onto_p + r * state);
    }
    cpu_add_scaled(state, u, left, sums->input);
}

/* ---- to the effective parameters --------------------------------------------------------------------------------- */

static void finish_diagonal(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_state_sums *sums,
                            const s4_system_gradient *gradient)
{
    const cpu_diagonal_rule *rule = cpu_diagonal_rule_of(shape);
    int64_t modes = shape->modes, copy = h % shape->n_ssm;
    for (int64_t n = 0; n < modes; n++) {
        const double *lambda = system->lambda + 2 * (copy * modes + n), *b = system->b + 2 * (copy * modes + n);
        double *g_lambda = gradient->lambda + 2 * (h * modes + n), *g_b = gradient->b + 2 * (h * modes + n);
        cpu_mode mode = {.length = shape->kernel_length, /* dB = w B */
                         .dt = cpu_dt(shape, system, h, n),
                         .lambda = {lambda[0], lambda[1]},
                         .g_pole = cpu_split_at(sums->mode, modes, n)};
        cpu_pole pole;
        rule->discretise(&mode, &pole);
        cpu_complex g_input = cpu_split_at(sums->input, modes, n);
        cpu_complex of_b = cpu_times_conj(g_input, mode.weight);
        mode.g_weight = cpu_times_conj(g_input, (cpu_complex){b[0], b[1]});
        rule->chain(&mode);
        g_lambda[0] += mode.g_lambda.re;
        g_lambda[1] += mode.g_lambda.im;
        g_b[0] += of_b.re;
        g_b[1] += of_b.im;
        gradient->dt[h * shape->dt_modes + (shape->dt_modes > 1 ? n : 0)] += mode.g_dt;
    }
}

/* The columns of P, of A = Lambda - 2 sum of p p^T: gP = -2 (gA + gA^T) p with gA = dt/2 Y. */
static void finish_columns(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_state_sums *sums,
                           const s4_system_gradient *gradient)
{
    int64_t modes = shape->modes, state = 2 * modes;
    for (int64_t r = 0; r < shape->rank; r++)
        for (int64_t n = 0; n < modes; n++) {
            double dt = cpu_dt(shape, system, h, n);
            double *g_p = gradient->p + (r * shape->d_model + h) * state + 2 * n;
            double *g_dt = gradient->dt + h * shape->dt_modes + (shape->dt_modes > 1 ? n : 0);
            cpu_complex p = cpu_split_at(sums->p + r * state, modes, n);
            cpu_complex along = cpu_split_at(sums->along_p + r * state, modes, n);
            cpu_complex onto = cpu_split_at(sums->onto_p + r * state, modes, n);
            g_p[0] -= dt * along.re;
            g_p[0] -= onto.re;
            g_p[1] -= dt * along.im;
            g_p[1] -= onto.im;
            *g_dt -= p.re * along.re;
            *g_dt -= p.im * along.im;
        }
}

static void finish_dplr(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_state_sums *sums,
                        const s4_system_gradient *gradient)
{
    int64_t modes = shape->modes, copy = h % shape->n_ssm;
    for (int64_t n = 0; n < modes; n++) {
        const double *lambda = system->lambda + 2 * (copy * modes + n), *b = system->b + 2 * (copy * modes + n);
        double *g_lambda = gradient->lambda + 2 * (h * modes + n), *g_b = gradient->b + 2 * (h * modes + n);
        double *g_dt = gradient->dt + h * shape->dt_modes + (shape->dt_modes > 1 ? n : 0);
        double dt = cpu_dt(shape, system, h, n);
        cpu_complex of_mode = cpu_split_at(sums->mode, modes, n), of_input = cpu_split_at(sums->input, modes, n);
        g_lambda[0] += dt / 2 * of_mode.re;
        g_lambda[1] += dt / 2 * of_mode.im;
        g_b[0] += dt * of_input.re;
        g_b[1] += dt * of_input.im;
        *g_dt += lambda[0] * of_mode.re / 2;
        *g_dt += lambda[1] * of_mode.im / 2;
        *g_dt += b[0] * of_input.re;
        *g_dt += b[1] * of_input.im;
    }
    finish_columns(shape, system, h, sums, gradient);
}

/* Rows [2 Re C, -2 Im C] -> C. */
static void finish_read_outs(const s4_shape *shape, int64_t h, const cpu_state_sums *sums,
                             const s4_system_gradient *gradient)
{
    int64_t modes = shape->modes, state = 2 * modes;
    for (int64_t c = 0; c < shape->channels; c++)
        for (int64_t n = 0; n < modes; n++) {
            cpu_complex of_row = cpu_split_at(sums->read_out + c * state, modes, n);
            double *g_c = gradient->c + (c * shape->d_model + h) * state + 2 * n;
            g_c[0] += 2 * of_row.re;
            g_c[1] -= 2 * of_row.im;
        }
}

void cpu_state_sums_finish(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_state_sums *sums,
                           const s4_system_gradient *gradient)
{
    (shape->mode == S4_MODE_DPLR ? finish_dplr : finish_diagonal)(shape, system, h, sums, gradient);
    finish_read_outs(shape, h, sums, gradient);
}
