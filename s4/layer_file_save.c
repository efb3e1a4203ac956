/* Layers to safetensors files: under the names of published checkpoints, with what reading them back needs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "s4/errors.h"
#include "s4/layer_file.h"

#define LENGTH_NAME "kernel.l_kernel"
#define NUMBERS_MAX 5
#define TENSORS_MAX (S4_PARAMETER_COUNT + 1)

typedef struct writing {
    s4_metadata_entry metadata[NUMBERS_MAX + S4_SETTING_COUNT];
    char numbers[NUMBERS_MAX][24];
    char settings[S4_SETTING_COUNT][S4_SETTING_TEXT];
    int metadata_count;
    s4_array arrays[TENSORS_MAX];
    char *names[TENSORS_MAX];
    s4_named_array tensors[TENSORS_MAX];
    int tensor_count;
} writing;

/* Sizes are for people: reading takes them from the shapes. */
static void describe(writing *w, const s4_layer_options *o)
{
    for (int s = 0; s < S4_SETTING_COUNT; s++)
        w->metadata[w->metadata_count++] =
            (s4_metadata_entry){s4_setting_key((s4_setting)s), s4_setting_value((s4_setting)s, o, w->settings[s])};
    const struct {
        const char *key;
        int64_t number;
    } sizes[] = {{"d_model", o->d_model},
                 {"d_state", o->d_state},
                 {"rank", o->rank},
                 {"n_ssm", o->n_ssm},
                 {"channels", o->channels}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        (void)snprintf(w->numbers[i], sizeof w->numbers[i], "%" PRId64, sizes[i].number);
        w->metadata[w->metadata_count++] = (s4_metadata_entry){sizes[i].key, w->numbers[i]};
    }
}

static s4_status add_tensor(writing *w, const char *prefix, const char *name, const s4_array *array)
{
    int i = w->tensor_count;
    size_t room = strlen(prefix) + strlen(name) + 1;
    w->names[i] = malloc(room);
    if (!w->names[i]) return s4_fail(S4_ERROR_MEMORY, "no memory for the name of a tensor");
    (void)snprintf(w->names[i], room, "%s%s", prefix, name);
    w->arrays[i] = *array;
    w->tensors[i] = (s4_named_array){w->names[i], &w->arrays[i]};
    w->tensor_count++;
    return S4_OK;
}

static s4_status write_layer(writing *w, const s4_layer *layer, const char *path, const char *prefix)
{
    s4_layer_options options;
    S4_INIT(&options);
    S4_TRY(s4_layer_describe(layer, &options));
    describe(w, &options);
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        s4_parameter_view view;
        S4_TRY(s4_layer_parameter((s4_layer *)layer, (s4_parameter)p, &view)); /* only read */
        if (!view.count) continue;                                             /* P of a diagonal layer */
        s4_array array = {.dtype = S4_F64, .rank = view.rank, .count = view.count, .data = view.data};
        for (int d = 0; d < view.rank; d++) array.shape[d] = view.shape[d];
        S4_TRY(add_tensor(w, prefix, view.name, &array));
    }
    int64_t length = s4_layer_length(layer);
    const s4_array scalar = {.dtype = S4_I64, .count = 1, .data = &length};
    if (options.mode == S4_MODE_DPLR) S4_TRY(add_tensor(w, prefix, LENGTH_NAME, &scalar));
    return s4_tensors_write(path, w->metadata, w->metadata_count, w->tensors, w->tensor_count);
}

s4_status s4_layer_save(const s4_layer *layer, const char *path, const char *prefix)
{
    if (!layer || !path) return s4_fail(S4_ERROR_ARGUMENT, "s4_layer_save: %s is NULL", layer ? "path" : "layer");
    writing w = {0};
    s4_status status = write_layer(&w, layer, path, prefix ? prefix : S4_LAYER_PREFIX);
    for (int i = 0; i < TENSORS_MAX; i++) free(w.names[i]);
    return status;
}
