/*
 * s4 run: a layer over a sequence, by convolution or by recurrence.
 *
 *   convolution  y_c[t] = sum_{s<=t} K_c[t-s] u[s] + D_c u[t] (+ response to the state before)
 *                (+ sum_{s>t} K1_c[s-t-1] u[s], bidirectional)
 *   recurrence   x' = dA x + dB u, y_c = 2 Re(C_c x') + D_c u
 */
#include <string.h>

#include "difference.h"
#include "execution.h"
#include "exit_code.h"
#include "memory.h"
#include "one_file.h"
#include "output.h"
#include "problem.h"
#include "progress.h"
#include "signal.h"
#include "timing.h"
#include "verbs.h"

struct run {
    const struct options *options;
    s4_context *context;
    s4_layer *layer;
    s4_layer_options sizes;
    struct signal u;
    int64_t *lengths;    /* (B), NULL for all */
    s4_array *state_in;  /* (B,H,n,2), NULL for 0 */
    s4_array *state_out; /* (B,H,n,2), of the way that --mode names; NULL if not wanted */
    s4_array *y;         /* like u, with M*H channels */
};

/* How long one way took: what depends on the parameters only, and the samples. */
struct pace {
    int64_t refresh_ns, run_ns;
};

static s4_status convolve(const struct run *run, void *y, double *state_out, struct pace *pace)
{
    s4_problem problem;
    problem_of_layer(run->options, run->layer, S4_DIRECTION_FORWARD, &problem);
    problem.batch = run->u.batch;
    problem.length = run->u.length;
    problem.states = run->state_in || state_out;
    if (run->options->rate_parity && !problem.kernel_length)
        problem.kernel_length = stored_length(run->options, run->layer);

    struct execution execution;
    int64_t began = now_ns();
    s4_status status = execution_open(&execution, run->context, &problem, run->layer);
    s4_forward_io io;
    S4_INIT(&io);
    io.u = run->u.array->data;
    io.y = y;
    io.lengths = run->lengths;
    io.state_in = run->state_in ? run->state_in->data : NULL;
    io.state_out = state_out;
    int64_t refreshed = now_ns();
    if (!status) status = s4_plan_forward(execution.plan, run->layer, execution.workspace, &io);
    *pace = (struct pace){refreshed - began, now_ns() - refreshed};
    execution_close(&execution);
    return status;
}

static s4_status recur(const struct run *run, void *y, double *state, struct pace *pace)
{
    const struct options *options = run->options;
    const int64_t length = run->u.length;
    const size_t size = s4_dtype_size(options->dtype);
    s4_problem problem;
    problem_of_layer(options, run->layer, S4_DIRECTION_STEP, &problem);
    problem.batch = run->u.batch;
    problem.length = options->chunk < length ? options->chunk : length;
    problem.kernel_length = 0; /* a recurrence has no end */

    struct execution execution;
    int64_t began = now_ns();
    s4_status status = execution_open(&execution, run->context, &problem, run->layer);
    s4_step_io io;
    S4_INIT(&io);
    io.state = state;
    signal_strides(options, run->sizes.d_model, length, io.u_strides);
    signal_strides(options, run->sizes.d_model * run->sizes.channels, length, io.y_strides);
    int64_t refreshed = now_ns();
    for (int64_t begin = 0; begin < length && !status; begin += problem.length) {
        io.length = length - begin < problem.length ? length - begin : problem.length;
        io.u = (const char *)run->u.array->data + (size_t)(begin * io.u_strides[2]) * size;
        io.y = (char *)y + (size_t)(begin * io.y_strides[2]) * size;
        status = s4_plan_step(execution.plan, run->layer, execution.workspace, &io);
        if (!status && progress_report((void *)options->verb, "samples", begin + io.length, length))
            status = S4_ERROR_CANCELLED;
    }
    *pace = (struct pace){refreshed - began, now_ns() - refreshed};
    execution_close(&execution);
    return status;
}

/* By the way that `mode` names; state_out may be NULL. */
static s4_status run_by(const struct run *run, enum run_mode mode, void *y, double *state_out, struct pace *pace)
{
    if (mode == RUN_CONV) return convolve(run, y, state_out, pace);
    const int64_t count = run->u.batch * run->sizes.d_model * run->sizes.d_state;
    double *state = memory_zeroed(count, sizeof *state);
    if (run->state_in) memcpy(state, run->state_in->data, (size_t)count * sizeof *state);
    s4_status status = recur(run, y, state, pace);
    if (state_out) memcpy(state_out, state, (size_t)count * sizeof *state);
    free(state);
    return status;
}

/* What --compare finds. */
struct comparison {
    struct difference difference;
    struct pace pace[2]; /* by enum run_mode */
};

static s4_status compute(struct run *run, struct comparison *comparison)
{
    const struct options *options = run->options;
    const enum run_mode mode = options->run_mode, other_mode = mode == RUN_CONV ? RUN_STEP : RUN_CONV;
    const int64_t state_shape[4] = {run->u.batch, run->sizes.d_model, run->sizes.d_state / 2, 2};
    s4_status status = signal_create_like(options, &run->u, run->sizes.d_model * run->sizes.channels, &run->y);
    if (!status && options->state_out) status = s4_array_create(S4_F64, 4, state_shape, &run->state_out);
    if (!status)
        status = run_by(run, mode, run->y->data, run->state_out ? run->state_out->data : NULL, &comparison->pace[mode]);
    if (!status && options->compare) {
        void *other = memory_zeroed(run->y->count, s4_dtype_size(options->dtype));
        status = run_by(run, other_mode, other, NULL, &comparison->pace[other_mode]);
        if (!status)
            difference_add(&comparison->difference, options->dtype, other, options->dtype, run->y->data, run->y->count);
        free(other);
    }
    if (!status && options->output) status = write_array(options->output, run->y, run->u.rate);
    if (!status && options->state_out) status = write_array(options->state_out, run->state_out, 0);
    return status;
}

