/*
 * The GPU place, seen from its own host code: an open device, how its calls are checked, and the FFT plans that a
 * shape needs.
 *
 * All work of a device goes to its one stream, in the order of the calls; nothing goes to the default stream. Every
 * entry of the table makes the device the current one and puts the caller's back.
 */
#ifndef GPU_DEVICE_H
#define GPU_DEVICE_H

#include <cuda_runtime_api.h>
#include <cufft.h>
#include <pthread.h>
#include <stdatomic.h>

#include "s4/backend.h"

struct s4_device {
    int number;
    int debug; /* S4_GPU_DEBUG=1: wait after each launch, so that an asynchronous error is met where it arose */
    cudaStream_t stream;
    char name[128];
    int64_t memory;
    int capability;
    atomic_llong launches, to_device, to_host;
};

/* ---- failures.c ---------------------------------------------------------------------------------------------- */

extern const s4_host *gpu_host;

#define GPU_TRY(call)                                                                                                  \
    do {                                                                                                               \
        s4_status gpu_try_status = (call);                                                                             \
        if (gpu_try_status) return gpu_try_status;                                                                     \
    } while (0)

/* S4_OK, or S4_ERROR_DEVICE with a text: the operation, the call, CUDA's name and words for the error. */
s4_status gpu_check(cudaError_t error, const char *operation, const char *call);
s4_status gpu_check_fft(cufftResult result, const char *operation, const char *call);
/* Counts a launch and checks it; waits for it in debug mode. */
s4_status gpu_launched(s4_device *device, cudaError_t error, const char *operation, const char *kernel);
s4_status gpu_launched_fft(s4_device *device, cufftResult result, const char *operation, const char *transform);

/* ---- device.c ------------------------------------------------------------------------------------------------ */

s4_status gpu_open(const s4_open_options *options, s4_device **device);
void gpu_close(s4_device *device);
void gpu_describe(s4_device *device, s4_place_info *info);

/* Makes the device current; *previous is what gpu_leave puts back. */
s4_status gpu_enter(s4_device *device, const char *operation, int *previous);
void gpu_leave(s4_device *device, int previous);
/* For cleaning up, which goes on whatever happens and leaves the text of an earlier failure as it is. */
void gpu_enter_to_release(s4_device *device, int *previous);
/* Both around an operation. */
s4_status gpu_on_device(const s4_task *task, const char *name, s4_operation operation);

/* ---- memory.c ------------------------------------------------------------------------------------------------ */

s4_status gpu_allocate(s4_device *device, size_t bytes, void **pointer);
void gpu_release(s4_device *device, void *pointer);
s4_status gpu_to_device(s4_device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                        size_t height);
s4_status gpu_to_host(s4_device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                      size_t height);
s4_status gpu_synchronise(s4_device *device);
void gpu_ledger(s4_device *device, s4_device_ledger *ledger);

/* ---- transforms.c -------------------------------------------------------------------------------------------- */

/* The batched real FFTs of a shape, in place. A stage's two share the stage's work area. */
typedef enum gpu_transform {
    GPU_KERNEL_INVERSE, /* K^ -> K, in double */
    GPU_KERNEL_FORWARD, /* dL/dK -> its spectrum, in double */
    GPU_ROWS_FORWARD,   /* padded rows of the convolution -> spectra, in the plan's dtype */
    GPU_ROWS_INVERSE,
    GPU_TRANSFORM_COUNT
} gpu_transform;

s4_status gpu_prepare(s4_device *device, const s4_shape *shape, const int64_t *bytes, void **prepared);
void gpu_unprepare(s4_device *device, void *prepared);
/* Transforms all rows of one tile. Two threads may do so with one `prepared` and different buffers. */
s4_status gpu_transform_rows(const s4_task *task, gpu_transform which, void *rows, const char *operation);

/* ---- kernel.c, convolve.c ------------------------------------------------------------------------------------ */

s4_status gpu_kernel(const s4_task *task);
s4_status gpu_kernel_backward(const s4_task *task);
s4_status gpu_spectrum(const s4_task *task);
s4_status gpu_convolve(const s4_task *task);
s4_status gpu_convolve_backward(const s4_task *task);
s4_status gpu_correlate(const s4_task *task);

#endif
