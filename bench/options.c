/* The table of options, and getopt_long over the rows of one verb. Every value is bounded where it enters. */
#define _GNU_SOURCE
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exit_code.h"

enum kind { KIND_FLAG, KIND_INTEGER, KIND_BYTES, KIND_REAL, KIND_TEXT, KIND_CHOICE, KIND_PLACEMENT };

/* Reads a choice into its field; NULL, or what is wrong with the text. */
typedef const char *(*choose)(const char *text, void *field);

#define CHOICE(type)                                                                                                   \
    static const char *choose_##type(const char *text, void *field)                                                    \
    {                                                                                                                  \
        return s4_##type##_parse(text, (s4_##type *)field) ? s4_last_error() : NULL;                                   \
    }
CHOICE(mode)
CHOICE(direction)
CHOICE(algorithm)
CHOICE(step_mode)

static const char *choose_dtype(const char *text, void *field)
{
    s4_dtype dtype;
    if (s4_dtype_parse(text, &dtype) || s4_dtype_size(dtype) == 0 || dtype == S4_I64) return "must be f32 or f64";
    *(s4_dtype *)field = dtype;
    return NULL;
}

static const char *choose_run_mode(const char *text, void *field)
{
    int step = strcmp(text, "step") == 0;
    if (!step && strcmp(text, "conv") != 0) return "must be conv or step";
    *(enum run_mode *)field = step ? RUN_STEP : RUN_CONV;
    return NULL;
}

#define COMPUTE (VERB_KERNEL | VERB_RUN | VERB_GRAD | VERB_PLAN | VERB_BENCH)
#define SHAPE (VERB_PLAN | VERB_BENCH)
#define ALL (~0u)

#define FIELD(name) offsetof(struct options, name)
#define AT_LEAST_1 1, INT64_MAX

