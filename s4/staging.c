/*
 * Samples on their way between the caller's tensors on the host and the device, block by block, each in one of S4_SLOTS
 * slots: while a block is worked on, the next one goes up and the one before comes down.
 *
 *   up:    the host packs a block into its slot of STAGE, once the copy that was there has been made; lane UP copies it
 *          to BLOCK, once the work on what was there is done
 *   work:  waits for the copies up of its slot, and for the copy down of what its output overwrites
 *   down:  lane DOWN copies BLOCK_OUT to STAGE_OUT when the work is done; the host unpacks it a round later
 *
 * Blocks are dense: (rows, outputs, channels, T).
 */
#include <string.h>

#include "s4/errors.h"
#include "s4/execute.h"

/* Events of slot s: EVENT + s. */
enum { UP_U = 0, UP_DY = S4_SLOTS, WORKED = 2 * S4_SLOTS, DOWN = 3 * S4_SLOTS };
_Static_assert(4 * S4_SLOTS < S4_EVENTS, "one event is left for other copies");

static const s4_backend *backend(const s4_call *call) { return call->plan->backend[S4_PLACE_GPU]; }
static s4_device *device(const s4_call *call) { return call->plan->device[S4_PLACE_GPU]; }
static int slot_of(int64_t round) { return (int)(round % S4_SLOTS); }

size_t s4_stage_slot(const s4_call *call, s4_buffer buffer)
{
    const s4_shape *s = &call->plan->shape;
    int64_t outputs = buffer == S4_BUFFER_STAGE_U || buffer == S4_BUFFER_BLOCK_U ? 1 : s->channels;
    return (size_t)(s->block_batch * s->block_channels * outputs * s->length) * s4_dtype_size(s->dtype);
}

/* A tensor of the caller and the block of it that is dense in a slot. */
typedef struct passage {
    s4_dtype dtype;
    char *outside; /* element (0, 0, 0) */
    s4_strides strides;
    char *slot;
    int64_t outputs, length;
    const int64_t *lengths;
    s4_block block;
} passage;

#define DEFINE_COPY(suffix, type)                                                                                      \
    static void copy_row_##suffix(void *to, int64_t to_stride, const void *from, int64_t from_stride, int64_t count)   \
    {                                                                                                                  \
        type *elements = to;                                                                                           \
        const type *samples = from;                                                                                    \
        for (int64_t t = 0; t < count; t++) elements[t * to_stride] = samples[t * from_stride];                        \
    }
DEFINE_COPY(4, uint32_t)
DEFINE_COPY(8, uint64_t)

/* A row of either precision, with its strides. */
static void copy_row(int64_t size, void *to, int64_t to_stride, const void *from, int64_t from_stride, int64_t count)
{
    if (to_stride == 1 && from_stride == 1)
        memcpy(to, from, (size_t)(count * size));
    else
        (size == 4 ? copy_row_4 : copy_row_8)(to, to_stride, from, from_stride, count);
}

/* Rows of the block between outside and slot; what does not count is not read, and becomes 0 on the way in. */
static void pass(const passage *p, int inwards)
{
    int64_t size = (int64_t)s4_dtype_size(p->dtype), row = 0;
    for (int64_t b = p->block.row; b < p->block.row + p->block.rows; b++)
        for (int64_t c = 0; c < p->outputs; c++)
            for (int64_t h = p->block.channel; h < p->block.channel + p->block.channels; h++, row++) {
                char *slot = p->slot + row * p->length * size;
                char *outside =
                    p->outside + (b * p->strides.batch + c * p->strides.output + h * p->strides.channel) * size;
                int64_t count = inwards && p->lengths ? p->lengths[b] : p->length;
                if (inwards)
                    copy_row(size, slot, 1, outside, p->strides.time, count);
                else
                    copy_row(size, outside, p->strides.time, slot, 1, count);
                memset(slot + count * size, 0, (size_t)((p->length - count) * size));
            }
}

static size_t block_bytes(const s4_call *call, int64_t outputs, const s4_block *block)
{
    return (size_t)(block->rows * outputs * block->channels * call->length) * s4_dtype_size(call->plan->shape.dtype);
}

