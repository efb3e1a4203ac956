/* The report of a plan: a table for people, JSON for programs. Both are made from the public description. */
#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "s4/errors.h"
#include "s4/plan.h"

/* A growing text. */
typedef struct text_buffer {
    char *data;
    size_t used, size;
    int failed;
} text_buffer;

static void append(text_buffer *text, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

static void append(text_buffer *text, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length >= 0 && text->used + (size_t)length + 1 > text->size) {
        size_t size = 2 * text->size + (size_t)length + 1024;
        char *data = realloc(text->data, size);
        if (data) {
            text->data = data;
            text->size = size;
        }
    }
    if (length < 0 || text->used + (size_t)length + 1 > text->size)
        text->failed = 1;
    else
        text->used += (size_t)vsnprintf(text->data + text->used, text->size - text->used, format, again);
    va_end(again);
}

static void write_table(const s4_plan *plan, const s4_plan_info *info, text_buffer *text)
{
    const s4_problem *p = &info->problem;
    append(text,
           "%s of a %s layer: batch %lld, length %lld, kernel length %lld, d_model %lld, d_state %lld, rank %lld, "
           "%s, %d thread%s\n",
           s4_direction_name(p->direction), s4_mode_name(p->mode), (long long)p->batch, (long long)p->length,
           (long long)p->kernel_length, (long long)p->d_model, (long long)p->d_state, (long long)p->rank,
           s4_dtype_name(p->dtype), p->threads, p->threads == 1 ? "" : "s");
    int convolves = p->direction == S4_DIRECTION_FORWARD || p->direction == S4_DIRECTION_TRAINING;
    if (convolves)
        append(text, "algorithm %s, %s %lld, ", s4_algorithm_name(p->algorithm), info->chunk ? "chunks of" : "FFT length",
               (long long)(info->chunk ? info->chunk : info->fft_length));
    append(text, "blocks of %lld channels and %lld batch rows", (long long)info->block_channels, (long long)info->block_batch);
    if (convolves)
        append(text, ", %s %s", info->chunk ? "chunk matrices" : "kernel spectra",
               info->resident ? "kept" : "made block by block");
    append(text, "\n");
    if (p->direction == S4_DIRECTION_TRAINING) {
        append(text, "frozen:");
        for (int which = 0; which < S4_PARAMETER_COUNT; which++)
            if (p->frozen >> which & 1) append(text, " %s", s4_parameter_name((s4_parameter)which));
        append(text, p->frozen ? "\n" : " nothing\n");
    }
    if (p->placement_reason) append(text, "%s\n", p->placement_reason);
    append(text, "u, y and their gradients on the %s; parameters and what depends on them only: double, %smasters on the host\n\n",
           p->tensors == S4_PLACE_GPU ? "gpu" : "host", p->kernel_f32 ? "kernel sums f32, " : "");
    append(text, "%4s  %-21s %-9s %-5s %-9s %s\n", "", "operation", "stage", "place", "phase", "repeated");
    for (int64_t i = 0; i < info->operations; i++) {
        s4_operation_info o;
        if (s4_plan_operation(plan, i, &o)) continue;
        append(text, "%4lld  %-21s %-9s %-5s %-9s %s\n", (long long)i, o.name, s4_stage_name(o.stage),
               s4_place_name(o.place), o.phase, o.loop);
    }
    append(text, "\n      %-21s %-5s %15s %15s  %s\n", "buffer", "place", "bytes", "offset", "used by operations");
    for (int64_t i = 0; i < info->buffers; i++) {
        s4_buffer_info b;
        if (s4_plan_buffer(plan, i, &b)) continue;
        append(text, "      %-21s %-5s %15lld %15lld  %d to %d\n", b.name, s4_place_name(b.place), (long long)b.bytes,
               (long long)b.offset, b.first, b.last);
    }
    append(text, "\n%-8s %18s %18s %18s\n", "place", "peak bytes", "minimum budget", "reserve inside libraries");
    append(text, "%-8s %18lld %18lld %18lld\n", "host", (long long)info->host_peak, (long long)info->host_minimum,
           (long long)info->host_reserve);
    append(text, "%-8s %18lld %18lld %18lld\n", "device", (long long)info->device_peak, (long long)info->device_minimum,
           (long long)info->device_reserve);
    if (info->pinned) append(text, "pinned: %lld bytes of the host's peak\n", (long long)info->pinned);
    append(text, "moved: %lld bytes to the device, %lld bytes to the host\n", (long long)info->to_device,
           (long long)info->to_host);
}

static cJSON *number(cJSON *object, const char *key, int64_t value)
{
    return cJSON_AddNumberToObject(object, key, (double)value);
}

