/*
 * Checks against stored answers: every pair NAME.in.safetensors (a layer with plain C, and u) and NAME.out.safetensors
 * (dA, dB, dA_L, C_tilde, K, K_rate_2, y, G, grad.*, state.*) of a folder, in double. G is the weight in the loss
 * sum y * G; the gradients are those of the stored leaf, for a dplr layer C~ of length l_max, held fixed. K_rate_2 is
 * the kernel of half the length at twice the step, for a dplr layer that of the published code, which keeps the C~ of
 * rate 1.
 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "check.h"
#include "difference.h"
#include "execution.h"
#include "exit_code.h"
#include "memory.h"
#include "new_layer.h"
#include "problem.h"
#include "progress.h"

/* Bounds relative to the largest value of a tensor. */
static const double forward_bound = 1e-12, forward_bound_hard = 1e-11;  /* hard: fourier, hippo, rank >= 2 */
static const double gradient_bound = 1e-10, gradient_bound_hard = 1e-8; /* hard: fourier, hippo */
/* A gradient under this share of the case's largest is rounding (length 1: that of inv_dt is 0): its error must be
 * under that share too. */
static const double gradient_floor = 1e-9;

struct golden {
    struct checker *checker;
    s4_tensors *in, *out;
    s4_layer *plain, *layer; /* with C, with C~ of l_max */
    s4_layer_options sizes;
    s4_array *u;
    int64_t l_max, batch, length;
    double forward_bound, gradient_bound;
};

/* ---- one tensor ---------------------------------------------------------------------------------------------- */

/* The stored tensor, f64, if it has `count` elements; NULL after a line that says why not. */
static s4_array *expected(struct golden *g, const char *tensor, const char *name, int64_t count)
{
    s4_array *array = NULL;
    if (!s4_tensors_has(g->out, tensor)) {
        check_skip(g->checker, name, "not in the file");
        return NULL;
    }
    s4_status status = s4_tensors_read(g->out, tensor, &array);
    if (!status) status = s4_array_convert(array, S4_F64);
    if (status) {
        check_status(g->checker, name, status);
    } else if (array->count == count) {
        return array;
    } else {
        check_fail(g->checker, name, "the stored tensor has another number of elements");
    }
    s4_array_destroy(array);
    return NULL;
}

static void compare(struct golden *g, const char *tensor, const char *name, const double *values, int64_t count)
{
    s4_array *array = expected(g, tensor, name, count);
    if (!array) return;
    struct difference difference = {0, 0};
    difference_add(&difference, S4_F64, values, S4_F64, array->data, count);
    check_value(g->checker, name, difference_relative(&difference), g->forward_bound);
    s4_array_destroy(array);
}

/* ---- set-up, on the host ------------------------------------------------------------------------------------- */

static s4_status check_discrete(struct golden *g)
{
    const int dplr = g->sizes.mode == S4_MODE_DPLR; /* closed vector and matrices; diagonal: (H,n) all three */
    const int64_t vector = g->sizes.d_model * g->sizes.d_state * (dplr ? 2 : 1);
    const int64_t matrix = dplr ? vector * g->sizes.d_state : vector;
    double *dA = memory_zeroed(matrix, sizeof *dA), *dA_L = memory_zeroed(matrix, sizeof *dA_L);
    double *dB = memory_zeroed(vector, sizeof *dB);
    s4_status status = s4_layer_discrete(g->checker->context, g->plain, 1, dA, dB, g->l_max, dA_L);
    if (!status) {
        compare(g, "dA", "dA", dA, matrix);
        compare(g, "dB", "dB", dB, vector);
        if (dplr) compare(g, "dA_L", "dA_L", dA_L, matrix);
    }
    free(dB);
    free(dA_L);
    free(dA);
    return status;
}

static s4_status check_c_tilde(struct golden *g)
{
    s4_parameter_view c;
    s4_status status = s4_layer_parameter(g->layer, S4_PARAMETER_C, &c);
    if (!status) compare(g, "C_tilde", "C~", c.data, c.count);
    return status;
}

/* ---- outputs ------------------------------------------------------------------------------------------------- */

static void set_problem(const struct golden *g, s4_direction direction, s4_problem *problem)
{
    S4_INIT(problem);
    problem->direction = direction;
    problem->dtype = S4_F64;
    problem->mode = g->sizes.mode;
    problem->batch = g->batch;
    problem->length = g->length;
    problem->kernel_length = direction == S4_DIRECTION_STEP ? 0 : g->l_max;
    problem->d_model = g->sizes.d_model;
    problem->d_state = g->sizes.d_state;
    problem->rank = g->sizes.rank;
    problem->n_ssm = g->sizes.n_ssm;
    problem->channels = g->sizes.channels;
    problem->bidirectional = g->sizes.bidirectional;
    problem->dt_untied = g->sizes.dt_untied;
    problem->discretisation = g->sizes.discretisation;
    problem->placement = g->checker->placement;
    problem->algorithm = S4_ALGORITHM_FFT;
}

