/*
 * Long work: progress on standard error, with rate and remaining time, if that is a terminal; and Ctrl-C, which stops
 * the work at its next report. A second Ctrl-C ends the process at once, as SIGTERM and SIGHUP do; a file that was being
 * written is removed.
 */
#ifndef BENCH_PROGRESS_H
#define BENCH_PROGRESS_H

#include <stdint.h>

void progress_begin(void); /* listens for signals */
int progress_cancelled(void);
/* What s4_context_options takes as `progress`; `user` is the verb's name. Nonzero once Ctrl-C was pressed. */
int progress_report(void *user, const char *operation, int64_t done, int64_t total);
void progress_clear(void); /* removes the line before anything else is printed */

#endif
