/* Rows (h,b) of a block in tiles, out of tensors of the caller and back, seen by what convolves them. */
#ifndef GPU_ROWS_H
#define GPU_ROWS_H

#include "gpu/device.h"
#include "gpu/kernels/launchers.h"

#define GPU_LAUNCH(kernel, ...)                                                                                        \
    GPU_TRY(gpu_launched(task, gpu_launch_##kernel(__VA_ARGS__, gpu_stream(task)), operation, "k_" #kernel))

static inline int64_t gpu_least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline size_t gpu_element_bytes(const s4_task *task) { return task->shape->dtype == S4_F64 ? 8 : 4; }

/* The tile of u, y, dy, du that begins `done` rows in. */
gpu_row_tile gpu_row_tile_at(const s4_task *task, int64_t done);
/* Pads `outputs` rows per lane of a tensor; with the products with rows_u, if there are to be partial sums. */
s4_status gpu_pad_rows(const s4_task *task, const gpu_row_tile *tile, const void *tensor, const s4_strides *strides,
                       int64_t outputs, const void *rows_u, void *rows, double *partials, const char *operation);
s4_status gpu_crop_rows(const s4_task *task, const gpu_row_tile *tile, const void *rows, const gpu_crop *crop,
                        const char *operation);

#endif
