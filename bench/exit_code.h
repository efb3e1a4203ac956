/* How a verb ends: exit codes, and the one line on standard error that goes with a failure. */
#ifndef BENCH_EXIT_CODE_H
#define BENCH_EXIT_CODE_H

#include "s4/s4.h"

enum {
    CODE_FINE = 0,
    CODE_FAILED = 1, /* a check failed, or the machine did (memory, a library) */
    CODE_USAGE = 2,
    CODE_INPUT = 3,      /* bad input file, or a file that cannot be written */
    CODE_PLACE = 4,      /* place not available */
    CODE_BUDGET = 5,     /* out of budget */
    CODE_CANCELLED = 130 /* Ctrl-C */
};

int exit_code(s4_status status);

/* Each prints one line "s4 VERB: ..." and returns the exit code. */
int fail_status(const char *verb, s4_status status); /* with the library's last error */
/* The same of work with the layer of that file (NULL: of none): what is wrong with its numbers is said of the file. */
int fail_layer(const char *verb, const char *path, s4_status status);
/* The same of a file that was being read: what it holds and this version has not is the file's, not a usage error. */
int fail_reading(const char *verb, s4_status status);
int fail_usage(const char *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));
int fail_input(const char *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
