/*
 * Gradients of the effective parameters from those of the chunk matrices (chunk.h), in double. With
 *
 *   v_t = dA v_t-1, v_0 = dB;   w_t = w_t-1 dA, w_-1 = c;   K[t] = c v_t;   row tau-1-t of M_B is v_t, column t of M_C
 * is w_t
 *
 * adjoints of v go back in time, those of w forward, and each step gives one product left right^T to the sums that
 * state_sums.c takes to the parameters: for a step z = dA x with the adjoint m of z,
 *
 *   DPLR: left = (m + dA^T m) / 2, right = x + dA x;   diagonal: left = m, right = x.
 *
 * X = dA^tau: with E the transpose of X's gradient, and squaring undone, E <- X_i E + E X_i for X_i = dA^(2^i), i
 * descending, ends as the transpose of dA's; and the sum of right left^T it stands for is (I + dA) E (I + dA) / 2.
 * Diagonal: gdA = tau conj(dA^(tau-1)) gX.
 */
#include <omp.h>
#include <string.h>

#include "cpu/chunk.h"
#include "cpu/diagonal.h"
#include "cpu/states_backward.h"

/* A channel in work, and its thread's part of CHUNK_SETUP. */
typedef struct channel {
    const s4_task *task;
    const s4_shape *shape;
    int64_t h, chunk, modes, size; /* size: N */
    cpu_linear linear;
    cpu_chunk_sums of;
    cpu_state_sums sums;
    double *v, *w;                              /* (tau,N) */
    double *read_out, *m, *next, *left, *right; /* (N) */
    double *matrix; /* (N^,N^) each, DPLR: E, scratch, then dA to the powers 1, 2 ... tau/2 */
} channel;

static channel open_channel(const s4_task *task, int thread, int64_t h)
{
    const s4_shape *shape = task->shape;
    int64_t state = s4_chunk_state(shape);
    double *base = (double *)task->buffer[S4_BUFFER_CHUNK_SETUP] + thread * s4_chunk_setup(shape);
    channel c = {.task = task, .shape = shape, .h = h, .chunk = shape->chunk, .modes = shape->modes};
    c.size = 2 * shape->modes;
    c.of = cpu_chunk_sums_at(task, h);
    c.sums = cpu_state_sums_at(shape, c.of.ends);
    c.v = base;
    c.w = c.v + shape->chunk * state;
    c.linear = cpu_linear_view(shape->modes, shape->rank, c.w + shape->chunk * state);
    c.read_out = c.linear.f + cpu_linear_rows(shape->rank) * state;
    c.m = c.read_out + state;
    c.next = c.m + state;
    c.left = c.next + state;
    c.right = c.left + state;
    c.matrix = c.right + state;
    return c;
}

static void add_scaled(int64_t count, double factor, const double *x, double *sum)
{
#pragma omp simd
    for (int64_t n = 0; n < count; n++) sum[n] += factor * x[n];
}

static int is_dplr(const channel *c) { return c->shape->mode == S4_MODE_DPLR; }

/* One step into the sums; m: the adjoint, back: dA^T m, x: the state, image: dA x. */
static void add_step(const channel *c, const double *m, const double *back, const double *x, const double *image)
{
    if (!is_dplr(c)) {
        cpu_state_sums_add(c->shape, &c->sums, m, x, 0);
        return;
    }
#pragma omp simd
    for (int64_t n = 0; n < c->size; n++) {
        c->left[n] = (m[n] + back[n]) / 2;
        c->right[n] = x[n] + image[n];
    }
    cpu_state_sums_add(c->shape, &c->sums, c->left, c->right, 0);
}

/* The step from 0 to v_0 = dB, by an input of 1. */
static void add_input(const channel *c, const double *m, const double *back, const double *v)
{
    if (!is_dplr(c)) {
        add_scaled(c->size, 1, m, c->sums.input);
        return;
    }
#pragma omp simd
    for (int64_t n = 0; n < c->size; n++) c->left[n] = (m[n] + back[n]) / 2;
    cpu_state_sums_add(c->shape, &c->sums, c->left, v, 1);
}

/* sum += a row of a matrix of gradients: element n is `step` doubles from the one before, halves padded. */
static void add_padded(const channel *c, const double *gradient, int64_t step, double *sum)
{
    const double *second = gradient + s4_chunk_state(c->shape) / 2 * step;
    for (int64_t n = 0; n < c->modes; n++) {
        sum[n] += gradient[n * step];
        sum[c->modes + n] += second[n * step];
    }
}

/* ---- v, w, X ----------------------------------------------------------------------------------------------------- */

