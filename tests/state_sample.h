/* Calls with states for tests of their gradients: a layer with tensors of one call, and what backward makes of them. */
#ifndef S4_TEST_STATE_SAMPLE_H
#define S4_TEST_STATE_SAMPLE_H

#include "layers.h"
#include "session.h"

/* A layer with tensors of one call; x0, ds and dx0 may be NULL, and lengths. */
typedef struct sample {
    s4_layer *layer;
    int64_t B, T, L, states; /* states: numbers in x0 */
    double *u, *G, *x0, *ds;
    int wants_entering; /* dx0 */
    const int64_t *lengths;
} sample;

extern const layer_shape sample_dplr, sample_diagonal; /* H = 2, N = 6 */

/* A random layer of this shape, with C~ of length L if it is DPLR, and random tensors. */
sample sample_open(s4_context *context, const layer_shape *shape, int64_t B, int64_t T, int64_t L, uint64_t seed);
/* Training with states, in one thread. */
s4_problem sample_problem(const sample *p, s4_dtype dtype);
int64_t count_u(const sample *p);
int64_t count_y(const sample *p);

/* Gradients of all that can be asked for. */
typedef struct result {
    gradients g;
    double *entering; /* of x0 */
} result;

result result_zero(const sample *p);
/* Each refreshes first. */
void backward_into(session *s, const sample *p, result *r, int accumulate);
result backward(session *s, const sample *p);
result backward_alone(s4_context *context, const sample *p, const s4_problem *problem);
void expect_same_results(const sample *p, const result *got, const result *expected);

#endif
