/*
 * Layers in safetensors files, under the names of published checkpoints. Sizes are read off the shapes: a table gives
 * every tensor's shape in letters, the first tensor with a letter sets its size, and all others must agree.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s4/errors.h"
#include "s4/io.h"
#include "s4/layer.h"
#include "s4/tensor_file.h"

#define DEFAULT_PREFIX "layer."
#define LENGTH_NAME "kernel.l_kernel" /* the length that C belongs to */
#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

/* ---- what a file holds ------------------------------------------------------------------------------------------- */

/* Shapes in the letters of `letters`; digits stand for themselves. Tensors are read in this order. `several`: what it
 * means where dimension `one` is more than 1: layers that exist, but not in this version. */
static const struct parameter {
    s4_parameter which;
    const char *name;
    const char *shape;
    int one;
    const char *several;
} parameters[] = {
    {S4_PARAMETER_INV_DT, "kernel.inv_dt", "H1", 1, "one dt per mode (untied)"},
    {S4_PARAMETER_A_REAL, "kernel.A_real", "Sn", 0, NULL},
    {S4_PARAMETER_A_IMAG, "kernel.A_imag", "Sn", 0, NULL},
    {S4_PARAMETER_B, "kernel.B", "1Sn2", 0, NULL},
    {S4_PARAMETER_P, "kernel.P", "RSn2", 0, NULL},
    {S4_PARAMETER_C, "kernel.C", "1Hn2", 0, "several channels or two directions"},
    {S4_PARAMETER_D, "D", "1H", 0, "several channels"},
};
#define FIRST_NAME "kernel.inv_dt" /* a prefix with this name is taken for a layer */

static const char letters[] = "HSnR";
enum { LETTER_H, LETTER_S, LETTER_N, LETTER_R, LETTER_COUNT };

/* Metadata and the values that this version supports; "" and an absent key always are. */
static const struct {
    const char *key;
    const char *supported[4];
} settings[] = {
    {"mode", {"dplr"}},
    {"disc", {"bilinear"}},
    {"bidirectional", {"0", "false", "False"}},
    {"bandlimit", {NULL}},
};

/* Metadata with the name of a transform, and the default. */
static const struct transform_key {
    const char *key;
    size_t field; /* in s4_layer_options */
    s4_transform absent;
} transforms[] = {
    {"dt_transform", offsetof(s4_layer_options, dt_transform), S4_TRANSFORM_EXP},
    {"real_transform", offsetof(s4_layer_options, real_transform), S4_TRANSFORM_EXP},
    {"imag_transform", offsetof(s4_layer_options, imag_transform), S4_TRANSFORM_NONE},
};
#define TRANSFORM_LAST S4_TRANSFORM_SOFTPLUS

static const struct {
    s4_discretisation discretisation;
    const char *name;
} discretisations[] = {{S4_BILINEAR, "bilinear"}, {S4_ZOH, "zoh"}, {S4_DSS, "dss"}};

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct reading {
    const char *path, *prefix;
    s4_tensors *file;
    char *name;                         /* prefix and room for any name of the tables; see full_name */
    int64_t size[LETTER_COUNT];         /* 0: not known yet */
    s4_array *array[COUNT(parameters)]; /* in the order of the table */
    int64_t length;
    s4_layer_options options;
} reading;

static const char *full_name(reading *r, const char *name)
{
    strcpy(r->name + strlen(r->prefix), name);
    return r->name;
}

static int begins_with(const char *text, const char *start) { return strncmp(text, start, strlen(start)) == 0; }

/* No FIRST_NAME under the prefix: says where there is one. */
static s4_status no_layer(const reading *r)
{
    char found[256];
    size_t used = 0;
    int64_t layers = 0, under_prefix = 0;
    for (int64_t i = 0; i < s4_tensors_count(r->file); i++) {
        const char *name = s4_tensors_name(r->file, i);
        size_t length = strlen(name), last = strlen(FIRST_NAME);
        under_prefix += begins_with(name, r->prefix);
        if (length < last || strcmp(name + length - last, FIRST_NAME) != 0) continue;
        layers++;
        if (used + 64 < sizeof found)
            used += (size_t)snprintf(found + used, sizeof found - used, "%s\"%.*s\"", layers > 1 ? ", " : "",
                                     length - last < 56 ? (int)(length - last) : 56, name);
        else if (used + 4 < sizeof found)
            used += (size_t)snprintf(found + used, sizeof found - used, "...");
    }
    if (layers)
        return s4_fail(S4_ERROR_FORMAT, "%s: has no layer under the prefix \"%.64s\", but %lld elsewhere: %s", r->path,
                       r->prefix, (long long)layers, found);
    if (under_prefix) return s4_fail(S4_ERROR_FORMAT, "%s: has no tensor \"%.80s" FIRST_NAME "\"", r->path, r->prefix);
    return s4_fail(S4_ERROR_FORMAT, "%s: has no tensor under the prefix \"%.64s\" and no " FIRST_NAME " under any",
                   r->path, r->prefix);
}

