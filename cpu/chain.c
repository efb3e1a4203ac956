/*
 * Gradients of the effective parameters, per channel -> gradients of the raw parameters:
 *   gA_real = -Re gLambda f'(A_real),   gA_imag = -Im gLambda g'(A_imag),   g inv_dt = rate gdt t'(inv_dt),
 * from Lambda = -f(A_real) - i g(A_imag) and dt = rate t(inv_dt); complex gradients are dL/dRe + i dL/dIm.
 * Lambda, B and P of a copy are shared by the channels h = copy, copy + S, ...: their gradients are summed, h
 * ascending. C (of the stored leaf; 0 in the modes that a bandlimit takes out), dt and D belong to one channel each.
 */
#include "cpu/place.h"

/* What is not wanted is not read either: nobody may have made it. */
static int wants(const s4_task *task, s4_parameter which) { return task->gradients->parameter[which] != NULL; }

static void put(const s4_gradients *gradients, s4_parameter which, int64_t index, double value)
{
    double *gradient = gradients->parameter[which];
    if (gradients->accumulate)
        gradient[index] += value;
    else
        gradient[index] = value;
}

/* Element `index` (of 2n) of rows (H,n,2), summed over the channels of a copy. */
static double sum_of_copy(const s4_shape *shape, const double *rows, int64_t copy, int64_t index)
{
    double sum = 0;
    for (int64_t h = copy; h < shape->d_model; h += shape->n_ssm) sum += rows[h * 2 * shape->modes + index];
    return sum;
}

static void chain_lambda(const s4_task *task, const double *g_lambda)
{
    const s4_shape *shape = task->shape;
    const s4_raw *raw = task->raw;
    for (int64_t copy = 0; copy < shape->n_ssm; copy++)
        for (int64_t n = 0; n < shape->modes; n++) {
            int64_t index = copy * shape->modes + n;
            if (wants(task, S4_PARAMETER_A_REAL)) {
                double slope_real = cpu_transform_slope(raw->real_transform, raw->parameter[S4_PARAMETER_A_REAL][index]);
                double g_re = sum_of_copy(shape, g_lambda, copy, 2 * n);
                put(task->gradients, S4_PARAMETER_A_REAL, index, -g_re * slope_real);
            }
            if (wants(task, S4_PARAMETER_A_IMAG)) {
                double slope_imag = cpu_transform_slope(raw->imag_transform, raw->parameter[S4_PARAMETER_A_IMAG][index]);
                double g_im = sum_of_copy(shape, g_lambda, copy, 2 * n + 1);
                put(task->gradients, S4_PARAMETER_A_IMAG, index, -g_im * slope_imag);
            }
        }
}

/* B, and each of the R columns of P: rows (H,n,2) -> (S,n,2) from element `first` on. */
static void chain_shared(const s4_task *task, s4_parameter which, const double *rows, int64_t first)
{
    const s4_shape *shape = task->shape;
    int64_t state = 2 * shape->modes;
    if (!wants(task, which)) return;
    for (int64_t copy = 0; copy < shape->n_ssm; copy++)
        for (int64_t index = 0; index < state; index++)
            put(task->gradients, which, first + copy * state + index, sum_of_copy(shape, rows, copy, index));
}

static void chain_own(const s4_task *task, s4_parameter which, const double *values, int64_t count)
{
    if (!wants(task, which)) return;
    for (int64_t index = 0; index < count; index++) put(task->gradients, which, index, values[index]);
}

static void chain_c(const s4_task *task, const s4_system *system, const double *g_c)
{
    const s4_shape *shape = task->shape;
    if (!wants(task, S4_PARAMETER_C)) return;
    for (int64_t row = 0; row < shape->kernels * shape->d_model; row++)
        for (int64_t n = 0; n < shape->modes; n++) {
            int64_t index = 2 * (row * shape->modes + n);
            int limited = cpu_is_bandlimited(shape, task->raw, system->lambda, row % shape->d_model, n);
            put(task->gradients, S4_PARAMETER_C, index, limited ? 0 : g_c[index]);
            put(task->gradients, S4_PARAMETER_C, index + 1, limited ? 0 : g_c[index + 1]);
        }
}

static void chain_dt(const s4_task *task, const double *g_dt)
{
    const s4_shape *shape = task->shape;
    const double *inv_dt = task->raw->parameter[S4_PARAMETER_INV_DT];
    if (!wants(task, S4_PARAMETER_INV_DT)) return;
    for (int64_t index = 0; index < shape->d_model * shape->dt_modes; index++) {
        double slope = cpu_transform_slope(task->raw->dt_transform, inv_dt[index]);
        put(task->gradients, S4_PARAMETER_INV_DT, index, shape->rate * g_dt[index] * slope);
    }
}

s4_status cpu_chain(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    s4_system system = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]);
    s4_system_gradient g = s4_system_gradient_view(shape, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]);
    int64_t state = 2 * shape->modes;

    chain_dt(task, g.dt);
    chain_lambda(task, g.lambda);
    chain_shared(task, S4_PARAMETER_B, g.b, 0);
    for (int64_t r = 0; r < shape->rank; r++)
        chain_shared(task, S4_PARAMETER_P, g.p + r * shape->d_model * state, r * shape->n_ssm * state);
    chain_c(task, &system, g.c);
    chain_own(task, S4_PARAMETER_D, g.d, shape->channels * shape->d_model);
    return S4_OK;
}