/* Gradient of K of an output (tau), from the sums U^T G, in their first row. */
static const double *of_kernel(const channel *c, int64_t output)
{
    double *sums = c->of.kernel + output * c->chunk * c->chunk;
    for (int64_t i = 1; i < c->chunk; i++) add_scaled(c->chunk - i, 1, sums + i * c->chunk + i, sums);
    return sums;
}

/* What K of an output gives to c, and to the adjoints (tau,N) of v. */
static void through_kernel(const channel *c, const s4_system *system, int64_t output, double *adjoints)
{
    const double *g = of_kernel(c, output);
    cpu_chunk_read_out(c->shape, system, c->h, output, c->read_out);
    for (int64_t t = 0; t < c->chunk; t++) {
        add_scaled(c->size, g[t], c->read_out, adjoints + t * c->size);
        add_scaled(c->size, g[t], c->v + t * c->size, c->sums.read_out + output * c->size);
    }
}

/* What K and M_B give to v and so to dA and dB. */
static void through_v(const channel *c, const s4_system *system)
{
    int64_t size = c->size;
    double *adjoints = c->w; /* until w is made */
    memset(adjoints, 0, (size_t)(c->chunk * size) * sizeof *adjoints);
    for (int64_t output = 0; output < c->shape->channels; output++) through_kernel(c, system, output, adjoints);
    memset(c->m, 0, (size_t)size * sizeof(double));
    for (int64_t t = c->chunk - 1; t >= 0; t--) {
        const double *v = c->v + t * size;
        add_padded(c, c->of.into + (c->chunk - 1 - t) * s4_chunk_state(c->shape), 1, c->m);
        add_scaled(size, 1, adjoints + t * size, c->m);
        cpu_linear_back(&c->linear, c->m, c->next);
        if (t > 0) {
            add_step(c, c->m, c->next, v - size, v);
            memcpy(c->m, c->next, (size_t)size * sizeof(double));
        }
    }
    add_input(c, c->m, c->next, c->v);
}

/* What M_C of an output gives to w and so to dA and c. */
static void through_w(const channel *c, const s4_system *system, int64_t output)
{
    int64_t size = c->size;
    size_t bytes = (size_t)size * sizeof(double);
    const double *gradients = c->of.out + output * s4_chunk_state(c->shape) * c->chunk;
    cpu_chunk_read_out(c->shape, system, c->h, output, c->read_out);
    for (int64_t t = 0; t < c->chunk; t++)
        cpu_linear_back(&c->linear, t ? c->w + (t - 1) * size : c->read_out, c->w + t * size);
    memset(c->m, 0, bytes);
    for (int64_t t = c->chunk - 1; t >= 0; t--) {
        add_padded(c, gradients + t, c->chunk, c->m);
        memcpy(c->next, c->m, bytes);
        cpu_linear_advance(&c->linear, 0, c->next);
        add_step(c, t ? c->w + (t - 1) * size : c->read_out, c->w + t * size, c->m, c->next);
        memcpy(c->m, c->next, bytes);
    }
    add_scaled(size, 1, c->m, c->sums.read_out + output * size);
}

/* sums of left right^T for the matrix that holds their transpose, right left^T */
static void add_matrix(const channel *c, const double *transposed)
{
    int64_t modes = c->modes, size = c->size, state = s4_chunk_state(c->shape), half = state / 2;
    for (int64_t n = 0; n < modes; n++) {
        const double *of_re = transposed + n * state, *of_im = transposed + (half + n) * state;
        c->sums.mode[n] += of_re[n];
        c->sums.mode[n] += of_im[half + n];
        c->sums.mode[modes + n] += of_re[half + n];
        c->sums.mode[modes + n] -= of_im[n];
    }
    for (int64_t r = 0; r < c->shape->rank; r++) {
        double *along = c->sums.along_p + r * size, *onto = c->sums.onto_p + r * size;
        cpu_chunk_pad(c->shape, c->sums.dt_p + r * size, c->left);
        for (int64_t k = 0; k < size; k++) {
            const double *row = transposed + (k < modes ? k : half + k - modes) * state;
            double p = c->sums.p[r * size + k];
            add_scaled(modes, p, row, along);
            add_scaled(modes, p, row + half, along + modes);
            onto[k] += cpu_inner(state, row, c->left);
        }
    }
}

static void add_identity(int64_t state, double *matrix)
{
    for (int64_t n = 0; n < state; n++) matrix[n * state + n] += 1;
}