/* Whether outputs of this case can be made in chunks: see s4/plan.h. */
static int goes_in_chunks(const struct golden *g)
{
    return !g->sizes.bidirectional && g->sizes.discretisation != S4_DSS && g->length <= g->l_max;
}

static int64_t output_count(const struct golden *g)
{
    return g->batch * g->sizes.channels * g->sizes.d_model * g->length;
}

static s4_status check_kernel_of(struct golden *g, const char *tensor, const s4_problem *problem)
{
    struct execution execution;
    const int64_t count = kernels_of(problem) * g->sizes.d_model * problem->kernel_length;
    double *kernel = memory_zeroed(count, sizeof *kernel);
    s4_status status = execution_open(&execution, g->checker->context, problem, g->layer);
    if (!status) status = s4_plan_kernel(execution.plan, g->layer, execution.workspace, kernel);
    if (!status) compare(g, tensor, tensor, kernel, count);
    execution_close(&execution);
    free(kernel);
    return status;
}

static s4_status check_kernel(struct golden *g)
{
    s4_problem problem;
    set_problem(g, S4_DIRECTION_KERNEL, &problem);
    return check_kernel_of(g, "K", &problem);
}

static s4_status check_kernel_at_rate_2(struct golden *g)
{
    if (!s4_tensors_has(g->out, "K_rate_2")) return S4_OK; /* few cases have it */
    s4_problem problem;
    set_problem(g, S4_DIRECTION_KERNEL, &problem);
    problem.rate = 2;
    problem.rate_parity = g->sizes.mode == S4_MODE_DPLR;
    problem.length = problem.kernel_length = (g->l_max + 1) / 2;
    return check_kernel_of(g, "K_rate_2", &problem);
}

static s4_status convolve(struct golden *g, s4_algorithm algorithm, const char *name)
{
    s4_problem problem;
    struct execution execution;
    set_problem(g, S4_DIRECTION_FORWARD, &problem);
    problem.algorithm = algorithm;
    double *y = memory_zeroed(output_count(g), sizeof *y);
    s4_forward_io io;
    S4_INIT(&io);
    io.u = g->u->data;
    io.y = y;
    s4_status status = execution_open(&execution, g->checker->context, &problem, g->layer);
    if (!status) status = s4_plan_forward(execution.plan, g->layer, execution.workspace, &io);
    if (!status) compare(g, "y", name, y, output_count(g));
    execution_close(&execution);
    free(y);
    return status;
}

static s4_status check_convolution(struct golden *g)
{
    s4_status status = convolve(g, S4_ALGORITHM_FFT, "y by convolution");
    if (!status && goes_in_chunks(g)) status = convolve(g, S4_ALGORITHM_CHUNKED, "y in chunks");
    return status;
}

/* y and the final state from the stored first state, by convolution (step_mode < 0) or by recurrence. */
static s4_status from_state(struct golden *g, int step_mode, s4_algorithm algorithm, const char *name_of_y, const char *name_of_state)
{
    const int64_t count = g->batch * g->sizes.d_model * g->sizes.d_state;
    s4_array *state = expected(g, "state.in", name_of_state, count);
    if (!state) return S4_OK;
    double *y = memory_zeroed(output_count(g), sizeof *y);
    s4_problem problem;
    struct execution execution;
    s4_forward_io forward;
    S4_INIT(&forward);
    forward.u = g->u->data;
    forward.y = y;
    forward.state_in = forward.state_out = state->data;
    s4_step_io step;
    S4_INIT(&step);
    step.u = g->u->data;
    step.y = y;
    step.state = state->data;

    set_problem(g, step_mode < 0 ? S4_DIRECTION_FORWARD : S4_DIRECTION_STEP, &problem);
    if (step_mode < 0)
        problem.states = 1;
    else
        problem.step_mode = (s4_step_mode)step_mode;
    problem.algorithm = algorithm;
    s4_layer *layer = step_mode < 0 ? g->layer : g->plain;
    s4_status status = execution_open(&execution, g->checker->context, &problem, layer);
    if (!status)
        status = step_mode < 0 ? s4_plan_forward(execution.plan, layer, execution.workspace, &forward)
                               : s4_plan_step(execution.plan, layer, execution.workspace, &step);
    if (!status) {
        compare(g, "state.y", name_of_y, y, output_count(g));
        compare(g, "state.out", name_of_state, state->data, count);
    }
    execution_close(&execution);
    free(y);
    s4_array_destroy(state);
    return status;
}

