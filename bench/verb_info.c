/* s4 info: what this build and this machine are, and what a layer file holds. */
#include <math.h>
#include <string.h>

#include "describe.h"
#include "exit_code.h"
#include "output.h"
#include "problem.h"
#include "verbs.h"

/* ---- layer files --------------------------------------------------------------------------------------------- */

static double identity(double x) { return x; }
static double relu(double x) { return (x > 0 ? x : 0) + 1e-4; }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double softplus(double x) { return x > 30 ? x : log1p(exp(x)); }

static double (*const transform_function[])(double) = {
    [S4_TRANSFORM_NONE] = identity,   [S4_TRANSFORM_EXP] = exp,           [S4_TRANSFORM_RELU] = relu,
    [S4_TRANSFORM_SIGMOID] = sigmoid, [S4_TRANSFORM_SOFTPLUS] = softplus,
};

/* A raw parameter and what it stands for: sign * transform(raw). */
struct range {
    const char *raw_name, *name;
    s4_transform transform;
    double raw_least, raw_most, least, most;
};

static s4_status measure_range(s4_layer *layer, s4_parameter which, double sign, struct range *range)
{
    s4_parameter_view view;
    s4_status status = s4_layer_parameter(layer, which, &view);
    if (status) return status;
    range->raw_name = view.name;
    range->raw_least = range->least = INFINITY;
    range->raw_most = range->most = -INFINITY;
    for (int64_t i = 0; i < view.count; i++) {
        double raw = view.data[i], value = sign * transform_function[range->transform](raw);
        if (!(raw >= range->raw_least)) range->raw_least = raw;
        if (!(raw <= range->raw_most)) range->raw_most = raw;
        if (!(value >= range->least)) range->least = value;
        if (!(value <= range->most)) range->most = value;
    }
    return S4_OK;
}

#define RANGE_COUNT 3
struct layer_facts {
    const char *path;
    s4_layer_options sizes;
    int64_t length;
    struct range ranges[RANGE_COUNT];
};

static int read_facts(const struct options *options, const char *path, struct layer_facts *facts)
{
    s4_layer *layer = NULL;
    int code = load_layer(options, path, &layer);
    if (code) return code;
    facts->path = path;
    facts->length = s4_layer_length(layer);
    S4_INIT(&facts->sizes);
    s4_status status = s4_layer_describe(layer, &facts->sizes);
    facts->ranges[0] = (struct range){.name = "dt", .transform = facts->sizes.dt_transform};
    facts->ranges[1] = (struct range){.name = "Re Lambda", .transform = facts->sizes.real_transform};
    facts->ranges[2] = (struct range){.name = "Im Lambda", .transform = facts->sizes.imag_transform};
    if (!status) status = measure_range(layer, S4_PARAMETER_INV_DT, 1, &facts->ranges[0]);
    if (!status) status = measure_range(layer, S4_PARAMETER_A_REAL, -1, &facts->ranges[1]);
    if (!status) status = measure_range(layer, S4_PARAMETER_A_IMAG, -1, &facts->ranges[2]);
    s4_layer_destroy(layer);
    return status ? fail_status(options->verb, status) : CODE_FINE;
}

static void add_range(cJSON *object, const char *key, double least, double most)
{
    cJSON *pair = cJSON_AddArrayToObject(object, key);
    cJSON_AddItemToArray(pair, cJSON_CreateNumber(least));
    cJSON_AddItemToArray(pair, cJSON_CreateNumber(most));
}

static void add_facts(cJSON *root, const struct layer_facts *facts)
{
    cJSON *layer = cJSON_AddObjectToObject(root, "layer");
    cJSON_AddStringToObject(layer, "file", facts->path);
    json_layer(layer, &facts->sizes);
    json_integer(layer, "l_kernel", facts->length);
    cJSON *ranges = cJSON_AddObjectToObject(layer, "ranges");
    for (int i = 0; i < RANGE_COUNT; i++) {
        add_range(ranges, facts->ranges[i].raw_name, facts->ranges[i].raw_least, facts->ranges[i].raw_most);
        add_range(ranges, facts->ranges[i].name, facts->ranges[i].least, facts->ranges[i].most);
    }
}

