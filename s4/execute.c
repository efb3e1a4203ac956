/*
 * Runs the operations of a phase in the plan's order. Consecutive operations that are repeated form loops: over blocks
 * of channels, and inside over blocks of batch rows. Allocates nothing.
 */
#include "s4/execute.h"

#include <stdio.h>
#include <string.h>

#include "s4/context_object.h"
#include "s4/errors.h"
#include "s4/shadow.h"

static void locate_buffers(s4_call *call)
{
    const s4_map *map = &call->plan->map;
    memset(call->buffer, 0, sizeof call->buffer);
    for (int i = 0; i < map->buffer_count; i++) {
        const s4_map_buffer *b = &map->buffer[i];
        call->buffer[b->place][b->buffer] = (char *)call->workspace->block[b->place] + b->offset;
    }
}

/* What the set-up's entries read and write, in the place where they run. */
static void locate_parameters(s4_call *call)
{
    const s4_shape *shape = &call->plan->shape;
    double *raw = call->buffer[S4_PLACE_GPU][S4_BUFFER_RAW], *made = call->buffer[S4_PLACE_GPU][S4_BUFFER_RAW_GRADIENT];
    if (call->raw && raw) {
        call->device_raw = *call->raw;
        for (int p = 0; p < S4_PARAMETER_COUNT; p++) call->device_raw.parameter[p] = raw + s4_raw_offset(shape, p);
        if (call->raw->plain_c) call->device_raw.plain_c = raw + s4_raw_offset(shape, S4_PARAMETER_COUNT);
    }
    if (call->gradients && made) {
        call->device_gradients = *call->gradients;
        call->device_gradients.accumulate = 0;
        for (int p = 0; p < S4_PARAMETER_COUNT; p++)
            if (call->gradients->parameter[p]) call->device_gradients.parameter[p] = made + s4_raw_offset(shape, p);
    } else if (call->gradients)
        call->device_gradients = *call->gradients;
}

/* First element of a block in a tensor of the caller. */
static void *element(const s4_plan *plan, const void *tensor, const s4_strides *strides, const s4_block *block)
{
    if (!tensor) return NULL;
    int64_t offset = block->row * strides->batch + block->channel * strides->channel;
    return (char *)(uintptr_t)tensor + offset * (int64_t)s4_dtype_size(plan->shape.dtype);
}

static double *state_element(const s4_call *call, const double *states, const s4_block *block)
{
    const s4_shape *shape = &call->plan->shape;
    if (!states) return NULL;
    return (double *)(uintptr_t)states + (block->row * shape->d_model + block->channel) * 2 * shape->modes;
}

/* The caller's tensors, in the place where they are. */
static void give_tensors(const s4_call *call, const s4_block *block, s4_task *task)
{
    const s4_plan *plan = call->plan;
    task->u_strides = call->u_strides;
    task->y_strides = call->y_strides;
    task->dy_strides = call->dy_strides;
    task->du_strides = call->du_strides;
    task->u = element(plan, call->u, &call->u_strides, block);
    task->dy = element(plan, call->dy, &call->dy_strides, block);
    task->y = element(plan, call->y, &call->y_strides, block);
    task->du = element(plan, call->du, &call->du_strides, block);
    task->lengths = call->lengths ? call->lengths + block->row : NULL;
    task->state_in = state_element(call, call->state_in, block);
    task->state_out = state_element(call, call->state_out, block);
    task->dstate_out = state_element(call, call->dstate_out, block);
    task->dstate_in = state_element(call, call->dstate_in, block);
    task->state_batch = plan->shape.d_model * 2 * plan->shape.modes;
}

/* What has come to the device of a block of the caller's tensors on the host. */
static void give_staged(const s4_call *call, const s4_block *block, s4_task *task)
{
    void *const *buffer = call->buffer[S4_PLACE_GPU];
    int64_t T = call->length, channels = block->channels, outputs = call->plan->shape.channels;
    size_t slot = (size_t)(call->round % S4_SLOTS);
    char *u = buffer[S4_BUFFER_BLOCK_U], *dy = buffer[S4_BUFFER_BLOCK_DY], *out = buffer[S4_BUFFER_BLOCK_OUT];
    task->u_strides = task->du_strides = (s4_strides){channels * T, T, channels * T, 1};
    task->y_strides = task->dy_strides = (s4_strides){outputs * channels * T, T, channels * T, 1};
    task->u = u + slot * s4_stage_slot(call, S4_BUFFER_BLOCK_U);
    out += slot * s4_stage_slot(call, S4_BUFFER_BLOCK_OUT);
    if (call->dy) task->dy = dy + slot * s4_stage_slot(call, S4_BUFFER_BLOCK_DY);
    if (call->dy && call->du) task->du = out;
    if (!call->dy) task->y = out;
    if (call->lengths) task->lengths = (const int64_t *)buffer[S4_BUFFER_LENGTHS] + block->row;
    if (call->state_in) task->state_in = buffer[S4_BUFFER_BLOCK_STATE];
    if (call->state_out) task->state_out = buffer[S4_BUFFER_BLOCK_STATE];
    if (call->dstate_out) task->dstate_out = buffer[S4_BUFFER_BLOCK_DSTATE];
    if (call->dstate_in) task->dstate_in = buffer[S4_BUFFER_BLOCK_DSTATE];
    task->state_batch = channels * 2 * call->plan->shape.modes;
}

