/*
 * Gradients through the states of a row: of the state that leaves, x_T, and of the response to the one that enters,
 * x_0, x_t+1 = dA x_t + dB u[t];   y_c[t] gets c z_t+1,  c = [2 Re C_c, -2 Im C_c],  z_t+1 = dA z_t,  z_0 = x_0.
 * Everything else of y is the convolution's. Back in time, in the real basis [Re x; Im x], where all is real:
 *   m_T = dL/dx_T,                      m_t = dA^T m_t+1                        along x
 *   m_t+1 += sum over c of dy_c[t] c,   m_t = dA^T m_t+1, from m_T = 0          along z
 *   du[t] += dB . m_t+1;   dL/dc += dy_c[t] z_t+1;   dL/dx_0 = m_0 of both
 * and what reaches dA and dB is the sum over samples of m_t+1 x_t^T and m_t+1 u[t].
 *
 * A diagonal layer needs of these only left conj(right) and left u, mode by mode, with left = m_t+1 and right = x_t;
 * its discretisation takes them to Lambda, B and dt.
 *
 * A DPLR layer is bilinear, an implicit step: x_t+1 - x_t = dt (A (x_t + x_t+1) / 2 + B u[t]). Its adjoint, with
 *   left = (I - dt/2 A)^-T m_t+1 = (m_t+1 + m_t) / 2,   right = x_t + x_t+1,   Y = sum of left right^T
 * (along z, m_t+1 after dy was added), gives
 *   gA = dt/2 Y;   gB = dt sum of left u;   g dt_i = (Y A^T / 2 + sum of left u B^T)_ii,
 * and in the real basis A = Lambda - 2 sum over r of p_r p_r^T, so of Y only its diagonal by modes, Y p_r and
 * Y^T (dt p_r) are needed: O(nR) a sample. No matrix is built.
 *
 * States are met in reverse: every stride-th is kept, the others are made again from the one before, a stride at a
 * time. One thread owns a channel with all its rows, batch ascending: sums do not depend on the number of threads.
 */
#include "cpu/states_backward.h"

#include <omp.h>
#include <string.h>

#include "cpu/diagonal.h"

/* One thread's part of STATE_ROWS. */
typedef struct state_lane {
    double *adjoint, *before; /* (N): m_t+1, m_t */
    double *left, *right;     /* (N) */
    double *entering;         /* (N): gradient of x_0 */
    double *kept;             /* (ceil(T / stride),N) */
    double *states;           /* (stride + 1,N) */
    double *matrix;           /* (N,N), DPLR */
    cpu_state_sums sums;
} state_lane;

int64_t cpu_state_sums_rows(const s4_shape *shape) { return s4_state_sums(shape) + 2 * shape->rank; }

cpu_state_sums cpu_state_sums_at(const s4_shape *shape, double *rows)
{
    int64_t state = 2 * shape->modes, of_columns = shape->rank * state;
    cpu_state_sums sums = {.mode = rows, .input = rows + state, .along_p = rows + 2 * state};
    sums.onto_p = sums.along_p + of_columns;
    sums.read_out = sums.onto_p + of_columns;
    sums.p = sums.read_out + shape->channels * state;
    sums.dt_p = sums.p + of_columns;
    return sums;
}

static state_lane lane_view(const s4_task *task, int thread)
{
    const s4_shape *shape = task->shape;
    int64_t state = 2 * shape->modes, stride = s4_state_stride(shape->length);
    double *at = (double *)task->buffer[S4_BUFFER_STATE_ROWS] + thread * s4_state_lane(shape);
    state_lane lane;
    struct {
        double **rows;
        int64_t count;
    } parts[] = {{&lane.adjoint, 1},
                 {&lane.before, 1},
                 {&lane.left, 1},
                 {&lane.right, 1},
                 {&lane.entering, 1},
                 {&lane.sums.p, shape->rank},
                 {&lane.sums.dt_p, shape->rank},
                 {&lane.kept, (shape->length + stride - 1) / stride},
                 {&lane.states, stride + 1},
                 {&lane.matrix, shape->mode == S4_MODE_DPLR ? state : 0}};
    _Static_assert(sizeof parts / sizeof parts[0] - 5 == S4_STATE_ROWS, "single rows of s4_state_lane");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        *parts[i].rows = at;
        at += parts[i].count * state;
    }
    return lane;
}

