/* A problem of training with tensors on the host: what tensors on the device must give, too. */
#ifndef S4_TEST_HOST_TENSORS_H
#define S4_TEST_HOST_TENSORS_H

#include "layers.h"
#include "session.h"

typedef struct sizes {
    int64_t B, H, T, L;
    int channels, bidirectional;
    s4_dtype dtype;
    int chunked, states; /* algorithm chunked; states go in and come out */
} sizes;

/* A DPLR layer that stores C~ of length L; in chunks plain C. */
s4_layer *layer_of_sizes(s4_context *context, const sizes *s, uint64_t seed);

s4_problem problem_of_sizes(const s4_layer *layer, const sizes *s, s4_direction direction);

/* States in, and gradients of those that come out, of `sizes` with states; else NULL. */
typedef struct state_pair {
    double *in, *gradient;
} state_pair;
int64_t state_count(s4_layer *layer, const sizes *s);
state_pair states_of_sizes(s4_layer *layer, const sizes *s);

typedef struct outcome {
    double *y, *state, *entering; /* states that come out, gradients of those that go in, or NULL */
    gradients g;
} outcome;
void expect_same_outcome(s4_layer *layer, const sizes *s, const outcome *got, const outcome *expected);

/* Parameter gradients that begin at 0.25, in *to as what a call adds to. */
gradients gradients_begun(s4_layer *layer, int64_t du_count, s4_gradients *to);
/* Forward and backward; lengths may be NULL. */
outcome with_host_tensors(s4_context *context, s4_layer *layer, const sizes *s, s4_placement placement, const double *u,
                          const double *dy, const int64_t *lengths);

#endif