static const struct row {
    const char *name;
    char letter;
    unsigned verbs;
    enum kind kind;
    size_t field;
    int64_t least, most; /* integers */
    choose parse;        /* choices */
    const char *argument, *help;
} rows[] = {
    {"output", 'o', VERB_KERNEL | VERB_RUN | VERB_SETUP | VERB_GRAD, KIND_TEXT, FIELD(output), 0, 0, NULL, "FILE",
     "file to write; an old file of that name is replaced only when all went well"},
    {"length", 0, VERB_KERNEL | VERB_SETUP | SHAPE, KIND_INTEGER, FIELD(length), AT_LEAST_1, NULL, "L",
     "samples of the kernel (kernel), of C~ (setup), of u and y (plan, bench)"},
    {"undo", 0, VERB_SETUP, KIND_FLAG, FIELD(undo), 0, 0, NULL, NULL, "store plain C again"},
    {"mode", 0, VERB_RUN, KIND_CHOICE, FIELD(run_mode), 0, 0, choose_run_mode, "conv|step",
     "by convolution with the kernel (default), or by recurrence, sample after sample"},
    {"step-mode", 0, VERB_RUN | SHAPE, KIND_CHOICE, FIELD(step_mode), 0, 0, choose_step_mode, "linear|dense|diagonal",
     "how the recurrence multiplies by dA (default linear)"},
    {"chunk", 0, VERB_RUN, KIND_INTEGER, FIELD(chunk), AT_LEAST_1, NULL, "T",
     "samples per call of the recurrence (default 64); the result does not depend on it"},
    {"state-in", 0, VERB_RUN, KIND_TEXT, FIELD(state_in), 0, 0, NULL, "TENSOR",
     "state before the first sample (B,H,N/2,2); default 0"},
    {"state-out", 0, VERB_RUN, KIND_TEXT, FIELD(state_out), 0, 0, NULL, "FILE.npy",
     "write the state after the last sample (B,H,N/2,2), f64"},
    {"compare", 0, VERB_RUN, KIND_FLAG, FIELD(compare), 0, 0, NULL, NULL,
     "run both ways and print max abs(conv - step), also relative to max abs(y)"},

    {"mode", 0, SHAPE, KIND_CHOICE, FIELD(layer_mode), 0, 0, choose_mode, "dplr|diag",
     "kind of layer (default dplr), where no layer file is given"},
    {"d-model", 0, SHAPE, KIND_INTEGER, FIELD(d_model), AT_LEAST_1, NULL, "H",
     "channels in, where no layer file is given"},
    {"d-state", 0, SHAPE, KIND_INTEGER, FIELD(d_state), AT_LEAST_1, NULL, "N", "real state size, even (default 64)"},
    {"rank", 0, SHAPE, KIND_INTEGER, FIELD(rank), AT_LEAST_1, NULL, "R", "columns of the low-rank part (default 1)"},
    {"n-ssm", 0, SHAPE, KIND_INTEGER, FIELD(n_ssm), AT_LEAST_1, NULL, "S",
     "independent copies of (Lambda, P, B), divides H (default H)"},
    {"channels", 0, SHAPE, KIND_INTEGER, FIELD(channels), AT_LEAST_1, NULL, "C",
     "outputs per input channel (default 1)"},
    {"batch", 0, SHAPE, KIND_INTEGER, FIELD(batch), AT_LEAST_1, NULL, "B", "rows (default 1)"},
    {"layers", 0, VERB_PLAN, KIND_INTEGER, FIELD(layers), AT_LEAST_1, NULL, "K",
     "add the peak of a model of K such layers: parameters and their gradients, what is kept between forward and "
     "backward, one workspace"},
    {"repeats", 0, VERB_BENCH, KIND_INTEGER, FIELD(repeats), 1, 1000000, NULL, "R",
     "times are the median of so many runs (default 5)"},
    {"seed", 0, VERB_BENCH, KIND_INTEGER, FIELD(seed), 0, INT64_MAX, NULL, "SEED",
     "of the layer made here and of u and dy (default 1)"},
    {"golden", 0, VERB_CHECK, KIND_TEXT, FIELD(golden), 0, 0, NULL, "DIR",
     "check the pairs NAME.in.safetensors, NAME.out.safetensors of this folder instead of the built-in properties"},

    {"direction", 0, SHAPE, KIND_CHOICE, FIELD(direction), 0, 0, choose_direction, "kernel|forward|training|step",
     "what is planned (default training)"},
    {"dtype", 0, COMPUTE, KIND_CHOICE, FIELD(dtype), 0, 0, choose_dtype, "f32|f64",
     "of u, y and the products over the sequence (default f32)"},
    {"placement", 0, COMPUTE | VERB_SETUP | VERB_CHECK, KIND_PLACEMENT, FIELD(placement), 0, 0, NULL, "P",
     "cpu, gpu, split, auto, or stage=place,stage=place (default cpu); bench and check take it several times"},
    {"algorithm", 0, COMPUTE, KIND_CHOICE, FIELD(algorithm), 0, 0, choose_algorithm, "auto|fft|chunked",
     "how to convolve (default auto)"},
    {"kernel-length", 0, VERB_RUN | VERB_GRAD | SHAPE, KIND_INTEGER, FIELD(kernel_length), AT_LEAST_1, NULL, "L",
     "cut the kernel (default: as long as the input; grad: the length of the stored C~)"},
    {"rate", 0, COMPUTE, KIND_REAL, FIELD(rate), 0, 0, NULL, "X", "multiplies the step size dt (default 1)"},
    {"host-budget", 0, COMPUTE, KIND_BYTES, FIELD(host_budget), AT_LEAST_1, NULL, "BYTES",
     "most host memory of the workspace; KiB, MiB or GiB may follow the number"},
    {"device-budget", 0, COMPUTE, KIND_BYTES, FIELD(device_budget), AT_LEAST_1, NULL, "BYTES", "the same on the GPU"},
    {"threads", 0, ALL, KIND_INTEGER, FIELD(threads), 1, 1024, NULL, "N", "CPU threads (default: all processors)"},
    {"prefix", 0, ALL & ~(unsigned)VERB_CHECK, KIND_TEXT, FIELD(prefix), 0, 0, NULL, "TEXT",
     "before the names of a layer's tensors in a file (default \"layer.\")"},
    {"json", 0, ALL, KIND_FLAG, FIELD(json), 0, 0, NULL, NULL, "print JSON"},
    {"help", 'h', ALL, KIND_FLAG, FIELD(help), 0, 0, NULL, NULL, "print this text"},
};
#define ROW_COUNT (sizeof rows / sizeof *rows)

/* getopt's codes of long options; above every letter. */
#define CODE_OF_ROW 256

