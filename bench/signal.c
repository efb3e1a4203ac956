/* Reading and writing sequences and states. */
#include "signal.h"

#include <errno.h>
#include <string.h>

#include "exit_code.h"
#include "memory.h"
#include "output.h"
#include "progress.h"

/* ---- reading ------------------------------------------------------------------------------------------------- */

static int time_first(const struct options *options) { return options->layout == S4_LAYOUT_BLH; }

/* Formats that hold a signal, whose order of channels and time is their own. */
static int is_signal_file(const char *name) { return ends_with(name, ".wav") || ends_with(name, ".csv"); }

static int check_layout(const struct options *options, const char *what, const char *name)
{
    if (!time_first(options) || !is_signal_file(name)) return CODE_FINE;
    return fail_usage(options->verb, "%s '%s': --layout blh is for .npy and .safetensors only", what, name);
}

static int read_tensor(const struct options *options, const char *what, const char *source, s4_dtype dtype,
                       s4_array **array, int64_t *rate)
{
    int code = check_layout(options, what, source);
    if (code) return code;
    s4_status status = s4_array_read_rate(source, array, rate);
    if (!status) status = s4_array_convert(*array, dtype);
    if (!status) return CODE_FINE;
    s4_array_destroy(*array);
    *array = NULL;
    return fail_reading(options->verb, status);
}

static int fail_shape(const struct options *options, const char *what, const char *source, const s4_array *array,
                      const char *expected)
{
    char shape[FORMAT_SIZE];
    return fail_input(options->verb, "%s: %s has the shape %s; expected %s", what, source,
                      format_shape(shape, array->rank, array->shape), expected);
}

/* One sequence -> every channel the same: (T) -> (H,T) or (T,H). */
static s4_status repeat_channels(const struct options *options, s4_array **array, int64_t channels)
{
    const int64_t length = (*array)->count;
    const int64_t wide_shape[2] = {time_first(options) ? length : channels, time_first(options) ? channels : length};
    s4_array *wide;
    s4_status status = s4_array_create((*array)->dtype, 2, wide_shape, &wide);
    if (status) return status;
    const size_t size = s4_dtype_size(wide->dtype);
    const char *from = (*array)->data;
    char *to = wide->data;
    if (time_first(options)) {
        for (int64_t i = 0; i < wide->count; i++)
            memcpy(to + (size_t)i * size, from + (size_t)(i / channels) * size, size);
    } else {
        for (int64_t h = 0; h < channels; h++) memcpy(to + (size_t)(h * length) * size, from, (size_t)length * size);
    }
    s4_array_destroy(*array);
    *array = wide;
    return S4_OK;
}

int signal_read(const struct options *options, const char *what, const char *source, int64_t channels, int broadcast,
                struct signal *signal)
{
    memset(signal, 0, sizeof *signal);
    int code = read_tensor(options, what, source, options->dtype, &signal->array, &signal->rate);
    if (code) return code;
    s4_array *array = signal->array;
    const int rank = array->rank;
    const int channel_axis = time_first(options) ? rank - 1 : rank - 2;
    const int64_t wide = rank >= 2 ? array->shape[channel_axis] : 1;
    const int single = broadcast && array->count >= 1 && (rank == 1 || (rank == 2 && wide == 1 && channels != 1));
    const int fits = rank >= 2 && rank <= 3 && array->count >= 1 && wide == channels;
    if (!single && !fits) {
        char expected[128];
        snprintf(expected, sizeof expected, "%s%s with %s = %lld channels, B and T at least 1",
                 time_first(options) ? "(B,T,C), (T,C)" : "(B,C,T), (C,T)", broadcast ? ", (T)" : "", "C",
                 (long long)channels);
        code = fail_shape(options, what, source, array, expected);
        s4_array_destroy(array);
        signal->array = NULL;
        return code;
    }
    signal->batch = rank == 3 ? array->shape[0] : 1;
    signal->length = single ? array->count : array->shape[time_first(options) ? rank - 2 : rank - 1];
    s4_status status = single ? repeat_channels(options, &signal->array, channels) : S4_OK;
    if (!status) return CODE_FINE;
    s4_array_destroy(signal->array);
    signal->array = NULL;
    return fail_status(options->verb, status);
}

s4_status signal_create_like(const struct options *options, const struct signal *signal, int64_t channels,
                             s4_array **array)
{
    const int rank = signal->array->rank;
    int64_t shape[3];
    memcpy(shape, signal->array->shape, (size_t)rank * sizeof *shape);
    shape[time_first(options) ? rank - 1 : rank - 2] = channels;
    return s4_array_create(options->dtype, rank, shape, array);
}

void signal_strides(const struct options *options, int64_t channels, int64_t length, int64_t strides[3])
{
    strides[0] = channels * length;
    strides[1] = time_first(options) ? 1 : length;
    strides[2] = time_first(options) ? channels : 1;
}

int state_read(const struct options *options, const char *source, int64_t batch, int64_t d_model, int64_t modes,
               s4_array **state)
{
    int64_t rate;
    int code = read_tensor(options, "--state-in", source, S4_F64, state, &rate);
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

int lengths_read(const struct options *options, const struct signal *signal, int64_t **lengths)
{
    *lengths = NULL;
    if (!options->lengths) return CODE_FINE;
    int64_t *values = memory_zeroed(signal->batch, sizeof *values), count = 0;
    const char *at = options->lengths;
    int fine = 1;
    for (; fine && count < signal->batch; count++) {
        char *end;
        errno = 0;
        long long value = strtoll(at, &end, 10);
        fine = *at >= '0' && *at <= '9' && !errno && value <= signal->length && (*end == ',' || !*end);
        values[count] = value;
        at = *end ? end + 1 : end;
        if (!*end && count + 1 < signal->batch) fine = 0;
        if (*end && count + 1 == signal->batch) fine = 0;
    }
    if (fine) {
        *lengths = values;
        return CODE_FINE;
    }
    free(values);
    return fail_usage(options->verb, "--lengths '%s': must be %lld integer%s from 0 to %lld, with commas between",
                      options->lengths, (long long)signal->batch, signal->batch == 1 ? "" : "s",
                      (long long)signal->length);
}

/* ---- writing ------------------------------------------------------------------------------------------------- */

int check_output_name(const struct options *options, const char *option, const char *path, const char *suffix)
{
    if (ends_with(path, suffix)) return CODE_FINE;
    return fail_usage(options->verb, "%s '%s': the name must end in %s", option, path, suffix);
}

int check_array_name(const struct options *options, const char *option, const char *path, const char *source)
{
    const int has_rate = source && ends_with(source, ".wav");
    if (ends_with(path, ".wav") && source && !has_rate)
        return fail_usage(options->verb, "%s '%s': a .wav file needs a rate, which only a .wav input has", option,
                          path);
    if (!ends_with(path, ".npy") && !ends_with(path, ".csv") && !(ends_with(path, ".wav") && has_rate))
        return fail_usage(options->verb, "%s '%s': the name must end in .npy or .csv%s", option, path,
                          source ? ", or in .wav if the input does" : "");
    return check_layout(options, option, path);
}

s4_status write_array(const char *path, const s4_array *array, int64_t rate)
{
    if (progress_cancelled()) return S4_ERROR_CANCELLED;
    return s4_array_write(path, array, rate);
}
