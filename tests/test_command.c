/*
 * The built `s4` command, as its users run it: exit codes, JSON, files. The environment says where it is
 * (S4_TEST_COMMAND) and where the emulated GPU module is, if there is one (S4_TEST_EMULATED_MODULE).
 */
#define _GNU_SOURCE
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "command.h"
#include "expect.h"
#include "golden.h"
#include "layers.h"
#include "program.h"
#include "scratch.h"
#include "tolerances.h"

const char *command(void)
{
    const char *path = getenv("S4_TEST_COMMAND");
    if (!path || !*path)
        cr_skip_test("S4_TEST_COMMAND does not name the command");
    setenv("S4_GPU_MODULE", "off", 1);
    return path;
}

/* The emulated GPU; skips without one. */
static const char *command_with_gpu(void)
{
    const char *path = command(), *module = getenv("S4_TEST_EMULATED_MODULE");
    if (!module || !*module)
        cr_skip_test("no emulated GPU module was built");
    setenv("S4_GPU_MODULE", module, 1);
    return path;
}

static cJSON *json_of(const program_result *result)
{
    cJSON *json = cJSON_Parse(result->output);
    check(json != NULL, "[%s] no JSON: %s%s", about_text(), result->output, result->errors);
    return json;
}

static double number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    check(cJSON_IsNumber(item), "[%s] no number %s", about_text(), key);
    return item->valuedouble;
}

static const char *word(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    check(cJSON_IsString(item), "[%s] no text %s", about_text(), key);
    return item->valuestring;
}

static void must_exit(const program_result *result, int code)
{
    check(result->code == code, "[%s] exit code %d, not %d: %s%s", about_text(), result->code, code, result->output,
          result->errors);
}

static const char *golden_layer(void)
{
    static char path[1024];
    golden_path("dplr_legs", ".in.safetensors", sizeof path, path);
    return path;
}

#define SHAPE "--d-model 6 --d-state 8 --batch 4 --length 100 --threads 2"