int ends_with(const char *text, const char *suffix)
{
    size_t length = strlen(text), tail = strlen(suffix);
    return length >= tail && strcmp(text + length - tail, suffix) == 0;
}

/* ---- values -------------------------------------------------------------------------------------------------- */

/* Decimal digits with an optional sign; *rest is what follows them. 0 if there are none, or too many. */
static int read_digits(const char *text, int64_t *value, const char **rest)
{
    const char *digits = text + (*text == '-' || *text == '+');
    if (*digits < '0' || *digits > '9') return 0;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    *value = number;
    *rest = end;
    return errno == 0;
}

static int set_integer(const char *verb, const struct row *row, const char *text, int64_t *field)
{
    const char *rest;
    int64_t value;
    if (!read_digits(text, &value, &rest) || *rest || value < row->least || value > row->most)
        return fail_usage(verb, "--%s '%s': must be an integer from %lld to %lld", row->name, text,
                          (long long)row->least, (long long)row->most);
    *field = value;
    return CODE_FINE;
}

static int set_bytes(const char *verb, const struct row *row, const char *text, int64_t *field)
{
    static const struct {
        const char *name;
        int64_t size;
    } units[] = {{"", 1}, {"KiB", 1024}, {"MiB", 1024 * 1024}, {"GiB", 1024 * 1024 * 1024}};

    const char *rest;
    int64_t value;
    if (read_digits(text, &value, &rest) && value >= row->least)
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (strcmp(rest, units[i].name) == 0 && value <= row->most / units[i].size) {
                *field = value * units[i].size;
                return CODE_FINE;
            }
    return fail_usage(verb,
                      "--%s '%s': must be an integer with nothing, KiB, MiB or GiB behind it, from %lld to %lld "
                      "bytes",
                      row->name, text, (long long)row->least, (long long)row->most);
}

static int set_real(const char *verb, const struct row *row, const char *text, double *field)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || *text == ' ' || !isfinite(value) || !(value > 0))
        return fail_usage(verb, "--%s '%s': must be a finite number greater than 0", row->name, text);
    *field = value;
    return CODE_FINE;
}

static int add_placement(const struct verb *verb, const char *text, struct options *options)
{
    int most = verb->bit & (VERB_BENCH | VERB_CHECK) ? PLACEMENTS_MAX : 1, count = options->placement_count;
    if (count >= most)
        return fail_usage(verb->name, "--placement '%s': may be given %d time%s at most", text, most,
                          most > 1 ? "s" : "");
    if (s4_placement_parse(text, &options->placement[count]))
        return fail_usage(verb->name, "--placement '%s': %s", text, s4_last_error());
    options->placement_text[count] = text;
    options->placement_count++;
    return CODE_FINE;
}

static int set_value(const struct verb *verb, const struct row *row, const char *text, struct options *options)
{
    void *field = (char *)options + row->field;
    const char *wrong;
    switch (row->kind) {
    case KIND_FLAG:
        *(int *)field = 1;
        return CODE_FINE;
    case KIND_INTEGER:
        return set_integer(verb->name, row, text, field);
    case KIND_BYTES:
        return set_bytes(verb->name, row, text, field);
    case KIND_REAL:
        return set_real(verb->name, row, text, field);
    case KIND_TEXT:
        *(const char **)field = text;
        return CODE_FINE;
    case KIND_CHOICE:
        wrong = row->parse(text, field);
        return wrong ? fail_usage(verb->name, "--%s '%s': %s", row->name, text, wrong) : CODE_FINE;
    case KIND_PLACEMENT:
        return add_placement(verb, text, options);
    }
    return CODE_USAGE;
}

/* ---- the line ------------------------------------------------------------------------------------------------ */

static int add_argument(const struct verb *verb, const char *text, struct options *options)
{
    if (options->argument_count >= verb->most)
        return fail_usage(verb->name, "'%s': one argument too many; expected %s", text,
                          *verb->arguments ? verb->arguments : "options only");
    options->argument[options->argument_count++] = text;
    return CODE_FINE;
}

static int fail_unknown(const struct verb *verb, const char *text)
{
    size_t length = strcspn(text, "=");
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (strncmp(text, "--", 2) == 0 && strlen(rows[i].name) == length - 2 &&
            strncmp(text + 2, rows[i].name, length - 2) == 0)
            return fail_usage(verb->name, "%.*s: not an option of this verb", (int)length, text);
    return fail_usage(verb->name, "%.*s: unknown option", (int)length, text);
}

