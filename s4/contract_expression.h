/* "hmn,chn->chm" with its shapes: what a contraction is about. */
#ifndef S4_CONTRACT_EXPRESSION_H
#define S4_CONTRACT_EXPRESSION_H

#include "s4/contract.h"

/* Indices are numbers 0 .. indices - 1, in the order in which their letters come first. */
typedef struct s4_term {
    int rank;
    int index[S4_CONTRACT_INDICES_MAX]; /* its indices, slowest first */
    unsigned set;                       /* the same as bits */
} s4_term;

typedef struct s4_expression {
    int operands, indices;
    char letter[S4_CONTRACT_INDICES_MAX];
    int64_t size[S4_CONTRACT_INDICES_MAX];
    s4_term operand[S4_CONTRACT_OPERANDS_MAX], result;
} s4_expression;

/* S4_ERROR_ARGUMENT names what is wrong; *expression is undefined then. */
s4_status s4_expression_read(const char *text, const int64_t *const *shapes, s4_expression *expression);

/* Product of the sizes in `set`, at most S4_PRODUCT_HUGE. */
int64_t s4_expression_count(const s4_expression *expression, unsigned set);

#endif
