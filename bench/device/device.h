/* Measurement on one GPU, on a stream of our own: what the parts of s4_floors share. */
#ifndef BENCH_DEVICE_H
#define BENCH_DEVICE_H

#include <cuda_runtime_api.h>
#include <stdint.h>

/* Tries the call; what fails is told on standard error, once, and 0 is the answer. */
#define TRY_CUDA(call) device_try(call, #call)
int device_try(cudaError_t error, const char *call);

struct device {
    cudaStream_t stream;
    cudaEvent_t begin, end;
    int emulated; /* work is done once: its time means nothing */
};
int device_open(struct device *device, int emulated);
void device_close(struct device *device);

/* Microseconds from one event to the next of one call of `work`, which returns 0 when it failed: the median of some
 * rounds, each of as many calls as fill some milliseconds. Negative: it failed. */
double device_time(const struct device *device, int (*work)(void *state), void *state);

/* GB/s, a GB being 1e9 bytes: within the device, bytes read and written both counted; from and to pinned host memory.
 * Negative: not measured. */
struct bandwidth {
    double device, to_device, to_host;
};
struct bandwidth copy_bandwidth(const struct device *device, int64_t bytes);

#endif
