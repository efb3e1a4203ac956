/* Names of the enumerations, one table each, and the way back. */
#include <stdio.h>
#include <string.h>

#include "s4/errors.h"
#include "s4/layer.h"

#ifndef S4_VERSION_TEXT
#define S4_VERSION_TEXT "unversioned"
#endif

#define COUNT(table) ((int)(sizeof(table) / sizeof((table)[0])))

static const char *const dtypes[] = {"f32", "f64", "i64"};
static const size_t dtype_sizes[] = {4, 8, 8};
static const char *const places[] = {"cpu", "gpu", "auto"};
static const char *const stages[] = {"init", "setup", "kernel", "convolve", "step", "embed"};
static const char *const modes[] = {"dplr", "diag"};
static const char *const directions[] = {"kernel", "forward", "training", "step"};
static const char *const algorithms[] = {"auto", "fft", "chunked"};
static const char *const step_modes[] = {"linear", "dense", "diagonal"};
static const char *const discretisations[] = {"bilinear", "zoh", "dss"};
static const char *const layouts[] = {"bhl", "blh"};
static const char *const transforms[] = {"none", "exp", "relu", "sigmoid", "softplus"};
static const char *const inits[] = {"legs",     "legt",      "lagt",      "fourier",   "hippo",    "diag-lin",
                                    "diag-inv", "diag-inv2", "diag-quad", "diag-real", "diag-legs"};

static const char *const parameters[] = {"inv_dt", "A_real", "A_imag", "B", "P", "C", "D"};

static const char *name(const char *const *table, int count, int value)
{
    return value >= 0 && value < count ? table[value] : "?";
}

static s4_status parse(const char *what, const char *const *table, int count, const char *text, int *value)
{
    char choices[128] = "";
    for (int i = 0; i < count; i++) {
        if (text && !strcmp(text, table[i])) {
            *value = i;
            return S4_OK;
        }
        size_t used = strlen(choices);
        snprintf(choices + used, sizeof choices - used, "%s%s", i ? ", " : "", table[i]);
    }
    return s4_fail(S4_ERROR_ARGUMENT, "%s '%.64s' is none of %s", what, text ? text : "(null)", choices);
}

const char *s4_dtype_name(s4_dtype dtype) { return name(dtypes, COUNT(dtypes), (int)dtype); }
const char *s4_place_name(s4_place place) { return name(places, COUNT(places), (int)place); }
const char *s4_stage_name(s4_stage stage) { return name(stages, COUNT(stages), (int)stage); }
const char *s4_mode_name(s4_mode mode) { return name(modes, COUNT(modes), (int)mode); }
const char *s4_direction_name(s4_direction direction) { return name(directions, COUNT(directions), (int)direction); }
const char *s4_algorithm_name(s4_algorithm algorithm) { return name(algorithms, COUNT(algorithms), (int)algorithm); }
const char *s4_step_mode_name(s4_step_mode mode) { return name(step_modes, COUNT(step_modes), (int)mode); }
const char *s4_transform_name(s4_transform transform) { return name(transforms, COUNT(transforms), (int)transform); }

const char *s4_discretisation_name(s4_discretisation d) { return name(discretisations, COUNT(discretisations), (int)d); }
const char *s4_layout_name(s4_layout layout) { return name(layouts, COUNT(layouts), (int)layout); }
const char *s4_parameter_name(s4_parameter which) { return name(parameters, COUNT(parameters), (int)which); }
const char *s4_init_name(s4_init init) { return name(inits, COUNT(inits), (int)init); }

size_t s4_dtype_size(s4_dtype dtype)
{
    return (int)dtype >= 0 && (int)dtype < COUNT(dtype_sizes) ? dtype_sizes[dtype] : 0;
}

/* One parser a type; the first `count` names are what a user may ask for. */
#define PARSER(type, function, what, table, count)             \
    s4_status function(const char *text, type *result)         \
    {                                                          \
        int value = 0;                                         \
        S4_TRY(parse(what, table, count, text, &value));       \
        *result = (type)value;                                 \
        return S4_OK;                                          \
    }
PARSER(s4_dtype, s4_dtype_parse, "dtype", dtypes, 2)
PARSER(s4_mode, s4_mode_parse, "mode", modes, COUNT(modes))
PARSER(s4_direction, s4_direction_parse, "direction", directions, COUNT(directions))
PARSER(s4_algorithm, s4_algorithm_parse, "algorithm", algorithms, COUNT(algorithms))
PARSER(s4_step_mode, s4_step_mode_parse, "step mode", step_modes, COUNT(step_modes))
PARSER(s4_transform, s4_transform_parse, "transform", transforms, COUNT(transforms))
PARSER(s4_discretisation, s4_discretisation_parse, "discretisation", discretisations, COUNT(discretisations))
PARSER(s4_layout, s4_layout_parse, "layout", layouts, COUNT(layouts))
PARSER(s4_init, s4_init_parse, "init", inits, COUNT(inits))
PARSER(s4_parameter, s4_parameter_parse, "parameter", parameters, COUNT(parameters))

const char *s4_version(void) { return S4_VERSION_TEXT; }

const char *s4_build(void)
{
    return
#if defined(__clang__)
        "clang " __clang_version__
#elif defined(__GNUC__)
        "gcc " __VERSION__
#else
        "unknown compiler"
#endif
#if defined(__x86_64__)
        ", x86-64"
#elif defined(__aarch64__)
        ", arm64"
#endif
#ifndef NDEBUG
        ", checks on"
#endif
        ;
}
