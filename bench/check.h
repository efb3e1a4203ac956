/*
 * The self-test. verb_check.c chooses places and prints; check_list.c keeps results; check_properties.c and
 * check_golden.c are the checks.
 */
#ifndef BENCH_CHECK_H
#define BENCH_CHECK_H

#include <cjson/cJSON.h>

#include "options.h"

enum check_state { CHECK_PASSED, CHECK_FAILED, CHECK_SKIPPED };

struct check_list {
    int json;         /* collect instead of printing */
    cJSON *array;     /* for json */
    int64_t count[3]; /* by state */
};

/* Where checks run, and where their results go. */
struct checker {
    struct check_list *list;
    s4_context *context;
    const char *subject; /* a golden case, or what the properties are checked on */
    const char *place;   /* text of the placement */
    s4_placement placement;
    int first_place; /* checks of what always runs on the host are done once */
};

/* One result: passed if value <= bound, so that not-a-number fails. `name` says what. */
void check_value(struct checker *checker, const char *name, double value, double bound);
/* A call failed: UNSUPPORTED is skipped, all else failed; the library's last error is the reason. */
void check_status(struct checker *checker, const char *name, s4_status status);
void check_fail(struct checker *checker, const char *name, const char *reason);
void check_skip(struct checker *checker, const char *name, const char *reason);
/* Prints the end; the exit code. */
int check_end(struct check_list *list);

void check_properties(struct checker *checker);
/* Exit code; only a folder that cannot be read is not CODE_FINE, after the failure is printed. */
int check_golden(const struct options *options, struct checker *checker);

#endif
