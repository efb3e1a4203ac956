/*
 * Layers from safetensors files, under the names of checkpoints. Sizes are read off the shapes: every tensor's shape is
 * given in letters, the first tensor with a letter sets its size, and all others must agree.
 */
#include "s4/layer_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s4/errors.h"
#include "s4/tensor_file.h"

#define NAME_ROOM 48 /* for any folder and name of the lists */
#define RELU_SHIFT 1e-4

static const char letters[] = "HSnRKM";
enum { LETTER_H, LETTER_S, LETTER_N, LETTER_R, LETTER_K, LETTER_M, LETTER_COUNT };

/* C after D: the skip and the directions tell how many kernels there must be. Lambda first: it has the modes. */
static const s4_parameter order[S4_PARAMETER_COUNT] = {S4_PARAMETER_A_REAL, S4_PARAMETER_A_IMAG, S4_PARAMETER_INV_DT,
                                                       S4_PARAMETER_B,      S4_PARAMETER_P,      S4_PARAMETER_D,
                                                       S4_PARAMETER_C};

typedef struct reading {
    const char *path, *prefix;
    s4_tensors *file;
    const s4_layer_names *names;
    char *name;                          /* room for a full name; see full_name */
    int64_t size[LETTER_COUNT];          /* 0: not known yet */
    s4_array *array[S4_PARAMETER_COUNT]; /* NULL: not in the file */
    int64_t length;
    s4_layer_settings settings;
} reading;

/* ---- which kind of file ------------------------------------------------------------------------------------------ */

static const char *join(reading *r, const char *folder, const char *name)
{
    (void)snprintf(r->name, strlen(r->prefix) + NAME_ROOM, "%s%s%s", r->prefix, folder, name);
    return r->name;
}

static const char *full_name(reading *r, s4_parameter which)
{
    return join(r, which == S4_PARAMETER_D ? "" : r->names->folder, r->names->tensor[which].name);
}

static int recognise(reading *r)
{
    for (int k = 0; k < s4_layer_name_count && !r->names; k++)
        if (s4_tensors_has(r->file, join(r, s4_layer_name_list[k].folder, s4_layer_name_list[k].sign)))
            r->names = &s4_layer_name_list[k];
    return r->names != NULL;
}

/* Length of the prefix if the tensor is the sign of a layer, else -1. */
static int64_t prefix_before_sign(const char *tensor)
{
    for (int k = 0; k < s4_layer_name_count; k++) {
        char end[NAME_ROOM];
        (void)snprintf(end, sizeof end, "%s%s", s4_layer_name_list[k].folder, s4_layer_name_list[k].sign);
        if (s4_ends_with(tensor, end)) return (int64_t)(strlen(tensor) - strlen(end));
    }
    return -1;
}

