/* What a test can set and what the emulation counts for it; and the door through
 * which every CUDA and cuFFT call enters. */
#ifndef S4_EMULATION_CONTROLS_H
#define S4_EMULATION_CONTROLS_H

#include "gpu_emulation.h"
#include "sanitizers.h"
#include <cstdint>
#include <cuda_runtime_api.h>
#include <mutex>

namespace s4_emulation
{

struct Random { /* splitmix64 */
    std::uint64_t state = 1;
    std::uint64_t next()
    {
        std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    std::uint64_t below(std::uint64_t n) { return next() % n; }
};

struct Controls {
    std::uint64_t seed = 1;
    int devices = 1;
    std::size_t memory = std::size_t(16) << 30;
    bool leaks_fail = false;

    bool eager() const { return seed == 0; }
    bool random() const { return seed >= 2; }
};
extern Controls controls;
extern Random schedule;
extern s4_emulation_counts counts;

/* An object of some kind came to be (+1) or was released (-1). */
void count_object(const char *kind, int change);

/* The error that the running kernel ended with; every later call returns it. */
extern cudaError_t sticky_error;

/* Remembers an error for cudaGetLastError() and returns it. */
cudaError_t fail(cudaError_t error);
/* What cudaGetLastError() and cudaPeekAtLastError() see: per host thread. */
cudaError_t last_error(bool clear);

/* True if a test asked for this call to fail; then *error is what to return. */
bool made_to_fail(const char *name, int usual_error, int *error);

/* Held during every call: the emulation runs one host thread at a time. */
extern std::recursive_mutex one_at_a_time;

/* Stands at the beginning of every call: takes the lock, starts the emulation if
 * need be, and knows at once whether the call must fail. */
class Entry
{
    const OwnMemory own;
    std::unique_lock<std::recursive_mutex> lock;

  public:
    cudaError_t error = cudaSuccess;

    /* name: NULL for a call that cannot be made to fail. */
    explicit Entry(const char *name, cudaError_t usual_error = cudaErrorUnknown);
    ~Entry();
};

} // namespace s4_emulation

/* The first line of an API function: may return. */
#define S4_EMULATION_ENTER(...)                                                                                        \
    const ::s4_emulation::Entry entry_(__VA_ARGS__);                                                                   \
    if (entry_.error != cudaSuccess) return entry_.error

#endif
