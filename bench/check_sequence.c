/*
 * Properties of set-up, kernel, convolution and recurrence:
 *   set-up        C~ of L by doubling from L/2 = C~ straight from C;  undo gives C back
 *   conv = step   sum_s K[t-s] u[s] + D u[t] = the recurrence
 *   chunk law     the second half, begun from the first half's state, gives the same y
 *   rate          K at rate 2 = K of the layer with twice the dt
 *   layout        (batch, time, channel) gives the bits of (batch, channel, time)
 *   lengths       a row of which only some samples count = those samples alone, and 0 beyond
 */
#include <math.h>
#include <string.h>

#include "check_property.h"
#include "difference.h"
#include "execution.h"
#include "memory.h"
#include "new_layer.h"
#include "problem.h"

/* ---- set-up -------------------------------------------------------------------------------------------------- */

static s4_status difference_of_c(s4_layer *left, s4_layer *right, double *value)
{
    s4_parameter_view a, b;
    RETURN_FAILURE(s4_layer_parameter(left, S4_PARAMETER_C, &a));
    RETURN_FAILURE(s4_layer_parameter(right, S4_PARAMETER_C, &b));
    *value = relative_difference(S4_F64, a.data, S4_F64, b.data, b.count);
    return S4_OK;
}

/* copy_layer leaves the kept plain C behind, so that the conversion itself is checked. */
static s4_status convert_copy(struct properties *p, s4_layer *from, int64_t length, s4_layer **to)
{
    *to = NULL;
    RETURN_FAILURE(copy_layer(from, to));
    return s4_layer_setup(p->checker->context, *to, length);
}

s4_status check_doubling(struct properties *p)
{
    double value = NAN;
    s4_layer *half = NULL, *doubled = NULL;
    s4_status status = convert_copy(p, p->plain, LENGTH / 2, &half);
    if (!status) status = convert_copy(p, half, LENGTH, &doubled);
    if (!status) status = difference_of_c(doubled, p->layer, &value);
    if (!status) check_value(p->checker, "C~ by doubling = C~ from C", value, 1e-12);
    s4_layer_destroy(doubled);
    s4_layer_destroy(half);
    return status;
}

s4_status check_undo(struct properties *p)
{
    double value = NAN;
    s4_layer *undone = NULL;
    s4_status status = convert_copy(p, p->layer, 0, &undone);
    if (!status) status = difference_of_c(undone, p->plain, &value);
    if (!status) check_value(p->checker, "undoing the set-up gives C", value, 1e-9);
    s4_layer_destroy(undone);
    return status;
}

/* ---- convolution and recurrence ------------------------------------------------------------------------------ */

static s4_status conv_step(struct properties *p, const char *name, s4_dtype dtype, s4_step_mode mode, double bound)
{
    s4_problem conv, step;
    struct tensors by_conv, by_step;
    set_problem(p, S4_DIRECTION_FORWARD, dtype, &conv);
    set_problem(p, S4_DIRECTION_STEP, dtype, &step);
    step.step_mode = mode;
    tensors_create(&conv, p->layer, 2, &by_conv);
    tensors_create(&step, p->layer, 2, &by_step);
    s4_status status = run_problem(p, &conv, p->layer, &by_conv);
    if (!status) status = run_problem(p, &step, p->plain, &by_step);
    if (!status)
        check_value(p->checker, name, relative_difference(dtype, by_step.y, dtype, by_conv.y, output_samples(p)),
                    bound);
    tensors_destroy(&by_conv);
    tensors_destroy(&by_step);
    return status;
}

s4_status check_step_linear(struct properties *p)
{
    return conv_step(p, "convolution = linear step, f64", S4_F64, S4_STEP_LINEAR, 1e-10);
}

s4_status check_step_dense(struct properties *p)
{
    return conv_step(p, "convolution = dense step, f64", S4_F64, S4_STEP_DENSE, 1e-10);
}

