/*
 * Copies between places and to the caller, as the plan lists them. All but samples of host tensors (staging.c) go through
 * lane WORK, in the order of the operations, and the host waits for them: its side is written or read next.
 */
#include <string.h>

#include "s4/errors.h"
#include "s4/execute.h"

#define CPU S4_PLACE_CPU
#define GPU S4_PLACE_GPU
#define EVENT (S4_EVENTS - 1)

s4_status s4_transfer_copy(s4_call *call, s4_lane lane, const s4_copy *copy)
{
    const s4_plan *plan = call->plan;
    if (!copy->width || !copy->height) return S4_OK;
    *(copy->to_device ? &call->to_device : &call->to_host) += (int64_t)(copy->width * copy->height);
    return plan->backend[GPU]->copy(plan->device[GPU], call->workspace->queue, lane, copy);
}

/* The same in lane WORK, waited for. */
static s4_status copy_now(s4_call *call, const s4_copy *copy)
{
    const s4_backend *backend = call->plan->backend[GPU];
    s4_device *device = call->plan->device[GPU];
    S4_TRY(s4_transfer_copy(call, S4_LANE_WORK, copy));
    S4_TRY(backend->record(device, call->workspace->queue, S4_LANE_WORK, EVENT));
    return backend->await(device, call->workspace->queue, EVENT);
}

static s4_status copy_bytes(s4_call *call, s4_place towards, void *to, const void *from, size_t bytes)
{
    s4_copy copy = {towards == GPU, to, from, bytes, bytes, bytes, 1};
    return copy_now(call, &copy);
}

/* A contiguous buffer of the plan, `bytes` from `offset` on, towards one place. */
static s4_status move(s4_call *call, s4_buffer buffer, s4_place towards, size_t offset, size_t bytes)
{
    char *host = (char *)call->buffer[CPU][buffer] + offset, *device = (char *)call->buffer[GPU][buffer] + offset;
    return towards == GPU ? copy_bytes(call, GPU, device, host, bytes) : copy_bytes(call, CPU, host, device, bytes);
}

/* Parts of SYSTEM and the parameters they are made from. The host computes with what it gets next: what is wrong with the
 * parameters is told before, not by what becomes of them. */
static s4_status move_system(s4_call *call, s4_place towards)
{
    const s4_shape *shape = &call->plan->shape;
    const unsigned lambda = 1u << S4_PARAMETER_A_REAL | 1u << S4_PARAMETER_A_IMAG, dt = 1u << S4_PARAMETER_INV_DT;
    const unsigned b = 1u << S4_PARAMETER_B, p = 1u << S4_PARAMETER_P, c = 1u << S4_PARAMETER_C;
    const char *base = call->buffer[CPU][S4_BUFFER_SYSTEM];
    s4_system at = s4_system_view(shape, call->buffer[CPU][S4_BUFFER_SYSTEM]);
    const struct {
        const double *begin, *end;
        unsigned made_from;
    } parts[] = {
        {at.lambda, at.b, lambda},
        {at.b, at.p, b},
        {at.p, at.c, p},
        {at.c, at.dt, c | lambda | p | dt}, /* a bandlimit and the conversion of C look at these */
        {at.dt, at.d, dt},
        {at.d, at.lambda + s4_system_count(shape), 1u << S4_PARAMETER_D},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t offset = (size_t)((const char *)parts[i].begin - base), end = (size_t)((const char *)parts[i].end - base);
        if (call->changed & parts[i].made_from) S4_TRY(move(call, S4_BUFFER_SYSTEM, towards, offset, end - offset));
    }
    return towards == CPU ? s4_execute_check(call) : S4_OK;
}

static s4_status move_buffer(s4_call *call, const s4_operation_row *row, const s4_block *block)
{
    s4_buffer buffer = s4_operation_moved(row);
    s4_place towards = s4_operation_towards(row, &call->plan->problem.placement);
    if (buffer == S4_BUFFER_SYSTEM) return move_system(call, towards);
    return move(call, buffer, towards, 0, (size_t)s4_buffer_moved(buffer, &call->plan->shape, block->channels));
}

/* Raw parameters to the device, those that changed; plain C belongs to C. */
static s4_status raw_to_device(s4_call *call)
{
    const s4_shape *shape = &call->plan->shape;
    double *to = call->buffer[GPU][S4_BUFFER_RAW];
    for (int p = 0; p <= S4_PARAMETER_COUNT; p++) {
        int64_t offset = s4_raw_offset(shape, p), count = s4_raw_offset(shape, p + 1) - offset;
        const double *from = p < S4_PARAMETER_COUNT ? call->raw->parameter[p] : call->raw->plain_c;
        int changed = p < S4_PARAMETER_COUNT ? call->changed >> p & 1 : call->changed != 0;
        if (from && changed) S4_TRY(copy_bytes(call, GPU, to + offset, from, (size_t)count * sizeof *to));
    }
    return S4_OK;
}

