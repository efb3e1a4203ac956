/*
 * s4_context: threads, allocator hooks, callbacks, and at most one GPU device.
 *
 * Usable from any thread. The GPU place is opened when a plan that needs it is prepared, or when it is asked about.
 * Several GPUs: several contexts. A context must outlive the plans and workspaces prepared with it.
 *
 * After a fork the CPU place works in the child, in the thread that forked with one thread of its own, with the same bits.
 * The GPU place is S4_ERROR_UNAVAILABLE there if the parent had opened it.
 */
#ifndef S4_CONTEXT_H
#define S4_CONTEXT_H

#include "types.h"

S4_BEGIN_DECLS

typedef struct s4_context s4_context;

typedef struct s4_context_options {
    size_t struct_size;
    int threads; /* threads of the CPU place; 0 = all processors of this process. A plan may ask for fewer. */
    int device;  /* CUDA device number, from 0 */

    /* Host memory of workspaces and of set-up. Both NULL: aligned_alloc and free. `allocate` returns memory
     * aligned to `alignment` (a power of two), or NULL. */
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *pointer);
    void *allocator_user;

    /* Long work (set-up, refresh, forward, backward) reports `done` of `total` blocks; return nonzero to cancel:
     * the call then returns S4_ERROR_CANCELLED. Called from the thread that made the call. */
    int (*progress)(void *user, const char *operation, int64_t done, int64_t total);
    void *progress_user;

    /* Most instructions that the CPU place uses: "x86-64", "x86-64-v3" (AVX2) or "x86-64-v4" (AVX-512); elsewhere there is
     * one level. NULL: all that the processor has. The environment variable S4_CPU_LEVEL caps it, too. Bits may differ
     * between levels. */
    const char *cpu_level;

    /* For those who look for an error. strict: a call whose operations or copies are not those that its plan lists is
     * S4_ERROR_MISMATCH. shadow: plans that use the GPU also run every operation on the CPU; the first result that differs,
     * or is not finite, is S4_ERROR_MISMATCH with operation, tensor, index and both values. It takes the memory of the
     * problem on the CPU on top of the plan's, and tensors on the host. */
    int strict, shadow;

    int ignore_wisdom; /* 1: FFT plans as on a machine that was never tuned */
} s4_context_options;

/* `options` may be NULL. S4_ERROR_ARGUMENT, S4_ERROR_MEMORY; *context is NULL then. */
S4_API s4_status s4_context_create(const s4_context_options *options, s4_context **context);
S4_API void s4_context_destroy(s4_context *context); /* NULL is fine */
S4_API int s4_context_threads(const s4_context *context);

/* What a place is. Never fails for lack of a device: `available` is 0 then and `reason` says why. */
typedef struct s4_place_info {
    int available;     /* work can be placed there */
    int emulated;      /* kernels are executed by the CPU: right values, no speed */
    char name[128];    /* processor or device */
    char reason[256];  /* why it is not available, else "" */
    char libraries[256]; /* FFT and BLAS libraries, or CUDA runtime and cuFFT, with versions and threads */
    char level[16];    /* CPU: instructions in use, as in cpu_level; GPU: "" */
    int64_t memory;    /* bytes of device memory, 0 for the CPU */
    int capability;    /* CUDA compute capability, 90 for 9.0; 0 for the CPU */
} s4_place_info;
S4_API s4_status s4_context_place(s4_context *context, s4_place place, s4_place_info *info);

/* Bytes that the library holds in a place through this context, now and at most since the last reset. */
typedef struct s4_memory_use {
    int64_t current, peak;
} s4_memory_use;
S4_API s4_status s4_context_memory(s4_context *context, s4_place place, s4_memory_use *use);
S4_API s4_status s4_context_memory_reset(s4_context *context, s4_place place); /* peak = current */

/* What was executed since the context was made. GPU numbers are 0 as long as the GPU place was not opened. */
typedef struct s4_ledger {
    int64_t operations[S4_PLACE_COUNT]; /* operations of plans, by place */
    int64_t launches;                   /* GPU kernel launches and cuFFT executions */
    int64_t moved_to_device, moved_to_host; /* bytes */
} s4_ledger;
S4_API s4_status s4_context_ledger(s4_context *context, s4_ledger *ledger);

/*
 * FFT plans are FFTW's ESTIMATE: the same in every process, so bits are too. Tuning measures instead, for the FFTs that
 * a plan of `problem` (see plan.h) needs, for at most `seconds` each (0 = 10), and stores the wisdom in
 * $XDG_CACHE_HOME/s4 (or ~/.cache/s4), one file per FFTW version and processor; every context made later reads it. A
 * missing, corrupt or foreign file is as if there were none. `path` receives the file's name (may be NULL).
 * S4_ERROR_FILE: it could not be written; plans of this process are tuned all the same.
 */
struct s4_problem;
S4_API s4_status s4_context_tune(s4_context *context, const struct s4_problem *problem, double seconds, char *path,
                                 size_t path_size);

S4_END_DECLS
#endif
