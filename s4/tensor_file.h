/* What the readers and writers of tensor files share: checked shapes, texts, and the one .npy reader. */
#ifndef S4_TENSOR_FILE_H
#define S4_TENSOR_FILE_H

#include "s4/io.h"

/* Both formats store little-endian numbers, and data is moved as it lies. */
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

s4_status s4_npy_read(const char *path, s4_array **array);

#endif
