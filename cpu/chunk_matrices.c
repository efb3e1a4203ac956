/*
 * The matrices of the chunked state form (chunk.h), channel by channel, made in double and rounded once:
 *
 *   v_t = dA^t dB,  w_c,t = c_c dA^(t+1),  K_c[t] = c_c v_t,  t < tau: by tau steps of O(nR);  X = dA^tau by squaring.
 *
 * X is stored less I: what a step changes keeps its relative precision however slowly a state decays.
 */
#include <omp.h>
#include <string.h>

#include "cpu/chunk.h"
#include "cpu/phi.h"
#include "cpu/states_backward.h"

/* ---- where things lie -------------------------------------------------------------------------------------------- */

cpu_chunk_system cpu_chunk_system_at(const s4_task *task, int64_t h)
{
    const s4_shape *shape = task->shape;
    const s4_chunk_system_parts at = s4_chunk_system_parts_of(shape);
    int64_t size = (int64_t)s4_dtype_size(shape->dtype), row = shape->resident ? h : h - task->channel;
    char *base = (char *)task->buffer[S4_BUFFER_CHUNK_SYSTEM] + size * row * s4_chunk_system(shape);
    cpu_chunk_system system = {.power = base + size * at.power,
                               .into = base + size * at.into,
                               .out = base + size * at.out,
                               .kernel = base + size * at.kernel};
    if (shape->direction != S4_DIRECTION_TRAINING) return system;
    base += size * at.end;
    system.power_back = base + size * at.power;
    system.into_back = base + size * at.into;
    system.out_back = base + size * at.out;
    system.kernel_back = base + size * at.kernel;
    return system;
}

/* ---- parts that the gradient needs, too -------------------------------------------------------------------------- */

void cpu_chunk_pad(const s4_shape *shape, const double *split, double *padded)
{
    int64_t modes = shape->modes, half = s4_chunk_state(shape) / 2;
    memset(padded, 0, (size_t)(2 * half) * sizeof *padded);
    memcpy(padded, split, (size_t)modes * sizeof *padded);
    memcpy(padded + half, split + modes, (size_t)modes * sizeof *padded);
}

void cpu_chunk_unpad(const s4_shape *shape, const double *padded, double *split)
{
    int64_t modes = shape->modes, half = s4_chunk_state(shape) / 2;
    memcpy(split, padded, (size_t)modes * sizeof *padded);
    memcpy(split + modes, padded + half, (size_t)modes * sizeof *padded);
}

void cpu_chunk_read_out(const s4_shape *shape, const s4_system *system, int64_t h, int64_t output, double *row)
{
    int64_t modes = shape->modes;
    cpu_split(modes, system->c + (output * shape->d_model + h) * 2 * modes, row);
    for (int64_t n = 0; n < modes; n++) {
        row[n] *= 2;
        row[modes + n] *= -2;
    }
}

void cpu_chunk_dense(const s4_shape *shape, const cpu_linear *linear, double *scratch, double *dA)
{
    int64_t modes = shape->modes, state = s4_chunk_state(shape), half = state / 2;
    cpu_linear_dense(linear, scratch);
    memset(dA, 0, (size_t)(state * state) * sizeof *dA);
    for (int64_t m = 0; m < 2 * modes; m++) {
        double *row = dA + (m < modes ? m : half + m - modes) * state;
        cpu_chunk_pad(shape, scratch + m * 2 * modes, row);
    }
}

void cpu_chunk_square_product(const cpu_product *product, int64_t size, const double *a, const double *b, double *c)
{
    cpu_matrices m = {.rows = size, .columns = size, .depth = size, .a = a, .a_row = size, .a_depth = 1};
    m.b = b;
    m.b_depth = size;
    m.c = c;
    m.c_row = size;
    product->set(&m);
}

/* ---- one channel ------------------------------------------------------------------------------------------------- */