static s4_status read_settings(const reading *r)
{
    for (int s = 0; s < COUNT(settings); s++) {
        const char *value = s4_tensors_metadata(r->file, settings[s].key);
        if (!value || !value[0]) continue;
        const char *const *supported = settings[s].supported;
        int known = 0;
        for (int v = 0; v < COUNT(settings[s].supported) && supported[v]; v++)
            known |= strcmp(value, supported[v]) == 0;
        if (!known)
            return s4_fail(S4_ERROR_UNSUPPORTED, "%s: metadata %s is \"%.40s\", which is not supported, only %s%s%s",
                           r->path, settings[s].key, value, supported[0] ? "\"" : "an empty one",
                           supported[0] ? supported[0] : "", supported[0] ? "\"" : "");
    }
    return S4_OK;
}

static s4_status read_transforms(reading *r)
{
    r->options.transforms_given = 1;
    for (int k = 0; k < COUNT(transforms); k++) {
        const char *value = s4_tensors_metadata(r->file, transforms[k].key);
        int transform = (int)transforms[k].absent;
        if (value && value[0]) {
            char choices[96] = "";
            for (transform = 0; transform <= TRANSFORM_LAST; transform++) {
                const char *name = s4_transform_name((s4_transform)transform);
                if (strcmp(value, name) == 0) break;
                size_t used = strlen(choices);
                (void)snprintf(choices + used, sizeof choices - used, "%s%s", transform ? ", " : "", name);
            }
            if (transform > TRANSFORM_LAST)
                return s4_fail(S4_ERROR_FORMAT, "%s: metadata %s is \"%.40s\", none of %s", r->path, transforms[k].key,
                               value, choices);
        }
        *(s4_transform *)((char *)&r->options + transforms[k].field) = (s4_transform)transform;
    }
    return S4_OK;
}

/* "(1,4,n,2)": the shape of the table with the sizes known so far. */
static const char *expected_shape(const reading *r, const char *shape, char text[S4_SHAPE_TEXT])
{
    size_t used = 0;
    for (int d = 0; shape[d]; d++) {
        const char *letter = strchr(letters, shape[d]);
        int64_t size = letter ? r->size[letter - letters] : shape[d] - '0';
        const char *before = d ? "," : "(";
        used += (size_t)(size ? snprintf(text + used, S4_SHAPE_TEXT - used, "%s%" PRId64, before, size)
                              : snprintf(text + used, S4_SHAPE_TEXT - used, "%s%c", before, shape[d]));
    }
    (void)snprintf(text + used, S4_SHAPE_TEXT - used, ")");
    return text;
}

/* Compares the shape with the table's, and takes sizes that were not known. */
static s4_status check_shape(reading *r, const struct parameter *p, const s4_array *array)
{
    char found[S4_SHAPE_TEXT], expected[S4_SHAPE_TEXT];
    (void)s4_shape_text(array->rank, array->shape, found);
    (void)expected_shape(r, p->shape, expected);

    int fits = array->rank == (int)strlen(p->shape);
    if (fits && p->several && array->shape[p->one] > 1)
        return s4_fail(S4_ERROR_UNSUPPORTED, "%s: tensor \"%.100s\" has shape %s: %s, which is not supported, only %s",
                       r->path, full_name(r, p->name), found, p->several, expected);
    for (int d = 0; fits && p->shape[d]; d++) {
        const char *letter = strchr(letters, p->shape[d]);
        int64_t *size = letter ? &r->size[letter - letters] : NULL;
        if (size && *size == 0) *size = array->shape[d];
        fits = array->shape[d] >= 1 && array->shape[d] == (size ? *size : p->shape[d] - '0');
    }
    if (!fits)
        return s4_fail(S4_ERROR_FORMAT, "%s: tensor \"%.100s\" has shape %s, expected %s", r->path,
                       full_name(r, p->name), found, expected);
    return S4_OK;
}

