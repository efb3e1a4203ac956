/* Contexts, layers and problems made from the command line. */
#include "problem.h"

#include <string.h>

#include "exit_code.h"
#include "progress.h"

int open_context(const struct options *options, s4_context **context)
{
    s4_context_options wanted;
    S4_INIT(&wanted);
    wanted.threads = (int)options->threads;
    wanted.progress = progress_report;
    wanted.progress_user = (void *)options->verb;
    s4_status status = s4_context_create(&wanted, context);
    return status ? fail_status(options->verb, status) : CODE_FINE;
}

int load_layer(const struct options *options, const char *path, s4_layer **layer)
{
    s4_status status = s4_layer_load(path, options->prefix, layer);
    return status ? fail_status(options->verb, status) : CODE_FINE;
}

static void set_execution(const struct options *options, s4_direction direction, s4_problem *problem)
{
    problem->direction = direction;
    problem->dtype = options->dtype;
    if (options->placement_count) problem->placement = options->placement[0];
    problem->algorithm = options->algorithm;
    problem->step_mode = options->step_mode;
    problem->rate = options->rate;
    problem->threads = (int)options->threads;
    problem->host_budget = options->host_budget;
    problem->device_budget = options->device_budget;
}

static void set_sizes(const s4_layer *layer, s4_problem *problem)
{
    s4_layer_options sizes;
    S4_INIT(&sizes);
    s4_layer_describe(layer, &sizes);
    problem->mode = sizes.mode;
    problem->d_model = sizes.d_model;
    problem->d_state = sizes.d_state;
    problem->rank = sizes.rank;
    problem->n_ssm = sizes.n_ssm;
    problem->channels = sizes.channels;
}

void problem_of_layer(const struct options *options, const s4_layer *layer, s4_direction direction, s4_problem *problem)
{
    S4_INIT(problem);
    set_sizes(layer, problem);
    set_execution(options, direction, problem);
    problem->kernel_length = options->kernel_length;
}

static int check_shape(const struct options *options, const char *path)
{
    int shaped = options->d_model || options->d_state || options->rank || options->n_ssm || options->channels ||
                 options->layer_mode != S4_MODE_DPLR;
    if (path && shaped)
        return fail_usage(options->verb,
                          "%s: a layer file has its own mode and sizes; leave out --mode, --d-model, "
                          "--d-state, --rank, --n-ssm and --channels",
                          path);
    if (!path && !options->d_model) return fail_usage(options->verb, "give a layer file, or --d-model H");
    if (!options->length && !(options->direction == S4_DIRECTION_KERNEL && options->kernel_length))
        return fail_usage(options->verb, "--length L is missing");
    return CODE_FINE;
}

int problem_of_options(const struct options *options, const char *path, s4_layer **layer, s4_problem *problem)
{
    s4_layer *file = NULL;
    int code = check_shape(options, path);
    if (!code && path) code = load_layer(options, path, &file);
    if (code) return code;

    S4_INIT(problem);
    if (file) {
        set_sizes(file, problem);
    } else {
        problem->mode = options->layer_mode;
        problem->d_model = options->d_model;
        problem->d_state = options->d_state ? options->d_state : 64;
        problem->rank = options->rank;
        problem->n_ssm = options->n_ssm;
        problem->channels = options->channels;
    }
    set_execution(options, options->direction, problem);
    problem->batch = options->batch;
    problem->length = options->length ? options->length : options->kernel_length;
    problem->kernel_length = options->kernel_length ? options->kernel_length : options->length;

    if (layer && !file) {
        s4_layer_options sizes;
        S4_INIT(&sizes);
        sizes.mode = problem->mode;
        sizes.d_model = problem->d_model;
        sizes.d_state = problem->d_state;
        sizes.rank = problem->rank;
        sizes.n_ssm = problem->n_ssm;
        sizes.channels = problem->channels;
        s4_status status = s4_layer_create(&sizes, &file);
        if (status) return fail_status(options->verb, status);
        set_sizes(file, problem);
    }
    if (layer)
        *layer = file;
    else
        s4_layer_destroy(file);
    return CODE_FINE;
}

int placement_uses_gpu(const s4_placement *placement)
{
    for (int s = 0; s < S4_STAGE_COUNT; s++)
        if (placement->stage[s] == S4_PLACE_GPU) return 1;
    return 0;
}

s4_status copy_layer(s4_layer *from, s4_layer **to)
{
    s4_layer_options description;
    S4_INIT(&description);
    s4_status status = s4_layer_describe(from, &description);
    description.transforms_given = 1;
    if (!status) status = s4_layer_create(&description, to);
    for (int p = 0; p < S4_PARAMETER_COUNT && !status; p++) {
        s4_parameter_view source, target;
        status = s4_layer_parameter(from, (s4_parameter)p, &source);
        if (!status) status = s4_layer_parameter(*to, (s4_parameter)p, &target);
        if (!status) memcpy(target.data, source.data, (size_t)source.count * sizeof *target.data);
    }
    if (!status) status = s4_layer_changed(*to, S4_PARAMETER_ALL);
    if (!status) status = s4_layer_set_length(*to, s4_layer_length(from));
    return status;
}
