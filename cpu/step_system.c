/*
 * The recurrence x <- dA x + dB u[t], y[t] = 2 Re C x + D u[t] (state first, then output, so K[0] = C dB): its system
 * per channel, and the operations over rows (b,h). Two ways to do a step stand in one table: linear, O(nR), and
 * dense, O(N^2). Rows do not meet: what is not finite in one stays in it.
 *
 * States are double whatever the dtype of u and y; in work they are split (Re x, then Im x).
 */
#include <omp.h>
#include <string.h>

#include "cpu/place.h"

/* ---- STEP_SYSTEM ------------------------------------------------------------------------------------------------- */

/* Each finds plain C, interleaved, where its layout keeps the read-out, and rewrites it in its form. */
static int make_linear(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_lane *lane, double *base)
{
    int64_t modes = shape->modes;
    double *c = base + cpu_linear_rows(shape->rank) * 2 * modes;
    cpu_linear linear = cpu_linear_view(modes, shape->rank, base);
    cpu_split(modes, c, lane->row);
    memcpy(c, lane->row, (size_t)(2 * modes) * sizeof *c);
    return cpu_linear_build(shape, system, h, system->dt[h], &linear);
}

static int make_dense(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_lane *lane, double *base)
{
    int64_t modes = shape->modes, state = 2 * modes;
    double *dB = base + state * state, *c = dB + state;
    cpu_linear linear = cpu_linear_view(modes, shape->rank, lane->linear);
    cpu_split(modes, c, lane->row);
    for (int64_t n = 0; n < modes; n++) {
        c[n] = 2 * lane->row[n];
        c[modes + n] = -2 * lane->row[modes + n];
    }
    if (!cpu_linear_build(shape, system, h, system->dt[h], &linear)) return 0;
    memcpy(dB, linear.b, (size_t)state * sizeof *dB);
    cpu_linear_dense(&linear, lane->matrix[0], lane->unit);
    for (int64_t m = 0; m < state; m++)
        for (int64_t k = 0; k < state; k++) base[k * state + m] = lane->matrix[0][m * state + k];
    return 1;
}

/* One way to do a step. */
typedef struct step_way {
    int (*make)(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_lane *lane, double *base);
    int64_t (*read_out_row)(const s4_shape *shape); /* offset of C in the channel's system */
    void (*run)(const cpu_step_row *row);
} step_way;

static int64_t linear_read_out(const s4_shape *shape) { return cpu_linear_rows(shape->rank) * 2 * shape->modes; }
static int64_t dense_read_out(const s4_shape *shape) { return (2 * shape->modes + 1) * 2 * shape->modes; }

static const step_way ways[] = {
    [S4_STEP_LINEAR] = {make_linear, linear_read_out, cpu_step_linear},
    [S4_STEP_DENSE] = {make_dense, dense_read_out, cpu_step_dense},
};

/* States of a convolution are always done the linear way. NULL: there is none for this mode. */
static const step_way *choose_way(const s4_shape *shape)
{
    size_t mode = shape->direction == S4_DIRECTION_STEP ? (size_t)shape->step_mode : (size_t)S4_STEP_LINEAR;
    return mode < sizeof ways / sizeof *ways ? &ways[mode] : NULL;
}

static s4_status no_way(const s4_shape *shape)
{
    return cpu_host->fail(S4_ERROR_UNSUPPORTED, "step mode %d: linear (0) and dense (1) are supported",
                          (int)shape->step_mode);
}

/* Plain C goes first to where the layout keeps it. For steps SYSTEM.c is plain; for a convolution it is C~, and C is
 * found again from the raw parameters. */
static s4_status place_read_out(const s4_task *task, const s4_system *system, double *c, int64_t stride)
{
    const s4_shape *shape = task->shape;
    if (shape->direction != S4_DIRECTION_STEP)
        return cpu_read_c(shape, system, task->raw, task->buffer[S4_BUFFER_SETUP_MATRICES], 0, c, stride);
    int64_t state = 2 * shape->modes;
    for (int64_t h = 0; h < shape->d_model; h++)
        memcpy(c + h * stride, system->c + h * state, (size_t)state * sizeof *c);
    return S4_OK;
}

