/* Counting and failing allocations: see allocations.h. */
#define _GNU_SOURCE
#include "allocations.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sanitized.h"

static atomic_int counting;
static atomic_long count;
static _Thread_local long until_failure;
static _Thread_local int failed;

/* Those of the allocations counted that still live, and their bytes. */
#define LIVE_MAX 4096
static atomic_flag live_lock = ATOMIC_FLAG_INIT;
static struct {
    void *pointer;
    size_t bytes;
} live[LIVE_MAX];
static atomic_int live_end; /* slots from here on are empty */
static int64_t held, peak;

static void lock_live(void)
{
    while (atomic_flag_test_and_set_explicit(&live_lock, memory_order_acquire)) {
    }
}

static void unlock_live(void)
{
    atomic_flag_clear_explicit(&live_lock, memory_order_release);
}

#if defined(__GLIBC__) && !defined(SANITIZED)

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static int is_others(void *caller)
{
    static const char *const others[] = {"libfftw3", "libgomp", "libomp", "libiomp", "libopenblas", "libblas", "ld-linux"};
    Dl_info info;
    if (!dladdr(caller, &info) || !info.dli_fname)
        return 0;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strstr(info.dli_fname, others[i]))
            return 1;
    return 0;
}

typedef enum judgement { IGNORED, COUNTED, FAILED } judgement;

static judgement judge(void *caller)
{
    const int counts = atomic_load_explicit(&counting, memory_order_relaxed);
    if ((!counts && until_failure <= 0) || is_others(caller))
        return IGNORED;
    if (until_failure > 0 && --until_failure == 0) {
        failed = 1;
        errno = ENOMEM;
        return FAILED;
    }
    if (counts)
        atomic_fetch_add(&count, 1);
    return counts ? COUNTED : IGNORED;
}

static void *remember(judgement judged, void *pointer, size_t bytes)
{
    if (judged != COUNTED || !pointer)
        return pointer;
    lock_live();
    int slot = 0;
    while (slot < LIVE_MAX && live[slot].pointer)
        slot++;
    if (slot == LIVE_MAX)
        abort();
    live[slot].pointer = pointer;
    live[slot].bytes = bytes;
    if (slot >= atomic_load(&live_end))
        atomic_store(&live_end, slot + 1);
    held += (int64_t)bytes;
    if (held > peak)
        peak = held;
    unlock_live();
    return pointer;
}

static void forget(void *pointer)
{
    if (!pointer || !atomic_load(&live_end))
        return;
    lock_live();
    for (int slot = 0; slot < atomic_load(&live_end); slot++)
        if (live[slot].pointer == pointer) {
            held -= (int64_t)live[slot].bytes;
            live[slot].pointer = NULL;
            break;
        }
    unlock_live();
}

#define JUDGE() const judgement judged = judge(__builtin_return_address(0))

void *malloc(size_t size)
{
    JUDGE();
    return judged == FAILED ? NULL : remember(judged, __libc_malloc(size), size);
}

void *calloc(size_t number, size_t size)
{
    JUDGE();
    return judged == FAILED ? NULL : remember(judged, __libc_calloc(number, size), number * size);
}

void *realloc(void *old, size_t size)
{
    JUDGE();
    if (judged == FAILED)
        return NULL;
    forget(old); /* before another thread can get the same address */
    return remember(judged, __libc_realloc(old, size), size);
}

void *memalign(size_t alignment, size_t size)
{
    JUDGE();
    return judged == FAILED ? NULL : remember(judged, __libc_memalign(alignment, size), size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    JUDGE();
    return judged == FAILED ? NULL : remember(judged, __libc_memalign(alignment, size), size);
}

int posix_memalign(void **pointer, size_t alignment, size_t size)
{
    JUDGE();
    if (judged == FAILED)
        return ENOMEM;
    void *memory = remember(judged, __libc_memalign(alignment, size), size);
    if (!memory)
        return ENOMEM;
    *pointer = memory;
    return 0;
}

void free(void *pointer)
{
    forget(pointer);
    __libc_free(pointer);
}

int allocations_supported(void)
{
    return 1;
}

#else

int allocations_supported(void)
{
    return 0;
}

#endif

void allocations_begin(void)
{
    lock_live();
    memset(live, 0, sizeof live);
    atomic_store(&live_end, 0);
    held = peak = 0;
    unlock_live();
    atomic_store(&count, 0);
    atomic_store(&counting, 1);
}

long allocations_end(void)
{
    atomic_store(&counting, 0);
    return atomic_load(&count);
}

int64_t allocations_held(void)
{
    lock_live();
    const int64_t bytes = held;
    unlock_live();
    return bytes;
}

int64_t allocations_peak(void)
{
    lock_live();
    const int64_t bytes = peak;
    unlock_live();
    return bytes;
}

void allocations_fail(long nth)
{
    failed = 0;
    until_failure = nth;
}

int allocations_failed(void)
{
    until_failure = 0;
    return failed;
}
