/* See readers.h. Files lie in a folder of their own, for the public readers take paths. */
#define _XOPEN_SOURCE 700

#include "readers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "s4/s4.h"

static void broken(const char *what)
{
    fprintf(stderr, "BROKEN: %s; last error: %s\n", what, s4_last_error());
    abort();
}

static void demand(int condition, const char *what)
{
    if (!condition) broken(what);
}

/* ---- files of this process --------------------------------------------------------------------------------------- */

static char folder[256];

static void path_of(char path[300], const char *name) { snprintf(path, 300, "%s/%s", folder, name); }

static void remove_folder(void)
{
    for (int i = 0; i < reader_count; i++) {
        char name[32], path[300];
        snprintf(name, sizeof name, "in%s", readers[i].suffix);
        path_of(path, name);
        (void)unlink(path);
        snprintf(name, sizeof name, "out%s", readers[i].suffix);
        path_of(path, name);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

static void make_folder(void)
{
    if (folder[0]) return;
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/s4-fuzz-XXXXXX", parent && parent[0] ? parent : "/tmp");
    demand(mkdtemp(folder) != NULL, "no folder for the files");
    atexit(remove_folder);
}

/* A file that is there and does not change is refused for what it holds. */
static int read_or_refused(s4_status status, const void *result)
{
    if (!status) {
        demand(result != NULL, "success without a result");
        return 1;
    }
    demand(result == NULL, "a failure with a result");
    demand(status == S4_ERROR_FORMAT || status == S4_ERROR_UNSUPPORTED, s4_status_name(status));
    demand(s4_last_error()[0] != 0, "a failure without a text");
    return 0;
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

static double element(const s4_array *array, int64_t i)
{
    if (array->dtype == S4_F64) return ((const double *)array->data)[i];
    if (array->dtype == S4_F32) return (double)((const float *)array->data)[i];
    return (double)((const int64_t *)array->data)[i];
}

static void demand_same(const s4_array *a, const s4_array *b)
{
    demand(a->dtype == b->dtype && a->rank == b->rank && a->count == b->count, "written and read: another array");
    for (int d = 0; d < a->rank; d++) demand(a->shape[d] == b->shape[d], "written and read: another shape");
    for (int64_t i = 0; i < a->count; i++) {
        double x = element(a, i), y = element(b, i);
        demand((isnan(x) && isnan(y)) || memcmp(&x, &y, sizeof x) == 0, "written and read: another number");
    }
}

static int read_array(const char *path, const char *out)
{
    s4_array *array = NULL, *back = NULL;
    int64_t rate = 0, rate_back = 0;
    s4_status status = s4_array_read_rate(path, &array, &rate);
    if (!read_or_refused(status, array)) return 0;
    char to[300];
    path_of(to, out);
    /* A .wav file is written in single precision. */
    if (strcmp(out, "out.wav") == 0) demand(s4_array_convert(array, S4_F32) == S4_OK, "it does not convert");
    status = s4_array_write(to, array, rate);
    if (status == S4_ERROR_UNSUPPORTED) { /* more channels than a frame of floats can have */
        s4_array_destroy(array);
        return 1;
    }
    demand(status == S4_OK, "it cannot be written");
    status = s4_array_read_rate(to, &back, &rate_back);
    if (array->count > 0 || strcmp(out, "out.csv") != 0) {
        demand(status == S4_OK, "what was written cannot be read");
        demand(rate == rate_back, "written and read: another rate");
        demand_same(array, back);
    }
    s4_array_destroy(back);
    s4_array_destroy(array);
    return 1;
}

static int read_npy(const char *path) { return read_array(path, "out.npy"); }
static int read_wav(const char *path) { return read_array(path, "out.wav"); }
static int read_csv(const char *path) { return read_array(path, "out.csv"); }

/* ---- safetensors ------------------------------------------------------------------------------------------------- */

#define TENSORS_MAX 64

static void write_tensors(const s4_named_array *tensors, int64_t count)
{
    char to[300];
    path_of(to, "out.safetensors");
    demand(s4_tensors_write(to, NULL, 0, tensors, count) == S4_OK, "tensors cannot be written");
    s4_tensors *file;
    demand(s4_tensors_open(to, &file) == S4_OK, "written tensors cannot be read");
    demand(s4_tensors_count(file) == count, "written and read: another number of tensors");
    for (int64_t i = 0; i < count; i++) {
        s4_array *back;
        demand(s4_tensors_read(file, tensors[i].name, &back) == S4_OK, "a written tensor cannot be read");
        demand_same(tensors[i].array, back);
        s4_array_destroy(back);
    }
    s4_tensors_close(file);
}

static int read_safetensors(const char *path)
{
    s4_tensors *file = NULL;
    s4_status status = s4_tensors_open(path, &file);
    if (!read_or_refused(status, file)) return 0;
    (void)s4_tensors_metadata(file, "disc");
    s4_array *arrays[TENSORS_MAX];
    s4_named_array tensors[TENSORS_MAX];
    int64_t count = 0;
    for (int64_t i = 0; i < s4_tensors_count(file); i++) {
        const char *name = s4_tensors_name(file, i);
        s4_array *array = NULL;
        demand(s4_tensors_has(file, name), "a tensor that is listed is not there");
        status = s4_tensors_read(file, name, &array);
        if (!read_or_refused(status, array)) continue;
        if (count == TENSORS_MAX) {
            s4_array_destroy(array);
            continue;
        }
        arrays[count] = array;
        tensors[count] = (s4_named_array){name, array};
        count++;
    }
    write_tensors(tensors, count);
    while (count > 0) s4_array_destroy(arrays[--count]);
    s4_tensors_close(file);
    return 1;
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static void demand_same_layer(s4_layer *a, s4_layer *b)
{
    s4_layer_options x, y;
    S4_INIT(&x);
    S4_INIT(&y);
    demand(s4_layer_describe(a, &x) == S4_OK && s4_layer_describe(b, &y) == S4_OK, "no description");
    demand(x.mode == y.mode && x.d_model == y.d_model && x.d_state == y.d_state && x.rank == y.rank &&
               x.n_ssm == y.n_ssm && x.channels == y.channels && x.discretisation == y.discretisation &&
               x.dt_transform == y.dt_transform && x.real_transform == y.real_transform &&
               x.imag_transform == y.imag_transform && x.bidirectional == y.bidirectional &&
               x.dt_untied == y.dt_untied && x.bandlimit == y.bandlimit && s4_layer_length(a) == s4_layer_length(b),
           "written and read: another description");
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        s4_parameter_view u, v;
        demand(s4_layer_parameter(a, (s4_parameter)p, &u) == S4_OK &&
                   s4_layer_parameter(b, (s4_parameter)p, &v) == S4_OK,
               "no parameter");
        demand(u.count == v.count, "written and read: another number of parameters");
        demand(u.count == 0 || memcmp(u.data, v.data, (size_t)u.count * sizeof *u.data) == 0,
               "written and read: another parameter");
    }
}

static int read_layer(const char *path)
{
    static const struct {
        const char *prefix, *overrides;
    } ways[] = {{NULL, NULL}, {"model.", NULL}, {NULL, "bidirectional=1,bandlimit=0.5"}, {NULL, "real_transform=relu"}};
    int known = 0;
    char to[300];
    path_of(to, "out.safetensors");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        s4_layer *layer = NULL, *back = NULL;
        s4_status status = s4_layer_load(path, ways[i].prefix, ways[i].overrides, &layer);
        if (status == S4_ERROR_ARGUMENT && ways[i].overrides) { /* an override that does not fit the file */
            demand(layer == NULL, "a failure with a result");
            continue;
        }
        if (!read_or_refused(status, layer)) continue;
        known = 1;
        demand(s4_layer_save(layer, to, ways[i].prefix) == S4_OK, "it cannot be written");
        demand(s4_layer_load(to, ways[i].prefix, NULL, &back) == S4_OK, "what was written cannot be read");
        demand_same_layer(layer, back);
        s4_layer_destroy(back);
        s4_layer_destroy(layer);
    }
    return known;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

const reader readers[] = {
    {"npy", ".npy", read_npy},
    {"wav", ".wav", read_wav},
    {"csv", ".csv", read_csv},
    {"safetensors", ".safetensors", read_safetensors},
    {"layer", ".safetensors", read_layer},
};
const int reader_count = (int)(sizeof readers / sizeof *readers);

const reader *reader_find(const char *name)
{
    for (int i = 0; i < reader_count; i++)
        if (strcmp(readers[i].name, name) == 0) return &readers[i];
    return NULL;
}

int reader_run(const reader *r, const void *bytes, size_t size)
{
    make_folder();
    char name[32], path[300];
    snprintf(name, sizeof name, "in%s", r->suffix);
    path_of(path, name);
    FILE *file = fopen(path, "wb");
    demand(file != NULL, "no file to write to");
    demand(fwrite(bytes, 1, size, file) == size && fclose(file) == 0, "the bytes cannot be written");
    return r->read(path);
}