/* ---- the result ---------------------------------------------------------------------------------------------- */

static const char *const mode_name[] = {"conv", "step"};
static const char *const mode_words[] = {"convolution", "recurrence"};

/* Time steps of all rows; each has all channels. */
static double samples_per_second(const struct run *run, const struct pace *pace)
{
    return pace->run_ns > 0 ? (double)(run->u.batch * run->u.length) * 1e9 / (double)pace->run_ns : 0;
}

static void add_comparison(cJSON *root, const struct run *run, const struct comparison *comparison)
{
    cJSON *compare = cJSON_AddObjectToObject(root, "compare");
    cJSON_AddNumberToObject(compare, "max_abs", comparison->difference.error);
    cJSON_AddNumberToObject(compare, "max_abs_y", comparison->difference.scale);
    cJSON_AddNumberToObject(compare, "relative", difference_relative(&comparison->difference));
    for (int mode = RUN_CONV; mode <= RUN_STEP; mode++) {
        const struct pace *pace = &comparison->pace[mode];
        cJSON *way = cJSON_AddObjectToObject(compare, mode_name[mode]);
        json_integer(way, "refresh_ns", pace->refresh_ns);
        json_integer(way, "run_ns", pace->run_ns);
        cJSON_AddNumberToObject(way, "samples_per_second", samples_per_second(run, pace));
    }
}

static void print_comparison(const struct run *run, const struct comparison *comparison)
{
    char refresh[FORMAT_SIZE], time[FORMAT_SIZE];
    printf("%-12s %10s %10s %14s\n", "", "parameters", "samples", "samples/s");
    for (int mode = RUN_CONV; mode <= RUN_STEP; mode++) {
        const struct pace *pace = &comparison->pace[mode];
        printf("%-12s %10s %10s %14.4g\n", mode_words[mode], format_time(refresh, pace->refresh_ns),
               format_time(time, pace->run_ns), samples_per_second(run, pace));
    }
    printf("max abs(conv - step) = %.3e, relative to max abs(y) = %.3e: %.3e\n", comparison->difference.error,
           comparison->difference.scale, difference_relative(&comparison->difference));
}

static int print_json(const struct run *run, const struct comparison *comparison)
{
    const struct options *options = run->options;
    cJSON *root = cJSON_CreateObject();
    if (options->output) cJSON_AddStringToObject(root, "output", options->output);
    if (options->state_out) cJSON_AddStringToObject(root, "state_out", options->state_out);
    cJSON_AddStringToObject(root, "mode", mode_name[options->run_mode]);
    cJSON_AddStringToObject(root, "dtype", s4_dtype_name(options->dtype));
    json_shape(root, "shape", run->y->rank, run->y->shape);
    if (options->compare) add_comparison(root, run, comparison);
    return json_print(root);
}

static int print_result(const struct run *run, const struct comparison *comparison)
{
    const struct options *options = run->options;
    if (options->json) return print_json(run, comparison);
    char shape[FORMAT_SIZE];
    progress_clear();
    if (options->output)
        printf("%s: y, %s %s, by %s\n", options->output, s4_dtype_name(options->dtype),
               format_shape(shape, run->y->rank, run->y->shape), mode_words[options->run_mode]);
    if (options->state_out)
        printf("%s: state after the last sample, f64 %s\n", options->state_out,
               format_shape(shape, run->state_out->rank, run->state_out->shape));
    if (options->compare) print_comparison(run, comparison);
    return CODE_FINE;
}

static int check_options(const struct options *options)
{
    int code = CODE_FINE;
    if (!options->output && !options->compare && !options->state_out)
        return fail_usage(options->verb, "-o FILE is missing (it may be left out with --compare or --state-out)");
    if (options->lengths && (options->run_mode == RUN_STEP || options->compare))
        return fail_usage(options->verb, "--lengths is for a convolution; a recurrence just stops");
    if (options->output) code = check_array_name(options, "-o", options->output, options->argument[1]);
    if (!code && options->state_out) code = check_output_name(options, "--state-out", options->state_out, ".npy");
    if (!code && options->output && options->state_out && is_one_file(options->output, options->state_out))
        return fail_usage(options->verb, "-o and --state-out are the same file, '%s'", options->output);
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
    if (!code) code = lengths_read(options, &run.u, &run.lengths);
    if (!code && options->state_in)
        code = state_read(options, options->state_in, run.u.batch, run.sizes.d_model, run.sizes.d_state / 2,
                          &run.state_in);
    if (!code) code = open_context(options, &run.context);
    if (!code) {
        struct comparison comparison = {.difference = {0, 0}};
        s4_status status = compute(&run, &comparison);
        code = status ? fail_layer(options->verb, options->argument[0], status) : print_result(&run, &comparison);
    }
    s4_array_destroy(run.y);
    s4_array_destroy(run.state_out);
    s4_array_destroy(run.state_in);
    s4_array_destroy(run.u.array);
    free(run.lengths);
    s4_context_destroy(run.context);
    s4_layer_destroy(run.layer);
    return code;
}
