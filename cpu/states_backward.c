/*
 * Gradients through the states of a row: of the state that leaves, x_T, and of the response to the one that enters,
 * x_0, x_t+1 = dA x_t + dB u[t];   y_c[t] gets c z_t+1,  c = [2 Re C_c, -2 Im C_c],  z_t+1 = dA z_t,  z_0 = x_0.
 * Everything else of y is the convolution's. Back in time, in the real basis [Re x; Im x], where all is real:
 *   m_T = dL/dx_T,                      m_t = dA^T m_t+1                        along x
 *   m_t+1 += sum over c of dy_c[t] c,   m_t = dA^T m_t+1, from m_T = 0          along z
 *   du[t] += dB . m_t+1;   dL/dc += dy_c[t] z_t+1;   dL/dx_0 = m_0 of both
 * and what reaches dA and dB is the sum over samples of m_t+1 x_t^T and m_t+1 u[t] (state_sums.h).
 *
 * States are met in reverse: every stride-th is kept, the others are made again from the one before, a stride at a
 * time. One thread owns a channel with all its rows, batch ascending: sums do not depend on the number of threads.
 */
#include "cpu/states_backward.h"

#include <omp.h>
#include <string.h>

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

/* Channel h in STATE_SUMS; the columns of its P are in the lane. */
static void open_sums(const s4_task *task, const s4_system *system, int64_t h, cpu_state_sums *sums)
{
    const s4_shape *shape = task->shape;
    double *rows = (double *)task->buffer[S4_BUFFER_STATE_SUMS] + h * s4_state_sums(shape) * 2 * shape->modes;
    cpu_state_sums of_channel = cpu_state_sums_at(shape, rows);
    of_channel.p = sums->p;
    of_channel.dt_p = sums->dt_p;
    *sums = of_channel;
    cpu_state_sums_columns(shape, system, h, sums);
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

/* What one sample gives to dA and dB: m_t+1 in adjoint (along z, after dy was added), m_t in before, x_t and x_t+1 in
 * now and next. */
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
        cpu_add_scaled(state, dy, path->read_out + c * state, lane->adjoint);
        if (next) cpu_add_scaled(state, dy, next, lane->sums.read_out + c * state);
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
        cpu_add_scaled(state, 1, lane->adjoint, lane->entering);
    }
    if (task->state_in || task->dstate_in) {
        row_path along_z = path;
        along_z.dy = (const char *)task->dy + (in_block * dy->batch + in_channels * dy->channel) * size;
        along_z.is_zero = !task->state_in;
        load_row(shape, NULL, 0, lane->adjoint);
        load_row(shape, task->state_in, at, lane->states);
        walk_back(&along_z, lane);
        cpu_add_scaled(state, 1, lane->adjoint, lane->entering);
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
