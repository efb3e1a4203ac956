/*
 * s4_array: dense row-major tensors on the host; their shapes; and where the text that names a tensor leads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s4/errors.h"
#include "s4/tensor_file.h"

int64_t s4_shape_count(int rank, const int64_t *shape, size_t element_size)
{
    int64_t bound = PTRDIFF_MAX / (int64_t)element_size;
    int64_t product = 1;
    int empty = 0;
    for (int d = 0; d < rank; d++) {
        if (shape[d] < 0) return -1;
        if (shape[d] == 0) {
            empty = 1;
            continue;
        }
        if (product > bound / shape[d]) return -1;
        product *= shape[d];
    }
    return empty ? 0 : product;
}

const char *s4_shape_text(int rank, const int64_t *shape, char text[S4_SHAPE_TEXT])
{
    size_t used = 0;
    text[used++] = '(';
    for (int d = 0; d < rank && d < S4_DIMENSIONS_MAX; d++)
        used += (size_t)snprintf(text + used, S4_SHAPE_TEXT - used, "%s%lld", d ? "," : "", (long long)shape[d]);
    text[used++] = ')';
    text[used] = 0;
    return text;
}

s4_status s4_array_create(s4_dtype dtype, int rank, const int64_t *shape, s4_array **array)
{
    if (!array) return s4_fail(S4_ERROR_ARGUMENT, "s4_array_create: array is NULL");
    *array = NULL;
    size_t size = s4_dtype_size(dtype);
    if (!size) return s4_fail(S4_ERROR_ARGUMENT, "s4_array_create: dtype is %d, not one of s4_dtype", (int)dtype);
    if (rank < 0 || rank > S4_DIMENSIONS_MAX)
        return s4_fail(S4_ERROR_ARGUMENT, "s4_array_create: rank is %d, not in 0 .. %d", rank, S4_DIMENSIONS_MAX);
    if (rank && !shape) return s4_fail(S4_ERROR_ARGUMENT, "s4_array_create: shape is NULL");
    int64_t count = s4_shape_count(rank, shape, size);
    if (count < 0) {
        char text[S4_SHAPE_TEXT];
        return s4_fail(S4_ERROR_ARGUMENT, "s4_array_create: shape %s has a negative size or too large a product",
                       s4_shape_text(rank, shape, text));
    }

    s4_array *created = calloc(1, sizeof *created);
    void *data = calloc(count ? (size_t)count : 1, size); /* empty tensors too have a pointer that is not NULL */
    if (!created || !data) {
        free(created);
        free(data);
        return s4_fail(S4_ERROR_MEMORY, "no memory for an array of %lld elements of %zu bytes", (long long)count, size);
    }
    created->dtype = dtype;
    created->rank = rank;
    for (int d = 0; d < rank; d++) created->shape[d] = shape[d];
    created->count = count;
    created->data = data;
    *array = created;
    return S4_OK;
}

void s4_array_destroy(s4_array *array)
{
    if (!array) return;
    free(array->data);
    free(array);
}

s4_status s4_array_check(const s4_array *array, const char *name)
{
    if (!array) return s4_fail(S4_ERROR_ARGUMENT, "%s: array is NULL", name);
    size_t size = s4_dtype_size(array->dtype);
    if (!size) return s4_fail(S4_ERROR_ARGUMENT, "%s: dtype is %d, not one of s4_dtype", name, (int)array->dtype);
    if (array->rank < 0 || array->rank > S4_DIMENSIONS_MAX)
        return s4_fail(S4_ERROR_ARGUMENT, "%s: rank is %d, not in 0 .. %d", name, array->rank, S4_DIMENSIONS_MAX);
    int64_t count = s4_shape_count(array->rank, array->shape, size);
    if (count < 0 || count != array->count) {
        char text[S4_SHAPE_TEXT];
        return s4_fail(S4_ERROR_ARGUMENT, "%s: count is %lld, which is not the product of the shape %s", name,
                       (long long)array->count, s4_shape_text(array->rank, array->shape, text));
    }
    if (count && !array->data) return s4_fail(S4_ERROR_ARGUMENT, "%s: data is NULL", name);
    return S4_OK;
}

