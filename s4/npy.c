/*
 * .npy files: magic, version, length of the header, a Python dict in ASCII, the data.
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s4/atomic_file.h"
#include "s4/errors.h"
#include "s4/tensor_file.h"

static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

#define ALIGNMENT 64         /* the data of a written file begins at a multiple of this */
#define HEADER_MAX (1 << 20) /* far beyond what three keys and S4_DIMENSIONS_MAX sizes need */

/* Version of the format -> bytes of the field that holds the header's length. */
static const struct {
    unsigned char major, minor;
    int length_bytes;
} versions[] = {{1, 0, 2}, {2, 0, 4}, {3, 0, 4}};

static const struct {
    const char *descr;
    s4_dtype dtype;
} descrs[] = {{"<f4", S4_F32}, {"<f8", S4_F64}};

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

/* ---- the header -------------------------------------------------------------------------------------------------- */

typedef struct header {
    const char *path;
    const char *at, *end; /* what is not parsed yet */
    int seen[3];          /* keys */
    s4_dtype dtype;
    int fortran_order;
    int rank;
    int64_t shape[S4_DIMENSIONS_MAX];
} header;

static void skip_space(header *h)
{
    while (h->at < h->end && memchr(" \t\r\n", *h->at, 4)) h->at++;
}

/* Takes the text if it comes next. */
static int take(header *h, const char *text)
{
    skip_space(h);
    size_t length = strlen(text);
    if ((size_t)(h->end - h->at) < length || memcmp(h->at, text, length) != 0) return 0;
    h->at += length;
    return 1;
}

static s4_status unexpected(const header *h, const char *expected)
{
    int rest = h->end - h->at < 24 ? (int)(h->end - h->at) : 24;
    return s4_fail(S4_ERROR_FORMAT, "%s: header has \"%.*s\" where %s should be", h->path, rest, h->at, expected);
}

/* A string without escapes, in either kind of quotes. */
static s4_status take_string(header *h, const char *expected, const char **text, int *length)
{
    skip_space(h);
    if (h->at == h->end || (*h->at != '\'' && *h->at != '"')) return unexpected(h, expected);
    const char *close = memchr(h->at + 1, *h->at, (size_t)(h->end - h->at - 1));
    if (!close || memchr(h->at, '\\', (size_t)(close - h->at))) return unexpected(h, expected);
    *text = h->at + 1;
    *length = (int)(close - h->at - 1);
    h->at = close + 1;
    return S4_OK;
}

static s4_status parse_descr(header *h)
{
    const char *text;
    int length;
    S4_TRY(take_string(h, "a plain descr such as '<f4'", &text, &length));
    for (int i = 0; i < COUNT(descrs); i++)
        if (strlen(descrs[i].descr) == (size_t)length && memcmp(descrs[i].descr, text, (size_t)length) == 0) {
            h->dtype = descrs[i].dtype;
            return S4_OK;
        }
    return s4_fail(S4_ERROR_FORMAT, "%s: descr is '%.*s', only '<f4' and '<f8' are supported", h->path,
                   length < 40 ? length : 40, text);
}

static s4_status parse_fortran_order(header *h)
{
    if (take(h, "False"))
        h->fortran_order = 0;
    else if (take(h, "True"))
        h->fortran_order = 1;
    else
        return unexpected(h, "True or False of fortran_order");
    return S4_OK;
}

static s4_status parse_size(header *h, int64_t *size)
{
    skip_space(h);
    if (h->at == h->end || *h->at < '0' || *h->at > '9') return unexpected(h, "a size of the shape");
    *size = 0;
    for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++) {
        int digit = *h->at - '0';
        if (*size > (INT64_MAX - digit) / 10)
            return s4_fail(S4_ERROR_FORMAT, "%s: a size of the shape is beyond 64 bits", h->path);
        *size = *size * 10 + digit;
    }
    (void)take(h, "L"); /* Python 2 wrote 3L */
    return S4_OK;
}

