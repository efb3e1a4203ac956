/* s4 grad: gradients of sum(y * dy) with respect to u and the raw parameters of the stored leaf, to a file. */
#include <string.h>

#include "execution.h"
#include "exit_code.h"
#include "memory.h"
#include "output.h"
#include "problem.h"
#include "progress.h"
#include "signal.h"
#include "verbs.h"

#define GRADIENT_COUNT (S4_PARAMETER_COUNT + 1) /* u and the parameters */

struct gradients {
    s4_array *array[GRADIENT_COUNT]; /* u last */
    char *name[GRADIENT_COUNT];
};

static char *join(const char *a, const char *b, const char *c)
{
    size_t size = strlen(a) + strlen(b) + strlen(c) + 1;
    char *text = memory_zeroed((int64_t)size, 1);
    snprintf(text, size, "%s%s%s", a, b, c);
    return text;
}

/* Plain C is the leaf that trains in chunks. */
static int trains_in_chunks(const struct options *options, const s4_layer *layer)
{
    s4_layer_options sizes;
    S4_INIT(&sizes);
    s4_layer_describe(layer, &sizes);
    return options->algorithm == S4_ALGORITHM_AUTO && sizes.mode == S4_MODE_DPLR && !sizes.bidirectional &&
           !s4_layer_length(layer);
}

static s4_status compute(const struct options *options, s4_layer *layer, s4_context *context, const struct signal *u,
                         const struct signal *dy, const int64_t *lengths, struct gradients *gradients,
                         int64_t *kernel_length)
{
    s4_problem problem;
    problem_of_layer(options, layer, S4_DIRECTION_TRAINING, &problem);
    problem.batch = u->batch;
    problem.length = u->length;
    if (!problem.kernel_length) problem.kernel_length = s4_layer_length(layer);
    *kernel_length = problem.kernel_length ? problem.kernel_length : u->length;
    if (trains_in_chunks(options, layer)) problem.algorithm = S4_ALGORITHM_CHUNKED;

    struct execution execution;
    s4_status status = execution_open(&execution, context, &problem, layer);
    const char *prefix = options->prefix ? options->prefix : "layer.";
    s4_backward_io io;
    S4_INIT(&io);
    for (int p = 0; p < S4_PARAMETER_COUNT && !status; p++) {
        s4_parameter_view view;
        status = s4_layer_parameter(layer, (s4_parameter)p, &view);
        if (!status && !view.count) continue; /* a diagonal layer has no P */
        if (!status) status = s4_array_create(S4_F64, view.rank, view.shape, &gradients->array[p]);
        if (status) break;
        gradients->name[p] = join("grad.", prefix, view.name);
        io.gradients.parameter[p] = gradients->array[p]->data;
    }
    gradients->name[S4_PARAMETER_COUNT] = join("grad.", "u", "");
    s4_array **du = &gradients->array[S4_PARAMETER_COUNT];
    if (!status) status = signal_create_like(options, u, problem.d_model, du);
    if (!status) {
        io.u = u->array->data;
        io.dy = dy->array->data;
        io.du = (*du)->data;
        io.lengths = lengths;
        status = s4_plan_backward(execution.plan, layer, execution.workspace, &io);
    }
    execution_close(&execution);
    return status;
}

static s4_status write_gradients(const struct options *options, const struct gradients *gradients,
                                 int64_t kernel_length)
{
    char length[FORMAT_SIZE];
    const s4_metadata_entry metadata[] = {{"kernel_length", format_integer(length, kernel_length)}};
    s4_named_array tensors[GRADIENT_COUNT];
    int count = 0;
    for (int i = 0; i < GRADIENT_COUNT; i++)
        if (gradients->array[i]) tensors[count++] = (s4_named_array){gradients->name[i], gradients->array[i]};
    if (progress_cancelled()) return S4_ERROR_CANCELLED;
    return s4_tensors_write(options->output, metadata, 1, tensors, count);
}

