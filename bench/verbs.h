/* The verbs: each parses nothing and exits nowhere; it returns the exit code after printing a failure. */
#ifndef BENCH_VERBS_H
#define BENCH_VERBS_H

#include "options.h"

int verb_info(const struct options *options);
int verb_init(const struct options *options);
int verb_tune(const struct options *options);
int verb_kernel(const struct options *options);
int verb_run(const struct options *options);
int verb_setup(const struct options *options);
int verb_grad(const struct options *options);
int verb_plan(const struct options *options);
int verb_bench(const struct options *options);
int verb_check(const struct options *options);

#endif