/* A layer at its minimum budget; a byte less is exit code 5 and says how much is needed. */
Test(command, budgets)
{
    const char *s4 = command();
    program_result plan = program_run("'%s' plan " SHAPE " --json", s4);
    must_exit(&plan, 0);
    cJSON *json = json_of(&plan);
    const long long minimum = (long long)number(json, "host_minimum");
    static const char keys[][16] = {"fft_length",     "host_peak",      "device_peak", "host_minimum",
                                    "device_minimum", "host_reserve",   "device_reserve", "threads"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        number(json, keys[i]);
    cr_assert_str_eq(word(json, "direction"), "training");
    cr_assert_str_eq(word(json, "dtype"), "f32");
    cJSON_Delete(json);
    program_result enough = program_run("'%s' plan " SHAPE " --host-budget %lld --json", s4, minimum);
    must_exit(&enough, 0);
    json = json_of(&enough);
    cr_assert(number(json, "host_peak") <= (double)minimum);
    cJSON_Delete(json);
    char text[32];
    snprintf(text, sizeof text, "%lld", minimum);
    program_result short_of = program_run("'%s' plan " SHAPE " --host-budget %lld", s4, minimum - 1);
    must_exit(&short_of, 5);
    cr_assert(strstr(short_of.errors, text) != NULL, "%s", short_of.errors);
    program_result bench = program_run("'%s' bench " SHAPE " --repeats 1 --host-budget %lld", s4, minimum - 1);
    must_exit(&bench, 5);
    cr_assert(strstr(bench.errors, "cpu: out of budget: host_budget: ") != NULL, "%s", bench.errors);
    cr_assert(strstr(bench.output, "unavailable") == NULL && strstr(bench.output, " out of budget\n") != NULL, "%s",
              bench.output);
}

/* The peak of a model: for every layer its parameters, their gradients and u; and one workspace. */
Test(command, frozen_parameters)
{
    const char *s4 = command();
    double peak[2];
    for (int frozen = 0; frozen < 2; frozen++) {
        program_result plan = program_run("'%s' plan " SHAPE " --json%s", s4,
                                          frozen ? " --frozen inv_dt,A_real,A_imag,B,P,C" : "");
        must_exit(&plan, 0);
        cJSON *json = json_of(&plan);
        peak[frozen] = number(json, "host_peak");
        const cJSON *names = cJSON_GetObjectItemCaseSensitive(json, "frozen");
        cr_assert_eq(cJSON_GetArraySize(names), frozen ? 6 : 0);
        cr_assert(!frozen || strcmp(cJSON_GetStringValue(cJSON_GetArrayItem(names, 5)), "C") == 0);
        cr_assert_eq(strstr(plan.output, "kernel_backward") == NULL, frozen);
        cJSON_Delete(json);
    }
    cr_assert(peak[1] < peak[0]);
    program_result bench = program_run("'%s' bench " SHAPE " --repeats 1 --json --frozen A_real,A_imag,B,P", s4);
    must_exit(&bench, 0);
    cJSON *json = json_of(&bench);
    const cJSON *row = cJSON_GetArrayItem(json, 0);
    cr_assert(number(row, "max_error") < 1e-5 && number(row, "host_planned") == number(row, "host_measured"));
    cJSON_Delete(json);
    bench = program_run("'%s' plan " SHAPE " --frozen A_real,,B", s4);
    must_exit(&bench, 2);
    bench = program_run("'%s' plan " SHAPE " --frozen A", s4);
    must_exit(&bench, 2);
    cr_assert(strstr(bench.errors, "inv_dt, A_real") != NULL, "%s", bench.errors);
}

Test(command, model_of_many_layers)
{
    enum { LAYERS = 5, PARAMETERS = 6 + 2 * 6 * 4 + 3 * 6 * 4 * 2 + 6, U = 4 * 6 * 100 * 4 };
    const char *s4 = command();
    program_result plan = program_run("'%s' plan " SHAPE " --layers %d --json", s4, LAYERS);
    must_exit(&plan, 0);
    cJSON *json = json_of(&plan);
    cr_assert_eq((int)number(json, "layers"), LAYERS);
    cr_assert_eq(number(json, "model_host_peak"), number(json, "host_peak") + LAYERS * (2 * 8 * PARAMETERS + U));
    cr_assert_eq(number(json, "model_device_peak"), number(json, "device_peak"));
    cJSON_Delete(json);
    plan = program_run("'%s' plan " SHAPE " --layers 5", s4);
    must_exit(&plan, 0);
    cr_assert(strstr(plan.output, "5 such layers") != NULL, "%s", plan.output);
    plan = program_run("'%s' plan " SHAPE " --layers 4611686018427387904", s4);
    must_exit(&plan, 2);
    cr_assert(strstr(plan.errors, "64 bits") != NULL, "%s", plan.errors);
}

/* A GPU asked for where there is none: exit code 4 and why; never a quiet run on the CPU. */
Test(command, no_gpu)
{
    const char *s4 = command(), *output = scratch_path("K.npy");
    program_result result = program_run("'%s' kernel '%s' --length 32 -o '%s' --placement split", s4, golden_layer(),
                                        output);
    must_exit(&result, 4);
    cr_assert(strstr(result.errors, "S4_GPU_MODULE=off") != NULL, "%s", result.errors);
    cr_assert(access(output, F_OK) != 0, "a file was written");
    result = program_run("'%s' bench " SHAPE " --repeats 1 --placement split", s4);
    must_exit(&result, 4);
    result = program_run("'%s' bench " SHAPE " --repeats 1 --placement split --placement cpu --json", s4);
    must_exit(&result, 0);
    cJSON *json = json_of(&result);
    cr_assert_eq(cJSON_GetArraySize(json), 2);
    cr_assert(strstr(word(cJSON_GetArrayItem(json, 0), "place_state"), "unavailable") != NULL);
    cr_assert_str_eq(word(cJSON_GetArrayItem(json, 1), "place_state"), "ok");
    cJSON_Delete(json);
    result = program_run("'%s' plan " SHAPE " --placement split --json", s4); /* plans need no device */
    must_exit(&result, 0);
    result = program_run("'%s' info --json", s4);
    must_exit(&result, 0);
    json = json_of(&result);
    const cJSON *cuda = cJSON_GetObjectItemCaseSensitive(json, "cuda");
    cr_assert(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(cuda, "available")));
    cr_assert(strlen(word(cuda, "reason")) > 0);
    cJSON_Delete(json);
}

static const char bench_keys[][24] = {
    "setup_ns",        "first_ns",        "refresh_ns",         "forward_ns",      "backward_ns",
    "step_ns",         "host_planned",    "host_measured",      "device_planned",  "device_measured",
    "setup_launches",  "setup_device_bytes", "launches",        "moved_to_device", "moved_to_host",
    "max_error",
};

