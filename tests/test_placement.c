/*
 * Where things run: placements from text, places that are not there, and that each stage stays where it was put.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "expect.h"
#include "layers.h"
#include "place.h"
#include "session.h"
#include "tolerances.h"

static const layer_shape shape = {.d_model = 3, .d_state = 8, .rank = 1, .plain_transforms = 1};

#define C S4_PLACE_CPU
#define G S4_PLACE_GPU
#define A S4_PLACE_AUTO

Test(placement, parse)
{
    static const struct {
        char text[48];
        s4_place stage[S4_STAGE_COUNT]; /* init, setup, kernel, convolve, step, embed */
    } good[] = {
        {"cpu", {C, C, C, C, C, C}},
        {"split", {C, C, G, G, C, C}},
        {"auto", {A, A, A, A, A, A}},
        {"gpu", {G, G, G, G, G, G}},
        {"convolve=gpu", {C, C, C, G, C, C}},
        {"kernel=gpu,convolve=gpu", {C, C, G, G, C, C}},
        {"step=auto,init=cpu,setup=gpu", {C, G, C, C, A, C}},
        {"embed=gpu", {C, C, C, C, C, G}},
    };
    static const char bad[][48] = {"", "GPU", "tpu", "convolve", "convolve=", "=gpu", "convolve=tpu", "kernel=gpu,",
                                   ",kernel=gpu", "kernel=gpu convolve=gpu", "kernels=gpu", "split,kernel=cpu ",
                                   "convolve=gpux", "cpu "};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        about("%s", good[i].text);
        s4_placement placement;
        must(s4_placement_parse(good[i].text, &placement));
        for (int stage = 0; stage < S4_STAGE_COUNT; stage++)
            check(placement.stage[stage] == good[i].stage[stage], "[%s] stage %s", good[i].text,
                  s4_stage_name((s4_stage)stage));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        about("'%s'", bad[i]);
        s4_placement placement, before;
        memset(&placement, 1, sizeof placement);
        before = placement;
        must_refuse(s4_placement_parse(bad[i], &placement), S4_ERROR_ARGUMENT, "none of");
        check(memcmp(&placement, &before, sizeof before) == 0, "[%s] the placement was touched", bad[i]);
    }
    s4_placement placement;
    must_refuse(s4_placement_parse(NULL, &placement), S4_ERROR_ARGUMENT, "NULL");
}

/* No module: asked for by name it is an error that says why; nothing falls back, and the context goes on working. */
static void check_unavailable(const char *module, const char *word)
{
    about("S4_GPU_MODULE=%s", module);
    setenv("S4_GPU_MODULE", module, 1);
    s4_context_options options;
    S4_INIT(&options);
    s4_context *context;
    must(s4_context_create(&options, &context));
    s4_place_info info;
    must(s4_context_place(context, S4_PLACE_GPU, &info));
    check(!info.available, "[%s] a GPU is available", about_text());
    check(strstr(info.reason, word) != NULL, "[%s] the reason is: %s", about_text(), info.reason);

    s4_layer *layer = layer_random(&shape, 1);
    s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, 2, 30, 30);
    for (int i = 0; i < 3; i++) {
        static const char texts[][16] = {"split", "convolve=gpu", "kernel=gpu"};
        must(s4_placement_parse(texts[i], &problem.placement));
        s4_plan *plan;
        must(s4_plan_create(&problem, &plan)); /* planning needs no device */
        must_refuse(s4_plan_prepare(plan, context), S4_ERROR_UNAVAILABLE, word);
        s4_workspace *workspace;
        must_refuse(s4_workspace_create(plan, &workspace), S4_ERROR_ORDER, "");
        s4_plan_destroy(plan);
    }
    must(s4_placement_parse("cpu", &problem.placement));
    session s = session_open(context, &problem);
    const double *u = numbers(2 * 3 * 30);
    session_forward(&s, layer, 0, 0, u, NULL, NULL);
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

Test(placement, module_switched_off)
{
    check_unavailable("off", "off");
}

Test(placement, module_not_there)
{
    check_unavailable("/nowhere/libs4_gpu.so", "/nowhere/libs4_gpu.so");
}

/* A file that can be loaded and is no GPU module. */
Test(placement, module_is_something_else)
{
    check_unavailable("libm.so.6", "s4_gpu_backend");
}

