/*
 * Kernels of a DPLR system from C~, by the generating function at the roots of unity and an inverse FFT:
 *
 *   theta_f = pi f / L, f = 0 ... L/2;   K^_f = e^(i theta_f) kappa(theta_f);   K = irfft(K^) of length L
 *
 * kappa is in cauchy.h. Written with sine and cosine it is finite at Nyquist, where forms with 2/(1 + omega) are
 * not, and no root of unity is rounded and then subtracted from 1.
 */
#include <math.h>
#include <omp.h>

#include "cpu/kernel.h"
#include "cpu/level/cauchy.h"

/* k (L/2 + 1) + frequency of the first number of the rows that is not finite. */
static int64_t first_not_finite(const cpu_cauchy *work)
{
    int64_t frequencies = work->length / 2 + 1, all = work->channel->kernels * frequencies;
    for (int64_t i = 0; i < all; i++) {
        const double *value = work->rows + i / frequencies * work->row_stride + 2 * (i % frequencies);
        if (!isfinite(value[0]) || !isfinite(value[1])) return i;
    }
    return all - 1;
}

static void through_transform(const cpu_kernel_lane *lane, const cpu_cauchy *work, int64_t k)
{
    double *row = work->rows + k * work->row_stride;
    cpu_fft_inverse(lane->fft, row);
    (void)cpu_kernel_store(lane, k, 1.0 / (double)work->length, row); /* its spectrum is finite */
}

int64_t cpu_dplr_kernels(const cpu_kernel_lane *lane)
{
    int64_t length = lane->shape->kernel_length;
    cpu_channel channel = cpu_channel_view(lane->shape, &lane->system, lane->h);
    cpu_cauchy work = cpu_cauchy_open(&channel, lane->shape, lane->row, lane->scratch);
    if (!cpu_cauchy_at(lane->task->device)->of[lane->shape->kernel_dtype].spectrum(&work, 0, length / 2 + 1)) return first_not_finite(&work);
    for (int64_t k = 0; k < channel.kernels; k++) through_transform(lane, &work, k);
    return -1;
}

/* The rows are those of the first lane; each thread has its own scratch. */
int64_t cpu_dplr_kernels_shared(const s4_task *task, int threads, int64_t h)
{
    const int64_t length = task->shape->kernel_length, frequencies = length / 2 + 1, spans = cpu_spans(frequencies);
    const cpu_kernel_lane first = cpu_kernel_lane_view(task, 0, h);
    const cpu_channel channel = cpu_channel_view(task->shape, &first.system, h);
    int finite = 1;
    int64_t bad = -1;
#pragma omp parallel num_threads(threads)
    {
        const cpu_kernel_lane lane = cpu_kernel_lane_view(task, omp_get_thread_num(), h);
        const cpu_cauchy work = cpu_cauchy_open(&channel, task->shape, first.row, lane.scratch);
#pragma omp for schedule(static) reduction(& : finite)
        for (int64_t span = 0; span < spans; span++) {
            int64_t at = span * CPU_SPAN, count = frequencies - at < CPU_SPAN ? frequencies - at : CPU_SPAN;
            finite &= cpu_cauchy_at(task->device)->of[task->shape->kernel_dtype].spectrum(&work, at, count);
        }
#pragma omp single
        if (!finite) bad = first_not_finite(&work);
#pragma omp for schedule(static)
        for (int64_t k = 0; k < (finite ? channel.kernels : 0); k++) through_transform(&lane, &work, k);
    }
    return bad;
}