/* The columns of P of channel h. */
static void fill_columns(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_state_sums *sums)
{
    int64_t modes = shape->modes, state = 2 * modes;
    for (int64_t r = 0; r < shape->rank; r++) {
        double *p = sums->p + r * state, *dt_p = sums->dt_p + r * state;
        cpu_split(modes, system->p + (r * shape->n_ssm + h % shape->n_ssm) * state, p);
        for (int64_t n = 0; n < modes; n++) {
            double dt = cpu_dt(shape, system, h, n);
            dt_p[n] = dt * p[n];
            dt_p[modes + n] = dt * p[modes + n];
        }
    }
}

void cpu_state_sums_clear(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_state_sums *sums)
{
    memset(sums->mode, 0, (size_t)(s4_state_sums(shape) * 2 * shape->modes) * sizeof(double));
    fill_columns(shape, system, h, sums);
}

/* Channel h in STATE_SUMS; the columns of its P are in the lane. */
static void open_sums(const s4_task *task, const s4_system *system, int64_t h, cpu_state_sums *sums)
{
    const s4_shape *shape = task->shape;
    double *rows = (double *)task->buffer[S4_BUFFER_STATE_SUMS] + h * s4_state_sums(shape) * 2 * shape->modes;
    cpu_state_sums of_channel = cpu_state_sums_at(shape, rows);
    of_channel.p = sums->p;
    of_channel.dt_p = sums->dt_p;
    *sums = of_channel;
    fill_columns(shape, system, h, sums);
}

/* ---- one row ----------------------------------------------------------------------------------------------------- */

/* One of the two recurrences of a row (b,h): along x, with u, or along z, with dy. */
typedef struct row_path {
    const s4_shape *shape;
    cpu_linear linear;
    const double *read_out; /* (M,N) */
    const void *u, *dy;     /* NULL: not along this path */
    void *du;               /* or NULL */
    int64_t u_time, du_time, dy_output, dy_time;
    int64_t length;
    int is_zero; /* z of no x_0: only adjoints are wanted */
} row_path;

static double input_at(const row_path *path, int64_t t)
{
    return path->u ? cpu_sample(path->shape->dtype, path->u, t * path->u_time) : 0;
}

void cpu_linear_back(const cpu_linear *linear, const double *m, double *out)
{
    int64_t modes = linear->modes, state = 2 * modes;
    const double *f_re = linear->f, *f_im = linear->f + modes, *m_re = m, *m_im = m + modes;
    double *out_re = out, *out_im = out + modes;
#pragma omp simd
    for (int64_t n = 0; n < modes; n++) {
        out_re[n] = f_re[n] * m_re[n] + f_im[n] * m_im[n];
        out_im[n] = f_re[n] * m_im[n] - f_im[n] * m_re[n];
    }
    for (int64_t r = 0; r < linear->rank; r++) {
        const double *g = linear->g + r * state;
        double factor = cpu_inner(state, linear->p + r * state, m);
#pragma omp simd
        for (int64_t n = 0; n < state; n++) out[n] -= g[n] * factor;
    }
}

static void add_scaled(int64_t count, double factor, const double *x, double *sum)
{
#pragma omp simd
    for (int64_t n = 0; n < count; n++) sum[n] += factor * x[n];
}

void cpu_state_sums_add(const s4_shape *shape, const cpu_state_sums *sums, const double *left, const double *right,
                        double u)
{
    int64_t modes = shape->modes, state = 2 * modes;
    const double *left_re = left, *left_im = left + modes, *right_re = right, *right_im = right + modes;
    double *mode_re = sums->mode, *mode_im = sums->mode + modes;
#pragma omp simd
    for (int64_t n = 0; n < modes; n++) {
        mode_re[n] += left_re[n] * right_re[n];
        mode_re[n] += left_im[n] * right_im[n];
        mode_im[n] += left_im[n] * right_re[n];
        mode_im[n] -= left_re[n] * right_im[n];
    }
    for (int64_t r = 0; r < shape->rank; r++) {
        double right_p = cpu_inner(state, right, sums->p + r * state);
        double left_p = cpu_inner(state, left, sums->dt_p + r * state);
        add_scaled(state, right_p, left, sums->along_p + r * state);
        add_scaled(state, left_p, right, sums->onto_p + r * state);
    }
    add_scaled(state, u, left, sums->input);
}

