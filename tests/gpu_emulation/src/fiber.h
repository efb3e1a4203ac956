/* Fibers: stacks of their own that a thread of the host switches between. */
#ifndef S4_EMULATION_FIBER_H
#define S4_EMULATION_FIBER_H

#include "sanitizers.h"
#include <cstddef>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace s4_emulation
{

class Fiber
{
  public:
    /* A fiber that will run entry(), which must never return. */
    explicit Fiber(void (*entry)());
    /* The calling thread itself, as something to come back to. */
    Fiber();
    ~Fiber();
    Fiber(const Fiber &) = delete;
    Fiber &operator=(const Fiber &) = delete;

    /* Scheduler only: runs this fiber until it leaves. */
    void enter(Fiber &scheduler);
    /* This fiber only: back to the scheduler, until it is entered again. */
    void leave(Fiber &scheduler);

    bool guards(const void *p) const; /* is p in the inaccessible range under the stack? */

  private:
    static void first_steps();
    static void swap(Fiber &from, Fiber &to);

#if defined(__x86_64__)
    void *stack_pointer = nullptr;
#else
    ucontext_t context{};
#endif
    char *memory = nullptr; /* the guard, then the stack */
    void (*entry)() = nullptr;
    [[maybe_unused]] void *asan_stack = nullptr;
    [[maybe_unused]] void *tsan_fiber = nullptr;
};

} // namespace s4_emulation
#endif
