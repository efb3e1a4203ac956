/* s4_array to files, by the suffix of the name; and how a tensor is taken as a signal. */
#include <string.h>

#include "s4/errors.h"
#include "s4/tensor_file.h"

s4_status s4_signal_shape(const char *path, const s4_array *array, s4_signal *signal)
{
    int rank = array->rank, whole = rank >= 1;
    for (int d = 0; d < rank - 2; d++) whole &= array->shape[d] == 1;
    if (!whole) {
        char shape[S4_SHAPE_TEXT];
        return s4_fail(S4_ERROR_ARGUMENT,
                       "%s: an array of shape %s is no signal: only (T), (channels,T) and "
                       "(1,channels,T) are",
                       path, s4_shape_text(rank, array->shape, shape));
    }
    if (array->dtype == S4_I64)
        return s4_fail(S4_ERROR_UNSUPPORTED, "%s: i64 cannot be written there, only f32 and f64", path);
    signal->length = array->shape[rank - 1];
    signal->channels = rank > 1 ? array->shape[rank - 2] : 1;
    signal->dtype = array->dtype;
    signal->data = array->data;
    return S4_OK;
}

double s4_signal_sample(const s4_signal *signal, int64_t channel, int64_t t)
{
    int64_t at = channel * signal->length + t;
    return signal->dtype == S4_F64 ? ((const double *)signal->data)[at] : (double)((const float *)signal->data)[at];
}

static s4_status write_npy(const char *path, const s4_array *array, int64_t rate)
{
    (void)rate;
    return s4_array_write_npy(path, array);
}

static s4_status write_csv(const char *path, const s4_array *array, int64_t rate)
{
    (void)rate;
    return s4_csv_write(path, array);
}

static const struct {
    const char *suffix;
    s4_status (*write)(const char *path, const s4_array *array, int64_t rate);
} formats[] = {{".npy", write_npy}, {".wav", s4_wav_write}, {".csv", write_csv}};

s4_status s4_array_write(const char *path, const s4_array *array, int64_t rate)
{
    if (!path) return s4_fail(S4_ERROR_ARGUMENT, "s4_array_write: path is NULL");
    S4_TRY(s4_array_check(array, path));
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (s4_ends_with(path, formats[i].suffix)) return formats[i].write(path, array, rate);
    return s4_fail(S4_ERROR_ARGUMENT, "%s: an array is written to FILE.npy, FILE.wav or FILE.csv", path);
}
