/*
 * Tensors in files: round trips, and every kind of file that is not what it says. A reader must answer each with a typed
 * error, never with a crash, a huge allocation or a guess.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "expect.h"
#include "scratch.h"

static s4_array *array_of(s4_dtype dtype, int rank, const int64_t *shape)
{
    s4_array *array;
    must(s4_array_create(dtype, rank, shape, &array));
    for (int64_t i = 0; i < array->count; i++) {
        if (dtype == S4_F64)
            ((double *)array->data)[i] = 1.0 / (double)(i + 3);
        else if (dtype == S4_F32)
            ((float *)array->data)[i] = 1.0f / (float)(i + 3);
        else
            ((int64_t *)array->data)[i] = INT64_MAX - i;
    }
    return array;
}

static void expect_same_array(const s4_array *got, const s4_array *expected)
{
    check(got->dtype == expected->dtype && got->rank == expected->rank && got->count == expected->count,
          "[%s] dtype, rank or count differs", about_text());
    for (int i = 0; i < got->rank; i++)
        check(got->shape[i] == expected->shape[i], "[%s] shape differs", about_text());
    check(memcmp(got->data, expected->data, (size_t)got->count * s4_dtype_size(got->dtype)) == 0, "[%s] data differs",
          about_text());
}

static const struct {
    int rank;
    int64_t shape[8];
} shapes[] = {{0, {0}}, {1, {1}}, {1, {5}}, {3, {2, 3, 4}}, {2, {0, 3}}, {8, {1, 2, 1, 2, 1, 2, 1, 2}}};
#define SHAPES (int)(sizeof shapes / sizeof shapes[0])

Test(files, npy_round_trip)
{
    for (int dtype = S4_F32; dtype <= S4_F64; dtype++)
        for (int i = 0; i < SHAPES; i++) {
            about("%s, shape %d", s4_dtype_name((s4_dtype)dtype), i);
            s4_array *array = array_of((s4_dtype)dtype, shapes[i].rank, shapes[i].shape), *back;
            const char *path = scratch_path("x.npy");
            must(s4_array_write_npy(path, array));
            must(s4_array_read(path, &back));
            expect_same_array(back, array);
            s4_array_destroy(back);
            s4_array_destroy(array);
        }
}

/* What NumPy writes, byte for byte, for np.arange(6, dtype=...).reshape(2, 3), versions 1.0, 2.0 and 3.0. */
static size_t npy_file(unsigned char *file, int version, const char *header_text, const void *data, size_t bytes)
{
    const size_t length_bytes = version == 1 ? 2 : 4, before = 8 + length_bytes;
    size_t header = strlen(header_text) + 1;
    header += (64 - (before + header) % 64) % 64;
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (unsigned char)version;
    file[7] = 0;
    for (size_t i = 0; i < length_bytes; i++)
        file[8 + i] = (unsigned char)(header >> (8 * i));
    memset(file + before, ' ', header);
    memcpy(file + before, header_text, strlen(header_text));
    file[before + header - 1] = '\n';
    memcpy(file + before + header, data, bytes);
    return before + header + bytes;
}

Test(files, npy_as_numpy_writes_it)
{
    const double values[6] = {0, 1, 2, 3, 4, 5};
    unsigned char file[512];
    for (int version = 1; version <= 3; version++) {
        about("version %d", version);
        const size_t size = npy_file(file, version, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }",
                                     values, sizeof values);
        const char *path = scratch_path("numpy.npy");
        file_write(path, file, size);
        s4_array *array;
        must(s4_array_read(path, &array));
        check(array->dtype == S4_F64 && array->rank == 2 && array->shape[0] == 2 && array->shape[1] == 3, "[%s] header",
              about_text());
        check(memcmp(array->data, values, sizeof values) == 0, "[%s] data", about_text());
        s4_array_destroy(array);
    }
}

