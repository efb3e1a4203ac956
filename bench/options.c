/* getopt_long over the rows of one verb. Every value is bounded where it enters. */
#define _GNU_SOURCE
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exit_code.h"
#include "option_table.h"
#include "option_use.h"

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

static int set_integer(const char *verb, const struct option_row *row, const char *text, int64_t *field)
{
    const char *rest;
    int64_t value;
    if (!read_digits(text, &value, &rest) || *rest || value < row->least || value > row->most)
        return fail_usage(verb, "--%s '%s': must be an integer from %lld to %lld", row->name, text,
                          (long long)row->least, (long long)row->most);
    *field = value;
    return CODE_FINE;
}

static int set_bytes(const char *verb, const struct option_row *row, const char *text, int64_t *field)
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

static int set_real(const char *verb, const struct option_row *row, const char *text, double *field)
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

static int add_setting(const struct verb *verb, const char *text, struct options *options)
{
    if (options->setting_count >= SETTINGS_MAX)
        return fail_usage(verb->name, "--set '%s': may be given %d times at most", text, SETTINGS_MAX);
    if (!strchr(text, '=')) return fail_usage(verb->name, "--set '%s': must be KEY=VALUE or KEY=VALUE,KEY=VALUE", text);
    options->setting[options->setting_count++] = text;
    return CODE_FINE;
}

static int set_value(const struct verb *verb, const struct option_row *row, const char *text, struct options *options)
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
    case KIND_SETTING:
        return add_setting(verb, text, options);
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
    for (int i = 0; i < option_row_count; i++)
        if (strncmp(text, "--", 2) == 0 && strlen(option_rows[i].name) == length - 2 &&
            strncmp(text + 2, option_rows[i].name, length - 2) == 0)
            return fail_usage(verb->name, "%.*s: not an option of this verb", (int)length, text);
    return fail_usage(verb->name, "%.*s: unknown option", (int)length, text);
}

static void set_defaults(const struct verb *verb, struct options *options)
{
    memset(options, 0, sizeof *options);
    options->verb = verb->name;
    options->dtype = S4_F32;
    options->kernel_dtype = S4_F64;
    options->direction = S4_DIRECTION_TRAINING;
    options->chunk = 64;
    options->repeats = 5;
    options->seed = 1;
    options->batch = 1;
    options->layer_mode = options->discretisation = options->init = NOT_GIVEN;
    options->dt_transform = options->real_transform = options->imag_transform = NOT_GIVEN;
}

int options_parse(const struct verb *verb, int argc, char **argv, struct options *options)
{
    struct option longs[OPTION_ROWS_MAX + 1];
    const char *given[OPTION_ROWS_MAX] = {NULL};
    int count = 0;
    char letters[2 * OPTION_ROWS_MAX + 3] = "-:"; /* arguments in order, as code 1; a missing value is ':' */
    for (int i = 0; i < option_row_count; i++) {
        if (!(option_rows[i].verbs & verb->bit)) continue;
        int takes_value = option_rows[i].kind != KIND_FLAG;
        longs[count++] = (struct option){option_rows[i].name, takes_value, NULL, CODE_OF_ROW + i};
        if (option_rows[i].letter) {
            size_t used = strlen(letters);
            letters[used] = option_rows[i].letter;
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
            return fail_usage(verb->name, "--%s: takes no value", option_rows[optopt - CODE_OF_ROW].name);
        if (code == '?') return fail_unknown(verb, argv[at]);

        const struct option_row *row = NULL;
        for (int i = 0; i < option_row_count; i++)
            if (option_rows[i].verbs & verb->bit && (code == CODE_OF_ROW + i || code == option_rows[i].letter))
                row = &option_rows[i];
        /* getopt_long takes an abbreviation; a later option may make it ambiguous, so scripts should not rely on it. */
        if (code >= CODE_OF_ROW && strcspn(argv[at] + 2, "=") != strlen(row->name)) return fail_unknown(verb, argv[at]);
        given[row - option_rows] = row->kind == KIND_FLAG ? "" : optarg;
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
    if (options->placement_count == 0 && !(verb->bit & VERB_CHECK)) {
        int failed = add_placement(verb, "cpu", options);
        if (failed) return failed;
    }
    return option_use_check(verb, options, given);
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
    for (int i = 0; i < option_row_count; i++) {
        if (!(option_rows[i].verbs & verb->bit)) continue;
        int column = option_rows[i].letter ? fprintf(to, "  -%c, --%s", option_rows[i].letter, option_rows[i].name)
                                           : fprintf(to, "      --%s", option_rows[i].name);
        if (option_rows[i].argument) column += fprintf(to, " %s", option_rows[i].argument);
        print_wrapped(to, option_rows[i].help, column, 28);
    }
}
