/* Streams: queues of operations that run as late as the rules allow. */
#ifndef S4_EMULATION_STREAM_H
#define S4_EMULATION_STREAM_H

#include "cuda_runtime.h"
#include "sanitizers.h"
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace s4_emulation
{

struct Operation {
    std::function<void()> run; /* may be empty: only waits */
    bool on_host = false;      /* runs on the host thread that waits, not on the device */
    /* A host buffer that it will read. */
    const char *reads = nullptr;
    std::size_t reads_size = 0;
};

/* The point in a stream behind its first `count` operations. */
struct Point {
    CUstream_st *stream = nullptr;
    std::uint64_t count = 0;
};

/* Operations that a graph records instead of running. */
struct Capture {
    CUstream_st *origin = nullptr;
    std::vector<Operation> operations;
    bool broken = false; /* something was called that must not be captured */
};

} // namespace s4_emulation

struct CUstream_st {
    int device = 0, priority = 0;
    unsigned flags = 0;
    bool destroyed = false; /* what is queued still runs */
    std::uint64_t issued = 0, completed = 0;
    struct Queued {
        s4_emulation::Operation operation;
        std::vector<s4_emulation::Point> after;
    };
    std::deque<Queued> queue;
    std::shared_ptr<s4_emulation::Capture> capture; /* NULL unless capturing */
    s4_emulation::StreamIdentity identity;
    char submitted, done; /* addresses that stand for what was issued and for what has run, for the race detector */
    std::uint64_t captured = 0, joined = 0;         /* of a side stream: issued, and waited for by the origin */
};

namespace s4_emulation
{

/* The stream behind a handle; a handle that is none is a violation. */
CUstream_st &resolve(cudaStream_t handle);
CUstream_st &default_stream();
CUstream_st &create_stream(unsigned flags, int priority, int device);

const std::vector<std::unique_ptr<CUstream_st>> &all_streams();

/* While a stream is captured, calls that would make the host wait for the device or
 * change its memory are refused, and break the capture. `stream` NULL: any stream. */
bool capture_forbids(CUstream_st *stream);

/* Appends an operation, to run after everything in the stream and after `after`. */
void enqueue(CUstream_st &stream, Operation operation, std::vector<Point> after = {});

bool has_passed(const Point &point);
/* The same, and if so, what was done is the calling thread's to use. */
bool host_sees(const Point &point);
/* Runs what is needed for these to be so. */
void finish(const Point &point);
void finish(CUstream_st &stream);
void finish_all();
/* After its destruction, when nothing is left in it. */
void forget_identity(CUstream_st &stream);
/* A little progress, so that a host that polls gets somewhere. */
void advance(CUstream_st &stream);

/* Will something that is queued still read this host memory? */
bool will_be_read(const void *p, std::size_t size);

} // namespace s4_emulation
#endif
