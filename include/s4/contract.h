/*
 * Contractions of two or three tensors by index names, "hmn,chn->chm", under a memory budget.
 *
 * Every index is one letter with one size. An index of both operands and the result is a batch index, one of an
 * operand and the result is free, one of operands only is summed; an index of one operand only is summed there first.
 * Three operands are contracted two at a time in the order whose intermediate result is smallest as a whole (of equal
 * ones, by multiplications, then by the order of the operands); it is kept in double. What does not fit the budget is
 * done in chunks over batch indices, then over free ones. Sums run in double over ascending indices, one after the
 * other: values depend neither on chunks nor on threads. Complex numbers are multiplied as they are, without a
 * conjugate. A value that is not finite goes where these sums take it. The plan is what is executed.
 *
 * Layers of the library use the same routine for their own contractions where they have one.
 */
#ifndef S4_CONTRACT_H
#define S4_CONTRACT_H

#include "context.h"

S4_BEGIN_DECLS

typedef struct s4_contraction s4_contraction;

#define S4_CONTRACT_OPERANDS_MAX 3
#define S4_CONTRACT_INDICES_MAX 16

typedef struct s4_contraction_options {
    size_t struct_size;
    s4_dtype dtype;     /* f32 or f64, of all tensors; sums are in double whatever the dtype */
    int is_complex;     /* 1: all tensors are interleaved (re, im) */
    int threads;        /* 0 = all processors of this process; the context's are not exceeded */
    int64_t budget;     /* bytes beyond the operands and the result; 0 = none: a few MiB, or what is needed */
} s4_contraction_options;

/* `expression`: letters (upper and lower case differ), commas and "->", no spaces needed or minded; an operand without
 * letters is one number. shapes[k][d]: size of dimension d of operand k, in the order of its letters, 0 or more; NULL
 * for one without. Arithmetic only. S4_ERROR_ARGUMENT names the index, letter or operand at fault (a size that differs
 * between operands, a result index that no operand has, a letter twice in one operand); S4_ERROR_OUT_OF_BUDGET tells
 * what is needed and given. *contraction is NULL then. */
S4_API s4_status s4_contraction_create(const char *expression, const int64_t *const *shapes,
                                       const s4_contraction_options *options, s4_contraction **contraction);
S4_API void s4_contraction_destroy(s4_contraction *contraction);

typedef struct s4_contraction_info {
    int64_t peak, minimum;         /* bytes beyond operands and result; smallest budget */
    int64_t result_count;          /* elements of the result */
    int64_t multiplications;       /* scalar ones, real or complex; counted up to 2^57 */
    int first, second;             /* three operands: these two are contracted first; two: 0 and 1 */
    int64_t intermediate_count;    /* elements that exist at a time of the intermediate result; 0 for two operands */
    int64_t chunks;                /* products of two chunks that are done in all: with nothing cut, one less than
                                    * operands; 0 if nothing is multiplied */
} s4_contraction_info;
S4_API s4_status s4_contraction_describe(const s4_contraction *contraction, s4_contraction_info *info);

/* result = sum over the summed indices of the product; an empty sum is 0. Operands and result dense, row-major, on the
 * host; the result overlaps none of the operands. Takes `peak` bytes through the context's hooks (S4_ERROR_MEMORY), or
 * none if `scratch` is given, at least `peak` bytes, 64-byte aligned. Reports progress as "contract", of `chunks`
 * (S4_ERROR_CANCELLED; the result is undefined then). Several threads may run the same contraction. */
S4_API s4_status s4_contraction_run(const s4_contraction *contraction, s4_context *context,
                                    const void *const *operands, void *result, void *scratch);

/* The four in one call. */
S4_API s4_status s4_contract(s4_context *context, const char *expression, const s4_contraction_options *options,
                             const int64_t *const *shapes, const void *const *operands, void *result);

S4_END_DECLS
#endif
