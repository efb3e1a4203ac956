/* s4_context: opens places, counts their memory, keeps the ledger. */
#define _GNU_SOURCE
#include "s4/context_object.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "s4/errors.h"
#include "s4/options.h"

#define THREADS_MAX 1024
#define HOST_ALIGNMENT 256
#define FORKED                                                                                                         \
    "this process was forked from one that had opened it, which no GPU survives; use the cpu here, or let the "        \
    "new process execute a program of its own"

int s4_processors(void)
{
#ifdef __linux__
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set)) {
        int count = CPU_COUNT(&set);
        if (count > 0) return count < THREADS_MAX ? count : THREADS_MAX;
    }
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online < THREADS_MAX ? (int)online : THREADS_MAX;
}

/* Asks for large pages where some fit into memory as a whole, so that no process takes more than was asked for: a long
 * row reaches thousands of small ones, more than a processor remembers the addresses of. Where there are none, nothing
 * changes. */
static void prefer_large_pages(void *memory, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t page = (uintptr_t)1 << 21;
    uintptr_t begin = ((uintptr_t)memory + page - 1) / page * page, end = ((uintptr_t)memory + bytes) / page * page;
    if (begin < end) madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#else
    (void)memory;
    (void)bytes;
#endif
}

static void *default_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    if (bytes > SIZE_MAX - alignment) return NULL;
    void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (memory) prefer_large_pages(memory, bytes);
    return memory;
}

static void default_release(void *user, void *pointer)
{
    (void)user;
    free(pointer);
}

s4_status s4_context_create(const s4_context_options *options, s4_context **context)
{
    if (!context) return s4_fail(S4_ERROR_ARGUMENT, "context is NULL");
    *context = NULL;
    s4_context_options given = {.struct_size = sizeof given};
    if (options) S4_TRY(s4_options_read("s4_context_options", options, &given, sizeof given));
    if (given.threads < 0 || given.threads > THREADS_MAX)
        return s4_fail(S4_ERROR_ARGUMENT, "threads is %d, must be in 0 .. %d", given.threads, THREADS_MAX);
    if (given.device < 0) return s4_fail(S4_ERROR_ARGUMENT, "device is %d, must be >= 0", given.device);
    if (!given.allocate != !given.release)
        return s4_fail(S4_ERROR_ARGUMENT, "allocate and release must both be given, or neither");
    if (!given.threads) given.threads = s4_processors();
    if (!given.allocate) {
        given.allocate = default_allocate;
        given.release = default_release;
    }
    s4_context *made = calloc(1, sizeof *made);
    if (!made) return s4_fail(S4_ERROR_MEMORY, "no memory for a context");
    made->options = given;
    if (given.cpu_level) {
        snprintf(made->cpu_level, sizeof made->cpu_level, "%s", given.cpu_level);
        made->options.cpu_level = made->cpu_level;
    }
    if (pthread_mutex_init(&made->lock, NULL)) {
        free(made);
        return s4_fail(S4_ERROR_MEMORY, "no mutex for a context");
    }
    *context = made;
    return S4_OK;
}

/* The process whose GPU place was opened first, by any context; 0: none was. */
static atomic_int gpu_process;

int s4_context_forked(s4_place place)
{
    int process = atomic_load(&gpu_process);
    return place == S4_PLACE_GPU && process && process != (int)getpid();
}

s4_status s4_context_check_process(s4_place place)
{
    if (!s4_context_forked(place)) return S4_OK;
    return s4_fail(S4_ERROR_UNAVAILABLE, "place %s is not available: " FORKED, s4_place_name(place));
}

void s4_context_destroy(s4_context *context)
{
    if (!context) return;
    for (int place = 0; place < S4_PLACE_COUNT; place++)
        if (context->opened[place] && !context->open_status[place] && !s4_context_forked((s4_place)place))
            context->backend[place]->close(context->device[place]);
    pthread_mutex_destroy(&context->lock);
    free(context);
}

int s4_context_threads(const s4_context *context) { return context ? context->options.threads : 0; }

