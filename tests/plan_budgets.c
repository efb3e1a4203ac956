/*
 * Budgets: the minimum works, a byte less is refused with what is needed, and neither a budget nor a number of threads
 * changes a bit of any result.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "expect.h"
#include "layers.h"
#include "place.h"
#include "plan_cases.h"
#include "session.h"

/* The minimum works; a byte less is refused with what is needed, what was given, and no plan. */
static void check_budget(const s4_problem *problem, const char *which, int64_t minimum, int64_t *budget)
{
    char needed[32], given[32];
    s4_plan *plan;
    *budget = minimum;
    must(s4_plan_create(problem, &plan));
    s4_plan_destroy(plan);
    *budget = minimum - 1;
    plan = (s4_plan *)(void *)budget;
    snprintf(needed, sizeof needed, "%lld", (long long)minimum);
    snprintf(given, sizeof given, "%lld", (long long)minimum - 1);
    must_refuse(s4_plan_create(problem, &plan), S4_ERROR_OUT_OF_BUDGET, needed);
    check(plan == NULL, "[%s] the pointer is not NULL", about_text());
    check(strstr(s4_last_error(), given) && strstr(s4_last_error(), which), "[%s] %s", about_text(), s4_last_error());
    *budget = 1;
    must_refuse(s4_plan_create(problem, &plan), S4_ERROR_OUT_OF_BUDGET, needed);
    *budget = 0;
}

Test(plan, minimum_and_a_byte_less)
{
    for (int direction = S4_DIRECTION_KERNEL; direction <= S4_DIRECTION_STEP; direction++)
        for (int split = 0; split < 2; split++) {
            about("%s, %s", s4_direction_name((s4_direction)direction), split ? "split" : "cpu");
            s4_problem problem = plan_problem((s4_direction)direction);
            must(s4_placement_parse(split ? "split" : "cpu", &problem.placement));
            problem.threads = 2;
            s4_plan *plan;
            s4_plan_info info;
            must(s4_plan_create(&problem, &plan));
            must(s4_plan_describe(plan, &info));
            s4_plan_destroy(plan);
            check_budget(&problem, "host_budget", info.host_minimum, &problem.host_budget);
            if (split && direction != S4_DIRECTION_STEP) {
                check(info.device_minimum > 0, "[%s] nothing on the device", about_text());
                check_budget(&problem, "device_budget", info.device_minimum, &problem.device_budget);
            }
        }
}

/* ---- the same bits ------------------------------------------------------------------------------------------- */

typedef struct results {
    double *kernel, *y, *state;
    gradients g;
    int64_t kernels, samples, states;
    int64_t blocks; /* blocks of channels and batch in the smallest of the plans */
} results;

static session limited_session(s4_context *context, s4_problem problem, int minimum, int threads, results *r)
{
    problem.threads = threads;
    if (minimum) {
        s4_plan *plan;
        s4_plan_info info;
        must(s4_plan_create(&problem, &plan));
        must(s4_plan_describe(plan, &info));
        s4_plan_destroy(plan);
        problem.host_budget = info.host_minimum;
        problem.device_budget = info.device_minimum;
    }
    session s = session_open(context, &problem);
    const int64_t blocks = (problem.d_model + s.info.block_channels - 1) / s.info.block_channels *
                           ((problem.batch + s.info.block_batch - 1) / s.info.block_batch);
    if (blocks > r->blocks)
        r->blocks = blocks;
    return s;
}

/* Everything that a layer can do, under one budget and number of threads. */
static results run_all(s4_context *context, s4_layer *layer, s4_dtype dtype, int64_t batch, int64_t T, int64_t L,
                       int minimum, int threads, const double *u, const double *dy, const double *state)
{
    const s4_layer_options o = layer_options(layer);
    results r = {.kernels = layer_kernels(layer) * o.d_model * L, .samples = batch * o.channels * o.d_model * T,
                 .states = batch * o.d_model * o.d_state};
    session s = limited_session(context, problem_of(layer, S4_DIRECTION_KERNEL, dtype, 1, L, L), minimum, threads, &r);
    r.kernel = session_kernel(&s, layer);
    session_close(&s);
    s4_problem forward = problem_of(layer, S4_DIRECTION_FORWARD, dtype, batch, T, L);
    forward.states = !o.bidirectional;
    s = limited_session(context, forward, minimum, threads, &r);
    r.state = numbers(r.states);
    r.y = session_forward(&s, layer, 0, 0, u, forward.states ? state : NULL, forward.states ? r.state : NULL);
    session_close(&s);
    s = limited_session(context, problem_of(layer, S4_DIRECTION_TRAINING, dtype, batch, T, L), minimum, threads, &r);
    r.g = session_backward(&s, layer, 0, 0, u, dy);
    session_close(&s);
    return r;
}