/* Reads a file by both routes; tells the status of the first that fails. `name` may be NULL. */
static s4_status read_status(const char *path, const char *name)
{
    s4_array *array = NULL;
    s4_status status;
    if (!name) {
        status = s4_array_read(path, &array);
        if (status)
            check(array == NULL, "[%s] the pointer is not NULL", about_text());
    } else {
        s4_tensors *file = (s4_tensors *)(void *)&array;
        status = s4_tensors_open(path, &file);
        if (status) {
            check(file == NULL, "[%s] the pointer is not NULL", about_text());
        } else {
            status = s4_tensors_read(file, name, &array);
            s4_tensors_close(file);
        }
    }
    s4_array_destroy(array);
    return status;
}

static void must_be_malformed(const char *path, const char *name)
{
    const s4_status status = read_status(path, name);
    check(status == S4_ERROR_FORMAT, "[%s] %s: %s", about_text(), s4_status_name(status), s4_last_error());
    check(strlen(s4_last_error()) > 0, "[%s] no text", about_text());
}

/* A file cut at any byte is malformed; one with any byte changed is read or malformed. */
static void damage(const char *path, const char *name)
{
    file_bytes whole = file_read(path);
    const char *damaged = scratch_path(name ? "damaged.safetensors" : "damaged.npy");
    for (size_t size = 0; size < whole.size; size++) {
        about("%s cut after %d bytes", path, (int)size);
        file_write(damaged, whole.data, size);
        must_be_malformed(damaged, name);
    }
    for (size_t i = 0; i < whole.size; i++) {
        static const unsigned char values[] = {0, 0xff, '{', '"', '9', '-', ' '};
        const unsigned char old = whole.data[i];
        for (size_t v = 0; v < sizeof values; v++) {
            about("%s with byte %d at %d", path, values[v], (int)i);
            whole.data[i] = values[v];
            file_write(damaged, whole.data, whole.size);
            const s4_status status = read_status(damaged, name);
            check(status == S4_OK || status == S4_ERROR_FORMAT, "[%s] %s: %s", about_text(), s4_status_name(status),
                  s4_last_error());
        }
        whole.data[i] = old;
    }
}

Test(files, npy_damaged)
{
    static const int64_t shape[] = {2, 3};
    s4_array *array = array_of(S4_F32, 2, shape);
    const char *path = scratch_path("whole.npy");
    must(s4_array_write_npy(path, array));
    s4_array_destroy(array);
    damage(path, NULL);
}

Test(files, npy_malformed)
{
    static const char headers[][112] = {
        "{'descr': '>f8', 'fortran_order': False, 'shape': (6,), }",        /* big endian */
        "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }",       /* column order */
        "{'descr': '<c16', 'fortran_order': False, 'shape': (3,), }",       /* complex */
        "{'descr': '<f2', 'fortran_order': False, 'shape': (24,), }",       /* half */
        "{'descr': '|O', 'fortran_order': False, 'shape': (6,), }",         /* pickles */
        "{'descr': '<f8', 'fortran_order': False, 'shape': (7,), }",        /* more than there is */
        "{'descr': '<f8', 'fortran_order': False, 'shape': (5,), }",        /* less than there is */
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-6,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-2, -3), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (6.0,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", /* product overflows to 0 */
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999999,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,6), }",       /* nine dimensions */
        "{'descr': '<f8', 'fortran_order': False, 'shape': (6,), ",
        "{'descr': '<f8', 'shape': (6,), }",
        "{'fortran_order': False, 'shape': (6,), }",
        "{'descr': '<f8', 'fortran_order': False, }",
        "{}",
        "",
        "not a dictionary",
    };
    const double values[6] = {0};
    unsigned char file[512];
    const char *path = scratch_path("bad.npy");
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        about("%s", headers[i]);
        file_write(path, file, npy_file(file, 1, headers[i], values, sizeof values));
        must_be_malformed(path, NULL);
    }
    about("version 4");
    file_write(path, file,
               npy_file(file, 4, "{'descr': '<f8', 'fortran_order': False, 'shape': (6,), }", values, sizeof values));
    must_be_malformed(path, NULL);
    about("a header longer than the file");
    const size_t size =
        npy_file(file, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (6,), }", values, sizeof values);
    file[8] = file[9] = 0xff;
    file_write(path, file, size);
    must_be_malformed(path, NULL);
}

