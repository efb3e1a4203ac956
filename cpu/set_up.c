/*
 * The read-out C and its set-up form C~, which belongs to a length L and a step dt:
 *   C~_L = C (I - dA^L);   C~_2L = C~_L (I + dA^L);   back: solve C (I - dA^L) = C~_L.
 *
 * A conversion from one length to another is up to three moves: undo, double, set up. Doubling is taken where the new
 * length is the old one times a power of two at the same step; it needs no solve. All is done on rows of the real
 * basis [Re C, -Im C], in which y = C x is a product of reals, by dense powers of dA, channel by channel in parallel.
 *
 * The solve factors the transpose of I - dA^L (a row-major matrix read by columns) and refuses one that is singular
 * to working precision: 1 / (max(1, |I - dA^L|) |(I - dA^L)^-1|), in the 1-norm, under N epsilon.
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include <lapacke.h>

#include "cpu/place.h"

/* ---- lanes and failures ---------------------------------------------------------------------------------------- */

/* A lane has 3N + 10 rows of N. While dA is built: the matrix, a cpu_linear of the greatest rank, two of scratch, the
 * read-out; tightest for N = 2. While C is solved for: three matrices, six rows of work areas, the read-out. */
_Static_assert(3 * 2 + 10 >= 2 + (3 + 2 * S4_RANK_MAX) + 2 + 1, "a lane holds the build of dA");
_Static_assert(sizeof(lapack_int) <= sizeof(double), "integers of LAPACK fit rows of doubles");

cpu_lane cpu_lane_view(const s4_shape *shape, double *matrices, int thread)
{
    int64_t state = 2 * shape->modes, square = state * state;
    double *base = matrices + thread * s4_setup_lane(shape->modes);
    cpu_lane lane;
    for (int i = 0; i < 3; i++) lane.matrix[i] = base + i * square;
    lane.linear = base + square;
    lane.unit = lane.linear + cpu_linear_rows(shape->rank) * state;
    lane.condition = base + 3 * square;
    lane.row = base + s4_setup_lane(shape->modes) - state;
    return lane;
}

void cpu_failure_merge(cpu_failure *first, const cpu_failure *other)
{
    if (other->kind == CPU_FAILURE_NONE) return;
    if (first->kind == CPU_FAILURE_NONE || other->channel < first->channel) *first = *other;
}

static double least_condition(const s4_shape *shape) { return (double)(2 * shape->modes) * DBL_EPSILON; }

s4_status cpu_failure_raise(const s4_shape *shape, const cpu_failure *first)
{
    switch (first->kind) {
    case CPU_FAILURE_NONE:
        return S4_OK;
    case CPU_FAILURE_STEP:
        return cpu_host->fail(S4_ERROR_SINGULAR,
                              "channel %" PRId64 ": I - dt/2 A is singular to working precision at dt = %g",
                              first->channel, first->value);
    case CPU_FAILURE_UNDO:
        return cpu_host->fail(S4_ERROR_SINGULAR,
                              "channel %" PRId64 ": no C from C~ of length %" PRId64 ": I - dA^%" PRId64
                              " has reciprocal condition number %.3g, must be at least %.3g",
                              first->channel, first->length, first->length, first->value, least_condition(shape));
    case CPU_FAILURE_OVERFLOW:
        return cpu_host->fail(S4_ERROR_NOT_FINITE,
                              "channel %" PRId64 ": the read-out of length %" PRId64 " is not finite: dA^%" PRId64
                              " is too large",
                              first->channel, first->length, first->length);
    case CPU_FAILURE_LIBRARY:
        break;
    }
    return cpu_host->fail(S4_ERROR_LIBRARY, "channel %" PRId64 ": LAPACK returned info = %g", first->channel,
                          first->value);
}

/* ---- one channel ------------------------------------------------------------------------------------------------- */

typedef struct conversion {
    const s4_shape *shape;
    const s4_system *system; /* lambda, b, p */
    double *matrices;
    const double *raw_dt; /* (H): t(raw_dt) is the step that `from` belongs to, rate times it the one of `to` */
    s4_transform dt_transform;
    double rate;
    int64_t from, to;
    const double *c_from; /* (H,n,2) */
    double *c;            /* rows (n,2) */
    int64_t stride;       /* doubles from row to row of c */
} conversion;

/* Undo length `undo` (0 = not), double `doublings` times from length `from`, set up for length `set_up` (0 = not). */
typedef struct moves {
    int64_t undo, set_up;
    int doublings;
} moves;

