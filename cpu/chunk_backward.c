/*
 * The convolution in chunks, backward. G_c are the chunks of dy_c, L the adjoints of the states that leave the chunks,
 * S the states before them (chunk.h); L of a row's last chunk is 0, or what dstate_out gives. Chunks in reverse:
 *
 *   adjoint of the state before a chunk = sum over c of G_c M_C,c^T + L X;   dU = sum over c of G_c Toep_c^T + L M_B^T
 *
 * and, summed over the chunks of all rows:  U^T G_c,  S^T G_c,  U^T L,  L^T S;  dD_c = sum of u dy_c.
 *
 * States are made again, S4_CHUNK_KEPT at a time, from those at the beginnings of such parts. Samples after the last
 * whole chunk of a row reach its last state sample by sample (states_backward.h). One thread owns a channel with all
 * its rows; products are summed over the chunks of a panel in the dtype, over panels and groups of rows, ascending, in
 * double.
 */
#include <omp.h>
#include <string.h>

#include "cpu/chunk_panel.h"
#include "cpu/states_backward.h"

/* What a call needs. */
typedef struct needs {
    int du, states, adjoints;      /* adjoints: L */
    int sums_of_kernel, sums_of_c; /* U^T G; S^T G */
    int sums_of_system;            /* U^T L, L^T S */
    int d;
} needs;

static needs needs_of(const s4_task *task)
{
    int system = (task->wanted & S4_WANTED_SYSTEM) != 0, kernel = (task->wanted & S4_WANTED_KERNEL) != 0;
    needs need = {.du = task->du != NULL, .sums_of_kernel = kernel, .sums_of_c = kernel, .sums_of_system = system};
    need.d = (task->wanted & S4_WANTED_D) != 0;
    need.states = kernel || task->dstate_out;
    need.adjoints = need.du || system || task->dstate_in;
    return need;
}