Test(command, bench)
{
    program_result result = program_run("'%s' bench " SHAPE " --repeats 2 --json --dtype f64", command());
    must_exit(&result, 0);
    cJSON *json = json_of(&result);
    cr_assert_eq(cJSON_GetArraySize(json), 1);
    const cJSON *row = cJSON_GetArrayItem(json, 0);
    cr_assert_str_eq(word(row, "placement"), "cpu");
    cr_assert_str_eq(word(row, "place_state"), "ok");
    for (size_t i = 0; i < sizeof bench_keys / sizeof bench_keys[0]; i++)
        cr_assert(number(row, bench_keys[i]) >= 0, "%s", bench_keys[i]);
    cr_assert(number(row, "forward_ns") > 0 && number(row, "backward_ns") > 0 && number(row, "setup_ns") > 0);
    cr_assert(number(row, "host_planned") == number(row, "host_measured") && number(row, "host_planned") > 0);
    cr_assert(number(row, "device_measured") == 0 && number(row, "launches") == 0);
    cr_assert(number(row, "max_error") <= TOLERANCE_CONVOLVE_STEP);
    cJSON_Delete(json);
}

/* Set-up on the host: not one launch, not one byte on the device; what is split is launched, and planned = measured. */
Test(command, bench_split)
{
    program_result result = program_run("'%s' bench " SHAPE " --repeats 1 --json --placement split", command_with_gpu());
    must_exit(&result, 0);
    cJSON *json = json_of(&result);
    const cJSON *row = cJSON_GetArrayItem(json, 0);
    cr_assert_str_eq(word(row, "place_state"), "emulated");
    cr_assert(number(row, "setup_launches") == 0 && number(row, "setup_device_bytes") == 0);
    cr_assert(number(row, "launches") > 0 && number(row, "moved_to_device") > 0 && number(row, "moved_to_host") > 0);
    cr_assert(number(row, "device_planned") == number(row, "device_measured") && number(row, "device_planned") > 0);
    cr_assert(number(row, "host_planned") == number(row, "host_measured"));
    cr_assert(number(row, "max_error") <= TOLERANCE_F32_CONVOLVE_STEP, "%g", number(row, "max_error"));
    cJSON_Delete(json);
}

/* A golden layer from file to file: set-up, kernel, output by both ways, gradients. */
static void golden_files(const char *s4, const char *placement)
{
    golden_case g;
    for (int i = 0; i < golden_count; i++)
        if (strcmp(golden_list[i].name, "dplr_legs") == 0)
            golden_open(&golden_list[i], &g);
    const int64_t count = g.batch * g.d_model * g.input_length;
    char in[1024], out[1024];
    golden_path("dplr_legs", ".in.safetensors", sizeof in, in);
    golden_path("dplr_legs", ".out.safetensors", sizeof out, out);
    const char *layer = scratch_path("layer.safetensors"), *K = scratch_path("K.npy"), *y = scratch_path("y.npy"),
               *state = scratch_path("state.npy"), *gradient = scratch_path("g.safetensors");
    s4_array *array;

    program_result result = program_run("'%s' setup '%s' --length 32 -o '%s' --placement %s", s4, in, layer, placement);
    must_exit(&result, 0);
    s4_layer *set_up;
    must(s4_layer_load(layer, NULL, NULL, &set_up));
    cr_assert_eq(s4_layer_length(set_up), 32);
    expect_close("C~", layer_count(set_up, S4_PARAMETER_C), layer_data(set_up, S4_PARAMETER_C), g.C_tilde,
                 TOLERANCE_FORWARD, 0);
    s4_layer_destroy(set_up);

    for (int stored = 0; stored < 2; stored++) {
        result = program_run("'%s' kernel '%s' --length 32 -o '%s' --dtype f64 --placement %s", s4,
                             stored ? layer : in, K, placement);
        must_exit(&result, 0);
        must(s4_array_read(K, &array));
        cr_assert(array->rank == 3 && array->shape[0] == 1 && array->shape[1] == 4 && array->shape[2] == 32);
        expect_close("K", 4 * 32, array->data, g.K, TOLERANCE_UNDO, 0);
        s4_array_destroy(array);
    }

    static const char modes[][32] = {"conv", "step", "step --chunk 5", "step --step-mode dense"};
    for (int i = 0; i < 4; i++) {
        result = program_run("'%s' run '%s' '%s:u' -o '%s' --dtype f64 --state-in '%s:state.in' --state-out '%s' "
                             "--placement %s --mode %s",
                             s4, in, in, y, out, state, placement, modes[i]);
        must_exit(&result, 0);
        must(s4_array_read(y, &array));
        expect_close("y", count, array->data, g.state_y, TOLERANCE_FORWARD_RANK, 0);
        s4_array_destroy(array);
        must(s4_array_read(state, &array));
        expect_close("state", g.batch * g.d_model * g.d_state, array->data, g.state_out, TOLERANCE_FORWARD_RANK, 0);
        s4_array_destroy(array);
    }

    result = program_run("'%s' run '%s' '%s:u' --compare --dtype f64 --json --placement %s", s4, in, in, placement);
    must_exit(&result, 0);
    cJSON *json = json_of(&result);
    const cJSON *compare = cJSON_GetObjectItemCaseSensitive(json, "compare");
    cr_assert(number(compare, "relative") <= TOLERANCE_CONVOLVE_STEP && number(compare, "max_abs_y") > 0);
    cr_assert(number(compare, "max_abs") > 0, "nothing was compared");
    cJSON_Delete(json);

    result = program_run("'%s' grad '%s' '%s:u' '%s:G' -o '%s' --dtype f64 --placement %s", s4, layer, in, out, gradient,
                         placement);
    must_exit(&result, 0);
    s4_tensors *file;
    must(s4_tensors_open(gradient, &file));
    gradients got = gradients_zero(g.layer, count);
    for (int p = 0; p <= S4_PARAMETER_COUNT; p++) {
        char name[64] = "grad.u";
        s4_parameter_view view = {.count = count};
        if (p < S4_PARAMETER_COUNT) {
            must(s4_layer_parameter(g.layer, (s4_parameter)p, &view));
            snprintf(name, sizeof name, "grad.layer.%s", view.name);
        }
        must(s4_tensors_read(file, name, &array));
        check(array->count == view.count && array->dtype == S4_F64, "%s", name);
        memcpy(p < S4_PARAMETER_COUNT ? got.parameter[p] : got.du, array->data, sizeof(double) * (size_t)view.count);
        s4_array_destroy(array);
    }
    s4_tensors_close(file);
    expect_close_gradients(&got, &g.gradient, TOLERANCE_GRADIENT);

    result = program_run("'%s' setup '%s' --undo -o '%s'", s4, layer, layer);
    must_exit(&result, 0);
    must(s4_layer_load(layer, NULL, NULL, &set_up));
    cr_assert_eq(s4_layer_length(set_up), 0);
    expect_close("C", layer_count(set_up, S4_PARAMETER_C), layer_data(set_up, S4_PARAMETER_C),
                 layer_data(g.layer, S4_PARAMETER_C), TOLERANCE_UNDO, 0);
    s4_layer_destroy(set_up);
    golden_close(&g);
}

