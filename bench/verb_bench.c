/* s4 bench: one row per placement, as JSON or as a table with a column for each. */
#include <string.h>

#include "bench_row.h"
#include "describe.h"
#include "exit_code.h"
#include "memory.h"
#include "new_layer.h"
#include "output.h"
#include "problem.h"
#include "progress.h"
#include "verbs.h"

/* ---- fields of a row ----------------------------------------------------------------------------------------- */

enum unit { UNIT_TIME, UNIT_BYTES, UNIT_COUNT };

static const struct field {
    const char *key, *label;
    enum unit unit;
    size_t offset;
} fields[] = {
    {"setup_ns", "set-up", UNIT_TIME, offsetof(struct row, setup_ns)},
    {"first_ns", "first call", UNIT_TIME, offsetof(struct row, first_ns)},
    {"refresh_ns", "refresh", UNIT_TIME, offsetof(struct row, refresh_ns)},
    {"forward_ns", "forward", UNIT_TIME, offsetof(struct row, forward_ns)},
    {"backward_ns", "backward", UNIT_TIME, offsetof(struct row, backward_ns)},
    {"step_ns", "step", UNIT_TIME, offsetof(struct row, step_ns)},
    {"host_planned", "host planned", UNIT_BYTES, offsetof(struct row, host_planned)},
    {"host_measured", "host measured", UNIT_BYTES, offsetof(struct row, host_measured)},
    {"device_planned", "GPU planned", UNIT_BYTES, offsetof(struct row, device_planned)},
    {"device_measured", "GPU measured", UNIT_BYTES, offsetof(struct row, device_measured)},
    {"setup_launches", "set-up launches", UNIT_COUNT, offsetof(struct row, setup_launches)},
    {"setup_device_bytes", "set-up on GPU", UNIT_BYTES, offsetof(struct row, setup_device_bytes)},
    {"launches", "launches", UNIT_COUNT, offsetof(struct row, launches)},
    {"moved_to_device", "moved to GPU", UNIT_BYTES, offsetof(struct row, moved_to_device)},
    {"moved_to_host", "moved to host", UNIT_BYTES, offsetof(struct row, moved_to_host)},
};
#define FIELD_COUNT (sizeof fields / sizeof *fields)

static int64_t field_value(const struct row *row, const struct field *field)
{
    int64_t value;
    memcpy(&value, (const char *)row + field->offset, sizeof value);
    return value;
}

/* ---- JSON ---------------------------------------------------------------------------------------------------- */

static void print_json(const struct row *rows, int count)
{
    cJSON *root = cJSON_CreateArray();
    for (int i = 0; i < count; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "placement", rows[i].text);
        cJSON_AddStringToObject(row, "place_state", rows[i].place_state);
        for (size_t f = 0; f < FIELD_COUNT; f++) json_integer(row, fields[f].key, field_value(&rows[i], &fields[f]));
        if (rows[i].ran)
            cJSON_AddNumberToObject(row, "max_error", rows[i].max_error);
        else
            cJSON_AddNullToObject(row, "max_error");
        cJSON_AddItemToArray(root, row);
    }
    json_print(root);
}

/* ---- table --------------------------------------------------------------------------------------------------- */

#define LABEL_WIDTH 16
#define COLUMN_WIDTH 15

static void print_field(const struct row *rows, int count, const struct field *field)
{
    char text[FORMAT_SIZE];
    printf("%-*s", LABEL_WIDTH, field->label);
    for (int i = 0; i < count; i++) {
        int64_t value = field_value(&rows[i], field);
        const char *cell = field->unit == UNIT_BYTES  ? format_bytes(text, value)
                           : field->unit == UNIT_TIME ? format_time(text, value)
                                                      : format_integer(text, value);
        if (field->unit == UNIT_TIME && rows[i].emulated && rows[i].ran) cell = "emulated";
        printf(" %*s", COLUMN_WIDTH, cell);
    }
    putchar('\n');
}

/* Time of what a training step or an inference does; 0 if it was not measured. */
static int64_t work_ns(const struct row *row)
{
    if (!row->ran || row->refresh_ns == NOT_APPLICABLE) return 0;
    return row->refresh_ns + (row->forward_ns == NOT_APPLICABLE ? 0 : row->forward_ns) +
           (row->backward_ns == NOT_APPLICABLE ? 0 : row->backward_ns);
}

static void print_ratios(const struct row *rows, int count)
{
    printf("%-*s", LABEL_WIDTH, "time / first");
    for (int i = 0; i < count; i++) {
        int64_t base = work_ns(&rows[0]), work = work_ns(&rows[i]);
        if (base > 0 && work > 0)
            printf(" %*.2f", COLUMN_WIDTH, (double)work / (double)base);
        else
            printf(" %*s", COLUMN_WIDTH, rows[i].emulated && rows[i].ran ? "emulated" : "-");
    }
    putchar('\n');
}