s4_status cpu_step_system(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    const step_way *way = choose_way(shape);
    if (!way) return no_way(shape);
    s4_system system = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]);
    double *base = task->buffer[S4_BUFFER_STEP_SYSTEM];
    int64_t count = cpu_step_system_count(shape);

    s4_status status = place_read_out(task, &system, base + way->read_out_row(shape), count);
    if (status) return status;
    cpu_failure first = {.kind = CPU_FAILURE_NONE};
#pragma omp parallel num_threads(shape->threads)
    {
        cpu_lane lane = cpu_lane_view(shape, task->buffer[S4_BUFFER_SETUP_MATRICES], omp_get_thread_num());
        cpu_failure mine = {.kind = CPU_FAILURE_NONE};
#pragma omp for schedule(static)
        for (int64_t h = 0; h < shape->d_model; h++)
            if (!way->make(shape, &system, h, &lane, base + h * count))
                cpu_failure_merge(&mine, &(cpu_failure){.kind = CPU_FAILURE_STEP, .channel = h, .value = system.dt[h]});
#pragma omp critical(cpu_failure)
        cpu_failure_merge(&first, &mine);
    }
    return cpu_failure_raise(shape, &first);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void load_state(const s4_task *task, int64_t b, int64_t h, double *x)
{
    int64_t modes = task->shape->modes;
    if (task->state_in)
        cpu_split(modes, task->state_in + (b * task->shape->d_model + h) * 2 * modes, x);
    else
        memset(x, 0, (size_t)(2 * modes) * sizeof *x);
}

static void store_state(const s4_task *task, int64_t b, int64_t h, const double *x)
{
    int64_t modes = task->shape->modes;
    if (task->state_out) cpu_interleave(modes, x, task->state_out + (b * task->shape->d_model + h) * 2 * modes);
}

/* Scratch of a thread: the state, and one vector of work. */
_Static_assert(S4_STEP_ROWS >= 2, "a lane of STEP_ROWS holds the state and its scratch");

static cpu_step_row open_row(const s4_task *task, int64_t b, int64_t h)
{
    const s4_shape *shape = task->shape;
    int64_t state = 2 * shape->modes;
    size_t offset = (size_t)((b - task->row) * task->batch_stride + (h - task->channel) * task->length) *
                    s4_dtype_size(shape->dtype);
    double *lane = (double *)task->buffer[S4_BUFFER_STEP_ROWS] + omp_get_thread_num() * S4_STEP_ROWS * state;
    cpu_step_row row = {.shape = shape,
                        .system = (double *)task->buffer[S4_BUFFER_STEP_SYSTEM] + h * cpu_step_system_count(shape),
                        .u = (const char *)task->u + offset,
                        .y = (char *)task->y + offset,
                        .length = task->length,
                        .x = lane,
                        .scratch = lane + state};
    return row;
}

s4_status cpu_step(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    const step_way *way = choose_way(shape);
    if (!way) return no_way(shape);
    s4_system system = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]);
#pragma omp parallel for collapse(2) schedule(static) num_threads(shape->threads)
    for (int64_t b = task->row; b < task->row + task->rows; b++)
        for (int64_t h = task->channel; h < task->channel + task->channels; h++) {
            cpu_step_row row = open_row(task, b, h);
            row.d = system.d[h];
            load_state(task, b, h, row.x);
            way->run(&row);
            store_state(task, b, h, row.x);
        }
    return S4_OK;
}

/* The state that enters adds its response to y; the state that leaves is the one of the whole input. */
s4_status cpu_states(const s4_task *task)
{
    const s4_shape *shape = task->shape;
#pragma omp parallel for collapse(2) schedule(static) num_threads(shape->threads)
    for (int64_t b = task->row; b < task->row + task->rows; b++)
        for (int64_t h = task->channel; h < task->channel + task->channels; h++) {
            cpu_step_row row = open_row(task, b, h);
            if (task->state_in) {
                load_state(task, b, h, row.x);
                cpu_respond_linear(&row);
            }
            if (task->state_out) {
                load_state(task, b, h, row.x);
                cpu_absorb_linear(&row);
                store_state(task, b, h, row.x);
            }
        }
    return S4_OK;
}
