/*
 * The recurrence x <- dA x + dB u[t], y_c[t] = 2 Re C_c x + D_c u[t] (state first, then output, so K[0] = C dB): its system per
 * channel. The ways to do a step stand in one table: linear, O(nR); dense, O(N^2); and diagonal, O(N), in eigenvectors of dA.
 * In diagonal layers linear is diagonal.
 */
#include <omp.h>
#include <string.h>

#include "cpu/step.h"

const cpu_step_way *cpu_step_way_of(const s4_shape *shape)
{
    static const cpu_step_way none = {0};
    static const cpu_step_way *const ways[][3] = {
        [S4_MODE_DPLR] = {[S4_STEP_LINEAR] = &cpu_way_linear,
                          [S4_STEP_DENSE] = &cpu_way_dense,
                          [S4_STEP_DIAGONAL] = &cpu_way_diagonal},
        [S4_MODE_DIAG] = {[S4_STEP_LINEAR] = &cpu_way_linear, [S4_STEP_DIAGONAL] = &cpu_way_linear},
    };
    const cpu_step_way *way = ways[shape->mode][shape->step_mode];
    return way ? way : &none;
}

/* Plain C goes first to where the layout keeps read-outs. It is in SYSTEM.c, except for a convolution of a DPLR layer:
 * there that is C~, and C is found again from the raw parameters. */
static s4_status place_read_out(const s4_task *task, const s4_system *system, const cpu_read_out_rows *rows)
{
    const s4_shape *shape = task->shape;
    if (shape->mode == S4_MODE_DPLR && shape->direction != S4_DIRECTION_STEP && !shape->chunk)
        return cpu_read_c(task->device, shape, system, task->raw, task->buffer[S4_BUFFER_SETUP_MATRICES], 0, rows);
    int64_t state = 2 * shape->modes;
    for (int64_t c = 0; c < shape->channels; c++)
        for (int64_t h = 0; h < shape->d_model; h++)
            memcpy(rows->c + c * rows->kernel + h * rows->channel, system->c + (c * shape->d_model + h) * state,
                   (size_t)state * sizeof(double));
    return S4_OK;
}

/* C of one output, interleaved -> [2 Re C, -2 Im C]. */
static void make_read_out(int64_t modes, double *c, double *scratch)
{
    cpu_split(modes, c, scratch);
    for (int64_t n = 0; n < modes; n++) {
        c[n] = 2 * scratch[n];
        c[modes + n] = -2 * scratch[modes + n];
    }
}

s4_status cpu_step_system(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    const cpu_step_way *way = cpu_step_way_of(shape);
    if (!way->make)
        return cpu_host->fail(S4_ERROR_UNSUPPORTED, "step mode %s is not offered for %s layers; linear is",
                              s4_step_mode_name(shape->step_mode), s4_mode_name(shape->mode));
    s4_system system = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]);
    double *base = task->buffer[S4_BUFFER_STEP_SYSTEM];
    int64_t state = 2 * shape->modes, count = s4_step_system(shape), before = way->rows_before(shape) * state;

    s4_status status =
        place_read_out(task, &system, &(cpu_read_out_rows){.c = base + before, .kernel = state, .channel = count});
    if (status) return status;
    cpu_failure first = {.kind = CPU_FAILURE_NONE};
#pragma omp parallel num_threads(cpu_lanes(shape->threads))
    {
        cpu_lane lane = cpu_lane_view(shape, task->buffer[S4_BUFFER_SETUP_MATRICES], omp_get_thread_num());
        cpu_failure mine = {.kind = CPU_FAILURE_NONE};
#pragma omp for schedule(static)
        for (int64_t h = 0; h < shape->d_model; h++) {
            double *system_of_h = base + h * count;
            cpu_failure found;
            for (int64_t c = 0; c < shape->channels; c++)
                make_read_out(shape->modes, system_of_h + before + c * state, lane.row);
            if (!way->make(shape, &system, h, &lane, system_of_h, &found)) cpu_failure_merge(&mine, &found);
        }
#pragma omp critical(cpu_failure)
        cpu_failure_merge(&first, &mine);
    }
    return cpu_failure_raise(shape, &first);
}
