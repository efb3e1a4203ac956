/*
 * s4 plan: the report of a plan; runs nothing. With --layers K the peak of a model of K such layers (s4/plan_set.h).
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

static int print_report(const struct options *options, const char *report, const s4_plan_info *info,
                        const s4_plan_set_info *model)
{
    if (options->json && options->layers) {
        cJSON *root = cJSON_Parse(report);
        json_integer(root, "layers", options->layers);
        json_integer(root, "model_host_peak", model->peak[S4_PLACE_CPU]);
        json_integer(root, "model_device_peak", model->peak[S4_PLACE_GPU]);
        return json_print(root);
    }
    fputs(report, stdout);
    if (*report && report[strlen(report) - 1] != '\n') putchar('\n');
    if (options->layers) {
        char host[FORMAT_SIZE], device[FORMAT_SIZE];
        printf("\n%lld such layers: %s on the host%s, %s on the GPU\n", (long long)options->layers,
               format_bytes(host, model->peak[S4_PLACE_CPU]),
               info->problem.direction == S4_DIRECTION_TRAINING
                   ? " (parameters, their gradients, u of every layer, one workspace)"
                   : " (parameters, one workspace)",
               format_bytes(device, model->peak[S4_PLACE_GPU]));
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
    s4_plan_set_info model = {{0}, {0}, {0}, {0}};
    s4_context *context = NULL;
    code = open_context(options, &context);
    if (code) return code;
    s4_status status = s4_placement_choose(context, &problem);
    if (!status) status = s4_plan_create(&problem, &plan);
    if (!status) status = s4_plan_describe(plan, &info);
    if (!status) status = read_report(plan, options->json ? S4_REPORT_JSON : S4_REPORT_TEXT, &report);
    if (status)
        code = fail_status(options->verb, status);
    else if (s4_plan_set_describe(
                 &(s4_plan_set_entry){plan, options->layers, info.problem.direction == S4_DIRECTION_TRAINING}, 1,
                 &model))
        code = fail_usage(options->verb, "--layers '%lld': %s", (long long)options->layers, s4_last_error());
    else
        code = print_report(options, report, &info, &model);
    free(report);
    s4_plan_destroy(plan);
    s4_context_destroy(context);
    return code;
}