s4_status s4_array_convert(s4_array *array, s4_dtype dtype)
{
    S4_TRY(s4_array_check(array, "s4_array_convert"));
    size_t size = s4_dtype_size(dtype);
    if (!size) return s4_fail(S4_ERROR_ARGUMENT, "s4_array_convert: dtype is %d, not one of s4_dtype", (int)dtype);
    if (dtype == array->dtype) return S4_OK;
    if (dtype == S4_I64 || array->dtype == S4_I64)
        return s4_fail(S4_ERROR_UNSUPPORTED, "s4_array_convert: %s to %s is not supported, only f32 and f64",
                       s4_dtype_name(array->dtype), s4_dtype_name(dtype));
    if (s4_shape_count(array->rank, array->shape, size) < 0)
        return s4_fail(S4_ERROR_ARGUMENT, "s4_array_convert: %lld elements of %zu bytes are too large",
                       (long long)array->count, size);

    void *data = calloc(array->count ? (size_t)array->count : 1, size);
    if (!data)
        return s4_fail(S4_ERROR_MEMORY, "no memory for an array of %lld elements of %zu bytes", (long long)array->count,
                       size);
    if (dtype == S4_F64) {
        const float *from = array->data;
        double *to = data;
        for (int64_t i = 0; i < array->count; i++) to[i] = (double)from[i];
    } else {
        const double *from = array->data;
        float *to = data;
        for (int64_t i = 0; i < array->count; i++) to[i] = (float)from[i];
    }
    free(array->data);
    array->data = data;
    array->dtype = dtype;
    return S4_OK;
}

/* ---- where a source leads ---------------------------------------------------------------------------------------- */

#define SAFETENSORS ".safetensors"

int s4_ends_with(const char *text, const char *suffix)
{
    size_t length = strlen(text), suffix_length = strlen(suffix);
    return length >= suffix_length && strcmp(text + length - suffix_length, suffix) == 0;
}

/* Position of the ':' between file and name, the last one that follows ".safetensors"; NULL if there is none. Names
 * may hold a ':' themselves, and so may folders. */
static const char *find_separator(const char *source)
{
    const char *separator = NULL;
    for (const char *at = source; (at = strstr(at, SAFETENSORS ":")) != NULL; at += strlen(SAFETENSORS))
        separator = at + strlen(SAFETENSORS);
    return separator;
}

/* Without a name: tells which there are. */
static s4_status read_tensor(const char *path, const char *name, s4_array **array)
{
    s4_tensors *file;
    S4_TRY(s4_tensors_open(path, &file));
    char names[S4_TENSOR_LIST_TEXT];
    s4_status status = name[0] ? s4_tensors_read(file, name, array)
                               : s4_fail(S4_ERROR_ARGUMENT, "%s: a ':' and the name of a tensor must follow; it has %s",
                                         path, s4_tensors_list(file, names));
    s4_tensors_close(file);
    return status;
}

static s4_status read_npy(const char *path, s4_array **array, int64_t *rate)
{
    (void)rate;
    return s4_npy_read(path, array);
}

static s4_status read_csv(const char *path, s4_array **array, int64_t *rate)
{
    (void)rate;
    return s4_csv_read(path, array);
}

static const struct {
    const char *suffix;
    s4_status (*read)(const char *path, s4_array **array, int64_t *rate);
} formats[] = {{".npy", read_npy}, {".wav", s4_wav_read}, {".csv", read_csv}};

s4_status s4_array_read(const char *source, s4_array **array)
{
    int64_t rate;
    return s4_array_read_rate(source, array, &rate);
}

s4_status s4_array_read_rate(const char *source, s4_array **array, int64_t *rate)
{
    if (!array || !rate) return s4_fail(S4_ERROR_ARGUMENT, "s4_array_read: %s is NULL", array ? "rate" : "array");
    *array = NULL;
    *rate = 0;
    if (!source) return s4_fail(S4_ERROR_ARGUMENT, "s4_array_read: source is NULL");

    const char *separator = find_separator(source);
    if (separator) {
        size_t length = (size_t)(separator - source);
        char *path = malloc(length + 1);
        if (!path) return s4_fail(S4_ERROR_MEMORY, "%s: no memory for a path", source);
        memcpy(path, source, length);
        path[length] = 0;
        s4_status status = read_tensor(path, separator + 1, array);
        free(path);
        return status;
    }
    if (s4_ends_with(source, SAFETENSORS)) return read_tensor(source, "", array);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (s4_ends_with(source, formats[i].suffix)) return formats[i].read(source, array, rate);
    return s4_fail(S4_ERROR_ARGUMENT,
                   "%s: a tensor is read from FILE.npy, FILE.wav, FILE.csv or FILE" SAFETENSORS ":NAME", source);
}
