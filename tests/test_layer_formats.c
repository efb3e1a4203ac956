/*
 * Layers of every kind in files: what is saved is what is loaded, settings from metadata and from overrides, and files
 * that contradict themselves.
 */
#include "expect.h"
#include "layer_tensors.h"
#include "numbers.h"
#include "scratch.h"

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

/* What is no safetensors file: the text says what it is, and what is wanted. */
Test(layer_formats, files_of_other_formats)
{
    static const struct {
        char begin[20];
        size_t bytes;
        char what[24];
    } cases[] = {{"\x93NUMPY\1\0v\0{'descr'", 18, "NumPy array"},
                 {"PK\3\4\24\0\0\0\10\0abcdef", 16, "zip archive"},
                 {"PK\3\4\0\0\0\0\10\0abcdef", 16, "zip archive"}, /* as a length: 67324752 */
                 {"\x80\2}q\0X\1\0\0\0aq\1K\1s.", 17, "pickle"},
                 {"\x80\4\x95\4\0\0\0\0\0\0\0]K\1a.", 16, "pickle"},
                 {"\x80\5\x95\0\0\0\0\0\0\0\0]", 12, "pickle"}, /* as a length: 9766272 */
                 {"RIFF\44\0\0\0WAVEfmt ", 16, "RIFF"},
                 {"just some text", 14, "no safetensors"}};
    const char *path = scratch_path("layer.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("case %d", (int)i);
        file_write(path, cases[i].begin, cases[i].bytes);
        s4_layer *layer;
        must_refuse(s4_layer_load(path, NULL, NULL, &layer), S4_ERROR_FORMAT, cases[i].what);
        must_refuse(s4_layer_load(path, NULL, NULL, &layer), S4_ERROR_FORMAT, "safetensors file");
    }
}
