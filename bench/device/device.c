/* Time on a stream, by events: see device.h. */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 7, CALLS_MAX = 64 };
static const double round_us = 15000;

int device_try(cudaError_t error, const char *call)
{
    if (error == cudaSuccess) return 1;
    fprintf(stderr, "s4_floors: %s: %s\n", call, cudaGetErrorString(error));
    (void)cudaGetLastError();
    return 0;
}

int device_open(struct device *device, int emulated)
{
    *device = (struct device){.emulated = emulated};
    return TRY_CUDA(cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking)) &&
           TRY_CUDA(cudaEventCreate(&device->begin)) && TRY_CUDA(cudaEventCreate(&device->end));
}

void device_close(struct device *device)
{
    if (device->begin) (void)cudaEventDestroy(device->begin);
    if (device->end) (void)cudaEventDestroy(device->end);
    if (device->stream) (void)cudaStreamDestroy(device->stream);
}

static double time_calls(const struct device *device, int (*work)(void *), void *state, int calls)
{
    float ms = 0;
    if (!TRY_CUDA(cudaEventRecord(device->begin, device->stream))) return -1;
    for (int i = 0; i < calls; i++)
        if (!work(state)) return -1;
    if (!TRY_CUDA(cudaEventRecord(device->end, device->stream)) || !TRY_CUDA(cudaEventSynchronize(device->end)) ||
        !TRY_CUDA(cudaEventElapsedTime(&ms, device->begin, device->end)))
        return -1;
    return 1000.0 * (double)ms / calls;
}

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double device_time(const struct device *device, int (*work)(void *), void *state)
{
    double rounds[ROUNDS];
    double once = time_calls(device, work, state, 1); /* warms up */
    if (once < 0 || device->emulated) return once;
    once = time_calls(device, work, state, 1);
    if (once < 0) return -1;
    int calls = once > 0 && once * CALLS_MAX > round_us ? (int)(round_us / once) : CALLS_MAX;
    if (calls < 1) calls = 1;
    for (int i = 0; i < ROUNDS; i++) {
        rounds[i] = time_calls(device, work, state, calls);
        if (rounds[i] < 0) return -1;
    }
    qsort(rounds, ROUNDS, sizeof *rounds, ascending);
    return rounds[ROUNDS / 2];
}