static cJSON *make_json(const s4_plan *plan, const s4_plan_info *info)
{
    const s4_problem *p = &info->problem;
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "s4.plan/1");
    cJSON_AddStringToObject(root, "direction", s4_direction_name(p->direction));
    cJSON_AddStringToObject(root, "mode", s4_mode_name(p->mode));
    cJSON_AddStringToObject(root, "dtype", s4_dtype_name(p->dtype));
    cJSON_AddStringToObject(root, "discretisation", s4_discretisation_name(p->discretisation));
    cJSON_AddStringToObject(root, "layout", s4_layout_name(p->layout));
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = {{"batch", p->batch},         {"length", p->length},     {"kernel_length", p->kernel_length},
                 {"d_model", p->d_model},     {"d_state", p->d_state},   {"rank", p->rank},
                 {"n_ssm", p->n_ssm},         {"channels", p->channels}, {"bidirectional", p->bidirectional},
                 {"dt_untied", p->dt_untied}, {"threads", p->threads}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) number(root, sizes[i].key, sizes[i].value);
    cJSON *placement = cJSON_AddObjectToObject(root, "placement");
    for (int stage = 0; stage < S4_STAGE_COUNT; stage++)
        cJSON_AddStringToObject(placement, s4_stage_name((s4_stage)stage), s4_place_name(p->placement.stage[stage]));
    if (p->placement_reason) cJSON_AddStringToObject(root, "placement_reason", p->placement_reason);
    cJSON_AddStringToObject(root, "tensors", s4_place_name(p->tensors));
    cJSON_AddStringToObject(root, "algorithm", s4_algorithm_name(p->algorithm));
    cJSON_AddStringToObject(root, "kernel_dtype", s4_dtype_name(p->kernel_f32 ? S4_F32 : S4_F64));
    number(root, "fft_length", info->fft_length);
    number(root, "chunk", info->chunk);
    cJSON *blocks = cJSON_AddObjectToObject(root, "blocks");
    number(blocks, "channels", info->block_channels);
    number(blocks, "batch", info->block_batch);
    cJSON_AddBoolToObject(root, "resident", info->resident);
    cJSON *frozen = cJSON_AddArrayToObject(root, "frozen");
    for (int which = 0; which < S4_PARAMETER_COUNT; which++) {
        cJSON *name = p->frozen >> which & 1 ? cJSON_CreateString(s4_parameter_name((s4_parameter)which)) : NULL;
        if (name && !cJSON_AddItemToArray(frozen, name)) cJSON_Delete(name);
    }
    cJSON *buffers = cJSON_AddArrayToObject(root, "buffers");
    for (int64_t i = 0; i < info->buffers; i++) {
        s4_buffer_info b;
        cJSON *row = cJSON_CreateObject();
        if (s4_plan_buffer(plan, i, &b) || !cJSON_AddItemToArray(buffers, row)) {
            cJSON_Delete(row);
            continue;
        }
        cJSON_AddStringToObject(row, "name", b.name);
        cJSON_AddStringToObject(row, "place", s4_place_name(b.place));
        number(row, "bytes", b.bytes);
        number(row, "offset", b.offset);
        number(row, "first", b.first);
        number(row, "last", b.last);
    }
    cJSON *operations = cJSON_AddArrayToObject(root, "operations");
    for (int64_t i = 0; i < info->operations; i++) {
        s4_operation_info o;
        cJSON *row = cJSON_CreateObject();
        if (s4_plan_operation(plan, i, &o) || !cJSON_AddItemToArray(operations, row)) {
            cJSON_Delete(row);
            continue;
        }
        cJSON_AddStringToObject(row, "name", o.name);
        cJSON_AddStringToObject(row, "place", s4_place_name(o.place));
        cJSON_AddStringToObject(row, "stage", s4_stage_name(o.stage));
        cJSON_AddStringToObject(row, "phase", o.phase);
        cJSON_AddStringToObject(row, "loop", o.loop);
    }
    cJSON *transfers = cJSON_AddObjectToObject(root, "transfers");
    number(transfers, "to_device", info->to_device);
    number(transfers, "to_host", info->to_host);
    number(root, "host_peak", info->host_peak);
    number(root, "device_peak", info->device_peak);
    number(root, "pinned", info->pinned);
    number(root, "host_minimum", info->host_minimum);
    number(root, "device_minimum", info->device_minimum);
    number(root, "host_reserve", info->host_reserve);
    if (!number(root, "device_reserve", info->device_reserve)) { /* the last one fails if memory ran out on the way */
        cJSON_Delete(root);
        return NULL;
    }
    return root;
}

static s4_status deliver(const char *made, size_t size, char *text, size_t capacity, size_t *needed)
{
    *needed = size;
    if (!capacity) return S4_OK;
    size_t part = size < capacity ? size : capacity;
    memcpy(text, made, part);
    text[part - 1] = 0;
    return S4_OK;
}

s4_status s4_plan_report(const s4_plan *plan, s4_report_format format, char *text, size_t capacity, size_t *needed)
{
    if (!plan || !needed || (capacity && !text))
        return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", !plan ? "plan" : !needed ? "needed" : "text");
    s4_plan_info info;
    S4_TRY(s4_plan_describe(plan, &info));
    if (format == S4_REPORT_JSON) {
        cJSON *root = make_json(plan, &info);
        char *json = root ? cJSON_Print(root) : NULL;
        cJSON_Delete(root);
        if (!json) return s4_fail(S4_ERROR_MEMORY, "no memory for the report");
        s4_status status = deliver(json, strlen(json) + 1, text, capacity, needed);
        cJSON_free(json);
        return status;
    }
    if (format != S4_REPORT_TEXT) return s4_fail(S4_ERROR_ARGUMENT, "format is %d, must be 0 or 1", (int)format);
    text_buffer table = {0};
    write_table(plan, &info, &table);
    s4_status status = table.failed ? s4_fail(S4_ERROR_MEMORY, "no memory for the report")
                                    : deliver(table.data, table.used + 1, text, capacity, needed);
    free(table.data);
    return status;
}
