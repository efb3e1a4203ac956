/*
 * Layers of every kind in files: what is saved is what is loaded, older names of checkpoints, settings from metadata
 * and from overrides, and files that contradict themselves.
 */
#include <complex.h>
#include <math.h>
#include <stdio.h>

#include "expect.h"
#include "numbers.h"
#include "scratch.h"

static s4_layer_options options_of(const s4_layer *layer)
{
    s4_layer_options options;
    S4_INIT(&options);
    must(s4_layer_describe(layer, &options));
    return options;
}

static s4_parameter_view view_of(s4_layer *layer, s4_parameter which)
{
    s4_parameter_view view;
    must(s4_layer_parameter(layer, which, &view));
    return view;
}

static s4_layer *layer_of(const s4_layer_options *options, uint64_t seed)
{
    random_source random = {seed};
    s4_layer *layer;
    must(s4_layer_create(options, &layer));
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        const s4_parameter_view view = view_of(layer, (s4_parameter)p);
        for (int64_t i = 0; i < view.count; i++) view.data[i] = random_uniform(&random, -1, 1);
    }
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
    return layer;
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

static void round_trip(s4_layer *layer)
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

Test(layer_formats, round_trip_of_every_kind)
{
    for (int kind = 0; kind < 6 * 2 * 2 * 2 * 2; kind++) {
        s4_layer_options options;
        S4_INIT(&options);
        options.mode = kind % 6 < 3 ? S4_MODE_DIAG : S4_MODE_DPLR;
        options.discretisation = kind % 6 < 3 ? (s4_discretisation)(kind % 6) : S4_BILINEAR;
        options.rank = kind % 6 < 3 ? 0 : kind % 6 - 2;
        options.channels = kind / 6 % 2 ? 3 : 1;
        options.bidirectional = kind / 12 % 2;
        options.dt_untied = kind / 24 % 2;
        options.d_model = 4;
        options.n_ssm = kind % 5 ? 4 : 2;
        options.d_state = kind / 48 % 2 ? 6 : 2; /* one mode: shapes do not tell tied from untied */
        options.bandlimit = kind % 7 ? 0 : 1.0 / 3;
        options.transforms_given = 1;
        options.dt_transform = (s4_transform)(kind % 5);
        options.real_transform = (s4_transform)((kind + 1) % 5);
        options.imag_transform = (s4_transform)((kind + 2) % 5);
        about("kind %d", kind);
        s4_layer *layer = layer_of(&options, (uint64_t)kind);
        if (options.mode == S4_MODE_DPLR) must(s4_layer_set_length(layer, kind % 4 * 8));
        round_trip(layer);
        s4_layer_destroy(layer);
    }
}

/* ---- files made by hand ------------------------------------------------------------------------------------------ */

enum { TENSORS = 24 };
typedef struct hand_file {
    s4_named_array tensor[TENSORS];
    s4_array *array[TENSORS];
    s4_metadata_entry metadata[4];
    int tensors, metadata_count;
} hand_file;

