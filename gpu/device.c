/* Life of a device: finding it or saying why there is none, and what there is to tell about it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/device.h"

#define OLDEST_CAPABILITY 75 /* what the kernels are compiled for */

/* CUDA writes versions as 1000 * major + 10 * minor, cuFFT as 1000 * major + 100 * minor. */
#define CUDA_VERSION_TEXT "%d.%d"
#define CUDA_VERSION_NUMBERS(version) (version) / 1000, (version) % 1000 / 10

static s4_status no_device(cudaError_t error)
{
    int driver = 0, runtime = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
    if (cudaRuntimeGetVersion(&runtime) != cudaSuccess) runtime = 0;
    (void)cudaGetLastError();
    if (error == cudaSuccess || error == cudaErrorNoDevice)
        return gpu_host->fail(S4_ERROR_UNAVAILABLE, "no CUDA device is there, or none is visible to this process");
    if (driver == 0)
        return gpu_host->fail(S4_ERROR_UNAVAILABLE, "no CUDA driver is installed (%s: %s)", cudaGetErrorName(error),
                              cudaGetErrorString(error));
    if (error == cudaErrorInsufficientDriver)
        return gpu_host->fail(S4_ERROR_UNAVAILABLE,
                              "the CUDA driver is too old: it serves CUDA " CUDA_VERSION_TEXT
                              ", this build needs " CUDA_VERSION_TEXT,
                              CUDA_VERSION_NUMBERS(driver), CUDA_VERSION_NUMBERS(runtime));
    return gpu_host->fail(S4_ERROR_UNAVAILABLE, "CUDA does not start: %s (%s)", cudaGetErrorName(error),
                          cudaGetErrorString(error));
}

s4_status gpu_enter(s4_device *device, const char *operation, int *previous)
{
    *previous = device->number;
    GPU_TRY(gpu_check(cudaGetDevice(previous), operation, "cudaGetDevice"));
    if (*previous == device->number) return S4_OK;
    return gpu_check(cudaSetDevice(device->number), operation, "cudaSetDevice");
}

void gpu_leave(s4_device *device, int previous)
{
    if (previous != device->number)
        (void)cudaSetDevice(previous); /* was current before: failing now is the caller's next error, not ours */
}

void gpu_enter_to_release(s4_device *device, int *previous)
{
    if (cudaGetDevice(previous) != cudaSuccess) *previous = device->number;
    if (*previous != device->number) (void)cudaSetDevice(device->number);
    (void)cudaGetLastError();
}

s4_status gpu_on_device(const s4_task *task, const char *name, s4_operation operation)
{
    int previous;
    GPU_TRY(gpu_enter(task->device, name, &previous));
    const s4_status status = operation(task);
    gpu_leave(task->device, previous);
    return status;
}

/* What needs the device to be current. */
static s4_status start(s4_device *device)
{
    struct cudaDeviceProp properties;
    GPU_TRY(gpu_check(cudaGetDeviceProperties(&properties, device->number), "open", "cudaGetDeviceProperties"));
    snprintf(device->name, sizeof device->name, "%.127s", properties.name);
    device->memory = (int64_t)properties.totalGlobalMem;
    device->capability = properties.major * 10 + properties.minor;
    if (device->capability < OLDEST_CAPABILITY)
        return gpu_host->fail(S4_ERROR_UNAVAILABLE,
                              "CUDA device %d (%s) has compute capability %d.%d, the oldest served is %d.%d",
                              device->number, device->name, properties.major, properties.minor, OLDEST_CAPABILITY / 10,
                              OLDEST_CAPABILITY % 10);
    return S4_OK;
}

s4_status gpu_open(const s4_open_options *options, s4_device **out)
{
    const int device_number = options->device_number;
    int count = 0, previous;
    const char *debug = getenv("S4_GPU_DEBUG");
    *out = NULL;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count < 1) return no_device(error);
    if (device_number < 0 || device_number >= count)
        return gpu_host->fail(S4_ERROR_UNAVAILABLE, "CUDA device %d was asked for, there %s %d (from 0)", device_number,
                              count == 1 ? "is" : "are", count);
    s4_device *device = calloc(1, sizeof *device);
    if (!device) return gpu_host->fail(S4_ERROR_MEMORY, "open: %zu bytes of host memory", sizeof *device);
    if (pthread_mutex_init(&device->lock, NULL)) {
        free(device);
        return gpu_host->fail(S4_ERROR_MEMORY, "open: no mutex");
    }
    device->number = device_number;
    device->debug = debug && strcmp(debug, "1") == 0;
    s4_status status = gpu_enter(device, "open", &previous);
    if (!status) {
        status = start(device);
        gpu_leave(device, previous);
    }
    if (status) {
        pthread_mutex_destroy(&device->lock);
        free(device);
        /* It is there and does not work: for the caller, the place is not available. The text stays. */
        return S4_ERROR_UNAVAILABLE;
    }
    *out = device;
    return S4_OK;
}

void gpu_close(s4_device *device)
{
    if (!device) return;
    pthread_mutex_destroy(&device->lock);
    free(device);
}

void gpu_describe(s4_device *device, s4_place_info *info)
{
    int runtime = 0, fft = 0;
    if (cudaRuntimeGetVersion(&runtime) != cudaSuccess) (void)cudaGetLastError();
    if (cufftGetVersion(&fft) != CUFFT_SUCCESS) fft = 0;
#ifdef S4_GPU_EMULATED
    info->emulated = 1;
    const char *const note = " (emulated on the CPU)";
#else
    info->emulated = 0;
    const char *const note = "";
#endif
    snprintf(info->libraries, sizeof info->libraries, "CUDA runtime " CUDA_VERSION_TEXT ", cuFFT %d.%d%s",
             CUDA_VERSION_NUMBERS(runtime), fft / 1000, fft % 1000 / 100, note);
    if (!device) return;
    info->available = 1;
    info->reason[0] = 0;
    snprintf(info->name, sizeof info->name, "%s", device->name);
    info->memory = device->memory;
    info->capability = device->capability;
}