static int is_staged(const s4_call *call, s4_place place)
{
    return place == S4_PLACE_GPU && call->plan->shape.tensors == S4_PLACE_CPU;
}

static s4_task make_task(const s4_call *call, s4_place place, const s4_operation_row *row, const s4_block *block)
{
    const s4_plan *plan = call->plan;
    int on_gpu = place == S4_PLACE_GPU;
    s4_task task = {
        .device = plan->device[place],
        .queue = on_gpu ? call->workspace->queue : NULL,
        .shape = &plan->shape,
        .prepared = plan->prepared[place],
        .buffer = call->buffer[place],
        .channel = block->channel,
        .channels = block->channels,
        .row = block->row,
        .rows = block->rows,
        .length = call->length,
        .raw = on_gpu && call->raw ? &call->device_raw : call->raw,
        .gradients = on_gpu && call->gradients ? &call->device_gradients : call->gradients,
        .wanted = call->wanted & S4_WANTED_GRADIENTS,
    };
    if (row->loop == S4_LOOP_BATCH && is_staged(call, place))
        give_staged(call, block, &task);
    else if (!is_staged(call, place))
        give_tensors(call, block, &task);
    return task;
}

static s4_operation entry_of(const s4_plan *plan, s4_place place, const s4_operation_row *row)
{
    s4_operation entry;
    memcpy(&entry, (const char *)plan->backend[place] + row->entry, sizeof entry);
    return entry;
}

static s4_status run_operation(s4_call *call, const s4_operation_row *row, const s4_block *block)
{
    s4_place place = s4_operation_place(row, &call->plan->problem.placement);
    int staged = row->loop == S4_LOOP_BATCH && row->transfer == S4_TRANSFER_NONE && is_staged(call, place);
    atomic_fetch_add(&call->plan->context->operations[place], 1);
    call->operations[place]++;
    if (row->transfer != S4_TRANSFER_NONE) return s4_transfer_run(call, row, block);
    s4_task task = make_task(call, place, row, block);
    if (staged) S4_TRY(s4_stage_enter(call));
    /* First, as what comes out may lie where something came in. */
    if (call->follower) S4_TRY(s4_execute_operation(call->follower, row, block));
    S4_TRY(entry_of(call->plan, place, row)(&task));
    if (call->follower) S4_TRY(s4_shadow_check(call, row, &task, call->follower, block));
    return staged ? s4_stage_leave(call) : S4_OK;
}

s4_status s4_execute_operation(s4_call *call, const s4_operation_row *row, const s4_block *block)
{
    s4_task task = make_task(call, S4_PLACE_CPU, row, block);
    return entry_of(call->plan, S4_PLACE_CPU, row)(&task);
}

/* Tells how far the work is; the caller may stop it. */
static s4_status report_progress(const s4_call *call, const s4_operation_row *row, int64_t done, int64_t total)
{
    const s4_context_options *options = &call->plan->context->options;
    if (options->progress && options->progress(options->progress_user, row->name, done, total))
        return s4_fail(S4_ERROR_CANCELLED, "cancelled in %s after %lld of %lld channels", row->name, (long long)done,
                       (long long)total);
    return S4_OK;
}

/* The operations of one call, in the order they run. */
typedef struct schedule {
    int count;
    const s4_operation_row *operation[S4_OPERATIONS_MAX];
} schedule;

/* The plan's operations of a phase, but for those that only make what this call does not want. */
static schedule make_schedule(const s4_call *call, s4_phase phase)
{
    const s4_map *map = &call->plan->map;
    schedule made = {0};
    for (int i = 0; i < map->operation_count; i++)
        if (map->operation[i]->phase == phase && s4_operation_wanted(map->operation[i], call->wanted))
            made.operation[made.count++] = map->operation[i];
    return made;
}

/* End of the run, from `first` on, of operations that are repeated at least at `loop`. */
static int run_end(const schedule *all, int first, int end, s4_loop loop)
{
    int last = first;
    while (last < end && all->operation[last]->loop >= loop) last++;
    return last;
}

