/* Contexts, layers and problems made from the command line. */
#include "problem.h"

#include <math.h>
#include <string.h>

#include "exit_code.h"
#include "memory.h"
#include "new_layer.h"
#include "progress.h"

int open_context(const struct options *options, s4_context **context)
{
    s4_context_options wanted;
    S4_INIT(&wanted);
    wanted.threads = (int)options->threads;
    wanted.cpu_level = options->cpu_level;
    wanted.strict = 1;
    wanted.shadow = options->shadow;
    wanted.progress = progress_report;
    wanted.progress_user = (void *)options->verb;
    s4_status status = s4_context_create(&wanted, context);
    return status ? fail_status(options->verb, status) : CODE_FINE;
}

/* All --set in one text, or NULL. */
static char *join_settings(const struct options *options)
{
    size_t size = 0;
    for (int i = 0; i < options->setting_count; i++) size += strlen(options->setting[i]) + 1;
    if (!size) return NULL;
    char *text = memory_zeroed((int64_t)size, 1);
    for (int i = 0; i < options->setting_count; i++) {
        if (i) strcat(text, ",");
        strcat(text, options->setting[i]);
    }
    return text;
}

int load_layer(const struct options *options, const char *path, s4_layer **layer)
{
    char *overrides = join_settings(options);
    s4_status status = s4_layer_load(path, options->prefix, overrides, layer);
    free(overrides);
    if (status) return fail_reading(options->verb, status);
    s4_layer_options sizes;
    S4_INIT(&sizes);
    s4_layer_describe(*layer, &sizes);
    int in_single = options->kernel_dtype == S4_F32;
    if (sizes.mode == S4_MODE_DPLR || (!options->rate_parity && !in_single)) return CODE_FINE;
    s4_layer_destroy(*layer);
    *layer = NULL;
    return fail_usage(options->verb, "%s: has no effect on %s, a diagonal layer; it is for %s",
                      options->rate_parity ? "--rate-parity" : "--kernel-dtype 'f32'", path,
                      options->rate_parity ? "kernels made from C~" : "the sums that make kernels of dplr layers");
}

static void set_execution(const struct options *options, s4_direction direction, s4_problem *problem)
{
    problem->direction = direction;
    problem->dtype = options->dtype;
    problem->kernel_f32 = options->kernel_dtype == S4_F32;
    if (options->placement_count) problem->placement = options->placement[0];
    problem->algorithm = options->algorithm;
    problem->step_mode = options->step_mode;
    problem->layout = options->layout;
    problem->rate = options->rate;
    problem->rate_parity = options->rate_parity && direction != S4_DIRECTION_STEP; /* a recurrence has no C~ */
    problem->threads = (int)options->threads;
    problem->frozen = options->frozen;
    problem->host_budget = options->host_budget;
    problem->device_budget = options->device_budget;
    problem->pinned_budget = options->pinned_budget;
}

static void set_sizes(const s4_layer_options *sizes, s4_problem *problem)
{
    problem->mode = sizes->mode;
    problem->d_model = sizes->d_model;
    problem->d_state = sizes->d_state;
    problem->rank = sizes->rank;
    problem->n_ssm = sizes->n_ssm;
    problem->channels = sizes->channels;
    problem->bidirectional = sizes->bidirectional;
    problem->dt_untied = sizes->dt_untied;
    problem->discretisation = sizes->discretisation;
}

void problem_of_layer(const struct options *options, const s4_layer *layer, s4_direction direction, s4_problem *problem)
{
    s4_layer_options sizes;
    S4_INIT(&sizes);
    s4_layer_describe(layer, &sizes);
    S4_INIT(problem);
    set_sizes(&sizes, problem);
    set_execution(options, direction, problem);
    problem->kernel_length = options->kernel_length;
}

static int check_shape(const struct options *options, const char *path)
{
    if (path && new_layer_asked(options))
        return fail_usage(
            options->verb,
            "%s: a layer file has its own kind, sizes and parameters; leave out the options that describe "
            "a layer (--set changes how the file is read)",
            path);
    if (!path && !options->d_model) return fail_usage(options->verb, "give a layer file, or --d-model H");
    if (!options->length && !(options->direction == S4_DIRECTION_KERNEL && options->kernel_length))
        return fail_usage(options->verb, "--length L is missing");
    return CODE_FINE;
}

int problem_of_options(const struct options *options, const char *path, s4_layer **layer, s4_problem *problem)
{
    s4_layer *file = NULL;
    s4_layer_options sizes;
    S4_INIT(&sizes);
    int code = check_shape(options, path);
    if (!code && path) code = load_layer(options, path, &file);
    if (!code && !path) new_layer_sizes(options, &sizes);
    s4_status status = S4_OK;
    if (!code && !path && layer) status = s4_layer_create(&sizes, &file);
    if (!code && !status && file) status = s4_layer_describe(file, &sizes);
    if (status) code = fail_status(options->verb, status);
    if (code) {
        s4_layer_destroy(file);
        return code;
    }

    S4_INIT(problem);
    set_sizes(&sizes, problem);
    set_execution(options, options->direction, problem);
    problem->batch = options->batch;
    problem->length = options->length ? options->length : options->kernel_length;
    problem->kernel_length = options->kernel_length ? options->kernel_length : options->length;
    if (layer)
        *layer = file;
    else
        s4_layer_destroy(file);
    return CODE_FINE;
}

int64_t stored_length(const struct options *options, const s4_layer *layer)
{
    const int64_t length = s4_layer_length(layer);
    if (!options->rate_parity || !(options->rate > 0)) return length;
    return (int64_t)floor((double)length / options->rate + 0.5);
}

int placement_uses_gpu(const s4_placement *placement)
{
    for (int s = 0; s < S4_STAGE_COUNT; s++)
        if (placement->stage[s] == S4_PLACE_GPU) return 1;
    return 0;
}

int64_t kernels_of(const s4_problem *problem) { return problem->channels * (problem->bidirectional ? 2 : 1); }
