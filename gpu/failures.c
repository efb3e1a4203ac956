/* Failed CUDA and cuFFT calls as status and text. Every call is checked where it is made, through these functions. */
#include "gpu/device.h"

const s4_host *gpu_host;

s4_status gpu_check(cudaError_t error, const char *operation, const char *call)
{
    if (error == cudaSuccess) return S4_OK;
    (void)cudaGetLastError(); /* unless the error is sticky, the next call starts clean */
    return gpu_host->fail(S4_ERROR_DEVICE, "%s: %s failed: %s (%s)", operation, call, cudaGetErrorName(error),
                          cudaGetErrorString(error));
}

/* By number: some names come and go with CUDA's versions. */
static const char *const fft_names[] = {
    [0] = "CUFFT_SUCCESS",          [1] = "CUFFT_INVALID_PLAN",       [2] = "CUFFT_ALLOC_FAILED",
    [3] = "CUFFT_INVALID_TYPE",     [4] = "CUFFT_INVALID_VALUE",      [5] = "CUFFT_INTERNAL_ERROR",
    [6] = "CUFFT_EXEC_FAILED",      [7] = "CUFFT_SETUP_FAILED",       [8] = "CUFFT_INVALID_SIZE",
    [9] = "CUFFT_UNALIGNED_DATA",   [11] = "CUFFT_INVALID_DEVICE",    [13] = "CUFFT_NO_WORKSPACE",
    [14] = "CUFFT_NOT_IMPLEMENTED", [16] = "CUFFT_NOT_SUPPORTED",     [17] = "CUFFT_MISSING_DEPENDENCY",
    [18] = "CUFFT_NVRTC_FAILURE",   [19] = "CUFFT_NVJITLINK_FAILURE",
};

s4_status gpu_check_fft(cufftResult result, const char *operation, const char *call)
{
    if (result == CUFFT_SUCCESS) return S4_OK;
    (void)cudaGetLastError();
    const size_t number = (size_t)result, known = sizeof fft_names / sizeof *fft_names;
    const char *name = number < known && fft_names[number] ? fft_names[number] : "unknown cufftResult";
    return gpu_host->fail(S4_ERROR_DEVICE, "%s: %s failed: %s (%d)", operation, call, name, (int)result);
}

/* What is only captured does not run yet. */
static s4_status wait_in_debug_mode(const s4_task *task, const char *operation, const char *launched)
{
    if (!task->device->debug || gpu_is_captured(gpu_stream(task))) return S4_OK;
    return gpu_check(cudaStreamSynchronize(gpu_stream(task)), operation, launched);
}

s4_status gpu_launched(const s4_task *task, cudaError_t error, const char *operation, const char *kernel)
{
    GPU_TRY(gpu_check(error, operation, kernel));
    atomic_fetch_add(&task->device->launches, 1);
    return wait_in_debug_mode(task, operation, kernel);
}

s4_status gpu_launched_fft(const s4_task *task, cufftResult result, const char *operation, const char *transform)
{
    GPU_TRY(gpu_check_fft(result, operation, transform));
    atomic_fetch_add(&task->device->launches, 1);
    return wait_in_debug_mode(task, operation, transform);
}