/* A channel in work, and its thread's part of CHUNK_SETUP. */
typedef struct channel {
    const s4_task *task;
    const s4_shape *shape;
    int64_t h, chunk, state;
    cpu_linear linear;
    cpu_chunk_system to;
    double *x, *next;  /* (N) */
    double *padded;    /* (N^) */
    double *v;         /* (tau,N^) */
    double *kernel;    /* (2 tau) */
    double *matrix[3]; /* (N^,N^), DPLR */
} channel;

static channel open_channel(const s4_task *task, int thread, int64_t h)
{
    const s4_shape *shape = task->shape;
    int64_t state = s4_chunk_state(shape);
    double *base = (double *)task->buffer[S4_BUFFER_CHUNK_SETUP] + thread * s4_chunk_setup(shape);
    channel c = {.task = task, .shape = shape, .h = h, .chunk = shape->chunk, .state = state};
    c.to = cpu_chunk_system_at(task, h);
    c.v = base;
    c.kernel = c.v + shape->chunk * state;
    c.linear = cpu_linear_view(shape->modes, shape->rank, c.kernel + shape->chunk * state);
    c.x = c.linear.f + cpu_linear_rows(shape->rank) * state;
    c.next = c.x + state;
    c.padded = c.next + state;
    for (int i = 0; i < 3; i++) c.matrix[i] = c.padded + state + i * state * state;
    return c;
}

/* Stores `count` reals, `step` elements of `to` from one to the next. */
static void store(const channel *c, int64_t count, const double *values, void *to, int64_t first, int64_t step)
{
    if (c->shape->dtype == S4_F32) {
        float *at = (float *)to + first;
        for (int64_t i = 0; i < count; i++) at[i * step] = (float)values[i];
    } else {
        double *at = (double *)to + first;
        for (int64_t i = 0; i < count; i++) at[i * step] = values[i];
    }
}

/* What is not finite once stays so: the last one of a recurrence tells of all. */
static int is_finite(int64_t count, const double *last) { return cpu_first_not_finite(count, last) < 0; }

/* v_t, and M_B from them. */
static int make_into(const channel *c)
{
    int64_t chunk = c->chunk, state = c->state;
    memcpy(c->x, c->linear.b, (size_t)(2 * c->shape->modes) * sizeof *c->x);
    for (int64_t t = 0; t < chunk; t++) {
        double *v = c->v + t * state;
        cpu_chunk_pad(c->shape, c->x, v);
        store(c, state, v, c->to.into, (chunk - 1 - t) * state, 1);
        if (c->to.into_back) store(c, state, v, c->to.into_back, chunk - 1 - t, chunk);
        cpu_linear_advance(&c->linear, 0, c->x);
    }
    return is_finite(state, c->v + (chunk - 1) * state);
}

/* The kernel of an output, from its read-out in c->x. */
static int make_kernel(const channel *c, double d, int64_t output)
{
    int64_t chunk = c->chunk, at = output * 2 * chunk;
    double *zeros = c->kernel + chunk;
    cpu_chunk_pad(c->shape, c->x, c->padded);
    for (int64_t t = 0; t < chunk; t++) c->kernel[t] = cpu_inner(c->state, c->padded, c->v + t * c->state);
    c->kernel[0] += d;
    memset(zeros, 0, (size_t)chunk * sizeof *zeros);
    store(c, chunk, zeros, c->to.kernel, at, 1);
    if (c->to.kernel_back) {
        store(c, chunk, c->kernel, c->to.kernel_back, at + chunk - 1, -1);
        store(c, chunk, zeros, c->to.kernel_back, at + chunk, 1);
    }
    store(c, chunk, c->kernel, c->to.kernel, at + chunk, 1);
    return is_finite(chunk, c->kernel);
}

