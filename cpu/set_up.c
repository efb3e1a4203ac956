/*
 * The read-out C and its set-up form C~, which belongs to a length L and a step dt:
 *   C~_L = C (I - dA^L);   C~_2L = C~_L (I + dA^L);   back: solve C (I - dA^L) = C~_L.
 *
 * A conversion from one length to another is up to three moves: undo, double, set up. Doubling is taken where the new
 * length is the old one times a power of two at the same step; it needs no solve. All is done on rows of the real
 * basis [Re C, -Im C], in which y = C x is a product of reals, by dense powers of dA, channel by channel in parallel;
 * one power of a channel serves the rows of all its kernels.
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
#include "cpu/structured_power.h"

/* ---- lanes and failures ---------------------------------------------------------------------------------------- */

/* While dA is built, a lane holds two matrices or a structured power, a cpu_linear and, last, one row; tightest for N = 2. */
_Static_assert(2 + CPU_LANE_ROWS >= 2 + 2 * S4_RANK_MAX + 1, "a lane holds the build of dA");
_Static_assert(sizeof(lapack_int) <= sizeof(double), "integers of LAPACK fit rows of doubles");

cpu_lane cpu_lane_view(const s4_shape *shape, double *matrices, int thread)
{
    int64_t state = 2 * shape->modes, square = state * state;
    double *base = matrices + thread * s4_setup_lane(shape->modes);
    cpu_lane lane;
    lane.matrix[0] = base;
    lane.matrix[1] = base + square;
    lane.matrix[2] = base + s4_setup_front(shape->modes);
    lane.linear = lane.matrix[2];
    lane.rows = lane.matrix[2] + square;
    lane.row = lane.rows + (CPU_LANE_ROWS - 1) * state;
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
        if (shape->discretisation == S4_ZOH)
            return cpu_host->fail(S4_ERROR_NOT_FINITE, "channel %" PRId64 ": exp(dt Lambda) overflows at dt = %g",
                                  first->channel, first->value);
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
    case CPU_FAILURE_CONDITION:
        return cpu_host->fail(S4_ERROR_UNSUPPORTED,
                              "channel %" PRId64 ": step mode diagonal: the eigenvectors of dA have condition number "
                              "%.3g, must be at most %g: use step mode linear or dense",
                              first->channel, first->value, CPU_STEP_CONDITION_MAX);
    case CPU_FAILURE_LIBRARY:
        break;
    }
    return cpu_host->fail(S4_ERROR_LIBRARY, "channel %" PRId64 ": LAPACK returned info = %g", first->channel,
                          first->value);
}

/* ---- one channel ------------------------------------------------------------------------------------------------- */

typedef struct conversion {
    const s4_device *device;
    const s4_shape *shape;
    const s4_system *system; /* lambda, b, p, dt */
    double *matrices;
    double scale_from, scale_to; /* times the system's dt: the steps that `from` and `to` belong to */
    int64_t from, to;
    cpu_read_out_rows rows; /* in place */
} conversion;

static double *row_of(const conversion *cv, int64_t kernel, int64_t h)
{
    return cv->rows.c + kernel * cv->rows.kernel + h * cv->rows.channel;
}

/* Undo length `undo` (0 = not), double `doublings` times from length `from`, set up for length `set_up` (0 = not). */
typedef struct moves {
    int64_t undo, set_up;
    int doublings;
} moves;

