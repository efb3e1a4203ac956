/*
 * What a problem costs by FFT and in chunks, in nanoseconds of one core: what a user waits for after parameters changed,
 * one refresh, one forward and, in training, one backward.
 *
 * A price times a count that the algorithm gives. Prices were fitted to times measured on an AMD EPYC (Zen 4) at 3.5 GHz with
 * AVX-512 (bench/algorithms.sh tells how to fit them again): half of the cases are within 6 %, nine of ten within 20 %. They
 * are the same on every machine, so that a problem has one algorithm everywhere; other levels of instructions scale both
 * algorithms alike, within a third.
 *
 * Of a channel: n modes, N = 2 n, L samples, B rows, M outputs, F elements of a transform, tau samples of a chunk. Not counted:
 * what is frozen, states of the caller, and what does not grow with any of these.
 */
#include "s4/price.h"

#include <math.h>

#include "s4/plan_object.h"

/* Of samples, in the dtype of the plan. */
static const struct {
    double fft;       /* F log2 F of a transform; F in whole `unit`s, which vectors of all lanes need */
    double row;       /* a transform */
    double product;   /* a multiplication and addition of the products of chunks */
    double sample;    /* a sample, read and written by chunks */
    double chunk;     /* a chunk of a row */
    double dense;     /* an element of dA^tau in a step between chunks, by which rows go in fours */
    double diagonal;  /* an element of a state in such a step */
    int64_t unit;
} price[] = {
    [S4_F32] = {0.032, 35, 0.0225, 0.3, 20, 0.009, 0.2, 512},
    [S4_F64] = {0.0695, 35, 0.045, 0.5, 25, 0.018, 0.1, 128},
};
static const double far_bytes = 2 << 20, far = 1.4; /* a transform that leaves the cache of its core, and its factor */
static const double gradient_fft = 1.22;            /* a transform of backward, with the sums over spectra */

/* Of parameters, in double whatever the dtype; {to make them, for their gradients}. */
enum { MAKE, BACK };
static const double cauchy[] = {0.16, 0.4};       /* (n, L/2) times pairs of rows and columns, the denominator being two more */
static const double kernel_fft[] = {0.4, 0.55};   /* L log2 L */
static const double cauchy_mode[] = {36, 95};     /* n */
static const double cauchy_channel[] = {200, 400};
static const double vandermonde[] = {0.075, 0.165}; /* (n, L) */
static const double power[] = {3.4, 2};             /* (n, rows and columns of the matrices of powers) */
static const double vandermonde_mode[] = {75, 240}; /* n */
static const double kernel_sample[] = {1.2, 2};     /* L */
static const double advance[] = {5, 8};             /* (N, tau) */
static const double chunk_mode[] = {35, 100};       /* N */
static const double square[] = {0.038, 0.037};      /* N^3, a product of matrices */
static const double chunk_kernel = 0.5;             /* tau^2, backward */
static const double undo[] = {330, 9, 0.04};        /* N, N^2, N^3: from C~ to C */

static double whole(double count, double unit) { return ceil(count / unit) * unit; }
static int is_dplr(const s4_problem *p) { return p->mode == S4_MODE_DPLR; }
static int trains(const s4_problem *p) { return p->direction == S4_DIRECTION_TRAINING; }

/* ---- by FFT ------------------------------------------------------------------------------------------------------ */

static double transform(const s4_problem *p)
{
    double length = (double)s4_fft_length(p->kernel_length + p->length - 1);
    double padded = whole(length, (double)price[p->dtype].unit);
    double ns = padded * log2(padded) * price[p->dtype].fft;
    if (length * (double)s4_dtype_size(p->dtype) > far_bytes) ns *= far;
    return ns + price[p->dtype].row;
}

/* The kernels of a channel (way: MAKE), or their gradients' way to the parameters (BACK). */
static double kernel(const s4_problem *p, int way)
{
    double n = (double)p->d_state / 2, L = (double)p->kernel_length, M = (double)p->channels, R = (double)p->rank;
    if (is_dplr(p)) {
        double pairs = (1 + R) * (M + R);
        return n * (L / 2 + 1) * (pairs + 2) * cauchy[way] + M * L * log2(L + 1) * kernel_fft[way] +
               n * cauchy_mode[way] + cauchy_channel[way];
    }
    double sides = (double)(s4_cpu_vandermonde_width(p->kernel_length) + s4_cpu_vandermonde_rows(p->kernel_length));
    return n * (M * L * vandermonde[way] + sides * power[way] + vandermonde_mode[way]) + M * L * kernel_sample[way];
}

double s4_price_fft(const s4_problem *p)
{
    double B = (double)p->batch, M = (double)p->channels, one = transform(p);
    double ns = kernel(p, MAKE) + M * one + B * (1 + M) * one;
    if (trains(p)) ns += B * (2 + M) * one * gradient_fft + M * one + kernel(p, BACK);
    return ns;
}

/* ---- in chunks --------------------------------------------------------------------------------------------------- */

/* The matrices of a channel; a forward DPLR layer stores C~, which AUTO trains, and published files have. */
static double matrices(const s4_problem *p, double tau)
{
    double N = (double)p->d_state, M = (double)p->channels;
    double ns = (1 + M) / 2 * N * tau * advance[MAKE] + N * chunk_mode[MAKE];
    if (!is_dplr(p)) return ns;
    ns += log2(tau) * N * N * N * square[MAKE];
    if (!trains(p)) ns += N * (undo[0] + N * (undo[1] + N * undo[2]));
    return ns;
}

static double matrices_backward(const s4_problem *p, double tau)
{
    double N = (double)p->d_state, M = (double)p->channels;
    double ns = (1 + M) / 2 * N * tau * advance[BACK] + N * chunk_mode[BACK] + M * tau * tau * chunk_kernel;
    return is_dplr(p) ? ns + (3 * log2(tau) + 2) * N * N * N * square[BACK] : ns;
}

double s4_price_chunked(const s4_problem *p, int64_t chunk)
{
    double tau = (double)chunk, N = whole((double)p->d_state, 16), B = (double)p->batch, M = (double)p->channels;
    double chunks = ceil((double)p->length / tau), samples = B * chunks * tau;
    double steps = is_dplr(p) ? whole(B, 4) * chunks * N * N * price[p->dtype].dense
                              : B * chunks * N * price[p->dtype].diagonal;
    double products = N + M * (tau / 2 + N), tensors = 1 + M, passes = 1, ns = matrices(p, tau);
    if (trains(p)) { /* states again, adjoints, du; then the sums of cpu/chunk_backward.c */
        products += N + M * (N + tau / 2) + N + M * (tau / 2 + N) + N + (is_dplr(p) ? N * N / tau : 0);
        tensors += 2 + M;
        passes += 2;
        ns += matrices_backward(p, tau);
    }
    return ns + samples * (products * price[p->dtype].product + tensors / 2 * price[p->dtype].sample) +
           passes * (steps + B * chunks * price[p->dtype].chunk);
}