static s4_status check_state(struct golden *g)
{
    s4_status status = from_state(g, -1, S4_ALGORITHM_FFT, "state.y by convolution", "state.out by convolution");
    if (status || !goes_in_chunks(g)) return status;
    return from_state(g, -1, S4_ALGORITHM_CHUNKED, "state.y in chunks", "state.out in chunks");
}

static s4_status check_step_linear(struct golden *g)
{
    return from_state(g, S4_STEP_LINEAR, S4_ALGORITHM_FFT, "state.y by linear step", "state.out by linear step");
}

static s4_status check_step_dense(struct golden *g)
{
    return from_state(g, S4_STEP_DENSE, S4_ALGORITHM_FFT, "state.y by dense step", "state.out by dense step");
}

/* ---- gradients ----------------------------------------------------------------------------------------------- */

/* Largest value of all stored gradients. */
static double largest_gradient(struct golden *g)
{
    struct difference difference = {0, 0};
    for (int64_t i = 0; i < s4_tensors_count(g->out); i++) {
        const char *name = s4_tensors_name(g->out, i);
        s4_array *array = NULL;
        if (strncmp(name, "grad.", 5) != 0) continue;
        if (!s4_tensors_read(g->out, name, &array) && !s4_array_convert(array, S4_F64))
            difference_add(&difference, S4_F64, array->data, S4_F64, array->data, array->count);
        s4_array_destroy(array);
    }
    return difference.scale;
}

static void compare_gradient(struct golden *g, const char *name, const double *values, int64_t count, double largest)
{
    s4_array *array = expected(g, name, name, count);
    if (!array) return;
    struct difference difference = {0, 0};
    difference_add(&difference, S4_F64, values, S4_F64, array->data, count);
    if (difference.scale < gradient_floor * largest)
        check_value(g->checker, name, difference.error / largest, gradient_floor);
    else
        check_value(g->checker, name, difference_relative(&difference), g->gradient_bound);
    s4_array_destroy(array);
}

static s4_status compute_all(struct golden *g, const double *dy, const s4_backward_io *target)
{
    s4_problem problem;
    struct execution execution;
    set_problem(g, S4_DIRECTION_TRAINING, &problem);
    s4_backward_io io = *target;
    io.u = g->u->data;
    io.dy = dy;
    s4_status status = execution_open(&execution, g->checker->context, &problem, g->layer);
    if (!status) status = s4_plan_backward(execution.plan, g->layer, execution.workspace, &io);
    execution_close(&execution);
    return status;
}

static s4_status check_gradients(struct golden *g)
{
    s4_array *weight = expected(g, "G", "gradients", output_count(g));
    if (!weight) return S4_OK;
    s4_parameter_view view[S4_PARAMETER_COUNT];
    s4_backward_io io;
    S4_INIT(&io);
    io.du = memory_zeroed(g->u->count, sizeof(double));
    s4_status status = S4_OK;
    for (int p = 0; p < S4_PARAMETER_COUNT && !status; p++) {
        status = s4_layer_parameter(g->layer, (s4_parameter)p, &view[p]);
        if (!status && view[p].count) io.gradients.parameter[p] = memory_zeroed(view[p].count, sizeof(double));
    }
    if (!status) status = compute_all(g, weight->data, &io);
    double largest = largest_gradient(g);
    if (!status) compare_gradient(g, "grad.u", io.du, g->u->count, largest);
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        char tensor[96];
        if (!status && view[p].count) {
            snprintf(tensor, sizeof tensor, "grad.layer.%s", view[p].name);
            compare_gradient(g, tensor, io.gradients.parameter[p], view[p].count, largest);
        }
        free(io.gradients.parameter[p]);
    }
    free(io.du);
    s4_array_destroy(weight);
    return status;
}

/* ---- one case ------------------------------------------------------------------------------------------------ */

static const char *metadata(const struct golden *g, const char *key)
{
    const char *value = s4_tensors_metadata(g->in, key);
    return value ? value : "";
}

static void choose_bounds(struct golden *g)
{
    const char *init = metadata(g, "init");
    int hard = strcmp(init, "fourier") == 0 || strcmp(init, "fout") == 0 || strcmp(init, "hippo") == 0;
    g->forward_bound = hard || g->sizes.rank >= 2 ? forward_bound_hard : forward_bound;
    g->gradient_bound = hard ? gradient_bound_hard : gradient_bound;
}