/* Says where there are layers. */
static s4_status no_layer(reading *r)
{
    char found[256];
    size_t used = 0;
    int64_t layers = 0, under_prefix = 0;
    for (int64_t i = 0; i < s4_tensors_count(r->file); i++) {
        const char *name = s4_tensors_name(r->file, i);
        under_prefix += strncmp(name, r->prefix, strlen(r->prefix)) == 0;
        int64_t prefix = prefix_before_sign(name);
        if (prefix < 0) continue;
        layers++;
        if (used + 64 < sizeof found)
            used += (size_t)snprintf(found + used, sizeof found - used, "%s\"%.*s\"", layers > 1 ? ", " : "",
                                     prefix < 56 ? (int)prefix : 56, name);
        else if (used + 4 < sizeof found)
            used += (size_t)snprintf(found + used, sizeof found - used, "...");
    }
    if (layers)
        return s4_fail(S4_ERROR_FORMAT, "%s: has no layer under the prefix \"%.64s\", but %lld elsewhere: %s", r->path,
                       r->prefix, (long long)layers, found);
    if (under_prefix) return s4_fail(S4_ERROR_FORMAT, "%s: has no tensor \"%.80skernel.inv_dt\"", r->path, r->prefix);
    return s4_fail(S4_ERROR_FORMAT, "%s: has no tensor under the prefix \"%.64s\" and no kernel.inv_dt under any",
                   r->path, r->prefix);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* Size that a letter stands for; NULL for a digit. */
static int64_t *size_of(reading *r, char letter)
{
    const char *at = strchr(letters, letter);
    return at ? &r->size[at - letters] : NULL;
}

/* "(1,4,n,2) or (4,n,2)": the shapes of the table with the sizes known so far. */
#define EXPECTED_TEXT (2 * S4_SHAPE_TEXT)
static const char *expected_shape(reading *r, const char *shape, char text[EXPECTED_TEXT])
{
    size_t used = (size_t)snprintf(text, EXPECTED_TEXT, "(");
    const char *before = "";
    for (; *shape; shape++) {
        if (*shape == '|') {
            used += (size_t)snprintf(text + used, EXPECTED_TEXT - used, ") or (");
            before = "";
            continue;
        }
        const int64_t *size = size_of(r, *shape);
        if (size && *size)
            used += (size_t)snprintf(text + used, EXPECTED_TEXT - used, "%s%" PRId64, before, *size);
        else
            used += (size_t)snprintf(text + used, EXPECTED_TEXT - used, "%s%c", before, *shape);
        before = ",";
    }
    (void)snprintf(text + used, EXPECTED_TEXT - used, ")");
    return text;
}

/* One alternative, `dimensions` characters. */
static int fits(reading *r, const char *shape, int dimensions, const s4_array *array)
{
    if (array->rank != dimensions) return 0;
    for (int d = 0; d < dimensions; d++) {
        const int64_t *size = size_of(r, shape[d]);
        int64_t wanted = size ? *size : shape[d] - '0';
        if (array->shape[d] < 1 || (wanted && array->shape[d] != wanted)) return 0;
    }
    return 1;
}

/* Compares the shape with the table's, and takes sizes that were not known. */
static s4_status check_shape(reading *r, s4_parameter which, const s4_array *array)
{
    const char *table = r->names->tensor[which].shape;
    for (const char *shape = table; *shape;) {
        int dimensions = (int)strcspn(shape, "|");
        if (fits(r, shape, dimensions, array)) {
            for (int d = 0; d < dimensions; d++)
                if (size_of(r, shape[d])) *size_of(r, shape[d]) = array->shape[d];
            return S4_OK;
        }
        shape += dimensions + (shape[dimensions] == '|');
    }
    char found[S4_SHAPE_TEXT], expected[EXPECTED_TEXT];
    int other = which == S4_PARAMETER_C && array->rank == 4 && r->settings.options.bidirectional == 0 &&
                array->shape[0] == 2 * r->size[LETTER_K];
    return s4_fail(S4_ERROR_FORMAT, "%s: tensor \"%.100s\" has shape %s, expected %s%s", r->path, full_name(r, which),
                   s4_shape_text(array->rank, array->shape, found), expected_shape(r, table, expected),
                   other ? ": is the layer bidirectional, which nothing says?" : "");
}

/* What the letters must satisfy among themselves. */
static s4_status check_sizes(reading *r)
{
    const int64_t *size = r->size;
    if (size[LETTER_S] && size[LETTER_H] % size[LETTER_S] != 0)
        return s4_fail(S4_ERROR_FORMAT,
                       "%s: \"%.100s\" has %" PRId64 " copies, which do not divide the %" PRId64
                       " channels of the step sizes",
                       r->path, full_name(r, S4_PARAMETER_A_REAL), size[LETTER_S], size[LETTER_H]);
    if (size[LETTER_R] > S4_RANK_MAX)
        return s4_fail(S4_ERROR_UNSUPPORTED, "%s: \"%.100s\" has rank %" PRId64 ", at most %d is supported", r->path,
                       full_name(r, S4_PARAMETER_P), size[LETTER_R], S4_RANK_MAX);
    return S4_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static s4_status read_parameter(reading *r, s4_parameter which)
{
    const struct s4_layer_tensor *tensor = &r->names->tensor[which];
    if (!tensor->name) return S4_OK;
    const char *name = full_name(r, which);
    if (!s4_tensors_has(r->file, name)) {
        if (tensor->absent != S4_ABSENT_ERROR) return S4_OK;
        return s4_fail(S4_ERROR_FORMAT, "%s: has no tensor \"%.100s\"", r->path, name);
    }
    s4_array **array = &r->array[which];
    S4_TRY(s4_tensors_read(r->file, name, array));
    if ((*array)->dtype == S4_I64)
        return s4_fail(S4_ERROR_FORMAT, "%s: tensor \"%.100s\" is of dtype I64, expected F32 or F64", r->path, name);
    S4_TRY(check_shape(r, which, *array));
    return s4_array_convert(*array, S4_F64);
}

static s4_status read_parameters(reading *r)
{
    r->size[LETTER_M] = 0;
    for (int i = 0; i < S4_PARAMETER_COUNT; i++) {
        if (order[i] == S4_PARAMETER_C) {
            if (!r->size[LETTER_M]) r->size[LETTER_M] = 1; /* a skip without that dimension, or none */
            r->size[LETTER_K] = r->size[LETTER_M] * (r->settings.options.bidirectional ? 2 : 1);
        }
        S4_TRY(read_parameter(r, order[i]));
    }
    return check_sizes(r);
}

/* Absent means plain C. */
static s4_status read_length(reading *r)
{
    if (!r->names->length) return S4_OK;
    const char *name = join(r, r->names->folder, r->names->length);
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
    if (!status && r->length && !r->array[S4_PARAMETER_P])
        status = s4_fail(S4_ERROR_FORMAT,
                         "%s: tensor \"%.100s\" is %" PRId64 ", but without \"P\" the layer is diagonal, with plain C",
                         r->path, name, r->length);
    return status;
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

/* A setting that does not fit the tensors: the caller's mistake, or the file's. */
static s4_status misfit(const reading *r, s4_setting setting, const char *why)
{
    char text[S4_SETTING_TEXT];
    int caller = r->settings.in_overrides >> setting & 1;
    return s4_fail(caller ? S4_ERROR_ARGUMENT : S4_ERROR_FORMAT, "%s: %s %s is \"%s\", %s", r->path,
                   caller ? "override" : "metadata", s4_setting_key(setting),
                   s4_setting_value(setting, &r->settings.options, text), why);
}

/* Older files leave no choice in some settings. */
static s4_status check_fixed(const reading *r)
{
    s4_layer_settings fresh;
    S4_TRY(s4_layer_settings_override(NULL, &fresh));
    for (int s = 0; s < S4_SETTING_COUNT; s++) {
        char found[S4_SETTING_TEXT], fixed[S4_SETTING_TEXT], why[96];
        if (!(r->names->fixed >> s & 1)) continue;
        const char *expected = s4_setting_value((s4_setting)s, &fresh.options, fixed);
        if (strcmp(s4_setting_value((s4_setting)s, &r->settings.options, found), expected) == 0) continue;
        (void)snprintf(why, sizeof why, "in files with \"%s\" it is always \"%s\"", r->names->sign, expected);
        return misfit(r, (s4_setting)s, why);
    }
    return S4_OK;
}

static s4_status settle(reading *r)
{
    s4_layer_options *o = &r->settings.options;
    unsigned given = r->settings.in_file | r->settings.in_overrides;
    s4_mode mode = r->array[S4_PARAMETER_P] ? S4_MODE_DPLR : S4_MODE_DIAG;
    if (given >> S4_SETTING_MODE & 1 && o->mode != mode)
        return misfit(r, S4_SETTING_MODE,
                      mode == S4_MODE_DPLR ? "but there is a tensor P" : "but there is no tensor P");
    o->mode = mode;
    if (!(given >> S4_SETTING_DISC & 1)) o->discretisation = mode == S4_MODE_DIAG ? S4_ZOH : S4_BILINEAR;
    o->d_model = r->size[LETTER_H];
    o->d_state = 2 * r->size[LETTER_N];
    o->n_ssm = r->size[LETTER_S];
    o->rank = r->size[LETTER_R];
    o->channels = r->size[LETTER_M];
    const s4_array *dt = r->array[S4_PARAMETER_INV_DT];
    int64_t steps = dt->rank == 2 ? dt->shape[1] : 1;
    o->dt_untied = steps > 1 || (steps == r->size[LETTER_N] && o->dt_untied);
    return S4_OK;
}

/* ---- the layer --------------------------------------------------------------------------------------------------- */

/* From the sign and the relu of the file's kind to those of a layer. */
static void convert(const reading *r, s4_parameter which, s4_parameter_view *view)
{
    if (which == S4_PARAMETER_A_IMAG && r->names->imag_negative)
        for (int64_t i = 0; i < view->count; i++) view->data[i] = 0 - view->data[i];
    if (which == S4_PARAMETER_A_REAL && r->names->relu_bare && r->settings.options.real_transform == S4_TRANSFORM_RELU)
        for (int64_t i = 0; i < view->count; i++) view->data[i] -= RELU_SHIFT;
}

static s4_status fill_layer(const reading *r, s4_layer *layer)
{
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        const s4_array *array = r->array[p];
        s4_parameter_view view;
        S4_TRY(s4_layer_parameter(layer, (s4_parameter)p, &view));
        if (!array && r->names->tensor[p].absent == S4_ABSENT_ONES)
            for (int64_t i = 0; i < view.count; i += 2) view.data[i] = 1; /* real parts */
        if (!array) continue;
        if (view.count != array->count)
            return s4_fail(S4_ERROR_FORMAT, "%s: tensor \"%.80s%s%s\" has %lld elements, the layer has %lld", r->path,
                           r->prefix, p == S4_PARAMETER_D ? "" : r->names->folder, r->names->tensor[p].name,
                           (long long)array->count, (long long)view.count);
        memcpy(view.data, array->data, (size_t)view.count * sizeof *view.data);
        convert(r, (s4_parameter)p, &view);
    }
    S4_TRY(s4_layer_changed(layer, S4_PARAMETER_ALL));
    return s4_layer_set_length(layer, r->length);
}

static s4_status read_layer(reading *r, s4_layer **layer)
{
    S4_TRY(s4_layer_settings_read(r->path, r->file, &r->settings));
    S4_TRY(check_fixed(r));
    S4_TRY(read_parameters(r));
    S4_TRY(settle(r));
    S4_TRY(read_length(r));
    s4_layer *created;
    s4_status status = s4_layer_create(&r->settings.options, &created);
    if (status == S4_ERROR_ARGUMENT || status == S4_ERROR_UNSUPPORTED) /* beyond what a layer may have or be */
        return s4_fail(S4_ERROR_UNSUPPORTED, "%s: %s", r->path, s4_last_error());
    S4_TRY(status);
    status = fill_layer(r, created);
    if (status)
        s4_layer_destroy(created);
    else
        *layer = created;
    return status;
}

/* Without a prefix: under the usual one, else under none, where the flat files have their names. */
static s4_status find_and_read(reading *r, const char *prefix, s4_layer **layer)
{
    r->prefix = prefix ? prefix : S4_LAYER_PREFIX;
    r->name = malloc(strlen(r->prefix) + NAME_ROOM);
    if (!r->name) return s4_fail(S4_ERROR_MEMORY, "%s: no memory for a name", r->path);
    if (!recognise(r) && !prefix) {
        r->prefix = "";
        if (!recognise(r)) r->prefix = S4_LAYER_PREFIX;
    }
    return r->names ? read_layer(r, layer) : no_layer(r);
}

s4_status s4_layer_load(const char *path, const char *prefix, const char *overrides, s4_layer **layer)
{
    if (!layer) return s4_fail(S4_ERROR_ARGUMENT, "s4_layer_load: layer is NULL");
    *layer = NULL;
    if (!path) return s4_fail(S4_ERROR_ARGUMENT, "s4_layer_load: path is NULL");

    reading r = {.path = path};
    S4_TRY(s4_layer_settings_override(overrides, &r.settings));
    S4_TRY(s4_tensors_open(path, &r.file));
    s4_status status = find_and_read(&r, prefix, layer);
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) s4_array_destroy(r.array[p]);
    free(r.name);
    s4_tensors_close(r.file);
    return status;
}
