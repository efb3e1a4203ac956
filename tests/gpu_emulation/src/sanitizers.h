/* Which sanitizer this build has. The address sanitizer instruments the emulation
 * like everything else. The thread sanitizer must not: the emulation is compiled
 * without it and tells it by hand who waits for whom, so the build says
 * S4_EMULATION_THREAD_SANITIZER=1; where it does not say so, all GPU threads are one. */
#ifndef S4_EMULATION_SANITIZERS_H
#define S4_EMULATION_SANITIZERS_H

#if defined(__SANITIZE_ADDRESS__)
#define S4_EMULATION_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define S4_EMULATION_ADDRESS_SANITIZER 1
#endif
#endif
#ifndef S4_EMULATION_ADDRESS_SANITIZER
#define S4_EMULATION_ADDRESS_SANITIZER 0
#endif
#ifndef S4_EMULATION_THREAD_SANITIZER
#define S4_EMULATION_THREAD_SANITIZER 0
#endif

#if S4_EMULATION_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if S4_EMULATION_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace s4_emulation
{

/* What happened before release(p) is visible after acquire(p). */
inline void release([[maybe_unused]] void *p)
{
#if S4_EMULATION_THREAD_SANITIZER
    __tsan_release(p);
#endif
}
inline void acquire([[maybe_unused]] void *p)
{
#if S4_EMULATION_THREAD_SANITIZER
    __tsan_acquire(p);
#endif
}

} // namespace s4_emulation
#endif