static s4_status read_parameter(reading *r, const struct parameter *p, s4_array **array)
{
    const char *name = full_name(r, p->name);
    if (!s4_tensors_has(r->file, name)) {
        if (p->which == S4_PARAMETER_P)
            return s4_fail(S4_ERROR_UNSUPPORTED,
                           "%s: has no tensor \"%.100s\": this looks like a diagonal layer, "
                           "which is not supported",
                           r->path, name);
        return s4_fail(S4_ERROR_FORMAT, "%s: has no tensor \"%.100s\"", r->path, name);
    }
    S4_TRY(s4_tensors_read(r->file, name, array));
    if ((*array)->dtype == S4_I64)
        return s4_fail(S4_ERROR_FORMAT, "%s: tensor \"%.100s\" is of dtype I64, expected F32 or F64", r->path, name);
    S4_TRY(check_shape(r, p, *array));
    return s4_array_convert(*array, S4_F64);
}

/* Absent means plain C. */
static s4_status read_length(reading *r)
{
    const char *name = full_name(r, LENGTH_NAME);
    if (!s4_tensors_has(r->file, name)) return S4_OK;
    s4_array *array;
    S4_TRY(s4_tensors_read(r->file, name, &array));
    char shape[S4_SHAPE_TEXT];
    s4_status status = S4_OK;
    if (array->dtype != S4_I64 || array->rank != 0)
        status = s4_fail(S4_ERROR_FORMAT, "%s: tensor \"%.100s\" has dtype %s and shape %s, expected i64 and ()",
                         r->path, name, s4_dtype_name(array->dtype), s4_shape_text(array->rank, array->shape, shape));
    else
        memcpy(&r->length, array->data, sizeof r->length);
    s4_array_destroy(array);
    if (!status && r->length < 0)
        status = s4_fail(S4_ERROR_FORMAT, "%s: tensor \"%.100s\" is %" PRId64 ", expected a length, or 0 for plain C",
                         r->path, name, r->length);
    return status;
}

/* What the letters must satisfy among themselves. */
static s4_status check_sizes(reading *r)
{
    const int64_t *size = r->size;
    if (size[LETTER_H] % size[LETTER_S] != 0)
        return s4_fail(S4_ERROR_FORMAT,
                       "%s: \"%.80skernel.A_real\" has %" PRId64 " copies, which do not "
                       "divide the %" PRId64 " channels of \"%.80s" FIRST_NAME "\"",
                       r->path, r->prefix, size[LETTER_S], size[LETTER_H], r->prefix);
    if (size[LETTER_R] > S4_RANK_MAX)
        return s4_fail(S4_ERROR_UNSUPPORTED, "%s: \"%.80skernel.P\" has rank %" PRId64 ", at most %d is supported",
                       r->path, r->prefix, size[LETTER_R], S4_RANK_MAX);
    return S4_OK;
}

static s4_status fill_layer(const reading *r, s4_layer *layer)
{
    for (int i = 0; i < COUNT(parameters); i++) {
        s4_parameter_view view;
        S4_TRY(s4_layer_parameter(layer, parameters[i].which, &view));
        if (view.count != r->array[i]->count)
            return s4_fail(S4_ERROR_FORMAT, "%s: tensor \"%.80s%s\" has %lld elements, the layer has %lld", r->path,
                           r->prefix, parameters[i].name, (long long)r->array[i]->count, (long long)view.count);
        memcpy(view.data, r->array[i]->data, (size_t)view.count * sizeof *view.data);
    }
    S4_TRY(s4_layer_changed(layer, S4_PARAMETER_ALL));
    return s4_layer_set_length(layer, r->length);
}

static s4_status read_layer(reading *r, s4_layer **layer)
{
    if (!s4_tensors_has(r->file, full_name(r, FIRST_NAME))) return no_layer(r);
    S4_TRY(read_settings(r));
    S4_TRY(read_transforms(r));
    for (int i = 0; i < COUNT(parameters); i++) S4_TRY(read_parameter(r, &parameters[i], &r->array[i]));
    S4_TRY(check_sizes(r));
    S4_TRY(read_length(r));

    r->options.mode = S4_MODE_DPLR;
    r->options.discretisation = S4_BILINEAR;
    r->options.channels = 1;
    r->options.d_model = r->size[LETTER_H];
    r->options.d_state = 2 * r->size[LETTER_N];
    r->options.n_ssm = r->size[LETTER_S];
    r->options.rank = r->size[LETTER_R];
    s4_layer *created;
    s4_status status = s4_layer_create(&r->options, &created);
    if (status == S4_ERROR_ARGUMENT) /* sizes that fit each other, but beyond what a layer may have */
        return s4_fail(S4_ERROR_UNSUPPORTED, "%s: %s", r->path, s4_last_error());
    S4_TRY(status);
    status = fill_layer(r, created);
    if (status)
        s4_layer_destroy(created);
    else
        *layer = created;
    return status;
}

