/* Controls of the emulated GPU, for tests (C and C++).
 *
 * The emulation is linked into the GPU module, a shared object that the library
 * loads at run time, so a test has two ways to reach it:
 *   - environment variables, read at the module's first CUDA or cuFFT call;
 *   - the functions below, looked up with dlsym() in the loaded module.
 *
 *   S4_EMULATION_SEED       schedule, see s4_emulation_set_seed()       (1)
 *   S4_EMULATION_DEVICES    number of devices, 0 to 8                   (1)
 *   S4_EMULATION_MEMORY     bytes of memory on each device              (16 GiB)
 *   S4_EMULATION_FAIL_CALL  "N", "NAME:N" or "NAME:N:ERROR", comma-separated;
 *                           see s4_emulation_fail_call()                (none)
 *   S4_EMULATION_LEAKS      "fail": objects that are still alive when the
 *                           module is unloaded are a violation          (report)
 *
 * A violation is something that a real device would answer with a crash, with
 * wrong numbers or not at all. It is described on standard error and ends the
 * process with S4_EMULATION_VIOLATION_EXIT. What the real runtime answers with an
 * error code gets the same error code here. */
#ifndef S4_GPU_EMULATION_H
#define S4_GPU_EMULATION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define S4_EMULATION_VIOLATION_EXIT 97
#define S4_EMULATION_API __attribute__((visibility("default")))

/* Schedule.
 * 0: eager; every operation runs when it is issued, blocks and threads in order.
 * 1: as lazy as the rules allow; work runs only when a synchronising call needs
 *    it, blocks and threads in falling order.
 * 2 and up: drawn from the seed: streams, blocks and threads in random order. */
S4_EMULATION_API void s4_emulation_set_seed(uint64_t seed);

/* 0 makes the machine one without a GPU: cudaGetDeviceCount() returns an error
 * and leaves the count unwritten, cuFFT cannot create a plan. */
S4_EMULATION_API void s4_emulation_set_devices(int count);

/* Bytes of memory on each device; allocations beyond it fail. */
S4_EMULATION_API void s4_emulation_set_memory(size_t bytes);

/* Lets the nth call from now on (1 = the next) of the named function fail once
 * with `error`, or, where that is 0, with an error usual for the function.
 * name NULL counts every call that can fail. Calls that release something never
 * fail, as cleaning up after them would be impossible. Two names stand for no
 * function: "launch" is a kernel launch that is refused at once; "kernel" is a
 * kernel that dies while it runs, which leaves a sticky error behind that every
 * later call returns. nth 0 takes the failure back. */
S4_EMULATION_API void s4_emulation_fail_call(const char *name, long nth, int error);

typedef struct s4_emulation_counts {
    uint64_t calls;                           /* that could have been made to fail */
    uint64_t launches;                        /* kernels issued */
    uint64_t kernels;                         /* kernels run, and their ... */
    uint64_t blocks, threads;                 /* ... blocks and threads */
    uint64_t switches;                        /* between fibers: the price of barriers */
    uint64_t transforms;                      /* cuFFT executions run */
    uint64_t bytes_to_device, bytes_to_host;  /* copies run */
    uint64_t device_bytes, device_bytes_peak; /* live, of all devices; with cuFFT's own work areas */
    uint64_t pinned_bytes, pinned_bytes_peak;
} s4_emulation_counts;
S4_EMULATION_API void s4_emulation_get_counts(s4_emulation_counts *counts);

/* Device and pinned allocations, streams, events, graphs and FFT plans alive;
 * the second prints each kind on standard error as well. */
S4_EMULATION_API size_t s4_emulation_live_objects(void);
S4_EMULATION_API size_t s4_emulation_report_leaks(void);

/* Back to what the environment says; counts and peaks start again; a sticky
 * error and failures yet to come are forgotten. Live objects stay. */
S4_EMULATION_API void s4_emulation_reset(void);

#ifdef __cplusplus
}
#endif
#endif