static void set_defaults(const struct verb *verb, struct options *options)
{
    memset(options, 0, sizeof *options);
    options->verb = verb->name;
    options->dtype = S4_F32;
    options->direction = S4_DIRECTION_TRAINING;
    options->chunk = 64;
    options->repeats = 5;
    options->seed = 1;
    options->batch = 1;
}

int options_parse(const struct verb *verb, int argc, char **argv, struct options *options)
{
    struct option longs[ROW_COUNT + 1];
    int count = 0;
    char letters[2 * ROW_COUNT + 3] = "-:"; /* arguments in order, as code 1; a missing value is ':' */
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (!(rows[i].verbs & verb->bit)) continue;
        int takes_value = rows[i].kind != KIND_FLAG;
        longs[count++] = (struct option){rows[i].name, takes_value, NULL, CODE_OF_ROW + (int)i};
        if (rows[i].letter) {
            size_t used = strlen(letters);
            letters[used] = rows[i].letter;
            letters[used + 1] = takes_value ? ':' : 0;
            letters[used + 2] = 0;
        }
    }
    longs[count] = (struct option){NULL, 0, NULL, 0};

    set_defaults(verb, options);
    opterr = 0;
    optind = 1;
    for (;;) {
        int at = optind;
        int code = getopt_long(argc, argv, letters, longs, NULL);
        if (code == -1) break;
        if (code == 1) {
            int failed = add_argument(verb, optarg, options);
            if (failed) return failed;
            continue;
        }
        if (code == ':') return fail_usage(verb->name, "%s: needs a value", argv[at]);
        if (code == '?' && optopt >= CODE_OF_ROW)
            return fail_usage(verb->name, "--%s: takes no value", rows[optopt - CODE_OF_ROW].name);
        if (code == '?') return fail_unknown(verb, argv[at]);

        const struct row *row = NULL;
        for (size_t i = 0; i < ROW_COUNT; i++)
            if (rows[i].verbs & verb->bit && (code == CODE_OF_ROW + (int)i || code == rows[i].letter)) row = &rows[i];
        /* getopt_long takes an abbreviation; a later option may make it ambiguous, so scripts should not rely on it. */
        if (code >= CODE_OF_ROW && strcspn(argv[at] + 2, "=") != strlen(row->name)) return fail_unknown(verb, argv[at]);
        int failed = set_value(verb, row, optarg, options);
        if (failed || options->help) return failed;
    }
    for (; optind < argc; optind++) { /* after "--" */
        int failed = add_argument(verb, argv[optind], options);
        if (failed) return failed;
    }
    if (options->argument_count < verb->least)
        return fail_usage(verb->name, "%d argument%s given; expected %s", options->argument_count,
                          options->argument_count == 1 ? "" : "s", verb->arguments);
    if (options->placement_count == 0 && !(verb->bit & VERB_CHECK)) return add_placement(verb, "cpu", options);
    return CODE_FINE;
}

/* ---- help ---------------------------------------------------------------------------------------------------- */

/* Words of `text` in lines of 100, from column `indent` on; `column` of the first line are already printed. */
static void print_wrapped(FILE *to, const char *text, int column, int indent)
{
    if (column > indent) fputc('\n', to);
    fprintf(to, "%*s", column > indent ? indent : indent - column, "");
    int used = indent;
    while (*text) {
        int word = (int)strcspn(text, " ");
        if (used + 1 + word > 100) {
            fprintf(to, "\n%*s", indent, "");
            used = indent;
        }
        fprintf(to, " %.*s", word, text);
        used += 1 + word;
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', to);
}

void options_help(const struct verb *verb, FILE *to)
{
    fprintf(to, "usage: s4 %s %s%s[options]\n\n%s\n\noptions:\n", verb->name, verb->arguments,
            *verb->arguments ? " " : "", verb->description);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (!(rows[i].verbs & verb->bit)) continue;
        int column = rows[i].letter ? fprintf(to, "  -%c, --%s", rows[i].letter, rows[i].name)
                                    : fprintf(to, "      --%s", rows[i].name);
        if (rows[i].argument) column += fprintf(to, " %s", rows[i].argument);
        print_wrapped(to, rows[i].help, column, 28);
    }
}
