/*
 * Reading safetensors: 8 bytes with the length of the header, a JSON header, the data.
 *   {"__metadata__": {"key": "value"}, "name": {"dtype": "F64", "shape": [2, 3], "data_offsets": [0, 48]}}
 * Offsets count from the end of the header. A file is checked as a whole when it is opened: every byte of the data
 * belongs to exactly one tensor. What cJSON lets through and the format does not is refused here.
 */
#define _POSIX_C_SOURCE 200809L

#include <cjson/cJSON.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s4/atomic_file.h"
#include "s4/errors.h"
#include "s4/tensor_file.h"

#define HEADER_MAX 100000000 /* as in the published reader */
#define LENGTH_BYTES 8
#define PARSER_SLACK 16             /* zeros after the header: the parser may look at the byte behind the text */
#define WHOLE_MAX 9007199254740991. /* 2^53 - 1: JSON numbers arrive as doubles, exact up to here */
#define METADATA "__metadata__"
#define LISTED_MAX 12

typedef struct tensor {
    const char *name; /* in the parsed header, as is dtype */
    const char *dtype;
    int64_t rank; /* may be beyond S4_DIMENSIONS_MAX: only the first sizes are kept then */
    int64_t shape[S4_DIMENSIONS_MAX];
    int64_t begin, end; /* bytes of the data */
} tensor;

struct s4_tensors {
    char *path;
    s4_input_file file;
    cJSON *root;
    const cJSON *metadata; /* in root, or NULL */
    tensor *tensors;       /* in the order of their names */
    int64_t count;
    int64_t data_begin, data_bytes;
};

/* Dtypes of the format that have whole bytes; `readable` where s4_dtype has them too. Others are listed unchecked. */
static const struct {
    const char *name;
    int bytes;
    int readable;
    s4_dtype dtype;
} dtypes[] = {
    {"F32", 4, 1, S4_F32}, {"F64", 8, 1, S4_F64}, {"I64", 8, 1, S4_I64}, {"F16", 2, 0, 0},
    {"BF16", 2, 0, 0},     {"I32", 4, 0, 0},      {"I16", 2, 0, 0},      {"I8", 1, 0, 0},
    {"U64", 8, 0, 0},      {"U32", 4, 0, 0},      {"U16", 2, 0, 0},      {"U8", 1, 0, 0},
    {"BOOL", 1, 0, 0},     {"C64", 8, 0, 0},      {"F8_E4M3", 1, 0, 0},  {"F8_E5M2", 1, 0, 0},
};

/* Index in dtypes, or -1. */
static int find_dtype(const char *name)
{
    for (int i = 0; i < (int)(sizeof dtypes / sizeof *dtypes); i++)
        if (strcmp(dtypes[i].name, name) == 0) return i;
    return -1;
}

/* ---- text of the header ------------------------------------------------------------------------------------------ */

/* The parser takes any byte up to the space as white space, and a NUL, raw or as an escape, would cut a name short. */
static s4_status check_text(const char *path, const char *text, size_t bytes)
{
    if (bytes == 0 || text[0] != '{') return s4_fail(S4_ERROR_FORMAT, "%s: the header does not begin with '{'", path);
    size_t well_formed = s4_utf8_prefix(text, bytes);
    if (well_formed != bytes)
        return s4_fail(S4_ERROR_FORMAT, "%s: the header is not UTF-8 at its byte %zu", path, well_formed);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte < ' ' && byte != '\t' && byte != '\n' && byte != '\r')
            return s4_fail(S4_ERROR_FORMAT, "%s: the header has a control character at its byte %zu", path, i);
        if (byte != '\\') continue;
        if (bytes - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0)
            return s4_fail(S4_ERROR_FORMAT, "%s: the header has a NUL at its byte %zu", path, i);
        i++; /* what is escaped, perhaps a backslash */
    }
    return S4_OK;
}

/* `text` has `bytes` bytes and PARSER_SLACK zeros. */
static s4_status parse_text(const char *path, const char *text, size_t bytes, cJSON **root)
{
    /* The parser notes errors in one variable of the process, and does not tell a lack of memory from a lack of
     * JSON. */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const char *end = text;
    (void)pthread_mutex_lock(&lock);
    *root = cJSON_ParseWithLengthOpts(text, bytes, &end, 0);
    (void)pthread_mutex_unlock(&lock);

    size_t parsed = (size_t)(end - text);
    if (!*root) return s4_fail(S4_ERROR_FORMAT, "%s: the header is not JSON at its byte %zu", path, parsed);
    size_t spaces = parsed < bytes ? strspn(text + parsed, " \t\r\n") : 0;
    if (parsed + spaces != bytes || !cJSON_IsObject(*root)) {
        cJSON_Delete(*root);
        *root = NULL;
        return s4_fail(S4_ERROR_FORMAT, "%s: the header is not one JSON object: more follows at its byte %zu", path,
                       parsed + spaces);
    }
    return S4_OK;
}

