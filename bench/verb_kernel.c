/* s4 kernel: K (M,H,L) of a layer, or (2M,H,L) of a bidirectional one, to a file. */
#include "execution.h"
#include "exit_code.h"
#include "output.h"
#include "problem.h"
#include "signal.h"
#include "verbs.h"

static s4_status compute(const struct options *options, const s4_layer *layer, s4_context *context, int64_t length,
                         s4_array **kernel)
{
    s4_problem problem;
    problem_of_layer(options, layer, S4_DIRECTION_KERNEL, &problem);
    problem.batch = 1;
    problem.length = length;
    problem.kernel_length = length;

    struct execution execution;
    s4_status status = execution_open(&execution, context, &problem, layer);
    const int64_t shape[3] = {kernels_of(&problem), problem.d_model, length};
    if (!status) status = s4_array_create(options->dtype, 3, shape, kernel);
    if (!status) status = s4_plan_kernel(execution.plan, layer, execution.workspace, (*kernel)->data);
    if (!status) status = write_array(options->output, *kernel, 0);
    execution_close(&execution);
    return status;
}

static int print_result(const struct options *options, const s4_array *kernel)
{
    if (options->json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddStringToObject(root, "output", options->output);
        cJSON_AddStringToObject(root, "dtype", s4_dtype_name(kernel->dtype));
        json_shape(root, "shape", kernel->rank, kernel->shape);
        return json_print(root);
    }
    char shape[FORMAT_SIZE];
    printf("%s: kernel, %s %s\n", options->output, s4_dtype_name(kernel->dtype),
           format_shape(shape, kernel->rank, kernel->shape));
    return CODE_FINE;
}

int verb_kernel(const struct options *options)
{
    if (!options->output) return fail_usage(options->verb, "-o FILE is missing");
    int code = check_array_name(options, "-o", options->output, NULL);
    if (code) return code;

    s4_layer *layer = NULL;
    s4_context *context = NULL;
    s4_array *kernel = NULL;
    code = load_layer(options, options->argument[0], &layer);
    int64_t length = options->length;
    if (!code && !length) length = stored_length(options, layer);
    if (!code && !length)
        code = fail_usage(options->verb, "--length L is missing, and %s stores plain C, which has no length",
                          options->argument[0]);
    if (!code) code = open_context(options, &context);
    if (!code) {
        s4_status status = compute(options, layer, context, length, &kernel);
        code = status ? fail_layer(options->verb, options->argument[0], status) : print_result(options, kernel);
    }
    s4_array_destroy(kernel);
    s4_context_destroy(context);
    s4_layer_destroy(layer);
    return code;
}
