/*
 * Layers in files: what is saved is what is loaded, published names and dtypes, and files that describe no layer.
 */
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

#include "expect.h"
#include "golden.h"
#include "layers.h"
#include "scratch.h"

static const layer_shape shape = {.d_model = 4, .d_state = 6, .rank = 2, .n_ssm = 2,
                                  .dt_transform = S4_TRANSFORM_SOFTPLUS, .real_transform = S4_TRANSFORM_RELU,
                                  .imag_transform = S4_TRANSFORM_NONE};

static void expect_same_layer(s4_layer *got, s4_layer *expected)
{
    const s4_layer_options a = layer_options(got), b = layer_options(expected);
    check(a.mode == b.mode && a.d_model == b.d_model && a.d_state == b.d_state && a.rank == b.rank &&
              a.n_ssm == b.n_ssm && a.channels == b.channels && a.discretisation == b.discretisation &&
              a.dt_transform == b.dt_transform && a.real_transform == b.real_transform &&
              a.imag_transform == b.imag_transform,
          "[%s] the description differs", about_text());
    check(s4_layer_length(got) == s4_layer_length(expected), "[%s] the length differs", about_text());
    int64_t count, other;
    const double *bits = layer_bits(got, &count), *expected_bits = layer_bits(expected, &other);
    check(count == other, "[%s] the number of parameters differs", about_text());
    expect_same_bits("parameters", count, bits, expected_bits);
}

