/* Inside of s4_context: backends and devices, host memory with its count, the ledger. */
#ifndef S4_CONTEXT_OBJECT_H
#define S4_CONTEXT_OBJECT_H

#include <pthread.h>
#include <stdatomic.h>

#include "s4/backend.h"
#include "s4/context.h"

struct s4_context {
    s4_context_options options; /* defaults filled in */
    char cpu_level[32];         /* the caller's text */
    const s4_backend *backend[S4_PLACE_COUNT];
    s4_device *device[S4_PLACE_COUNT];
    int opened[S4_PLACE_COUNT]; /* open was tried */
    s4_status open_status[S4_PLACE_COUNT];
    char reason[S4_PLACE_COUNT][256]; /* why open failed */
    pthread_mutex_t lock;             /* guards the above */
    atomic_llong current[S4_PLACE_COUNT], peak[S4_PLACE_COUNT]; /* bytes */
    atomic_llong operations[S4_PLACE_COUNT];
};

/* Processors that this process may use, at least 1. */
int s4_processors(void);

/* 1 for the GPU place in a child of the process that opened it: nothing of it may be touched there. */
int s4_context_forked(s4_place place);
/* S4_ERROR_UNAVAILABLE then. */
s4_status s4_context_check_process(s4_place place);

/* The device of a place, opened at the first call; a failure is remembered and repeated, but for lack of memory. */
s4_status s4_context_open(s4_context *context, s4_place place, const s4_backend **backend, s4_device **device);

/* Memory of a place, counted. Host memory is aligned to 256 bytes. bytes >= 1. */
s4_status s4_context_allocate(s4_context *context, s4_place place, size_t bytes, void **pointer);
void s4_context_release(s4_context *context, s4_place place, void *pointer, size_t bytes);
/* Counts memory that the caller provided. */
void s4_context_count(s4_context *context, s4_place place, int64_t bytes);

/* s4/registry.c: the table of a place; NULL with a reason where there is none. */
const s4_backend *s4_registry_backend(s4_place place, char *reason, size_t reason_size);

#endif
