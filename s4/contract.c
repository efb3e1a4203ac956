/*
 * Contractions at the public door, and their execution: products of blocks in the plan's order. Arithmetic is the CPU
 * place's.
 */
#include "s4/contract.h"

#include <stdlib.h>
#include <string.h>

#include "s4/context_object.h"
#include "s4/contract_plan.h"
#include "s4/errors.h"
#include "s4/options.h"

#define THREADS_MAX 1024
#define SCRATCH_ALIGNMENT 64

/* ---- making ------------------------------------------------------------------------------------------------------ */

static s4_status check_options(s4_contraction_options *options)
{
    if (options->dtype != S4_F32 && options->dtype != S4_F64)
        return s4_fail(S4_ERROR_ARGUMENT, "dtype is %d, must be f32 or f64", (int)options->dtype);
    if (options->is_complex != 0 && options->is_complex != 1)
        return s4_fail(S4_ERROR_ARGUMENT, "is_complex is %d, must be 0 or 1", options->is_complex);
    if (options->threads < 0 || options->threads > THREADS_MAX)
        return s4_fail(S4_ERROR_ARGUMENT, "threads is %d, must be in 0 .. %d", options->threads, THREADS_MAX);
    if (options->budget < 0)
        return s4_fail(S4_ERROR_ARGUMENT, "budget is %lld, must be >= 0", (long long)options->budget);
    if (!options->threads) options->threads = s4_processors();
    return S4_OK;
}

static s4_status make(const char *expression, const int64_t *const *shapes, const s4_contraction_options *options,
                      s4_contraction *made)
{
    S4_TRY(s4_options_read("s4_contraction_options", options, &made->options, sizeof made->options));
    S4_TRY(check_options(&made->options));
    S4_TRY(s4_expression_read(expression, shapes, &made->expression));
    return s4_contract_plan(made);
}

s4_status s4_contraction_create(const char *expression, const int64_t *const *shapes,
                                const s4_contraction_options *options, s4_contraction **contraction)
{
    if (!contraction) return s4_fail(S4_ERROR_ARGUMENT, "contraction is NULL");
    *contraction = NULL;
    s4_contraction *made = calloc(1, sizeof *made);
    if (!made) return s4_fail(S4_ERROR_MEMORY, "no memory for a contraction");
    s4_status status = make(expression, shapes, options, made);
    if (status)
        free(made);
    else
        *contraction = made;
    return status;
}

void s4_contraction_destroy(s4_contraction *contraction) { free(contraction); }

