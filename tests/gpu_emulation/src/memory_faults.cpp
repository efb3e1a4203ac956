/* Explains accesses to memory that is not accessible: which kernel, block and thread,
 * or the host; and what the address is. */
#include "block.h"
#include "device_memory.h"
#include "violation.h"
#include "gpu_emulation.h"
#include <csignal>
#include <unistd.h>

namespace s4_emulation
{

namespace
{

struct sigaction earlier_segv, earlier_bus;

void on_fault(int signal, siginfo_t *info, void *)
{
    const void *p = info->si_addr;
    if (is_stack_guard(p))
        violation("%s overflowed its stack: its local arrays are too large", describe(*current_thread).c_str());
    const char *verdict = nullptr;
    if (current_thread)
        /* An access that the processor refuses for another reason than its address,
         * such as alignment, comes with address 0. */
        verdict = p ? "accessed" : "made a misaligned access, or accessed";
#if S4_EMULATION_ADDRESS_SANITIZER || S4_EMULATION_THREAD_SANITIZER
    constexpr bool sanitizer_follows = true; /* with a stack trace */
#else
    constexpr bool sanitizer_follows = false;
#endif
    if (verdict || is_device_address(p)) {
        const Words who = current_thread ? describe(*current_thread) : words("the host"), what = explain(p);
        if (!sanitizer_follows) violation("%s %s %s", who.c_str(), verdict ? verdict : "accessed", what.c_str());
        remark("%s %s %s", who.c_str(), verdict ? verdict : "accessed", what.c_str());
    }
    sigaction(signal, signal == SIGSEGV ? &earlier_segv : &earlier_bus, nullptr);
    /* Returning repeats the access, for whoever handled it before. */
}

} // namespace

void provide_signal_stack()
{
    static char memory[65536]; /* one will do: only one thread runs GPU threads at a time */
    stack_t stack{};
    sigaltstack(nullptr, &stack);
    if (!(stack.ss_flags & SS_DISABLE)) return; /* a sanitizer's */
    stack.ss_sp = memory;
    stack.ss_size = sizeof memory;
    stack.ss_flags = 0;
    sigaltstack(&stack, nullptr);
}

void watch_memory()
{
    struct sigaction action {
    };
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &earlier_segv);
    sigaction(SIGBUS, &action, &earlier_bus);
}

void unwatch_memory()
{
    struct sigaction now {
    };
    sigaction(SIGSEGV, nullptr, &now);
    if (now.sa_sigaction == on_fault) sigaction(SIGSEGV, &earlier_segv, nullptr);
    sigaction(SIGBUS, nullptr, &now);
    if (now.sa_sigaction == on_fault) sigaction(SIGBUS, &earlier_bus, nullptr);
}

} // namespace s4_emulation