static int print_result(const struct options *options, const struct gradients *gradients, int64_t kernel_length)
{
    if (options->json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddStringToObject(root, "output", options->output);
        json_integer(root, "kernel_length", kernel_length);
        cJSON *tensors = cJSON_AddArrayToObject(root, "tensors");
        for (int i = 0; i < GRADIENT_COUNT; i++) {
            if (!gradients->array[i]) continue;
            cJSON *tensor = cJSON_CreateObject();
            cJSON_AddStringToObject(tensor, "name", gradients->name[i]);
            cJSON_AddStringToObject(tensor, "dtype", s4_dtype_name(gradients->array[i]->dtype));
            json_shape(tensor, "shape", gradients->array[i]->rank, gradients->array[i]->shape);
            cJSON_AddItemToArray(tensors, tensor);
        }
        return json_print(root);
    }
    printf("%s: gradients, kernel length %lld\n", options->output, (long long)kernel_length);
    for (int i = 0; i < GRADIENT_COUNT; i++) {
        char shape[FORMAT_SIZE];
        if (!gradients->array[i]) continue;
        printf("  %s, %s %s\n", gradients->name[i], s4_dtype_name(gradients->array[i]->dtype),
               format_shape(shape, gradients->array[i]->rank, gradients->array[i]->shape));
    }
    return CODE_FINE;
}

static int check_same_shape(const struct options *options, const struct signal *u, const struct signal *dy)
{
    if (u->batch == dy->batch && u->length == dy->length) return CODE_FINE;
    char left[FORMAT_SIZE], right[FORMAT_SIZE];
    return fail_input(options->verb, "dy has the shape %s, u %s; batch and length must agree",
                      format_shape(left, dy->array->rank, dy->array->shape),
                      format_shape(right, u->array->rank, u->array->shape));
}

int verb_grad(const struct options *options)
{
    if (!options->output) return fail_usage(options->verb, "-o FILE.safetensors is missing");
    int code = check_output_name(options, "-o", options->output, ".safetensors");
    if (code) return code;

    s4_layer *layer = NULL;
    s4_context *context = NULL;
    struct signal u = {0}, dy = {0};
    struct gradients gradients = {0};
    int64_t *lengths = NULL;
    s4_layer_options sizes;
    S4_INIT(&sizes);
    code = load_layer(options, options->argument[0], &layer);
    if (!code && options->kernel_dtype == S4_F32 && trains_in_chunks(options, layer))
        code = fail_usage(options->verb,
                          "--kernel-dtype 'f32': has no effect on %s, which stores plain C and so trains in chunks, without "
                          "a kernel; it is for the sums that make kernels",
                          options->argument[0]);
    if (!code) s4_layer_describe(layer, &sizes);
    if (!code) code = signal_read(options, "u", options->argument[1], sizes.d_model, 0, &u);
    if (!code) code = signal_read(options, "dy", options->argument[2], sizes.d_model * sizes.channels, 0, &dy);
    if (!code) code = check_same_shape(options, &u, &dy);
    if (!code) code = lengths_read(options, &u, &lengths);
    if (!code) code = open_context(options, &context);
    if (!code) {
        int64_t kernel_length = 0;
        s4_status status = compute(options, layer, context, &u, &dy, lengths, &gradients, &kernel_length);
        if (!status) status = write_gradients(options, &gradients, kernel_length);
        code = status ? fail_layer(options->verb, options->argument[0], status)
                      : print_result(options, &gradients, kernel_length);
    }
    for (int i = 0; i < GRADIENT_COUNT; i++) {
        s4_array_destroy(gradients.array[i]);
        free(gradients.name[i]);
    }
    free(lengths);
    s4_array_destroy(dy.array);
    s4_array_destroy(u.array);
    s4_context_destroy(context);
    s4_layer_destroy(layer);
    return code;
}
