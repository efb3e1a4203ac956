/*
 * Raw parameters -> effective parameters:
 *   Lambda = -f(A_real) - i g(A_imag),   dt = rate t(inv_dt),   B, P and D as they are;
 *   C as it is stored, and 0 in the modes where a bandlimit alpha holds: t(inv_dt) |Im Lambda| / 2 pi >= alpha / 2;
 * f, g and t from one table of five transforms with their derivatives.
 *
 * This is where non-finite parameters enter, so here they are refused, by tensor, flat index and value; likewise a
 * step that is not positive, and in DPLR layers a Lambda of exactly 0 (the frequency kernel is 0/0 there).
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cpu/place.h"

static double identity(double x) { return x; }
static double one(double x)
{
    (void)x;
    return 1;
}
static double relu(double x) { return (x > 0 ? x : 0) + 1e-4; }
static double relu_slope(double x) { return x > 0 ? 1 : 0; }
/* e^-|x| never overflows. */
static double sigmoid(double x)
{
    double small = exp(-fabs(x));
    return (x >= 0 ? 1 : small) / (1 + small);
}
static double sigmoid_slope(double x)
{
    double small = exp(-fabs(x));
    return small / ((1 + small) * (1 + small));
}
static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }

static const struct {
    const char *name;
    double (*value)(double raw);
    double (*slope)(double raw);
} transforms[] = {
    [S4_TRANSFORM_NONE] = {"none", identity, one},
    [S4_TRANSFORM_EXP] = {"exp", exp, exp},
    [S4_TRANSFORM_RELU] = {"relu", relu, relu_slope},
    [S4_TRANSFORM_SIGMOID] = {"sigmoid", sigmoid, sigmoid_slope},
    [S4_TRANSFORM_SOFTPLUS] = {"softplus", softplus, sigmoid},
};

double cpu_transform_value(s4_transform transform, double raw) { return transforms[transform].value(raw); }

double cpu_transform_slope(s4_transform transform, double raw) { return transforms[transform].slope(raw); }

int64_t cpu_first_not_finite(int64_t count, const double *values)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(values[i])) return i;
    return -1;
}

static const char *const parameter_name[S4_PARAMETER_COUNT] = {
    [S4_PARAMETER_INV_DT] = "kernel.inv_dt",
    [S4_PARAMETER_A_REAL] = "kernel.A_real",
    [S4_PARAMETER_A_IMAG] = "kernel.A_imag",
    [S4_PARAMETER_B] = "kernel.B",
    [S4_PARAMETER_P] = "kernel.P",
    [S4_PARAMETER_C] = "kernel.C",
    [S4_PARAMETER_D] = "D",
};

#define TWO_PI 6.28318530717958647692528676655900577

int cpu_is_bandlimited(const s4_shape *shape, const s4_raw *raw, const double *lambda, int64_t h, int64_t n)
{
    if (!(raw->bandlimit > 0)) return 0;
    double inv_dt = raw->parameter[S4_PARAMETER_INV_DT][h * shape->dt_modes + (shape->dt_modes > 1 ? n : 0)];
    double omega = lambda[2 * (h % shape->n_ssm * shape->modes + n) + 1];
    return cpu_transform_value(raw->dt_transform, inv_dt) * fabs(omega) / TWO_PI >= raw->bandlimit / 2;
}

static s4_status check_raw(const s4_shape *shape, const s4_raw *raw)
{
    int64_t modes = shape->modes, copies = shape->n_ssm, d_model = shape->d_model;
    const int64_t count[S4_PARAMETER_COUNT] = {
        [S4_PARAMETER_INV_DT] = d_model * shape->dt_modes,
        [S4_PARAMETER_A_REAL] = copies * modes,
        [S4_PARAMETER_A_IMAG] = copies * modes,
        [S4_PARAMETER_B] = copies * modes * 2,
        [S4_PARAMETER_P] = shape->rank * copies * modes * 2,
        [S4_PARAMETER_C] = shape->kernels * d_model * modes * 2,
        [S4_PARAMETER_D] = shape->channels * d_model,
    };
    for (int which = 0; which < S4_PARAMETER_COUNT; which++) {
        int64_t index = cpu_first_not_finite(count[which], raw->parameter[which]);
        if (index >= 0)
            return cpu_host->fail(S4_ERROR_NOT_FINITE, "%s[%" PRId64 "] = %g is not finite", parameter_name[which],
                                  index, raw->parameter[which][index]);
    }
    return S4_OK;
}

