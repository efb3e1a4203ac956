/*
 * The convolution kernels of the block's channels. A diagonal system's are made in diagonal.c; a DPLR system's here,
 * from C~, by the generating function at the roots of unity and an inverse FFT:
 *
 *   theta_f = pi f / L, f = 0 ... L/2;   K^_f = e^(i theta_f) kappa(theta_f);   K = irfft(K^) of length L
 *
 * kappa is in cauchy.h. Written with sine and cosine it is finite at Nyquist, where forms with 2/(1 + omega) are
 * not, and no root of unity is rounded and then subtracted from 1. All in double; only K has the dtype of the plan.
 */
#include "cpu/kernel.h"

#include <math.h>
#include <omp.h>

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

/* All kernels of a channel. Returns -1, or k (L/2 + 1) + the first frequency that is not finite. */
static int64_t dplr_kernels(const cpu_kernel_lane *lane)
{
    int64_t length = lane->shape->kernel_length, frequencies = length / 2 + 1;
    cpu_channel channel = cpu_channel_view(lane->shape, &lane->system, lane->h);
    cpu_cauchy work = cpu_cauchy_open(&channel, length, lane->row, lane->scratch);
    if (!cpu_cauchy_at(lane->task->device)->spectrum(&work, 0, frequencies)) return first_not_finite(&work);
    for (int64_t k = 0; k < channel.kernels; k++) {
        double *row = work.rows + k * work.row_stride;
        cpu_fft_inverse_f64(lane->fft, row);
        cpu_kernel_store(lane, k, 1.0 / (double)length, row);
    }
    return -1;
}

/* ---- both kinds of systems ------------------------------------------------------------------------------------- */

static int64_t frequencies_of(int64_t length) { return length / 2 + 1; }
static int64_t samples_of(int64_t length) { return length; }

static const struct {
    int64_t (*kernels)(const cpu_kernel_lane *lane); /* returns -1, or k * points(L) + point of what is not finite */
    int64_t (*points)(int64_t length);
    const char *point, *causes;
} kinds[] = {
    [S4_MODE_DPLR] = {dplr_kernels, frequencies_of, "frequency",
                      "an eigenvalue of A is on the boundary of stability (0 at frequency 0), or out of range"},
    [S4_MODE_DIAG] = {cpu_diagonal_kernels, samples_of, "sample",
                      "an eigenvalue of A is 2 / dt (bilinear), grows beyond all bounds, or is out of range"},
};

cpu_kernel_lane cpu_kernel_lane_view(const s4_task *task, int64_t thread, int64_t h)
{
    const s4_shape *shape = task->shape;
    const cpu_prepared *prepared = task->prepared;
    cpu_kernel_lane lane = {.task = task, .shape = shape, .fft = &prepared->kernel, .h = h};
    lane.system = s4_system_view(shape, task->buffer[S4_BUFFER_SYSTEM]);
    lane.row = (double *)task->buffer[S4_BUFFER_KERNEL_ROWS] + thread * cpu_kernel_rows(shape);
    lane.scratch = (double *)task->buffer[S4_BUFFER_KERNEL_TERMS] + thread * s4_cpu_kernel_scratch(shape);
    return lane;
}

/* Row of kernel k of the lane's channel in (kernels, channels of the block, L). */
static int64_t row_of(const cpu_kernel_lane *lane, int64_t k)
{
    return (k * lane->task->channels + lane->h - lane->task->channel) * lane->shape->kernel_length;
}

void cpu_kernel_store(const cpu_kernel_lane *lane, int64_t k, double scale, const double *row)
{
    int64_t length = lane->shape->kernel_length;
    void *kernels = lane->task->buffer[S4_BUFFER_KERNEL];
    if (lane->shape->dtype == S4_F32) {
        float *kernel = (float *)kernels + row_of(lane, k);
        for (int64_t l = 0; l < length; l++) kernel[l] = (float)(scale * row[l]);
    } else {
        double *kernel = (double *)kernels + row_of(lane, k);
        for (int64_t l = 0; l < length; l++) kernel[l] = scale * row[l];
    }
}

const double *cpu_kernel_gradient(const cpu_kernel_lane *lane, int64_t k)
{
    return (const double *)lane->task->buffer[S4_BUFFER_KERNEL_GRADIENT] + row_of(lane, k);
}

/* SYSTEM -> KERNEL of the block's channels. */
s4_status cpu_kernel(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    int64_t points = kinds[shape->mode].points(shape->kernel_length), all_points = shape->kernels * points;
    int64_t failed = INT64_MAX; /* the first (channel, kernel, point) that is not finite, whichever thread finds it */

#pragma omp parallel for schedule(static) num_threads(cpu_lanes(shape->threads)) reduction(min : failed)
    for (int64_t i = 0; i < task->channels; i++) {
        int64_t h = task->channel + i;
        cpu_kernel_lane lane = cpu_kernel_lane_view(task, omp_get_thread_num(), h);
        int64_t bad = kinds[shape->mode].kernels(&lane);
        if (bad >= 0 && h * all_points + bad < failed) failed = h * all_points + bad;
    }
    if (failed != INT64_MAX)
        return cpu_host->fail(
            S4_ERROR_SINGULAR, "the kernel of channel %lld (row %lld of C) is not finite at %s %lld of 0 ... %lld: %s",
            (long long)(failed / all_points), (long long)(failed % all_points / points), kinds[shape->mode].point,
            (long long)(failed % points), (long long)(points - 1), kinds[shape->mode].causes);
    return S4_OK;
}
