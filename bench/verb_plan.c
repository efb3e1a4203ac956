/*
 * s4 plan: the report of a plan; runs nothing. With --layers K the peak of a model of K such layers,
 *   K * (parameters + gradients + u kept for the backward pass) + one workspace.
 */
#include <string.h>

#include "exit_code.h"
#include "memory.h"
#include "output.h"
#include "problem.h"
#include "verbs.h"

static s4_status read_report(const s4_plan *plan, s4_report_format format, char **text)
{
    size_t size = 0;
    *text = NULL;
    s4_status status = s4_plan_report(plan, format, NULL, 0, &size);
    if (status) return status;
    *text = memory_zeroed((int64_t)size, 1);
    return s4_plan_report(plan, format, *text, size, &size);
}

/* Raw parameters of one layer: inv_dt (H) or (H,n), A_real and A_imag (S,n), B (S,n,2), P (R,S,n,2), C (K,H,n,2),
 * D (M,H). */
static int64_t parameter_count(const s4_problem *problem)
{
    int64_t modes = problem->d_state / 2, copies = problem->n_ssm;
    return problem->d_model * (problem->dt_untied ? modes : 1) + copies * modes * (4 + 2 * problem->rank) +
           problem->d_model * (2 * modes * kernels_of(problem) + problem->channels);
}

/* 0 if the product leaves the range. */
static int model_peak(const s4_plan_info *info, int64_t layers, int64_t *host)
{
    const s4_problem *problem = &info->problem;
    int training = problem->direction == S4_DIRECTION_TRAINING;
    int64_t layer = parameter_count(problem) * (int64_t)sizeof(double) * (training ? 2 : 1);
    if (training) {
        int64_t kept = 0;
        if (__builtin_mul_overflow(problem->batch * problem->d_model, problem->length, &kept) ||
            __builtin_mul_overflow(kept, (int64_t)s4_dtype_size(problem->dtype), &kept) ||
            __builtin_add_overflow(layer, kept, &layer))
            return 0;
    }
    int64_t all = 0;
    return !__builtin_mul_overflow(layer, layers, &all) && !__builtin_add_overflow(all, info->host_peak, host);
}

static int print_report(const struct options *options, const char *report, const s4_plan_info *info,
                        int64_t model_host_peak)
{
    if (options->json && options->layers) {
        cJSON *root = cJSON_Parse(report);
        json_integer(root, "layers", options->layers);
        json_integer(root, "model_host_peak", model_host_peak);
        json_integer(root, "model_device_peak", info->device_peak);
        return json_print(root);
    }
    fputs(report, stdout);
    if (*report && report[strlen(report) - 1] != '\n') putchar('\n');
    if (options->layers) {
        char host[FORMAT_SIZE], device[FORMAT_SIZE];
        printf("\n%lld such layers: %s on the host%s, %s on the GPU\n", (long long)options->layers,
               format_bytes(host, model_host_peak),
               info->problem.direction == S4_DIRECTION_TRAINING
                   ? " (parameters, their gradients, u of every layer, one workspace)"
                   : " (parameters, one workspace)",
               format_bytes(device, info->device_peak));
    }
    return CODE_FINE;
}

int verb_plan(const struct options *options)
{
    s4_problem problem;
    const char *path = options->argument_count ? options->argument[0] : NULL;
    int code = problem_of_options(options, path, NULL, &problem);
    if (code) return code;

    s4_plan *plan = NULL;
    s4_plan_info info;
    memset(&info, 0, sizeof info);
    char *report = NULL;
    int64_t model_host_peak = 0;
    s4_status status = s4_plan_create(&problem, &plan);
    if (!status) status = s4_plan_describe(plan, &info);
    if (!status) status = read_report(plan, options->json ? S4_REPORT_JSON : S4_REPORT_TEXT, &report);
    if (status)
        code = fail_status(options->verb, status);
    else if (options->layers && !model_peak(&info, options->layers, &model_host_peak))
        code = fail_usage(options->verb, "--layers '%lld': bytes of the model leave the range of 64 bits",
                          (long long)options->layers);
    else
        code = print_report(options, report, &info, model_host_peak);
    free(report);
    s4_plan_destroy(plan);
    return code;
}
