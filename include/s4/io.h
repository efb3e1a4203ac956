/*
 * Tensors and signals in files.
 *   .npy          f4, f8, little endian, C order
 *   .safetensors  F32, F64, I64
 *   .wav          16- and 24-bit PCM and 32-bit floats, read as f32; 32-bit PCM and 64-bit floats, read as f64; also
 *                 WAVE_FORMAT_EXTENSIBLE. (channels,T); PCM is scaled to [-1, 1). Compressed files and RF64 are
 *                 S4_ERROR_UNSUPPORTED. Written as 32-bit floats
 *   .csv          a row for every moment, a column for every channel, read as f64 (channels,T): numbers, nan and inf
 *                 too, with a point in every locale, between commas, semicolons, tabs or spaces; the first line may be
 *                 a header, a line where no field begins like a number. A bad or missing field is S4_ERROR_FORMAT with
 *                 line and column. Written with 9 digits for f32 and 17 for f64, which bring every number back
 *
 * Readers are bounded by the size of the file: a truncated, overlapping, oversized or lying file is
 * S4_ERROR_FORMAT with a reason. Writers are atomic: a failure leaves an old file of that name untouched. Until it is
 * whole, a file has another name in the same folder.
 */
#ifndef S4_IO_H
#define S4_IO_H

#include "types.h"

S4_BEGIN_DECLS

#define S4_DIMENSIONS_MAX 8

/* A dense row-major tensor on the host. */
typedef struct s4_array {
    s4_dtype dtype;
    int rank; /* 0 .. S4_DIMENSIONS_MAX; 0 is a scalar: one element */
    int64_t shape[S4_DIMENSIONS_MAX];
    int64_t count; /* product of the shape */
    void *data;
} s4_array;

/* Allocates data (zero) for the given shape; S4_ERROR_ARGUMENT for a negative size or a product that overflows. */
S4_API s4_status s4_array_create(s4_dtype dtype, int rank, const int64_t *shape, s4_array **array);
S4_API void s4_array_destroy(s4_array *array);
/* Replaces the data by another dtype (f32 <-> f64; I64 is refused). No-op if it is the same. */
S4_API s4_status s4_array_convert(s4_array *array, s4_dtype dtype);

/* `source` is "x.npy", "x.wav", "x.csv" or "x.safetensors:name". A file that ends in .safetensors needs a name; the
 * error lists those that are there. */
S4_API s4_status s4_array_read(const char *source, s4_array **array);
/* The same; *rate is the samples a second of a .wav file, 0 for all others. */
S4_API s4_status s4_array_read_rate(const char *source, s4_array **array, int64_t *rate);
/* To .npy, .wav or .csv, by the suffix of `path`. .wav and .csv take (T), (channels,T) or (1,channels,T); .wav needs
 * `rate`, which others do not use. I64 is S4_ERROR_UNSUPPORTED, as is what a .wav file cannot hold (4 GiB). */
S4_API s4_status s4_array_write(const char *path, const s4_array *array, int64_t rate);
S4_API s4_status s4_array_write_npy(const char *path, const s4_array *array);

/* A safetensors file, opened and checked; holds its header, not its data. Holes and overlaps in the data, duplicate
 * names and NUL in names are S4_ERROR_FORMAT. Tensors are counted in the order of their names. */
typedef struct s4_tensors s4_tensors;
S4_API s4_status s4_tensors_open(const char *path, s4_tensors **file);
S4_API void s4_tensors_close(s4_tensors *file);
S4_API int64_t s4_tensors_count(const s4_tensors *file);
S4_API const char *s4_tensors_name(const s4_tensors *file, int64_t index); /* NULL out of range */
/* Value of a key of __metadata__, or NULL. */
S4_API const char *s4_tensors_metadata(const s4_tensors *file, const char *key);
S4_API int s4_tensors_has(const s4_tensors *file, const char *name);
/* S4_ERROR_FORMAT if there is no such tensor or its dtype is none of F32, F64, I64. */
S4_API s4_status s4_tensors_read(s4_tensors *file, const char *name, s4_array **array);

typedef struct s4_named_array {
    const char *name;
    const s4_array *array;
} s4_named_array;
typedef struct s4_metadata_entry {
    const char *key, *value;
} s4_metadata_entry;
S4_API s4_status s4_tensors_write(const char *path, const s4_metadata_entry *metadata, int64_t metadata_count,
                                  const s4_named_array *tensors, int64_t tensor_count);

/* Removes what this process has written under other names and not finished, of up to 16 files at a time: for the handler of
 * a signal that ends the process, in which it may be called. Writers that went on would fail. */
S4_API void s4_unfinished_remove(void);

S4_END_DECLS
#endif
