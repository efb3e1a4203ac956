/*
 * The recurrence with O(nR) work a sample: x <- dA x + dB u[t] by the step of a diagonal plus low-rank system (of a
 * diagonal one where the rank is 0), y_c[t] = 2 Re sum_n C_cn x_n + D_c u[t].
 */
#include "cpu/step.h"

int cpu_make_linear(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_lane *lane, double *base,
                    cpu_failure *failure)
{
    (void)lane;
    cpu_linear linear = cpu_linear_view(shape->modes, shape->rank, base);
    if (cpu_linear_build(shape, system, h, 1, &linear)) return 1;
    *failure = (cpu_failure){.kind = CPU_FAILURE_STEP, .channel = h, .value = cpu_dt(shape, system, h, 0)};
    return 0;
}

static cpu_recurrence open_linear(const cpu_step_row *row)
{
    cpu_recurrence opened = cpu_recurrence_of(row);
    cpu_linear linear = cpu_linear_view(opened.modes, opened.rank, (double *)row->system);
    opened.dA = linear.f;
    opened.b = linear.b;
    opened.p = linear.p;
    opened.g = linear.g;
    opened.c = row->system + cpu_linear_rows(opened.rank) * 2 * opened.modes;
    return opened;
}

void cpu_step_linear(const cpu_step_row *row)
{
    cpu_recurrence opened = open_linear(row);
    cpu_stepper_at(row->device)->linear(&opened);
}

void cpu_respond_linear(const cpu_step_row *row)
{
    cpu_recurrence opened = open_linear(row);
    cpu_stepper_at(row->device)->respond(&opened);
}

void cpu_absorb_linear(const cpu_step_row *row)
{
    cpu_recurrence opened = open_linear(row);
    cpu_stepper_at(row->device)->absorb(&opened);
}
