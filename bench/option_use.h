/* Whether every option that was given can have an effect on what is asked. */
#ifndef BENCH_OPTION_USE_H
#define BENCH_OPTION_USE_H

#include "option_table.h"

/* given[i] is the text of row i of the table, "" for a flag, NULL if it was not given. Returns CODE_FINE, or names an option
 * in vain, what it is in vain with and what it is for, and returns CODE_USAGE. */
int option_use_check(const struct verb *verb, const struct options *options, const char *const *given);

#endif
