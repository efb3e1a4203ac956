/* cudaMalloc and its kin, memory information, pointer attributes, memset. */
#include "block.h"
#include "controls.h"
#include "current_device.h"
#include "device_memory.h"
#include "stream.h"
#include "violation.h"

using namespace s4_emulation;

namespace
{

cudaError_t memset_rows(void *p, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
    S4_EMULATION_ENTER("cudaMemset");
    CUstream_st &s = resolve(stream);
    if (!width || !height) return cudaSuccess;
    if (width > pitch && height > 1) return fail(cudaErrorInvalidPitchValue);
    require_reachable(p, (height - 1) * pitch + width, "cudaMemset");
    Operation set;
    set.run = [=] {
        for (size_t row = 0; row < height; row++) std::memset(static_cast<char *>(p) + row * pitch, value, width);
    };
    enqueue(s, std::move(set));
    return cudaSuccess;
}

} // namespace

extern "C" {

cudaError_t cudaMalloc(void **p, size_t size)
{
    S4_EMULATION_ENTER("cudaMalloc", cudaErrorMemoryAllocation);
    if (capture_forbids(nullptr)) return fail(cudaErrorStreamCaptureUnsupported);
    if (size == 0) {
        *p = nullptr;
        return cudaSuccess;
    }
    void *got = allocate(Place::device, size, current_device(), "cudaMalloc");
    if (!got) return fail(cudaErrorMemoryAllocation);
    *p = got;
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    const Entry entry(nullptr);
    if (!p || entry.error == cudaErrorNoDevice || entry.error == cudaErrorInitializationError) return entry.error;
    if (capture_forbids(nullptr)) return fail(cudaErrorStreamCaptureUnsupported);
    /* It may wait for work that is under way, and need not. */
    release_allocation(Place::device, p, "cudaFree");
    return entry.error;
}

cudaError_t cudaHostAlloc(void **p, size_t size, unsigned)
{
    S4_EMULATION_ENTER("cudaMallocHost", cudaErrorMemoryAllocation);
    void *got = size ? allocate(Place::pinned, size, current_device(), "cudaMallocHost") : nullptr;
    if (size && !got) return fail(cudaErrorMemoryAllocation);
    *p = got;
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **p, size_t size) { return cudaHostAlloc(p, size, cudaHostAllocDefault); }

cudaError_t cudaFreeHost(void *p)
{
    const Entry entry(nullptr);
    if (!p || entry.error == cudaErrorNoDevice || entry.error == cudaErrorInitializationError) return entry.error;
    finish_all();
    release_allocation(Place::pinned, p, "cudaFreeHost");
    return entry.error;
}

cudaError_t cudaHostRegister(void *p, size_t size, unsigned)
{
    S4_EMULATION_ENTER("cudaHostRegister", cudaErrorMemoryAllocation);
    if (!p || !size) return fail(cudaErrorInvalidValue);
    return register_host(p, size) ? cudaSuccess : fail(cudaErrorHostMemoryAlreadyRegistered);
}

cudaError_t cudaHostUnregister(void *p)
{
    const Entry entry(nullptr);
    finish_all();
    return unregister_host(p) ? entry.error : fail(cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned)
{
    S4_EMULATION_ENTER(nullptr);
    if (!is_pinned(host)) return fail(cudaErrorInvalidValue);
    *device = host;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    S4_EMULATION_ENTER("cudaMemGetInfo");
    const size_t used = live_bytes(current_device());
    *total = controls.memory;
    *free = used < controls.memory ? controls.memory - used : 0;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *p)
{
    S4_EMULATION_ENTER("cudaPointerGetAttributes");
    *attributes = cudaPointerAttributes{};
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -2; /* as the real runtime says for memory it does not know */
    void *same = const_cast<void *>(p);
    const Allocation *a = find_allocation(p);
    if (a && a->place == Place::device && p < a->begin + a->size) {
        attributes->type = cudaMemoryTypeDevice;
        attributes->device = a->device;
        attributes->devicePointer = same;
    } else if (is_pinned(p)) {
        attributes->type = cudaMemoryTypeHost;
        attributes->device = a ? a->device : 0;
        attributes->devicePointer = attributes->hostPointer = same;
    } else if (is_device_address(p)) {
        violation("cudaPointerGetAttributes of %s", explain(p).c_str());
    } else {
        attributes->hostPointer = same;
    }
    return cudaSuccess;
}

cudaError_t cudaMemset2DAsync(void *p, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream)
{
    return memset_rows(p, pitch, value, width, height, stream);
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t size, cudaStream_t stream)
{
    return memset_rows(p, size, value, size, 1, stream);
}

cudaError_t cudaMemset(void *p, int value, size_t size)
{
    return memset_rows(p, size, value, size, 1, nullptr); /* asynchronous to the host, for device memory */
}

cudaError_t cudaMemset2D(void *p, size_t pitch, int value, size_t width, size_t height)
{
    return memset_rows(p, pitch, value, width, height, nullptr);
}
}
