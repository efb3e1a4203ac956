/*
 * What the command line says, parsed and bounded. One table in option_table.c gives every option: its name, argument,
 * help, bounds, and the verbs that take it.
 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdio.h>

#include "s4/s4.h"

struct options;

struct verb {
    const char *name;
    unsigned bit;                              /* in the table of options */
    const char *arguments;                     /* as shown after the name in the usage line */
    const char *summary;                       /* one line */
    const char *description;                   /* for --help */
    int least, most;                           /* number of positional arguments */
    int (*run)(const struct options *options); /* returns the exit code */
};

enum {
    VERB_INFO = 1 << 0,
    VERB_KERNEL = 1 << 1,
    VERB_RUN = 1 << 2,
    VERB_SETUP = 1 << 3,
    VERB_GRAD = 1 << 4,
    VERB_PLAN = 1 << 5,
    VERB_BENCH = 1 << 6,
    VERB_CHECK = 1 << 7,
    VERB_INIT = 1 << 8,
    VERB_TUNE = 1 << 9
};

enum run_mode { RUN_CONV = 0, RUN_STEP = 1 };

#define PLACEMENTS_MAX 16
#define SETTINGS_MAX 16
#define ARGUMENTS_MAX 3
#define NOT_GIVEN (-1)

/* 0 or NULL: not given, unless a default is named. */
struct options {
    const char *verb;
    int help, json, undo, compare, shadow;

    const char *argument[ARGUMENTS_MAX];
    int argument_count;

    int64_t threads, length, kernel_length, batch, chunk, repeats, layers, seed;
    int64_t host_budget, device_budget, pinned_budget;
    double rate, seconds;
    int rate_parity;
    unsigned frozen; /* bits 1 << s4_parameter */

    /* a layer that is made here; the enumerations are NOT_GIVEN by default */
    int64_t d_model, d_state, rank, n_ssm, channels;
    int bidirectional, dt_untied, dt_spaced, published_clamps;
    int layer_mode, discretisation, init;
    int dt_transform, real_transform, imag_transform;
    double bandlimit, dt_min, dt_max;

    s4_dtype dtype;         /* S4_F32 */
    s4_dtype kernel_dtype;  /* S4_F64 */
    s4_direction direction; /* S4_DIRECTION_TRAINING */
    s4_algorithm algorithm;
    s4_step_mode step_mode;
    s4_layout layout;
    enum run_mode run_mode;

    const char *placement_text[PLACEMENTS_MAX];
    s4_placement placement[PLACEMENTS_MAX];
    int placement_count;

    const char *setting[SETTINGS_MAX]; /* "key=value" or "key=value,key=value" */
    int setting_count;

    const char *cpu_level, *prefix, *output, *state_in, *state_out, *lengths, *golden;
};

/* Parses what follows the verb, and checks that every option matters. Returns CODE_FINE, or prints the failure and returns
 * CODE_USAGE. With --help the rest is not looked at. */
int options_parse(const struct verb *verb, int argc, char **argv, struct options *options);
void options_help(const struct verb *verb, FILE *to);

int ends_with(const char *text, const char *suffix);

#endif
