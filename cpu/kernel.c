/*
 * The convolution kernel from C~: the generating function of a DPLR system at the roots of unity, and an inverse FFT.
 *
 *   theta_k = pi k / L, k = 0 ... L/2;   K^_k = e^(i theta_k) kappa(theta_k);   K = irfft(K^) of length L
 *
 * kappa is in cauchy.h. Written with sine and cosine it is finite at Nyquist, where forms with 2/(1 + omega) are
 * not, and no root of unity is rounded and then subtracted from 1. All in double; only K has the dtype of the plan.
 */
#include <math.h>
#include <omp.h>

#include "cpu/cauchy.h"
#include "cpu/fft.h"

/* K^ of one channel into `row`, L/2 + 1 complex. Returns the first frequency at which it is not finite, or -1. */
static int64_t generating_function(const cpu_channel *channel, int64_t length, int64_t stride, double *terms,
                                   double *row)
{
    int64_t frequencies = length / 2 + 1;
    cpu_cauchy_terms(channel, stride, terms);
    for (int64_t first = 0; first < frequencies; first += CPU_TILE) {
        cpu_angles angles;
        cpu_pair_tile sigma;
        cpu_cauchy_angles(length, first, &angles);
        cpu_cauchy_sums(channel, stride, terms, &angles, &sigma);
        for (int j = 0; j < CPU_TILE && first + j < frequencies; j++) {
            double sine = angles.sine[j], cosine = angles.cosine[j];
            double complex right[S4_RANK_MAX];
            double complex kappa = cpu_woodbury(channel, &sigma, cosine, j, right, NULL);
            double kappa_re = creal(kappa), kappa_im = cimag(kappa);
            double *out = row + 2 * (first + j);
            out[0] = cosine * kappa_re - sine * kappa_im;
            out[1] = cosine * kappa_im + sine * kappa_re;
            if (!isfinite(out[0]) || !isfinite(out[1])) return first + j;
        }
    }
    return -1;
}

/* SYSTEM -> KERNEL of the block's channels. */
s4_status cpu_kernel(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    const cpu_prepared *prepared = task->prepared;
    const s4_system system = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]);
    int64_t length = shape->kernel_length, frequencies = length / 2 + 1;
    int64_t terms_stride = s4_kernel_terms(shape->rank), row_stride = s4_row_stride(length);
    double *rows = task->buffer[S4_BUFFER_KERNEL_ROWS], *terms = task->buffer[S4_BUFFER_KERNEL_TERMS];
    float *kernel_f32 = task->buffer[S4_BUFFER_KERNEL];
    double *kernel_f64 = task->buffer[S4_BUFFER_KERNEL];
    double scale = 1.0 / (double)length;
    int64_t failed = INT64_MAX; /* the first (channel, frequency) that is not finite, whichever thread finds it */

#pragma omp parallel for schedule(static) num_threads(shape->threads) reduction(min : failed)
    for (int64_t i = 0; i < task->channels; i++) {
        int64_t lane = omp_get_thread_num(), h = task->channel + i;
        double *row = rows + lane * row_stride;
        cpu_channel channel = cpu_channel_view(shape, &system, h);
        int64_t bad = generating_function(&channel, length, terms_stride,
                                          terms + lane * shape->modes * terms_stride, row);
        if (bad >= 0) {
            if (h * frequencies + bad < failed) failed = h * frequencies + bad;
            continue;
        }
        cpu_fft_inverse_f64(&prepared->kernel, row);
        if (shape->dtype == S4_F32)
            for (int64_t l = 0; l < length; l++) kernel_f32[i * length + l] = (float)(scale * row[l]);
        else
            for (int64_t l = 0; l < length; l++) kernel_f64[i * length + l] = scale * row[l];
    }
    if (failed != INT64_MAX)
        return cpu_host->fail(S4_ERROR_SINGULAR,
                              "the kernel of channel %lld is not finite at frequency %lld of 0 ... %lld: an "
                              "eigenvalue of A is on the boundary of stability (0 at frequency 0), or out of range",
                              (long long)(failed / frequencies), (long long)(failed % frequencies),
                              (long long)(frequencies - 1));
    return S4_OK;
}
