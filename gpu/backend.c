/*
 * The table of the GPU place and the module's only exported name. Set-up, recurrence and the chain back to raw
 * parameters belong to the host: their entries are NULL.
 */
#include "gpu/device.h"

static const s4_backend backend = {
    .version = S4_BACKEND_VERSION,
    .name = "cuda",

    .open = gpu_open,
    .close = gpu_close,
    .describe = gpu_describe,

    .allocate = gpu_allocate,
    .release = gpu_release,
    .to_device = gpu_to_device,
    .to_host = gpu_to_host,
    .synchronise = gpu_synchronise,
    .ledger = gpu_ledger,

    .prepare = gpu_prepare,
    .unprepare = gpu_unprepare,

    .kernel = gpu_kernel,
    .spectrum = gpu_spectrum,
    .convolve = gpu_convolve,
    .convolve_backward = gpu_convolve_backward,
    .correlate = gpu_correlate,
    .kernel_backward = gpu_kernel_backward,
};

S4_API const s4_backend *s4_gpu_backend(const s4_host *host);

const s4_backend *s4_gpu_backend(const s4_host *host)
{
    gpu_host = host;
    return &backend;
}
