/* Reading the golden cases: see golden.h. */
#include "golden.h"

#include <stdio.h>
#include <stdlib.h>

#include "expect.h"
#include "layers.h"
#include "tolerances.h"

const golden_entry golden_list[] = {
    {"diag_bandlimit", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"diag_bilinear", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"diag_channels_bidir", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"diag_dss", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"diag_dss_unstable", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"diag_dt_untied", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"diag_inv", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"diag_legs", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"diag_lin", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"diag_long_input", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"diag_n64_long", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"diag_odd_length", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"diag_real", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"diag_relu", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"dplr_bidirectional", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"dplr_channels", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"dplr_fourier", TOLERANCE_FORWARD_RANK, TOLERANCE_GRADIENT_FOURIER},
    {"dplr_hippo_mix", TOLERANCE_FORWARD_RANK, TOLERANCE_GRADIENT_FOURIER},
    {"dplr_legs", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"dplr_legs_n64", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"dplr_legs_rank3", TOLERANCE_FORWARD_RANK, TOLERANCE_GRADIENT},
    {"dplr_legs_small", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"dplr_legs_start", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"dplr_legt_rank2", TOLERANCE_FORWARD_RANK, TOLERANCE_GRADIENT},
    {"dplr_length_1", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"dplr_length_2", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"dplr_length_3", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"dplr_long_input", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"dplr_n_ssm", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"dplr_odd_length", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"dplr_short_input", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"dplr_sigmoid", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"dplr_softplus_dt", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
    {"dplr_transforms", TOLERANCE_FORWARD, TOLERANCE_GRADIENT},
};
const int golden_count = (int)(sizeof golden_list / sizeof golden_list[0]);

void golden_path(const char *name, const char *end, size_t capacity, char *path)
{
    const char *folder = getenv("S4_TEST_GOLDEN");
    const int size = snprintf(path, capacity, "%s/%s%s", folder && *folder ? folder : S4_TEST_GOLDEN_DIR, name, end);
    check(size > 0 && (size_t)size < capacity, "path of %s is too long", name);
}

/* NULL if the file has no such tensor and it is not needed; `count` is checked. */
static double *tensor(s4_tensors *file, const char *name, int needed, int64_t count)
{
    if (!s4_tensors_has(file, name)) {
        check(!needed, "[%s] no tensor %s", about_text(), name);
        return NULL;
    }
    s4_array *array;
    must(s4_tensors_read(file, name, &array));
    check(array->dtype == S4_F64 && array->count == count, "[%s] %s has %lld numbers, not %lld", about_text(), name,
          (long long)array->count, (long long)count);
    double *data = numbers_copy(count, array->data);
    s4_array_destroy(array);
    return data;
}

static int64_t whole_number(const s4_tensors *file, const char *key)
{
    const char *text = s4_tensors_metadata(file, key);
    check(text != NULL, "[%s] no metadata %s", about_text(), key);
    return strtoll(text, NULL, 10);
}

void golden_open(const golden_entry *entry, golden_case *golden)
{
    char path[1024];
    s4_tensors *file;
    memset(golden, 0, sizeof *golden);

    golden_path(entry->name, ".in.safetensors", sizeof path, path);
    must(s4_layer_load(path, NULL, NULL, &golden->layer));
    must(s4_tensors_open(path, &file));
    golden->is_dplr = strcmp(s4_tensors_metadata(file, "mode"), "dplr") == 0;
    golden->d_model = whole_number(file, "d_model");
    golden->d_state = whole_number(file, "d_state");
    golden->batch = whole_number(file, "batch");
    golden->input_length = whole_number(file, "input_length");
    golden->length = whole_number(file, "l_max");
    golden->channels = whole_number(file, "channels");
    golden->kernels = whole_number(file, "kernel_channels");
    const int64_t H = golden->d_model, N = golden->d_state, B = golden->batch, T = golden->input_length,
                  L = golden->length, K = golden->kernels;
    golden->inputs = B * H * T;
    golden->outputs = golden->channels * golden->inputs;
    golden->states = B * H * N;
    golden->matrices = golden->is_dplr ? H * N * N * 2 : H * N;
    golden->vectors = golden->is_dplr ? H * N * 2 : H * N;
    golden->u = tensor(file, "u", 1, golden->inputs);
    s4_tensors_close(file);

    golden_path(entry->name, ".out.safetensors", sizeof path, path);
    must(s4_tensors_open(path, &file));
    golden->G = tensor(file, "G", 1, golden->outputs);
    golden->K = tensor(file, "K", 1, K * H * L);
    golden->K_direct = tensor(file, "K_direct", 0, K * H * L);
    golden->K_rate_2 = tensor(file, "K_rate_2", 0, K * H * (L / 2));
    golden->dA = tensor(file, "dA", golden->is_dplr, golden->matrices);
    golden->dB = tensor(file, "dB", golden->is_dplr, golden->vectors);
    golden->dA_L = tensor(file, "dA_L", golden->is_dplr, golden->matrices);
    golden->C_tilde = tensor(file, "C_tilde", golden->is_dplr, K * H * N);
    golden->y = tensor(file, "y", 1, golden->outputs);
    golden->state_in = tensor(file, "state.in", 0, golden->states);
    golden->state_out = tensor(file, "state.out", golden->state_in != NULL, golden->states);
    golden->state_y = tensor(file, "state.y", golden->state_in != NULL, golden->outputs);
    golden->has_gradient = s4_tensors_has(file, "grad.u");
    golden->gradient = gradients_zero(golden->layer, golden->inputs);
    for (int p = 0; golden->has_gradient && p < S4_PARAMETER_COUNT; p++) {
        s4_parameter_view view;
        char name[64];
        must(s4_layer_parameter(golden->layer, (s4_parameter)p, &view));
        snprintf(name, sizeof name, "grad.layer.%s", view.name);
        if (view.count > 0)
            golden->gradient.parameter[p] = tensor(file, name, 1, view.count);
    }
    if (golden->has_gradient)
        golden->gradient.du = tensor(file, "grad.u", 1, golden->inputs);
    s4_tensors_close(file);
}

void golden_close(golden_case *golden)
{
    s4_layer_destroy(golden->layer);
    golden->layer = NULL;
}
