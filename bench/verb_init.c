/* s4 init: a fresh layer, to a file. */
#include "describe.h"
#include "exit_code.h"
#include "new_layer.h"
#include "output.h"
#include "problem.h"
#include "progress.h"
#include "signal.h"
#include "verbs.h"

static int print_result(const struct options *options, const s4_layer *layer)
{
    s4_layer_options sizes;
    S4_INIT(&sizes);
    s4_layer_describe(layer, &sizes);
    if (options->json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddStringToObject(root, "output", options->output);
        json_layer(root, &sizes);
        json_integer(root, "seed", options->seed);
        return json_print(root);
    }
    char text[LAYER_TEXT_SIZE];
    printf("%s: %s, plain C, seed %lld\n", options->output, describe_layer(text, &sizes), (long long)options->seed);
    return CODE_FINE;
}

int verb_init(const struct options *options)
{
    if (!options->output) return fail_usage(options->verb, "-o FILE.safetensors is missing");
    if (!options->d_model) return fail_usage(options->verb, "--d-model H is missing");
    int code = check_output_name(options, "-o", options->output, ".safetensors");
    if (code) return code;

    s4_layer *layer = NULL;
    s4_context *context = NULL;
    s4_layer_options sizes;
    new_layer_sizes(options, &sizes);
    code = open_context(options, &context);
    if (!code) {
        s4_status status = s4_layer_create(&sizes, &layer);
        if (!status) status = new_layer_init(options, context, layer);
        if (!status && progress_cancelled()) status = S4_ERROR_CANCELLED;
        if (!status) status = s4_layer_save(layer, options->output, options->prefix);
        code = status ? fail_status(options->verb, status) : print_result(options, layer);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
    return code;
}
