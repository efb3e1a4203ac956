/*
 * How a problem is convolved: by FFT, from a kernel as long as wanted, or in chunks, from the states between them. What
 * chunks cannot do, and which of the two AUTO takes.
 */
#include "s4/algorithm.h"

#include "s4/errors.h"
#include "s4/price.h"

/* A dense step of the state, N^2 a chunk, asks for long chunks; a chunk costs tau^2 products of its kernel, and its
 * matrices tau steps: rows of a diagonal layer that are short do not repay long ones. */
int64_t s4_chunk_length(const s4_problem *p)
{
    static const struct {
        int64_t d_state, chunk;
    } dense[] = {{16, 32}, {64, 64}, {128, 128}, {INT64_MAX, 256}};
    if (p->mode == S4_MODE_DIAG) return p->length <= 1024 ? 16 : 32;
    int i = 0;
    while (p->d_state > dense[i].d_state) i++;
    return dense[i].chunk;
}

static int convolves(const s4_problem *p)
{
    return p->direction == S4_DIRECTION_FORWARD || p->direction == S4_DIRECTION_TRAINING;
}

/* ---- what chunks cannot do --------------------------------------------------------------------------------------- */

static int is_bidirectional(const s4_problem *p) { return p->bidirectional; }
static int is_dss(const s4_problem *p) { return p->discretisation == S4_DSS; }
static int has_rate_parity(const s4_problem *p) { return p->rate_parity; }
static int is_cut(const s4_problem *p) { return p->kernel_length < p->length; }

static const struct {
    int (*holds)(const s4_problem *problem);
    const char *text;
} obstacles[] = {
    {is_bidirectional, "bidirectional layers have no recurrence"},
    {is_dss, "dss layers have no recurrence"},
    {has_rate_parity, "rate_parity is of kernels that are made from C~"},
    {is_cut, "kernel_length must be >= length: the memory of a recurrence is not cut"},
};

/* NULL if the problem can be convolved in chunks. */
static const char *obstacle(const s4_problem *p)
{
    for (size_t i = 0; i < sizeof obstacles / sizeof obstacles[0]; i++)
        if (obstacles[i].holds(p)) return obstacles[i].text;
    return NULL;
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/*
 * The algorithm of training decides what is trained: C~ by FFT, plain C in chunks. A problem does not tell which of them a
 * layer stores, and a choice by price would have plans refuse a layer at one length that they take at another; so the
 * choice is made only where the caller leaves the leaf to the plan.
 */
static int trains_c_tilde(const s4_problem *p)
{
    return p->direction == S4_DIRECTION_TRAINING && p->mode == S4_MODE_DPLR && !p->either_leaf;
}

/* Prices are of a CPU. */
static int is_priced(const s4_problem *p)
{
    return p->placement.stage[S4_STAGE_CONVOLVE] == S4_PLACE_CPU && p->placement.stage[S4_STAGE_KERNEL] == S4_PLACE_CPU;
}

s4_status s4_algorithm_settle(s4_problem *p)
{
    const char *why = convolves(p) ? obstacle(p) : NULL;
    if (p->algorithm == S4_ALGORITHM_CHUNKED && why)
        return s4_fail(S4_ERROR_UNSUPPORTED,
                       "algorithm chunked: %s (kernel_length %lld, length %lld); use algorithm fft", why,
                       (long long)p->kernel_length, (long long)p->length);
    if (!convolves(p))
        p->algorithm = S4_ALGORITHM_FFT;
    else if (p->algorithm == S4_ALGORITHM_AUTO) {
        int chunked = !why && is_priced(p) && !trains_c_tilde(p) &&
                      s4_price_chunked(p, s4_chunk_length(p)) < s4_price_fft(p);
        p->algorithm = chunked ? S4_ALGORITHM_CHUNKED : S4_ALGORITHM_FFT;
    }
    return S4_OK;
}