static moves choose_moves(const conversion *cv)
{
    if (cv->from && cv->to && cv->rate == 1) {
        int doublings = 0;
        int64_t length = cv->from;
        while (length < cv->to && length <= INT64_MAX / 2) {
            length *= 2;
            doublings++;
        }
        if (length == cv->to) return (moves){.doublings = doublings};
    }
    return (moves){.undo = cv->from, .set_up = cv->to};
}

static int fail_channel(cpu_failure *failure, cpu_failure_kind kind, int64_t h, int64_t length, double value)
{
    cpu_failure found = {kind, h, length, value};
    cpu_failure_merge(failure, &found);
    return 0;
}

/* dA^length at step dt, in one of the lane's matrices 1 and 2; NULL on failure. */
static double *channel_power(const conversion *cv, const cpu_lane *lane, int64_t h, double dt, int64_t length,
                             cpu_failure *failure)
{
    const s4_shape *shape = cv->shape;
    int64_t state = 2 * shape->modes;
    cpu_linear linear = cpu_linear_view(shape->modes, shape->rank, lane->linear);
    if (!cpu_linear_build(shape, cv->system, h, dt, &linear)) {
        fail_channel(failure, CPU_FAILURE_STEP, h, length, dt);
        return NULL;
    }
    cpu_linear_dense(&linear, lane->matrix[0], lane->unit);
    double *power = cpu_matrix_power(state, lane->matrix[0], length, &lane->matrix[1]);
    if (cpu_first_not_finite(state * state, power) >= 0) {
        fail_channel(failure, CPU_FAILURE_OVERFLOW, h, length, 0);
        return NULL;
    }
    return power;
}

/* row <- row + sign * row * matrix */
static void add_product(int64_t state, double sign, const double *matrix, double *row, double *scratch)
{
    cpu_row_times_matrix(state, row, matrix, scratch);
    for (int64_t m = 0; m < state; m++) row[m] += sign * scratch[m];
}

/* row <- the c of c (I - power) = row; power is destroyed. */
static int solve_row(const conversion *cv, const cpu_lane *lane, int64_t h, double *power, cpu_failure *failure)
{
    int64_t state = 2 * cv->shape->modes;
    lapack_int size = (lapack_int)state;
    double *work = lane->condition;
    lapack_int *pivots = (lapack_int *)(lane->condition + 4 * state);
    lapack_int *integer_work = (lapack_int *)(lane->condition + 5 * state);

    /* 1-norm of the transpose: rows of the row-major matrix are its columns. Not under 1: the errors of dA^L are
     * relative to I, so a difference of nearly equal matrices is as bad as it is small. */
    double norm = 1;
    for (int64_t m = 0; m < state; m++) {
        double sum = 0;
        for (int64_t k = 0; k < state; k++) {
            double entry = (m == k) - power[m * state + k];
            power[m * state + k] = entry;
            sum += fabs(entry);
        }
        if (sum > norm) norm = sum;
    }

    lapack_int info = LAPACKE_dgetrf_work(LAPACK_COL_MAJOR, size, size, power, size, pivots);
    if (info < 0) return fail_channel(failure, CPU_FAILURE_LIBRARY, h, cv->from, info);
    double condition = 0; /* info > 0: a pivot is exactly 0 */
    if (info == 0) {
        info = LAPACKE_dgecon_work(LAPACK_COL_MAJOR, '1', size, power, size, norm, &condition, work, integer_work);
        if (info) return fail_channel(failure, CPU_FAILURE_LIBRARY, h, cv->from, info);
    }
    if (!(condition >= least_condition(cv->shape)))
        return fail_channel(failure, CPU_FAILURE_UNDO, h, cv->from, condition);
    info = LAPACKE_dgetrs_work(LAPACK_COL_MAJOR, 'N', size, 1, power, size, pivots, lane->row, size);
    if (info) return fail_channel(failure, CPU_FAILURE_LIBRARY, h, cv->from, info);
    return 1;
}

static int undo_row(const conversion *cv, const cpu_lane *lane, int64_t h, double dt, int64_t length,
                    cpu_failure *failure)
{
    double *power = channel_power(cv, lane, h, dt, length, failure);
    return power && solve_row(cv, lane, h, power, failure);
}

static int double_row(const conversion *cv, const cpu_lane *lane, int64_t h, double dt, int doublings,
                      cpu_failure *failure)
{
    int64_t state = 2 * cv->shape->modes;
    double *power = channel_power(cv, lane, h, dt, cv->from, failure);
    if (!power) return 0;
    double *next = power == lane->matrix[1] ? lane->matrix[2] : lane->matrix[1];
    for (int i = 0; i < doublings; i++) {
        add_product(state, 1, power, lane->row, lane->condition);
        if (i + 1 == doublings) break;
        cpu_matrix_product(state, power, power, next);
        double *squared = next;
        next = power;
        power = squared;
    }
    return 1;
}

