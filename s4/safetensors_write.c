/*
 * Writing safetensors: 8 bytes with the length of the header, a JSON header padded with spaces to 8 bytes, the data.
 * Tensors lie in the order of falling element size, then of their names: all data is aligned to its elements.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s4/atomic_file.h"
#include "s4/errors.h"
#include "s4/tensor_file.h"

#define HEADER_MAX 100000000 /* what readers accept */
#define ALIGNMENT 8
#define METADATA "__metadata__"

static const struct {
    s4_dtype dtype;
    const char *name;
} dtypes[] = {{S4_F32, "F32"}, {S4_F64, "F64"}, {S4_I64, "I64"}};

static const char *dtype_name(s4_dtype dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype == dtype) return dtypes[i].name;
    return NULL;
}

static int64_t data_bytes(const s4_named_array *tensor)
{
    return tensor->array->count * (int64_t)s4_dtype_size(tensor->array->dtype);
}

/* ---- a growing text ---------------------------------------------------------------------------------------------- */

typedef struct text {
    char *data;
    size_t used, space;
    int no_memory; /* sticky: whoever uses the text looks once */
} text;

static void add_bytes(text *t, const char *bytes, size_t count)
{
    if (t->no_memory) return;
    if (count > t->space - t->used) {
        size_t space = 2 * (t->space + count) + 256;
        char *data = realloc(t->data, space);
        if (!data) {
            t->no_memory = 1;
            return;
        }
        t->data = data;
        t->space = space;
    }
    memcpy(t->data + t->used, bytes, count);
    t->used += count;
}

static void add(text *t, const char *string) { add_bytes(t, string, strlen(string)); }

static void add_number(text *t, int64_t number)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%" PRId64, number);
    add(t, digits);
}

