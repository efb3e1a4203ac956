/*
 * Panels of chunks (chunk_panel.h): samples in and out, and the recurrence between chunks,
 *
 *   S' = S X^T + U M_B
 *
 * as one product for all inputs U M_B of a panel, then one step for every chunk. A ragged last chunk is padded with
 * zeros; the state that counts at the end of a row is then the one before it.
 */
#include "cpu/chunk_panel.h"

#include <string.h>

cpu_chunk_group cpu_chunk_group_open(const s4_task *task, int thread, int64_t h, int64_t first)
{
    const s4_shape *shape = task->shape;
    int64_t state = s4_chunk_state(shape), most = s4_chunk_group(shape), panel = most * s4_chunk_panel(shape);
    int trains = shape->direction == S4_DIRECTION_TRAINING;
    cpu_chunk_group g = {.task = task, .shape = shape, .h = h, .first = first};
    g.product = &cpu_products_at(task->device)->of[shape->dtype];
    g.system = cpu_chunk_system_at(task, h);
    g.rows = most < task->rows - first ? most : task->rows - first;
    g.size = (int64_t)g.product->size;
    g.chunk = shape->chunk;
    g.state = state;
    int64_t longest = 0;
    for (int64_t i = 0; i < g.rows; i++) {
        g.length[i] = task->lengths ? task->lengths[first + i] : task->length;
        if (g.length[i] > longest) longest = g.length[i];
    }
    g.chunks = (longest + g.chunk - 1) / g.chunk;

    char *at = (char *)task->buffer[S4_BUFFER_CHUNK_ROWS] + thread * s4_chunk_lane(shape);
    struct {
        char **elements;
        int64_t count;
    } parts[] = {{&g.u, panel * g.chunk},
                 {&g.out, panel * g.chunk},
                 {&g.back, trains ? panel * g.chunk : 0},
                 {&g.states, panel * state},
                 {&g.kept, trains ? most * s4_chunk_kept(shape) * state : 0},
                 {&g.scratch, most * state},
                 {&g.ends, most * g.chunk}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        *parts[i].elements = at;
        at += parts[i].count * g.size;
    }
    g.carry = (double *)at;
    g.adjoint = g.carry + most * state;
    g.leaving = g.adjoint + most * state;
    g.starts = g.leaving + most * state;
    return g;
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

char *cpu_chunk_sample(const cpu_chunk_group *g, cpu_chunk_tensor tensor, int64_t i, int64_t t)
{
    const s4_strides *s = tensor.strides;
    int64_t offset = (g->first + i) * s->batch + (g->h - g->task->channel) * s->channel;
    offset += tensor.output * s->output + t * s->time;
    return (char *)(uintptr_t)tensor.samples + offset * g->size;
}

static int64_t clamp(int64_t value, int64_t high) { return value < 0 ? 0 : value > high ? high : value; }

/* count samples, strides in elements */
static void copy(int64_t size, int64_t count, const void *from, int64_t from_step, void *to, int64_t to_step)
{
    if (from_step == 1 && to_step == 1)
        memcpy(to, from, (size_t)(count * size));
    else if (size == sizeof(float))
        for (int64_t t = 0; t < count; t++) ((float *)to)[t * to_step] = ((const float *)from)[t * from_step];
    else
        for (int64_t t = 0; t < count; t++) ((double *)to)[t * to_step] = ((const double *)from)[t * from_step];
}

static void clear(int64_t size, int64_t count, void *to, int64_t step)
{
    for (int64_t t = 0; t < count; t++) memset((char *)to + t * step * size, 0, (size_t)size);
}

/* Whether these chunks lie in a tensor as they do in a panel. */
static int is_panel(const cpu_chunk_group *g, cpu_chunk_tensor tensor, int64_t first, int64_t count)
{
    return g->rows == 1 && tensor.strides->time == 1 && g->length[0] >= (first + count) * g->chunk;
}

/* Chunks of one row lie one after the other in a panel of that row alone: they are copied as one. */
static int64_t chunks_at_once(const cpu_chunk_group *g, int64_t count) { return g->rows == 1 ? count : 1; }

void *cpu_chunk_gather(const cpu_chunk_group *g, cpu_chunk_tensor from, int64_t first, int64_t count, void *panel)
{
    if (is_panel(g, from, first, count)) return cpu_chunk_sample(g, from, 0, first * g->chunk);
    int64_t together = chunks_at_once(g, count), samples = together * g->chunk;
    char *row = panel;
    for (int64_t j = first; j < first + count; j += together)
        for (int64_t i = 0; i < g->rows; i++, row += samples * g->size) {
            int64_t counting = clamp(g->length[i] - j * g->chunk, samples);
            if (counting)
                copy(g->size, counting, cpu_chunk_sample(g, from, i, j * g->chunk), from.strides->time, row, 1);
            if (counting < samples) memset(row + counting * g->size, 0, (size_t)((samples - counting) * g->size));
        }
    return panel;
}

void *cpu_chunk_target(const cpu_chunk_group *g, cpu_chunk_tensor to, const void *read, int64_t first, int64_t count,
                       void *panel)
{
    if (to.samples == read || !is_panel(g, to, first, count)) return panel;
    return cpu_chunk_sample(g, to, 0, first * g->chunk);
}

void cpu_chunk_scatter(const cpu_chunk_group *g, const void *panel, int64_t first, int64_t count, cpu_chunk_tensor to)
{
    int64_t together = chunks_at_once(g, count), samples = together * g->chunk;
    const char *row = panel;
    if (is_panel(g, to, first, count) && panel == cpu_chunk_sample(g, to, 0, first * g->chunk)) return;
    for (int64_t j = first; j < first + count; j += together)
        for (int64_t i = 0; i < g->rows; i++, row += samples * g->size) {
            int64_t counting = clamp(g->length[i] - j * g->chunk, samples);
            int64_t there = clamp(g->task->length - j * g->chunk, samples);
            char *at = cpu_chunk_sample(g, to, i, j * g->chunk);
            copy(g->size, counting, row, 1, at, to.strides->time);
            clear(g->size, there - counting, at + counting * to.strides->time * g->size, to.strides->time);
        }
}

void cpu_chunk_clear_rest(const cpu_chunk_group *g, cpu_chunk_tensor to)
{
    int64_t from = g->chunks * g->chunk;
    for (int64_t i = 0; i < g->rows && from < g->task->length; i++)
        clear(g->size, g->task->length - from, cpu_chunk_sample(g, to, i, from), to.strides->time);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

/* The state of row i behind that of the block's first row and channel. */
static int64_t state_at(const cpu_chunk_group *g, int64_t i)
{
    return (g->first + i) * g->task->state_batch + (g->h - g->task->channel) * 2 * g->shape->modes;
}

void cpu_chunk_load_states(const cpu_chunk_group *g, const double *states, double *carry)
{
    int64_t modes = g->shape->modes, half = g->state / 2;
    memset(carry, 0, (size_t)(g->rows * g->state) * sizeof *carry);
    for (int64_t i = 0; states && i < g->rows; i++) {
        const double *from = states + state_at(g, i);
        double *to = carry + i * g->state;
        for (int64_t n = 0; n < modes; n++) {
            to[n] = from[2 * n];
            to[half + n] = from[2 * n + 1];
        }
    }
}

void cpu_chunk_store_states(const cpu_chunk_group *g, const double *carry, double *states)
{
    int64_t modes = g->shape->modes, half = g->state / 2;
    for (int64_t i = 0; i < g->rows; i++) {
        const double *from = carry + i * g->state;
        double *to = states + state_at(g, i);
        for (int64_t n = 0; n < modes; n++) {
            to[2 * n] = from[n];
            to[2 * n + 1] = from[half + n];
        }
    }
}

int64_t cpu_chunk_next_end(const cpu_chunk_group *g, int64_t after, int64_t end)
{
    for (int64_t i = 0; g->shape->states && i < g->rows; i++) {
        int64_t whole = g->length[i] / g->chunk;
        if (whole > after && whole < end) end = whole;
    }
    return end;
}

void cpu_chunk_steps(const cpu_chunk_group *g, const void *power, int64_t first, int64_t steps, int direction,
                     double *carry, void *panel)
{
    int64_t one = g->rows * g->state;
    cpu_chunk_recurrence r = {.rows = g->rows, .state = g->state, .steps = steps, .carry = carry, .scratch = g->scratch};
    r.step = direction * one;
    r.inputs = (char *)panel + first * one * g->size;
    if (g->shape->mode == S4_MODE_DPLR) {
        r.matrix = power;
        g->product->steps_dense(&r);
    } else {
        r.poles = power;
        g->product->steps_modes(&r);
    }
}

/* Keeps the states of rows whose last whole chunk was number j - 1. */
static void keep_leaving(const cpu_chunk_group *g, int64_t j, double *leaving)
{
    for (int64_t i = 0; leaving && g->shape->states && i < g->rows; i++)
        if (g->length[i] / g->chunk == j)
            memcpy(leaving + i * g->state, g->carry + i * g->state, (size_t)g->state * sizeof(double));
}

void cpu_chunk_states(const cpu_chunk_group *g, int64_t first, int64_t count, const void *u, void *states,
                      double *leaving)
{
    cpu_matrices inputs = {.rows = count * g->rows,
                           .columns = g->state,
                           .depth = g->chunk,
                           .a = u,
                           .a_row = g->chunk,
                           .a_depth = 1,
                           .b = g->system.into,
                           .b_depth = g->state,
                           .c = states,
                           .c_row = g->state};
    g->product->set(&inputs);
    for (int64_t j = first; j < first + count;) {
        int64_t next = cpu_chunk_next_end(g, j, first + count);
        keep_leaving(g, j, leaving);
        cpu_chunk_steps(g, g->system.power, j - first, next - j, 1, g->carry, states);
        j = next;
    }
    keep_leaving(g, first + count, leaving);
}
