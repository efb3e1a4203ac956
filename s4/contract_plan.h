/*
 * The plan of a contraction: products of two, in their order, each cut into blocks.
 *
 * Two operands: one product. Three: a product of two makes the intermediate result, in double; a second one makes the
 * result of it and the third operand. The outer blocks cut indices that the intermediate result and the result share:
 * a part of the one gives a part of the other. Inside an outer block, each product has blocks of its own. Indices that
 * a product sums over are never cut.
 */
#ifndef S4_CONTRACT_PLAN_H
#define S4_CONTRACT_PLAN_H

#include "s4/backend.h"
#include "s4/contract_expression.h"

typedef enum s4_contract_tensor { /* 0 .. 2: the operands */
    S4_CONTRACT_INTERMEDIATE = S4_CONTRACT_OPERANDS_MAX,
    S4_CONTRACT_RESULT,
    S4_CONTRACT_TENSORS
} s4_contract_tensor;

typedef struct s4_contract_step {
    int tensor[S4_PRODUCT_TENSORS];                          /* x, y and z */
    unsigned output;                                         /* indices of z */
    int axes[S4_PRODUCT_GROUPS];                             /* indices of each group, slowest first */
    int index[S4_PRODUCT_GROUPS][S4_CONTRACT_INDICES_MAX];
    int64_t block[S4_CONTRACT_INDICES_MAX];                  /* sizes of its blocks; not cut: the size */
} s4_contract_step;

struct s4_contraction {
    s4_expression expression;
    s4_contraction_options options; /* defaults filled in */
    int64_t count[S4_CONTRACT_TENSORS];
    int is_empty;                   /* no element in the result, or nothing to sum: the result is 0 */
    int steps;
    s4_contract_step step[S4_CONTRACT_OPERANDS_MAX - 1];
    s4_term intermediate;
    unsigned outer;                                                   /* indices that outer blocks may cut */
    int64_t outer_block[S4_CONTRACT_INDICES_MAX];
    int64_t stride[S4_CONTRACT_TENSORS][S4_CONTRACT_INDICES_MAX];     /* in elements; 0 where there is no such index */
    int64_t scratch;                /* bytes of the intermediate result; scratch of products begins there */
    s4_contraction_info info;
};

/* Fills all but the expression and the options. S4_ERROR_OUT_OF_BUDGET, S4_ERROR_ARGUMENT (sizes too large). */
s4_status s4_contract_plan(s4_contraction *contraction);

#endif
