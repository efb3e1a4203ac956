/* Copies between places and to the caller, as the plan lists them. */
#include <string.h>

#include "s4/errors.h"
#include "s4/execute.h"

#define CPU S4_PLACE_CPU
#define GPU S4_PLACE_GPU

static s4_status to_device(const s4_call *call, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                           size_t width, size_t height)
{
    return call->plan->backend[GPU]->to_device(call->plan->device[GPU], to, to_pitch, from, from_pitch, width, height);
}

static s4_status to_host(const s4_call *call, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                         size_t width, size_t height)
{
    return call->plan->backend[GPU]->to_host(call->plan->device[GPU], to, to_pitch, from, from_pitch, width, height);
}

/* A contiguous buffer of the plan, `bytes` from `offset` on, towards one place. */
static s4_status move(const s4_call *call, s4_buffer buffer, s4_place towards, size_t offset, size_t bytes)
{
    char *host = (char *)call->buffer[CPU][buffer] + offset, *device = (char *)call->buffer[GPU][buffer] + offset;
    return towards == GPU ? to_device(call, device, bytes, host, bytes, bytes, 1)
                          : to_host(call, host, bytes, device, bytes, bytes, 1);
}

/* The part of the caller's (batch, H, length) tensor that a block covers: rows of channels * length samples. */
static s4_status move_samples(const s4_call *call, s4_buffer buffer, const void *from, void *to, const s4_block *block)
{
    const s4_shape *shape = &call->plan->shape;
    size_t sample = s4_dtype_size(shape->dtype);
    size_t pitch = (size_t)(shape->d_model * call->length) * sample;
    size_t width = (size_t)(block->channels * call->length) * sample;
    size_t offset = (size_t)block->row * pitch + (size_t)(block->channel * call->length) * sample;
    void *staged = call->buffer[GPU][buffer];
    if (from) return to_device(call, staged, width, (const char *)from + offset, pitch, width, (size_t)block->rows);
    if (to) return to_host(call, (char *)to + offset, pitch, staged, width, width, (size_t)block->rows);
    return S4_OK; /* not wanted */
}

static s4_status kernel_out(const s4_call *call, const s4_block *block)
{
    const s4_shape *shape = &call->plan->shape;
    s4_place place = call->plan->problem.placement.stage[S4_STAGE_KERNEL];
    size_t row = (size_t)shape->kernel_length * s4_dtype_size(shape->dtype);
    size_t width = row * (size_t)block->channels, pitch = row * (size_t)shape->d_model;
    char *to = (char *)call->kernel + row * (size_t)block->channel;
    const char *from = call->buffer[place][S4_BUFFER_KERNEL];
    if (place == GPU) return to_host(call, to, pitch, from, width, width, (size_t)shape->kernels);
    for (size_t c = 0; c < (size_t)shape->kernels; c++) memcpy(to + c * pitch, from + c * width, width);
    return S4_OK;
}

/* Each part of the gradients comes from where its stage ran: those of the kernel, then that of D. */
static s4_status gradients_to_host(const s4_call *call)
{
    const s4_shape *shape = &call->plan->shape;
    const s4_placement *placement = &call->plan->problem.placement;
    size_t skip = (size_t)(shape->d_model * shape->channels) * sizeof(double);
    size_t rest = (size_t)s4_system_gradient_count(shape) * sizeof(double) - skip;
    if (placement->stage[S4_STAGE_KERNEL] == GPU && (call->wanted & S4_WANTED_KERNEL))
        S4_TRY(move(call, S4_BUFFER_SYSTEM_GRADIENT, CPU, 0, rest));
    if (placement->stage[S4_STAGE_CONVOLVE] == GPU && (call->wanted & S4_WANTED_D))
        S4_TRY(move(call, S4_BUFFER_SYSTEM_GRADIENT, CPU, rest, skip));
    return S4_OK;
}

s4_status s4_transfer_run(const s4_call *call, s4_transfer transfer, const s4_block *block)
{
    const s4_shape *shape = &call->plan->shape;
    const s4_placement *placement = &call->plan->problem.placement;
    size_t kernel_row = (size_t)(shape->kernel_length * shape->kernels * block->channels);
    switch (transfer) {
    case S4_TRANSFER_NONE:
        return S4_OK;
    case S4_TRANSFER_SYSTEM:
        return move(call, S4_BUFFER_SYSTEM, GPU, 0, (size_t)s4_system_count(shape) * sizeof(double));
    case S4_TRANSFER_KERNEL:
        return move(call, S4_BUFFER_KERNEL, placement->stage[S4_STAGE_CONVOLVE], 0,
                    kernel_row * s4_dtype_size(shape->dtype));
    case S4_TRANSFER_KERNEL_GRADIENT:
        return move(call, S4_BUFFER_KERNEL_GRADIENT, placement->stage[S4_STAGE_KERNEL], 0, kernel_row * sizeof(double));
    case S4_TRANSFER_KERNEL_OUT:
        return kernel_out(call, block);
    case S4_TRANSFER_U:
        return move_samples(call, S4_BUFFER_BLOCK_U, call->u, NULL, block);
    case S4_TRANSFER_DY:
        return move_samples(call, S4_BUFFER_BLOCK_DY, call->dy, NULL, block);
    case S4_TRANSFER_Y:
        return move_samples(call, S4_BUFFER_BLOCK_U, NULL, call->y, block);
    case S4_TRANSFER_DU:
        return move_samples(call, S4_BUFFER_BLOCK_DY, NULL, call->du, block);
    case S4_TRANSFER_GRADIENTS:
        return gradients_to_host(call);
    }
    return S4_OK;
}