/* ---- its structure ----------------------------------------------------------------------------------------------- */

static int order_of_pointed_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Keys of the object must differ. */
static s4_status check_keys(const char *path, const cJSON *object)
{
    size_t count = 0;
    const cJSON *item;
    cJSON_ArrayForEach (item, object) count++;
    if (count < 2) return S4_OK;
    const char **names = calloc(count, sizeof *names);
    if (!names) return s4_fail(S4_ERROR_MEMORY, "%s: no memory for %zu names", path, count);
    size_t i = 0;
    cJSON_ArrayForEach (item, object) names[i++] = item->string;
    qsort(names, count, sizeof *names, order_of_pointed_names);
    s4_status status = S4_OK;
    for (i = 1; i < count && !status; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = s4_fail(S4_ERROR_FORMAT, "%s: the header has \"%.100s\" twice", path, names[i]);
    free(names);
    return status;
}

/* A whole number in 0 .. WHOLE_MAX. */
static int take_whole(const cJSON *item, int64_t *value)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= WHOLE_MAX)) return 0;
    *value = (int64_t)item->valuedouble;
    return (double)*value == item->valuedouble;
}

/* The one child of that key. */
static const cJSON *find_once(const cJSON *object, const char *key)
{
    const cJSON *found = NULL, *item;
    cJSON_ArrayForEach (item, object) {
        if (strcmp(item->string, key) != 0) continue;
        if (found) return NULL;
        found = item;
    }
    return found;
}

static s4_status bad_entry(const char *path, const cJSON *entry, const char *what)
{
    return s4_fail(S4_ERROR_FORMAT, "%s: tensor \"%.100s\" %s", path, entry->string, what);
}

/* *count is the number of elements, or -1 if it is beyond WHOLE_MAX. */
static s4_status read_shape(const char *path, const cJSON *entry, tensor *t, int64_t *count)
{
    const cJSON *shape = find_once(entry, "shape"), *item;
    if (!cJSON_IsArray(shape)) return bad_entry(path, entry, "has no (or more than one) shape");
    int64_t product = 1;
    int empty = 0, overflow = 0;
    cJSON_ArrayForEach (item, shape) {
        int64_t size;
        if (!take_whole(item, &size)) return bad_entry(path, entry, "has a size that is no whole number below 2^53");
        if (t->rank < S4_DIMENSIONS_MAX) t->shape[t->rank] = size;
        t->rank++;
        if (size == 0)
            empty = 1;
        else if (product > (int64_t)WHOLE_MAX / size)
            overflow = 1;
        else
            product *= size;
    }
    *count = overflow ? -1 : empty ? 0 : product;
    return S4_OK;
}

static s4_status read_entry(const s4_tensors *file, const cJSON *entry, tensor *t)
{
    const char *path = file->path;
    t->name = entry->string;
    if (!cJSON_IsObject(entry)) return bad_entry(path, entry, "is not described by an object");
    const cJSON *dtype = find_once(entry, "dtype"), *offsets = find_once(entry, "data_offsets");
    if (!cJSON_IsString(dtype)) return bad_entry(path, entry, "has no (or more than one) dtype");
    t->dtype = dtype->valuestring;
    int64_t count = 0;
    S4_TRY(read_shape(path, entry, t, &count));

    const cJSON *first = cJSON_IsArray(offsets) ? offsets->child : NULL;
    const cJSON *second = first ? first->next : NULL;
    if (!second || second->next || !take_whole(first, &t->begin) || !take_whole(second, &t->end))
        return bad_entry(path, entry, "has data_offsets that are not two whole numbers below 2^53");
    if (t->begin > t->end || t->end > file->data_bytes)
        return s4_fail(S4_ERROR_FORMAT,
                       "%s: tensor \"%.100s\" has data_offsets [%lld, %lld], outside the %lld bytes "
                       "of data",
                       path, t->name, (long long)t->begin, (long long)t->end, (long long)file->data_bytes);

    if (count < 0) return bad_entry(path, entry, "has a shape with too large a product");
    int known = find_dtype(t->dtype);
    if (known < 0) return S4_OK;
    int64_t size = dtypes[known].bytes;
    if (count > file->data_bytes / size || count * size != t->end - t->begin)
        return s4_fail(S4_ERROR_FORMAT, "%s: tensor \"%.100s\" has %lld elements of %s in %lld bytes", path, t->name,
                       (long long)count, t->dtype, (long long)(t->end - t->begin));
    return S4_OK;
}

