/* Copies. What CUDA promises, and no more:
 *   - from or to pinned memory: the host buffer is read, or written, at any time
 *     until the stream has been waited for;
 *   - from pageable memory: the source may be read at any time likewise;
 *   - to pageable memory: the call returns when the copy is complete. */
#include "block.h"
#include "controls.h"
#include "device_memory.h"
#include "stream.h"
#include "violation.h"

using namespace s4_emulation;

namespace
{

struct Copy {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, width, height;

    size_t to_span() const { return (height - 1) * to_pitch + width; }
    size_t from_span() const { return (height - 1) * from_pitch + width; }
    void run() const
    {
        for (size_t row = 0; row < height; row++) {
            std::memmove(to + row * to_pitch, from + row * from_pitch, width);
            copied(from + row * from_pitch, to + row * to_pitch, width);
        }
    }
};

bool to_device(cudaMemcpyKind kind, const void *p)
{
    return kind == cudaMemcpyDefault ? is_device_address(p)
                                     : kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
}
bool from_device(cudaMemcpyKind kind, const void *p)
{
    return kind == cudaMemcpyDefault ? is_device_address(p)
                                     : kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
}

/* One side of the copy: is the memory what the direction says? */
void require_side(const void *p, size_t size, bool device, const char *what)
{
    if (!device && is_device_address(p))
        violation("%s: %s where the direction of the copy says host memory", what, explain(p).c_str());
    if (device && !is_device_address(p) && !is_pinned(p))
        violation("%s: %s where the direction of the copy says device memory", what, explain(p).c_str());
    if (is_device_address(p) || (is_pinned(p) && !is_registered(p))) require_reachable(p, size, what);
}

cudaError_t enqueue_copy(const Copy &copy, cudaMemcpyKind kind, cudaStream_t stream, bool synchronous)
{
    S4_EMULATION_ENTER("cudaMemcpy");
    CUstream_st &s = resolve(stream);
    if (synchronous && capture_forbids(nullptr)) return fail(cudaErrorStreamCaptureImplicit);
    if (!copy.width || !copy.height) return cudaSuccess;
    if (copy.height > 1 && (copy.width > copy.to_pitch || copy.width > copy.from_pitch))
        return fail(cudaErrorInvalidPitchValue);
    const bool into_device = to_device(kind, copy.to), out_of_device = from_device(kind, copy.from);
    require_side(copy.to, copy.to_span(), into_device, "destination of a copy");
    require_side(copy.from, copy.from_span(), out_of_device, "source of a copy");

    /* Until it has been waited for, a host destination holds anything. */
    if (!into_device && !s.capture && !controls.eager() && !will_be_read(copy.to, copy.to_span()))
        for (size_t row = 0; row < copy.height; row++) std::memset(copy.to + row * copy.to_pitch, 0xff, copy.width);

    Operation operation;
    operation.run = [copy, into_device, out_of_device] {
        copy.run();
        const size_t bytes = copy.width * copy.height;
        if (into_device && !out_of_device) counts.bytes_to_device += bytes;
        if (!into_device && out_of_device) counts.bytes_to_host += bytes;
    };
    if (!out_of_device) {
        operation.reads = copy.from;
        operation.reads_size = copy.from_span();
    }
    enqueue(s, std::move(operation));
    const bool host_involved = !into_device || !out_of_device;
    const bool to_pageable = !into_device && !is_pinned(copy.to);
    if (!s.capture && ((synchronous && host_involved) || to_pageable)) {
        finish(s);
        return fail(sticky_error);
    }
    return cudaSuccess;
}

} // namespace

extern "C" {

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream)
{
    const Copy copy{static_cast<char *>(to), static_cast<const char *>(from), to_pitch, from_pitch, width, height};
    return enqueue_copy(copy, kind, stream, false);
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind)
{
    const Copy copy{static_cast<char *>(to), static_cast<const char *>(from), to_pitch, from_pitch, width, height};
    return enqueue_copy(copy, kind, nullptr, true);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind, cudaStream_t stream)
{
    return cudaMemcpy2DAsync(to, size, from, size, size, 1, kind, stream);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind kind)
{
    return cudaMemcpy2D(to, size, from, size, size, 1, kind);
}
}