Test(placement, cpu_is_described)
{
    s4_context *context;
    must(s4_context_create(NULL, &context));
    s4_place_info info;
    must(s4_context_place(context, S4_PLACE_CPU, &info));
    cr_assert(info.available && !info.emulated);
    cr_assert(strlen(info.name) > 0 && strlen(info.libraries) > 0 && strlen(info.reason) == 0);
    cr_assert(strstr(info.libraries, "fftw") || strstr(info.libraries, "FFTW"), "%s", info.libraries);
    cr_assert(s4_context_threads(context) >= 1);
    must_refuse(s4_context_place(context, S4_PLACE_AUTO, &info), S4_ERROR_ARGUMENT, "place");
    must_refuse(s4_context_place(NULL, S4_PLACE_CPU, &info), S4_ERROR_ARGUMENT, "context");
    s4_context_destroy(context);
}

/* AUTO becomes CPU in this version, and the plan says so. */
Test(placement, automatic)
{
    s4_layer *layer = layer_random(&shape, 1);
    s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, 1, 10, 10);
    must(s4_placement_parse("auto", &problem.placement));
    s4_plan *plan;
    s4_plan_info info;
    must(s4_plan_create(&problem, &plan));
    must(s4_plan_describe(plan, &info));
    for (int stage = 0; stage < S4_STAGE_COUNT; stage++)
        cr_assert_eq(info.problem.placement.stage[stage], S4_PLACE_CPU);
    cr_assert_eq(info.device_peak, 0);
    s4_plan_destroy(plan);
    s4_layer_destroy(layer);
}

/* Set-up, initialisation and the discrete system run on the host whatever the place of the plans: no launch, no byte of
 * device memory. What is split runs there and is counted. */
Test(placement, setup_stays_on_the_host)
{
    s4_context *context = context_open();
    s4_layer *layer = layer_legs(context, 3, 8, 1);
    double dB[3 * 8 * 2];
    must(s4_layer_setup(context, layer, 50));
    must(s4_layer_setup(context, layer, 100));
    must(s4_layer_discrete(context, layer, 1, NULL, dB, 0, NULL));
    s4_ledger ledger;
    s4_memory_use use;
    must(s4_context_ledger(context, &ledger));
    must(s4_context_memory(context, S4_PLACE_GPU, &use));
    cr_assert_eq(ledger.launches, 0);
    cr_assert_eq(ledger.moved_to_device, 0);
    cr_assert_eq(ledger.moved_to_host, 0);
    cr_assert_eq(ledger.operations[S4_PLACE_GPU], 0);
    cr_assert_eq(use.peak, 0);

    const s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, 2, 100, 100);
    session s = session_open(context, &problem);
    session_forward(&s, layer, 0, 0, numbers(2 * 3 * 100), NULL, NULL);
    must(s4_context_ledger(context, &ledger));
    must(s4_context_memory(context, S4_PLACE_GPU, &use));
    cr_assert_eq(ledger.launches > 0, place_has_gpu());
    cr_assert_eq(ledger.operations[S4_PLACE_GPU] > 0, place_has_gpu());
    cr_assert_eq(use.peak > 0, place_has_gpu());
    const s4_placement placement = place_placement();
    const int all_on_gpu = placement.stage[S4_STAGE_SETUP] == S4_PLACE_GPU &&
                           placement.stage[S4_STAGE_KERNEL] == S4_PLACE_GPU &&
                           placement.stage[S4_STAGE_CONVOLVE] == S4_PLACE_GPU;
    cr_assert_eq(ledger.operations[S4_PLACE_CPU] == 0, all_on_gpu);
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* The two places compute the same layer; each stage alone on the GPU works too. */
Test(placement, places_agree)
{
    static const char texts[][24] = {"split", "kernel=gpu", "convolve=gpu"};
    if (!place_has_gpu())
        cr_skip_test("no GPU place in this run");
    enum { B = 2, H = 3, T = 60, COUNT = B * H * T };
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shape, 5);
    must(s4_layer_setup(context, layer, T));
    random_source random = {5};
    const double *u = random_samples(&random, COUNT), *dy = random_samples(&random, COUNT);
    s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, S4_F64, B, T, T);
    must(s4_placement_parse("cpu", &problem.placement));
    session cpu = session_open(context, &problem);
    const double *y = session_forward(&cpu, layer, 0, 0, u, NULL, NULL);
    const gradients g = session_backward(&cpu, layer, 0, 0, u, dy);
    for (int i = 0; i < 3; i++) {
        about("%s", texts[i]);
        must(s4_placement_parse(texts[i], &problem.placement));
        session s = session_open(context, &problem);
        expect_close("y", COUNT, session_forward(&s, layer, 0, 0, u, NULL, NULL), y, TOLERANCE_PLACES, 0);
        const gradients got = session_backward(&s, layer, 0, 0, u, dy);
        expect_close_gradients(&got, &g, TOLERANCE_PLACES_GRADIENT);
        session_close(&s);
    }
    session_close(&cpu);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* In the run that is there to show it: the emulated GPU is there, and says that it is one. */