static int order_of_names(const void *left, const void *right)
{
    return strcmp(((const tensor *)left)->name, ((const tensor *)right)->name);
}

static int order_of_data(const void *left, const void *right)
{
    const tensor *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

/* Tensor after tensor, without overlaps and without holes, to the end of the file. */
static s4_status check_layout(s4_tensors *file)
{
    qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, order_of_data);
    int64_t covered = 0;
    for (int64_t i = 0; i < file->count; i++) {
        const tensor *t = &file->tensors[i];
        if (t->begin < covered)
            return s4_fail(S4_ERROR_FORMAT, "%s: the data of tensors \"%.100s\" and \"%.100s\" overlaps", file->path,
                           t[-1].name, t->name);
        if (t->begin > covered)
            return s4_fail(S4_ERROR_FORMAT,
                           "%s: the data before tensor \"%.100s\", bytes %lld to %lld, belongs to no "
                           "tensor",
                           file->path, t->name, (long long)covered, (long long)t->begin);
        covered = t->end;
    }
    if (covered != file->data_bytes)
        return s4_fail(S4_ERROR_FORMAT, "%s: has %lld bytes of data, its tensors have %lld", file->path,
                       (long long)file->data_bytes, (long long)covered);
    return S4_OK;
}

static s4_status read_metadata(s4_tensors *file, const cJSON *metadata)
{
    if (!cJSON_IsObject(metadata)) return s4_fail(S4_ERROR_FORMAT, "%s: " METADATA " is not an object", file->path);
    const cJSON *item;
    cJSON_ArrayForEach (item, metadata) {
        if (!cJSON_IsString(item))
            return s4_fail(S4_ERROR_FORMAT, "%s: " METADATA " \"%.100s\" is not a string", file->path, item->string);
    }
    file->metadata = metadata;
    return check_keys(file->path, metadata);
}

static s4_status read_structure(s4_tensors *file)
{
    S4_TRY(check_keys(file->path, file->root));
    size_t entries = 0;
    const cJSON *item;
    cJSON_ArrayForEach (item, file->root) entries++;
    file->tensors = calloc(entries ? entries : 1, sizeof *file->tensors);
    if (!file->tensors) return s4_fail(S4_ERROR_MEMORY, "%s: no memory for %zu tensors", file->path, entries);
    cJSON_ArrayForEach (item, file->root) {
        if (strcmp(item->string, METADATA) == 0)
            S4_TRY(read_metadata(file, item));
        else
            S4_TRY(read_entry(file, item, &file->tensors[file->count++]));
    }
    S4_TRY(check_layout(file));
    qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, order_of_names);
    return S4_OK;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static s4_status read_header(s4_tensors *file)
{
    int64_t size = file->file.bytes;
    if (size < LENGTH_BYTES)
        return s4_fail(S4_ERROR_FORMAT, "%s: is no safetensors file: it has %lld bytes", file->path, (long long)size);
    unsigned char bytes[LENGTH_BYTES];
    S4_TRY(s4_input_read(&file->file, 0, bytes, LENGTH_BYTES));
    uint64_t length = 0;
    for (int byte = LENGTH_BYTES - 1; byte >= 0; byte--) length = length << 8 | bytes[byte];
    char brace = 0;
    int fits = length <= (uint64_t)(size - LENGTH_BYTES) && length <= HEADER_MAX;
    if (fits && length) S4_TRY(s4_input_read(&file->file, LENGTH_BYTES, &brace, 1));
    /* A length of a header may look like what other files begin with: asked only of what cannot be one. */
    const char *kind = fits && brace == '{' ? NULL : s4_file_kind(bytes, LENGTH_BYTES);
    if (kind) return s4_fail(S4_ERROR_FORMAT, "%s: is %s, where a safetensors file is wanted", file->path, kind);
    if (!fits)
        return s4_fail(S4_ERROR_FORMAT,
                       "%s: is no safetensors file: its first bytes are taken as the length of a header, and %llu is "
                       "beyond the file's %lld bytes or %d",
                       file->path, (unsigned long long)length, (long long)size, HEADER_MAX);
    file->data_begin = LENGTH_BYTES + (int64_t)length;
    file->data_bytes = size - file->data_begin;

    char *text = calloc((size_t)length + PARSER_SLACK, 1);
    if (!text)
        return s4_fail(S4_ERROR_MEMORY, "%s: no memory for a header of %llu bytes", file->path,
                       (unsigned long long)length);
    s4_status status = s4_input_read(&file->file, LENGTH_BYTES, text, (int64_t)length);
    if (!status) status = check_text(file->path, text, (size_t)length);
    if (!status) status = parse_text(file->path, text, (size_t)length, &file->root);
    free(text);
    return status ? status : read_structure(file);
}

