/* From options and a layer file to the library's objects: context, layer, problem. Failures are printed. */
#ifndef BENCH_PROBLEM_H
#define BENCH_PROBLEM_H

#include "options.h"

/* Each returns an exit code, after printing the failure if it is not CODE_FINE. */
int open_context(const struct options *options, s4_context **context);
int load_layer(const struct options *options, const char *path, s4_layer **layer); /* with what --set says; NULL on failure */

/* Sizes of the layer, and what the options say of dtype, placement, algorithm, rate, threads and budgets. */
void problem_of_layer(const struct options *options, const s4_layer *layer, s4_direction direction,
                      s4_problem *problem);

/* plan, bench and tune: a layer file or --d-model and its companions, with --batch and --length. `path` may be NULL;
 * then *layer is a layer of that shape with all parameters 0, if `layer` is not NULL. */
int problem_of_options(const struct options *options, const char *path, s4_layer **layer, s4_problem *problem);

/* Length of the stored C~, 0 for plain C; with --rate-parity that of its kernel at the other rate. */
int64_t stored_length(const struct options *options, const s4_layer *layer);
int placement_uses_gpu(const s4_placement *placement); /* in any stage */
int64_t kernels_of(const s4_problem *problem);         /* rows of K: channels, twice that if bidirectional */

#endif