s4_status s4_contraction_describe(const s4_contraction *contraction, s4_contraction_info *info)
{
    if (!contraction || !info) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", contraction ? "info" : "contraction");
    *info = contraction->info;
    return S4_OK;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Part of the space of all indices. */
typedef struct box {
    int64_t start[S4_CONTRACT_INDICES_MAX], length[S4_CONTRACT_INDICES_MAX];
} box;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static box first_part(const s4_contraction *c, const box *whole, const int64_t *block)
{
    box at = *whole;
    for (int i = 0; i < c->expression.indices; i++) at.length[i] = smaller(block[i], whole->length[i]);
    return at;
}

/* 0 after the last part. */
static int next_part(const s4_contraction *c, const box *whole, const int64_t *block, box *at)
{
    for (int i = c->expression.indices - 1; i >= 0; i--) {
        int64_t end = whole->start[i] + whole->length[i];
        at->start[i] += at->length[i];
        if (at->start[i] < end) {
            at->length[i] = smaller(block[i], end - at->start[i]);
            return 1;
        }
        at->start[i] = whole->start[i];
        at->length[i] = smaller(block[i], whole->length[i]);
    }
    return 0;
}

/* ---- execution --------------------------------------------------------------------------------------------------- */

typedef struct execution {
    const s4_contraction *contraction;
    const s4_context *context;
    const s4_backend *backend;
    int threads;
    char *tensor[S4_CONTRACT_TENSORS]; /* first element of each */
    double *scratch;                   /* of products */
    int64_t done;                      /* products */
} execution;

static s4_dtype dtype_of(const s4_contraction *c, int tensor)
{
    return tensor == S4_CONTRACT_INTERMEDIATE ? S4_F64 : c->options.dtype;
}

/* First element of a block in a tensor. The intermediate result begins with the outer block. */
static char *element(const execution *e, int tensor, const box *outer, const box *at)
{
    const s4_contraction *c = e->contraction;
    int64_t offset = 0;
    for (int i = 0; i < c->expression.indices; i++)
        offset += (at->start[i] - (tensor == S4_CONTRACT_INTERMEDIATE ? outer->start[i] : 0)) * c->stride[tensor][i];
    return e->tensor[tensor] + offset * (int64_t)s4_dtype_size(dtype_of(c, tensor)) * (c->options.is_complex ? 2 : 1);
}

static s4_status run_block(execution *e, const s4_contract_step *step, const box *outer, const box *at)
{
    const s4_contraction *c = e->contraction;
    s4_product product = {
        .is_complex = c->options.is_complex,
        .threads = e->threads,
        .x = element(e, step->tensor[S4_PRODUCT_X], outer, at),
        .y = element(e, step->tensor[S4_PRODUCT_Y], outer, at),
        .z = element(e, step->tensor[S4_PRODUCT_Z], outer, at),
        .scratch = e->scratch,
    };
    for (int t = 0; t < S4_PRODUCT_TENSORS; t++) product.dtype[t] = dtype_of(c, step->tensor[t]);
    for (int group = 0; group < S4_PRODUCT_GROUPS; group++) {
        product.axes[group] = step->axes[group];
        for (int a = 0; a < step->axes[group]; a++) {
            int i = step->index[group][a];
            s4_product_axis *axis = &product.axis[group][a];
            axis->size = at->length[i];
            for (int t = 0; t < S4_PRODUCT_TENSORS; t++) axis->stride[t] = c->stride[step->tensor[t]][i];
        }
    }
    return e->backend->contract(&product);
}

/* Tells how far the work is; the caller may stop it. */
static s4_status report_progress(execution *e)
{
    const s4_context_options *options = &e->context->options;
    int64_t total = e->contraction->info.chunks;
    e->done++;
    if (options->progress && options->progress(options->progress_user, "contract", e->done, total))
        return s4_fail(S4_ERROR_CANCELLED, "cancelled in contract after %lld of %lld products", (long long)e->done,
                       (long long)total);
    return S4_OK;
}

static s4_status run_step(execution *e, const s4_contract_step *step, const box *outer)
{
    box at = first_part(e->contraction, outer, step->block);
    do {
        S4_TRY(run_block(e, step, outer, &at));
        S4_TRY(report_progress(e));
    } while (next_part(e->contraction, outer, step->block, &at));
    return S4_OK;
}

static s4_status execute(execution *e)
{
    const s4_contraction *c = e->contraction;
    box all = {{0}, {0}};
    memcpy(all.length, c->expression.size, sizeof all.length);
    box outer = first_part(c, &all, c->outer_block);
    do {
        for (int s = 0; s < c->steps; s++) S4_TRY(run_step(e, &c->step[s], &outer));
    } while (next_part(c, &all, c->outer_block, &outer));
    return S4_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static int64_t tensor_bytes(const s4_contraction *c, int tensor)
{
    return c->count[tensor] * (int64_t)s4_dtype_size(c->options.dtype) * (c->options.is_complex ? 2 : 1);
}

static s4_status check_tensors(const s4_contraction *c, const void *const *operands, const void *result)
{
    int64_t bytes = tensor_bytes(c, S4_CONTRACT_RESULT);
    if (!operands) return s4_fail(S4_ERROR_ARGUMENT, "operands is NULL");
    if (bytes && !result) return s4_fail(S4_ERROR_ARGUMENT, "result is NULL");
    for (int k = 0; k < c->expression.operands; k++) {
        int64_t others = tensor_bytes(c, k);
        if (others && !operands[k]) return s4_fail(S4_ERROR_ARGUMENT, "operands[%d] is NULL", k);
        uintptr_t from = (uintptr_t)operands[k], to = (uintptr_t)result;
        if (bytes && others && from < to + (uintptr_t)bytes && to < from + (uintptr_t)others)
            return s4_fail(S4_ERROR_ARGUMENT, "result is in the memory of operands[%d]", k);
    }
    return S4_OK;
}

s4_status s4_contraction_run(const s4_contraction *contraction, s4_context *context, const void *const *operands,
                             void *result, void *scratch)
{
    const s4_contraction *c = contraction;
    if (!c || !context) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", c ? "context" : "contraction");
    S4_TRY(check_tensors(c, operands, result));
    if ((uintptr_t)scratch % SCRATCH_ALIGNMENT)
        return s4_fail(S4_ERROR_ARGUMENT, "scratch is %p, must be a multiple of %d", scratch, SCRATCH_ALIGNMENT);
    if (c->is_empty) {
        if (c->info.result_count) memset(result, 0, (size_t)tensor_bytes(c, S4_CONTRACT_RESULT));
        return S4_OK;
    }
    execution e = {.contraction = c, .context = context, .threads = c->options.threads};
    if (e.threads > context->options.threads) e.threads = context->options.threads;
    S4_TRY(s4_context_open(context, S4_PLACE_CPU, &e.backend, NULL));
    if (!e.backend->contract) return s4_fail(S4_ERROR_UNSUPPORTED, "the CPU place has no contractions");

    void *block = scratch;
    if (!scratch) S4_TRY(s4_context_allocate(context, S4_PLACE_CPU, (size_t)c->info.peak, &block));
    for (int k = 0; k < c->expression.operands; k++) e.tensor[k] = (char *)(uintptr_t)operands[k];
    e.tensor[S4_CONTRACT_INTERMEDIATE] = block;
    e.tensor[S4_CONTRACT_RESULT] = result;
    e.scratch = (double *)(void *)((char *)block + c->scratch);
    s4_status status = execute(&e);
    if (!scratch) s4_context_release(context, S4_PLACE_CPU, block, (size_t)c->info.peak);
    return status;
}

s4_status s4_contract(s4_context *context, const char *expression, const s4_contraction_options *options,
                      const int64_t *const *shapes, const void *const *operands, void *result)
{
    s4_contraction *contraction;
    S4_TRY(s4_contraction_create(expression, shapes, options, &contraction));
    s4_status status = s4_contraction_run(contraction, context, operands, result, NULL);
    s4_contraction_destroy(contraction);
    return status;
}
