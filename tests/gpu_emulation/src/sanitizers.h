/* Which sanitizer this build has. The address sanitizer instruments the emulation
 * like everything else. The thread sanitizer must not: the emulation is compiled
 * without it and tells it by hand who waits for whom, so the build says
 * S4_EMULATION_THREAD_SANITIZER=1; S4_EMULATION_HOST_THREADS=1 where
 * every stream is one thread to it, and all that matters are those of the host. */
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

#ifndef S4_EMULATION_HOST_THREADS
#define S4_EMULATION_HOST_THREADS 0
#endif

#if S4_EMULATION_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if S4_EMULATION_THREAD_SANITIZER || S4_EMULATION_HOST_THREADS
#include <sanitizer/tsan_interface.h>
#endif
#if S4_EMULATION_HOST_THREADS
extern "C" {
void __tsan_read_range(void *begin, unsigned long size);
void __tsan_write_range(void *begin, unsigned long size);
void AnnotateIgnoreSyncBegin(const char *file, int line);
void AnnotateIgnoreSyncEnd(const char *file, int line);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
}
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

/* The same between threads of the host and streams, where GPU threads are no threads to the race detector. */
inline void release_work([[maybe_unused]] void *p)
{
#if S4_EMULATION_HOST_THREADS
    __tsan_release(p);
#endif
}
inline void acquire_work([[maybe_unused]] void *p)
{
#if S4_EMULATION_HOST_THREADS
    __tsan_acquire(p);
#endif
}

/* While one exists, locks and semaphores order nothing for the race detector: those of the emulation, without which
 * threads of the host would never be seen beside each other. */
struct OrdersNothing {
#if S4_EMULATION_HOST_THREADS
    OrdersNothing() { AnnotateIgnoreSyncBegin(__FILE__, __LINE__); }
    ~OrdersNothing() { AnnotateIgnoreSyncEnd(__FILE__, __LINE__); }
#else
    OrdersNothing() {}
#endif
    OrdersNothing(const OrdersNothing &) = delete;
};

/* While one exists, what the thread reads and writes is the emulation's own. */
struct OwnMemory {
#if S4_EMULATION_HOST_THREADS
    static void begin()
    {
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
    static void end()
    {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    }
    OwnMemory() { begin(); }
    ~OwnMemory() { end(); }
#else
    OwnMemory() {}
#endif
    OwnMemory(const OwnMemory &) = delete;
};

/* An operation has copied what is not the emulation's own. */
inline void copied([[maybe_unused]] const void *from, [[maybe_unused]] void *to, [[maybe_unused]] unsigned long size)
{
#if S4_EMULATION_HOST_THREADS
    OwnMemory::end();
    __tsan_read_range(const_cast<void *>(from), size);
    __tsan_write_range(to, size);
    OwnMemory::begin();
#endif
}

/* What the race detector takes a stream for: a thread. */
struct StreamIdentity {
#if S4_EMULATION_HOST_THREADS
    void *fiber = nullptr, *before = nullptr;
    void begin()
    {
        if (!fiber) fiber = __tsan_create_fiber(0);
        before = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync);
        OwnMemory::begin();
    }
    void end()
    {
        OwnMemory::end();
        __tsan_switch_to_fiber(before, __tsan_switch_to_fiber_no_sync);
    }
    void forget()
    {
        if (fiber) __tsan_destroy_fiber(fiber);
        fiber = nullptr;
    }
#else
    void begin() {}
    void end() {}
    void forget() {}
#endif
};

} // namespace s4_emulation
#endif