static s4_status run_batch(s4_call *call, const schedule *all, int first, int end, s4_block block)
{
    for (int64_t row = 0; row < call->batch; row += block.rows) {
        int64_t rows = call->plan->shape.block_batch;
        block.row = row;
        block.rows = rows < call->batch - row ? rows : call->batch - row;
        for (int i = first; i < end; i++) S4_TRY(run_operation(call, all->operation[i], &block));
        call->round++;
    }
    return S4_OK;
}

static s4_status run_channels(s4_call *call, const schedule *all, int first, int end)
{
    int64_t H = call->plan->shape.d_model, step = call->plan->shape.block_channels;
    for (int64_t channel = 0; channel < H; channel += step) {
        s4_block block = {channel, step < H - channel ? step : H - channel, 0, call->batch};
        for (int i = first; i < end;) {
            if (all->operation[i]->loop == S4_LOOP_BATCH) {
                int last = run_end(all, i, end, S4_LOOP_BATCH);
                S4_TRY(run_batch(call, all, i, last, block));
                i = last;
            } else {
                S4_TRY(run_operation(call, all->operation[i++], &block));
            }
        }
        S4_TRY(report_progress(call, all->operation[first], channel + block.channels, H));
    }
    return S4_OK;
}

static s4_status run_phase(s4_call *call, s4_phase phase)
{
    schedule all = make_schedule(call, phase);
    for (int i = 0; i < all.count;) {
        if (all.operation[i]->loop == S4_LOOP_ONCE) {
            s4_block whole = {0, call->plan->shape.d_model, 0, call->batch};
            S4_TRY(run_operation(call, all.operation[i++], &whole));
        } else {
            int last = run_end(&all, i, all.count, S4_LOOP_CHANNELS);
            S4_TRY(run_channels(call, &all, i, last));
            S4_TRY(s4_stage_finish(call));
            i = last;
        }
    }
    return S4_OK;
}

/* After a failure nothing may be on its way any more; the failure's text stays. */
static s4_status settle(const s4_call *call, s4_status failed)
{
    char text[512];
    snprintf(text, sizeof text, "%s", s4_last_error());
    (void)call->plan->backend[S4_PLACE_GPU]->synchronise(call->plan->device[S4_PLACE_GPU], call->workspace->queue);
    return s4_fail(failed, "%s", text);
}

/* Work on tensors in device memory, on a stream of the caller, goes on when the call returns. */
static int goes_on(const s4_call *call, s4_phase phase)
{
    return call->workspace->stream_given && call->plan->shape.tensors == S4_PLACE_GPU &&
           (phase == S4_PHASE_FORWARD || phase == S4_PHASE_BACKWARD || phase == S4_PHASE_STEP);
}

s4_status s4_execute_check(const s4_call *call)
{
    const s4_plan *plan = call->plan;
    const s4_backend *gpu = plan->backend[S4_PLACE_GPU];
    if (!gpu->check) return S4_OK;
    return gpu->check(plan->device[S4_PLACE_GPU], call->workspace->queue, &plan->shape, call->buffer[S4_PLACE_GPU]);
}

/* A refresh asks for nothing that an earlier call left to be found: it may be of other parameters, and another plan may
 * have had the memory since. */
static s4_status begin_anew(const s4_call *call)
{
    const s4_plan *plan = call->plan;
    const s4_backend *gpu = plan->backend[S4_PLACE_GPU];
    if (!plan->used[S4_PLACE_GPU] || !gpu->check) return S4_OK;
    return gpu->check(plan->device[S4_PLACE_GPU], call->workspace->queue, NULL, call->buffer[S4_PLACE_GPU]);
}

s4_status s4_execute(s4_call *call, s4_phase phase)
{
    const s4_plan *plan = call->plan;
    const s4_backend *gpu = plan->backend[S4_PLACE_GPU];
    s4_queue *queue = call->workspace->queue;
    locate_buffers(call);
    locate_parameters(call);
    s4_call follower;
    if (call->workspace->shadow) {
        s4_shadow_begin(call, &follower);
        locate_buffers(&follower);
        call->follower = &follower;
    }
    if (phase == S4_PHASE_REFRESH) S4_TRY(begin_anew(call));
    s4_status status = run_phase(call, phase);
    if (!status && plan->context->options.strict) status = s4_ledger_check(call, phase);
    if (!plan->used[S4_PLACE_GPU]) return status;
    if (status) return settle(call, status);
    if (goes_on(call, phase)) return S4_OK;
    S4_TRY(gpu->synchronise(plan->device[S4_PLACE_GPU], queue));
    return s4_execute_check(call);
}