/* Save, load, save: the same layer, the same bytes; with any prefix, with plain C and with C~. */
Test(layer_files, round_trip)
{
    static const char prefixes[][32] = {"layer.", "", "model.layers.7.layer."};
    s4_context *context;
    must(s4_context_create(NULL, &context));
    s4_layer *layer = layer_random(&shape, 1);
    for (int length = 0; length <= 12; length += 12)
        for (int i = 0; i < 3; i++) {
            about("prefix '%s', length %d", prefixes[i], length);
            must(s4_layer_setup(context, layer, length));
            const char *first = scratch_path("first.safetensors"), *second = scratch_path("second.safetensors");
            must(s4_layer_save(layer, first, prefixes[i]));
            s4_layer *back;
            must(s4_layer_load(first, prefixes[i], NULL, &back));
            expect_same_layer(back, layer);
            must(s4_layer_save(back, second, prefixes[i]));
            file_bytes a = file_read(first), b = file_read(second);
            check(a.size == b.size && memcmp(a.data, b.data, a.size) == 0, "[%s] other bytes", about_text());
            s4_layer_destroy(back);
        }
    const char *path = scratch_path("default.safetensors");
    s4_layer *back;
    must(s4_layer_save(layer, path, NULL));
    must(s4_layer_load(path, "layer.", NULL, &back)); /* NULL is "layer." */
    expect_same_layer(back, layer);
    s4_layer_destroy(back);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

Test(layer_files, names_and_shapes_of_published_checkpoints)
{
    static const struct {
        char name[24];
        int rank;
        int64_t shape[4];
    } expected[] = {
        {"layer.kernel.inv_dt", 2, {4, 1}},       {"layer.kernel.A_real", 2, {2, 3}},
        {"layer.kernel.A_imag", 2, {2, 3}},       {"layer.kernel.B", 4, {1, 2, 3, 2}},
        {"layer.kernel.P", 4, {2, 2, 3, 2}},      {"layer.kernel.C", 4, {1, 4, 3, 2}},
        {"layer.D", 2, {1, 4}},
    };
    s4_layer *layer = layer_random(&shape, 2);
    const char *path = scratch_path("x.safetensors");
    must(s4_layer_save(layer, path, NULL));
    s4_tensors *file;
    must(s4_tensors_open(path, &file));
    cr_assert_eq(s4_tensors_count(file), 8);
    for (int i = 0; i < 7; i++) {
        about("%s", expected[i].name);
        s4_array *array;
        s4_parameter_view view;
        must(s4_tensors_read(file, expected[i].name, &array));
        must(s4_layer_parameter(layer, (s4_parameter)i, &view));
        check(strcmp(view.name, expected[i].name + strlen("layer.")) == 0, "[%s] the parameter is called %s",
              about_text(), view.name);
        check(array->dtype == S4_F64 && array->rank == expected[i].rank && view.rank == expected[i].rank,
              "[%s] rank", about_text());
        for (int d = 0; d < array->rank; d++)
            check(array->shape[d] == expected[i].shape[d] && view.shape[d] == expected[i].shape[d], "[%s] shape",
                  about_text());
        check(memcmp(array->data, view.data, sizeof(double) * (size_t)view.count) == 0, "[%s] data", about_text());
        s4_array_destroy(array);
    }
    s4_array *length;
    must(s4_tensors_read(file, "layer.kernel.l_kernel", &length));
    cr_assert(length->dtype == S4_I64 && length->rank == 0 && *(int64_t *)length->data == 0);
    s4_array_destroy(length);
    cr_assert_str_eq(s4_tensors_metadata(file, "dt_transform"), "softplus");
    cr_assert_str_eq(s4_tensors_metadata(file, "real_transform"), "relu");
    cr_assert_str_eq(s4_tensors_metadata(file, "imag_transform"), "none");
    cr_assert_str_eq(s4_tensors_metadata(file, "disc"), "bilinear");
    s4_tensors_close(file);
    s4_layer_destroy(layer);
}

Test(layer_files, golden_layers)
{
    for (int i = 0; i < golden_count; i++) {
        about("%s", golden_list[i].name);
        golden_case g;
        golden_open(&golden_list[i], &g);
        const s4_layer_options options = layer_options(g.layer);
        check(options.d_model == g.d_model && options.d_state == g.d_state, "[%s] sizes", about_text());
        const char *path = scratch_path("x.safetensors");
        s4_layer *back;
        must(s4_layer_save(g.layer, path, NULL));
        must(s4_layer_load(path, NULL, NULL, &back));
        expect_same_layer(back, g.layer);
        s4_layer_destroy(back);
        golden_close(&g);
    }
}

/* ---- files made by hand ---------------------------------------------------------------------------------------- */

enum { TENSORS = 9 }; /* eight of a layer, and one more */
typedef struct hand_file {
    s4_named_array tensor[TENSORS];
    s4_array *array[TENSORS];
    s4_metadata_entry metadata[8];
    int tensors, metadata_count;
} hand_file;

static s4_array *zeros(s4_dtype dtype, int rank, const int64_t *sizes)
{
    s4_array *array;
    must(s4_array_create(dtype, rank, sizes, &array));
    return array;
}

static void hand_add(hand_file *file, const char *name, s4_array *array)
{
    file->array[file->tensors] = array;
    file->tensor[file->tensors] = (s4_named_array){name, array};
    file->tensors++;
}

/* H = 2, n = 3, S = 2, R = 1: a layer without metadata, as an old file may be. */
static hand_file hand_layer(s4_dtype dtype)
{
    static const int64_t dt[] = {2, 1}, modes[] = {2, 3}, vectors[] = {1, 2, 3, 2}, skip[] = {1, 2};
    hand_file file = {.tensors = 0};
    hand_add(&file, "layer.kernel.inv_dt", zeros(dtype, 2, dt));
    hand_add(&file, "layer.kernel.A_real", zeros(dtype, 2, modes));
    hand_add(&file, "layer.kernel.A_imag", zeros(dtype, 2, modes));
    hand_add(&file, "layer.kernel.B", zeros(dtype, 4, vectors));
    hand_add(&file, "layer.kernel.P", zeros(dtype, 4, vectors));
    hand_add(&file, "layer.kernel.C", zeros(dtype, 4, vectors));
    hand_add(&file, "layer.D", zeros(dtype, 2, skip));
    hand_add(&file, "layer.kernel.l_kernel", zeros(S4_I64, 0, NULL));
    return file;
}

static int hand_index(const hand_file *file, const char *name)
{
    for (int i = 0; i < file->tensors; i++)
        if (strcmp(file->tensor[i].name, name) == 0)
            return i;
    cr_assert_fail("no %s", name);
    return 0;
}

static void hand_replace(hand_file *file, const char *name, s4_array *array)
{
    const int i = hand_index(file, name);
    s4_array_destroy(file->array[i]);
    file->array[i] = array;
    file->tensor[i].array = array;
}

static const char *hand_write(hand_file *file)
{
    const char *path = scratch_path("hand.safetensors");
    must(s4_tensors_write(path, file->metadata, file->metadata_count, file->tensor, file->tensors));
    for (int i = 0; i < file->tensors; i++)
        s4_array_destroy(file->array[i]);
    return path;
}

static void must_not_load(hand_file *file, s4_status status, const char *word)
{
    const char *path = hand_write(file);
    s4_layer *layer = (s4_layer *)(void *)file;
    must_refuse(s4_layer_load(path, NULL, NULL, &layer), status, word);
    check(layer == NULL, "[%s] the pointer is not NULL", about_text());
}

Test(layer_files, single_precision_defaults_and_derived_tensors)
{
    static const int64_t one[] = {1};
    hand_file file = hand_layer(S4_F32);
    ((float *)file.array[hand_index(&file, "layer.kernel.A_imag")]->data)[4] = 0.1f;
    hand_add(&file, "layer.kernel.omega", zeros(S4_F32, 1, one));
    s4_layer *layer;
    must(s4_layer_load(hand_write(&file), NULL, NULL, &layer));
    const s4_layer_options options = layer_options(layer);
    cr_assert_eq(options.d_model, 2);
    cr_assert_eq(options.d_state, 6);
    cr_assert_eq(options.n_ssm, 2);
    cr_assert_eq(options.rank, 1);
    cr_assert_eq(options.dt_transform, S4_TRANSFORM_EXP);
    cr_assert_eq(options.real_transform, S4_TRANSFORM_EXP);
    cr_assert_eq(options.imag_transform, S4_TRANSFORM_NONE);
    cr_assert(layer_data(layer, S4_PARAMETER_A_IMAG)[4] == (double)0.1f);
    s4_layer_destroy(layer);
}

Test(layer_files, length_comes_from_the_file)
{
    hand_file file = hand_layer(S4_F64);
    *(int64_t *)file.array[hand_index(&file, "layer.kernel.l_kernel")]->data = 77;
    s4_layer *layer;
    must(s4_layer_load(hand_write(&file), NULL, NULL, &layer));
    cr_assert_eq(s4_layer_length(layer), 77);
    s4_layer_destroy(layer);
}

Test(layer_files, missing_tensors_are_named)
{
    static const char names[][24] = {"layer.kernel.inv_dt", "layer.kernel.A_real", "layer.kernel.A_imag",
                                     "layer.kernel.B",      "layer.kernel.P",      "layer.kernel.C",
                                     "layer.D"};
    for (int i = 0; i < 7; i++) {
        about("without %s", names[i]);
        hand_file file = hand_layer(S4_F64);
        const int gone = hand_index(&file, names[i]);
        s4_array_destroy(file.array[gone]);
        file.tensors--;
        file.array[gone] = file.array[file.tensors];
        file.tensor[gone] = file.tensor[file.tensors];
        if (strcmp(names[i], "layer.kernel.P") != 0) {
            must_not_load(&file, S4_ERROR_FORMAT, names[i]);
            continue;
        }
        s4_layer *layer; /* without P it is a diagonal one */
        must(s4_layer_load(hand_write(&file), NULL, NULL, &layer));
        const s4_layer_options options = layer_options(layer);
        check(options.mode == S4_MODE_DIAG && options.rank == 0 && options.discretisation == S4_ZOH, "[%s] no zoh layer",
              about_text());
        s4_layer_destroy(layer);
    }
}

Test(layer_files, shapes_are_cross_checked)
{
    static const struct {
        char name[24];
        int rank;
        int64_t shape[4];
        s4_status status;
    } cases[] = {
        {"layer.kernel.inv_dt", 2, {3, 1}, S4_ERROR_FORMAT},
        {"layer.kernel.inv_dt", 1, {2}, S4_ERROR_FORMAT},
        {"layer.kernel.inv_dt", 2, {2, 2}, S4_ERROR_FORMAT},
        {"layer.kernel.A_real", 2, {2, 4}, S4_ERROR_FORMAT},
        {"layer.kernel.A_real", 2, {3, 3}, S4_ERROR_FORMAT},
        {"layer.kernel.A_imag", 2, {1, 3}, S4_ERROR_FORMAT},
        {"layer.kernel.A_imag", 1, {6}, S4_ERROR_FORMAT},
        {"layer.kernel.B", 4, {1, 2, 3, 1}, S4_ERROR_FORMAT},
        {"layer.kernel.B", 4, {2, 2, 3, 2}, S4_ERROR_FORMAT},
        {"layer.kernel.P", 4, {1, 2, 4, 2}, S4_ERROR_FORMAT},
        {"layer.kernel.P", 4, {0, 2, 3, 2}, S4_ERROR_FORMAT},
        {"layer.kernel.C", 4, {1, 2, 2, 2}, S4_ERROR_FORMAT},
        {"layer.kernel.C", 4, {1, 3, 3, 2}, S4_ERROR_FORMAT},
        {"layer.kernel.C", 3, {2, 3, 2}, S4_ERROR_FORMAT},
        {"layer.kernel.C", 4, {2, 2, 3, 2}, S4_ERROR_FORMAT}, /* two outputs a channel, and one D */
        {"layer.D", 2, {2, 2}, S4_ERROR_FORMAT},
        {"layer.D", 2, {1, 3}, S4_ERROR_FORMAT},
        {"layer.D", 1, {2}, S4_ERROR_FORMAT},
        {"layer.kernel.l_kernel", 1, {2}, S4_ERROR_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("%s of rank %d, case %d", cases[i].name, cases[i].rank, (int)i);
        hand_file file = hand_layer(S4_F64);
        const s4_dtype dtype = strstr(cases[i].name, "l_kernel") ? S4_I64 : S4_F64;
        hand_replace(&file, cases[i].name, zeros(dtype, cases[i].rank, cases[i].shape));
        must_not_load(&file, cases[i].status, "");
        if (cases[i].status == S4_ERROR_FORMAT)
            check(strstr(s4_last_error(), "layer."), "[%s] no tensor is named: %s", about_text(), s4_last_error());
    }
    about("a step for each mode");
    static const int64_t untied[] = {2, 3};
    hand_file wide_dt = hand_layer(S4_F64);
    hand_replace(&wide_dt, "layer.kernel.inv_dt", zeros(S4_F64, 2, untied));
    s4_layer *layer;
    must(s4_layer_load(hand_write(&wide_dt), NULL, NULL, &layer));
    cr_assert(layer_options(layer).dt_untied);
    s4_layer_destroy(layer);
    about("two outputs a channel");
    static const int64_t two_c[] = {2, 2, 3, 2}, two_d[] = {2, 2};
    hand_file two = hand_layer(S4_F64);
    hand_replace(&two, "layer.kernel.C", zeros(S4_F64, 4, two_c));
    hand_replace(&two, "layer.D", zeros(S4_F64, 2, two_d));
    must(s4_layer_load(hand_write(&two), NULL, NULL, &layer));
    cr_assert_eq(layer_options(layer).channels, 2);
    s4_layer_destroy(layer);
    about("more than S4_RANK_MAX columns of P");
    static const int64_t wide[] = {S4_RANK_MAX + 1, 2, 3, 2};
    hand_file file = hand_layer(S4_F64);
    hand_replace(&file, "layer.kernel.P", zeros(S4_F64, 4, wide));
    const char *path = hand_write(&file);
    const s4_status status = s4_layer_load(path, NULL, NULL, &layer);
    cr_assert(status == S4_ERROR_FORMAT || status == S4_ERROR_UNSUPPORTED, "%s", s4_last_error());
    about("integers for parameters");
    static const int64_t modes[] = {2, 3};
    file = hand_layer(S4_F64);
    hand_replace(&file, "layer.kernel.A_real", zeros(S4_I64, 2, modes));
    must_not_load(&file, S4_ERROR_FORMAT, "layer.kernel.A_real");
    about("a negative length");
    file = hand_layer(S4_F64);
    *(int64_t *)file.array[hand_index(&file, "layer.kernel.l_kernel")]->data = -1;
    must_not_load(&file, S4_ERROR_FORMAT, "l_kernel");
}

Test(layer_files, metadata_is_checked)
{
    static const struct {
        char key[16], value[16];
        s4_status status;
    } cases[] = {
        {"dt_transform", "cosine", S4_ERROR_FORMAT}, {"real_transform", "?", S4_ERROR_FORMAT},
        {"imag_transform", "tanh", S4_ERROR_FORMAT}, {"disc", "zoh", S4_ERROR_UNSUPPORTED},
        {"disc", "dss", S4_ERROR_UNSUPPORTED},       {"disc", "euler", S4_ERROR_FORMAT},
        {"mode", "diag", S4_ERROR_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("%s = %s", cases[i].key, cases[i].value);
        hand_file file = hand_layer(S4_F64);
        file.metadata[0] = (s4_metadata_entry){cases[i].key, cases[i].value};
        file.metadata_count = 1;
        must_not_load(&file, cases[i].status, cases[i].value);
    }
}

Test(layer_files, failures)
{
    s4_layer *layer = layer_random(&shape, 3), *back = layer;
    must_refuse(s4_layer_load(scratch_path("none.safetensors"), NULL, NULL, &back), S4_ERROR_FILE, "none.safetensors");
    cr_assert(back == NULL);
    must_refuse(s4_layer_save(layer, scratch_path("none/x.safetensors"), NULL), S4_ERROR_FILE, "none/x.safetensors");
    const char *path = scratch_path("x.safetensors");
    must(s4_layer_save(layer, path, NULL));
    must_refuse(s4_layer_load(path, "other.", NULL, &back), S4_ERROR_FORMAT, "other.");

    file_bytes old = file_read(path);
    layer_data(layer, S4_PARAMETER_D)[0] = 42;
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit before, small;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = old.size - 1;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    const s4_status status = s4_layer_save(layer, path, NULL);
    setrlimit(RLIMIT_FSIZE, &before);
    cr_assert_eq(status, S4_ERROR_FILE);
    file_bytes now = file_read(path);
    cr_assert(now.size == old.size && memcmp(now.data, old.data, old.size) == 0, "the old file is not as it was");
    cr_assert_eq(scratch_count(), 1, "a temporary file is left");
    s4_layer_destroy(layer);
}