static const char *write_tensors(const char *name)
{
    static const int64_t matrix[] = {2, 3}, empty[] = {0, 4};
    const char *path = scratch_path(name);
    s4_array *a = array_of(S4_F64, 2, matrix), *b = array_of(S4_F32, 2, matrix), *c = array_of(S4_I64, 0, NULL),
             *d = array_of(S4_F32, 2, empty);
    const s4_named_array tensors[] = {{"layer.a", a}, {"b", b}, {"quoted \"\\ name", c}, {"empty", d}};
    const s4_metadata_entry metadata[] = {{"mode", "dplr"}, {"text", "line\nbreak \"quoted\" \\"}};
    must(s4_tensors_write(path, metadata, 2, tensors, 4));
    s4_array_destroy(a);
    s4_array_destroy(b);
    s4_array_destroy(c);
    s4_array_destroy(d);
    return path;
}

Test(files, safetensors_round_trip)
{
    static const int64_t matrix[] = {2, 3}, empty[] = {0, 4};
    const char *path = write_tensors("x.safetensors");
    s4_array *expected[] = {array_of(S4_F64, 2, matrix), array_of(S4_F32, 2, matrix), array_of(S4_I64, 0, NULL),
                            array_of(S4_F32, 2, empty)};
    static const char names[][24] = {"layer.a", "b", "quoted \"\\ name", "empty"};
    s4_tensors *file;
    must(s4_tensors_open(path, &file));
    cr_assert_eq(s4_tensors_count(file), 4);
    for (int i = 0; i < 4; i++) {
        about("%s", names[i]);
        s4_array *array;
        check(s4_tensors_has(file, names[i]), "[%s] is not there", names[i]);
        must(s4_tensors_read(file, names[i], &array));
        expect_same_array(array, expected[i]);
        s4_array_destroy(array);
        int listed = 0;
        for (int64_t j = 0; j < 4; j++)
            listed += strcmp(s4_tensors_name(file, j), names[i]) == 0;
        check(listed == 1, "[%s] is listed %d times", names[i], listed);
        s4_array_destroy(expected[i]);
    }
    cr_assert(s4_tensors_name(file, 4) == NULL && s4_tensors_name(file, -1) == NULL);
    cr_assert_str_eq(s4_tensors_metadata(file, "mode"), "dplr");
    cr_assert_str_eq(s4_tensors_metadata(file, "text"), "line\nbreak \"quoted\" \\");
    cr_assert(s4_tensors_metadata(file, "none") == NULL);
    s4_array *array = (s4_array *)(void *)&file;
    must_refuse(s4_tensors_read(file, "none", &array), S4_ERROR_FORMAT, "layer.a");
    cr_assert(array == NULL);
    s4_tensors_close(file);

    char source[1100];
    snprintf(source, sizeof source, "%s:layer.a", path);
    must(s4_array_read(source, &array));
    cr_assert_eq(array->count, 6);
    s4_array_destroy(array);
    must_refuse(s4_array_read(path, &array), S4_ERROR_ARGUMENT, "layer.a"); /* a name is needed; they are listed */
    snprintf(source, sizeof source, "%s:none", path);
    must_refuse(s4_array_read(source, &array), S4_ERROR_FORMAT, "layer.a");
}

Test(files, safetensors_damaged)
{
    static const int64_t shape[] = {2};
    s4_array *array = array_of(S4_F32, 1, shape);
    const s4_named_array tensor = {"a", array};
    const s4_metadata_entry entry = {"k", "v"};
    const char *path = scratch_path("whole.safetensors");
    must(s4_tensors_write(path, &entry, 1, &tensor, 1));
    s4_array_destroy(array);
    damage(path, "a");
}

/* Header text, then `data_bytes` of data; `length` as the file says it, 0 for the truth. */
static void write_raw(const char *path, const char *header, uint64_t length, size_t data_bytes)
{
    unsigned char file[2048] = {0};
    const size_t size = strlen(header);
    cr_assert(8 + size + data_bytes <= sizeof file);
    if (length == 0)
        length = size;
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)(length >> (8 * i));
    memcpy(file + 8, header, size);
    file_write(path, file, 8 + size + data_bytes);
}

