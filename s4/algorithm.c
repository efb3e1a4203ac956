/*
 * How a problem is convolved: by FFT, from a kernel as long as wanted, or in chunks, from the states between them. What
 * chunks cannot do, and which of the two AUTO takes.
 */
#include "s4/algorithm.h"

#include <math.h>

#include "s4/errors.h"
#include "s4/plan_object.h"

#define CHUNK_MIN 32
#define CHUNK_MAX 256

/* A chunk costs tau^2 products of its kernel; a dense step of the state, N^2 a chunk, asks for long chunks. */
int64_t s4_chunk_length(const s4_problem *p)
{
    int64_t chunk = CHUNK_MIN;
    while (p->mode == S4_MODE_DPLR && chunk < CHUNK_MAX && chunk < p->d_state) chunk *= 2;
    return chunk;
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
static int is_elsewhere(const s4_problem *p)
{
    return p->placement.stage[S4_STAGE_CONVOLVE] != S4_PLACE_CPU || p->placement.stage[S4_STAGE_KERNEL] != S4_PLACE_CPU;
}

static const struct {
    int (*holds)(const s4_problem *problem);
    const char *text;
} obstacles[] = {
    {is_bidirectional, "bidirectional layers have no recurrence"},
    {is_dss, "dss layers have no recurrence"},
    {has_rate_parity, "rate_parity is of kernels that are made from C~"},
    {is_cut, "kernel_length must be >= length: the memory of a recurrence is not cut"},
    {is_elsewhere, "place gpu does not offer it in this version; with kernel and convolve on the cpu it is there"},
};

/* NULL if the problem can be convolved in chunks. */
static const char *obstacle(const s4_problem *p)
{
    for (size_t i = 0; i < sizeof obstacles / sizeof obstacles[0]; i++)
        if (obstacles[i].holds(p)) return obstacles[i].text;
    return NULL;
}

/* ---- what both cost ---------------------------------------------------------------------------------------------- */

/*
 * Nanoseconds of one row (b,h), of this much work. Kernels, spectra and chunk matrices are not counted: they are made
 * once for all rows. Measured on one core of an AMD EPYC (Zen 4) at 3.5 GHz with x86-64-v4, B = 4 to 16:
 *   product   one multiplication and addition of the products and dense steps of chunks
 *   sample    a sample of one tensor, read or written by chunks
 *   mode      one step of one element of a diagonal state
 *   fft       one element of one transform, for every doubling of its length
 *   spectrum  one element of a spectrum that is multiplied and summed, for gradients
 *   row       one transform, whatever its length
 */
static const struct {
    double product, sample, mode, fft, spectrum, row;
} price[] = {
    [S4_F32] = {0.018, 0.2, 0.16, 0.04, 1.0, 35},
    [S4_F64] = {0.036, 0.4, 0.2, 0.09, 1.2, 35},
};

static double chunked_cost(const s4_problem *p)
{
    double N = (double)p->d_state, tau = (double)s4_chunk_length(p), M = (double)p->channels;
    double chunks = ceil((double)p->length / tau), samples = chunks * tau;
    int dense = p->mode == S4_MODE_DPLR;
    double step = dense ? N * N * price[p->dtype].product : N * price[p->dtype].mode;
    double products = N + M * (tau + N), tensors = 1 + M, steps = 1;
    if (p->direction == S4_DIRECTION_TRAINING) { /* states, adjoints and du; then sums: see cpu/chunk_backward.c */
        products += N + M * (N + tau) + N;
        products += M * (tau + N) + N + (dense ? N * N / tau : 0);
        tensors += 3 + M;
        steps += 2;
    }
    return samples * (products * price[p->dtype].product + tensors * price[p->dtype].sample) + chunks * steps * step;
}

static double fft_cost(const s4_problem *p)
{
    double length = (double)s4_fft_length(p->kernel_length + p->length - 1), M = (double)p->channels;
    double transforms = 1 + M, spectra = 0;
    if (p->direction == S4_DIRECTION_TRAINING) {
        transforms += 1 + 2 * M;
        spectra += M;
    }
    double transform = length * log2(length) * price[p->dtype].fft + price[p->dtype].row;
    return transforms * transform + spectra * length * price[p->dtype].spectrum;
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

static int trains_c_tilde(const s4_problem *p)
{
    return p->direction == S4_DIRECTION_TRAINING && p->mode == S4_MODE_DPLR;
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
        int chunked = !why && !trains_c_tilde(p) && chunked_cost(p) < fft_cost(p);
        p->algorithm = chunked ? S4_ALGORITHM_CHUNKED : S4_ALGORITHM_FFT;
    }
    return S4_OK;
}
