/* Memory of the device, host memory fit for asynchronous copies, and what has been counted. */
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

/* What used it has ended: its queue, being destroyed, has waited. */
void gpu_release(s4_device *device, void *pointer)
{
    int previous;
    if (!pointer) return;
    gpu_enter_to_release(device, &previous);
    (void)cudaFree(pointer);
    (void)cudaGetLastError();
    gpu_leave(device, previous);
}

s4_status gpu_pin(s4_device *device, void *pointer, size_t bytes)
{
    int previous;
    if (bytes == 0) return S4_OK;
    GPU_TRY(gpu_enter(device, "pin", &previous));
    const cudaError_t error = cudaHostRegister(pointer, bytes, cudaHostRegisterPortable);
    s4_status status;
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        status = gpu_host->fail(S4_ERROR_MEMORY, "pin: the system does not let %zu bytes of host memory be locked (%s)",
                                bytes, cudaGetErrorName(error));
    } else
        status = gpu_check(error, "pin", "cudaHostRegister");
    gpu_leave(device, previous);
    return status;
}

void gpu_unpin(s4_device *device, void *pointer)
{
    int previous;
    if (!pointer) return;
    gpu_enter_to_release(device, &previous);
    (void)cudaHostUnregister(pointer);
    (void)cudaGetLastError();
    gpu_leave(device, previous);
}

void gpu_ledger(s4_device *device, s4_device_ledger *ledger)
{
    ledger->launches = atomic_load(&device->launches);
    ledger->to_device = atomic_load(&device->to_device);
    ledger->to_host = atomic_load(&device->to_host);
}