/* A finite raw value may still overflow under exp. */
static s4_status transform_checked(const s4_raw *raw, s4_parameter which, s4_transform transform, int64_t index,
                                   double *value)
{
    double given = raw->parameter[which][index];
    *value = cpu_transform_value(transform, given);
    if (isfinite(*value)) return S4_OK;
    return cpu_host->fail(S4_ERROR_NOT_FINITE, "%s[%" PRId64 "] = %g gives %g by transform %s: not finite",
                          parameter_name[which], index, given, *value, transforms[transform].name);
}

static s4_status make_dt(const s4_shape *shape, const s4_raw *raw, double rate, double *dt)
{
    for (int64_t index = 0; index < shape->d_model * shape->dt_modes; index++) {
        s4_status status = transform_checked(raw, S4_PARAMETER_INV_DT, raw->dt_transform, index, &dt[index]);
        if (status) return status;
        dt[index] *= rate;
        double given = raw->parameter[S4_PARAMETER_INV_DT][index];
        if (!isfinite(dt[index]))
            return cpu_host->fail(S4_ERROR_NOT_FINITE, "%s[%" PRId64 "] = %g gives dt = %g at rate %g: not finite",
                                  parameter_name[S4_PARAMETER_INV_DT], index, given, dt[index], rate);
        if (dt[index] < DBL_MIN)
            return cpu_host->fail(S4_ERROR_ARGUMENT,
                                  "%s[%" PRId64 "] = %g gives dt = %g at rate %g by transform %s: must be at least %g",
                                  parameter_name[S4_PARAMETER_INV_DT], index, given, dt[index], rate,
                                  transforms[raw->dt_transform].name, DBL_MIN);
    }
    return S4_OK;
}

static s4_status make_lambda(const s4_shape *shape, const s4_raw *raw, double *lambda)
{
    for (int64_t index = 0; index < shape->n_ssm * shape->modes; index++) {
        double decay, frequency;
        s4_status status = transform_checked(raw, S4_PARAMETER_A_REAL, raw->real_transform, index, &decay);
        if (status) return status;
        status = transform_checked(raw, S4_PARAMETER_A_IMAG, raw->imag_transform, index, &frequency);
        if (status) return status;
        if (shape->mode == S4_MODE_DPLR && decay == 0 && frequency == 0)
            return cpu_host->fail(
                S4_ERROR_SINGULAR,
                "Lambda of copy %" PRId64 ", mode %" PRId64 " is exactly 0 (A_real = %g, A_imag = %g)",
                index / shape->modes, index % shape->modes, raw->parameter[S4_PARAMETER_A_REAL][index],
                raw->parameter[S4_PARAMETER_A_IMAG][index]);
        lambda[2 * index] = -decay;
        lambda[2 * index + 1] = -frequency;
    }
    return S4_OK;
}

static void make_c(const s4_shape *shape, const s4_raw *raw, const double *lambda, double *c)
{
    const double *stored = raw->parameter[S4_PARAMETER_C];
    for (int64_t row = 0; row < shape->kernels * shape->d_model; row++)
        for (int64_t n = 0; n < shape->modes; n++) {
            int64_t index = 2 * (row * shape->modes + n);
            int limited = cpu_is_bandlimited(shape, raw, lambda, row % shape->d_model, n);
            c[index] = limited ? 0 : stored[index];
            c[index + 1] = limited ? 0 : stored[index + 1];
        }
}

static s4_status make_system(const s4_shape *shape, const s4_raw *raw, double rate, const s4_system *system)
{
    s4_status status = check_raw(shape, raw);
    if (!status) status = make_dt(shape, raw, rate, system->dt);
    if (!status) status = make_lambda(shape, raw, system->lambda);
    if (status) return status;
    size_t state_bytes = (size_t)shape->modes * 2 * sizeof(double);
    memcpy(system->b, raw->parameter[S4_PARAMETER_B], (size_t)shape->n_ssm * state_bytes);
    if (shape->rank)
        memcpy(system->p, raw->parameter[S4_PARAMETER_P], (size_t)(shape->rank * shape->n_ssm) * state_bytes);
    make_c(shape, raw, system->lambda, system->c);
    memcpy(system->d, raw->parameter[S4_PARAMETER_D], (size_t)(shape->channels * shape->d_model) * sizeof(double));
    return S4_OK;
}

s4_status cpu_effective(const s4_shape *shape, const s4_raw *raw, const s4_system *system)
{
    return make_system(shape, raw, 1, system);
}

s4_status cpu_transform(const s4_task *task)
{
    s4_system system = s4_system_view(task->shape, task->buffer[S4_BUFFER_SYSTEM]);
    return make_system(task->shape, task->raw, task->shape->rate, &system);
}
