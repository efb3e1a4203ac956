/* Memory of the device, copies between it and pageable host memory, and what has been counted. */
#include "gpu/device.h"

s4_status gpu_allocate(s4_device *device, size_t bytes, void **pointer)
{
    int previous;
    *pointer = NULL;
    GPU_TRY(gpu_enter(device, "allocate", &previous));
    const cudaError_t error = cudaMalloc(pointer, bytes);
    s4_status status;
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        *pointer = NULL;
        status = gpu_host->fail(S4_ERROR_MEMORY, "allocate: the device has no %zu bytes left (%s)", bytes,
                                cudaGetErrorName(error));
    } else
        status = gpu_check(error, "allocate", "cudaMalloc");
    gpu_leave(device, previous);
    return status;
}

void gpu_release(s4_device *device, void *pointer)
{
    int previous;
    if (!pointer) return;
    gpu_enter_to_release(device, &previous);
    (void)cudaStreamSynchronize(device->stream); /* work on the stream may still use it */
    (void)cudaFree(pointer);
    (void)cudaGetLastError();
    gpu_leave(device, previous);
}

/* Waits, so that the host side may be reused or read. */
static s4_status copy(s4_device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                      size_t height, enum cudaMemcpyKind kind, const char *operation)
{
    int previous;
    if (width == 0 || height == 0) return S4_OK;
    GPU_TRY(gpu_enter(device, operation, &previous));
    s4_status status = gpu_check(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, device->stream),
                                 operation, "cudaMemcpy2DAsync");
    if (!status) status = gpu_check(cudaStreamSynchronize(device->stream), operation, "cudaStreamSynchronize");
    gpu_leave(device, previous);
    return status;
}

s4_status gpu_to_device(s4_device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                        size_t height)
{
    GPU_TRY(copy(device, to, to_pitch, from, from_pitch, width, height, cudaMemcpyHostToDevice, "copy to device"));
    atomic_fetch_add(&device->to_device, (long long)(width * height));
    return S4_OK;
}

s4_status gpu_to_host(s4_device *device, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                      size_t height)
{
    GPU_TRY(copy(device, to, to_pitch, from, from_pitch, width, height, cudaMemcpyDeviceToHost, "copy to host"));
    atomic_fetch_add(&device->to_host, (long long)(width * height));
    return S4_OK;
}

s4_status gpu_synchronise(s4_device *device)
{
    int previous;
    GPU_TRY(gpu_enter(device, "synchronise", &previous));
    const s4_status status = gpu_check(cudaStreamSynchronize(device->stream), "synchronise", "cudaStreamSynchronize");
    gpu_leave(device, previous);
    return status;
}

void gpu_ledger(s4_device *device, s4_device_ledger *ledger)
{
    ledger->launches = atomic_load(&device->launches);
    ledger->to_device = atomic_load(&device->to_device);
    ledger->to_host = atomic_load(&device->to_host);
}
