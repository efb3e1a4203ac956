/* Capturing a stream into a graph, and launching graphs. A captured graph runs in
 * the order of capture, which satisfies every dependency it can have. */
#include "controls.h"
#include "stream.h"
#include "violation.h"
#include <set>

struct CUgraph_st {
    std::vector<s4_emulation::Operation> operations;
};
struct CUgraphExec_st {
    std::vector<s4_emulation::Operation> operations;
};

using namespace s4_emulation;

namespace
{

std::set<const void *> graphs; /* of both kinds */

void require_graph(const void *g)
{
    if (!graphs.count(g)) violation("%p is not a graph, or was destroyed", g);
}

} // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
    S4_EMULATION_ENTER("cudaStreamBeginCapture");
    CUstream_st &s = resolve(stream);
    if (&s == &default_stream()) return fail(cudaErrorStreamCaptureUnsupported);
    if (s.capture) return fail(cudaErrorIllegalState);
    s.capture = std::make_shared<Capture>();
    s.capture->origin = &s;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    S4_EMULATION_ENTER("cudaStreamEndCapture");
    CUstream_st &s = resolve(stream);
    *graph = nullptr;
    if (!s.capture) return fail(cudaErrorIllegalState);
    if (s.capture->origin != &s) return fail(cudaErrorStreamCaptureUnmatched);
    const std::shared_ptr<Capture> capture = s.capture;
    bool unjoined = false;
    for (const auto &other : all_streams())
        if (other->capture == capture) {
            unjoined |= other.get() != &s && other->joined < other->captured + 1;
            other->capture.reset();
        }
    if (capture->broken) return fail(cudaErrorStreamCaptureInvalidated);
    if (unjoined) return fail(cudaErrorStreamCaptureUnjoined);
    *graph = new CUgraph_st{capture->operations};
    graphs.insert(*graph);
    count_object("graph", 1);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status)
{
    S4_EMULATION_ENTER(nullptr);
    const CUstream_st &s = resolve(stream);
    *status = !s.capture          ? cudaStreamCaptureStatusNone
              : s.capture->broken ? cudaStreamCaptureStatusInvalidated
                                  : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long)
{
    S4_EMULATION_ENTER("cudaGraphInstantiate", cudaErrorMemoryAllocation);
    require_graph(graph);
    *executable = new CUgraphExec_st{graph->operations};
    graphs.insert(*executable);
    count_object("executable graph", 1);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags)
{
    return cudaGraphInstantiate(executable, graph, flags);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    S4_EMULATION_ENTER("cudaGraphLaunch");
    require_graph(executable);
    CUstream_st &s = resolve(stream);
    for (const Operation &operation : executable->operations) enqueue(s, operation);
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    S4_EMULATION_ENTER(nullptr);
    require_graph(graph);
    if (nodes) violation("cudaGraphGetNodes: only the number of nodes is emulated");
    *count = graph->operations.size();
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    const Entry entry(nullptr);
    require_graph(graph);
    graphs.erase(graph);
    delete graph;
    count_object("graph", -1);
    return entry.error;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    const Entry entry(nullptr);
    require_graph(executable);
    graphs.erase(executable);
    delete executable;
    count_object("executable graph", -1);
    return entry.error;
}
}
