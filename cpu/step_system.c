/*
 * The recurrence x <- dA x + dB u[t], y_c[t] = 2 Re C_c x + D_c u[t] (state first, then output, so K[0] = C dB): its
 * system per channel, and the operations over rows (b,h). The ways to do a step stand in one table: linear, O(nR);
 * dense, O(N^2); and diagonal, O(N), in eigenvectors of dA. In diagonal layers linear is diagonal. Rows do not meet:
 * what is not finite in one stays in it.
 *
 * States are double whatever the dtype of u and y; in work they are split (Re x, then Im x).
 */
#include <omp.h>
#include <string.h>

#include "cpu/place.h"

/* ---- STEP_SYSTEM ------------------------------------------------------------------------------------------------- */

static int64_t linear_rows(const s4_shape *shape) { return cpu_linear_rows(shape->rank); }
static int64_t dense_rows(const s4_shape *shape) { return 2 * shape->modes + 1; }
static int64_t diagonal_rows(const s4_shape *shape) { return 4 * shape->modes + 2; }

/* One way to do a step. */
typedef struct step_way {
    int (*make)(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_lane *lane, double *base,
                cpu_failure *failure);
    int64_t (*rows_before)(const s4_shape *shape); /* rows (N) of the system before its read-outs */
    void (*run)(const cpu_step_row *row);
} step_way;

/* NULL: there is none. */
static const step_way ways[][3] = {
    [S4_MODE_DPLR] = {[S4_STEP_LINEAR] = {cpu_make_linear, linear_rows, cpu_step_linear},
                      [S4_STEP_DENSE] = {cpu_make_dense, dense_rows, cpu_step_dense},
                      [S4_STEP_DIAGONAL] = {cpu_make_diagonal, diagonal_rows, cpu_step_diagonal}},
    [S4_MODE_DIAG] = {[S4_STEP_LINEAR] = {cpu_make_linear, linear_rows, cpu_step_linear},
                      [S4_STEP_DIAGONAL] = {cpu_make_linear, linear_rows, cpu_step_linear}},
};

static const step_way *choose_way(const s4_shape *shape) { return &ways[shape->mode][shape->step_mode]; }

/* Plain C goes first to where the layout keeps read-outs. It is in SYSTEM.c, except for a convolution of a DPLR layer:
 * there that is C~, and C is found again from the raw parameters. */
static s4_status place_read_out(const s4_task *task, const s4_system *system, const cpu_read_out_rows *rows)
{
    const s4_shape *shape = task->shape;
    if (shape->mode == S4_MODE_DPLR && shape->direction != S4_DIRECTION_STEP)
        return cpu_read_c(shape, system, task->raw, task->buffer[S4_BUFFER_SETUP_MATRICES], 0, rows);
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
    const step_way *way = choose_way(shape);
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

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Where the state of row b, channel h lies behind that of the block's first. */
static int64_t state_at(const s4_task *task, int64_t b, int64_t h)
{
    return (b - task->row) * task->state_batch + (h - task->channel) * 2 * task->shape->modes;
}

static void load_state(const s4_task *task, int64_t b, int64_t h, double *x)
{
    int64_t modes = task->shape->modes;
    if (task->state_in)
        cpu_split(modes, task->state_in + state_at(task, b, h), x);
    else
        memset(x, 0, (size_t)(2 * modes) * sizeof *x);
}

static void store_state(const s4_task *task, int64_t b, int64_t h, const double *x)
{
    int64_t modes = task->shape->modes;
    if (task->state_out) cpu_interleave(modes, x, task->state_out + state_at(task, b, h));
}

_Static_assert(S4_STEP_ROWS >= 2, "a lane of STEP_ROWS holds the state and its scratch");

static cpu_step_row open_row(const s4_task *task, int64_t b, int64_t h)
{
    const s4_shape *shape = task->shape;
    const s4_strides *u = &task->u_strides, *y = &task->y_strides;
    int64_t state = 2 * shape->modes, row = b - task->row, channel = h - task->channel;
    int64_t size = (int64_t)s4_dtype_size(shape->dtype);
    double *lane = (double *)task->buffer[S4_BUFFER_STEP_ROWS] + omp_get_thread_num() * S4_STEP_ROWS * state;
    return (cpu_step_row){.shape = shape,
                          .system = (double *)task->buffer[S4_BUFFER_STEP_SYSTEM] + h * s4_step_system(shape),
                          .u = (const char *)task->u + (row * u->batch + channel * u->channel) * size,
                          .y = (char *)task->y + (row * y->batch + channel * y->channel) * size,
                          .u_time = u->time,
                          .y_output = y->output,
                          .y_time = y->time,
                          .length = task->lengths ? task->lengths[row] : task->length,
                          .x = lane,
                          .scratch = lane + state};
}

/* Threads that the rows are worth: to start them costs as much as some 10^5 products. */
static int worthwhile_threads(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    double sample = (double)(s4_step_system(shape) + 2 * shape->modes);
    double products = (double)task->rows * (double)task->channels * (double)task->length * sample;
    return products > 400000 ? shape->threads : 1;
}

/* Rows of one channel follow each other, so that its system stays in the cache. */
s4_status cpu_step(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    const step_way *way = choose_way(shape);
    s4_system system = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]);
#pragma omp parallel for collapse(2) schedule(static) num_threads(cpu_lanes(worthwhile_threads(task)))
    for (int64_t h = task->channel; h < task->channel + task->channels; h++)
        for (int64_t b = task->row; b < task->row + task->rows; b++) {
            cpu_step_row row = open_row(task, b, h);
            row.d = system.d + h;
            load_state(task, b, h, row.x);
            way->run(&row);
            store_state(task, b, h, row.x);
        }
    return S4_OK;
}

/* The state that enters adds its response to y; the state that leaves is the one after the last sample that counts. */
s4_status cpu_states(const s4_task *task)
{
    if (!task->state_in && !task->state_out) return S4_OK;
#pragma omp parallel for collapse(2) schedule(static) num_threads(cpu_lanes(worthwhile_threads(task)))
    for (int64_t h = task->channel; h < task->channel + task->channels; h++)
        for (int64_t b = task->row; b < task->row + task->rows; b++) {
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
