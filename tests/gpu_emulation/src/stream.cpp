/* The queues, and the choice of what runs next. */
#include "stream.h"
#include "controls.h"
#include "device_memory.h"
#include "device_thread.h"
#include "violation.h"

namespace s4_emulation
{

namespace
{

/* Destroyed ones stay: events and other streams may still wait for them. */
std::vector<std::unique_ptr<CUstream_st>> streams;
CUstream_st the_default_stream;

const Point *first_obstacle(const CUstream_st &s)
{
    for (const Point &point : s.queue.front().after)
        if (!has_passed(point)) return &point;
    return nullptr;
}

/* Runs the oldest operation of s, or of a stream that it waits for. On the device thread, as is all that calls it: one
 * hand-over for many operations. */
void step(CUstream_st &s)
{
    if (s.queue.empty()) return;
    if (const Point *obstacle = first_obstacle(s)) {
        step(*obstacle->stream);
        return;
    }
    const Operation operation = std::move(s.queue.front().operation);
    const std::vector<Point> after = std::move(s.queue.front().after);
    s.queue.pop_front();
    s.identity.begin();
    acquire_work(&s.submitted);
    for (const Point &point : after)
        if (point.stream) acquire_work(&point.stream->done);
    if (operation.run && sticky_error == cudaSuccess) {
        if (operation.on_host)
            run_on_host(operation.run);
        else
            operation.run();
    }
    release_work(&s.done);
    s.identity.end();
    s.completed++;
    forget_identity(s);
}

void step_at_random()
{
    std::vector<CUstream_st *> ready;
    if (!the_default_stream.queue.empty() && !first_obstacle(the_default_stream)) ready.push_back(&the_default_stream);
    for (const auto &s : streams)
        if (!s->queue.empty() && !first_obstacle(*s)) ready.push_back(s.get());
    if (!ready.empty()) step(*ready[schedule.below(ready.size())]);
}

} // namespace

CUstream_st &default_stream() { return the_default_stream; }
const std::vector<std::unique_ptr<CUstream_st>> &all_streams() { return streams; }

bool capture_forbids(CUstream_st *stream)
{
    bool forbids = false;
    for (const auto &s : streams)
        if (s->capture && (!stream || stream == s.get())) forbids = s->capture->broken = true;
    return forbids;
}

CUstream_st &resolve(cudaStream_t handle)
{
    if (handle == nullptr || handle == cudaStreamLegacy) return the_default_stream;
    for (const auto &s : streams)
        if (s.get() == handle) {
            if (s->destroyed) violation("use of stream %p, which was destroyed", static_cast<void *>(handle));
            return *s;
        }
    violation("%p is not a stream", static_cast<void *>(handle));
}

CUstream_st &create_stream(unsigned flags, int priority, int device)
{
    streams.push_back(std::make_unique<CUstream_st>());
    CUstream_st &s = *streams.back();
    s.flags = flags;
    s.priority = priority;
    s.device = device;
    return s;
}

void forget_identity(CUstream_st &s)
{
    if (s.destroyed && s.queue.empty()) s.identity.forget();
}

bool has_passed(const Point &point) { return !point.stream || point.stream->completed >= point.count; }

bool host_sees(const Point &point)
{
    if (!has_passed(point)) return false;
    if (point.stream) acquire_work(&point.stream->done);
    return true;
}

namespace
{

void run_until(const Point &point)
{
    if (has_passed(point)) return;
    const DeviceMemoryOpen open;
    run_on_device([&] {
        while (!has_passed(point)) {
            if (controls.random() && schedule.below(2))
                step_at_random();
            else
                step(*point.stream);
        }
    });
}

} // namespace

void enqueue(CUstream_st &s, Operation operation, std::vector<Point> after)
{
    if (s.capture) {
        s.capture->operations.push_back(std::move(operation));
        s.captured++;
        return;
    }
    /* The legacy default stream waits for, and is waited for by, blocking streams. */
    if (&s == &the_default_stream) {
        for (const auto &other : streams)
            if (!(other->flags & cudaStreamNonBlocking)) after.push_back({other.get(), other->issued});
    } else if (!(s.flags & cudaStreamNonBlocking)) {
        after.push_back({&the_default_stream, the_default_stream.issued});
    }
    release_work(&s.submitted);
    s.queue.push_back({std::move(operation), std::move(after)});
    s.issued++;
    if (controls.eager()) {
        run_until({&s, s.issued});
    } else if (controls.random()) {
        while (schedule.below(3) == 0) {
            const DeviceMemoryOpen open;
            run_on_device(step_at_random);
        }
    }
}

void finish(const Point &point)
{
    run_until(point);
    host_sees(point);
}

void finish(CUstream_st &s) { finish(Point{&s, s.issued}); }

void finish_all()
{
    finish(the_default_stream);
    for (const auto &s : streams) finish(*s);
}

void advance(CUstream_st &s)
{
    const DeviceMemoryOpen open;
    run_on_device([&] { step(s); });
}

bool will_be_read(const void *p, std::size_t size)
{
    const auto *begin = static_cast<const char *>(p);
    const auto reads = [&](const CUstream_st &s) {
        for (const auto &queued : s.queue) {
            const Operation &o = queued.operation;
            if (o.on_host || (o.reads && o.reads < begin + size && begin < o.reads + o.reads_size))
                return true; /* a host function may read anything */
        }
        return false;
    };
    for (const auto &s : streams)
        if (reads(*s)) return true;
    return reads(the_default_stream);
}

} // namespace s4_emulation
