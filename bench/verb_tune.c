/* s4 tune: measures the FFTs of a problem and stores the wisdom. */
#include "exit_code.h"
#include "output.h"
#include "problem.h"
#include "timing.h"
#include "verbs.h"

static int print_result(const struct options *options, const char *path, int64_t ns)
{
    if (options->json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddStringToObject(root, "wisdom", path);
        json_integer(root, "tune_ns", ns);
        return json_print(root);
    }
    char text[FORMAT_SIZE];
    printf("%s: FFT wisdom, measured in %s\n", path, format_time(text, ns));
    return CODE_FINE;
}

int verb_tune(const struct options *options)
{
    s4_problem problem;
    s4_context *context = NULL;
    int code = problem_of_options(options, options->argument_count ? options->argument[0] : NULL, NULL, &problem);
    if (!code) code = open_context(options, &context);
    if (!code) {
        char path[4096] = "";
        int64_t began = now_ns();
        s4_status status = s4_context_tune(context, &problem, options->seconds, path, sizeof path);
        code = status ? fail_status(options->verb, status) : print_result(options, path, now_ns() - began);
    }
    s4_context_destroy(context);
    return code;
}