s4_status s4_context_open(s4_context *context, s4_place place, const s4_backend **backend, s4_device **device)
{
    S4_TRY(s4_context_check_process(place));
    pthread_mutex_lock(&context->lock);
    if (!context->opened[place]) {
        char *reason = context->reason[place];
        context->opened[place] = 1;
        context->backend[place] = s4_registry_backend(place, reason, sizeof context->reason[place]);
        if (!context->backend[place]) {
            context->open_status[place] = S4_ERROR_UNAVAILABLE;
        } else {
            const s4_open_options how = {context->options.device, context->options.cpu_level};
            context->open_status[place] = context->backend[place]->open(&how, &context->device[place]);
            if (!context->open_status[place] && context->backend[place]->load_wisdom && !context->options.ignore_wisdom)
                context->backend[place]->load_wisdom(context->device[place]);
            if (context->open_status[place]) {
                snprintf(reason, sizeof context->reason[place], "%s", s4_last_error());
                context->opened[place] =
                    context->open_status[place] != S4_ERROR_MEMORY; /* there may be more next time */
            } else if (place == S4_PLACE_GPU)
                atomic_compare_exchange_strong(&gpu_process, &(int){0}, (int)getpid());
        }
    }
    s4_status status = context->open_status[place];
    if (status) s4_fail(status, "place %s is not available: %s", s4_place_name(place), context->reason[place]);
    if (backend) *backend = context->backend[place];
    if (device) *device = context->device[place];
    pthread_mutex_unlock(&context->lock);
    return status;
}

s4_status s4_context_place(s4_context *context, s4_place place, s4_place_info *info)
{
    if (!context || !info) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", context ? "info" : "context");
    if (place != S4_PLACE_CPU && place != S4_PLACE_GPU)
        return s4_fail(S4_ERROR_ARGUMENT, "place is %d, must be cpu or gpu", (int)place);
    memset(info, 0, sizeof *info);
    const s4_backend *backend = NULL;
    s4_device *device;
    if (s4_context_open(context, place, &backend, &device)) {
        if (backend) backend->describe(NULL, info);
        info->available = 0;
        snprintf(info->reason, sizeof info->reason, "%s", s4_context_forked(place) ? FORKED : context->reason[place]);
        return S4_OK;
    }
    backend->describe(device, info);
    info->available = 1;
    info->reason[0] = 0;
    return S4_OK;
}

void s4_context_count(s4_context *context, s4_place place, int64_t bytes)
{
    long long now = atomic_fetch_add(&context->current[place], bytes) + bytes;
    long long peak = atomic_load(&context->peak[place]);
    while (now > peak && !atomic_compare_exchange_weak(&context->peak[place], &peak, now)) {
    }
}

s4_status s4_context_allocate(s4_context *context, s4_place place, size_t bytes, void **pointer)
{
    *pointer = NULL;
    if (place == S4_PLACE_CPU) {
        *pointer = context->options.allocate(context->options.allocator_user, bytes, HOST_ALIGNMENT);
        if (!*pointer) return s4_fail(S4_ERROR_MEMORY, "no host memory: %zu bytes were asked for", bytes);
    } else {
        const s4_backend *backend;
        s4_device *device;
        S4_TRY(s4_context_open(context, place, &backend, &device));
        S4_TRY(backend->allocate(device, bytes, pointer));
    }
    s4_context_count(context, place, (int64_t)bytes);
    return S4_OK;
}

void s4_context_release(s4_context *context, s4_place place, void *pointer, size_t bytes)
{
    if (!pointer) return;
    if (place == S4_PLACE_CPU)
        context->options.release(context->options.allocator_user, pointer);
    else if (!s4_context_forked(place))
        context->backend[place]->release(context->device[place], pointer);
    s4_context_count(context, place, -(int64_t)bytes);
}

s4_status s4_context_memory(s4_context *context, s4_place place, s4_memory_use *use)
{
    if (!context || !use) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", context ? "use" : "context");
    if (place != S4_PLACE_CPU && place != S4_PLACE_GPU)
        return s4_fail(S4_ERROR_ARGUMENT, "place is %d, must be cpu or gpu", (int)place);
    use->current = atomic_load(&context->current[place]);
    use->peak = atomic_load(&context->peak[place]);
    return S4_OK;
}

s4_status s4_context_memory_reset(s4_context *context, s4_place place)
{
    s4_memory_use use;
    S4_TRY(s4_context_memory(context, place, &use));
    atomic_store(&context->peak[place], use.current);
    return S4_OK;
}

s4_status s4_context_ledger(s4_context *context, s4_ledger *ledger)
{
    if (!context || !ledger) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", context ? "ledger" : "context");
    memset(ledger, 0, sizeof *ledger);
    for (int place = 0; place < S4_PLACE_COUNT; place++)
        ledger->operations[place] = atomic_load(&context->operations[place]);
    pthread_mutex_lock(&context->lock);
    if (context->device[S4_PLACE_GPU]) {
        s4_device_ledger device;
        context->backend[S4_PLACE_GPU]->ledger(context->device[S4_PLACE_GPU], &device);
        ledger->launches = device.launches;
        ledger->moved_to_device = device.to_device;
        ledger->moved_to_host = device.to_host;
    }
    pthread_mutex_unlock(&context->lock);
    return S4_OK;
}
