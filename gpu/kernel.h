/* The kernels of the two kinds of state matrices, seen by kernel.c, which tells them apart: DPLR there, diagonal in
 * diagonal.c. */
#ifndef GPU_KERNEL_H
#define GPU_KERNEL_H

#include "gpu/device.h"
#include "gpu/flags.h"
#include "gpu/kernels/launchers.h"

gpu_system gpu_system_of(const s4_task *task);
/* Where kernels report what is not finite; NULL where nobody asks. */
gpu_flag_word *gpu_bad_index(const s4_task *task);
/* The error of what they found: (channel, kernel, point). */
s4_status gpu_kernel_fail(const s4_shape *shape, int64_t bad_index);

/* Kernels of the block, and gradients from theirs. */
s4_status gpu_diagonal_kernels(const s4_task *task, const char *operation);
s4_status gpu_diagonal_backward(const s4_task *task, const char *operation);

#endif