/* What one sample gives to dA and dB: m_t+1 in adjoint, m_t in before, x_t and x_t+1 in now and next. */
static void add_sample(const row_path *path, const state_lane *lane, const double *now, const double *next, double u)
{
    int64_t state = 2 * path->shape->modes;
    if (path->shape->mode == S4_MODE_DIAG) {
        cpu_state_sums_add(path->shape, &lane->sums, lane->adjoint, now, u);
        return;
    }
#pragma omp simd
    for (int64_t n = 0; n < state; n++) {
        lane->left[n] = (lane->adjoint[n] + lane->before[n]) / 2;
        lane->right[n] = now[n] + next[n];
    }
    cpu_state_sums_add(path->shape, &lane->sums, lane->left, lane->right, u);
}

/* dy of one sample into m_t+1 and the read-outs; next: z_t+1, or NULL for zero. */
static void add_outputs(const row_path *path, const state_lane *lane, int64_t t, const double *next)
{
    int64_t state = 2 * path->shape->modes;
    for (int64_t c = 0; c < path->shape->channels; c++) {
        double dy = cpu_sample(path->shape->dtype, path->dy, c * path->dy_output + t * path->dy_time);
        add_scaled(state, dy, path->read_out + c * state, lane->adjoint);
        if (next) add_scaled(state, dy, next, lane->sums.read_out + c * state);
    }
}

static void add_to_du(const row_path *path, const state_lane *lane, int64_t t)
{
    s4_dtype dtype = path->shape->dtype;
    double du = cpu_sample(dtype, path->du, t * path->du_time);
    du += cpu_inner(2 * path->shape->modes, path->linear.b, lane->adjoint);
    cpu_put_sample(dtype, path->du, t * path->du_time, du);
}

/* Keeps every stride-th state of the row; x: the first, overwritten. */
static void keep_states(const row_path *path, const state_lane *lane, int64_t stride, double *x)
{
    int64_t state = 2 * path->shape->modes;
    for (int64_t first = 0; first < path->length; first += stride) {
        memcpy(lane->kept + first / stride * state, x, (size_t)state * sizeof *x);
        for (int64_t t = first; t < first + stride && first + stride < path->length; t++)
            cpu_linear_advance(&path->linear, input_at(path, t), x);
    }
}

/* `count` states after the kept one at sample `first`, into lane->states behind it. */
static void make_states(const row_path *path, const state_lane *lane, int64_t stride, int64_t first, int64_t count)
{
    int64_t state = 2 * path->shape->modes;
    size_t bytes = (size_t)state * sizeof(double);
    memcpy(lane->states, lane->kept + first / stride * state, bytes);
    for (int64_t i = 0; i < count; i++) {
        double *next = lane->states + (i + 1) * state;
        memcpy(next, next - state, bytes);
        cpu_linear_advance(&path->linear, input_at(path, first + i), next);
    }
}

/* From m_T in lane->adjoint and x_0 in lane->states to m_0 in lane->adjoint, with all sums on the way. */
static void walk_back(const row_path *path, state_lane *lane)
{
    int64_t state = 2 * path->shape->modes, stride = s4_state_stride(path->shape->length);
    if (!path->is_zero) keep_states(path, lane, stride, lane->states);
    for (int64_t first = (path->length - 1) / stride * stride; first >= 0 && path->length > 0; first -= stride) {
        int64_t count = stride < path->length - first ? stride : path->length - first;
        if (!path->is_zero) make_states(path, lane, stride, first, count);
        for (int64_t i = count - 1; i >= 0; i--) {
            const double *now = lane->states + i * state, *next = now + state;
            int64_t t = first + i;
            if (path->dy) add_outputs(path, lane, t, path->is_zero ? NULL : next);
            if (path->du) add_to_du(path, lane, t);
            cpu_linear_back(&path->linear, lane->adjoint, lane->before);
            if (!path->is_zero) add_sample(path, lane, now, next, input_at(path, t));
            double *earlier = lane->before;
            lane->before = lane->adjoint;
            lane->adjoint = earlier;
        }
    }
}