s4_status s4_tensors_open(const char *path, s4_tensors **file)
{
    if (!file) return s4_fail(S4_ERROR_ARGUMENT, "s4_tensors_open: file is NULL");
    *file = NULL;
    if (!path) return s4_fail(S4_ERROR_ARGUMENT, "s4_tensors_open: path is NULL");
    s4_tensors *opened = calloc(1, sizeof *opened);
    char *copy = malloc(strlen(path) + 1);
    if (!opened || !copy) {
        free(opened);
        free(copy);
        return s4_fail(S4_ERROR_MEMORY, "%s: no memory to open it", path);
    }
    opened->path = strcpy(copy, path);
    s4_status status = s4_input_open(copy, &opened->file);
    if (!status) status = read_header(opened);
    if (status)
        s4_tensors_close(opened);
    else
        *file = opened;
    return status;
}

void s4_tensors_close(s4_tensors *file)
{
    if (!file) return;
    s4_input_close(&file->file);
    cJSON_Delete(file->root);
    free(file->tensors);
    free(file->path);
    free(file);
}

int64_t s4_tensors_count(const s4_tensors *file) { return file ? file->count : 0; }

const char *s4_tensors_name(const s4_tensors *file, int64_t index)
{
    return index >= 0 && index < s4_tensors_count(file) ? file->tensors[index].name : NULL;
}

const char *s4_tensors_metadata(const s4_tensors *file, const char *key)
{
    if (!file || !file->metadata || !key) return NULL;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(file->metadata, key);
    return item ? item->valuestring : NULL;
}

static const tensor *find_tensor(const s4_tensors *file, const char *name)
{
    tensor wanted = {.name = name};
    if (!file || !name || !file->count) return NULL;
    return bsearch(&wanted, file->tensors, (size_t)file->count, sizeof *file->tensors, order_of_names);
}

int s4_tensors_has(const s4_tensors *file, const char *name) { return find_tensor(file, name) != NULL; }

const char *s4_tensors_list(const s4_tensors *file, char text[S4_TENSOR_LIST_TEXT])
{
    int64_t listed = file->count < LISTED_MAX ? file->count : LISTED_MAX;
    size_t used = (size_t)snprintf(text, S4_TENSOR_LIST_TEXT, "%s", file->count ? "" : "no tensors");
    for (int64_t i = 0; i < listed; i++)
        used +=
            (size_t)snprintf(text + used, S4_TENSOR_LIST_TEXT - used, "%s%.48s", i ? ", " : "", file->tensors[i].name);
    if (file->count > listed)
        (void)snprintf(text + used, S4_TENSOR_LIST_TEXT - used, " and %lld more", (long long)(file->count - listed));
    return text;
}

s4_status s4_tensors_read(s4_tensors *file, const char *name, s4_array **array)
{
    if (!array) return s4_fail(S4_ERROR_ARGUMENT, "s4_tensors_read: array is NULL");
    *array = NULL;
    if (!file || !name) return s4_fail(S4_ERROR_ARGUMENT, "s4_tensors_read: %s is NULL", file ? "name" : "file");
    const tensor *t = find_tensor(file, name);
    if (!t) {
        char names[S4_TENSOR_LIST_TEXT];
        return s4_fail(S4_ERROR_FORMAT, "%s: has no tensor \"%.100s\"; it has %s", file->path, name,
                       s4_tensors_list(file, names));
    }
    int known = find_dtype(t->dtype);
    if (known < 0 || !dtypes[known].readable)
        return s4_fail(S4_ERROR_FORMAT, "%s: tensor \"%.100s\" is of dtype %.20s; F32, F64 and I64 can be read",
                       file->path, name, t->dtype);
    if (t->rank > S4_DIMENSIONS_MAX)
        return s4_fail(S4_ERROR_FORMAT, "%s: tensor \"%.100s\" has %lld dimensions; up to %d can be read", file->path,
                       name, (long long)t->rank, S4_DIMENSIONS_MAX);
    S4_TRY(s4_array_create(dtypes[known].dtype, (int)t->rank, t->shape, array));
    s4_status status = s4_input_read(&file->file, file->data_begin + t->begin, (*array)->data, t->end - t->begin);
    if (status) {
        s4_array_destroy(*array);
        *array = NULL;
    }
    return status;
}
