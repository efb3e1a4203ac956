/* cudaStream*, cudaEvent* and cudaLaunchHostFunc. */
#include "controls.h"
#include "current_device.h"
#include "event.h"
#include "violation.h"
#include <chrono>
#include <set>

using namespace s4_emulation;

namespace
{

std::set<CUevent_st *> events;

CUevent_st &resolve_event(cudaEvent_t e)
{
    if (!events.count(e)) violation("%p is not an event, or was destroyed", static_cast<void *>(e));
    return *e;
}

double now_ms()
{
    const auto t = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::milli>(t).count();
}

cudaError_t refused_by_capture() { return fail(cudaErrorStreamCaptureUnsupported); }

} // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    S4_EMULATION_ENTER("cudaStreamCreate", cudaErrorMemoryAllocation);
    if (flags & ~unsigned(cudaStreamNonBlocking)) return fail(cudaErrorInvalidValue);
    *stream = &create_stream(flags, priority, current_device());
    count_object("stream", 1);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    const Entry entry(nullptr);
    CUstream_st &s = resolve(stream);
    if (&s == &default_stream()) return fail(cudaErrorInvalidResourceHandle);
    s.destroyed = true; /* returns at once; what is queued still runs */
    forget_identity(s);
    count_object("stream", -1);
    return entry.error;
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags)
{
    S4_EMULATION_ENTER(nullptr);
    *flags = resolve(stream).flags;
    return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    S4_EMULATION_ENTER(nullptr);
    *priority = resolve(stream).priority;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    S4_EMULATION_ENTER("cudaStreamSynchronize");
    CUstream_st &s = resolve(stream);
    if (capture_forbids(&s)) return refused_by_capture();
    finish(s);
    return fail(sticky_error);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    S4_EMULATION_ENTER("cudaStreamQuery");
    CUstream_st &s = resolve(stream);
    if (capture_forbids(&s)) return refused_by_capture();
    advance(s);
    return sticky_error != cudaSuccess ? fail(sticky_error) : s.queue.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    S4_EMULATION_ENTER("cudaStreamWaitEvent");
    CUstream_st &s = resolve(stream);
    const CUevent_st &e = resolve_event(event);
    if (e.capture) { /* a side stream joins the capture, or is joined by another */
        if (s.capture && s.capture != e.capture) return fail(cudaErrorStreamCaptureMerge);
        if (!s.capture) {
            s.capture = e.capture;
            s.captured = s.joined = 0;
        }
        e.captured_stream->joined = e.captured + 1;
        return cudaSuccess;
    }
    if (s.capture && e.point.stream) {
        s.capture->broken = true;
        return fail(cudaErrorStreamCaptureIsolation);
    }
    if (e.point.stream && e.point.stream != &s) /* waiting for an event never recorded is no wait */
        enqueue(s, Operation{}, {e.point});
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    S4_EMULATION_ENTER("cudaEventCreate", cudaErrorMemoryAllocation);
    *event = new CUevent_st;
    (*event)->flags = flags;
    events.insert(*event);
    count_object("event", 1);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    const Entry entry(nullptr);
    events.erase(&resolve_event(event));
    delete event;
    count_object("event", -1);
    return entry.error;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    S4_EMULATION_ENTER("cudaEventRecord");
    CUstream_st &s = resolve(stream);
    CUevent_st &e = resolve_event(event);
    e.capture = s.capture;
    if (s.capture) {
        e.captured_stream = &s;
        e.captured = s.captured;
        return cudaSuccess;
    }
    const auto when = e.when = std::make_shared<double>(0.0);
    Operation stamp;
    stamp.run = [when] { *when = now_ms(); };
    enqueue(s, std::move(stamp));
    e.point = {&s, s.issued};
    return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned)
{
    return cudaEventRecord(event, stream);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    S4_EMULATION_ENTER("cudaEventSynchronize");
    const CUevent_st &e = resolve_event(event);
    if (e.capture) return refused_by_capture();
    finish(e.point);
    return fail(sticky_error);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    S4_EMULATION_ENTER("cudaEventQuery");
    const CUevent_st &e = resolve_event(event);
    if (e.capture) return refused_by_capture();
    if (!has_passed(e.point)) advance(*e.point.stream);
    return sticky_error != cudaSuccess ? fail(sticky_error) : host_sees(e.point) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    S4_EMULATION_ENTER("cudaEventElapsedTime");
    const CUevent_st &a = resolve_event(from), &b = resolve_event(to);
    if ((a.flags | b.flags) & cudaEventDisableTiming || !a.point.stream || !b.point.stream)
        return fail(cudaErrorInvalidResourceHandle);
    if (!has_passed(a.point) || !has_passed(b.point)) return cudaErrorNotReady;
    *ms = float(*b.when - *a.when);
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    S4_EMULATION_ENTER("cudaLaunchHostFunc");
    Operation call;
    call.on_host = true;
    call.run = [function, data] { function(data); };
    enqueue(resolve(stream), std::move(call));
    return cudaSuccess;
}
}