/* (), (3,), (3, 4) or (3, 4,) */
static s4_status parse_shape(header *h)
{
    if (!take(h, "(")) return unexpected(h, "the '(' of shape");
    int comma = 1;
    while (!take(h, ")")) {
        if (!comma) return unexpected(h, "a ',' or the ')' of shape");
        if (h->rank == S4_DIMENSIONS_MAX)
            return s4_fail(S4_ERROR_FORMAT, "%s: has more than %d dimensions", h->path, S4_DIMENSIONS_MAX);
        S4_TRY(parse_size(h, &h->shape[h->rank]));
        h->rank++;
        comma = take(h, ",");
    }
    if (h->rank == 1 && !comma) return unexpected(h, "a tuple as shape");
    return S4_OK;
}

static const struct {
    const char *name;
    s4_status (*parse)(header *h);
} keys[] = {{"descr", parse_descr}, {"fortran_order", parse_fortran_order}, {"shape", parse_shape}};

static s4_status parse_entry(header *h)
{
    const char *text;
    int length;
    S4_TRY(take_string(h, "a key", &text, &length));
    for (int k = 0; k < COUNT(keys); k++) {
        if (strlen(keys[k].name) != (size_t)length || memcmp(keys[k].name, text, (size_t)length) != 0) continue;
        if (h->seen[k]++) return s4_fail(S4_ERROR_FORMAT, "%s: header has %s twice", h->path, keys[k].name);
        if (!take(h, ":")) return unexpected(h, "':'");
        return keys[k].parse(h);
    }
    return s4_fail(S4_ERROR_FORMAT, "%s: header has the unknown key \"%.*s\"", h->path, length < 40 ? length : 40,
                   text);
}

