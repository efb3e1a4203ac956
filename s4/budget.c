/*
 * Chooses the blocks of a plan: everything at once if it fits, else blocks of channels, else also of batch rows.
 * Values do not depend on the choice; memory and speed do.
 */
#include "s4/budget.h"

#include "s4/errors.h"

/* Without a budget, what is in work at a time stays near these sizes: on the host, caches, and how often progress is
 * told and a wish to cancel is heard; on the device, few launches. Every thread should have several channels of a
 * block. */
#define HOST_BLOCK_BYTES ((int64_t)1 << 23)
#define CHANNELS_PER_THREAD 4
#define DEVICE_BLOCK_BYTES ((int64_t)1 << 29)

typedef struct choice {
    int resident;
    int64_t channels, batch;
} choice;

static void evaluate(const s4_problem *problem, s4_shape *shape, choice blocks, s4_map *map)
{
    shape->resident = blocks.resident;
    shape->block_channels = blocks.channels;
    shape->block_batch = blocks.batch;
    s4_map_make(shape, &problem->placement, map);
}

static int fits(const s4_problem *problem, s4_shape *shape, choice blocks, s4_map *map)
{
    evaluate(problem, shape, blocks, map);
    return (!problem->host_budget || map->peak[S4_PLACE_CPU] <= problem->host_budget) &&
           (!problem->device_budget || map->peak[S4_PLACE_GPU] <= problem->device_budget);
}

/* Largest value in [1, high] for which the choice with that value at *field fits; 0 if none. */
static int64_t largest(const s4_problem *problem, s4_shape *shape, choice *blocks, int64_t *field, int64_t high,
                       s4_map *map)
{
    int64_t low = 0;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        *field = middle;
        if (fits(problem, shape, *blocks, map))
            low = middle;
        else
            high = middle - 1;
    }
    *field = low;
    return low;
}

/* The choice that needs least: almost always one channel and one row at a time, but how buffers pack can favour a few
 * channels by some bytes, and few channels whose spectra are kept need not be made again beside the rows in work. */
static choice smallest(const s4_problem *problem, s4_shape *shape, s4_map *map)
{
    choice least = {0, 1, 1};
    int64_t least_bytes = INT64_MAX;
    for (int resident = 0; resident <= (shape->fft_length > 0); resident++)
        for (int64_t channels = 1; channels <= 4 && channels <= shape->d_model; channels++) {
            evaluate(problem, shape, (choice){resident, channels, 1}, map);
            int64_t bytes = map->peak[S4_PLACE_CPU] + map->peak[S4_PLACE_GPU];
            if (bytes >= least_bytes) continue;
            least_bytes = bytes;
            least = (choice){resident, channels, 1};
        }
    return least;
}

static choice comfortable(const s4_problem *problem, const s4_shape *shape)
{
    choice blocks = {.resident = shape->fft_length > 0, .channels = shape->d_model, .batch = shape->batch};
    int on_gpu = problem->placement.stage[S4_STAGE_CONVOLVE] == S4_PLACE_GPU ||
                 problem->placement.stage[S4_STAGE_KERNEL] == S4_PLACE_GPU;
    int64_t limit = on_gpu ? DEVICE_BLOCK_BYTES : HOST_BLOCK_BYTES;
    int64_t channel = 8 * (shape->kernel_length + shape->fft_length) + 1;
    int64_t least = on_gpu ? 1 : CHANNELS_PER_THREAD * shape->threads;
    if (blocks.channels > limit / channel) blocks.channels = limit / channel;
    if (blocks.channels < least) blocks.channels = least;
    if (blocks.channels > shape->d_model) blocks.channels = shape->d_model;
    int64_t row = 8 * shape->length * blocks.channels;
    if (blocks.batch > limit / row) blocks.batch = limit / row > 1 ? limit / row : 1;
    return blocks;
}

/* Largest batch, up to the one asked for, whose smallest plan fits; 0 if none. */
static int64_t largest_batch(const s4_problem *problem, const s4_shape *shape, s4_map *map)
{
    int64_t low = 0, high = problem->batch - 1;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        s4_problem smaller = *problem;
        s4_shape smaller_shape = *shape;
        smaller.batch = middle;
        if (!s4_problem_check(&smaller, &smaller_shape) &&
            fits(&smaller, &smaller_shape, smallest(&smaller, &smaller_shape, map), map))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static s4_status refuse(const s4_problem *problem, const s4_shape *shape, const int64_t *minimum, s4_map *map)
{
    int on_host = problem->host_budget && minimum[S4_PLACE_CPU] > problem->host_budget;
    int64_t needed = minimum[on_host ? S4_PLACE_CPU : S4_PLACE_GPU];
    int64_t given = on_host ? problem->host_budget : problem->device_budget;
    int64_t batch = largest_batch(problem, shape, map);
    const char *which = on_host ? "host" : "device";
    if (batch)
        return s4_fail(S4_ERROR_OUT_OF_BUDGET,
                       "%s_budget: %lld bytes are needed, %lld were given; the largest batch "
                       "that would fit is %lld of %lld",
                       which, (long long)needed, (long long)given, (long long)batch, (long long)problem->batch);
    return s4_fail(S4_ERROR_OUT_OF_BUDGET, "%s_budget: %lld bytes are needed, %lld were given; no batch would fit",
                   which, (long long)needed, (long long)given);
}

s4_status s4_budget_choose(const s4_problem *problem, s4_shape *shape, s4_map *map, int64_t *minimum)
{
    choice least = smallest(problem, shape, map);
    int enough = fits(problem, shape, least, map);
    for (int place = 0; place < S4_PLACE_COUNT; place++) minimum[place] = map->peak[place];
    if (!enough) return refuse(problem, shape, minimum, map);

    choice wanted = comfortable(problem, shape);
    for (int resident = wanted.resident; resident >= 0; resident--) {
        choice blocks = {resident, wanted.channels, wanted.batch};
        if (!largest(problem, shape, &blocks, &blocks.channels, wanted.channels, map)) {
            blocks.channels = 1;
            if (!largest(problem, shape, &blocks, &blocks.batch, wanted.batch, map)) continue;
        }
        if (fits(problem, shape, blocks, map)) return S4_OK;
    }
    evaluate(problem, shape, least, map);
    return S4_OK;
}
