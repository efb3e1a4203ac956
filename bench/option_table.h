/* One option of the command: what it is called, which verbs take it, where its value goes. */
#ifndef BENCH_OPTION_TABLE_H
#define BENCH_OPTION_TABLE_H

#include "options.h"

enum option_kind {
    KIND_FLAG,
    KIND_INTEGER,
    KIND_BYTES,
    KIND_REAL, /* finite, > 0 */
    KIND_TEXT,
    KIND_CHOICE,
    KIND_PLACEMENT, /* bench and check take several */
    KIND_SETTING    /* may be given several times */
};

struct option_row {
    const char *name;
    char letter;
    unsigned verbs;
    enum option_kind kind;
    size_t field;                                        /* in struct options */
    int64_t least, most;                                 /* integers */
    const char *(*parse)(const char *text, void *field); /* choices: NULL, or what is wrong with the text */
    const char *argument, *help;
};

#define OPTION_ROWS_MAX 64
extern const struct option_row option_rows[];
extern const int option_row_count; /* <= OPTION_ROWS_MAX */

#endif
