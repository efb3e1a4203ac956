/* Counting and failing allocations: see allocations.h. */
#define _GNU_SOURCE
#include "allocations.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

static atomic_int counting;
static atomic_long count;
static _Thread_local long until_failure;
static _Thread_local int failed;

#if defined(__GLIBC__) && !defined(SANITIZED)

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static int is_others(void *caller)
{
    static const char *const others[] = {"libfftw3", "libgomp", "libomp", "libiomp"};
    Dl_info info;
    if (!dladdr(caller, &info) || !info.dli_fname)
        return 0;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strstr(info.dli_fname, others[i]))
            return 1;
    return 0;
}

/* 1 if this allocation must fail. */
static int seen_from(void *caller)
{
    if (atomic_load_explicit(&counting, memory_order_relaxed) && !is_others(caller))
        atomic_fetch_add(&count, 1);
    if (until_failure > 0 && --until_failure == 0) {
        failed = 1;
        errno = ENOMEM;
        return 1;
    }
    return 0;
}

#define seen() seen_from(__builtin_return_address(0))

void *malloc(size_t size)
{
    return seen() ? NULL : __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
    return seen() ? NULL : __libc_calloc(number, size);
}

void *realloc(void *old, size_t size)
{
    return seen() ? NULL : __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size)
{
    return seen() ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return seen() ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **pointer, size_t alignment, size_t size)
{
    if (seen())
        return ENOMEM;
    void *memory = __libc_memalign(alignment, size);
    if (!memory)
        return ENOMEM;
    *pointer = memory;
    return 0;
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
    atomic_store(&count, 0);
    atomic_store(&counting, 1);
}

long allocations_end(void)
{
    atomic_store(&counting, 0);
    return atomic_load(&count);
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