static void through_matrix(const channel *c)
{
    int64_t state = s4_chunk_state(c->shape), square = state * state;
    const cpu_product *product = &cpu_products_at(c->task->device)->of[S4_F64];
    double *e = c->matrix, *scratch = e + square, *first = scratch + square, *power = first;
    cpu_chunk_dense(c->shape, &c->linear, scratch, first);
    for (int64_t exponent = 1; 2 * exponent < c->chunk; exponent *= 2, power += square)
        cpu_chunk_square_product(product, state, power, power, power + square);
    for (int64_t m = 0; m < state; m++)
        for (int64_t k = 0; k < state; k++) e[k * state + m] = c->of.power[m * state + k];
    for (; power >= first; power -= square) {
        cpu_matrices more = {.rows = state, .columns = state, .depth = state, .a = e, .a_row = state, .a_depth = 1};
        more.b = power;
        more.b_depth = state;
        more.c = scratch;
        more.c_row = state;
        cpu_chunk_square_product(product, state, power, e, scratch);
        product->add(&more);
        memcpy(e, scratch, (size_t)square * sizeof *e);
    }
    add_identity(state, first);
    cpu_chunk_square_product(product, state, first, e, scratch);
    cpu_chunk_square_product(product, state, scratch, first, e);
    for (int64_t i = 0; i < square; i++) e[i] /= 2;
    add_matrix(c, e);
}

static void through_poles(const channel *c)
{
    int64_t modes = c->modes, half = s4_chunk_state(c->shape) / 2;
    for (int64_t n = 0; n < modes; n++) {
        cpu_complex pole = {c->linear.f[n], c->linear.f[modes + n]}, g = {c->of.power[n], c->of.power[half + n]};
        cpu_complex slope = cpu_scaled((double)c->chunk, cpu_complex_power(pole, c->chunk - 1));
        cpu_complex of_pole = cpu_times_conj(g, slope);
        c->sums.mode[n] += of_pole.re;
        c->sums.mode[modes + n] += of_pole.im;
    }
}

/* ---- the operation ----------------------------------------------------------------------------------------------- */

static void clear_gradient(const s4_shape *shape, int64_t h, const s4_system_gradient *gradient)
{
    int64_t size = 2 * shape->modes, rows = shape->d_model * size;
    size_t bytes = (size_t)size * sizeof(double);
    memset(gradient->lambda + h * size, 0, bytes);
    memset(gradient->b + h * size, 0, bytes);
    for (int64_t r = 0; r < shape->rank; r++) memset(gradient->p + r * rows + h * size, 0, bytes);
    for (int64_t c = 0; c < shape->channels; c++) memset(gradient->c + c * rows + h * size, 0, bytes);
    memset(gradient->dt + h * shape->dt_modes, 0, (size_t)shape->dt_modes * sizeof(double));
}

static void channel_gradient(const channel *c, const s4_system *system, const s4_system_gradient *gradient,
                             unsigned wanted, cpu_failure *failure)
{
    const s4_shape *shape = c->shape;
    int64_t size = c->size;
    if (!cpu_linear_build(shape, system, c->h, 1, &c->linear)) {
        double dt = cpu_dt(shape, system, c->h, 0);
        cpu_failure_merge(failure, &(cpu_failure){.kind = CPU_FAILURE_STEP, .channel = c->h, .value = dt});
        return;
    }
    memcpy(c->v, c->linear.b, (size_t)size * sizeof(double));
    for (int64_t t = 1; t < c->chunk; t++) {
        memcpy(c->v + t * size, c->v + (t - 1) * size, (size_t)size * sizeof(double));
        cpu_linear_advance(&c->linear, 0, c->v + t * size);
    }
    through_v(c, system);
    for (int64_t output = 0; output < shape->channels; output++) through_w(c, system, output);
    if (wanted & S4_WANTED_SYSTEM) (is_dplr(c) ? through_matrix : through_poles)(c);
    clear_gradient(shape, c->h, gradient);
    cpu_state_sums_finish(shape, system, c->h, &c->sums, gradient);
}

/* SYSTEM, CHUNK_SUMS -> SYSTEM_GRADIENT (all but d) of the block's channels. */
s4_status cpu_chunk_gradient(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    if (!(task->wanted & S4_WANTED_KERNEL)) return S4_OK;
    const s4_system system = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]);
    const s4_system_gradient gradient = s4_system_gradient_view(shape, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]);
    cpu_failure first = {.kind = CPU_FAILURE_NONE};
#pragma omp parallel num_threads(cpu_lanes(shape->threads))
    {
        cpu_failure mine = {.kind = CPU_FAILURE_NONE};
#pragma omp for schedule(static)
        for (int64_t h = task->channel; h < task->channel + task->channels; h++) {
            channel c = open_channel(task, omp_get_thread_num(), h);
            channel_gradient(&c, &system, &gradient, task->wanted, &mine);
        }
#pragma omp critical(cpu_failure)
        cpu_failure_merge(&first, &mine);
    }
    return cpu_failure_raise(shape, &first);
}