Test(files, safetensors_malformed)
{
    static const struct {
        char header[200];
        uint64_t length;
        int data;
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}}", UINT64_MAX, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}}", (uint64_t)1 << 63, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}}", 10000, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}}", 20, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}}", 0, 15},   /* data cut */
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}}", 0, 24},   /* data that is nobody's */
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[8,24]}}", 0, 24},   /* a hole */
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[16,0]}}", 0, 16},   /* backwards */
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[-16,0]}}", 0, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16.5]}}", 0, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,1e300]}}", 0, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0]}}", 0, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,8,16]}}", 0, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":\"0,16\"}}", 0, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[0,16]}}", 0, 16},   /* shape and bytes disagree */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,16]}}", 0, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[-2],\"data_offsets\":[0,16]}}", 0, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[-1,-2],\"data_offsets\":[0,16]}}", 0, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2.5],\"data_offsets\":[0,16]}}", 0, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0, 0},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,16]}}", 0, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":2,\"data_offsets\":[0,16]}}", 0, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"data_offsets\":[0,16]}}", 0, 16},
        {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,16]}}", 0, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2]}}", 0, 16},
        {"{\"a\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,16]}}", 0, 16},
        {"{\"a\":{\"dtype\":\"BF16\",\"shape\":[8],\"data_offsets\":[0,16]}}", 0, 16},  /* a dtype we do not read */
        {"{\"a\":{\"dtype\":\"X9\",\"shape\":[2],\"data_offsets\":[0,16]}}", 0, 16},
        {"{\"a\":[0,16]}", 0, 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[4,12]}}", 0, 12},    /* overlapping */
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 0, 8},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
         "\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[8,16]}}", 0, 16},    /* a name twice */
        {"{\"__metadata__\":{\"k\":1},\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 0, 8},
        {"{\"__metadata__\":\"k\",\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 0, 8},
        {"[]", 0, 0},
        {"null", 0, 0},
        {"{", 0, 0},
        {"{} {}", 0, 0},
        {"{\"a\":", 0, 0},
        {" ", 0, 0},
        {"{}", 0, 0}, /* fine, but without the tensor */
    };
    const char *path = scratch_path("bad.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("%s, %d bytes of data", cases[i].header, cases[i].data);
        write_raw(path, cases[i].header, cases[i].length, (size_t)cases[i].data);
        must_be_malformed(path, "a");
    }
    about("a header of nothing but brackets"); /* depth */
    static char deep[1900];
    memset(deep, '[', sizeof deep - 1);
    write_raw(path, deep, 0, 0);
    must_be_malformed(path, "a");
    about("a valid file, as these are written");
    write_raw(path, "{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}}   ", 0, 16);
    cr_assert_eq(read_status(path, "a"), S4_OK, "%s", s4_last_error());
}

Test(files, not_there)
{
    s4_array *array;
    s4_tensors *file;
    must_refuse(s4_array_read(scratch_path("none.npy"), &array), S4_ERROR_FILE, "none.npy");
    must_refuse(s4_tensors_open(scratch_path("none.safetensors"), &file), S4_ERROR_FILE, "none.safetensors");
    const s4_status folder = s4_array_read(scratch_folder(), &array);
    cr_assert(folder == S4_ERROR_FILE || folder == S4_ERROR_FORMAT || folder == S4_ERROR_ARGUMENT);
    must_refuse(s4_array_read(NULL, &array), S4_ERROR_ARGUMENT, "");
    const int64_t shape[] = {2};
    array = array_of(S4_F32, 1, shape);
    must_refuse(s4_array_write_npy(scratch_path("none/x.npy"), array), S4_ERROR_FILE, "none/x.npy");
    s4_array_destroy(array);
}