static moves choose_moves(const conversion *cv)
{
    if (cv->from && cv->to && cv->scale_from == cv->scale_to) {
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

/* dA^length at step scale * dt. */
static int raise_channel(const conversion *cv, cpu_power *power, int64_t h, double scale, int64_t length,
                         cpu_failure *failure)
{
    if (!cpu_power_raise(power, cv->system, h, scale, length))
        return fail_channel(failure, CPU_FAILURE_STEP, h, length, scale * cpu_dt(cv->shape, cv->system, h, 0));
    return cpu_power_is_finite(power) || fail_channel(failure, CPU_FAILURE_OVERFLOW, h, length, 0);
}

/* row <- row + sign * row dA^length, for the rows of all kernels */
static void add_products(const conversion *cv, cpu_power *power, int64_t h, double sign)
{
    int64_t state = 2 * cv->shape->modes;
    double *product = power->lane->row;
    for (int64_t kernel = 0; kernel < cv->shape->kernels; kernel++) {
        double *row = row_of(cv, kernel, h);
        cpu_power_row(power, row, product);
        for (int64_t m = 0; m < state; m++) row[m] += sign * product[m];
    }
}

int cpu_undo_factor(const s4_shape *shape, int64_t h, int64_t length, const cpu_lane *lane, double *power,
                    cpu_failure *failure)
{
    int64_t state = 2 * shape->modes;
    if (cpu_first_not_finite(state * state, power) >= 0)
        return fail_channel(failure, CPU_FAILURE_OVERFLOW, h, length, 0);
    lapack_int size = (lapack_int)state;
    double *work = lane->rows; /* (4,N) */
    lapack_int *pivots = (lapack_int *)(lane->rows + 4 * state);
    lapack_int *integer_work = (lapack_int *)(lane->rows + 5 * state);

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
    if (info < 0) return fail_channel(failure, CPU_FAILURE_LIBRARY, h, length, info);
    double condition = 0; /* info > 0: a pivot is exactly 0 */
    if (info == 0) {
        info = LAPACKE_dgecon_work(LAPACK_COL_MAJOR, '1', size, power, size, norm, &condition, work, integer_work);
        if (info) return fail_channel(failure, CPU_FAILURE_LIBRARY, h, length, info);
    }
    if (!(condition >= least_condition(shape))) return fail_channel(failure, CPU_FAILURE_UNDO, h, length, condition);
    return 1;
}

int cpu_undo_solve(const s4_shape *shape, int64_t h, int64_t length, const cpu_lane *lane, const double *factors,
                   int transposed, double *row, cpu_failure *failure)
{
    lapack_int size = (lapack_int)(2 * shape->modes);
    const lapack_int *pivots = (const lapack_int *)(lane->rows + 4 * size);
    lapack_int info =
        LAPACKE_dgetrs_work(LAPACK_COL_MAJOR, transposed ? 'T' : 'N', size, 1, factors, size, pivots, row, size);
    return !info || fail_channel(failure, CPU_FAILURE_LIBRARY, h, length, info);
}

static int undo_rows(const conversion *cv, cpu_power *power, int64_t h, int64_t length, cpu_failure *failure)
{
    if (!raise_channel(cv, power, h, cv->scale_from, length, failure)) return 0;
    double *factors = cpu_power_matrix(power);
    if (!cpu_undo_factor(cv->shape, h, length, power->lane, factors, failure)) return 0;
    for (int64_t kernel = 0; kernel < cv->shape->kernels; kernel++)
        if (!cpu_undo_solve(cv->shape, h, length, power->lane, factors, 0, row_of(cv, kernel, h), failure)) return 0;
    return 1;
}

static int double_rows(const conversion *cv, cpu_power *power, int64_t h, int doublings, cpu_failure *failure)
{
    if (!raise_channel(cv, power, h, cv->scale_from, cv->from, failure)) return 0;
    for (int i = 0; i < doublings; i++) {
        if (i > 0) cpu_power_double(power);
        add_products(cv, power, h, 1);
    }
    return 1;
}

static int set_up_rows(const conversion *cv, cpu_power *power, int64_t h, int64_t length, cpu_failure *failure)
{
    if (!raise_channel(cv, power, h, cv->scale_to, length, failure)) return 0;
    add_products(cv, power, h, -1);
    return 1;
}

static void convert_channel(const conversion *cv, const moves *todo, cpu_power *power, int64_t h, cpu_failure *failure)
{
    const cpu_lane *lane = power->lane;
    int64_t modes = cv->shape->modes, state = 2 * modes;
    for (int64_t kernel = 0; kernel < cv->shape->kernels; kernel++) {
        double *row = row_of(cv, kernel, h);
        cpu_split(modes, row, lane->row);
        for (int64_t n = 0; n < modes; n++) lane->row[modes + n] = -lane->row[modes + n];
        memcpy(row, lane->row, (size_t)state * sizeof *row);
    }
    if (todo->undo && !undo_rows(cv, power, h, todo->undo, failure)) return;
    if (todo->doublings && !double_rows(cv, power, h, todo->doublings, failure)) return;
    if (todo->set_up && !set_up_rows(cv, power, h, todo->set_up, failure)) return;
    for (int64_t kernel = 0; kernel < cv->shape->kernels; kernel++) {
        double *row = row_of(cv, kernel, h);
        if (cpu_first_not_finite(state, row) >= 0) {
            fail_channel(failure, CPU_FAILURE_OVERFLOW, h, cv->to ? cv->to : cv->from, 0);
            return;
        }
        memcpy(lane->row, row, (size_t)state * sizeof *row);
        for (int64_t n = 0; n < modes; n++) lane->row[modes + n] = -lane->row[modes + n];
        cpu_interleave(modes, lane->row, row);
    }
}

static s4_status convert(const conversion *cv)
{
    const s4_shape *shape = cv->shape;
    moves todo = choose_moves(cv);
    cpu_failure first = {.kind = CPU_FAILURE_NONE};
#pragma omp parallel num_threads(cpu_lanes(shape->threads))
    {
        cpu_lane lane = cpu_lane_view(shape, cv->matrices, omp_get_thread_num());
        cpu_power power = cpu_power_view(cv->device, shape, &lane);
        cpu_failure mine = {.kind = CPU_FAILURE_NONE};
#pragma omp for schedule(static)
        for (int64_t h = 0; h < shape->d_model; h++) convert_channel(cv, &todo, &power, h, &mine);
#pragma omp critical(cpu_failure)
        cpu_failure_merge(&first, &mine);
    }
    return cpu_failure_raise(shape, &first);
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static cpu_read_out_rows dense_rows(const s4_shape *shape, double *c)
{
    int64_t state = 2 * shape->modes;
    return (cpu_read_out_rows){.c = c, .kernel = shape->d_model * state, .channel = state};
}

s4_status cpu_convert_c(const s4_setup *setup, int64_t from, int64_t to, double *c)
{
    if (from == to) return S4_OK;
    conversion cv = {.device = setup->device,
                     .shape = setup->shape,
                     .system = &setup->system,
                     .matrices = setup->matrices,
                     .scale_from = 1,
                     .scale_to = 1,
                     .from = from,
                     .to = to,
                     .rows = dense_rows(setup->shape, c)};
    return convert(&cv);
}

s4_status cpu_read_c(const s4_device *device, const s4_shape *shape, const s4_system *system, const s4_raw *raw,
                     double *matrices, int64_t to, const cpu_read_out_rows *rows)
{
    int as_stored = raw->c_length == to && (to == 0 || shape->rate == 1);
    int from_plain = raw->c_length == 0 || (raw->plain_c && !as_stored);
    conversion cv = {.device = device,
                     .shape = shape,
                     .system = system,
                     .matrices = matrices,
                     .scale_from = 1 / shape->rate,
                     .scale_to = 1,
                     .from = from_plain ? 0 : raw->c_length,
                     .to = to,
                     .rows = *rows};
    const double *c = from_plain && raw->c_length ? raw->plain_c : raw->parameter[S4_PARAMETER_C];
    for (int64_t kernel = 0; kernel < shape->kernels; kernel++)
        for (int64_t h = 0; h < shape->d_model; h++) {
            double *row = row_of(&cv, kernel, h);
            for (int64_t n = 0; n < shape->modes; n++, c += 2) {
                int limited = cpu_is_bandlimited(shape, raw, system->lambda, h, n);
                row[2 * n] = limited ? 0 : c[0];
                row[2 * n + 1] = limited ? 0 : c[1];
            }
        }
    return as_stored || (!cv.from && !to) ? S4_OK : convert(&cv);
}

s4_status cpu_read_out(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    s4_system system = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]);
    cpu_read_out_rows rows = dense_rows(shape, system.c);
    int64_t to = shape->direction == S4_DIRECTION_STEP || shape->chunk ? 0 : shape->kernel_length;
    return cpu_read_c(task->device, shape, &system, task->raw, task->buffer[S4_BUFFER_SETUP_MATRICES], to, &rows);
}
