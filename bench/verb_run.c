/*
 * s4 run: a layer over a sequence, by convolution or by recurrence.
 *
 *   convolution  y[t] = sum_{s<=t} K[t-s] u[s] + D u[t] (+ response to the state before)
 *   recurrence   x' = dA x + dB u, y = 2 Re(C x') + D u
 */
#include <string.h>

#include "difference.h"
#include "execution.h"
#include "exit_code.h"
#include "memory.h"
#include "output.h"
#include "problem.h"
#include "progress.h"
#include "signal.h"
#include "verbs.h"

struct run {
    const struct options *options;
    s4_context *context;
    s4_layer *layer;
    s4_layer_options sizes;
    struct signal u;
    s4_array *state_in;  /* (B,H,n,2), NULL for 0 */
    s4_array *state_out; /* (B,H,n,2), of the way that --mode names; NULL if not wanted */
    s4_array *y;         /* shaped like u, (H,T) for u (T) */
};

static s4_status convolve(const struct run *run, void *y, double *state_out)
{
    s4_problem problem;
    problem_of_layer(run->options, run->layer, S4_DIRECTION_FORWARD, &problem);
    problem.batch = run->u.batch;
    problem.length = run->u.length;
    problem.states = run->state_in || state_out;

    struct execution execution;
    s4_status status = execution_open(&execution, run->context, &problem, run->layer);
    s4_forward_io io;
    S4_INIT(&io);
    io.u = run->u.array->data;
    io.y = y;
    io.state_in = run->state_in ? run->state_in->data : NULL;
    io.state_out = state_out;
    if (!status) status = s4_plan_forward(execution.plan, run->layer, execution.workspace, &io);
    execution_close(&execution);
    return status;
}

/* Samples [begin, begin + count) of every row, between an array of rows of `length` and one of rows of `count`. */
static void copy_samples(char *chunk, char *whole, int into_chunk, int64_t rows, int64_t length, int64_t begin,
                         int64_t count, size_t size)
{
    for (int64_t row = 0; row < rows; row++) {
        char *part = whole + (size_t)(row * length + begin) * size;
        char *piece = chunk + (size_t)(row * count) * size;
        memcpy(into_chunk ? piece : part, into_chunk ? part : piece, (size_t)count * size);
    }
}

static s4_status recur(const struct run *run, void *y, double *state)
{
    const struct options *options = run->options;
    const int64_t length = run->u.length, rows = run->u.batch * run->sizes.d_model;
    const size_t size = s4_dtype_size(options->dtype);
    s4_problem problem;
    problem_of_layer(options, run->layer, S4_DIRECTION_STEP, &problem);
    problem.batch = run->u.batch;
    problem.length = options->chunk < length ? options->chunk : length;
    problem.kernel_length = 0; /* a recurrence has no end */

    struct execution execution;
    s4_status status = execution_open(&execution, run->context, &problem, run->layer);
    char *chunk = memory_zeroed(rows * problem.length, size);
    for (int64_t begin = 0; begin < length && !status; begin += problem.length) {
        s4_step_io io;
        S4_INIT(&io);
        io.length = length - begin < problem.length ? length - begin : problem.length;
        io.u = chunk;
        io.y = chunk;
        io.state = state;
        copy_samples(chunk, run->u.array->data, 1, rows, length, begin, io.length, size);
        status = s4_plan_step(execution.plan, run->layer, execution.workspace, &io);
        copy_samples(chunk, y, 0, rows, length, begin, io.length, size);
        progress_report((void *)options->verb, "samples", begin + io.length, length);
    }
    free(chunk);
    execution_close(&execution);
    return status;
}

/* By the way that `mode` names; state_out may be NULL. */
static s4_status run_by(const struct run *run, enum run_mode mode, void *y, double *state_out)
{
    if (mode == RUN_CONV) return convolve(run, y, state_out);
    const int64_t count = run->u.batch * run->sizes.d_model * run->sizes.d_state;
    double *state = memory_zeroed(count, sizeof *state);
    if (run->state_in) memcpy(state, run->state_in->data, (size_t)count * sizeof *state);
    s4_status status = recur(run, y, state);
    if (state_out) memcpy(state_out, state, (size_t)count * sizeof *state);
    free(state);
    return status;
}