/* A disk that is full: the old file is as it was, and nothing else is left behind. */
Test(files, failed_write)
{
    const char *npy = scratch_path("x.npy"), *tensors = scratch_path("x.safetensors");
    const int64_t shape[] = {100000};
    s4_array *array = array_of(S4_F64, 1, shape);
    const s4_named_array named = {"a", array};
    file_write(npy, "old", 3);
    file_write(tensors, "older", 5);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit before, small;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100000;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    const s4_status first = s4_array_write_npy(npy, array);
    const s4_status second = s4_tensors_write(tensors, NULL, 0, &named, 1);
    setrlimit(RLIMIT_FSIZE, &before);
    cr_assert_eq(first, S4_ERROR_FILE);
    cr_assert_eq(second, S4_ERROR_FILE);
    file_bytes bytes = file_read(npy);
    cr_assert(bytes.size == 3 && memcmp(bytes.data, "old", 3) == 0);
    bytes = file_read(tensors);
    cr_assert(bytes.size == 5 && memcmp(bytes.data, "older", 5) == 0);
    cr_assert_eq(scratch_count(), 2, "a temporary file is left");
    must(s4_array_write_npy(npy, array));
    cr_assert_eq(scratch_count(), 2, "a temporary file is left");
    s4_array_destroy(array);
}

Test(files, refused_tensors)
{
    const int64_t shape[] = {2};
    s4_array *array = array_of(S4_F32, 1, shape);
    const s4_named_array twice[] = {{"a", array}, {"a", array}}, reserved = {"__metadata__", array},
                         nameless = {NULL, array}, missing = {"a", NULL};
    const char *path = scratch_path("x.safetensors");
    must_refuse(s4_tensors_write(path, NULL, 0, twice, 2), S4_ERROR_ARGUMENT, "a");
    must_refuse(s4_tensors_write(path, NULL, 0, &reserved, 1), S4_ERROR_ARGUMENT, "__metadata__");
    must_refuse(s4_tensors_write(path, NULL, 0, &nameless, 1), S4_ERROR_ARGUMENT, "");
    must_refuse(s4_tensors_write(path, NULL, 0, &missing, 1), S4_ERROR_ARGUMENT, "");
    cr_assert_eq(scratch_count(), 0);
    s4_array_destroy(array);
}

Test(files, arrays)
{
    static const int64_t negative[] = {2, -1}, huge[] = {(int64_t)1 << 40, (int64_t)1 << 40},
                         wrapping[] = {(int64_t)1 << 62, 4};
    s4_array *array = (s4_array *)(void *)&array;
    must_refuse(s4_array_create(S4_F32, 2, negative, &array), S4_ERROR_ARGUMENT, "-1");
    cr_assert(array == NULL);
    must_refuse(s4_array_create(S4_F32, 2, huge, &array), S4_ERROR_ARGUMENT, "");
    must_refuse(s4_array_create(S4_F32, 2, wrapping, &array), S4_ERROR_ARGUMENT, "");
    must_refuse(s4_array_create(S4_F32, S4_DIMENSIONS_MAX + 1, huge, &array), S4_ERROR_ARGUMENT, "rank");
    must_refuse(s4_array_create(S4_F32, -1, huge, &array), S4_ERROR_ARGUMENT, "rank");
    must_refuse(s4_array_create((s4_dtype)7, 0, NULL, &array), S4_ERROR_ARGUMENT, "dtype");

    const int64_t shape[] = {3};
    must(s4_array_create(S4_F64, 1, shape, &array));
    double *values = array->data;
    for (int i = 0; i < 3; i++)
        cr_assert(values[i] == 0, "a new array is not zero");
    values[0] = 1.0 / 3;
    values[1] = -0.0;
    must(s4_array_convert(array, S4_F64));
    cr_assert(array->data == values, "a conversion to the same dtype is no no-op");
    must(s4_array_convert(array, S4_F32));
    cr_assert(array->dtype == S4_F32 && ((float *)array->data)[0] == (float)(1.0 / 3));
    must(s4_array_convert(array, S4_F64));
    cr_assert(((double *)array->data)[0] == (double)(float)(1.0 / 3));
    must_refuse(s4_array_convert(array, S4_I64), S4_ERROR_UNSUPPORTED, "i64");
    cr_assert_eq(array->dtype, S4_F64);
    s4_array_destroy(array);
    s4_array_destroy(NULL);
}