Test(command, golden_files_on_the_cpu)
{
    golden_files(command(), "cpu");
}

Test(command, golden_files_split)
{
    golden_files(command_with_gpu(), "split");
}

Test(command, check)
{
    program_result result = program_run("'%s' check", command());
    must_exit(&result, 0);
    char folder[1024];
    golden_path("", "", sizeof folder, folder);
    result = program_run("'%s' check --golden '%s'", command(), folder);
    must_exit(&result, 0);
    result = program_run("'%s' check --golden '%s'", command(), scratch_folder()); /* nothing there is no success */
    cr_assert_neq(result.code, 0);
}

/* A golden case with one number changed must fail the check. */
Test(command, check_notices_a_wrong_case)
{
    const char *s4 = command();
    char in[1024], out[1024];
    golden_path("dplr_legs_small", ".in.safetensors", sizeof in, in);
    golden_path("dplr_legs_small", ".out.safetensors", sizeof out, out);
    file_bytes bytes = file_read(in);
    file_write(scratch_path("case.in.safetensors"), bytes.data, bytes.size);
    s4_tensors *file;
    must(s4_tensors_open(out, &file));
    const int64_t count = s4_tensors_count(file);
    s4_named_array tensors[64];
    s4_array *arrays[64];
    cr_assert(count <= 64);
    for (int64_t i = 0; i < count; i++) {
        must(s4_tensors_read(file, s4_tensors_name(file, i), &arrays[i]));
        tensors[i] = (s4_named_array){s4_tensors_name(file, i), arrays[i]};
    }
    static const char keys[][16] = {"mode",          "d_model", "d_state",      "l_max",        "channels", "kernel_channels",
                                    "bidirectional", "batch",   "input_length", "rank",         "n_ssm",    "init",
                                    "disc",          "dt_transform", "real_transform", "imag_transform", "bandlimit"};
    s4_metadata_entry metadata[32];
    int entries = 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (s4_tensors_metadata(file, keys[i]))
            metadata[entries++] = (s4_metadata_entry){keys[i], s4_tensors_metadata(file, keys[i])};
    const char *copy = scratch_path("case.out.safetensors");
    must(s4_tensors_write(copy, metadata, entries, tensors, count));
    program_result result = program_run("'%s' check --golden '%s'", s4, scratch_folder());
    must_exit(&result, 0);
    static const char wrong[][32] = {"y", "K", "C_tilde", "state.out", "grad.u", "grad.layer.kernel.P"};
    for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++)
        for (int64_t i = 0; i < count; i++)
            if (strcmp(tensors[i].name, wrong[w]) == 0) {
                double *value = arrays[i]->data;
                const double old = *value;
                *value *= 1 + 1e-6;
                must(s4_tensors_write(copy, metadata, entries, tensors, count));
                result = program_run("'%s' check --golden '%s'", s4, scratch_folder());
                *value = old;
                check(result.code == 1, "%s is wrong and the check says %d: %s", wrong[w], result.code, result.output);
            }
    for (int64_t i = 0; i < count; i++)
        s4_array_destroy(arrays[i]);
    s4_tensors_close(file);
}