static s4_status open_case(struct golden *g, const char *in, const char *out)
{
    S4_INIT(&g->sizes);
    s4_status status = s4_layer_load(in, NULL, NULL, &g->plain);
    if (!status) status = s4_layer_describe(g->plain, &g->sizes);
    if (!status) status = s4_tensors_open(in, &g->in);
    if (!status) status = s4_tensors_open(out, &g->out);
    if (!status) status = s4_tensors_read(g->in, "u", &g->u);
    if (!status) status = s4_array_convert(g->u, S4_F64);
    if (!status) status = copy_layer(g->plain, &g->layer);
    if (status) return status;
    choose_bounds(g);
    g->l_max = strtoll(metadata(g, "l_max"), NULL, 10);
    return g->sizes.mode == S4_MODE_DPLR ? s4_layer_setup(g->checker->context, g->layer, g->l_max) : S4_OK;
}

/* What a layer must have. */
enum { SET_UP = 1, RECURRENCE = 2, SYSTEM = 4 };

static unsigned abilities(const s4_layer_options *sizes)
{
    unsigned has = 0;
    if (sizes->mode == S4_MODE_DPLR) has |= SET_UP;
    if (sizes->discretisation != S4_DSS) has |= SYSTEM;
    if (sizes->discretisation != S4_DSS && !sizes->bidirectional) has |= RECURRENCE;
    return has;
}

static const struct {
    const char *name; /* for a check that could not be made */
    s4_status (*check)(struct golden *g);
    unsigned needs;
    int host; /* always on the host: once is enough */
} checks[] = {
    {"dA, dB, dA_L", check_discrete, SYSTEM, 1},
    {"C~", check_c_tilde, SET_UP, 1},
    {"K", check_kernel, 0, 0},
    {"K_rate_2", check_kernel_at_rate_2, 0, 0},
    {"y by convolution", check_convolution, 0, 0},
    {"states by convolution", check_state, RECURRENCE, 0},
    {"linear step", check_step_linear, RECURRENCE, 0},
    {"dense step", check_step_dense, RECURRENCE | SET_UP, 0},
    {"gradients", check_gradients, 0, 0},
};

/* Places need not have every kind of layer. */
static s4_status try_place(const struct golden *g)
{
    s4_problem problem;
    struct execution execution;
    set_problem(g, S4_DIRECTION_FORWARD, &problem);
    s4_status status = execution_open(&execution, g->checker->context, &problem, g->layer);
    execution_close(&execution);
    return status;
}

static void run_checks(struct golden *g)
{
    s4_status here = try_place(g);
    if (here) check_status(g->checker, "this kind of layer", here);
    for (size_t i = 0; i < sizeof checks / sizeof *checks && !progress_cancelled(); i++) {
        if (checks[i].host ? !g->checker->first_place : here) continue;
        if (checks[i].needs & ~abilities(&g->sizes)) continue;
        s4_status status = checks[i].check(g);
        if (status) check_status(g->checker, checks[i].name, status);
    }
}

static void check_case(struct checker *checker, const char *in, const char *out)
{
    struct golden g = {.checker = checker};
    s4_status status = open_case(&g, in, out);
    if (status) {
        check_status(checker, "layer and set-up", status);
    } else if (g.u->rank != 3 || g.u->shape[1] != g.sizes.d_model) {
        check_fail(checker, "u", "has not the shape (batch, d_model, length)");
    } else {
        g.batch = g.u->shape[0];
        g.length = g.u->shape[2];
        run_checks(&g);
    }
    s4_array_destroy(g.u);
    s4_layer_destroy(g.layer);
    s4_layer_destroy(g.plain);
    s4_tensors_close(g.out);
    s4_tensors_close(g.in);
}

/* ---- the folder ---------------------------------------------------------------------------------------------- */

static const char in_suffix[] = ".in.safetensors", out_suffix[] = ".out.safetensors";

static int is_case(const struct dirent *entry) { return ends_with(entry->d_name, in_suffix); }

int check_golden(const struct options *options, struct checker *checker)
{
    struct dirent **entries = NULL;
    int count = scandir(options->golden, &entries, is_case, alphasort);
    if (count < 0) return fail_input(options->verb, "--golden %s: %s", options->golden, strerror(errno));
    for (int i = 0; i < count; i++) {
        int64_t size = (int64_t)(strlen(options->golden) + strlen(entries[i]->d_name) + sizeof out_suffix + 1);
        char *name = memory_zeroed(size, 1), *in = memory_zeroed(size, 1), *out = memory_zeroed(size, 1);
        snprintf(name, (size_t)size, "%s", entries[i]->d_name);
        name[strlen(name) - strlen(in_suffix)] = 0;
        snprintf(in, (size_t)size, "%s/%s%s", options->golden, name, in_suffix);
        snprintf(out, (size_t)size, "%s/%s%s", options->golden, name, out_suffix);
        checker->subject = name;
        if (!progress_cancelled()) check_case(checker, in, out);
        free(out);
        free(in);
        free(name);
        free(entries[i]);
    }
    free(entries);
    return CODE_FINE;
}
