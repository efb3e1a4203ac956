/* Switching stacks. On x86-64 by hand, since a switch is what a barrier costs and
 * swapcontext() makes two system calls; elsewhere with swapcontext(). */
#include "fiber.h"
#include "violation.h"
#include <cstdlib>
#include <sys/mman.h>

#if defined(__x86_64__)
extern "C" __attribute__((visibility("hidden"))) void s4_emulation_swap_stacks(void **save, void *load);
asm(R"(
.text
.hidden s4_emulation_swap_stacks
.globl s4_emulation_swap_stacks
.type s4_emulation_swap_stacks,@function
s4_emulation_swap_stacks:
    .cfi_startproc
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmpq *%rcx
    .cfi_endproc
.size s4_emulation_swap_stacks,.-s4_emulation_swap_stacks
)");
#endif

namespace s4_emulation
{

namespace
{

constexpr bool instrumented = S4_EMULATION_ADDRESS_SANITIZER || S4_EMULATION_THREAD_SANITIZER;
constexpr std::size_t stack_bytes = (instrumented ? 256 : 64) * 1024;
/* Wide, because a large local array may jump over a narrow one. */
constexpr std::size_t guard_bytes = 1024 * 1024;

/* Plain globals: one fiber runs at a time, on whatever thread of the host. */
Fiber *entering;
[[maybe_unused]] const void *thread_stack;
[[maybe_unused]] std::size_t thread_stack_bytes;

} // namespace

Fiber::Fiber()
{
#if S4_EMULATION_THREAD_SANITIZER
    tsan_fiber = __tsan_get_current_fiber();
#endif
}

Fiber::Fiber(void (*run)()) : entry(run)
{
    void *m = mmap(nullptr, guard_bytes + stack_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED || mprotect(static_cast<char *>(m) + guard_bytes, stack_bytes, PROT_READ | PROT_WRITE))
        violation("no memory for the stacks of GPU threads");
    memory = static_cast<char *>(m);
#if defined(__x86_64__)
    /* Tops at different offsets, or all stacks compete for the same cache lines. */
    static unsigned colour;
    auto **top = reinterpret_cast<void **>(memory + guard_bytes + stack_bytes - colour++ % 61 * 64);
    *--top = nullptr; /* where first_steps() would return to; aligns its frame as the ABI asks */
    *--top = reinterpret_cast<void *>(&first_steps);
    for (int saved = 0; saved < 6; saved++) *--top = nullptr;
    stack_pointer = top;
#else
    getcontext(&context);
    context.uc_stack.ss_sp = memory + guard_bytes;
    context.uc_stack.ss_size = stack_bytes;
    context.uc_link = nullptr;
    makecontext(&context, first_steps, 0);
#endif
#if S4_EMULATION_THREAD_SANITIZER
    tsan_fiber = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber()
{
    if (!memory) return;
#if S4_EMULATION_THREAD_SANITIZER
    __tsan_destroy_fiber(tsan_fiber);
#endif
#if S4_EMULATION_ADDRESS_SANITIZER
    __asan_unpoison_memory_region(memory, guard_bytes + stack_bytes); /* frames that never returned */
#endif
    munmap(memory, guard_bytes + stack_bytes);
}

void Fiber::swap(Fiber &from, Fiber &to)
{
#if defined(__x86_64__)
    s4_emulation_swap_stacks(&from.stack_pointer, to.stack_pointer);
#else
    swapcontext(&from.context, &to.context);
#endif
}

void Fiber::first_steps()
{
    Fiber *self = entering;
#if S4_EMULATION_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(nullptr, &thread_stack, &thread_stack_bytes);
#endif
    self->entry();
    std::abort();
}

void Fiber::enter(Fiber &scheduler)
{
    entering = this;
#if S4_EMULATION_ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(&scheduler.asan_stack, memory + guard_bytes, stack_bytes);
#endif
#if S4_EMULATION_THREAD_SANITIZER
    __tsan_switch_to_fiber(tsan_fiber, __tsan_switch_to_fiber_no_sync);
#endif
    swap(scheduler, *this);
#if S4_EMULATION_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(scheduler.asan_stack, nullptr, nullptr);
#endif
}

void Fiber::leave(Fiber &scheduler)
{
#if S4_EMULATION_ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(&asan_stack, thread_stack, thread_stack_bytes);
#endif
#if S4_EMULATION_THREAD_SANITIZER
    __tsan_switch_to_fiber(scheduler.tsan_fiber, __tsan_switch_to_fiber_no_sync);
#endif
    swap(*this, scheduler);
#if S4_EMULATION_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(asan_stack, &thread_stack, &thread_stack_bytes);
#endif
}

bool Fiber::guards(const void *p) const { return memory && p >= memory && p < memory + guard_bytes; }

} // namespace s4_emulation
