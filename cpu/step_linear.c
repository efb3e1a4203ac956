/*
 * The recurrence with O(nR) work a sample: x <- dA x + dB u[t] by the step of a diagonal plus low-rank system (of a
 * diagonal one where the rank is 0), y_c[t] = 2 Re sum_n C_cn x_n + D_c u[t].
 */
#include "cpu/step.h"

static int make_linear(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_lane *lane, double *base,
                       cpu_failure *failure)
{
    (void)lane;
    cpu_linear linear = cpu_linear_view(shape->modes, shape->rank, base);
    if (cpu_linear_build(shape, system, h, 1, &linear)) return 1;
    *failure = (cpu_failure){.kind = CPU_FAILURE_STEP, .channel = h, .value = cpu_dt(shape, system, h, 0)};
    return 0;
}

static int64_t rows_before(const s4_shape *shape) { return cpu_linear_rows(shape->rank); }

static cpu_recurrence open_linear(const s4_shape *shape, const double *base)
{
    cpu_recurrence row = cpu_recurrence_of(shape);
    cpu_linear linear = cpu_linear_view(row.modes, row.rank, (double *)base);
    row.dA = linear.f;
    row.b = linear.b;
    row.p = linear.p;
    row.g = linear.g;
    row.c = base + rows_before(shape) * 2 * row.modes;
    return row;
}

static void run_linear(const cpu_stepper *level, const cpu_recurrence *row) { level->linear(row); }

const cpu_step_way cpu_way_linear = {make_linear, rows_before, open_linear, run_linear};
