/* Running a program of the build and reading what it says. */
#ifndef S4_TEST_PROGRAM_H
#define S4_TEST_PROGRAM_H

typedef struct program_result {
    int code;            /* exit code; -1 if a signal ended it */
    char *output, *errors; /* what it wrote; valid until the process ends */
} program_result;

/* Runs a shell command line. */
program_result program_run(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
