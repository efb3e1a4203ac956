/*
 * Rows (b,h) of the recurrence: steps, and what states give to a convolution. Rows do not meet: what is not finite in one
 * stays in it. States are double whatever the dtype of u and y; in work they are split (Re x, then Im x).
 *
 * Rows are met by tiles of channels: in a tile batch row by batch row, channel by channel, so that the systems of the tile stay
 * in the cache and states are met as they lie in memory.
 */
#include "cpu/step.h"

#include <omp.h>
#include <string.h>

#define TILE 8 /* channels */

_Static_assert(S4_STEP_ROWS >= 2, "a lane of STEP_ROWS holds the state and its scratch, or the states of two rows");

/* What is done to a row. */
typedef struct row_work {
    const s4_task *task;
    const cpu_stepper *level;
    const cpu_step_way *way;
    int64_t system_size; /* of STEP_SYSTEM, per channel */
    const double *d;     /* (M,H), steps only */
    void (*row)(const struct row_work *work, cpu_recurrence *row); /* changes no more of it than its state and length */
    int once; /* one sample by cpu_stepper.tile */
} row_work;

/* Where the state of row b, channel h lies behind that of the block's first. */
static int64_t state_at(const s4_task *task, int64_t b, int64_t h)
{
    return (b - task->row) * task->state_batch + (h - task->channel) * 2 * task->shape->modes;
}

/* All that the rows of this call have in common. */
static cpu_recurrence open_rows(const row_work *work, double *lane)
{
    const s4_task *task = work->task;
    cpu_recurrence row = work->way->open(task->shape, task->buffer[S4_BUFFER_STEP_SYSTEM]);
    row.u_time = task->u_strides.time;
    row.y_output = task->y_strides.output;
    row.y_time = task->y_strides.time;
    row.length = task->length;
    row.x = lane;
    row.scratch = lane + 2 * task->shape->modes;
    return row;
}

/* Where row (b,h) is. */
static void place_row(const row_work *work, int64_t b, int64_t h, cpu_recurrence *row)
{
    const s4_task *task = work->task;
    const s4_strides *u = &task->u_strides, *y = &task->y_strides;
    int64_t in_block = b - task->row, channel = h - task->channel, state = state_at(task, b, h);
    int64_t size = row->dtype == S4_F32 ? 4 : 8;
    row->system = h * work->system_size;
    row->d = work->d ? work->d + h : NULL;
    row->u = (const char *)task->u + (in_block * u->batch + channel * u->channel) * size;
    row->y = (char *)task->y + (in_block * y->batch + channel * y->channel) * size;
    if (task->lengths) row->length = task->lengths[in_block];
    row->state_in = task->state_in ? task->state_in + state : NULL;
    row->state_out = task->state_out ? task->state_out + state : NULL;
}

/* Channels first ... first + count - 1 of batch rows b ... b + rows - 1 at once. */
static void do_tile(const row_work *work, int64_t b, int64_t rows, int64_t first, int64_t count, const cpu_recurrence *row)
{
    const s4_task *task = work->task;
    const s4_strides *u = &task->u_strides, *y = &task->y_strides;
    cpu_step_tile tile = {.first = *row, .channels = count, .rows = rows, .system_size = work->system_size,
                          .u_channel = u->channel, .y_channel = y->channel, .u_batch = u->batch, .y_batch = y->batch,
                          .state_batch = task->state_batch};
    place_row(work, b, first, &tile.first);
    work->level->tile(&tile);
}

/* Threads that the rows are worth: to start them costs as much as some 10^6 products. */
static int worthwhile_threads(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    double sample = (double)(s4_step_system(shape) + 2 * shape->modes);
    double products = (double)task->rows * (double)task->channels * (double)task->length * sample;
    return products > 1e6 ? cpu_lanes(shape->threads) : 1;
}

/* Part `part` of `parts` of all rows, tile by tile. */
static void do_part(const row_work *work, int64_t tile, int part, int parts)
{
    const s4_task *task = work->task;
    int64_t tiles = (task->channels + tile - 1) / tile, units = tiles * task->rows;
    double *lane = (double *)task->buffer[S4_BUFFER_STEP_ROWS] + part * S4_STEP_ROWS * 2 * task->shape->modes;
    cpu_recurrence row = open_rows(work, lane);
    int64_t end = units * (part + 1) / parts;
    for (int64_t unit = units * part / parts, rows = 1; unit < end; unit += rows) {
        int64_t of_tile = unit / task->rows, b = unit % task->rows, first = task->channel + of_tile * tile;
        int64_t left = task->channel + task->channels - first, count = left < tile ? left : tile;
        if (work->once) {
            rows = b + 1 < task->rows && unit + 1 < end ? 2 : 1;
            do_tile(work, task->row + b, rows, first, count, &row);
            continue;
        }
        for (int64_t h = first; h < first + count; h++) {
            place_row(work, task->row + b, h, &row);
            work->row(work, &row);
        }
    }
}

/* Tiles are of one channel where there are too few rows for all threads otherwise; values do not depend on it. */
static void do_rows(const row_work *work)
{
    const s4_task *task = work->task;
    int threads = worthwhile_threads(task);
    if (threads == 1) {
        do_part(work, TILE, 0, 1);
        return;
    }
    int64_t tile = task->channels * task->rows < 4 * TILE * threads ? 1 : TILE;
#pragma omp parallel num_threads(threads)
    do_part(work, tile, omp_get_thread_num(), omp_get_num_threads());
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static void step_row(const row_work *work, cpu_recurrence *row) { work->way->run(work->level, row); }

s4_status cpu_step(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    row_work work = {.task = task,
                     .level = cpu_stepper_at(task->device),
                     .way = cpu_step_way_of(shape),
                     .system_size = s4_step_system(shape),
                     .d = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]).d,
                     .row = step_row};
    work.once = work.way == &cpu_way_linear && task->length == 1 && shape->channels == 1 && !task->lengths &&
                task->state_in && task->state_out;
    do_rows(&work);
    return S4_OK;
}

/* The state that enters adds its response to y; the state that leaves is the one after the last sample that counts. */
static void states_row(const row_work *work, cpu_recurrence *row)
{
    double *state_out = row->state_out;
    row->state_out = NULL;
    if (row->state_in) work->level->respond(row);
    if (!state_out) return;
    if (!row->state_in) memset(row->x, 0, (size_t)(2 * row->modes) * sizeof *row->x);
    row->state_out = state_out;
    work->level->absorb(row);
}

s4_status cpu_states(const s4_task *task)
{
    const row_work work = {.task = task,
                           .level = cpu_stepper_at(task->device),
                           .way = &cpu_way_linear,
                           .system_size = s4_step_system(task->shape),
                           .row = states_row};
    if (task->state_in || task->state_out) do_rows(&work);
    return S4_OK;
}
