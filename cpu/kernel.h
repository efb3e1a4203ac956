/*
 * The kernels of one channel, seen by the two kinds of state matrices: DPLR (kernel_dplr.c, kernel_backward.c) and
 * diagonal (diagonal.c, diagonal_backward.c). A channel has `kernels` rows of C, and as many kernels; they share all
 * else, and one thread makes them all, so that gradients of what they share are summed in one order.
 */
#ifndef CPU_KERNEL_H
#define CPU_KERNEL_H

#include "cpu/fft.h"

/* A channel in work, and the scratch of its thread. */
typedef struct cpu_kernel_lane {
    const s4_task *task;
    const s4_shape *shape;
    s4_system system;
    const cpu_fft *fft; /* DPLR: of kernel_length */
    int64_t h;
    double *row;     /* cpu_kernel_rows */
    double *scratch; /* s4_cpu_kernel_scratch */
} cpu_kernel_lane;
/* DPLR: a row for every kernel, as the transforms want them. */
static inline int64_t cpu_kernel_rows(const s4_shape *shape)
{
    return (shape->mode == S4_MODE_DPLR ? shape->kernels : 1) * s4_row_stride(shape->kernel_length);
}
cpu_kernel_lane cpu_kernel_lane_view(const s4_task *task, int64_t thread, int64_t h);

/* Kernel k <- scale * row, L reals, in the dtype of the plan. 0 if one of the row is not finite. */
int cpu_kernel_store(const cpu_kernel_lane *lane, int64_t k, double scale, const double *row);
/* G of kernel k, L reals. */
const double *cpu_kernel_gradient(const cpu_kernel_lane *lane, int64_t k);

/* Each makes and stores all kernels of a channel, and returns -1, or k points + the first point (frequency or sample)
 * that is not finite; or writes the gradients of a channel that are wanted, but for that of D. */
int64_t cpu_diagonal_kernels(const cpu_kernel_lane *lane);
void cpu_diagonal_backward(const cpu_kernel_lane *lane, const s4_system_gradient *gradient);

/* DPLR: the same bits from one thread that has the whole channel, its lane's; and from all threads that share it, where
 * a block has fewer channels than there are threads. */
int64_t cpu_dplr_kernels(const cpu_kernel_lane *lane);
int64_t cpu_dplr_kernels_shared(const s4_task *task, int threads, int64_t h);
void cpu_dplr_backward(const cpu_kernel_lane *lane, const s4_system_gradient *gradient);
void cpu_dplr_backward_shared(const s4_task *task, int threads, int64_t h, const s4_system_gradient *gradient);
/* Whether threads share the channels of this block. */
int cpu_kernel_is_shared(const s4_task *task, int threads);

#endif