static s4_status kernel_out(s4_call *call, const s4_block *block)
{
    const s4_shape *shape = &call->plan->shape;
    s4_place place = call->plan->problem.placement.stage[S4_STAGE_KERNEL];
    size_t row = (size_t)shape->kernel_length * s4_dtype_size(shape->dtype);
    size_t width = row * (size_t)block->channels, pitch = row * (size_t)shape->d_model;
    char *to = (char *)call->kernel + row * (size_t)block->channel;
    const char *from = call->buffer[place][S4_BUFFER_KERNEL];
    s4_copy copy = {0, to, from, pitch, width, width, (size_t)shape->kernels};
    if (place == GPU) return copy_now(call, &copy);
    for (size_t c = 0; c < (size_t)shape->kernels; c++) memcpy(to + c * pitch, from + c * width, width);
    return S4_OK;
}

/* Each part of the gradients comes from where its stage ran: those of the kernel, then that of D. */
static s4_status move_gradients(s4_call *call)
{
    const s4_shape *shape = &call->plan->shape;
    const s4_placement *placement = &call->plan->problem.placement;
    s4_place set_up = placement->stage[S4_STAGE_SETUP];
    size_t skips = (size_t)(shape->d_model * shape->channels) * sizeof(double);
    size_t rest = (size_t)s4_system_gradient_count(shape) * sizeof(double) - skips;
    if (placement->stage[s4_gradient_stage(shape)] != set_up && (call->wanted & S4_WANTED_KERNEL))
        S4_TRY(move(call, S4_BUFFER_SYSTEM_GRADIENT, set_up, 0, rest));
    if (placement->stage[S4_STAGE_CONVOLVE] != set_up && (call->wanted & S4_WANTED_D))
        S4_TRY(move(call, S4_BUFFER_SYSTEM_GRADIENT, set_up, rest, skips));
    return S4_OK;
}

/* Gradients made on the device into, or onto, the caller's. */
static s4_status raw_gradients_to_host(s4_call *call)
{
    const s4_shape *shape = &call->plan->shape;
    const double *from = call->buffer[GPU][S4_BUFFER_RAW_GRADIENT];
    double *stage = call->buffer[CPU][S4_BUFFER_STAGE_GRADIENT];
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        double *to = call->gradients->parameter[p];
        int64_t offset = s4_raw_offset(shape, p), count = s4_raw_offset(shape, p + 1) - offset;
        if (!to || !count) continue;
        S4_TRY(copy_bytes(call, CPU, stage + offset, from + offset, (size_t)count * sizeof *to));
        for (int64_t i = 0; i < count; i++) to[i] = stage[offset + i] + (call->gradients->accumulate ? to[i] : 0);
    }
    return S4_OK;
}

/* States of a block: (batch,H,n,2) outside, (rows, channels, n, 2) on the device. */
static s4_status move_states(s4_call *call, s4_place towards, s4_buffer buffer, const double *outside,
                             const s4_block *block)
{
    const s4_shape *shape = &call->plan->shape;
    size_t state = (size_t)(2 * shape->modes) * sizeof(double);
    size_t pitch = (size_t)shape->d_model * state, width = (size_t)block->channels * state;
    char *host = (char *)(uintptr_t)outside + (size_t)block->row * pitch + (size_t)block->channel * state;
    void *device = call->buffer[GPU][buffer];
    s4_copy up = {1, device, host, width, pitch, width, (size_t)block->rows};
    s4_copy down = {0, host, device, pitch, width, width, (size_t)block->rows};
    return outside ? copy_now(call, towards == GPU ? &up : &down) : S4_OK;
}

s4_status s4_transfer_run(s4_call *call, const s4_operation_row *row, const s4_block *block)
{
    int64_t outputs = call->plan->shape.channels;
    switch (row->transfer) {
    case S4_TRANSFER_NONE: return S4_OK;
    case S4_TRANSFER_MOVE: return move_buffer(call, row, block);
    case S4_TRANSFER_RAW: return raw_to_device(call);
    case S4_TRANSFER_KERNEL_OUT: return kernel_out(call, block);
    case S4_TRANSFER_LENGTHS:
        if (!call->lengths) return S4_OK;
        return copy_bytes(call, GPU, call->buffer[GPU][S4_BUFFER_LENGTHS], call->lengths,
                          (size_t)call->batch * sizeof *call->lengths);
    case S4_TRANSFER_U:
        return s4_stage_up(call, S4_BUFFER_STAGE_U, S4_BUFFER_BLOCK_U, call->u, &call->u_strides, 1, block);
    case S4_TRANSFER_DY:
        return s4_stage_up(call, S4_BUFFER_STAGE_DY, S4_BUFFER_BLOCK_DY, call->dy, &call->dy_strides, outputs, block);
    case S4_TRANSFER_Y: return s4_stage_down(call, block);
    case S4_TRANSFER_DU: return call->du ? s4_stage_down(call, block) : S4_OK;
    case S4_TRANSFER_STATE_IN: return move_states(call, GPU, S4_BUFFER_BLOCK_STATE, call->state_in, block);
    case S4_TRANSFER_STATE_OUT: return move_states(call, CPU, S4_BUFFER_BLOCK_STATE, call->state_out, block);
    case S4_TRANSFER_DSTATE_OUT: return move_states(call, GPU, S4_BUFFER_BLOCK_DSTATE, call->dstate_out, block);
    case S4_TRANSFER_DSTATE_IN: return move_states(call, CPU, S4_BUFFER_BLOCK_DSTATE, call->dstate_in, block);
    case S4_TRANSFER_GRADIENTS: return move_gradients(call);
    case S4_TRANSFER_RAW_GRADIENTS: return raw_gradients_to_host(call);
    }
    return S4_OK;
}