static s4_status compute(struct run *run, struct difference *difference)
{
    const struct options *options = run->options;
    const int64_t state_shape[4] = {run->u.batch, run->sizes.d_model, run->sizes.d_state / 2, 2};
    s4_status status = s4_array_create(options->dtype, run->u.array->rank, run->u.array->shape, &run->y);
    if (!status && options->state_out) status = s4_array_create(S4_F64, 4, state_shape, &run->state_out);
    if (!status) status = run_by(run, options->run_mode, run->y->data, run->state_out ? run->state_out->data : NULL);
    if (!status && options->compare) {
        void *other = memory_zeroed(run->y->count, s4_dtype_size(options->dtype));
        status = run_by(run, options->run_mode == RUN_CONV ? RUN_STEP : RUN_CONV, other, NULL);
        if (!status) difference_add(difference, options->dtype, other, options->dtype, run->y->data, run->y->count);
        free(other);
    }
    if (!status && options->output) status = s4_array_write_npy(options->output, run->y);
    if (!status && options->state_out) status = s4_array_write_npy(options->state_out, run->state_out);
    return status;
}

static int print_json(const struct run *run, const struct difference *difference)
{
    const struct options *options = run->options;
    cJSON *root = cJSON_CreateObject();
    if (options->output) cJSON_AddStringToObject(root, "output", options->output);
    if (options->state_out) cJSON_AddStringToObject(root, "state_out", options->state_out);
    cJSON_AddStringToObject(root, "mode", options->run_mode == RUN_CONV ? "conv" : "step");
    cJSON_AddStringToObject(root, "dtype", s4_dtype_name(options->dtype));
    json_shape(root, "shape", run->y->rank, run->y->shape);
    if (options->compare) {
        cJSON *compare = cJSON_AddObjectToObject(root, "compare");
        cJSON_AddNumberToObject(compare, "max_abs", difference->error);
        cJSON_AddNumberToObject(compare, "max_abs_y", difference->scale);
        cJSON_AddNumberToObject(compare, "relative", difference_relative(difference));
    }
    return json_print(root);
}

static int print_result(const struct run *run, const struct difference *difference)
{
    const struct options *options = run->options;
    if (options->json) return print_json(run, difference);
    char shape[FORMAT_SIZE];
    if (options->output)
        printf("%s: y, %s %s, by %s\n", options->output, s4_dtype_name(options->dtype),
               format_shape(shape, run->y->rank, run->y->shape),
               options->run_mode == RUN_CONV ? "convolution" : "recurrence");
    if (options->state_out)
        printf("%s: state after the last sample, f64 %s\n", options->state_out,
               format_shape(shape, run->state_out->rank, run->state_out->shape));
    if (options->compare)
        printf("max abs(conv - step) = %.3e, relative to max abs(y) = %.3e: %.3e\n", difference->error,
               difference->scale, difference_relative(difference));
    return CODE_FINE;
}

static int check_options(const struct options *options)
{
    int code = CODE_FINE;
    if (!options->output && !options->compare && !options->state_out)
        return fail_usage(options->verb, "-o FILE.npy is missing (it may be left out with --compare or --state-out)");
    if (options->run_mode == RUN_STEP && options->kernel_length && !options->compare)
        return fail_usage(options->verb, "--kernel-length cuts the kernel of a convolution; --mode step has none");
    if (options->output) code = check_output_name(options, "-o", options->output, ".npy");
    if (!code && options->state_out) code = check_output_name(options, "--state-out", options->state_out, ".npy");
    return code;
}

int verb_run(const struct options *options)
{
    int code = check_options(options);
    if (code) return code;

    struct run run = {.options = options};
    S4_INIT(&run.sizes);
    code = load_layer(options, options->argument[0], &run.layer);
    if (!code) s4_layer_describe(run.layer, &run.sizes);
    if (!code) code = signal_read(options, "u", options->argument[1], run.sizes.d_model, 1, &run.u);
    if (!code && options->state_in)
        code = state_read(options, options->state_in, run.u.batch, run.sizes.d_model, run.sizes.d_state / 2,
                          &run.state_in);
    if (!code) code = open_context(options, &run.context);
    if (!code) {
        struct difference difference = {0, 0};
        s4_status status = compute(&run, &difference);
        code = status ? fail_status(options->verb, status) : print_result(&run, &difference);
    }
    s4_array_destroy(run.y);
    s4_array_destroy(run.state_out);
    s4_array_destroy(run.state_in);
    s4_array_destroy(run.u.array);
    s4_context_destroy(run.context);
    s4_layer_destroy(run.layer);
    return code;
}