static void load_row(const s4_shape *shape, const double *states, int64_t at, double *x)
{
    int64_t state = 2 * shape->modes;
    if (states)
        cpu_split(shape->modes, states + at, x);
    else
        memset(x, 0, (size_t)state * sizeof *x);
}

static void row_backward(const s4_task *task, int64_t b, int64_t h, state_lane *lane)
{
    const s4_shape *shape = task->shape;
    const s4_strides *u = &task->u_strides, *du = &task->du_strides, *dy = &task->dy_strides;
    int64_t state = 2 * shape->modes;
    int64_t in_block = b - task->row, in_channels = h - task->channel;
    int64_t at = in_block * task->state_batch + in_channels * state;
    int64_t size = (int64_t)s4_dtype_size(shape->dtype);
    double *step_system = (double *)task->buffer[S4_BUFFER_STEP_SYSTEM] + h * s4_step_system(shape);
    row_path path = {.shape = shape,
                     .linear = cpu_linear_view(shape->modes, shape->rank, step_system),
                     .read_out = step_system + cpu_linear_rows(shape->rank) * state,
                     .u_time = u->time,
                     .du_time = du->time,
                     .dy_output = dy->output,
                     .dy_time = dy->time,
                     .length = task->lengths ? task->lengths[in_block] : task->length};
    memset(lane->entering, 0, (size_t)state * sizeof(double));
    if (task->dstate_out) {
        row_path along_x = path;
        along_x.u = (const char *)task->u + (in_block * u->batch + in_channels * u->channel) * size;
        if (task->du) along_x.du = (char *)task->du + (in_block * du->batch + in_channels * du->channel) * size;
        load_row(shape, task->dstate_out, at, lane->adjoint);
        load_row(shape, task->state_in, at, lane->states);
        walk_back(&along_x, lane);
        add_scaled(state, 1, lane->adjoint, lane->entering);
    }
    if (task->state_in || task->dstate_in) {
        row_path along_z = path;
        along_z.dy = (const char *)task->dy + (in_block * dy->batch + in_channels * dy->channel) * size;
        along_z.is_zero = !task->state_in;
        load_row(shape, NULL, 0, lane->adjoint);
        load_row(shape, task->state_in, at, lane->states);
        walk_back(&along_z, lane);
        add_scaled(state, 1, lane->adjoint, lane->entering);
    }
    if (task->dstate_in) cpu_interleave(shape->modes, lane->entering, task->dstate_in + at);
}

void cpu_states_backward_end(const s4_task *task, int64_t b, int64_t h, int64_t first, int64_t count, const double *x,
                             const cpu_state_sums *sums, double *adjoint, void *du)
{
    const s4_shape *shape = task->shape;
    int64_t size = (int64_t)s4_dtype_size(shape->dtype), state = 2 * shape->modes;
    const s4_strides *u = &task->u_strides;
    double *step_system = (double *)task->buffer[S4_BUFFER_STEP_SYSTEM] + h * s4_step_system(shape);
    int64_t offset = b * u->batch + (h - task->channel) * u->channel + first * u->time;
    row_path path = {.shape = shape,
                     .linear = cpu_linear_view(shape->modes, shape->rank, step_system),
                     .u = (const char *)task->u + offset * size,
                     .u_time = u->time,
                     .du = du,
                     .du_time = 1,
                     .length = count};
    state_lane lane = lane_view(task, omp_get_thread_num());
    lane.sums = *sums;
    memcpy(lane.states, x, (size_t)state * sizeof *x);
    memcpy(lane.adjoint, adjoint, (size_t)state * sizeof *x);
    walk_back(&path, &lane);
    memcpy(adjoint, lane.adjoint, (size_t)state * sizeof *x);
}

