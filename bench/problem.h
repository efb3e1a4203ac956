/* From options and a layer file to the library's objects: context, layer, problem. Failures are printed. */
#ifndef BENCH_PROBLEM_H
#define BENCH_PROBLEM_H

#include "options.h"

/* Each returns an exit code, after printing the failure if it is not CODE_FINE. */
int open_context(const struct options *options, s4_context **context);
int load_layer(const struct options *options, const char *path, s4_layer **layer);

/* Sizes of the layer, and what the options say of dtype, placement, algorithm, rate, threads and budgets. */
void problem_of_layer(const struct options *options, const s4_layer *layer, s4_direction direction,
                      s4_problem *problem);

/* plan and bench: a layer file or --d-model and its companions, with --batch and --length. `path` may be NULL; then
 * *layer is a layer of that shape with all parameters 0, if `layer` is not NULL. */
int problem_of_options(const struct options *options, const char *path, s4_layer **layer, s4_problem *problem);

int placement_uses_gpu(const s4_placement *placement); /* in any stage */

/* A layer with the same parameters and the same leaf, but without a plain C kept beside C~. */
s4_status copy_layer(s4_layer *from, s4_layer **to);

#endif
