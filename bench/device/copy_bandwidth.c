/* How fast plain copies are: the measure of everything that must move its samples once. */
#include "device.h"

struct copy {
    const struct device *device;
    void *to;
    const void *from;
    size_t bytes;
    enum cudaMemcpyKind kind;
};

static int copy(void *state)
{
    const struct copy *c = state;
    return TRY_CUDA(cudaMemcpyAsync(c->to, c->from, c->bytes, c->kind, c->device->stream));
}

static double gb_per_second(struct copy c, int passes)
{
    const double us = device_time(c.device, copy, &c);
    return us > 0 ? 1e-3 * passes * (double)c.bytes / us : -1;
}

struct bandwidth copy_bandwidth(const struct device *device, int64_t bytes)
{
    struct bandwidth found = {-1, -1, -1};
    void *a = NULL, *b = NULL, *host = NULL;
    const size_t size = (size_t)bytes, host_size = size / 4;
    if (TRY_CUDA(cudaMalloc(&a, size)) && TRY_CUDA(cudaMalloc(&b, size)) && TRY_CUDA(cudaMemset(a, 1, size))) {
        found.device = gb_per_second((struct copy){device, b, a, size, cudaMemcpyDeviceToDevice}, 2);
        if (TRY_CUDA(cudaMallocHost(&host, host_size))) {
            found.to_host = gb_per_second((struct copy){device, host, a, host_size, cudaMemcpyDeviceToHost}, 1);
            found.to_device = gb_per_second((struct copy){device, b, host, host_size, cudaMemcpyHostToDevice}, 1);
        }
    }
    if (host) (void)cudaFreeHost(host);
    if (a) (void)cudaFree(a);
    if (b) (void)cudaFree(b);
    return found;
}
