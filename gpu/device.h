/*
 * The GPU place, seen from its own host code: an open device, how its calls are checked, and the FFT plans that a
 * shape needs.
 *
 * The work of a workspace goes through its queue (queue.c); nothing goes to the default stream. Every entry of the
 * table makes the device the current one and puts the caller's back.
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
    pthread_mutex_t lock; /* of queues and what they are made of */
    s4_queue *queues;
    char name[128];
    int64_t memory;
    int capability;
    atomic_llong launches, to_device, to_host;
};

struct s4_queue {
    s4_queue *next;                /* of the device */
    cudaStream_t stream[S4_LANES]; /* WORK: the caller's, or own_work */
    cudaStream_t own_work;
    cudaEvent_t event[S4_EVENTS];
    void *flags; /* FLAGS in use since they were last read, or NULL: flags.c */
};

/* Where an operation's launches go. */
static inline cudaStream_t gpu_stream(const s4_task *task) { return task->queue->stream[S4_LANE_WORK]; }

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
/* Counts a launch into gpu_stream(task) and checks it; waits for it in debug mode. */
s4_status gpu_launched(const s4_task *task, cudaError_t error, const char *operation, const char *kernel);
s4_status gpu_launched_fft(const s4_task *task, cufftResult result, const char *operation, const char *transform);

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
s4_status gpu_pin(s4_device *device, void *pointer, size_t bytes);
void gpu_unpin(s4_device *device, void *pointer);
void gpu_ledger(s4_device *device, s4_device_ledger *ledger);

/* ---- queue.c ------------------------------------------------------------------------------------------------- */

s4_status gpu_queue_create(s4_device *device, s4_queue **queue);
void gpu_queue_destroy(s4_device *device, s4_queue *queue);
s4_status gpu_queue_use_stream(s4_device *device, s4_queue *queue, void *stream);
s4_status gpu_copy(s4_device *device, s4_queue *queue, s4_lane lane, const s4_copy *copy);
s4_status gpu_record(s4_device *device, s4_queue *queue, s4_lane lane, int event);
s4_status gpu_wait(s4_device *device, s4_queue *queue, s4_lane lane, int event);
s4_status gpu_await(s4_device *device, s4_queue *queue, int event);
s4_status gpu_synchronise(s4_device *device, s4_queue *queue);
/* For cleaning up, with the device current: until the operations of all its queues have ended. */
void gpu_wait_for_queues(s4_device *device);
int gpu_is_captured(cudaStream_t stream);

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
