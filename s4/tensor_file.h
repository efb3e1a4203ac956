/* What the readers and writers of tensor files share: checked shapes, texts, and one reader and writer a format. */
#ifndef S4_TENSOR_FILE_H
#define S4_TENSOR_FILE_H

#include "s4/io.h"

/* All binary formats store little-endian numbers, and data is moved as it lies. */
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensor files need a little-endian host: data is read and written without swapping bytes"
#endif

/* Product of the sizes: 1 for rank 0, 0 if one of them is 0. -1 if a size is negative, or if the product of the
 * nonzero ones times element_size does not fit an object in memory. */
int64_t s4_shape_count(int rank, const int64_t *shape, size_t element_size);

/* "(2,4,32)", written into `text` and returned. */
#define S4_SHAPE_TEXT (21 * S4_DIMENSIONS_MAX + 4)
const char *s4_shape_text(int rank, const int64_t *shape, char text[S4_SHAPE_TEXT]);

/* What a writer requires of an array: known dtype, rank and sizes in bounds, count as the shape says, data there.
 * S4_ERROR_ARGUMENT names `name`. */
s4_status s4_array_check(const s4_array *array, const char *name);

/* Number of leading bytes that are well-formed UTF-8; `bytes` if all are. */
size_t s4_utf8_prefix(const char *text, size_t bytes);

/* Names of a safetensors file for an error text: "a, b, c and 9 more". */
#define S4_TENSOR_LIST_TEXT 640
const char *s4_tensors_list(const s4_tensors *file, char text[S4_TENSOR_LIST_TEXT]);

/* "a NumPy array (.npy)" and the like, of a file of another format that begins so; NULL if it is none that is known. */
const char *s4_file_kind(const void *begin, size_t bytes);

int s4_ends_with(const char *text, const char *suffix);

s4_status s4_npy_read(const char *path, s4_array **array);
s4_status s4_csv_read(const char *path, s4_array **array);
s4_status s4_wav_read(const char *path, s4_array **array, int64_t *rate); /* rate in Hz */

/* Arrays are checked: see s4_array_check. */
s4_status s4_csv_write(const char *path, const s4_array *array);
s4_status s4_wav_write(const char *path, const s4_array *array, int64_t rate);

/* A tensor (T), (channels,T) or (1,...,channels,T) as the formats of signals take it. */
typedef struct s4_signal {
    int64_t channels, length;
    s4_dtype dtype; /* f32 or f64 */
    const void *data;
} s4_signal;
/* S4_ERROR_ARGUMENT for any other shape, S4_ERROR_UNSUPPORTED for I64. */
s4_status s4_signal_shape(const char *path, const s4_array *array, s4_signal *signal);
double s4_signal_sample(const s4_signal *signal, int64_t channel, int64_t t);

#endif
