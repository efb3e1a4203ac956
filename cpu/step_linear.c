/*
 * The recurrence with O(nR) work a sample: x <- dA x + dB u[t] by the step of a diagonal plus low-rank system (of a
 * diagonal one where the rank is 0), y_c[t] = 2 Re sum_n C_cn x_n + D_c u[t].
 */
#include "cpu/place.h"

int cpu_make_linear(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_lane *lane, double *base,
                    cpu_failure *failure)
{
    (void)lane;
    cpu_linear linear = cpu_linear_view(shape->modes, shape->rank, base);
    if (cpu_linear_build(shape, system, h, 1, &linear)) return 1;
    *failure = (cpu_failure){.kind = CPU_FAILURE_STEP, .channel = h, .value = cpu_dt(shape, system, h, 0)};
    return 0;
}

static cpu_linear open_linear(const cpu_step_row *row)
{
    return cpu_linear_view(row->shape->modes, row->shape->rank, (double *)row->system);
}

/* 2 Re C_c x of output c. */
static double read_out(const cpu_step_row *row, int64_t c)
{
    int64_t state = 2 * row->shape->modes;
    const double *rows = row->system + cpu_linear_rows(row->shape->rank) * state;
    return cpu_inner(state, rows + c * state, row->x);
}

void cpu_step_linear(const cpu_step_row *row)
{
    const s4_shape *shape = row->shape;
    cpu_linear linear = open_linear(row);
    for (int64_t t = 0; t < row->length; t++) {
        double u = cpu_sample(shape->dtype, row->u, t * row->u_time);
        cpu_linear_advance(&linear, u, row->x);
        for (int64_t c = 0; c < shape->channels; c++) {
            double y = read_out(row, c) + row->d[c * shape->d_model] * u;
            cpu_put_sample(shape->dtype, row->y, c * row->y_output + t * row->y_time, y);
        }
    }
}

void cpu_respond_linear(const cpu_step_row *row)
{
    const s4_shape *shape = row->shape;
    cpu_linear linear = open_linear(row);
    for (int64_t t = 0; t < row->length; t++) {
        cpu_linear_advance(&linear, 0, row->x);
        for (int64_t c = 0; c < shape->channels; c++) {
            int64_t offset = c * row->y_output + t * row->y_time;
            double y = cpu_sample(shape->dtype, row->y, offset) + read_out(row, c);
            cpu_put_sample(shape->dtype, row->y, offset, y);
        }
    }
}

void cpu_absorb_linear(const cpu_step_row *row)
{
    cpu_linear linear = open_linear(row);
    for (int64_t t = 0; t < row->length; t++)
        cpu_linear_advance(&linear, cpu_sample(row->shape->dtype, row->u, t * row->u_time), row->x);
}
