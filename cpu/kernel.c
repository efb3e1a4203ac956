/* The convolution kernels of the block's channels: a diagonal system's are made in diagonal.c, a DPLR system's in
 * kernel_dplr.c. All in double; only K has the dtype of the plan. */
#include "cpu/kernel.h"

#include <omp.h>

#include "cpu/cauchy.h"
#include "cpu/level/ring.h"

static int64_t frequencies_of(int64_t length) { return length / 2 + 1; }
static int64_t samples_of(int64_t length) { return length; }

static const struct {
    int64_t (*kernels)(const cpu_kernel_lane *lane); /* returns -1, or k * points(L) + point of what is not finite */
    int64_t (*points)(int64_t length);
    const char *point, *causes;
} kinds[] = {
    [S4_MODE_DPLR] = {cpu_dplr_kernels, frequencies_of, "frequency",
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

int cpu_kernel_store(const cpu_kernel_lane *lane, int64_t k, double scale, const double *row)
{
    const cpu_row_functions *functions = &cpu_rows_at(lane->task->device)->dtype[lane->shape->dtype];
    char *kernels = lane->task->buffer[S4_BUFFER_KERNEL];
    return functions->round(row, scale, lane->shape->kernel_length, kernels + functions->size * (size_t)row_of(lane, k));
}

const double *cpu_kernel_gradient(const cpu_kernel_lane *lane, int64_t k)
{
    return (const double *)lane->task->buffer[S4_BUFFER_KERNEL_GRADIENT] + row_of(lane, k);
}

int cpu_kernel_is_shared(const s4_task *task, int threads)
{
    const s4_shape *shape = task->shape;
    return shape->mode == S4_MODE_DPLR && task->channels < threads && shape->kernel_length / 2 + 1 > CPU_SPAN;
}

/* SYSTEM -> KERNEL of the block's channels. */
s4_status cpu_kernel(const s4_task *task)
{
    const s4_shape *shape = task->shape;
    int64_t points = kinds[shape->mode].points(shape->kernel_length), all_points = shape->kernels * points;
    int64_t failed = INT64_MAX; /* the first (channel, kernel, point) that is not finite, whichever thread finds it */
    const int threads = cpu_lanes(shape->threads);

    if (cpu_kernel_is_shared(task, threads)) {
        for (int64_t h = task->channel; failed == INT64_MAX && h < task->channel + task->channels; h++) {
            int64_t bad = cpu_dplr_kernels_shared(task, threads, h);
            if (bad >= 0) failed = h * all_points + bad;
        }
    } else {
#pragma omp parallel for schedule(static) num_threads(threads) reduction(min : failed)
        for (int64_t i = 0; i < task->channels; i++) {
            int64_t h = task->channel + i;
            cpu_kernel_lane lane = cpu_kernel_lane_view(task, omp_get_thread_num(), h);
            int64_t bad = kinds[shape->mode].kernels(&lane);
            if (bad >= 0 && h * all_points + bad < failed) failed = h * all_points + bad;
        }
    }
    if (failed != INT64_MAX)
        return cpu_host->fail(
            S4_ERROR_SINGULAR, "the kernel of channel %lld (row %lld of C) is not finite at %s %lld of 0 ... %lld: %s%s",
            (long long)(failed / all_points), (long long)(failed % all_points / points), kinds[shape->mode].point,
            (long long)(failed % points), (long long)(points - 1), kinds[shape->mode].causes,
            shape->kernel_dtype == S4_F32 ? "; kernel_dtype f64 has more range" : "");
    return S4_OK;
}
