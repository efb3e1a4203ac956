/*
 * The matrices of the chunked state form, and the way back from their gradients to those of the effective parameters:
 * channels of the block in pieces, one in each lane of CHUNK_SETUP.
 */
#include "gpu/chunk.h"

gpu_chunk_system gpu_chunk_system_of(const s4_task *task)
{
    const s4_shape *s = task->shape;
    const s4_chunk_system_parts at = s4_chunk_system_parts_of(s);
    const int64_t size = (int64_t)gpu_element_bytes(task), channel = s4_chunk_system(s);
    char *base = (char *)task->buffer[S4_BUFFER_CHUNK_SYSTEM] + size * channel * (s->resident ? task->channel : 0);
    gpu_chunk_system system = {.power = base + size * at.power,
                               .into = base + size * at.into,
                               .out = base + size * at.out,
                               .kernel = base + size * at.kernel,
                               .channel = channel};
    if (s->direction != S4_DIRECTION_TRAINING) return system;
    base += size * at.end;
    system.power_back = base + size * at.power;
    system.into_back = base + size * at.into;
    system.out_back = base + size * at.out;
    system.kernel_back = base + size * at.kernel;
    return system;
}

gpu_chunk_gradients gpu_chunk_gradients_of(const s4_task *task)
{
    const s4_chunk_sums_parts at = s4_chunk_sums_parts_of(task->shape);
    double *base = task->buffer[S4_BUFFER_CHUNK_SUMS];
    return (gpu_chunk_gradients){.kernel = base + at.kernel,
                                 .out = base + at.out,
                                 .into = base + at.into,
                                 .power = base + at.power,
                                 .ends = base + at.ends,
                                 .channel = at.end,
                                 .wants_system = (task->wanted & S4_WANTED_SYSTEM) != 0};
}

static gpu_chunk_channels channels_from(const s4_task *task, int64_t first)
{
    return (gpu_chunk_channels){
        .channel = task->channel,
        .first = first,
        .count = gpu_least(task->channels - first, s4_gpu_chunk_setup_lanes(task->shape)),
        .state = s4_chunk_state(task->shape),
        .lanes = task->buffer[S4_BUFFER_CHUNK_SETUP],
        .lane_size = s4_chunk_setup(task->shape),
    };
}

/* The flags begin anew with the first block of a refresh, unless the set-up on the device has begun them. */
static s4_status chunk_matrices(const s4_task *task)
{
    static const char operation[] = "chunk matrices";
    const int anew = task->shape->resident && task->channel == 0 && !task->buffer[S4_BUFFER_RAW];
    const gpu_chunk_system system = gpu_chunk_system_of(task);
    gpu_model model;
    GPU_TRY(gpu_model_open(task, anew, &model));
    for (int64_t first = 0; first < task->channels; first += s4_gpu_chunk_setup_lanes(task->shape)) {
        const gpu_chunk_channels channels = channels_from(task, first);
        GPU_LAUNCH(chunk_matrices, &model, &channels, &system);
    }
    return S4_OK;
}

static s4_status chunk_gradient(const s4_task *task)
{
    static const char operation[] = "chunk gradient";
    const s4_system_gradient gradient = s4_system_gradient_view(task->shape, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]);
    const gpu_chunk_gradients sums = gpu_chunk_gradients_of(task);
    gpu_model model;
    if (!(task->wanted & S4_WANTED_KERNEL)) return S4_OK;
    GPU_TRY(gpu_model_open(task, 0, &model));
    for (int64_t first = 0; first < task->channels; first += s4_gpu_chunk_setup_lanes(task->shape)) {
        const gpu_chunk_channels channels = channels_from(task, first);
        GPU_LAUNCH(chunk_gradient, &model, &channels, &sums);
    }
    const gpu_channel_sums of = {task->channel, task->channels, sums.channel, sums.ends};
    GPU_LAUNCH(state_gradients, &model, &of, 1, &gradient);
    return S4_OK;
}

s4_status gpu_chunk_matrices(const s4_task *task) { return gpu_on_device(task, "chunk matrices", chunk_matrices); }

s4_status gpu_chunk_gradient(const s4_task *task) { return gpu_on_device(task, "chunk gradient", chunk_gradient); }
