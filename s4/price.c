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
    double fft;     /* F log2 F of a transform; F in whole `unit`s, which vectors of all lanes need */
    double row;     /* a transform */
    double sample;  /* a sample, read and written by chunks */
    struct {
        double product; /* a multiplication and addition of the products of chunks */
        double element; /* of dA^tau, by which rows go in fours, or of a diagonal state: a step between chunks */
        double chunk;   /* a chunk of a row */
    } chunked[2];
    int64_t unit;
} price[] = {
    [S4_F32] = {0.032, 35, 0.4, {[S4_MODE_DPLR] = {0.0225, 0.009, 18}, [S4_MODE_DIAG] = {0.0185, 0.18, 8}}, 512},
    [S4_F64] = {0.0695, 35, 0.4, {[S4_MODE_DPLR] = {0.047, 0.018, 22}, [S4_MODE_DIAG] = {0.0405, 0.08, 5}}, 128},
};
static const double far_bytes = 4 << 20, far = 1.17; /* a transform that leaves the cache of its core, and its factor */
static const double gradient_fft = 1.15;            /* a transform of backward, with the sums over spectra */

/* Of parameters, in double whatever the dtype; {to make them, for their gradients}. */
enum { MAKE, BACK };
static const double cauchy[] = {0.16, 0.4};       /* (n, L/2) times pairs of rows and columns, the denominator being two more */
static const double kernel_fft[] = {0.4, 0.55};   /* L log2 L */
static const double cauchy_mode[] = {36, 95};     /* n */
static const double cauchy_channel[] = {200, 400};
static const double vandermonde[] = {0.072, 0.155}; /* (n, L) */
static const double power[] = {2, 1.2};             /* (n, rows and columns of the matrices of powers) */
static const double vandermonde_mode[] = {138, 240}; /* n */
static const double kernel_sample[] = {1.2, 2};     /* L */
static const double advance[] = {[S4_MODE_DPLR] = 1.8, [S4_MODE_DIAG] = 0.9}; /* (N, tau), once for dB and every row of C */
static const double turned = 0.9;                                               /* the same, stored for the way back */
static const double advance_back = 3.4;
static const double chunk_mode[] = {32, 100}; /* N */
static const double chunk_sample[] = {15, 0}; /* tau */
static const double chunk_channel[] = {400, 0};
static const double square[] = {0.038, 0.037}; /* N^3, a product of matrices */
static const double chunk_kernel = 0.4;        /* tau^2, backward */
static const double undo[] = {330, 9, 0.04};   /* N, N^2, N^3: from C~ to C */

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

/* The matrices of a channel, or their gradients' way to the parameters. A forward DPLR layer stores C~, which AUTO trains and
 * published files have. */
static double matrices(const s4_problem *p, double tau, int way)
{
    double N = (double)p->d_state, padded = whole(N, 16), M = (double)p->channels;
    double step = way == BACK ? advance_back : advance[p->mode] + (trains(p) ? turned : 0);
    double ns = (1 + M) * (is_dplr(p) || way == BACK ? padded : N) * tau * step;
    ns += N * chunk_mode[way] + tau * chunk_sample[way] + chunk_channel[way];
    if (way == BACK) ns += M * tau * tau * chunk_kernel;
    if (!is_dplr(p)) return ns;
    ns += (way == BACK ? 3 * log2(tau) + 2 : log2(tau)) * padded * padded * padded * square[way];
    if (!trains(p)) ns += N * (undo[0] + N * (undo[1] + N * undo[2]));
    return ns;
}

double s4_price_chunked(const s4_problem *p, int64_t chunk)
{
    double tau = (double)chunk, N = whole((double)p->d_state, 16), B = (double)p->batch, M = (double)p->channels;
    double chunks = ceil((double)p->length / tau), samples = B * chunks * tau;
    double elements = is_dplr(p) ? whole(B, 4) * N * N : B * N;
    double step = elements * price[p->dtype].chunked[p->mode].element + B * price[p->dtype].chunked[p->mode].chunk;
    double products = N + M * (tau / 2 + N), tensors = 1 + M, passes = 1, ns = matrices(p, tau, MAKE);
    if (trains(p)) { /* states again, adjoints, du; then the sums of cpu/chunk_backward.c */
        products += N + M * (N + tau / 2) + N;
        products += M * (tau / 2 + N) + N + (is_dplr(p) ? N * N / tau : 0);
        tensors += 2 + M;
        passes += 2;
        ns += matrices(p, tau, BACK);
    }
    ns += samples * (products * price[p->dtype].chunked[p->mode].product + tensors / 2 * price[p->dtype].sample);
    return ns + passes * chunks * step;
}