cpu_chunk_sums cpu_chunk_sums_at(const s4_task *task, int64_t h)
{
    const s4_chunk_sums_parts at = s4_chunk_sums_parts_of(task->shape);
    double *base = (double *)task->buffer[S4_BUFFER_CHUNK_SUMS] + (h - task->channel) * at.end;
    return (cpu_chunk_sums){.kernel = base + at.kernel,
                            .out = base + at.out,
                            .into = base + at.into,
                            .power = base + at.power,
                            .ends = base + at.ends};
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* c (+)= a b over the rows of a panel; a, b: columns of each. */
static cpu_matrices of_panel(int64_t rows, const void *a, int64_t a_columns, const void *b, int64_t b_columns)
{
    cpu_matrices m = {.rows = rows, .columns = b_columns, .depth = a_columns, .a = a, .a_row = a_columns, .a_depth = 1};
    m.b = b;
    m.b_depth = m.c_row = b_columns;
    return m;
}

/* sum += a^T b over the rows of two panels */
static void add_transposed(const cpu_chunk_group *g, int64_t rows, const void *a, int64_t a_columns, const void *b,
                           int64_t b_columns, cpu_product_part part, double *sum)
{
    cpu_matrices m = {.rows = a_columns, .columns = b_columns, .depth = rows, .a = a, .a_row = 1, .a_depth = a_columns};
    m.b = b;
    m.b_depth = m.c_row = b_columns;
    m.c = sum;
    m.part = part;
    g->product->sum(&m);
}

/* Panels in work. */
typedef struct panels {
    const void *u, *dy, *states; /* S */
    void *du;
} panels;

/* What one output gives. */
static void through_output(const cpu_chunk_group *g, const needs *need, int64_t output, int64_t count, const panels *p,
                           const cpu_chunk_sums *sums, double *gradient_d)
{
    int64_t rows = count * g->rows, chunk = g->chunk, state = g->state;
    void (*put)(const cpu_matrices *) = output ? g->product->add : g->product->set;
    if (need->d) *gradient_d += g->product->inner(rows * chunk, p->u, p->dy);
    if (need->adjoints) {
        const char *out_back = (char *)g->system.out_back + output * chunk * state * g->size;
        cpu_matrices m = of_panel(rows, p->dy, chunk, out_back, state);
        m.c = g->states;
        put(&m);
    }
    if (need->du) {
        const char *kernel = (char *)g->system.kernel_back + (2 * output * chunk + chunk - 1) * g->size;
        cpu_matrices m = of_panel(rows, p->dy, chunk, kernel, chunk);
        m.b_depth = -1;
        m.part = CPU_PRODUCT_B_LOWER;
        m.c = p->du;
        put(&m);
    }
    if (need->sums_of_kernel)
        add_transposed(g, rows, p->u, chunk, p->dy, chunk, CPU_PRODUCT_C_UPPER, sums->kernel + output * chunk * chunk);
    if (need->sums_of_c)
        add_transposed(g, rows, p->states, state, p->dy, chunk, CPU_PRODUCT_WHOLE, sums->out + output * state * chunk);
}

/* Adds the adjoints of the states that leave rows whose last whole chunk is number j - 1. */
static void enter(const cpu_chunk_group *g, int64_t j)
{
    for (int64_t i = 0; g->task->dstate_out && i < g->rows; i++) {
        double *adjoint = g->adjoint + i * g->state;
        if (g->length[i] / g->chunk != j) continue;
        for (int64_t n = 0; n < g->state; n++) adjoint[n] += g->leaving[i * g->state + n];
    }
}

/* The last chunk before `end` that is the last whole one of some row, not before `first`. */
static int64_t last_end(const cpu_chunk_group *g, int64_t first, int64_t end)
{
    int64_t last = first;
    for (int64_t j = first; (j = cpu_chunk_next_end(g, j, end)) < end;) last = j;
    return last;
}

/* Adjoints of the states that leave the chunks of a panel, in g->states; of what enters it, in g->adjoint. */
static void adjoints(const cpu_chunk_group *g, int64_t first, int64_t count)
{
    for (int64_t end = first + count; end > first;) {
        int64_t next = last_end(g, first, end);
        enter(g, end);
        cpu_chunk_steps(g, g->system.power_back, end - 1 - first, end - next, -1, g->adjoint, g->states);
        end = next;
    }
}

/* What adjoints give to du, and to the sums. */
static void through_adjoints(const cpu_chunk_group *g, const needs *need, int64_t count, const panels *p,
                             const cpu_chunk_sums *sums)
{
    int64_t rows = count * g->rows, chunk = g->chunk, state = g->state;
    if (need->du) {
        cpu_matrices m = of_panel(rows, g->states, state, g->system.into_back, chunk);
        m.c = p->du;
        g->product->add(&m);
    }
    if (!need->sums_of_system) return;
    add_transposed(g, rows, p->u, chunk, g->states, state, CPU_PRODUCT_WHOLE, sums->into);
    if (g->shape->mode == S4_MODE_DPLR)
        add_transposed(g, rows, g->states, state, p->states, state, CPU_PRODUCT_WHOLE, sums->power);
    else
        g->product->sum_modes(rows, state, g->states, p->states, sums->power);
}

/* ---- ends of rows ------------------------------------------------------------------------------------------------ */

/* leaving, the states after the last whole chunks, becomes their adjoints, from dstate_out; ends: du of the samples
 * after them. */
static void through_ends(const cpu_chunk_group *g, const cpu_chunk_sums *sums)
{
    const s4_shape *shape = g->shape;
    const s4_task *task = g->task;
    int64_t state = 2 * shape->modes;
    cpu_state_sums of_ends = cpu_state_sums_at(shape, sums->ends);
    cpu_chunk_load_states(g, task->dstate_out, g->carry);
    memset(g->ends, 0, (size_t)(g->rows * g->chunk * g->size));
    for (int64_t i = 0; i < g->rows; i++) {
        double *leaving = g->leaving + i * g->state, *adjoint = g->carry + i * g->state;
        int64_t from = g->length[i] / g->chunk * g->chunk, count = g->length[i] - from;
        if (count) {
            double *x = sums->ends + cpu_state_sums_rows(shape) * state, *m = x + state;
            cpu_chunk_unpad(shape, leaving, x);
            cpu_chunk_unpad(shape, adjoint, m);
            cpu_states_backward_end(task, g->first + i, g->h, from, count, x, &of_ends, m,
                                    task->du ? g->ends + i * g->chunk * g->size : NULL);
            cpu_chunk_pad(shape, m, leaving);
        } else
            memcpy(leaving, adjoint, (size_t)g->state * sizeof *leaving);
    }
}

/* du of the samples after the last whole chunk into the panel of du. */
static void add_ends(const cpu_chunk_group *g, int64_t first, int64_t count, char *panel)
{
    for (int64_t i = 0; i < g->rows; i++) {
        int64_t j = g->length[i] / g->chunk - first;
        if (j < 0 || j >= count) continue;
        const char *ends = g->ends + i * g->chunk * g->size;
        char *row = panel + (j * g->rows + i) * g->chunk * g->size;
        for (int64_t t = 0; t < g->chunk; t++) {
            double du = cpu_sample(g->shape->dtype, row, t) + cpu_sample(g->shape->dtype, ends, t);
            cpu_put_sample(g->shape->dtype, row, t, du);
        }
    }
}

/* ---- a group of rows --------------------------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* States of the chunks from `first` to `end`; kept, or only passed through. */
static void make_states(const cpu_chunk_group *g, int64_t first, int64_t end, int keep, double *leaving)
{
    int64_t panel = s4_chunk_panel(g->shape);
    for (int64_t at = first; at < end; at += panel) {
        char *states = g->kept + (keep ? (at - first) * g->rows * g->state * g->size : 0);
        int64_t count = least(panel, end - at);
        cpu_chunk_tensor u = {g->task->u, &g->task->u_strides, 0};
        cpu_chunk_states(g, at, count, cpu_chunk_gather(g, u, at, count, g->u), states, leaving);
    }
}

static void panel_backward(const cpu_chunk_group *g, const needs *need, int64_t first, int64_t count,
                           const void *states, const cpu_chunk_sums *sums, double *gradient_d)
{
    const s4_task *task = g->task;
    cpu_chunk_tensor u = {task->u, &task->u_strides, 0}, du = {task->du, &task->du_strides, 0};
    panels p = {.states = states, .u = cpu_chunk_gather(g, u, first, count, g->u)};
    if (need->du) p.du = cpu_chunk_target(g, du, task->dy, first, count, g->back);
    for (int64_t c = 0; c < g->shape->channels; c++) {
        p.dy = cpu_chunk_gather(g, (cpu_chunk_tensor){task->dy, &task->dy_strides, c}, first, count, g->out);
        through_output(g, need, c, count, &p, sums, &gradient_d[c * g->shape->d_model]);
    }
    if (need->adjoints) {
        adjoints(g, first, count);
        through_adjoints(g, need, count, &p, sums);
    }
    if (!need->du) return;
    if (task->dstate_out) add_ends(g, first, count, p.du);
    cpu_chunk_scatter(g, p.du, first, count, du);
}

static void group_backward(const cpu_chunk_group *g, const needs *need, const cpu_chunk_sums *sums, double *gradient_d)
{
    const s4_task *task = g->task;
    int64_t kept = s4_chunk_kept(g->shape), panel = s4_chunk_panel(g->shape), one = g->rows * g->state;
    int64_t parts = (g->chunks + kept - 1) / kept;
    size_t bytes = (size_t)one * sizeof(double);
    memset(g->adjoint, 0, bytes);
    cpu_chunk_load_states(g, task->state_in, g->carry);
    if (!g->chunks) memcpy(g->leaving, g->carry, bytes);
    for (int64_t part = 0; part < parts && need->states; part++) {
        memcpy(g->starts + part * one, g->carry, bytes);
        make_states(g, part * kept, least((part + 1) * kept, g->chunks), part + 1 == parts, g->leaving);
    }
    if (task->dstate_out) through_ends(g, sums);
    for (int64_t part = parts - 1; part >= 0; part--) {
        int64_t first = part * kept, end = least(first + kept, g->chunks);
        if (part + 1 < parts && need->states) {
            memcpy(g->carry, g->starts + part * one, bytes);
            make_states(g, first, end, 1, NULL);
        }
        for (int64_t at = first + (end - first - 1) / panel * panel; at >= first; at -= panel)
            panel_backward(g, need, at, least(panel, end - at), g->kept + (at - first) * one * g->size, sums,
                           gradient_d);
    }
    if (need->du) cpu_chunk_clear_rest(g, (cpu_chunk_tensor){task->du, &task->du_strides, 0});
    if (!task->dstate_in) return;
    enter(g, 0);
    cpu_chunk_store_states(g, g->adjoint, task->dstate_in);
}

static void clear_sums(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_chunk_sums *sums)
{
    cpu_state_sums of_ends = cpu_state_sums_at(shape, sums->ends);
    memset(sums->kernel, 0, (size_t)(sums->ends - sums->kernel) * sizeof(double));
    cpu_state_sums_clear(shape, system, h, &of_ends);
}

/* u, dy, CHUNK_SYSTEM, states -> du, dstate_in, CHUNK_SUMS, SYSTEM_GRADIENT.d of the block's channels. */
s4_status cpu_chunk_backward(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    const needs need = needs_of(task);
    const s4_system system = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]);
    double *gradient_d = s4_system_gradient_view(shape, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]).d;
#pragma omp parallel for schedule(static) num_threads(cpu_lanes(shape->threads))
    for (int64_t h = task->channel; h < task->channel + task->channels; h++) {
        cpu_chunk_sums sums = cpu_chunk_sums_at(task, h);
        if (task->row == 0) clear_sums(shape, &system, h, &sums);
        for (int64_t c = 0; c < shape->channels && need.d && task->row == 0; c++) gradient_d[c * shape->d_model + h] = 0;
        for (int64_t first = 0; first < task->rows; first += s4_chunk_group(shape)) {
            cpu_chunk_group group = cpu_chunk_group_open(task, omp_get_thread_num(), h, first);
            group_backward(&group, &need, &sums, gradient_d + h);
        }
    }
    return S4_OK;
}