/* ---- from the sums of a channel to its effective parameters -------------------------------------------------------
 */

static cpu_complex split_at(int64_t modes, const double *split, int64_t n)
{
    return (cpu_complex){split[n], split[modes + n]};
}

static void finish_diagonal(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_state_sums *sums,
                            const s4_system_gradient *gradient)
{
    const cpu_diagonal_rule *rule = cpu_diagonal_rule_of(shape);
    int64_t modes = shape->modes, copy = h % shape->n_ssm;
    for (int64_t n = 0; n < modes; n++) {
        const double *lambda = system->lambda + 2 * (copy * modes + n), *b = system->b + 2 * (copy * modes + n);
        double *g_lambda = gradient->lambda + 2 * (h * modes + n), *g_b = gradient->b + 2 * (h * modes + n);
        cpu_mode mode = {.length = shape->kernel_length, /* dB = w B */
                         .dt = cpu_dt(shape, system, h, n),
                         .lambda = {lambda[0], lambda[1]},
                         .g_pole = split_at(modes, sums->mode, n)};
        cpu_pole pole;
        rule->discretise(&mode, &pole);
        cpu_complex g_input = split_at(modes, sums->input, n);
        cpu_complex of_b = cpu_times_conj(g_input, mode.weight);
        mode.g_weight = cpu_times_conj(g_input, (cpu_complex){b[0], b[1]});
        rule->chain(&mode);
        g_lambda[0] += mode.g_lambda.re;
        g_lambda[1] += mode.g_lambda.im;
        g_b[0] += of_b.re;
        g_b[1] += of_b.im;
        gradient->dt[h * shape->dt_modes + (shape->dt_modes > 1 ? n : 0)] += mode.g_dt;
    }
}

/* The columns of P, of A = Lambda - 2 sum of p p^T: gP = -2 (gA + gA^T) p with gA = dt/2 Y. */
static void finish_columns(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_state_sums *sums,
                           const s4_system_gradient *gradient)
{
    int64_t modes = shape->modes, state = 2 * modes;
    for (int64_t r = 0; r < shape->rank; r++)
        for (int64_t n = 0; n < modes; n++) {
            double dt = cpu_dt(shape, system, h, n);
            double *g_p = gradient->p + (r * shape->d_model + h) * state + 2 * n;
            double *g_dt = gradient->dt + h * shape->dt_modes + (shape->dt_modes > 1 ? n : 0);
            cpu_complex p = split_at(modes, sums->p + r * state, n);
            cpu_complex along = split_at(modes, sums->along_p + r * state, n);
            cpu_complex onto = split_at(modes, sums->onto_p + r * state, n);
            g_p[0] -= dt * along.re;
            g_p[0] -= onto.re;
            g_p[1] -= dt * along.im;
            g_p[1] -= onto.im;
            *g_dt -= p.re * along.re;
            *g_dt -= p.im * along.im;
        }
}

static void finish_dplr(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_state_sums *sums,
                        const s4_system_gradient *gradient)
{
    int64_t modes = shape->modes, copy = h % shape->n_ssm;
    for (int64_t n = 0; n < modes; n++) {
        const double *lambda = system->lambda + 2 * (copy * modes + n), *b = system->b + 2 * (copy * modes + n);
        double *g_lambda = gradient->lambda + 2 * (h * modes + n), *g_b = gradient->b + 2 * (h * modes + n);
        double *g_dt = gradient->dt + h * shape->dt_modes + (shape->dt_modes > 1 ? n : 0);
        double dt = cpu_dt(shape, system, h, n);
        cpu_complex of_mode = split_at(modes, sums->mode, n), of_input = split_at(modes, sums->input, n);
        g_lambda[0] += dt / 2 * of_mode.re;
        g_lambda[1] += dt / 2 * of_mode.im;
        g_b[0] += dt * of_input.re;
        g_b[1] += dt * of_input.im;
        *g_dt += lambda[0] * of_mode.re / 2;
        *g_dt += lambda[1] * of_mode.im / 2;
        *g_dt += b[0] * of_input.re;
        *g_dt += b[1] * of_input.im;
    }
    finish_columns(shape, system, h, sums, gradient);
}

