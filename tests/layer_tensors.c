/* Files of a layer's tensors: see layer_tensors.h. */
#include "layer_tensors.h"

#include "expect.h"
#include "numbers.h"
#include "scratch.h"

s4_layer_options options_of(const s4_layer *layer)
{
    s4_layer_options options;
    S4_INIT(&options);
    must(s4_layer_describe(layer, &options));
    return options;
}

s4_parameter_view view_of(s4_layer *layer, s4_parameter which)
{
    s4_parameter_view view;
    must(s4_layer_parameter(layer, which, &view));
    return view;
}

static void expect_same_layer(s4_layer *got, s4_layer *expected)
{
    const s4_layer_options a = options_of(got), b = options_of(expected);
    const struct {
        const char *name;
        double got, expected;
    } fields[] = {
        {"mode", a.mode, b.mode},
        {"d_model", (double)a.d_model, (double)b.d_model},
        {"d_state", (double)a.d_state, (double)b.d_state},
        {"rank", (double)a.rank, (double)b.rank},
        {"n_ssm", (double)a.n_ssm, (double)b.n_ssm},
        {"channels", (double)a.channels, (double)b.channels},
        {"discretisation", a.discretisation, b.discretisation},
        {"dt_transform", a.dt_transform, b.dt_transform},
        {"real_transform", a.real_transform, b.real_transform},
        {"imag_transform", a.imag_transform, b.imag_transform},
        {"bidirectional", a.bidirectional, b.bidirectional},
        {"dt_untied", a.dt_untied, b.dt_untied},
        {"bandlimit", a.bandlimit, b.bandlimit},
        {"length", (double)s4_layer_length(got), (double)s4_layer_length(expected)},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        check(fields[i].got == fields[i].expected, "[%s] %s is %g instead of %g", about_text(), fields[i].name,
              fields[i].got, fields[i].expected);
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        const s4_parameter_view x = view_of(got, (s4_parameter)p), y = view_of(expected, (s4_parameter)p);
        check(x.count == y.count && x.rank == y.rank, "[%s] %s: count or rank", about_text(), x.name);
        if (x.count) expect_same_bits(x.name, x.count, x.data, y.data);
    }
}

void round_trip(s4_layer *layer)
{
    const char *first = scratch_path("first.safetensors"), *second = scratch_path("second.safetensors");
    s4_layer *back;
    must(s4_layer_save(layer, first, "m.0."));
    must(s4_layer_load(first, "m.0.", NULL, &back));
    expect_same_layer(back, layer);
    must(s4_layer_save(back, second, "m.0."));
    const file_bytes a = file_read(first), b = file_read(second);
    check(a.size == b.size && memcmp(a.data, b.data, a.size) == 0, "[%s] other bytes", about_text());
    s4_layer_destroy(back);
}

void hand_add(hand_file *file, const char *name, double start, int rank, const int64_t *shape)
{
    s4_array *array;
    must(s4_array_create(S4_F64, rank, shape, &array));
    for (int64_t i = 0; i < array->count; i++) ((double *)array->data)[i] = start + 0.01 * (double)(i + 1);
    file->array[file->tensors] = array;
    file->tensor[file->tensors++] = (s4_named_array){name, array};
}

void hand_length(hand_file *file, const char *name, int64_t length)
{
    s4_array *array;
    must(s4_array_create(S4_I64, 0, NULL, &array));
    *(int64_t *)array->data = length;
    file->array[file->tensors] = array;
    file->tensor[file->tensors++] = (s4_named_array){name, array};
}

void hand_say(hand_file *file, const char *key, const char *value)
{
    file->metadata[file->metadata_count++] = (s4_metadata_entry){key, value};
}

const char *hand_write(hand_file *file)
{
    const char *path = scratch_path("hand.safetensors");
    must(s4_tensors_write(path, file->metadata, file->metadata_count, file->tensor, file->tensors));
    for (int i = 0; i < file->tensors; i++) s4_array_destroy(file->array[i]);
    return path;
}

s4_layer *hand_load(hand_file *file, const char *overrides)
{
    s4_layer *layer;
    must(s4_layer_load(hand_write(file), NULL, overrides, &layer));
    return layer;
}

void must_not_load(hand_file *file, const char *overrides, s4_status status, const char *word)
{
    s4_layer *layer = (s4_layer *)(void *)file;
    const char *path = hand_write(file);
    must_refuse(s4_layer_load(path, NULL, overrides, &layer), status, word);
    check(layer == NULL, "[%s] the pointer is not NULL", about_text());
}

void expect_values(s4_layer *layer, s4_parameter which, double start, double sign, double shift)
{
    const s4_parameter_view view = view_of(layer, which);
    for (int64_t i = 0; i < view.count; i++) {
        const double stored = start + 0.01 * (double)(i + 1), expected = sign * stored + shift;
        check(view.data[i] == expected, "[%s] %s[%lld] is %.17g instead of %.17g", about_text(), view.name,
              (long long)i, view.data[i], expected);
    }
}

hand_file hand_diagonal(int64_t kernels, int64_t channels, int64_t steps)
{
    hand_file file = {.tensors = 0};
    ADD(&file, "layer.kernel.inv_dt", 1, 2, steps);
    ADD(&file, "layer.kernel.A_real", 2, 1, 3);
    ADD(&file, "layer.kernel.A_imag", 3, 1, 3);
    ADD(&file, "layer.kernel.B", 4, 1, 1, 3, 2);
    ADD(&file, "layer.kernel.C", 5, kernels, 2, 3, 2);
    ADD(&file, "layer.D", 6, channels, 2);
    return file;
}
