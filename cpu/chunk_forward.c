/*
 * The convolution in chunks, forward (chunk.h): of every panel the states before its chunks, then
 *
 *   Y_c = U Toep_c + S M_C,c
 *
 * The state that leaves a row is the one after its last whole chunk, and from there on sample by sample.
 */
#include <omp.h>

#include "cpu/chunk_panel.h"
#include "cpu/step.h"

static void outputs(const cpu_chunk_group *g, int64_t output, int64_t first, int64_t count, const void *u)
{
    int64_t chunk = g->chunk;
    cpu_chunk_tensor y = {g->task->y, &g->task->y_strides, output};
    cpu_matrices m = {.rows = count * g->rows, .columns = chunk, .c_row = chunk};
    m.c = cpu_chunk_target(g, y, g->task->u, first, count, g->out);
    m.depth = m.a_row = chunk;
    m.a = u;
    m.a_depth = 1;
    m.b = (char *)g->system.kernel + (2 * output + 1) * chunk * g->size;
    m.b_depth = -1;
    m.part = CPU_PRODUCT_B_UPPER;
    g->product->set(&m);

    m.depth = m.a_row = g->state;
    m.a = g->states;
    m.b = (char *)g->system.out + output * g->state * chunk * g->size;
    m.b_depth = chunk;
    m.part = CPU_PRODUCT_WHOLE;
    g->product->add(&m);
    cpu_chunk_scatter(g, m.c, first, count, y);
}

/* From the states after the last whole chunks to those after the last samples. */
static void finish_states(const cpu_chunk_group *g, int thread)
{
    const s4_task *task = g->task;
    const s4_shape *shape = g->shape;
    int64_t state = 2 * shape->modes;
    double *x = (double *)task->buffer[S4_BUFFER_STEP_ROWS] + thread * S4_STEP_ROWS * state;
    cpu_recurrence row = cpu_way_linear.open(shape, task->buffer[S4_BUFFER_STEP_SYSTEM]);
    row.system = g->h * s4_step_system(shape);
    row.u_time = task->u_strides.time;
    row.x = x;
    for (int64_t i = 0; i < g->rows; i++) {
        int64_t from = g->length[i] / g->chunk * g->chunk;
        if (from == g->length[i]) continue;
        double *leaving = g->leaving + i * g->state;
        cpu_chunk_tensor u = {task->u, &task->u_strides, 0};
        row.u = cpu_chunk_sample(g, u, i, from);
        row.length = g->length[i] - from;
        cpu_chunk_unpad(shape, leaving, x);
        cpu_stepper_at(task->device)->absorb(&row);
        cpu_chunk_pad(shape, x, leaving);
    }
    cpu_chunk_store_states(g, g->leaving, task->state_out);
}

static void group_forward(const cpu_chunk_group *g, int thread)
{
    int64_t panel = s4_chunk_panel(g->shape);
    cpu_chunk_load_states(g, g->task->state_in, g->carry);
    if (!g->chunks) cpu_chunk_load_states(g, g->task->state_in, g->leaving);
    for (int64_t first = 0; first < g->chunks; first += panel) {
        int64_t count = panel < g->chunks - first ? panel : g->chunks - first;
        const void *u = cpu_chunk_gather(g, (cpu_chunk_tensor){g->task->u, &g->task->u_strides, 0}, first, count, g->u);
        cpu_chunk_states(g, first, count, u, g->states, g->leaving);
        for (int64_t c = 0; c < g->shape->channels; c++) outputs(g, c, first, count, u);
    }
    for (int64_t c = 0; c < g->shape->channels; c++)
        cpu_chunk_clear_rest(g, (cpu_chunk_tensor){g->task->y, &g->task->y_strides, c});
    if (g->task->state_out) finish_states(g, thread);
}

/* u, CHUNK_SYSTEM, state_in -> y, state_out of the block's rows. */
s4_status cpu_chunk_forward(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    int64_t most = s4_chunk_group(shape), groups = (task->rows + most - 1) / most;
#pragma omp parallel for schedule(static) num_threads(cpu_lanes(shape->threads))
    for (int64_t i = 0; i < task->channels * groups; i++) {
        int thread = omp_get_thread_num();
        cpu_chunk_group group = cpu_chunk_group_open(task, thread, task->channel + i / groups, i % groups * most);
        group_forward(&group, thread);
    }
    return S4_OK;
}