s4_status s4_stage_up(s4_call *call, s4_buffer stage, s4_buffer block_buffer, const void *from, const s4_strides *strides,
                      int64_t outputs, const s4_block *block)
{
    int slot = slot_of(call->round), event = (stage == S4_BUFFER_STAGE_U ? UP_U : UP_DY) + slot;
    char *host = (char *)call->buffer[S4_PLACE_CPU][stage] + (size_t)slot * s4_stage_slot(call, stage);
    passage in = {.dtype = call->plan->shape.dtype,
                  .outside = (char *)(uintptr_t)from,
                  .strides = *strides,
                  .slot = host,
                  .outputs = outputs,
                  .length = call->length,
                  .lengths = call->lengths,
                  .block = *block};
    if (call->round >= S4_SLOTS) S4_TRY(backend(call)->await(device(call), call->workspace->queue, event));
    pass(&in, 1);
    if (call->round >= S4_SLOTS)
        S4_TRY(backend(call)->wait(device(call), call->workspace->queue, S4_LANE_UP, WORKED + slot));
    size_t bytes = block_bytes(call, outputs, block);
    s4_copy copy = {.to_device = 1,
                    .to = (char *)call->buffer[S4_PLACE_GPU][block_buffer] + (size_t)slot * s4_stage_slot(call, block_buffer),
                    .from = host,
                    .to_pitch = bytes,
                    .from_pitch = bytes,
                    .width = bytes,
                    .height = 1};
    S4_TRY(s4_transfer_copy(call, S4_LANE_UP, &copy));
    return backend(call)->record(device(call), call->workspace->queue, S4_LANE_UP, event);
}

s4_status s4_stage_enter(const s4_call *call)
{
    int slot = slot_of(call->round);
    s4_queue *queue = call->workspace->queue;
    S4_TRY(backend(call)->wait(device(call), queue, S4_LANE_WORK, UP_U + slot));
    if (call->dy) S4_TRY(backend(call)->wait(device(call), queue, S4_LANE_WORK, UP_DY + slot));
    if (call->round < S4_SLOTS) return S4_OK;
    return backend(call)->wait(device(call), queue, S4_LANE_WORK, DOWN + slot);
}

s4_status s4_stage_leave(const s4_call *call)
{
    return backend(call)->record(device(call), call->workspace->queue, S4_LANE_WORK, WORKED + slot_of(call->round));
}

/* Unpacks the output of the round before. */
static s4_status land(s4_call *call)
{
    if (!call->landing.rows) return S4_OK;
    int slot = slot_of(call->round - 1);
    passage out = {.dtype = call->plan->shape.dtype,
                   .outside = call->dy ? call->du : call->y,
                   .strides = call->dy ? call->du_strides : call->y_strides,
                   .slot = (char *)call->buffer[S4_PLACE_CPU][S4_BUFFER_STAGE_OUT] +
                           (size_t)slot * s4_stage_slot(call, S4_BUFFER_STAGE_OUT),
                   .outputs = call->dy ? 1 : call->plan->shape.channels,
                   .length = call->length,
                   .block = call->landing};
    S4_TRY(backend(call)->await(device(call), call->workspace->queue, DOWN + slot));
    pass(&out, 0);
    call->landing.rows = 0;
    return S4_OK;
}

s4_status s4_stage_down(s4_call *call, const s4_block *block)
{
    int slot = slot_of(call->round);
    s4_queue *queue = call->workspace->queue;
    int64_t outputs = call->dy ? 1 : call->plan->shape.channels;
    size_t bytes = block_bytes(call, outputs, block), offset = (size_t)slot * s4_stage_slot(call, S4_BUFFER_STAGE_OUT);
    s4_copy copy = {.to = (char *)call->buffer[S4_PLACE_CPU][S4_BUFFER_STAGE_OUT] + offset,
                    .from = (char *)call->buffer[S4_PLACE_GPU][S4_BUFFER_BLOCK_OUT] + offset,
                    .to_pitch = bytes,
                    .from_pitch = bytes,
                    .width = bytes,
                    .height = 1};
    S4_TRY(backend(call)->wait(device(call), queue, S4_LANE_DOWN, WORKED + slot));
    S4_TRY(s4_transfer_copy(call, S4_LANE_DOWN, &copy));
    S4_TRY(backend(call)->record(device(call), queue, S4_LANE_DOWN, DOWN + slot));
    S4_TRY(land(call));
    call->landing = *block;
    return S4_OK;
}

s4_status s4_stage_finish(s4_call *call) { return land(call); }
