/*
 * The memory map: which operations a plan has, from when to when each buffer is needed, and where it lies. Buffers
 * whose lifetimes do not meet share memory. They are placed one after the other, each at the lowest address that is free:
 * once the largest first, once the longest-lived first, and the denser map is kept.
 */
#include <string.h>

#include "s4/plan_object.h"

#define ALIGNMENT 256

static void list_operations(const s4_shape *shape, const s4_placement *placement, s4_map *map)
{
    unsigned wanted = shape->wanted | S4_WANTED_DU | (shape->states ? S4_WANTED_STATE : 0u); /* what a call may ask for */
    for (int i = 0; i < s4_operation_row_count; i++)
        if (s4_operation_rows[i].active(shape, placement) &&
            s4_operation_wanted(&s4_operation_rows[i], wanted))
            map->operation[map->operation_count++] = &s4_operation_rows[i];
}

/* Widens [first, last] to the whole run of operations around i that are repeated at least at `level`: what enters a
 * loop from outside, or is carried from one round to the next, must survive all of it. */
static void cover_loop(const s4_map *map, int i, s4_loop level, s4_map_buffer *buffer)
{
    s4_phase phase = map->operation[i]->phase;
    for (int j = i; j >= 0 && map->operation[j]->phase == phase && map->operation[j]->loop >= level; j--)
        if (j < buffer->first) buffer->first = j;
    for (int j = i; j < map->operation_count && map->operation[j]->phase == phase && map->operation[j]->loop >= level; j++)
        if (j > buffer->last) buffer->last = j;
}

static int find_lifetime(const s4_map *map, const s4_shape *shape, const s4_placement *placement, s4_map_buffer *buffer)
{
    int persists = s4_buffer_persists(buffer->buffer, shape);
    int used[S4_OPERATIONS_MAX];
    buffer->first = -1;
    for (int i = 0; i < map->operation_count; i++) {
        used[i] = (int)(s4_operation_uses(map->operation[i], placement, buffer->place) >> buffer->buffer & 1);
        if (!used[i]) continue;
        if (buffer->first < 0) buffer->first = i;
        buffer->last = i;
    }
    if (buffer->first < 0) return 0;
    for (int i = 0; i < map->operation_count; i++) {
        if (!used[i]) continue;
        /* The loop that holds all uses of this buffer in this phase; what persists is filled across the rounds. */
        s4_loop outermost = persists ? S4_LOOP_ONCE : map->operation[i]->loop;
        for (int j = 0; j < map->operation_count; j++)
            if (used[j] && map->operation[j]->phase == map->operation[i]->phase && map->operation[j]->loop < outermost)
                outermost = map->operation[j]->loop;
        if (map->operation[i]->loop > outermost) cover_loop(map, i, (s4_loop)(outermost + 1), buffer);
    }
    for (int i = 0; s4_buffer_travels(buffer->buffer) && i < map->operation_count; i++)
        if (used[i] && map->operation[i]->loop > S4_LOOP_ONCE) cover_loop(map, i, S4_LOOP_CHANNELS, buffer);
    if (persists) buffer->last = map->operation_count - 1;
    return 1;
}

static int meet(const s4_map_buffer *a, const s4_map_buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Lowest aligned offset where `buffer` meets none of those placed before it (given in placing order). */
static int64_t lowest_offset(s4_map_buffer *const *placed, int count, const s4_map_buffer *buffer)
{
    int64_t offset = 0;
    for (int again = 1; again;) {
        again = 0;
        for (int i = 0; i < count; i++) {
            int64_t end = placed[i]->offset + placed[i]->bytes;
            if (meet(placed[i], buffer) && offset < end && placed[i]->offset < offset + buffer->bytes) {
                offset = (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
                again = 1;
            }
        }
    }
    return offset;
}

/* Whether a is placed before b. */
typedef int (*earlier)(const s4_map_buffer *a, const s4_map_buffer *b);
static int larger(const s4_map_buffer *a, const s4_map_buffer *b) { return a->bytes > b->bytes; }
static int longer(const s4_map_buffer *a, const s4_map_buffer *b)
{
    int a_span = a->last - a->first, b_span = b->last - b->first;
    return a_span > b_span || (a_span == b_span && a->bytes > b->bytes);
}

/* Gives the buffers of one place their offsets; returns where the last one ends. */
static int64_t place_in_order(s4_map *map, s4_place place, earlier before)
{
    s4_map_buffer *order[S4_BUFFERS_MAX];
    int count = 0;
    for (int i = 0; i < map->buffer_count; i++) { /* insertion sort, stable */
        if (map->buffer[i].place != place) continue;
        int j = count++;
        for (; j > 0 && before(&map->buffer[i], order[j - 1]); j--) order[j] = order[j - 1];
        order[j] = &map->buffer[i];
    }
    int64_t peak = 0;
    for (int i = 0; i < count; i++) {
        order[i]->offset = lowest_offset(order, i, order[i]);
        if (order[i]->offset + order[i]->bytes > peak) peak = order[i]->offset + order[i]->bytes;
    }
    return peak;
}

/* Both orders leave gaps of their own. */
static void place_buffers(s4_map *map)
{
    for (int place = 0; place < S4_PLACE_COUNT; place++) {
        int64_t by_lifetime = place_in_order(map, (s4_place)place, longer);
        map->peak[place] = place_in_order(map, (s4_place)place, larger);
        if (by_lifetime < map->peak[place]) map->peak[place] = place_in_order(map, (s4_place)place, longer);
    }
}

void s4_map_make(const s4_shape *shape, const s4_placement *placement, s4_map *map)
{
    memset(map, 0, sizeof *map);
    list_operations(shape, placement, map);
    for (int place = 0; place < S4_PLACE_COUNT; place++) {
        for (int b = 0; b < S4_BUFFER_COUNT; b++) {
            s4_map_buffer buffer = {.buffer = (s4_buffer)b, .place = (s4_place)place};
            if (!find_lifetime(map, shape, placement, &buffer)) continue;
            buffer.bytes = s4_buffer_bytes(buffer.buffer, shape, buffer.place);
            if (!buffer.bytes) continue;
            map->buffer[map->buffer_count++] = buffer;
            if (buffer.buffer == S4_BUFFER_STAGE_U || buffer.buffer == S4_BUFFER_STAGE_DY ||
                buffer.buffer == S4_BUFFER_STAGE_OUT)
                map->staging += buffer.bytes;
        }
    }
    place_buffers(map);
}
