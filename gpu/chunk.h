/* The convolution in chunks, seen by its host code: where the parts of its buffers are. */
#ifndef GPU_CHUNK_H
#define GPU_CHUNK_H

#include "gpu/kernels/launchers_chunk.h"
#include "gpu/rows.h"
#include "gpu/setup.h"

/* ---- chunk_setup.c ---- */

/* CHUNK_SYSTEM and CHUNK_SUMS of the block's first channel. */
gpu_chunk_system gpu_chunk_system_of(const s4_task *task);
gpu_chunk_gradients gpu_chunk_gradients_of(const s4_task *task);
s4_status gpu_chunk_matrices(const s4_task *task);
s4_status gpu_chunk_gradient(const s4_task *task);

/* ---- chunk.c ---- */

s4_status gpu_chunk_forward(const s4_task *task);
s4_status gpu_chunk_backward(const s4_task *task);

#endif
