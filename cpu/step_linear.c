/*
 * The recurrence with O(nR) work a sample: x <- dA x + dB u[t] by the bilinear step of a diagonal plus low-rank
 * system, y[t] = 2 Re sum_n C_n x_n + D u[t].
 */
#include "cpu/place.h"

static cpu_linear open_linear(const cpu_step_row *row)
{
    return cpu_linear_view(row->shape->modes, row->shape->rank, (double *)row->system);
}

static void drive(const cpu_linear *linear, double u, double *x)
{
    const double *dB = linear->b;
#pragma omp simd
    for (int64_t n = 0; n < 2 * linear->modes; n++) x[n] += dB[n] * u;
}

static double read_out(const cpu_step_row *row, const double *x)
{
    int64_t modes = row->shape->modes;
    const double *c = row->system + cpu_linear_rows(row->shape->rank) * 2 * modes;
    double re = 0;
    for (int64_t n = 0; n < modes; n++) re += c[n] * x[n] - c[modes + n] * x[modes + n];
    return 2 * re;
}

void cpu_step_linear(const cpu_step_row *row)
{
    s4_dtype dtype = row->shape->dtype;
    cpu_linear linear = open_linear(row);
    for (int64_t t = 0; t < row->length; t++) {
        double u = cpu_sample(dtype, row->u, t);
        cpu_linear_advance(&linear, row->x, row->scratch);
        drive(&linear, u, row->x);
        cpu_put_sample(dtype, row->y, t, read_out(row, row->x) + row->d * u);
    }
}

void cpu_respond_linear(const cpu_step_row *row)
{
    s4_dtype dtype = row->shape->dtype;
    cpu_linear linear = open_linear(row);
    for (int64_t t = 0; t < row->length; t++) {
        cpu_linear_advance(&linear, row->x, row->scratch);
        cpu_put_sample(dtype, row->y, t, cpu_sample(dtype, row->y, t) + read_out(row, row->x));
    }
}

void cpu_absorb_linear(const cpu_step_row *row)
{
    cpu_linear linear = open_linear(row);
    for (int64_t t = 0; t < row->length; t++) {
        cpu_linear_advance(&linear, row->x, row->scratch);
        drive(&linear, cpu_sample(row->shape->dtype, row->u, t), row->x);
    }
}
