/* Strict mode: what ran in a phase, against the plan's table of operations. */
#include "s4/context_object.h"
#include "s4/errors.h"
#include "s4/execute.h"

static int64_t blocks(int64_t total, int64_t block) { return (total + block - 1) / block; }

/* How often an operation runs in this call. */
static int64_t runs(const s4_call *call, const s4_operation_row *row)
{
    const s4_shape *shape = &call->plan->shape;
    if (row->loop == S4_LOOP_ONCE) return 1;
    int64_t channels = blocks(shape->d_model, shape->block_channels);
    return row->loop == S4_LOOP_CHANNELS ? channels : channels * blocks(call->batch, shape->block_batch);
}

/* Whether a copy has something to copy in this call. */
static int has_tensor(const s4_call *call, const s4_operation_row *row)
{
    switch (row->transfer) {
    case S4_TRANSFER_DU: return call->du != NULL;
    case S4_TRANSFER_STATE_IN: return call->state_in != NULL;
    case S4_TRANSFER_STATE_OUT: return call->state_out != NULL;
    case S4_TRANSFER_DSTATE_OUT: return call->dstate_out != NULL;
    case S4_TRANSFER_DSTATE_IN: return call->dstate_in != NULL;
    default: return 1;
    }
}

/* Copies of which a part may not be needed: what did not change, or is not wanted. */
static int may_be_less(const s4_call *call, const s4_operation_row *row)
{
    int is_system = row->transfer == S4_TRANSFER_MOVE && s4_operation_moved(row) == S4_BUFFER_SYSTEM;
    return row->transfer == S4_TRANSFER_RAW || row->transfer == S4_TRANSFER_RAW_GRADIENTS ||
           row->transfer == S4_TRANSFER_GRADIENTS || (is_system && call->changed != S4_PARAMETER_ALL);
}

s4_status s4_ledger_check(const s4_call *call, s4_phase phase)
{
    const s4_map *map = &call->plan->map;
    const s4_placement *placement = &call->plan->problem.placement;
    int64_t planned[S4_PLACE_COUNT] = {0}, least[2] = {0}, most[2] = {0};
    for (int i = 0; i < map->operation_count; i++) {
        const s4_operation_row *row = map->operation[i];
        int64_t moved[2];
        if (row->phase != phase || !s4_operation_wanted(row, call->wanted)) continue;
        planned[s4_operation_place(row, placement)] += runs(call, row);
        s4_operation_moves(row, &call->plan->shape, placement, call->batch, call->length, &moved[0], &moved[1]);
        if (row->transfer == S4_TRANSFER_LENGTHS && call->lengths) moved[0] = 8 * call->batch;
        for (int way = 0; way < 2 && has_tensor(call, row); way++) {
            most[way] += moved[way];
            if (!may_be_less(call, row)) least[way] += moved[way];
        }
    }
    for (int place = 0; place < S4_PLACE_COUNT; place++)
        if (call->operations[place] != planned[place])
            return s4_fail(S4_ERROR_MISMATCH, "place %s ran %lld operations, the plan has %lld",
                           s4_place_name((s4_place)place), (long long)call->operations[place], (long long)planned[place]);
    const int64_t moved[2] = {call->to_device, call->to_host};
    for (int way = 0; way < 2; way++)
        if (moved[way] < least[way] || moved[way] > most[way])
            return s4_fail(S4_ERROR_MISMATCH, "%lld bytes went to the %s, the plan has %lld", (long long)moved[way],
                           way ? "host" : "device", (long long)most[way]);
    return S4_OK;
}
