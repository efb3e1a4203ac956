/* Progress of long work on standard error, with rate and remaining time, if that is a terminal. */
#ifndef BENCH_PROGRESS_H
#define BENCH_PROGRESS_H

#include <stdint.h>

/* What s4_context_options takes as `progress`; `user` is the verb's name. Never cancels. */
int progress_report(void *user, const char *operation, int64_t done, int64_t total);
void progress_clear(void); /* removes the line before anything else is printed */

#endif