static s4_status parse_header(header *h)
{
    if (!take(h, "{")) return unexpected(h, "'{'");
    int comma = 1;
    while (!take(h, "}")) {
        if (!comma) return unexpected(h, "',' or '}'");
        S4_TRY(parse_entry(h));
        comma = take(h, ",");
    }
    skip_space(h);
    if (h->at != h->end) return unexpected(h, "its end");
    for (int k = 0; k < COUNT(keys); k++)
        if (!h->seen[k]) return s4_fail(S4_ERROR_FORMAT, "%s: header has no %s", h->path, keys[k].name);
    if (h->fortran_order && h->rank > 1)
        return s4_fail(S4_ERROR_FORMAT, "%s: is in Fortran order, only C order is supported", h->path);
    return S4_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Position and length of the header's text. */
static s4_status find_header(const s4_input_file *file, int64_t *begin, int64_t *length)
{
    unsigned char start[12] = {0};
    int64_t fixed = (int64_t)sizeof magic + 2;
    S4_TRY(s4_input_read(file, 0, start, file->bytes < 12 ? file->bytes : 12));
    if (file->bytes < fixed || memcmp(start, magic, sizeof magic) != 0)
        return s4_fail(S4_ERROR_FORMAT, "%s: is not a .npy file", file->path);
    int length_bytes = 0;
    for (int v = 0; v < COUNT(versions); v++)
        if (versions[v].major == start[6] && versions[v].minor == start[7]) length_bytes = versions[v].length_bytes;
    if (!length_bytes)
        return s4_fail(S4_ERROR_FORMAT, "%s: is of .npy version %d.%d, only 1.0, 2.0 and 3.0 are supported", file->path,
                       start[6], start[7]);
    *begin = fixed + length_bytes;
    *length = 0;
    for (int byte = length_bytes - 1; byte >= 0; byte--) *length = *length * 256 + start[fixed + byte];
    if (*begin > file->bytes || *length > file->bytes - *begin || *length > HEADER_MAX)
        return s4_fail(S4_ERROR_FORMAT, "%s: a header of %lld bytes is beyond the file's %lld bytes or %d", file->path,
                       (long long)*length, (long long)file->bytes, HEADER_MAX);
    return S4_OK;
}

static s4_status read_data(const s4_input_file *file, const header *h, int64_t begin, s4_array **array)
{
    size_t size = s4_dtype_size(h->dtype);
    int64_t count = s4_shape_count(h->rank, h->shape, size);
    char shape[S4_SHAPE_TEXT];
    if (count < 0)
        return s4_fail(S4_ERROR_FORMAT, "%s: shape %s is too large", file->path,
                       s4_shape_text(h->rank, h->shape, shape));
    int64_t needed = count * (int64_t)size, present = file->bytes - begin;
    if (needed != present)
        return s4_fail(S4_ERROR_FORMAT, "%s: has %lld bytes of data, shape %s of %s needs %lld", file->path,
                       (long long)present, s4_shape_text(h->rank, h->shape, shape), s4_dtype_name(h->dtype),
                       (long long)needed);
    S4_TRY(s4_array_create(h->dtype, h->rank, h->shape, array));
    s4_status status = s4_input_read(file, begin, (*array)->data, needed);
    if (status) {
        s4_array_destroy(*array);
        *array = NULL;
    }
    return status;
}

static s4_status read_open_file(const s4_input_file *file, s4_array **array)
{
    int64_t begin = 0, length = 0;
    S4_TRY(find_header(file, &begin, &length));
    char *text = malloc((size_t)length + 1);
    if (!text)
        return s4_fail(S4_ERROR_MEMORY, "%s: no memory for a header of %lld bytes", file->path, (long long)length);
    header h = {.path = file->path, .at = text, .end = text + length};
    s4_status status = s4_input_read(file, begin, text, length);
    if (!status) status = parse_header(&h);
    free(text);
    return status ? status : read_data(file, &h, begin + length, array);
}

s4_status s4_npy_read(const char *path, s4_array **array)
{
    s4_input_file file;
    S4_TRY(s4_input_open(path, &file));
    s4_status status = read_open_file(&file, array);
    s4_input_close(&file);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Version 1.0, padded with spaces. Returns the bytes before the data. */
static int64_t format_start(const s4_array *array, const char *descr, char start[4 * ALIGNMENT + S4_SHAPE_TEXT])
{
    const size_t fixed = sizeof magic + 4;
    char *text = start + fixed;
    size_t room = 4 * ALIGNMENT + S4_SHAPE_TEXT - fixed;
    size_t used = (size_t)snprintf(text, room, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int d = 0; d < array->rank; d++)
        used += (size_t)snprintf(text + used, room - used, "%lld,", (long long)array->shape[d]);
    used += (size_t)snprintf(text + used, room - used, "), }");
    while ((fixed + used + 1) % ALIGNMENT) text[used++] = ' ';
    text[used++] = '\n';

    memcpy(start, magic, sizeof magic);
    start[6] = 1;
    start[7] = 0;
    start[8] = (char)(used & 0xff);
    start[9] = (char)(used >> 8);
    return (int64_t)(fixed + used);
}

s4_status s4_array_write_npy(const char *path, const s4_array *array)
{
    if (!path) return s4_fail(S4_ERROR_ARGUMENT, "s4_array_write_npy: path is NULL");
    S4_TRY(s4_array_check(array, path));
    const char *descr = NULL;
    for (int i = 0; i < COUNT(descrs); i++)
        if (descrs[i].dtype == array->dtype) descr = descrs[i].descr;
    if (!descr)
        return s4_fail(S4_ERROR_UNSUPPORTED, "%s: %s cannot be written to .npy, only f32 and f64", path,
                       s4_dtype_name(array->dtype));

    char start[4 * ALIGNMENT + S4_SHAPE_TEXT];
    int64_t start_bytes = format_start(array, descr, start);
    s4_atomic_file file;
    S4_TRY(s4_atomic_open(path, &file));
    S4_TRY(s4_atomic_write(&file, start, start_bytes));
    S4_TRY(s4_atomic_write(&file, array->data, array->count * (int64_t)s4_dtype_size(array->dtype)));
    return s4_atomic_commit(&file);
}