/* "string", with what JSON wants escaped. */
static void add_quoted(text *t, const char *string)
{
    add(t, "\"");
    for (const char *at = string; *at; at++) {
        if (*at == '"' || *at == '\\') add(t, "\\");
        if ((unsigned char)*at < ' ') {
            char escape[8];
            (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*at);
            add(t, escape);
        } else {
            add_bytes(t, at, 1);
        }
    }
    add(t, "\"");
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static int order_of_pointed_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static s4_status check_string(const char *path, const char *what, const char *string)
{
    if (!string) return s4_fail(S4_ERROR_ARGUMENT, "%s: a %s is NULL", path, what);
    size_t length = strlen(string);
    if (s4_utf8_prefix(string, length) != length)
        return s4_fail(S4_ERROR_ARGUMENT, "%s: %s \"%.100s\" is not UTF-8", path, what, string);
    return S4_OK;
}

/* Sorts `names`; they must differ. */
static s4_status check_different(const char *path, const char *what, const char **names, int64_t count)
{
    qsort(names, (size_t)count, sizeof *names, order_of_pointed_names);
    for (int64_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return s4_fail(S4_ERROR_ARGUMENT, "%s: %s \"%.100s\" is there twice", path, what, names[i]);
    return S4_OK;
}

static s4_status check_metadata(const char *path, const s4_metadata_entry *metadata, int64_t count, const char **names)
{
    for (int64_t i = 0; i < count; i++) {
        S4_TRY(check_string(path, "metadata key", metadata[i].key));
        S4_TRY(check_string(path, "metadata value", metadata[i].value));
        names[i] = metadata[i].key;
    }
    return check_different(path, "metadata key", names, count);
}

static s4_status check_tensors(const char *path, const s4_named_array *tensors, int64_t count, const char **names)
{
    int64_t total = 0;
    for (int64_t i = 0; i < count; i++) {
        S4_TRY(check_string(path, "tensor", tensors[i].name));
        S4_TRY(s4_array_check(tensors[i].array, tensors[i].name));
        if (strcmp(tensors[i].name, METADATA) == 0)
            return s4_fail(S4_ERROR_ARGUMENT, "%s: no tensor can be named " METADATA, path);
        if (data_bytes(&tensors[i]) > INT64_MAX - total)
            return s4_fail(S4_ERROR_ARGUMENT, "%s: the tensors have more than 2^63 bytes", path);
        total += data_bytes(&tensors[i]);
        names[i] = tensors[i].name;
    }
    return check_different(path, "tensor", names, count);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static int order_in_file(const void *left, const void *right)
{
    const s4_named_array *a = left, *b = right;
    size_t size_a = s4_dtype_size(a->array->dtype), size_b = s4_dtype_size(b->array->dtype);
    if (size_a != size_b) return size_a > size_b ? -1 : 1;
    return strcmp(a->name, b->name);
}

static void format_header(text *t, const s4_metadata_entry *metadata, int64_t metadata_count,
                          const s4_named_array *ordered, int64_t count)
{
    const char *comma = "";
    add(t, "{");
    if (metadata_count) {
        add(t, "\"" METADATA "\":{");
        for (int64_t i = 0; i < metadata_count; i++) {
            add(t, i ? "," : "");
            add_quoted(t, metadata[i].key);
            add(t, ":");
            add_quoted(t, metadata[i].value);
        }
        add(t, "}");
        comma = ",";
    }
    int64_t begin = 0;
    for (int64_t i = 0; i < count; i++) {
        const s4_array *array = ordered[i].array;
        add(t, comma);
        comma = ",";
        add_quoted(t, ordered[i].name);
        add(t, ":{\"dtype\":\"");
        add(t, dtype_name(array->dtype));
        add(t, "\",\"shape\":[");
        for (int d = 0; d < array->rank; d++) {
            add(t, d ? "," : "");
            add_number(t, array->shape[d]);
        }
        add(t, "],\"data_offsets\":[");
        add_number(t, begin);
        begin += data_bytes(&ordered[i]);
        add(t, ",");
        add_number(t, begin);
        add(t, "]}");
    }
    add(t, "}");
    while (!t->no_memory && t->used % ALIGNMENT) add(t, " ");
}

static s4_status write_file(const char *path, const text *header, const s4_named_array *ordered, int64_t count)
{
    unsigned char length[8];
    for (int byte = 0; byte < 8; byte++) length[byte] = (unsigned char)((uint64_t)header->used >> (8 * byte));
    s4_atomic_file file;
    S4_TRY(s4_atomic_open(path, &file));
    S4_TRY(s4_atomic_write(&file, length, sizeof length));
    S4_TRY(s4_atomic_write(&file, header->data, (int64_t)header->used));
    for (int64_t i = 0; i < count; i++) S4_TRY(s4_atomic_write(&file, ordered[i].array->data, data_bytes(&ordered[i])));
    return s4_atomic_commit(&file);
}

/* `names` and `ordered` are room for as many as there are metadata entries or tensors. */
static s4_status check_and_write(const char *path, const s4_metadata_entry *metadata, int64_t metadata_count,
                                 const s4_named_array *tensors, int64_t tensor_count, const char **names,
                                 s4_named_array *ordered, text *header)
{
    S4_TRY(check_metadata(path, metadata, metadata_count, names));
    S4_TRY(check_tensors(path, tensors, tensor_count, names));
    for (int64_t i = 0; i < tensor_count; i++) ordered[i] = tensors[i];
    qsort(ordered, (size_t)tensor_count, sizeof *ordered, order_in_file);
    format_header(header, metadata, metadata_count, ordered, tensor_count);
    if (header->no_memory) return s4_fail(S4_ERROR_MEMORY, "%s: no memory for its header", path);
    if (header->used > HEADER_MAX)
        return s4_fail(S4_ERROR_ARGUMENT, "%s: needs a header of %zu bytes, readers accept %d", path, header->used,
                       HEADER_MAX);
    return write_file(path, header, ordered, tensor_count);
}

s4_status s4_tensors_write(const char *path, const s4_metadata_entry *metadata, int64_t metadata_count,
                           const s4_named_array *tensors, int64_t tensor_count)
{
    if (!path) return s4_fail(S4_ERROR_ARGUMENT, "s4_tensors_write: path is NULL");
    if (metadata_count < 0 || tensor_count < 0 || (metadata_count && !metadata) || (tensor_count && !tensors))
        return s4_fail(S4_ERROR_ARGUMENT,
                       "%s: %lld metadata entries and %lld tensors: a count is negative or an array "
                       "is NULL",
                       path, (long long)metadata_count, (long long)tensor_count);
    int64_t larger = metadata_count > tensor_count ? metadata_count : tensor_count;
    const char **names = calloc((size_t)larger + 1, sizeof *names);
    s4_named_array *ordered = calloc((size_t)tensor_count + 1, sizeof *ordered);
    text header = {0};
    s4_status status =
        names && ordered
            ? check_and_write(path, metadata, metadata_count, tensors, tensor_count, names, ordered, &header)
            : s4_fail(S4_ERROR_MEMORY, "%s: no memory for %lld names", path, (long long)larger);
    free(names);
    free(ordered);
    free(header.data);
    return status;
}
