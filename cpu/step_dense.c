/*
 * The recurrence with dense dA in the real basis [Re x; Im x], O(N^2) a sample: x <- dA x + dB u[t],
 * y_c[t] = c x + D_c u[t] with c = [2 Re C_c, -2 Im C_c]. dA is stored by columns: the sum over columns keeps the
 * innermost loop on contiguous memory.
 */
#include <string.h>

#include "cpu/step.h"

static int make_dense(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_lane *lane, double *base,
                      cpu_failure *failure)
{
    int64_t state = 2 * shape->modes;
    cpu_linear linear = cpu_linear_view(shape->modes, shape->rank, lane->linear);
    if (!cpu_linear_build(shape, system, h, 1, &linear)) {
        *failure = (cpu_failure){.kind = CPU_FAILURE_STEP, .channel = h, .value = cpu_dt(shape, system, h, 0)};
        return 0;
    }
    memcpy(base + state * state, linear.b, (size_t)state * sizeof *base);
    cpu_linear_dense(&linear, lane->matrix[0]);
    for (int64_t m = 0; m < state; m++)
        for (int64_t k = 0; k < state; k++) base[k * state + m] = lane->matrix[0][m * state + k];
    return 1;
}

static int64_t rows_before(const s4_shape *shape) { return 2 * shape->modes + 1; }

static cpu_recurrence open_dense(const s4_shape *shape, const double *base)
{
    int64_t state = 2 * shape->modes;
    cpu_recurrence row = cpu_recurrence_of(shape);
    row.dA = base;
    row.b = row.dA + state * state;
    row.c = row.b + state;
    return row;
}

static void run_dense(const cpu_stepper *level, const cpu_recurrence *row) { level->dense(row); }

const cpu_step_way cpu_way_dense = {make_dense, rows_before, open_dense, run_dense};