/* Values 0.01, 0.02, ... on from `start`, so that every tensor has its own. */
static void hand_add(hand_file *file, const char *name, double start, int rank, const int64_t *shape)
{
    s4_array *array;
    must(s4_array_create(S4_F64, rank, shape, &array));
    for (int64_t i = 0; i < array->count; i++) ((double *)array->data)[i] = start + 0.01 * (double)(i + 1);
    file->array[file->tensors] = array;
    file->tensor[file->tensors++] = (s4_named_array){name, array};
}
#define ADD(file, name, start, ...)                                                                                    \
    hand_add(file, name, start, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

static void hand_length(hand_file *file, const char *name, int64_t length)
{
    s4_array *array;
    must(s4_array_create(S4_I64, 0, NULL, &array));
    *(int64_t *)array->data = length;
    file->array[file->tensors] = array;
    file->tensor[file->tensors++] = (s4_named_array){name, array};
}

static void hand_say(hand_file *file, const char *key, const char *value)
{
    file->metadata[file->metadata_count++] = (s4_metadata_entry){key, value};
}

static const char *hand_write(hand_file *file)
{
    const char *path = scratch_path("hand.safetensors");
    must(s4_tensors_write(path, file->metadata, file->metadata_count, file->tensor, file->tensors));
    for (int i = 0; i < file->tensors; i++) s4_array_destroy(file->array[i]);
    return path;
}

static s4_layer *hand_load(hand_file *file, const char *overrides)
{
    s4_layer *layer;
    must(s4_layer_load(hand_write(file), NULL, overrides, &layer));
    return layer;
}

static void must_not_load(hand_file *file, const char *overrides, s4_status status, const char *word)
{
    s4_layer *layer = (s4_layer *)(void *)file;
    const char *path = hand_write(file);
    must_refuse(s4_layer_load(path, NULL, overrides, &layer), status, word);
    check(layer == NULL, "[%s] the pointer is not NULL", about_text());
}

/* start + sign * 0.01 (i + 1) + shift, where hand_add put start + 0.01 (i + 1). */
static void expect_values(s4_layer *layer, s4_parameter which, double start, double sign, double shift)
{
    const s4_parameter_view view = view_of(layer, which);
    for (int64_t i = 0; i < view.count; i++) {
        const double stored = start + 0.01 * (double)(i + 1), expected = sign * stored + shift;
        check(view.data[i] == expected, "[%s] %s[%lld] is %.17g instead of %.17g", about_text(), view.name,
              (long long)i, view.data[i], expected);
    }
}

/* H = 2, S = 1, n = 3; K kernels, M channels, T steps a channel. */
static hand_file hand_diagonal(int64_t kernels, int64_t channels, int64_t steps)
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

static hand_file hand_dplr(void)
{
    hand_file file = hand_diagonal(1, 1, 1);
    ADD(&file, "layer.kernel.P", 7, 1, 1, 3, 2);
    hand_length(&file, "layer.kernel.l_kernel", 9);
    return file;
}

Test(layer_formats, diagonal_without_metadata)
{
    hand_file file = hand_diagonal(1, 1, 1);
    s4_layer *layer = hand_load(&file, NULL);
    const s4_layer_options o = options_of(layer);
    cr_assert(o.mode == S4_MODE_DIAG && o.discretisation == S4_ZOH && o.rank == 0 && o.n_ssm == 1 && o.d_model == 2 &&
              o.d_state == 6 && o.channels == 1 && !o.bidirectional && !o.dt_untied && o.bandlimit == 0);
    cr_assert(o.dt_transform == S4_TRANSFORM_EXP && o.real_transform == S4_TRANSFORM_EXP &&
              o.imag_transform == S4_TRANSFORM_NONE);
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        if (p != S4_PARAMETER_P) expect_values(layer, (s4_parameter)p, p < 4 ? p + 1 : p, 1, 0);
    s4_layer_destroy(layer);
    file = hand_dplr();
    layer = hand_load(&file, NULL);
    cr_assert(options_of(layer).mode == S4_MODE_DPLR && options_of(layer).discretisation == S4_BILINEAR &&
              s4_layer_length(layer) == 9);
    s4_layer_destroy(layer);
}

Test(layer_formats, channels_directions_and_steps)
{
    static const struct {
        int64_t kernels, channels, steps;
        char bidirectional[8];
    } cases[] = {{3, 3, 1, "0"}, {2, 1, 1, "1"}, {4, 2, 3, "true"}, {1, 1, 3, "False"}};
    for (int i = 0; i < 4; i++) {
        about("case %d", i);
        hand_file file = hand_diagonal(cases[i].kernels, cases[i].channels, cases[i].steps);
        hand_say(&file, "bidirectional", cases[i].bidirectional);
        s4_layer *layer = hand_load(&file, NULL);
        const s4_layer_options o = options_of(layer);
        check(o.channels == cases[i].channels && o.bidirectional == (cases[i].kernels == 2 * cases[i].channels) &&
                  o.dt_untied == (cases[i].steps == 3),
              "[%s] description", about_text());
        expect_values(layer, S4_PARAMETER_C, 5, 1, 0);
        expect_values(layer, S4_PARAMETER_INV_DT, 1, 1, 0);
        s4_layer_destroy(layer);
    }
}

Test(layer_formats, contradictions)
{
    static const struct {
        int64_t kernels, channels, steps;
        char bidirectional[8];
        char word[64];
    } cases[] = {
        {2, 1, 1, "0", "expected (1,2,3,2): is the layer bidirectional"},
        {2, 2, 1, "1", "expected (4,2,3,2)"},
        {1, 1, 1, "1", "expected (2,2,3,2)"},
        {3, 2, 1, "0", "layer.kernel.C"},
        {1, 1, 2, "0", "expected (H,1) or (H,3)"},
    };
    for (int i = 0; i < 5; i++) {
        about("case %d", i);
        hand_file file = hand_diagonal(cases[i].kernels, cases[i].channels, cases[i].steps);
        hand_say(&file, "bidirectional", cases[i].bidirectional);
        must_not_load(&file, NULL, S4_ERROR_FORMAT, cases[i].word);
    }
    about("too many outputs");
    hand_file file = hand_diagonal(S4_CHANNELS_MAX + 1, S4_CHANNELS_MAX + 1, 1);
    must_not_load(&file, NULL, S4_ERROR_UNSUPPORTED, "channels");
    about("C~ of a diagonal layer");
    file = hand_diagonal(1, 1, 1);
    hand_length(&file, "layer.kernel.l_kernel", 9);
    must_not_load(&file, NULL, S4_ERROR_FORMAT, "l_kernel");
    about("plain C of a diagonal layer");
    file = hand_diagonal(1, 1, 1);
    hand_length(&file, "layer.kernel.l_kernel", 0);
    s4_layer_destroy(hand_load(&file, NULL));
    about("no P, but dplr");
    file = hand_diagonal(1, 1, 1);
    hand_say(&file, "mode", "dplr");
    must_not_load(&file, NULL, S4_ERROR_FORMAT, "no tensor P");
    about("P, but diagonal");
    file = hand_dplr();
    must_not_load(&file, "mode=diag", S4_ERROR_ARGUMENT, "a tensor P");
    about("dplr by zoh");
    file = hand_dplr();
    must_not_load(&file, "disc=zoh", S4_ERROR_UNSUPPORTED, "zoh");
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

Test(layer_formats, overrides_win)
{
    hand_file file = hand_diagonal(2, 1, 1);
    hand_say(&file, "disc", "nonsense"); /* not even looked at */
    hand_say(&file, "dt_transform", "relu");
    hand_say(&file, "bandlimit", "None"); /* as Python writes what is not set */
    hand_say(&file, "bidirectional", "");
    s4_layer *layer = hand_load(&file, "disc=dss,bidirectional=1,bandlimit=2.5e-1,real_transform=softplus,"
                                       "imag_transform=exp,mode=diag");
    const s4_layer_options o = options_of(layer);
    cr_assert(o.discretisation == S4_DSS && o.bidirectional == 1 && o.bandlimit == 0.25 &&
              o.dt_transform == S4_TRANSFORM_RELU && o.real_transform == S4_TRANSFORM_SOFTPLUS &&
              o.imag_transform == S4_TRANSFORM_EXP);
    round_trip(layer); /* what was overridden is in the new file */
    s4_layer_destroy(layer);
    file = hand_diagonal(1, 1, 1);
    hand_say(&file, "dt_transform", "softplus");
    layer = hand_load(&file, "dt_transform=none");
    cr_assert(options_of(layer).dt_transform == S4_TRANSFORM_NONE);
    s4_layer_destroy(layer);
    file = hand_diagonal(1, 1, 1);
    s4_layer_destroy(hand_load(&file, ""));
}

Test(layer_formats, bad_overrides_name_key_value_and_choices)
{
    static const struct {
        char overrides[96];
        char words[3][32];
    } cases[] = {
        {"disc=euler", {"disc", "euler", "bilinear, zoh, dss"}},
        {"mode=s5", {"mode", "s5", "dplr, diag"}},
        {"dt_transform=cosine", {"dt_transform", "cosine", "softplus"}},
        {"real_transform=", {"real_transform", "''", "sigmoid"}},
        {"imag_transform=EXP", {"imag_transform", "EXP", "exp"}},
        {"bidirectional=yes", {"bidirectional", "yes", "0, 1, false, true"}},
        {"bandlimit=-1", {"bandlimit", "-1", ">= 0"}},
        {"bandlimit=nan", {"bandlimit", "nan", ">= 0"}},
        {"bandlimit=inf", {"bandlimit", "inf", ">= 0"}},
        {"bandlimit=0x1", {"bandlimit", "0x1", "number"}},
        {"bandlimit=1 ", {"bandlimit", "1 ", "number"}},
        {"bandlimit=0.10000000000000000000000000000000000000000000000000000000000000000",
         {"bandlimit", "0.1000", "63"}},
        {"rank=2", {"rank=2", "the key", "disc"}},
        {"dt_untied=1", {"dt_untied", "the key", "bandlimit"}},
        {"disc", {"disc", "key=value", ""}},
        {"disc=zoh,", {"''", "key=value", ""}},
        {",disc=zoh", {"''", "key=value", ""}},
        {"disc=zoh, mode=diag", {" mode=diag", "the key", "mode"}},
        {"=zoh", {"=zoh", "the key", "mode"}},
        {"disc=zoh,disc=zoh", {"disc", "twice", ""}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int word = 0; word < 3; word++) {
            about("%s", cases[i].overrides);
            hand_file file = hand_diagonal(1, 1, 1);
            must_not_load(&file, cases[i].overrides, S4_ERROR_ARGUMENT, cases[i].words[word]);
        }
}

Test(layer_formats, bad_metadata)
{
    static const struct {
        char key[16], value[16];
    } cases[] = {{"disc", "euler"},      {"mode", "nplr"},     {"dt_transform", "cosine"}, {"real_transform", "?"},
                 {"bidirectional", "2"}, {"bandlimit", "0,5"}, {"imag_transform", "tanh"}, {"dt_untied", "no"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int word = 0; word < 2; word++) {
            about("%s = %s", cases[i].key, cases[i].value);
            hand_file file = hand_diagonal(1, 1, 1);
            hand_say(&file, cases[i].key, cases[i].value);
            must_not_load(&file, NULL, S4_ERROR_FORMAT, word ? cases[i].key : cases[i].value);
        }
}

/* ---- older names ------------------------------------------------------------------------------------------------- */

/* log_dt (H), w = -f(inv_w_real) + i w_imag, L; nested as the module was, or flat. */
Test(layer_formats, version_3)
{
    static const char names[2][8][32] = {
        {"layer.kernel.kernel.log_dt", "layer.kernel.kernel.inv_w_real", "layer.kernel.kernel.w_imag",
         "layer.kernel.kernel.B", "layer.kernel.kernel.P", "layer.kernel.kernel.C", "layer.D", "layer.kernel.kernel.L"},
        {"layer.kernel.log_dt", "layer.kernel.inv_w_real", "layer.kernel.w_imag", "layer.kernel.B", "layer.kernel.P",
         "layer.kernel.C", "layer.D", "layer.kernel.L"}};
    for (int i = 0; i < 2; i++)
        for (int relu = 0; relu < 2; relu++) {
            about("names %d, relu %d", i, relu);
            hand_file file = {.tensors = 0};
            ADD(&file, names[i][0], 1, 4);
            ADD(&file, names[i][1], 2, 2, 3);
            ADD(&file, names[i][2], 3, 2, 3);
            ADD(&file, names[i][3], 4, 1, 2, 3, 2);
            ADD(&file, names[i][4], 7, 1, 2, 3, 2);
            ADD(&file, names[i][5], 5, 2, 4, 3, 2);
            ADD(&file, names[i][6], 6, 2, 4);
            ADD(&file, "layer.kernel.omega", 8, 1); /* derived */
            hand_length(&file, names[i][7], 16);
            s4_layer *layer = hand_load(&file, relu ? "real_transform=relu" : NULL);
            const s4_layer_options o = options_of(layer);
            check(o.mode == S4_MODE_DPLR && o.d_model == 4 && o.n_ssm == 2 && o.channels == 2 && o.rank == 1 &&
                      s4_layer_length(layer) == 16,
                  "[%s] description", about_text());
            expect_values(layer, S4_PARAMETER_INV_DT, 1, 1, 0);
            expect_values(layer, S4_PARAMETER_A_REAL, 2, 1, relu ? -1e-4 : 0); /* its relu has no 1e-4 */
            expect_values(layer, S4_PARAMETER_A_IMAG, 3, -1, 0);
            expect_values(layer, S4_PARAMETER_B, 4, 1, 0);
            expect_values(layer, S4_PARAMETER_P, 7, 1, 0);
            expect_values(layer, S4_PARAMETER_C, 5, 1, 0);
            expect_values(layer, S4_PARAMETER_D, 6, 1, 0);
            round_trip(layer);
            s4_layer_destroy(layer);
        }
}

static hand_file hand_v3_diagonal(void)
{
    hand_file file = {.tensors = 0};
    ADD(&file, "layer.kernel.kernel.log_dt", 1, 4);
    ADD(&file, "layer.kernel.kernel.inv_A_real", 2, 2, 3);
    ADD(&file, "layer.kernel.kernel.A_imag", 3, 2, 3);
    ADD(&file, "layer.kernel.kernel.A", 9, 2, 3, 2); /* where it started */
    ADD(&file, "layer.kernel.kernel.B", 4, 2, 3, 2);
    ADD(&file, "layer.kernel.kernel.C", 5, 1, 4, 3, 2);
    ADD(&file, "layer.D", 6, 1, 4);
    return file;
}

Test(layer_formats, version_3_diagonal)
{
    hand_file file = hand_v3_diagonal();
    s4_layer *layer = hand_load(&file, "disc=bilinear,real_transform=relu");
    const s4_layer_options o = options_of(layer);
    cr_assert(o.mode == S4_MODE_DIAG && o.discretisation == S4_BILINEAR && o.n_ssm == 2 && o.rank == 0);
    expect_values(layer, S4_PARAMETER_A_REAL, 2, 1, 0);
    expect_values(layer, S4_PARAMETER_A_IMAG, 3, -1, 0);
    expect_values(layer, S4_PARAMETER_B, 4, 1, 0);
    s4_layer_destroy(layer);
    file = hand_v3_diagonal();
    must_not_load(&file, "dt_transform=softplus", S4_ERROR_ARGUMENT, "dt_transform");
}

static hand_file hand_flat(int with_skip)
{
    hand_file file = {.tensors = 0};
    ADD(&file, "kernel.log_dt", 1, 2);
    ADD(&file, "kernel.log_A_real", 2, 2, 3);
    ADD(&file, "kernel.A_imag", 3, 2, 3);
    ADD(&file, "kernel.C", 5, 2, 3, 2);
    if (with_skip) ADD(&file, "D", 6, 2);
    return file;
}

/* The formula of the flat file, K_l = 2 Re sum_n C (e^(dt A) - 1) / A e^(dt A l) with A = -exp(log_A_real) + i A_imag,
 * against that of a layer by zoh: K_l = 2 Re sum_n C B (e^a - 1) / A e^(a l), A = -f(A_real) - i g(A_imag), a = dt A.
 */
Test(layer_formats, flat_s4d)
{
    hand_file file = hand_flat(1);
    s4_layer *layer = hand_load(&file, NULL); /* without a prefix it has none */
    const s4_layer_options o = options_of(layer);
    cr_assert(o.mode == S4_MODE_DIAG && o.discretisation == S4_ZOH && o.d_model == 2 && o.n_ssm == 2 &&
              o.d_state == 6 && o.channels == 1 && !o.bidirectional && !o.dt_untied);
    const double *dt = view_of(layer, S4_PARAMETER_INV_DT).data, *real = view_of(layer, S4_PARAMETER_A_REAL).data,
                 *imag = view_of(layer, S4_PARAMETER_A_IMAG).data, *B = view_of(layer, S4_PARAMETER_B).data,
                 *C = view_of(layer, S4_PARAMETER_C).data;
    for (int h = 0; h < 2; h++)
        for (int l = 0; l < 4; l++) {
            double theirs = 0, ours = 0;
            for (int n = 0; n < 3; n++) {
                const int i = 3 * h + n;
                const double step = exp(1 + 0.01 * (h + 1));
                const double complex A = -exp(2 + 0.01 * (i + 1)) + I * (3 + 0.01 * (i + 1));
                const double complex c = 5 + 0.01 * (2 * i + 1) + I * (5 + 0.01 * (2 * i + 2));
                theirs += 2 * creal(c * (cexp(step * A) - 1) / A * cexp(step * A * l));
                const double complex lambda = -exp(real[i]) - I * imag[i], a = exp(dt[h]) * lambda;
                ours += 2 * creal((C[2 * i] + I * C[2 * i + 1]) * (B[2 * i] + I * B[2 * i + 1]) * (cexp(a) - 1) /
                                  lambda * cexp(a * l));
            }
            cr_assert(fabs(ours - theirs) <= 1e-14 * fabs(theirs), "channel %d, sample %d: %g, %g", h, l, ours, theirs);
        }
    expect_values(layer, S4_PARAMETER_D, 6, 1, 0);
    round_trip(layer);
    s4_layer_destroy(layer);

    about("without a skip");
    file = hand_flat(0);
    layer = hand_load(&file, NULL);
    cr_assert(view_of(layer, S4_PARAMETER_D).data[0] == 0 && view_of(layer, S4_PARAMETER_D).data[1] == 0);
    s4_layer_destroy(layer);
    static const char fixed[][24] = {"dt_transform=softplus", "real_transform=none", "imag_transform=exp",
                                     "bidirectional=1"};
    for (int i = 0; i < 4; i++) {
        about("%s", fixed[i]);
        file = hand_flat(1);
        must_not_load(&file, fixed[i], S4_ERROR_ARGUMENT, "log_A_real");
    }
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

Test(layer_formats, whole_models_by_prefix)
{
    hand_file file = hand_diagonal(1, 1, 1); /* a layer, a flat one beside it, an old one, and what is none */
    ADD(&file, "s4.1.kernel.log_dt", 1, 2);
    ADD(&file, "s4.1.kernel.log_A_real", 2, 2, 2);
    ADD(&file, "s4.1.kernel.A_imag", 3, 2, 2);
    ADD(&file, "s4.1.kernel.C", 5, 2, 2, 2);
    ADD(&file, "s4.1.D", 6, 2);
    ADD(&file, "old.kernel.kernel.log_dt", 1, 1);
    ADD(&file, "old.kernel.kernel.inv_w_real", 2, 1, 1);
    ADD(&file, "encoder.weight", 0, 3);
    const char *path = hand_write(&file);
    s4_layer *layer;
    must(s4_layer_load(path, NULL, NULL, &layer));
    cr_assert_eq(options_of(layer).d_state, 6);
    s4_layer_destroy(layer);
    must(s4_layer_load(path, "s4.1.", NULL, &layer));
    cr_assert_eq(options_of(layer).d_state, 4);
    s4_layer_destroy(layer);
    static const char prefixes[][12] = {"\"layer.\"", "\"s4.1.\"", "\"old.\""};
    for (int i = 0; i < 3; i++) must_refuse(s4_layer_load(path, "s4.2.", NULL, &layer), S4_ERROR_FORMAT, prefixes[i]);
    must_refuse(s4_layer_load(path, "encoder.", NULL, &layer), S4_ERROR_FORMAT, "layer.");
    must_refuse(s4_layer_load(path, "", NULL, &layer), S4_ERROR_FORMAT, "s4.1.");
    must_refuse(s4_layer_load(path, "old.", NULL, &layer), S4_ERROR_FORMAT, "old.kernel.kernel.w_imag");
}
