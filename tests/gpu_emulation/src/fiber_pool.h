/* Fibers that run GPU threads, one after another. */
#ifndef S4_EMULATION_FIBER_POOL_H
#define S4_EMULATION_FIBER_POOL_H

#include "fiber.h"
#include <memory>
#include <vector>

namespace s4_emulation
{

/* The last fiber to become free is the first to be taken: its stack is in the cache.
 *
 * Not so for the race detector, to which a fiber is a thread. GPU threads that share
 * one are in order for it, and races between them unseen. So every GPU thread of a
 * launch has another fiber, as far as `largest` goes; then the one that was used
 * longest ago. */
class FiberPool
{
    static constexpr bool rotates = S4_EMULATION_THREAD_SANITIZER;
    static constexpr std::size_t largest = 1024; /* of the largest block; each costs that detector 0.7 ms to make */

    std::vector<std::unique_ptr<Fiber>> all;
    std::vector<Fiber *> free;
    std::size_t next = 0;
    void (*entry)();

  public:
    /* May a fiber take the next GPU thread without asking? */
    static constexpr bool keeps_fiber = !rotates;

    explicit FiberPool(void (*run)()) : entry(run) {}

    void begin_launch() { next = 0; }

    Fiber *take()
    {
        if (rotates) {
            next %= largest;
            if (next == all.size()) all.push_back(std::make_unique<Fiber>(entry));
            return all[next++].get();
        }
        if (free.empty()) {
            all.push_back(std::make_unique<Fiber>(entry));
            return all.back().get();
        }
        Fiber *fiber = free.back();
        free.pop_back();
        return fiber;
    }

    void give_back(Fiber *fiber)
    {
        if (!rotates) free.push_back(fiber);
    }
};

} // namespace s4_emulation
#endif