/* M_C of an output: rows w_t, from its read-out in c->x. */
static int make_out(const channel *c, int64_t output)
{
    int64_t chunk = c->chunk, state = c->state;
    for (int64_t t = 0; t < chunk; t++) {
        cpu_linear_back(&c->linear, c->x, c->next);
        memcpy(c->x, c->next, (size_t)(2 * c->shape->modes) * sizeof *c->x);
        cpu_chunk_pad(c->shape, c->x, c->padded);
        store(c, state, c->padded, c->to.out, output * state * chunk + t, chunk);
        if (c->to.out_back) store(c, state, c->padded, c->to.out_back, (output * chunk + t) * state, 1);
    }
    return is_finite(state, c->padded);
}

/* X of a DPLR channel: dA squared log2 tau times. */
static int make_matrix(const channel *c)
{
    int64_t state = c->state, half = state / 2;
    const cpu_product *product = &cpu_products_at(c->task->device)->of[S4_F64];
    double *power = c->matrix[0], *next = c->matrix[1];
    cpu_chunk_dense(c->shape, &c->linear, next, power);
    for (int64_t exponent = 1; exponent < c->chunk; exponent *= 2) {
        cpu_chunk_square_product(product, state, power, power, next);
        double *squared = next;
        next = power;
        power = squared;
    }
    for (int64_t m = 0; m < state; m++) {
        double *row = power + m * state;
        if (m % half < c->shape->modes) row[m] -= 1;
        store(c, state, row, c->to.power, m, state);
        if (c->to.power_back) store(c, state, row, c->to.power_back, m * state, 1);
    }
    return is_finite(state * state, power);
}

/* The same of a diagonal channel. */
static int make_poles(const channel *c)
{
    int64_t modes = c->shape->modes, half = c->state / 2;
    double *power = c->to.power, *back = c->to.power_back;
    memset(power, 0, (size_t)c->state * sizeof *power);
    if (back) memset(back, 0, (size_t)c->state * sizeof *back);
    for (int64_t n = 0; n < modes; n++) {
        cpu_complex pole = cpu_complex_power((cpu_complex){c->linear.f[n], c->linear.f[modes + n]}, c->chunk);
        power[n] = pole.re;
        power[half + n] = pole.im;
        if (!back) continue;
        back[n] = pole.re;
        back[half + n] = -pole.im;
    }
    return is_finite(c->state, power);
}

static void make_channel(const channel *c, const s4_system *system, cpu_failure *failure)
{
    const s4_shape *shape = c->shape;
    if (!cpu_linear_build(shape, system, c->h, 1, &c->linear)) {
        double dt = cpu_dt(shape, system, c->h, 0);
        cpu_failure_merge(failure, &(cpu_failure){.kind = CPU_FAILURE_STEP, .channel = c->h, .value = dt});
        return;
    }
    int finite = make_into(c);
    finite &= shape->mode == S4_MODE_DPLR ? make_matrix(c) : make_poles(c);
    for (int64_t output = 0; output < shape->channels; output++) {
        cpu_chunk_read_out(shape, system, c->h, output, c->x);
        finite &= make_kernel(c, system->d[output * shape->d_model + c->h], output);
        finite &= make_out(c, output);
    }
    if (finite) return;
    cpu_failure found = {.kind = CPU_FAILURE_OVERFLOW, .channel = c->h, .length = c->chunk};
    cpu_failure_merge(failure, &found);
}

s4_status cpu_chunk_matrices(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    s4_system system = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]);
    cpu_failure first = {.kind = CPU_FAILURE_NONE};
#pragma omp parallel num_threads(cpu_lanes(shape->threads))
    {
        cpu_failure mine = {.kind = CPU_FAILURE_NONE};
#pragma omp for schedule(static)
        for (int64_t h = task->channel; h < task->channel + task->channels; h++) {
            channel c = open_channel(task, omp_get_thread_num(), h);
            make_channel(&c, &system, &mine);
        }
#pragma omp critical(cpu_failure)
        cpu_failure_merge(&first, &mine);
    }
    return cpu_failure_raise(shape, &first);
}
