/*
 * Runs the operations of a phase in the plan's order. Consecutive operations that are repeated form loops: over blocks
 * of channels, and inside over blocks of batch rows. Allocates nothing.
 */
#include "s4/execute.h"

#include <string.h>

#include "s4/context_object.h"
#include "s4/errors.h"

static void locate_buffers(s4_call *call)
{
    const s4_map *map = &call->plan->map;
    memset(call->buffer, 0, sizeof call->buffer);
    for (int i = 0; i < map->buffer_count; i++) {
        const s4_map_buffer *b = &map->buffer[i];
        call->buffer[b->place][b->buffer] = (char *)call->workspace->block[b->place] + b->offset;
    }
}

/* First element of a block in a tensor of the caller. */
static const void *element(const s4_plan *plan, const void *tensor, const s4_strides *strides, const s4_block *block)
{
    if (!tensor) return NULL;
    int64_t offset = block->row * strides->batch + block->channel * strides->channel;
    return (const char *)tensor + offset * (int64_t)s4_dtype_size(plan->shape.dtype);
}

static s4_task make_task(const s4_call *call, s4_place place, const s4_block *block)
{
    const s4_plan *plan = call->plan;
    s4_task task = {
        .device = plan->device[place],
        .shape = &plan->shape,
        .prepared = plan->prepared[place],
        .buffer = call->buffer[place],
        .channel = block->channel,
        .channels = block->channels,
        .row = block->row,
        .rows = block->rows,
        .length = call->length,
        .state_in = call->state_in,
        .state_out = call->state_out,
        .dstate_out = call->dstate_out,
        .dstate_in = call->dstate_in,
        .raw = call->raw,
        .gradients = call->gradients,
        .wanted = S4_WANTED_D | S4_WANTED_KERNEL,
    };
    if (place == S4_PLACE_GPU) {
        const s4_strides staged = {block->channels * call->length, call->length, 0, 1};
        task.u_strides = task.y_strides = task.dy_strides = task.du_strides = staged;
        task.u = task.y = call->buffer[place][S4_BUFFER_BLOCK_U];
        task.dy = call->buffer[place][S4_BUFFER_BLOCK_DY];
        task.du = call->du ? call->buffer[place][S4_BUFFER_BLOCK_DY] : NULL;
    } else {
        task.u_strides = call->u_strides;
        task.y_strides = call->y_strides;
        task.dy_strides = call->dy_strides;
        task.du_strides = call->du_strides;
        task.u = element(plan, call->u, &call->u_strides, block);
        task.dy = element(plan, call->dy, &call->dy_strides, block);
        task.y = (void *)(uintptr_t)element(plan, call->y, &call->y_strides, block);
        task.du = (void *)(uintptr_t)element(plan, call->du, &call->du_strides, block);
    }
    task.lengths = call->lengths ? call->lengths + block->row : NULL;
    return task;
}

static s4_status run_operation(const s4_call *call, const s4_operation_row *row, const s4_block *block)
{
    s4_place place = s4_operation_place(row, &call->plan->problem.placement);
    atomic_fetch_add(&call->plan->context->operations[place], 1);
    if (row->transfer != S4_TRANSFER_NONE) return s4_transfer_run(call, row->transfer, block);
    s4_operation entry;
    memcpy(&entry, (const char *)call->plan->backend[place] + row->entry, sizeof entry);
    s4_task task = make_task(call, place, block);
    return entry(&task);
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

/* End of the run, from `first` on, of operations of this phase that are repeated at least at `loop`. */
static int run_end(const s4_map *map, int first, int end, s4_loop loop)
{
    int last = first;
    while (last < end && map->operation[last]->loop >= loop) last++;
    return last;
}

static s4_status run_batch(const s4_call *call, int first, int end, s4_block block)
{
    for (int64_t row = 0; row < call->batch; row += block.rows) {
        int64_t rows = call->plan->shape.block_batch;
        block.row = row;
        block.rows = rows < call->batch - row ? rows : call->batch - row;
        for (int i = first; i < end; i++) S4_TRY(run_operation(call, call->plan->map.operation[i], &block));
    }
    return S4_OK;
}

static s4_status run_channels(const s4_call *call, int first, int end)
{
    const s4_map *map = &call->plan->map;
    int64_t H = call->plan->shape.d_model, step = call->plan->shape.block_channels;
    for (int64_t channel = 0; channel < H; channel += step) {
        s4_block block = {channel, step < H - channel ? step : H - channel, 0, call->batch};
        for (int i = first; i < end;) {
            if (map->operation[i]->loop == S4_LOOP_BATCH) {
                int last = run_end(map, i, end, S4_LOOP_BATCH);
                S4_TRY(run_batch(call, i, last, block));
                i = last;
            } else {
                S4_TRY(run_operation(call, map->operation[i++], &block));
            }
        }
        S4_TRY(report_progress(call, map->operation[first], channel + block.channels, H));
    }
    return S4_OK;
}

s4_status s4_execute(s4_call *call, s4_phase phase)
{
    const s4_map *map = &call->plan->map;
    locate_buffers(call);
    int first = 0;
    while (first < map->operation_count && map->operation[first]->phase != phase) first++;
    int end = first;
    while (end < map->operation_count && map->operation[end]->phase == phase) end++;
    for (int i = first; i < end;) {
        if (map->operation[i]->loop == S4_LOOP_ONCE) {
            s4_block whole = {0, call->plan->shape.d_model, 0, call->batch};
            S4_TRY(run_operation(call, map->operation[i++], &whole));
        } else {
            int last = run_end(map, i, end, S4_LOOP_CHANNELS);
            S4_TRY(run_channels(call, i, last));
            i = last;
        }
    }
    if (call->plan->used[S4_PLACE_GPU]) return call->plan->backend[S4_PLACE_GPU]->synchronise(call->plan->device[S4_PLACE_GPU]);
    return S4_OK;
}