/* Refused where the eigenvectors of dA are too ill-conditioned. */
s4_status check_step_diagonal(struct properties *p)
{
    const char *name = "convolution = diagonal step, f64";
    s4_status status = conv_step(p, name, S4_F64, S4_STEP_DIAGONAL, 1e-8);
    if (status != S4_ERROR_SINGULAR) return status;
    check_skip(p->checker, name, s4_last_error());
    return S4_OK;
}

s4_status check_step_f32(struct properties *p)
{
    return conv_step(p, "convolution = linear step, f32", S4_F32, S4_STEP_LINEAR, 2e-4);
}

/* Samples [begin, begin + count) of every row of a (rows, LENGTH) array. */
static void cut(const double *whole, int64_t rows, int64_t begin, int64_t count, double *part)
{
    for (int64_t row = 0; row < rows; row++)
        memcpy(part + row * count, whole + row * LENGTH + begin, (size_t)count * sizeof *part);
}

static s4_status run_halves(struct properties *p, const struct execution *execution, const struct tensors *tensors,
                            double *value)
{
    const int64_t half = LENGTH / 2, count = SAMPLES / 2, outputs = output_samples(p) / 2;
    double *u = memory_zeroed(count, sizeof *u), *y = memory_zeroed(outputs, sizeof *y);
    double *expected = memory_zeroed(outputs, sizeof *expected);
    double *state = memory_zeroed(BATCH * D_MODEL * p->sizes.d_state, sizeof *state);
    s4_status status = S4_OK;
    *value = 0;
    for (int64_t begin = 0; begin < LENGTH && !status; begin += half) {
        s4_forward_io io;
        S4_INIT(&io);
        io.length = half;
        io.u = u;
        io.y = y;
        io.state_in = io.state_out = state;
        cut(tensors->u, count / half, begin, half, u);
        cut(tensors->y, outputs / half, begin, half, expected);
        status = s4_plan_forward(execution->plan, p->layer, execution->workspace, &io);
        *value = larger(*value, relative_difference(S4_F64, y, S4_F64, expected, outputs));
    }
    free(state);
    free(expected);
    free(y);
    free(u);
    return status;
}

s4_status check_chunks(struct properties *p)
{
    s4_problem problem;
    struct tensors tensors;
    struct execution execution;
    double value = NAN;
    set_problem(p, S4_DIRECTION_FORWARD, S4_F64, &problem);
    problem.states = 1;
    tensors_create(&problem, p->layer, 3, &tensors);
    s4_status status = execution_open(&execution, p->checker->context, &problem, p->layer);
    if (!status) status = compute_output(execution.plan, problem.direction, p->layer, execution.workspace, &tensors, 0);
    if (!status) status = run_halves(p, &execution, &tensors, &value);
    if (!status) check_value(p->checker, "two halves joined by the state = the whole", value, 1e-10);
    execution_close(&execution);
    tensors_destroy(&tensors);
    return status;
}

s4_status check_rate(struct properties *p)
{
    s4_problem problem;
    struct tensors fast, doubled;
    s4_layer *layer = NULL;
    s4_parameter_view inv_dt;
    set_problem(p, S4_DIRECTION_KERNEL, S4_F64, &problem);
    tensors_create(&problem, p->layer, 0, &fast);
    tensors_create(&problem, p->layer, 0, &doubled);
    s4_status status = copy_layer(p->plain, &layer);
    if (!status) status = s4_layer_parameter(layer, S4_PARAMETER_INV_DT, &inv_dt);
    for (int64_t h = 0; !status && h < inv_dt.count; h++) inv_dt.data[h] += log(2);
    if (!status) status = s4_layer_changed(layer, 1u << S4_PARAMETER_INV_DT);
    if (!status) status = run_problem(p, &problem, layer, &doubled);
    problem.rate = 2;
    if (!status) status = run_problem(p, &problem, p->layer, &fast);
    if (!status)
        check_value(p->checker, "kernel at rate 2 = kernel of twice the dt",
                    relative_difference(S4_F64, fast.y, S4_F64, doubled.y, kernels_of(&problem) * D_MODEL * LENGTH),
                    1e-10);
    s4_layer_destroy(layer);
    tensors_destroy(&doubled);
    tensors_destroy(&fast);
    return status;
}

