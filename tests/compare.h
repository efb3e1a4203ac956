/* The library against the definition of a layer (naive.h), in both precisions, at the place of the environment. */
#ifndef S4_TEST_COMPARE_H
#define S4_TEST_COMPARE_H

#include "session.h"

typedef struct compare_sizes {
    int64_t batch, length, kernel_length;
} compare_sizes;

/* Each returns 0, with a line on standard error, if the run is of a GPU place that refuses the problem by name. The case
 * is told by about() before. The layer stores plain C, except that gradients of a DPLR layer are of C~ of kernel_length;
 * `tolerance` is that of double. */
int compare_kernel(s4_context *context, s4_layer *layer, double rate, int64_t kernel_length, double tolerance);
int compare_output(s4_context *context, s4_layer *layer, const compare_sizes *sizes, double tolerance);
int compare_gradients(s4_context *context, s4_layer *layer, const compare_sizes *sizes, double tolerance);
/* The same of rows that end early: lengths (batch) as in s4_backward_io, which a GPU place does not take. */
int compare_gradients_of_rows(s4_context *context, s4_layer *layer, const compare_sizes *sizes, const int64_t *lengths,
                              double tolerance);

/* The two ways to run a layer, from a state: a convolution with a state in and out against steps, in double. */
int compare_steps(s4_context *context, s4_layer *layer, s4_step_mode mode, const compare_sizes *sizes,
                  double tolerance);

#endif
