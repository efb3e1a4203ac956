/*
 * The table of the GPU place and the module's only exported name. Eigen-decompositions and the set-up of layers outside
 * plans belong to the host: their entries are NULL.
 */
#include "gpu/chunk.h"

static const s4_backend backend = {
    .version = S4_BACKEND_VERSION,
    .name = "cuda",

    .open = gpu_open,
    .close = gpu_close,
    .describe = gpu_describe,

    .allocate = gpu_allocate,
    .release = gpu_release,
    .ledger = gpu_ledger,
    .pin = gpu_pin,
    .unpin = gpu_unpin,

    .queue_create = gpu_queue_create,
    .queue_destroy = gpu_queue_destroy,
    .queue_use_stream = gpu_queue_use_stream,
    .copy = gpu_copy,
    .record = gpu_record,
    .wait = gpu_wait,
    .await = gpu_await,
    .synchronise = gpu_synchronise,

    .check = gpu_check_flags,

    .prepare = gpu_prepare,
    .unprepare = gpu_unprepare,

    .kernel = gpu_kernel,
    .spectrum = gpu_spectrum,
    .convolve = gpu_convolve,
    .convolve_backward = gpu_convolve_backward,
    .correlate = gpu_correlate,
    .kernel_backward = gpu_kernel_backward,

    .transform = gpu_transform_raw,
    .read_out = gpu_read_out,
    .step_system = gpu_step_system,
    .step = gpu_step,
    .states = gpu_states,
    .states_backward = gpu_states_backward,
    .state_gradients = gpu_state_gradients,
    .chain = gpu_chain,

    .chunk_matrices = gpu_chunk_matrices,
    .chunk_forward = gpu_chunk_forward,
    .chunk_backward = gpu_chunk_backward,
    .chunk_gradient = gpu_chunk_gradient,
};

S4_API const s4_backend *s4_gpu_backend(const s4_host *host);

const s4_backend *s4_gpu_backend(const s4_host *host)
{
    gpu_host = host;
    return &backend;
}
