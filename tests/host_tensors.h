/* A problem of training with tensors on the host: what tensors on the device must give, too. */
#ifndef S4_TEST_HOST_TENSORS_H
#define S4_TEST_HOST_TENSORS_H

#include "layers.h"
#include "session.h"

typedef struct sizes {
    int64_t B, H, T, L;
    int channels, bidirectional;
    s4_dtype dtype;
} sizes;

/* A DPLR layer that stores C~ of length L. */
s4_layer *layer_of_sizes(s4_context *context, const sizes *s, uint64_t seed);

typedef struct outcome {
    double *y;
    gradients g;
} outcome;

/* Parameter gradients that begin at 0.25, in *to as what a call adds to. */
gradients gradients_begun(s4_layer *layer, int64_t du_count, s4_gradients *to);
/* Forward and backward; lengths may be NULL. */
outcome with_host_tensors(s4_context *context, s4_layer *layer, const sizes *s, s4_placement placement, const double *u,
                          const double *dy, const int64_t *lengths);

#endif