/* Rows [2 Re C, -2 Im C] -> C. */
static void finish_read_outs(const s4_shape *shape, int64_t h, const cpu_state_sums *sums,
                             const s4_system_gradient *gradient)
{
    int64_t modes = shape->modes, state = 2 * modes;
    for (int64_t c = 0; c < shape->channels; c++)
        for (int64_t n = 0; n < modes; n++) {
            cpu_complex of_row = split_at(modes, sums->read_out + c * state, n);
            double *g_c = gradient->c + (c * shape->d_model + h) * state + 2 * n;
            g_c[0] += 2 * of_row.re;
            g_c[1] -= 2 * of_row.im;
        }
}

void cpu_state_sums_finish(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_state_sums *sums,
                           const s4_system_gradient *gradient)
{
    (shape->mode == S4_MODE_DPLR ? finish_dplr : finish_diagonal)(shape, system, h, sums, gradient);
    finish_read_outs(shape, h, sums, gradient);
}

/* The leaf of a DPLR layer need not be plain C. */
static int has_read_out_gradient(const s4_shape *shape, const cpu_state_sums *sums)
{
    int64_t count = shape->channels * 2 * shape->modes, zeros = 0;
    while (zeros < count && sums->read_out[zeros] == 0) zeros++;
    return zeros < count;
}

static void channel_gradients(const s4_task *task, const s4_system *system, int64_t h, const cpu_lane *setup,
                              state_lane *lane, cpu_failure *failure)
{
    const s4_shape *shape = task->shape;
    const s4_system_gradient gradient = s4_system_gradient_view(shape, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]);
    const double *step_system = (const double *)task->buffer[S4_BUFFER_STEP_SYSTEM] + h * s4_step_system(shape);
    int is_dplr = shape->mode == S4_MODE_DPLR;
    open_sums(task, system, h, &lane->sums);
    if (is_dplr && has_read_out_gradient(shape, &lane->sums) &&
        !cpu_read_out_backward(shape, step_system, h, setup, lane->matrix, &lane->sums, failure))
        return;
    cpu_state_sums_finish(shape, system, h, &lane->sums, &gradient);
}

/* STATE_SUMS -> adds to SYSTEM_GRADIENT. */
s4_status cpu_state_gradients(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    s4_system system = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]);
    cpu_failure first = {.kind = CPU_FAILURE_NONE};
#pragma omp parallel num_threads(cpu_lanes(shape->threads))
    {
        cpu_lane setup = cpu_lane_view(shape, task->buffer[S4_BUFFER_SETUP_MATRICES], omp_get_thread_num());
        state_lane lane = lane_view(task, omp_get_thread_num());
        cpu_failure mine = {.kind = CPU_FAILURE_NONE};
#pragma omp for schedule(static)
        for (int64_t h = 0; h < shape->d_model; h++) channel_gradients(task, &system, h, &setup, &lane, &mine);
#pragma omp critical(cpu_failure)
        cpu_failure_merge(&first, &mine);
    }
    return cpu_failure_raise(shape, &first);
}

/* u, dy, states of the block -> du, dstate_in; adds into STATE_SUMS, from zero in the first block of rows. */
s4_status cpu_states_backward(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    int any = task->state_in || task->dstate_out || task->dstate_in;
    s4_system system = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]);
#pragma omp parallel num_threads(cpu_lanes(shape->threads))
    {
        state_lane lane = lane_view(task, omp_get_thread_num());
#pragma omp for schedule(static)
        for (int64_t h = task->channel; h < task->channel + task->channels; h++) {
            open_sums(task, &system, h, &lane.sums);
            if (task->row == 0)
                memset(lane.sums.mode, 0, (size_t)(s4_state_sums(shape) * 2 * shape->modes) * sizeof(double));
            for (int64_t b = task->row; any && b < task->row + task->rows; b++) row_backward(task, b, h, &lane);
        }
    }
    return S4_OK;
}