static void print_facts(const struct layer_facts *facts)
{
    const s4_layer_options *sizes = &facts->sizes;
    printf("\n%s\n", facts->path);
    char layer[LAYER_TEXT_SIZE], leaf[FORMAT_SIZE];
    printf("layer        %s\n", describe_layer(layer, sizes));
    printf("transforms   dt %s, real %s, imag %s\n", s4_transform_name(sizes->dt_transform),
           s4_transform_name(sizes->real_transform), s4_transform_name(sizes->imag_transform));
    printf("leaf         %s\n", describe_leaf(leaf, facts->length));
    for (int i = 0; i < RANGE_COUNT; i++)
        printf("%-12s %.6g to %.6g (raw %s %.6g to %.6g)\n", facts->ranges[i].name, facts->ranges[i].least,
               facts->ranges[i].most, facts->ranges[i].raw_name, facts->ranges[i].raw_least, facts->ranges[i].raw_most);
}

/* ---- the machine --------------------------------------------------------------------------------------------- */

static int print_json(const s4_context *context, const s4_place_info *cpu, const s4_place_info *gpu,
                      const struct layer_facts *facts)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "version", s4_version());
    cJSON_AddStringToObject(root, "build", s4_build());
    cJSON_AddStringToObject(root, "processor", cpu->name);
    cJSON_AddStringToObject(root, "cpu_level", cpu->level);
    json_integer(root, "threads", s4_context_threads(context));
    cJSON_AddStringToObject(root, "libraries", cpu->libraries);
    cJSON *cuda = cJSON_AddObjectToObject(root, "cuda");
    cJSON_AddBoolToObject(cuda, "available", gpu->available);
    cJSON_AddBoolToObject(cuda, "emulated", gpu->emulated);
    cJSON_AddStringToObject(cuda, "reason", gpu->reason);
    cJSON_AddStringToObject(cuda, "name", gpu->name);
    cJSON_AddStringToObject(cuda, "libraries", gpu->libraries);
    json_integer(cuda, "memory", gpu->memory);
    json_integer(cuda, "capability", gpu->capability);
    if (facts) add_facts(root, facts);
    return json_print(root);
}

static int print_text(const s4_context *context, const s4_place_info *cpu, const s4_place_info *gpu,
                      const struct layer_facts *facts)
{
    char memory[FORMAT_SIZE];
    printf("s4           %s\n", s4_version());
    printf("build        %s\n", s4_build());
    printf("processor    %s\n", cpu->name);
    printf("CPU level    %s\n", *cpu->level ? cpu->level : cpu->reason);
    printf("threads      %d\n", s4_context_threads(context));
    printf("libraries    %s\n", cpu->libraries);
    if (gpu->available)
        printf("GPU          %s%s, %s, capability %d.%d, %s\n", gpu->name, gpu->emulated ? " (emulated)" : "",
               format_bytes(memory, gpu->memory), gpu->capability / 10, gpu->capability % 10, gpu->libraries);
    else
        printf("GPU          not available: %s\n", gpu->reason);
    if (facts) print_facts(facts);
    return CODE_FINE;
}

int verb_info(const struct options *options)
{
    struct layer_facts facts;
    const struct layer_facts *given = options->argument_count ? &facts : NULL;
    int code = given ? read_facts(options, options->argument[0], &facts) : CODE_FINE;
    s4_context *context = NULL;
    if (!code) code = open_context(options, &context);
    if (code) return code;

    s4_place_info cpu, gpu;
    memset(&cpu, 0, sizeof cpu);
    memset(&gpu, 0, sizeof gpu);
    s4_status status = s4_context_place(context, S4_PLACE_CPU, &cpu);
    if (!status) status = s4_context_place(context, S4_PLACE_GPU, &gpu);
    if (status)
        code = fail_status(options->verb, status);
    else
        code = (options->json ? print_json : print_text)(context, &cpu, &gpu, given);
    s4_context_destroy(context);
    return code;
}
