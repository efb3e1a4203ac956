/*
 * The convolution kernels of the block's channels. A diagonal system's are made in diagonal.c; a DPLR system's here,
 * from C~, by the generating function at the roots of unity and an inverse FFT:
 *
 *   theta_k = pi k / L, k = 0 ... L/2;   K^_k = e^(i theta_k) kappa(theta_k);   K = irfft(K^) of length L
 *
 * kappa is in cauchy.h. Written with sine and cosine it is finite at Nyquist, where forms with 2/(1 + omega) are
 * not, and no root of unity is rounded and then subtracted from 1. All in double; only K has the dtype of the plan.
 */
#include "cpu/kernel.h"

#include <math.h>
#include <omp.h>

#include "cpu/cauchy.h"

/* K^ of one row of C~ into `row`, L/2 + 1 complex. Returns the first frequency at which it is not finite, or -1. */
static int64_t generating_function(const cpu_channel *channel, int64_t length, double *terms, double *row)
{
    int64_t frequencies = length / 2 + 1;
    cpu_cauchy_terms(channel, terms);
    for (int64_t first = 0; first < frequencies; first += CPU_TILE) {
        cpu_angles angles;
        cpu_pair_tile sigma;
        cpu_cauchy_angles(length, first, &angles);
        cpu_cauchy_sums(channel, terms, &angles, &sigma);
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

/* All kernels of a channel. Returns -1, or k (L/2 + 1) + the first frequency that is not finite. */
static int64_t dplr_kernels(const cpu_kernel_lane *lane)
{
    int64_t length = lane->shape->kernel_length;
    for (int64_t k = 0; k < lane->shape->kernels; k++) {
        cpu_channel channel = cpu_channel_view(lane->shape, &lane->system, lane->h, k);
        int64_t bad = generating_function(&channel, length, lane->scratch, lane->row);
        if (bad >= 0) return k * (length / 2 + 1) + bad;
        cpu_fft_inverse(lane->fft, lane->row);
        cpu_kernel_store(lane, k, 1.0 / (double)length);
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
    lane.row = (double *)task->buffer[S4_BUFFER_KERNEL_ROWS] + thread * s4_row_stride(shape->kernel_length);
    lane.scratch = (double *)task->buffer[S4_BUFFER_KERNEL_TERMS] + thread * s4_kernel_scratch(shape);
    return lane;
}

/* Row of kernel k of the lane's channel in (kernels, channels of the block, L). */
static int64_t row_of(const cpu_kernel_lane *lane, int64_t k)
{
    return (k * lane->task->channels + lane->h - lane->task->channel) * lane->shape->kernel_length;
}

void cpu_kernel_store(const cpu_kernel_lane *lane, int64_t k, double scale)
{
    int64_t length = lane->shape->kernel_length;
    void *kernels = lane->task->buffer[S4_BUFFER_KERNEL];
    if (lane->shape->dtype == S4_F32) {
        float *kernel = (float *)kernels + row_of(lane, k);
        for (int64_t l = 0; l < length; l++) kernel[l] = (float)(scale * lane->row[l]);
    } else {
        double *kernel = (double *)kernels + row_of(lane, k);
        for (int64_t l = 0; l < length; l++) kernel[l] = scale * lane->row[l];
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
