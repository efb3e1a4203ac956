/*
 * Shadow mode (s4_context_options.shadow): every operation of a plan that uses the GPU is also run on the CPU, by a plan
 * of the same problem and blocks, and what both make is compared, operation by operation.
 */
#ifndef S4_SHADOW_H
#define S4_SHADOW_H

#include "s4/execute.h"

/* For a workspace of `plan`, whose tensors must be on the host. Memory comes on top of the plan's. */
s4_status s4_shadow_create(const s4_plan *plan, s4_shadow **shadow);
void s4_shadow_destroy(s4_shadow *shadow);

/* The call that follows `call`, into tensors of the shadow's own. */
void s4_shadow_begin(const s4_call *call, s4_call *follower);

/* `task` has been run by `call`, and by the follower on the CPU: compares. S4_ERROR_MISMATCH names the first operation,
 * tensor and index that differ or are not finite, and both values. */
s4_status s4_shadow_check(const s4_call *call, const s4_operation_row *row, const s4_task *task, const s4_call *follower,
                          const s4_block *block);

/* s4/shadow_compare.c */

/* Values of the device, read to the host, and of the shadow; element i of `count`. */
typedef struct s4_comparison {
    const char *operation, *tensor;
    s4_dtype dtype;
    double tolerance;   /* relative to the largest of the shadow */
    double least_scale; /* the largest counts as at least so much */
    const void *made; /* on the host */
    const void *expected;
    int64_t count;
    int64_t first; /* index of element 0 in the tensor that is named */
} s4_comparison;
s4_status s4_shadow_compare(const s4_comparison *comparison);

#endif