static int set_up_row(const conversion *cv, const cpu_lane *lane, int64_t h, double dt, int64_t length,
                      cpu_failure *failure)
{
    double *power = channel_power(cv, lane, h, dt, length, failure);
    if (!power) return 0;
    add_product(2 * cv->shape->modes, -1, power, lane->row, lane->condition);
    return 1;
}

static void convert_channel(const conversion *cv, const moves *todo, const cpu_lane *lane, int64_t h,
                            cpu_failure *failure)
{
    int64_t modes = cv->shape->modes, state = 2 * modes;
    double *row = lane->row;
    double dt_from = cpu_transform_value(cv->dt_transform, cv->raw_dt[h]);
    double dt_to = dt_from * cv->rate;

    cpu_split(modes, cv->c_from + h * state, row);
    for (int64_t n = 0; n < modes; n++) row[modes + n] = -row[modes + n];
    if (todo->undo && !undo_row(cv, lane, h, dt_from, todo->undo, failure)) return;
    if (todo->doublings && !double_row(cv, lane, h, dt_from, todo->doublings, failure)) return;
    if (todo->set_up && !set_up_row(cv, lane, h, dt_to, todo->set_up, failure)) return;
    if (cpu_first_not_finite(state, row) >= 0) {
        fail_channel(failure, CPU_FAILURE_OVERFLOW, h, cv->to ? cv->to : cv->from, 0);
        return;
    }
    for (int64_t n = 0; n < modes; n++) row[modes + n] = -row[modes + n];
    cpu_interleave(modes, row, cv->c + h * cv->stride);
}

static s4_status convert(const conversion *cv)
{
    const s4_shape *shape = cv->shape;
    moves todo = choose_moves(cv);
    cpu_failure first = {.kind = CPU_FAILURE_NONE};
#pragma omp parallel num_threads(shape->threads)
    {
        cpu_lane lane = cpu_lane_view(shape, cv->matrices, omp_get_thread_num());
        cpu_failure mine = {.kind = CPU_FAILURE_NONE};
#pragma omp for schedule(static)
        for (int64_t h = 0; h < shape->d_model; h++) convert_channel(cv, &todo, &lane, h, &mine);
#pragma omp critical(cpu_failure)
        cpu_failure_merge(&first, &mine);
    }
    return cpu_failure_raise(shape, &first);
}

/* ---- entries -------------------------------------------------------------------------------------------------------
 */

s4_status cpu_convert_c(const s4_setup *setup, int64_t from, int64_t to, double *c)
{
    if (from == to) return S4_OK;
    const s4_shape *shape = setup->shape;
    int64_t state = 2 * shape->modes;
    conversion cv = {.shape = shape,
                     .system = &setup->system,
                     .matrices = setup->matrices,
                     .raw_dt = setup->system.dt,
                     .dt_transform = S4_TRANSFORM_NONE,
                     .rate = 1,
                     .from = from,
                     .to = to,
                     .c_from = c,
                     .c = c,
                     .stride = state};
    return convert(&cv);
}

s4_status cpu_read_c(const s4_shape *shape, const s4_system *system, const s4_raw *raw, double *matrices, int64_t to,
                     double *c, int64_t stride)
{
    int64_t state = 2 * shape->modes;
    if (raw->c_length == to && (to == 0 || shape->rate == 1)) { /* as it is stored: no lanes are needed */
        for (int64_t h = 0; h < shape->d_model; h++)
            memcpy(c + h * stride, raw->parameter[S4_PARAMETER_C] + h * state, (size_t)state * sizeof *c);
        return S4_OK;
    }
    conversion cv = {.shape = shape,
                     .system = system,
                     .matrices = matrices,
                     .raw_dt = raw->parameter[S4_PARAMETER_INV_DT],
                     .dt_transform = raw->dt_transform,
                     .rate = shape->rate,
                     .from = raw->c_length,
                     .to = to,
                     .c_from = raw->parameter[S4_PARAMETER_C],
                     .c = c,
                     .stride = stride};
    if (cv.from && raw->plain_c) {
        cv.c_from = raw->plain_c;
        cv.from = 0;
    }
    return convert(&cv);
}

s4_status cpu_read_out(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    s4_system system = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]);
    int64_t to = shape->direction == S4_DIRECTION_STEP ? 0 : shape->kernel_length;
    return cpu_read_c(shape, &system, task->raw, task->buffer[S4_BUFFER_SETUP_MATRICES], to, system.c,
                      2 * shape->modes);
}
