/* Reading sequences and states. */
#include "signal.h"

#include <string.h>

#include "exit_code.h"
#include "output.h"

static int read_tensor(const struct options *options, const char *what, const char *source, s4_dtype dtype,
                       s4_array **array)
{
    if (ends_with(source, ".wav") || ends_with(source, ".csv"))
        return fail_usage(options->verb, "%s: %s: this version reads .npy and .safetensors:name, not this format", what,
                          source);
    s4_status status = s4_array_read(source, array);
    if (!status) status = s4_array_convert(*array, dtype);
    if (!status) return CODE_FINE;
    s4_array_destroy(*array);
    *array = NULL;
    return fail_status(options->verb, status);
}

static int fail_shape(const struct options *options, const char *what, const char *source, const s4_array *array,
                      const char *expected)
{
    char shape[FORMAT_SIZE];
    return fail_input(options->verb, "%s: %s has the shape %s; expected %s", what, source,
                      format_shape(shape, array->rank, array->shape), expected);
}

/* (T) -> (H,T), every channel the same. */
static s4_status repeat_channels(s4_array **array, int64_t d_model)
{
    const int64_t shape[2] = {d_model, (*array)->count};
    s4_array *wide;
    s4_status status = s4_array_create((*array)->dtype, 2, shape, &wide);
    if (status) return status;
    size_t bytes = (size_t)(*array)->count * s4_dtype_size(wide->dtype);
    for (int64_t h = 0; h < d_model; h++) memcpy((char *)wide->data + (size_t)h * bytes, (*array)->data, bytes);
    s4_array_destroy(*array);
    *array = wide;
    return S4_OK;
}

int signal_read(const struct options *options, const char *what, const char *source, int64_t d_model, int broadcast,
                struct signal *signal)
{
    memset(signal, 0, sizeof *signal);
    int code = read_tensor(options, what, source, options->dtype, &signal->array);
    if (code) return code;
    s4_array *array = signal->array;
    int rank = array->rank;
    if (rank < (broadcast ? 1 : 2) || rank > 3 || array->count < 1 ||
        (rank >= 2 && array->shape[rank - 2] != d_model)) {
        char expected[128];
        snprintf(expected, sizeof expected, "(B,H,T)%s or %s with H = %lld channels, B and T at least 1",
                 broadcast ? ", (H,T)" : "", broadcast ? "(T)" : "(H,T)", (long long)d_model);
        code = fail_shape(options, what, source, array, expected);
        s4_array_destroy(array);
        signal->array = NULL;
        return code;
    }
    signal->batch = rank == 3 ? array->shape[0] : 1;
    signal->length = array->shape[rank - 1];
    s4_status status = rank == 1 ? repeat_channels(&signal->array, d_model) : S4_OK;
    if (!status) return CODE_FINE;
    s4_array_destroy(signal->array);
    signal->array = NULL;
    return fail_status(options->verb, status);
}

int state_read(const struct options *options, const char *source, int64_t batch, int64_t d_model, int64_t modes,
               s4_array **state)
{
    int code = read_tensor(options, "--state-in", source, S4_F64, state);
    if (code) return code;
    const int64_t shape[4] = {batch, d_model, modes, 2};
    int rank = (*state)->rank, offset = 4 - rank, right = rank == 4 || (rank == 3 && batch == 1);
    for (int i = 0; right && i < rank; i++) right = (*state)->shape[i] == shape[i + offset];
    if (right) return CODE_FINE;
    char expected[FORMAT_SIZE];
    code = fail_shape(options, "--state-in", source, *state, format_shape(expected, 4, shape));
    s4_array_destroy(*state);
    *state = NULL;
    return code;
}

int check_output_name(const struct options *options, const char *option, const char *path, const char *suffix)
{
    if (ends_with(path, suffix)) return CODE_FINE;
    return fail_usage(options->verb, "%s '%s': the name must end in %s", option, path, suffix);
}
