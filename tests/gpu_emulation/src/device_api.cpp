/* What there is to ask about devices, versions and errors. The numbers are those of
 * a compute capability 9.0 device, where they matter to a program that runs here. */
#include "block.h"
#include "controls.h"
#include "current_device.h"
#include "shared_memory.h"
#include "stream.h"
#include "violation.h"

using namespace s4_emulation;

namespace
{

thread_local int chosen_device = 0;

struct Attribute {
    cudaDeviceAttr attribute;
    int value;
};
constexpr Attribute attributes[] = {
    {cudaDevAttrMaxThreadsPerBlock, 1024},
    {cudaDevAttrMaxBlockDimX, 1024},
    {cudaDevAttrMaxBlockDimY, 1024},
    {cudaDevAttrMaxBlockDimZ, 64},
    {cudaDevAttrMaxGridDimX, 0x7fffffff},
    {cudaDevAttrMaxGridDimY, 65535},
    {cudaDevAttrMaxGridDimZ, 65535},
    {cudaDevAttrMaxSharedMemoryPerBlock, int(shared_bytes_default)},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, int(shared_bytes_opt_in)},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, 228 * 1024},
    {cudaDevAttrReservedSharedMemoryPerBlock, 1024},
    {cudaDevAttrTotalConstantMemory, 65536},
    {cudaDevAttrWarpSize, int(lanes_per_warp)},
    {cudaDevAttrMultiProcessorCount, 132},
    {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
    {cudaDevAttrMaxRegistersPerBlock, 65536},
    {cudaDevAttrL2CacheSize, 50 << 20},
    {cudaDevAttrComputeCapabilityMajor, 9},
    {cudaDevAttrComputeCapabilityMinor, 0},
    {cudaDevAttrUnifiedAddressing, 1},
    {cudaDevAttrConcurrentKernels, 1},
    {cudaDevAttrAsyncEngineCount, 2},
    {cudaDevAttrIntegrated, 0},
    {cudaDevAttrManagedMemory, 0},
    {cudaDevAttrPageableMemoryAccess, 0},
    {cudaDevAttrCooperativeLaunch, 0},
    {cudaDevAttrMemoryPoolsSupported, 0},
};

#define S4_ERROR_NAMES(X)                                                                                              \
    X(cudaSuccess, "no error")                                                                                         \
    X(cudaErrorInvalidValue, "invalid argument")                                                                       \
    X(cudaErrorMemoryAllocation, "out of memory")                                                                      \
    X(cudaErrorInitializationError, "initialization error")                                                            \
    X(cudaErrorInvalidConfiguration, "invalid configuration argument")                                                 \
    X(cudaErrorInvalidPitchValue, "invalid pitch argument")                                                            \
    X(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy")                                            \
    X(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version")                     \
    X(cudaErrorInvalidDeviceFunction, "invalid device function")                                                       \
    X(cudaErrorNoDevice, "no CUDA-capable device is detected")                                                         \
    X(cudaErrorInvalidDevice, "invalid device ordinal")                                                                \
    X(cudaErrorInvalidResourceHandle, "invalid resource handle")                                                       \
    X(cudaErrorIllegalState, "the operation cannot be performed in the present state")                                 \
    X(cudaErrorNotReady, "device not ready")                                                                           \
    X(cudaErrorIllegalAddress, "an illegal memory access was encountered")                                             \
    X(cudaErrorLaunchOutOfResources, "too many resources requested for launch")                                        \
    X(cudaErrorLaunchFailure, "unspecified launch failure")                                                            \
    X(cudaErrorNotSupported, "operation not supported")                                                                \
    X(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped")             \
    X(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region")                   \
    X(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")                           \
    X(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture")                    \
    X(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences")                  \
    X(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began")                         \
    X(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")                                            \
    X(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream")                      \
    X(cudaErrorUnknown, "unknown error")

struct ErrorText {
    cudaError_t error;
    const char *name, *text;
};
constexpr ErrorText error_texts[] = {
#define S4_ERROR_ROW(code, words) {code, #code, words},
    S4_ERROR_NAMES(S4_ERROR_ROW)
#undef S4_ERROR_ROW
};

const ErrorText *find_text(cudaError_t error)
{
    for (const ErrorText &t : error_texts)
        if (t.error == error) return &t;
    return nullptr;
}

} // namespace

int s4_emulation::current_device() { return chosen_device; }

extern "C" {

cudaError_t cudaGetDeviceCount(int *count)
{
    S4_EMULATION_ENTER("cudaGetDeviceCount");
    *count = controls.devices;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    S4_EMULATION_ENTER("cudaSetDevice");
    if (device < 0 || device >= controls.devices) return fail(cudaErrorInvalidDevice);
    chosen_device = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    S4_EMULATION_ENTER("cudaGetDevice");
    *device = chosen_device;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device)
{
    S4_EMULATION_ENTER("cudaGetDeviceProperties");
    if (device < 0 || device >= controls.devices) return fail(cudaErrorInvalidDevice);
    std::memset(p, 0, sizeof *p);
    std::snprintf(p->name, sizeof p->name, "emulated GPU (runs on the CPU)");
    p->major = 9;
    p->minor = 0;
    p->totalGlobalMem = controls.memory;
    p->multiProcessorCount = 132;
    p->warpSize = int(lanes_per_warp);
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsPerMultiProcessor = 2048;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->sharedMemPerBlock = shared_bytes_default;
    p->sharedMemPerBlockOptin = shared_bytes_opt_in;
    p->sharedMemPerMultiprocessor = 228 * 1024;
    p->reservedSharedMemPerBlock = 1024;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->l2CacheSize = 50 << 20;
    p->memoryBusWidth = 5120;
    p->totalConstMem = 65536;
    p->unifiedAddressing = p->concurrentKernels = p->canMapHostMemory = 1;
    p->asyncEngineCount = 2;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    S4_EMULATION_ENTER("cudaDeviceGetAttribute");
    if (device < 0 || device >= controls.devices) return fail(cudaErrorInvalidDevice);
    for (const Attribute &a : attributes)
        if (a.attribute == attribute) {
            *value = a.value;
            return cudaSuccess;
        }
    remark("cudaDeviceGetAttribute(%d): not in the emulation's table", int(attribute));
    return fail(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    S4_EMULATION_ENTER(nullptr);
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    S4_EMULATION_ENTER("cudaDeviceSynchronize");
    if (capture_forbids(nullptr)) return fail(cudaErrorStreamCaptureUnsupported);
    finish_all();
    return fail(sticky_error);
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    const Entry entry(nullptr);
    *version = entry.error == cudaErrorNoDevice ? 0 : CUDART_VERSION; /* 0: no driver */
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void) { return last_error(true); }
cudaError_t cudaPeekAtLastError(void) { return last_error(false); }

const char *cudaGetErrorName(cudaError_t error)
{
    const ErrorText *t = find_text(error);
    return t ? t->name : "cudaError not in the emulation's table";
}

const char *cudaGetErrorString(cudaError_t error)
{
    const ErrorText *t = find_text(error);
    return t ? t->text : "unrecognized error code";
}
}