/* ---- layouts and lengths ------------------------------------------------------------------------------------- */

/* (rows, channels, LENGTH) -> (rows, LENGTH, channels) */
static void transpose(const double *from, int64_t rows, int64_t channels, double *to)
{
    for (int64_t b = 0; b < rows; b++)
        for (int64_t h = 0; h < channels; h++)
            for (int64_t t = 0; t < LENGTH; t++)
                to[(b * LENGTH + t) * channels + h] = from[(b * channels + h) * LENGTH + t];
}

s4_status check_layout(struct properties *p)
{
    const int64_t outputs = output_samples(p);
    s4_problem problem;
    struct tensors right, turned;
    set_problem(p, S4_DIRECTION_FORWARD, S4_F64, &problem);
    tensors_create(&problem, p->layer, 9, &right);
    tensors_create(&problem, p->layer, 9, &turned);
    double *expected = memory_zeroed(outputs, sizeof *expected);
    s4_status status = run_problem(p, &problem, p->layer, &right);
    problem.layout = S4_LAYOUT_BLH;
    transpose(right.u, BATCH, D_MODEL, turned.u);
    transpose(right.y, BATCH, D_MODEL * p->sizes.channels, expected);
    if (!status) status = run_problem(p, &problem, p->layer, &turned);
    if (!status) {
        int64_t different = 0;
        for (int64_t i = 0; i < outputs; i++)
            different += memcmp((double *)turned.y + i, expected + i, sizeof *expected) != 0;
        check_value(p->checker, "same bits with time before channel", (double)different, 0);
    }
    free(expected);
    tensors_destroy(&turned);
    tensors_destroy(&right);
    return status;
}

s4_status check_lengths(struct properties *p)
{
    static const int64_t lengths[BATCH] = {LENGTH, 17, 0};
    const int64_t M = p->sizes.channels, row = D_MODEL * M * LENGTH;
    s4_problem problem;
    struct tensors tensors;
    struct execution execution;
    set_problem(p, S4_DIRECTION_FORWARD, S4_F64, &problem);
    tensors_create(&problem, p->layer, 10, &tensors);
    double *y = memory_zeroed(output_samples(p), sizeof *y), *alone = memory_zeroed(row, sizeof *alone);
    s4_status status = execution_open(&execution, p->checker->context, &problem, p->layer);
    s4_forward_io io;
    S4_INIT(&io);
    io.u = tensors.u;
    io.y = y;
    io.lengths = lengths;
    if (!status) status = s4_plan_forward(execution.plan, p->layer, execution.workspace, &io);
    io.batch = 1;
    io.y = alone;
    io.lengths = NULL;
    struct difference difference = {0, 0};
    for (int64_t b = 0; b < BATCH && !status; b++) {
        const double *u = (const double *)tensors.u + b * D_MODEL * LENGTH;
        io.length = lengths[b];
        io.u = u;
        io.u_strides[0] = D_MODEL * LENGTH;
        io.y_strides[0] = row;
        io.u_strides[1] = io.y_strides[1] = LENGTH;
        io.u_strides[2] = io.y_strides[2] = 1;
        memset(alone, 0, (size_t)row * sizeof *alone);
        if (lengths[b]) status = s4_plan_forward(execution.plan, p->layer, execution.workspace, &io);
        difference_add(&difference, S4_F64, y + b * row, S4_F64, alone, row);
    }
    if (!status) check_value(p->checker, "a row cut short = the row alone", difference_relative(&difference), 1e-12);
    execution_close(&execution);
    free(alone);
    free(y);
    tensors_destroy(&tensors);
    return status;
}
