/* Signals for tests of their files. */
#ifndef S4_TEST_SIGNAL_ARRAYS_H
#define S4_TEST_SIGNAL_ARRAYS_H

#include <math.h>
#include <string.h>

#include "expect.h"
#include "scratch.h"

static inline s4_array *signal_of(s4_dtype dtype, int rank, const int64_t *shape)
{
    s4_array *array;
    must(s4_array_create(dtype, rank, shape, &array));
    for (int64_t i = 0; i < array->count; i++) {
        const double value = sin(0.7 * (double)i) / 3;
        if (dtype == S4_F64) ((double *)array->data)[i] = value;
        if (dtype == S4_F32) ((float *)array->data)[i] = (float)value;
    }
    return array;
}

static inline double value_of(const s4_array *array, int64_t i)
{
    return array->dtype == S4_F64 ? ((const double *)array->data)[i] : (double)((const float *)array->data)[i];
}

static inline const char *write_text(const char *name, const char *text)
{
    const char *path = scratch_path(name);
    file_write(path, text, strlen(text));
    return path;
}

#endif