Test(placement, emulated_gpu)
{
    if (!getenv("S4_TEST_EMULATED"))
        cr_skip_test("not the run of the emulated GPU");
    s4_context *context;
    must(s4_context_create(NULL, &context));
    s4_place_info info;
    must(s4_context_place(context, S4_PLACE_GPU, &info));
    cr_assert(info.available, "%s", info.reason);
    cr_assert(info.emulated);
    cr_assert(strlen(info.name) > 0);
    s4_context_destroy(context);
}

/* More modes than the GPU stages at a time, and more than one of its blocks has threads: too many for finite
 * differences. */
Test(placement, places_agree_on_many_modes)
{
    if (!place_has_gpu())
        cr_skip_test("no GPU place in this run");
    enum { B = 2, T = 8, COUNT = B * T };
    s4_context *context = context_open();
    const layer_shape wide = {.d_model = 1, .d_state = 260, .rank = 1, .plain_transforms = 1};
    s4_layer *layer = layer_random(&wide, 6);
    must(s4_layer_setup(context, layer, T));
    random_source random = {6};
    const double *u = random_samples(&random, COUNT), *dy = random_samples(&random, COUNT);
    s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, S4_F64, B, T, T);
    session s = session_open(context, &problem);
    const gradients got = session_backward(&s, layer, 0, 0, u, dy);
    session_close(&s);
    must(s4_placement_parse("cpu", &problem.placement));
    s = session_open(context, &problem);
    const gradients expected = session_backward(&s, layer, 0, 0, u, dy);
    session_close(&s);
    expect_close_gradients(&got, &expected, TOLERANCE_PLACES_GRADIENT);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* In the smallest memory each block of channels goes through the same buffers: the bits of the whole. With many threads
 * there is room for all spectra, and so nothing but copies between one block's gradients and the next. */
Test(placement, stages_in_blocks)
{
    static const char texts[][24] = {"split", "kernel=gpu", "convolve=gpu"};
    if (!place_has_gpu())
        cr_skip_test("no GPU place in this run");
    enum { B = 5, H = 3, T = 50, COUNT = B * H * T };
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shape, 7);
    must(s4_layer_setup(context, layer, T));
    random_source random = {7};
    const double *u = random_samples(&random, COUNT), *dy = random_samples(&random, COUNT);
    for (int i = 0; i < 3; i++) {
        about("%s", texts[i]);
        s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, S4_F32, B, T, T);
        must(s4_placement_parse(texts[i], &problem.placement));
        problem.threads = 5;
        session s = session_open(context, &problem);
        const double *y = session_forward(&s, layer, 0, 0, u, NULL, NULL);
        const gradients g = session_backward(&s, layer, 0, 0, u, dy);
        problem.host_budget = s.info.host_minimum;
        problem.device_budget = s.info.device_minimum;
        session_close(&s);
        s = session_open(context, &problem);
        cr_assert(s.info.block_channels < H, "one block only");
        expect_same_bits("y", COUNT, session_forward(&s, layer, 0, 0, u, NULL, NULL), y);
        const gradients got = session_backward(&s, layer, 0, 0, u, dy);
        expect_same_gradients(&got, &g);
        session_close(&s);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* Little memory on the host alone: its kernels are staged block by block while the device keeps all spectra, and
 * nothing comes back to the host in between. */
Test(placement, kernels_staged_in_blocks)
{
    if (!place_has_gpu())
        cr_skip_test("no GPU place in this run");
    enum { B = 1, H = 8, T = 600, COUNT = B * H * T };
    static const layer_shape wide = {.d_model = H, .d_state = 4, .rank = 1, .plain_transforms = 1};
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&wide, 7);
    must(s4_layer_setup(context, layer, T));
    random_source random = {7};
    const double *u = random_samples(&random, COUNT);
    s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F32, B, T, T);
    must(s4_placement_parse("convolve=gpu", &problem.placement));
    problem.threads = 1;
    session s = session_open(context, &problem);
    const double *y = session_forward(&s, layer, 0, 0, u, NULL, NULL);
    problem.host_budget = s.info.host_minimum;
    session_close(&s);
    s = session_open(context, &problem);
    cr_assert(s.info.block_channels < H && s.info.resident, "one block only, or spectra that are not kept");
    expect_same_bits("y", COUNT, session_forward(&s, layer, 0, 0, u, NULL, NULL), y);
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}