Test(plan, same_bits)
{
    static const struct {
        int64_t batch, d_model, d_state, rank, T, L, channels;
        int bidirectional;
    } shapes[] = {{5, 3, 8, 1, 50, 50, 1, 0}, {2, 7, 4, 2, 33, 70, 1, 0}, {1, 1, 6, 1, 20, 9, 1, 0},
                  {3, 12, 16, 1, 128, 128, 1, 0}, {2, 5, 6, 0, 40, 50, 1, 0}, {2, 5, 6, 1, 40, 50, 3, 0},
                  {3, 4, 6, 0, 40, 30, 2, 1}, {2, 4, 6, 2, 30, 40, 1, 1}};
    static const int threads[] = {1, 2, 5};
    s4_context *context = context_open();
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int d = 0; d < 2; d++) {
            const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
            const layer_shape shape = {.d_model = shapes[i].d_model, .d_state = shapes[i].d_state,
                                       .rank = shapes[i].rank, .plain_transforms = 1,
                                       .mode = shapes[i].rank ? S4_MODE_DPLR : S4_MODE_DIAG,
                                       .discretisation = shapes[i].rank ? S4_BILINEAR : S4_ZOH,
                                       .channels = shapes[i].channels, .bidirectional = shapes[i].bidirectional};
            s4_layer *layer = layer_random(&shape, i);
            about("shape %d, %s", (int)i, s4_dtype_name(dtype));
            const s4_problem offered = problem_of(layer, S4_DIRECTION_TRAINING, dtype, shapes[i].batch, shapes[i].T,
                                                  shapes[i].L);
            if (!session_offered(context, &offered)) {
                s4_layer_destroy(layer);
                continue;
            }
            if (shapes[i].rank)
                must(s4_layer_setup(context, layer, shapes[i].L));
            random_source random = {i};
            const int64_t samples = shapes[i].batch * shapes[i].d_model * shapes[i].T;
            const double *u = random_samples(&random, samples), *dy = random_samples(&random, samples * shapes[i].channels),
                         *state = random_samples(&random, shapes[i].batch * shapes[i].d_model * shapes[i].d_state);
            const results free_of_budget = run_all(context, layer, dtype, shapes[i].batch, shapes[i].T, shapes[i].L, 0,
                                                   1, u, dy, state);
            for (int minimum = 0; minimum < 2; minimum++)
                for (int t = 0; t < 3; t += place_has_gpu() ? 2 : 1) { /* an emulated GPU is slow */
                    about("shape %d, %s, %s, %d threads", (int)i, s4_dtype_name(dtype),
                          minimum ? "minimum budget" : "no budget", threads[t]);
                    const results r = run_all(context, layer, dtype, shapes[i].batch, shapes[i].T, shapes[i].L,
                                              minimum, threads[t], u, dy, state);
                    expect_same_bits("K", r.kernels, r.kernel, free_of_budget.kernel);
                    expect_same_bits("y", r.samples, r.y, free_of_budget.y);
                    expect_same_bits("state", r.states, r.state, free_of_budget.state);
                    expect_same_gradients(&r.g, &free_of_budget.g);
                    /* Guards this test: the minimum must have cut the work up, or nothing was compared. */
                    check(!minimum || shapes[i].d_model == 1 || r.blocks > 1, "[%s] one block only", about_text());
                }
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* On the host the smallest blocks are of one row whatever the batch: a smaller one would not help. Of a batch of 1, and of
 * kernels, nothing is said. */
Test(plan, no_batch_fits_on_the_host)
{
    for (int batch = 4; batch >= 1; batch -= 3) {
        s4_problem problem = plan_problem(S4_DIRECTION_FORWARD);
        must(s4_placement_parse("cpu", &problem.placement));
        problem.batch = batch;
        problem.host_budget = 1;
        s4_plan *plan;
        must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_OUT_OF_BUDGET, "bytes are needed, 1 were given");
        const char *said = strstr(s4_last_error(), "; no batch would fit: a batch of 1 needs as much");
        check((said != NULL) == (batch > 1), "%s", s4_last_error());
        check(batch > 1 || strstr(s4_last_error(), "batch") == NULL, "%s", s4_last_error());
    }
}

/* On the device a small batch is one tile of rows, so there the minimum does depend on it. */
Test(plan, largest_batch_on_the_device)
{
    enum { BATCH = 8 };
    s4_problem problem = plan_problem(S4_DIRECTION_FORWARD);
    must(s4_placement_parse("split", &problem.placement));
    int64_t minimum[BATCH + 1];
    for (int batch = 1; batch <= BATCH; batch++) {
        problem.batch = batch;
        s4_plan *plan;
        s4_plan_info info;
        must(s4_plan_create(&problem, &plan));
        must(s4_plan_describe(plan, &info));
        s4_plan_destroy(plan);
        minimum[batch] = info.device_minimum;
        cr_assert(batch == 1 || minimum[batch] > minimum[batch - 1]);
    }
    for (int fits = 0; fits < BATCH; fits++) {
        char words[96];
        if (fits)
            snprintf(words, sizeof words, "the largest batch that would fit is %d of %d", fits, BATCH);
        else
            snprintf(words, sizeof words, "no batch would fit: a batch of 1 needs %lld bytes of device_budget",
                     (long long)minimum[1]);
        problem.device_budget = minimum[fits + 1] - 1;
        s4_plan *plan;
        must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_OUT_OF_BUDGET, words);
    }
}