Test(command, usage_and_bad_files)
{
    const char *s4 = command(), *bad = scratch_path("bad.safetensors"), *output = scratch_path("o.npy");
    file_write(bad, "nonsense", 8);
    const struct {
        const char *arguments;
        int code;
    } cases[] = {
        {"", 2},
        {"nonsense", 2},
        {"plan --nonsense", 2},
        {"plan --d-model 4 --d-state 5 --length 8", 2},
        {"plan --mode diag --d-model 4 --d-state 5 --length 8", 2},
        {"init -o /nowhere/x.safetensors --d-model 4 --d-state 5", 2},
        {"init -o /nowhere/x.safetensors --d-model 4 --d-state 1", 2},
        {"init -o /nowhere/x.safetensors --init legt --rank 1 --d-model 4 --d-state 8", 2},
        {"init -o /nowhere/x.safetensors --d-model 4 --d-state 4 --n-ssm 3", 2},
        {"plan --d-model 4 --d-state -4 --length 8", 2},
        {"plan --d-model 4 --d-state 4 --length -8", 2},
        {"plan --d-model 4 --d-state 4 --length 8 --rank 9", 2},
        {"plan --d-model 0 --d-state 4 --length 8", 2},
        {"plan --d-model 4 --d-state 4 --length 8 --placement tpu", 2},
        {"plan --d-model 4 --d-state 4 --length 8 --host-budget 3XB", 2},
        {"plan --d-model 4 --d-state 4 --length 8 --algorithm chunks", 2},
        {"plan --d-model 4 --d-state 4 --length 8 --kernel-length 7 --algorithm chunked", 2},
        {"plan --d-model 4 --d-state 4 --length 8 --algorithm chunked", 0},
        {"bench --d-model 4 --d-state 4 --length 80 --repeats 1 --algorithm chunked", 0},
        {"bench --mode diag --d-model 4 --d-state 4 --length 80 --repeats 1 --algorithm chunked", 0},
        {"plan --d-model 99999999999999999999 --d-state 4 --length 8", 2},
        {"kernel", 2},
        {"info", 0},
        {"info --cpu-level nonsense", 2},
        {"plan --d-model 4 --d-state 4 --length 8 --cpu-level nonsense", 2},
        {"check --cpu-level nonsense", 2},
        {"--help", 0},
        {"plan --help", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        program_result result = program_run("'%s' %s", s4, cases[i].arguments);
        must_exit(&result, cases[i].code);
        if (cases[i].code)
            check(strlen(result.errors) > 0 && strlen(result.output) == 0, "[%s] not an error on standard error",
                  about_text());
    }
    program_result odd = program_run("'%s' init -o '%s' --d-model 4 --d-state 63", s4, bad);
    must_exit(&odd, 2);
    check(strstr(odd.errors, "63") && strstr(odd.errors, "even"), "[%s] no reason: %s", about_text(), odd.errors);
    program_result result = program_run("'%s' kernel '%s' --length 8 -o '%s'", s4, bad, output);
    must_exit(&result, 3);
    cr_assert(strstr(result.errors, "bad.safetensors") != NULL);
    result = program_run("'%s' kernel '%s.none' --length 8 -o '%s'", s4, bad, output);
    must_exit(&result, 3);
    result = program_run("'%s' run '%s' '%s:none' -o '%s'", s4, golden_layer(), golden_layer(), output);
    must_exit(&result, 3);
    cr_assert(access(output, F_OK) != 0, "a file was written");
}
