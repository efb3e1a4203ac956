/* The caller's tensors of one execution, for the verbs that make their own input, and the calls that use them. */
#ifndef BENCH_TENSORS_H
#define BENCH_TENSORS_H

#include "s4/s4.h"

/* Tensors of the caller for one execution; NULL where the direction has none. */
struct tensors {
    s4_dtype dtype;
    void *u, *du;                         /* (B,H,T) */
    void *dy;                             /* (B,M*H,T) */
    void *y;                              /* (B,M*H,T), or K (K,H,L) for direction kernel */
    double *state;                        /* (B,H,n,2) */
    double *gradient[S4_PARAMETER_COUNT]; /* NULL for one that is frozen, or that the layer has not */
};

/* Sizes of the tensors of `problem` (batch B, channels filled in), allocated and, for u and dy, filled from the seed.
 */
void tensors_create(const s4_problem *problem, s4_layer *layer, uint64_t seed, struct tensors *tensors);
void tensors_destroy(struct tensors *tensors);
/* Elements of one channel of one row of y: T, or L for direction kernel. */
int64_t output_length(const s4_problem *problem);

/* y from u (or K); du and gradients from u and dy. `batch` rows, 0 = all. */
s4_status compute_output(const s4_plan *plan, s4_direction direction, const s4_layer *layer, s4_workspace *workspace,
                         const struct tensors *tensors, int64_t batch);
s4_status compute_gradients(const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace,
                            const struct tensors *tensors, int64_t batch);

#endif
