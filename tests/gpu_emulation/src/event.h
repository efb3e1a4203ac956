/* Events: points in a stream that others can wait for. */
#ifndef S4_EMULATION_EVENT_H
#define S4_EMULATION_EVENT_H

#include "stream.h"

struct CUevent_st {
    unsigned flags = 0;
    s4_emulation::Point point;                                    /* stream NULL: never recorded */
    std::shared_ptr<double> when = std::make_shared<double>(0.0); /* ms, set when it is passed */
    /* Recorded while its stream was captured. */
    std::shared_ptr<s4_emulation::Capture> capture;
    CUstream_st *captured_stream = nullptr;
    std::uint64_t captured = 0;
};

#endif