/* New string for the prefix and any name of the tables. */
static char *name_room(const char *prefix)
{
    size_t longest = strlen(LENGTH_NAME);
    for (int i = 0; i < COUNT(parameters); i++)
        if (strlen(parameters[i].name) > longest) longest = strlen(parameters[i].name);
    char *name = malloc(strlen(prefix) + longest + 1);
    if (name) strcpy(name, prefix);
    return name;
}

s4_status s4_layer_load(const char *path, const char *prefix, s4_layer **layer)
{
    if (!layer) return s4_fail(S4_ERROR_ARGUMENT, "s4_layer_load: layer is NULL");
    *layer = NULL;
    if (!path) return s4_fail(S4_ERROR_ARGUMENT, "s4_layer_load: path is NULL");

    reading r = {.path = path, .prefix = prefix ? prefix : DEFAULT_PREFIX};
    S4_INIT(&r.options);
    S4_TRY(s4_tensors_open(path, &r.file));
    r.name = name_room(r.prefix);
    s4_status status = r.name ? read_layer(&r, layer) : s4_fail(S4_ERROR_MEMORY, "%s: no memory for a name", path);
    for (int i = 0; i < COUNT(parameters); i++) s4_array_destroy(r.array[i]);
    free(r.name);
    s4_tensors_close(r.file);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

#define NUMBERS_MAX 8

typedef struct writing {
    s4_metadata_entry metadata[NUMBERS_MAX + COUNT(transforms) + 2];
    char numbers[NUMBERS_MAX][24];
    int metadata_count, number_count;
    s4_array arrays[COUNT(parameters) + 1];
    char *names[COUNT(parameters) + 1];
    s4_named_array tensors[COUNT(parameters) + 1];
} writing;

static void add_text(writing *w, const char *key, const char *value)
{
    w->metadata[w->metadata_count++] = (s4_metadata_entry){key, value};
}

static void add_number(writing *w, const char *key, int64_t number)
{
    char *text = w->numbers[w->number_count++];
    (void)snprintf(text, sizeof w->numbers[0], "%" PRId64, number);
    add_text(w, key, text);
}

static void describe(writing *w, const s4_layer_options *options)
{
    add_text(w, "mode", s4_mode_name(options->mode));
    add_number(w, "d_model", options->d_model);
    add_number(w, "d_state", options->d_state);
    add_number(w, "rank", options->rank);
    add_number(w, "n_ssm", options->n_ssm);
    add_number(w, "channels", options->channels);
    for (int i = 0; i < COUNT(discretisations); i++)
        if (discretisations[i].discretisation == options->discretisation) add_text(w, "disc", discretisations[i].name);
    for (int k = 0; k < COUNT(transforms); k++)
        add_text(w, transforms[k].key,
                 s4_transform_name(*(const s4_transform *)((const char *)options + transforms[k].field)));
}

static s4_status add_tensor(writing *w, int i, const char *prefix, const char *name, s4_array array)
{
    w->names[i] = name_room(prefix);
    if (!w->names[i]) return s4_fail(S4_ERROR_MEMORY, "no memory for the name of a tensor");
    strcpy(w->names[i] + strlen(prefix), name);
    w->arrays[i] = array;
    w->tensors[i] = (s4_named_array){w->names[i], &w->arrays[i]};
    return S4_OK;
}

static s4_status write_layer(writing *w, const s4_layer *layer, const char *path, const char *prefix)
{
    s4_layer_options options;
    S4_INIT(&options);
    S4_TRY(s4_layer_describe(layer, &options));
    describe(w, &options);
    for (int i = 0; i < COUNT(parameters); i++) {
        s4_parameter_view view;
        S4_TRY(s4_layer_parameter((s4_layer *)layer, parameters[i].which, &view)); /* only read */
        s4_array array = {.dtype = S4_F64, .rank = view.rank, .count = view.count, .data = view.data};
        for (int d = 0; d < view.rank; d++) array.shape[d] = view.shape[d];
        S4_TRY(add_tensor(w, i, prefix, parameters[i].name, array));
    }
    int64_t length = s4_layer_length(layer);
    s4_array scalar = {.dtype = S4_I64, .count = 1, .data = &length};
    S4_TRY(add_tensor(w, COUNT(parameters), prefix, LENGTH_NAME, scalar));
    return s4_tensors_write(path, w->metadata, w->metadata_count, w->tensors, COUNT(w->tensors));
}

s4_status s4_layer_save(const s4_layer *layer, const char *path, const char *prefix)
{
    if (!layer || !path) return s4_fail(S4_ERROR_ARGUMENT, "s4_layer_save: %s is NULL", layer ? "path" : "layer");
    writing w = {0};
    s4_status status = write_layer(&w, layer, path, prefix ? prefix : DEFAULT_PREFIX);
    for (int i = 0; i < COUNT(w.names); i++) free(w.names[i]);
    return status;
}
