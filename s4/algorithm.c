/*
 * How a problem is convolved: by FFT, from a kernel as long as wanted, or in chunks, from the states between them. What
 * chunks cannot do, and which of the two AUTO takes.
 */
#include "s4/algorithm.h"

#include "s4/errors.h"

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

/* S4_OK if the problem can be convolved in chunks. */
static s4_status check_chunked(const s4_problem *p)
{
    if (p->bidirectional)
        return s4_fail(S4_ERROR_UNSUPPORTED,
                       "algorithm chunked: bidirectional layers have no recurrence; use algorithm fft");
    if (p->discretisation == S4_DSS)
        return s4_fail(S4_ERROR_UNSUPPORTED, "algorithm chunked: dss layers have no recurrence; use algorithm fft");
    if (p->rate_parity)
        return s4_fail(S4_ERROR_UNSUPPORTED,
                       "algorithm chunked: rate_parity is a property of kernels made from C~; use algorithm fft");
    if (p->kernel_length < p->length)
        return s4_fail(S4_ERROR_UNSUPPORTED,
                       "algorithm chunked: kernel_length is %lld, must be >= length %lld: the memory of the recurrence is "
                       "not cut; use algorithm fft",
                       (long long)p->kernel_length, (long long)p->length);
    if (p->placement.stage[S4_STAGE_CONVOLVE] != S4_PLACE_CPU)
        return s4_fail(S4_ERROR_UNSUPPORTED, "algorithm chunked: place %s does not offer it in this version; set "
                       "convolve to cpu or use algorithm fft",
                       s4_place_name(p->placement.stage[S4_STAGE_CONVOLVE]));
    return S4_OK;
}

s4_status s4_algorithm_settle(s4_problem *p)
{
    if (!convolves(p)) {
        p->algorithm = S4_ALGORITHM_FFT;
        return S4_OK;
    }
    if (p->algorithm == S4_ALGORITHM_CHUNKED) return check_chunked(p);
    if (p->algorithm == S4_ALGORITHM_AUTO) p->algorithm = S4_ALGORITHM_FFT;
    return S4_OK;
}
