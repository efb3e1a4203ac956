/* Shared by the properties: a seeded layer they are checked on, and runs of it. */
#ifndef BENCH_CHECK_PROPERTY_H
#define BENCH_CHECK_PROPERTY_H

#include "check.h"
#include "tensors.h"

#define D_MODEL 4
#define LENGTH 48
#define BATCH 3
#define SAMPLES ((int64_t)BATCH * D_MODEL * LENGTH) /* of u */

struct properties {
    struct checker *checker;
    s4_layer_options sizes;
    s4_layer *plain; /* stores C */
    s4_layer *layer; /* stores C~ of LENGTH; a diagonal one C */
};

#define RETURN_FAILURE(call)                                                                                           \
    do {                                                                                                               \
        s4_status failure_ = (call);                                                                                   \
        if (failure_) return failure_;                                                                                 \
    } while (0)

int64_t output_samples(const struct properties *p); /* of y */
void set_problem(const struct properties *p, s4_direction direction, s4_dtype dtype, s4_problem *problem);
/* Output and, for training, gradients. */
s4_status run_problem(const struct properties *p, const s4_problem *problem, s4_layer *layer,
                      const struct tensors *tensors);
/* max abs(a - b) / max abs(b) */
double relative_difference(s4_dtype a_dtype, const void *a, s4_dtype b_dtype, const void *b, int64_t count);

/* Each prints its results, or returns why it could not be checked. */
s4_status check_doubling(struct properties *p);
s4_status check_undo(struct properties *p);
s4_status check_step_linear(struct properties *p);
s4_status check_step_dense(struct properties *p);
s4_status check_step_diagonal(struct properties *p);
s4_status check_step_f32(struct properties *p);
s4_status check_chunks(struct properties *p);
s4_status check_rate(struct properties *p);
s4_status check_layout(struct properties *p);
s4_status check_lengths(struct properties *p);
s4_status check_gradients(struct properties *p);
s4_status check_precision(struct properties *p);
s4_status check_budgets(struct properties *p);
s4_status check_threads(struct properties *p);
s4_status check_memory(struct properties *p);

#endif
