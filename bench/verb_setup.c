/* s4 setup: changes the stored leaf of a layer file, plain C <-> C~ of a length. */
#include "describe.h"
#include "exit_code.h"
#include "output.h"
#include "problem.h"
#include "progress.h"
#include "signal.h"
#include "verbs.h"

static int print_result(const struct options *options, int64_t from, int64_t to)
{
    if (options->json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddStringToObject(root, "output", options->output);
        json_integer(root, "l_kernel_before", from);
        json_integer(root, "l_kernel", to);
        return json_print(root);
    }
    char before[FORMAT_SIZE], after[FORMAT_SIZE];
    printf("%s: %s (was %s)\n", options->output, describe_leaf(after, to), describe_leaf(before, from));
    return CODE_FINE;
}

static int check_options(const struct options *options)
{
    if (!options->output) return fail_usage(options->verb, "-o FILE.safetensors is missing");
    if (options->undo && options->length) return fail_usage(options->verb, "--length and --undo exclude each other");
    if (!options->undo && !options->length) return fail_usage(options->verb, "give --length L or --undo");
    if (options->placement[0].stage[S4_STAGE_SETUP] == S4_PLACE_GPU)
        return fail_usage(options->verb,
                          "--placement '%s': the set-up of a file runs on the CPU; leave --placement out (set-up on the "
                          "GPU is for plan, kernel, run, grad and bench)",
                          options->placement_text[0]);
    return check_output_name(options, "-o", options->output, ".safetensors");
}

int verb_setup(const struct options *options)
{
    int code = check_options(options);
    if (code) return code;

    s4_layer *layer = NULL;
    s4_context *context = NULL;
    int64_t from = 0;
    code = load_layer(options, options->argument[0], &layer);
    if (!code) code = open_context(options, &context);
    if (!code) {
        from = s4_layer_length(layer);
        s4_status status = s4_layer_setup(context, layer, options->undo ? 0 : options->length);
        if (!status && progress_cancelled()) status = S4_ERROR_CANCELLED;
        if (!status) status = s4_layer_save(layer, options->output, options->prefix);
        code = status ? fail_layer(options->verb, options->argument[0], status)
                      : print_result(options, from, s4_layer_length(layer));
    }
    s4_context_destroy(context);
    s4_layer_destroy(layer);
    return code;
}