static void print_table(const struct bench *bench, const char *path, const struct row *rows, int count)
{
    const s4_problem *problem = &bench->problem;
    char layer[LAYER_TEXT_SIZE];
    s4_layer_options sizes;
    S4_INIT(&sizes);
    s4_layer_describe(bench->layer, &sizes);
    printf("%s: %s\nB = %lld, T = %lld, kernel %lld, %s, %s, %lld repeats, threads %d\n\n",
           path ? path : "seeded layer", describe_layer(layer, &sizes), (long long)problem->batch,
           (long long)problem->length, (long long)problem->kernel_length, s4_dtype_name(problem->dtype),
           s4_direction_name(problem->direction), (long long)bench->options->repeats,
           s4_context_threads(bench->context));
    printf("%-*s", LABEL_WIDTH, "placement");
    for (int i = 0; i < count; i++) printf(" %*s", COLUMN_WIDTH, rows[i].text);
    printf("\n%-*s", LABEL_WIDTH, "state");
    for (int i = 0; i < count; i++)
        printf(" %*.*s", COLUMN_WIDTH, (int)strcspn(rows[i].place_state, ":"), rows[i].place_state);
    putchar('\n');
    for (size_t f = 0; f < FIELD_COUNT; f++) {
        print_field(rows, count, &fields[f]);
        if (strcmp(fields[f].key, "step_ns") == 0) print_ratios(rows, count);
    }
    printf("%-*s", LABEL_WIDTH, "max error");
    for (int i = 0; i < count; i++)
        if (rows[i].ran)
            printf(" %*.2e", COLUMN_WIDTH, rows[i].max_error);
        else
            printf(" %*s", COLUMN_WIDTH, "-");
    putchar('\n');
    for (int i = 0; i < count; i++)
        if (!rows[i].ran) printf("\n%s: %s\n", rows[i].text, rows[i].place_state);
}

/* ---- the verb ------------------------------------------------------------------------------------------------ */

static s4_status prepare_reference(struct bench *bench, struct reference **reference)
{
    s4_layer *layer = NULL;
    s4_status status = copy_layer(bench->layer, &layer);
    if (!status) status = fit_leaf(bench->context, &bench->problem, layer);
    if (!status) status = reference_create(bench->context, &bench->problem, layer, &bench->tensors, reference);
    bench->reference = *reference;
    s4_layer_destroy(layer);
    return status;
}

static s4_status measure_rows(struct bench *bench, const char *path, struct row *rows, struct reference **reference)
{
    const struct options *options = bench->options;
    int possible = 0;
    for (int i = 0; i < options->placement_count; i++) {
        s4_status status = row_check(bench, options->placement_text[i], &options->placement[i], &rows[i]);
        if (status) return status;
        possible += !rows[i].refusal;
    }
    if (!possible) return S4_OK; /* nothing large has been allocated */

    s4_status status = path ? S4_OK : new_layer_init(options, bench->context, bench->layer);
    if (!status) tensors_create(&bench->problem, bench->layer, (uint64_t)options->seed, &bench->tensors);
    if (!status) status = prepare_reference(bench, reference);
    for (int i = 0; i < options->placement_count && !status; i++)
        if (!rows[i].refusal) status = row_measure(bench, &rows[i]);
    return status;
}

static int exit_code_of_rows(const struct row *rows, int count)
{
    int code = CODE_PLACE;
    for (int i = 0; i < count; i++) {
        if (rows[i].ran) return CODE_FINE;
        if (rows[i].refusal == S4_ERROR_OUT_OF_BUDGET) code = CODE_BUDGET;
    }
    return code;
}

int verb_bench(const struct options *options)
{
    const char *path = options->argument_count ? options->argument[0] : NULL;
    const int count = options->placement_count;
    struct bench bench = {.options = options};
    struct reference *reference = NULL;
    struct row rows[PLACEMENTS_MAX];
    int code = problem_of_options(options, path, &bench.layer, &bench.problem);
    if (!code) code = open_context(options, &bench.context);
    if (!code) {
        s4_status status = measure_rows(&bench, path, rows, &reference);
        if (status) code = fail_layer(options->verb, path, status);
    }
    if (!code) {
        progress_clear();
        if (options->json)
            print_json(rows, count);
        else
            print_table(&bench, path, rows, count);
        code = exit_code_of_rows(rows, count);
        for (int i = 0; code && i < count; i++)
            fprintf(stderr, "s4 %s: %s: %s\n", options->verb, rows[i].text, rows[i].place_state);
    }
    tensors_destroy(&bench.tensors);
    reference_destroy(reference);
    s4_layer_destroy(bench.layer);
    s4_context_destroy(bench.context);
    return code;
}
