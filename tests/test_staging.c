/*
 * Tensors on the host, work on the GPU: samples stream through pinned memory in blocks, so that a problem far larger than
 * the device budget runs, with the same bits. Off the GPU the blocks of a small host budget do.
 */
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "layers.h"
#include "place.h"
#include "problem_calls.h"
#include "session.h"

enum { H = 8, T = 64, SAMPLES = H * T };
static const layer_shape shape = {.mode = S4_MODE_DPLR, .d_model = H, .d_state = 4, .rank = 1, .plain_transforms = 1};

typedef struct results {
    double *y;
    gradients g;
} results;

/* Without du nothing comes down: that a block has gone up is then known of its copy alone. */
static void expect_the_same_without_du(const session *s, s4_layer *layer, const double *u, const double *dy,
                                       const gradients *expected)
{
    gradients g = gradients_zero(layer, 0);
    s4_backward_io io;
    S4_INIT(&io);
    io.u = u;
    io.dy = dy;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        io.gradients.parameter[p] = g.parameter[p];
    must(s4_plan_backward(s->plan, layer, s->workspace, &io));
    g.du = expected->du;
    g.du_count = expected->du_count;
    expect_same_gradients(&g, expected);
}

static results run(s4_context *context, s4_layer *layer, const s4_problem *problem, s4_plan_info *info)
{
    random_source random = {5};
    const int64_t count = problem->batch * SAMPLES;
    double *u = random_samples(&random, count), *dy = random_samples(&random, count);
    session s = session_ready(context, problem, layer);
    results r;
    *info = s.info;
    r.y = session_forward(&s, layer, 0, 0, u, NULL, NULL);
    r.g = session_backward(&s, layer, 0, 0, u, dy);
    expect_the_same_without_du(&s, layer, u, dy, &r.g);
    session_close(&s);
    return r;
}

/* Budgets that leave room for little more than what must be there. */
static void budget_little(s4_problem *problem, const s4_plan_info *whole)
{
    problem->host_budget = (3 * whole->host_minimum + whole->host_peak) / 4; /* at the minimum, row by row, it takes long */
    problem->device_budget = (31 * whole->device_minimum + whole->device_peak) / 32;
}

/* Planned alone: run, it would show no more than what is run below. */
static void plan_far_more(s4_problem problem)
{
    problem.batch = 4096;
    const s4_plan_info whole = describe(&problem);
    if (!whole.pinned)
        return;
    budget_little(&problem, &whole);
    const int64_t device_peak = describe(&problem).device_peak, samples = 8 * problem.batch * SAMPLES;
    check(10 * device_peak < 4 * samples, "the device holds more than a tenth of u, dy, y and du: %lld",
          (long long)device_peak);
}

static void stream_far_more(s4_algorithm algorithm)
{
    enum { B = 128 };
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shape, 1);
    if (algorithm == S4_ALGORITHM_FFT)
        layer_make_trainable(context, layer, T);
    s4_plan_info whole, small, pinned;
    s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, S4_F64, B, T, T);
    problem.algorithm = algorithm;
    session_required(context, layer, &problem);
    results all = run(context, layer, &problem, &whole);

    budget_little(&problem, &whole);
    results blocks = run(context, layer, &problem, &small);
    check(small.host_peak <= problem.host_budget && small.device_peak <= problem.device_budget, "over the budget");
    check(small.block_batch * small.block_channels < B * H, "one block");
    expect_same_bits("y", B * SAMPLES, blocks.y, all.y);
    expect_same_gradients(&blocks.g, &all.g);

    problem.host_budget = problem.device_budget = 0;
    plan_far_more(problem);
    if (whole.pinned) {
        check(small.block_batch < B && small.block_channels < H, "blocks of %d rows, %d channels",
              (int)small.block_batch, (int)small.block_channels);
        check(small.device_peak < 4 * 8 * B * SAMPLES, "the device holds all of u, dy, y and du");
        problem.pinned_budget = whole.pinned / 10;
        results few = run(context, layer, &problem, &pinned);
        check(pinned.pinned && pinned.pinned <= problem.pinned_budget, "%lld bytes are pinned, the budget is %lld",
              (long long)pinned.pinned, (long long)problem.pinned_budget);
        expect_same_bits("y", B * SAMPLES, few.y, all.y);
        expect_same_gradients(&few.g, &all.g);
        problem.pinned_budget = 1;
        s4_plan *plan;
        must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_OUT_OF_BUDGET, "pinned_budget");
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

Test(staging, far_more_than_the_device_holds)
{
    stream_far_more(S4_ALGORITHM_FFT);
}

Test(staging, far_more_than_the_device_holds_in_chunks)
{
    stream_far_more(S4_ALGORITHM_CHUNKED);
}

/* Only parameters that changed travel. */
static void refresh_what_changed(s4_algorithm algorithm)
{
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shape, 1);
    if (algorithm == S4_ALGORITHM_FFT)
        layer_make_trainable(context, layer, T);
    s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, S4_F64, 1, T, T);
    problem.algorithm = algorithm;
    session_required(context, layer, &problem);
    session s = session_ready(context, &problem, layer);
    if (s.info.to_device) {
        const unsigned changed[] = {S4_PARAMETER_ALL, 1u << S4_PARAMETER_D, 0};
        int64_t moved[3];
        for (int i = 0; i < 3; i++) {
            s4_ledger before, after;
            must(s4_layer_changed(layer, changed[i]));
            must(s4_context_ledger(context, &before));
            must(s4_plan_refresh(s.plan, layer, s.workspace));
            must(s4_context_ledger(context, &after));
            moved[i] = after.moved_to_device - before.moved_to_device;
        }
        check(moved[0] > moved[1] && moved[1] == 8 * H && moved[2] == 0, "moved: all %lld, D %lld, nothing %lld",
              (long long)moved[0], (long long)moved[1], (long long)moved[2]);
    }
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

Test(staging, refresh_sends_what_changed)
{
    refresh_what_changed(S4_ALGORITHM_FFT);
    refresh_what_changed(S4_ALGORITHM_CHUNKED);
}
