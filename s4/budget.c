/*
 * Chooses the blocks of a plan: everything at once if it fits, else blocks of channels, else also of batch rows.
 * Values do not depend on the choice; memory and speed do.
 */
#include "s4/budget.h"

#include <string.h>

#include "s4/errors.h"

/* Without a budget, what is in work at a time stays near these sizes: on the host, caches, and how often progress is
 * told and a wish to cancel is heard; on the device, few launches. Every thread should have several channels of a
 * block. */
#define HOST_BLOCK_BYTES ((int64_t)1 << 23)
#define CHANNELS_PER_THREAD 4
#define DEVICE_BLOCK_BYTES ((int64_t)1 << 29)
/* Samples of one slot on their way to the device. */
#define STAGED_BLOCK_BYTES ((int64_t)1 << 26)

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
           (!problem->pinned_budget || map->staging <= problem->pinned_budget) &&
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

/* Whether blocks of samples go to a GPU and back. */
static int is_staged(const s4_problem *problem)
{
    s4_stage stage = problem->direction == S4_DIRECTION_STEP ? S4_STAGE_STEP : S4_STAGE_CONVOLVE;
    return problem->placement.stage[stage] == S4_PLACE_GPU && problem->tensors == S4_PLACE_CPU;
}

/* The choice that needs least: almost always one channel and one row at a time, but how buffers pack can favour a few
 * channels by some bytes, and few channels whose spectra are kept need not be made again beside the rows in work. */
static choice smallest(const s4_problem *problem, s4_shape *shape, s4_map *map)
{
    choice least = {0, 1, 1};
    int64_t least_bytes = INT64_MAX;
    for (int resident = 0; resident <= (shape->fft_length > 0 || shape->chunk > 0); resident++)
        for (int64_t channels = 1; channels <= 4 && channels <= shape->d_model; channels++) {
            evaluate(problem, shape, (choice){resident, channels, 1}, map);
            int64_t bytes = map->peak[S4_PLACE_CPU] + map->peak[S4_PLACE_GPU];
            if (bytes >= least_bytes) continue;
            least_bytes = bytes;
            least = (choice){resident, channels, 1};
        }
    return least;
}

static int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit > 1 ? limit : 1; }

static choice comfortable(const s4_problem *problem, const s4_shape *shape)
{
    choice blocks = {.resident = shape->fft_length > 0 || shape->chunk > 0,
                     .channels = shape->d_model, .batch = shape->batch};
    int on_gpu = problem->placement.stage[S4_STAGE_CONVOLVE] == S4_PLACE_GPU ||
                 problem->placement.stage[S4_STAGE_KERNEL] == S4_PLACE_GPU;
    int64_t limit = on_gpu ? DEVICE_BLOCK_BYTES : HOST_BLOCK_BYTES;
    int64_t channel = 8 * (shape->kernel_length + shape->fft_length) + 1, row = 8 * shape->length;
    int trains = shape->direction == S4_DIRECTION_TRAINING;
    if (shape->chunk) channel = 8 * (s4_chunk_system(shape) + (trains ? s4_chunk_sums(shape) : 0));
    int64_t least = on_gpu ? 1 : CHANNELS_PER_THREAD * shape->threads;
    blocks.channels = at_most(blocks.channels, limit / channel);
    if (is_staged(problem)) {
        limit = STAGED_BLOCK_BYTES / shape->channels;
        blocks.channels = at_most(blocks.channels, limit / row);
    }
    if (blocks.channels < least) blocks.channels = least;
    if (blocks.channels > shape->d_model) blocks.channels = shape->d_model;
    if (shape->fft_length || shape->chunk || is_staged(problem))
        blocks.batch = at_most(blocks.batch, limit / (row * blocks.channels));
    return blocks;
}

/* Whether the smallest plan of that batch fits, with what AUTO takes for it where that was asked; the map is that plan's. */
static int batch_fits(const s4_problem *problem, s4_algorithm asked, const s4_shape *shape, int64_t batch, s4_map *map)
{
    s4_problem smaller = *problem;
    s4_shape smaller_shape = *shape;
    smaller.batch = batch;
    smaller.algorithm = asked;
    return !s4_problem_check(&smaller, &smaller_shape) &&
           fits(&smaller, &smaller_shape, smallest(&smaller, &smaller_shape, map), map);
}

/* Largest batch, below the one asked for, whose smallest plan fits; 0 if none. */
static int64_t largest_batch(const s4_problem *problem, s4_algorithm asked, const s4_shape *shape, s4_map *map)
{
    int64_t low = 0, high = problem->batch - 1;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (batch_fits(problem, asked, shape, middle, map))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

typedef struct budget {
    const char *name;
    int64_t needed, given;
} budget;

/* The first budget that is below what the map takes. */
static budget exceeded(const s4_problem *problem, const s4_map *map)
{
    const budget budgets[] = {{"host_budget", map->peak[S4_PLACE_CPU], problem->host_budget},
                              {"pinned_budget", map->staging, problem->pinned_budget},
                              {"device_budget", map->peak[S4_PLACE_GPU], problem->device_budget}};
    int which = 0;
    while (which < 2 && (!budgets[which].given || budgets[which].needed <= budgets[which].given)) which++;
    return budgets[which];
}

/* What is said of smaller batches. Often none needs less: the smallest blocks are of one row whatever the batch. */
static s4_status refuse(const s4_problem *problem, s4_algorithm asked, const s4_shape *shape, const s4_map *least,
                        s4_map *map)
{
    budget of_all = exceeded(problem, least);
    long long needed = of_all.needed, given = of_all.given, batch = largest_batch(problem, asked, shape, map);
    if (batch)
        return s4_fail(S4_ERROR_OUT_OF_BUDGET,
                       "%s: %lld bytes are needed, %lld were given; the largest batch "
                       "that would fit is %lld of %lld",
                       of_all.name, needed, given, batch, (long long)problem->batch);
    if (problem->batch == 1)
        return s4_fail(S4_ERROR_OUT_OF_BUDGET, "%s: %lld bytes are needed, %lld were given", of_all.name, needed, given);
    (void)batch_fits(problem, asked, shape, 1, map);
    budget of_one = exceeded(problem, map);
    if (strcmp(of_one.name, of_all.name) == 0 && of_one.needed == of_all.needed)
        return s4_fail(S4_ERROR_OUT_OF_BUDGET,
                       "%s: %lld bytes are needed, %lld were given; no batch would fit: a batch of 1 needs as much",
                       of_all.name, needed, given);
    return s4_fail(S4_ERROR_OUT_OF_BUDGET,
                   "%s: %lld bytes are needed, %lld were given; no batch would fit: a batch of 1 needs %lld bytes of %s",
                   of_all.name, needed, given, (long long)of_one.needed, of_one.name);
}

s4_status s4_budget_choose(const s4_problem *problem, s4_algorithm asked, s4_shape *shape, s4_map *map,
                           int64_t *minimum)
{
    choice least = smallest(problem, shape, map);
    int enough = fits(problem, shape, least, map);
    s4_map smallest_map = *map;
    for (int place = 0; place < S4_PLACE_COUNT; place++) minimum[place] = map->peak[place];
    if (!enough) return refuse(problem, asked, shape, &smallest_map, map);

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
