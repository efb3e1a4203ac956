/*
 * Queues: the streams and events that the work of one workspace goes through. Lane WORK takes the operations, the other
 * two take copies; lanes run side by side and wait for each other at events. WORK may be a stream of the caller;
 * nothing ever goes to the default stream.
 *
 * A device knows its queues, so that what belongs to none of them (FFT plans) can be given back after the last use.
 */
#include <stdlib.h>

#include "gpu/device.h"

/* An event that was never recorded counts as passed, to CUDA as well. */
static s4_status make(s4_queue *queue)
{
    for (int lane = 0; lane < S4_LANES; lane++)
        GPU_TRY(gpu_check(cudaStreamCreateWithFlags(&queue->stream[lane], cudaStreamNonBlocking), "queue",
                          "cudaStreamCreateWithFlags"));
    queue->own_work = queue->stream[S4_LANE_WORK];
    for (int event = 0; event < S4_EVENTS; event++)
        GPU_TRY(gpu_check(cudaEventCreateWithFlags(&queue->event[event], cudaEventDisableTiming), "queue",
                          "cudaEventCreateWithFlags"));
    return S4_OK;
}

/* Goes on whatever happens. */
static void destroy(s4_queue *queue)
{
    for (int lane = 0; lane < S4_LANES; lane++)
        if (queue->stream[lane]) (void)cudaStreamSynchronize(queue->stream[lane]);
    for (int event = 0; event < S4_EVENTS; event++)
        if (queue->event[event]) (void)cudaEventDestroy(queue->event[event]);
    if (queue->own_work) queue->stream[S4_LANE_WORK] = queue->own_work;
    for (int lane = 0; lane < S4_LANES; lane++)
        if (queue->stream[lane]) (void)cudaStreamDestroy(queue->stream[lane]);
    (void)cudaGetLastError();
    free(queue);
}

s4_status gpu_queue_create(s4_device *device, s4_queue **out)
{
    int previous;
    *out = NULL;
    s4_queue *queue = calloc(1, sizeof *queue);
    if (!queue) return gpu_host->fail(S4_ERROR_MEMORY, "queue: %zu bytes of host memory", sizeof *queue);
    s4_status status = gpu_enter(device, "queue", &previous);
    if (status) {
        free(queue);
        return status;
    }
    status = make(queue);
    if (status)
        destroy(queue);
    else {
        pthread_mutex_lock(&device->lock);
        queue->next = device->queues;
        device->queues = queue;
        pthread_mutex_unlock(&device->lock);
        *out = queue;
    }
    gpu_leave(device, previous);
    return status;
}

void gpu_queue_destroy(s4_device *device, s4_queue *queue)
{
    int previous;
    if (!queue) return;
    pthread_mutex_lock(&device->lock);
    s4_queue **link = &device->queues;
    while (*link && *link != queue) link = &(*link)->next;
    if (*link) *link = queue->next;
    pthread_mutex_unlock(&device->lock);
    gpu_enter_to_release(device, &previous);
    destroy(queue);
    gpu_leave(device, previous);
}

/* A stream that is being captured has nothing in it to wait for, and a wait would spoil the capture. */
void gpu_wait_for_queues(s4_device *device)
{
    pthread_mutex_lock(&device->lock);
    for (s4_queue *queue = device->queues; queue; queue = queue->next)
        if (!gpu_is_captured(queue->stream[S4_LANE_WORK])) (void)cudaStreamSynchronize(queue->stream[S4_LANE_WORK]);
    pthread_mutex_unlock(&device->lock);
}

int gpu_is_captured(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(stream, &status) != cudaSuccess) (void)cudaGetLastError();
    return status != cudaStreamCaptureStatusNone;
}

s4_status gpu_queue_use_stream(s4_device *device, s4_queue *queue, void *stream)
{
    static const char operation[] = "use stream";
    int previous;
    const cudaStream_t wanted = stream ? (cudaStream_t)stream : queue->own_work;
    if (wanted == queue->stream[S4_LANE_WORK]) return S4_OK;
    GPU_TRY(gpu_enter(device, operation, &previous));
    const s4_status status =
        gpu_check(cudaStreamSynchronize(queue->stream[S4_LANE_WORK]), operation, "cudaStreamSynchronize");
    if (!status) {
        pthread_mutex_lock(&device->lock);
        queue->stream[S4_LANE_WORK] = wanted;
        pthread_mutex_unlock(&device->lock);
    }
    gpu_leave(device, previous);
    return status;
}

s4_status gpu_copy(s4_device *device, s4_queue *queue, s4_lane lane, const s4_copy *copy)
{
    int previous;
    const char *const operation = copy->to_device ? "copy to device" : "copy to host";
    if (copy->width == 0 || copy->height == 0) return S4_OK;
    GPU_TRY(gpu_enter(device, operation, &previous));
    const s4_status status = gpu_check(
        cudaMemcpy2DAsync(copy->to, copy->to_pitch, copy->from, copy->from_pitch, copy->width, copy->height,
                          copy->to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, queue->stream[lane]),
        operation, "cudaMemcpy2DAsync");
    gpu_leave(device, previous);
    if (!status)
        atomic_fetch_add(copy->to_device ? &device->to_device : &device->to_host,
                         (long long)(copy->width * copy->height));
    return status;
}

s4_status gpu_record(s4_device *device, s4_queue *queue, s4_lane lane, int event)
{
    int previous;
    GPU_TRY(gpu_enter(device, "record", &previous));
    const s4_status status =
        gpu_check(cudaEventRecord(queue->event[event], queue->stream[lane]), "record", "cudaEventRecord");
    gpu_leave(device, previous);
    return status;
}

s4_status gpu_wait(s4_device *device, s4_queue *queue, s4_lane lane, int event)
{
    int previous;
    GPU_TRY(gpu_enter(device, "wait", &previous));
    const s4_status status =
        gpu_check(cudaStreamWaitEvent(queue->stream[lane], queue->event[event], 0), "wait", "cudaStreamWaitEvent");
    gpu_leave(device, previous);
    return status;
}

s4_status gpu_await(s4_device *device, s4_queue *queue, int event)
{
    int previous;
    GPU_TRY(gpu_enter(device, "await", &previous));
    const s4_status status = gpu_check(cudaEventSynchronize(queue->event[event]), "await", "cudaEventSynchronize");
    gpu_leave(device, previous);
    return status;
}

/* All lanes are waited for, even after a failure: the caller may take back what they read and write. */
s4_status gpu_synchronise(s4_device *device, s4_queue *queue)
{
    int previous;
    GPU_TRY(gpu_enter(device, "synchronise", &previous));
    s4_status status = S4_OK;
    for (int lane = 0; lane < S4_LANES; lane++) {
        const cudaError_t error = cudaStreamSynchronize(queue->stream[lane]);
        if (!status) status = gpu_check(error, "synchronise", "cudaStreamSynchronize");
    }
    gpu_leave(device, previous);
    return status;
}
