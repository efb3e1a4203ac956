/*
 * Work on a stream of the caller, which goes on when the call has returned; CUDA graphs; two workspaces at once. Tensors
 * are in device memory, and results have the bits of tensors on the host. Each by FFT, then in chunks, with states.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "cuda_calls.h"
#include "expect.h"
#include "gpu_emulation/include/gpu_emulation.h"
#include "host_tensors.h"
#include "place.h"
#include "s4/cuda.h"

enum { B = 2, H = 3, T = 40, COUNT = B * H * T, BYTES = COUNT * 4, STATES = B * H * 4, RESULTS = 2 * COUNT + 2 * STATES };

/* A plan with tensors on the device, and one call's. */
typedef struct scene {
    cuda_calls cuda;
    s4_context *context;
    s4_layer *layer;
    sizes sizes;
    session run;
    struct CUstream_st *stream;
    float *u, *dy, *y, *du; /* on the device, as all that follow */
    double *state, *state_out, *dstate, *dstate_in; /* or NULL */
    s4_forward_io forward;
    s4_backward_io backward;
} scene;

/* A workspace, a stream and tensors more on the plan of `s`. */
static void scene_fill(scene *s, uint64_t seed)
{
    random_source random = {seed};
    must(s4_workspace_create(s->run.plan, &s->run.workspace));
    s->stream = cuda_stream(&s->cuda);
    must(s4_workspace_set_stream(s->run.workspace, s->stream));
    s->u = cuda_put(&s->cuda, BYTES, tensor_of(S4_F32, COUNT, random_samples(&random, COUNT)));
    s->dy = cuda_put(&s->cuda, BYTES, tensor_of(S4_F32, COUNT, random_samples(&random, COUNT)));
    s->y = cuda_put(&s->cuda, BYTES, tensor_zero(S4_F32, COUNT));
    s->du = cuda_put(&s->cuda, BYTES, tensor_zero(S4_F32, COUNT));
    S4_INIT(&s->forward);
    s->forward.u = s->u;
    s->forward.y = s->y;
    S4_INIT(&s->backward);
    s->backward.u = s->u;
    s->backward.dy = s->dy;
    s->backward.du = s->du;
    const state_pair states = states_of_sizes(s->layer, &s->sizes);
    if (states.in) {
        s->state = cuda_put(&s->cuda, STATES * sizeof(double), states.in);
        s->state_out = cuda_put(&s->cuda, STATES * sizeof(double), states.in);
        s->dstate = cuda_put(&s->cuda, STATES * sizeof(double), states.gradient);
        s->dstate_in = cuda_put(&s->cuda, STATES * sizeof(double), states.in);
        s->forward.state_in = s->backward.state_in = s->state;
        s->forward.state_out = s->state_out;
        s->backward.dstate_out = s->dstate;
        s->backward.dstate_in = s->dstate_in;
    }
    must(s4_plan_refresh(s->run.plan, s->layer, s->run.workspace));
}

static scene scene_open_within(int chunked, int least_budget)
{
    scene s = {.cuda = cuda_find(), .context = context_open(), .sizes = {B, H, T, T, 1, 0, S4_F32, chunked, chunked}};
    about("%s", chunked ? "chunked" : "fft");
    s.layer = layer_of_sizes(s.context, &s.sizes, 3);
    s4_problem problem = problem_of_sizes(s.layer, &s.sizes, S4_DIRECTION_TRAINING);
    session_required(s.context, s.layer, &problem);
    problem.tensors = S4_PLACE_GPU;
    must(s4_plan_create(&problem, &s.run.plan));
    if (least_budget) {
        must(s4_plan_describe(s.run.plan, &s.run.info));
        s4_plan_destroy(s.run.plan);
        problem.device_budget = s.run.info.device_minimum;
        must(s4_plan_create(&problem, &s.run.plan));
    }
    must(s4_plan_prepare(s.run.plan, s.context));
    scene_fill(&s, 9);
    return s;
}

static scene scene_open(int chunked) { return scene_open_within(chunked, 0); }

static void scene_empty(scene *s)
{
    s4_workspace_destroy(s->run.workspace);
    check(s->cuda.stream_destroy(s->stream) == 0, "the caller's stream cannot be destroyed");
    void *const memory[] = {s->u, s->dy, s->y, s->du, s->state, s->state_out, s->dstate, s->dstate_in};
    for (int i = 0; i < 8; i++)
        check(!memory[i] || s->cuda.free(memory[i]) == 0, "memory of the caller cannot be freed");
}

static void scene_close(scene *s)
{
    scene_empty(s);
    s4_plan_destroy(s->run.plan);
    s4_layer_destroy(s->layer);
    s4_context_destroy(s->context);
}

static void scene_forward(scene *s)
{
    must(s4_plan_forward(s->run.plan, s->layer, s->run.workspace, &s->forward));
}
static void scene_backward(scene *s)
{
    must(s4_plan_backward(s->run.plan, s->layer, s->run.workspace, &s->backward));
}

/* y, du, and states and their gradients if there are any, once the stream is done. */
static double *scene_results(scene *s)
{
    float *y = tensor_zero(S4_F32, 2 * COUNT);
    check(s->cuda.stream_synchronize(s->stream) == 0, "[%s] the caller's stream fails", about_text());
    cuda_get(&s->cuda, BYTES, s->y, y);
    cuda_get(&s->cuda, BYTES, s->du, y + COUNT);
    double *results = numbers(RESULTS), *states = results + 2 * COUNT;
    memcpy(results, values_of(S4_F32, 2 * COUNT, y), 2 * COUNT * sizeof *results);
    if (s->state) {
        cuda_get(&s->cuda, STATES * sizeof *states, s->state_out, states);
        cuda_get(&s->cuda, STATES * sizeof *states, s->dstate_in, states + STATES);
    }
    return results;
}

static void scene_clear(scene *s)
{
    const void *zeros = tensor_zero(S4_F32, COUNT);
    check(s->cuda.copy(s->y, zeros, BYTES, TO_DEVICE) == 0 && s->cuda.copy(s->du, zeros, BYTES, TO_DEVICE) == 0,
          "[%s] no copy to the device", about_text());
    const double *states = numbers(STATES);
    check(!s->state || (s->cuda.copy(s->state_out, states, STATES * sizeof *states, TO_DEVICE) == 0 &&
                        s->cuda.copy(s->dstate_in, states, STATES * sizeof *states, TO_DEVICE) == 0),
          "[%s] no copy to the device", about_text());
}

/* What the layer's convolution gives on the host. */
static double *scene_expected(scene *s, uint64_t seed)
{
    random_source random = {seed};
    const double *u = random_samples(&random, COUNT), *dy = random_samples(&random, COUNT);
    const outcome o = with_host_tensors(s->context, s->layer, &s->sizes, place_placement(), u, dy, NULL);
    double *results = numbers(RESULTS);
    memcpy(results, o.y, COUNT * sizeof *results);
    memcpy(results + COUNT, o.g.du, COUNT * sizeof *results);
    if (s->state) {
        memcpy(results + 2 * COUNT, o.state, STATES * sizeof *results);
        memcpy(results + 2 * COUNT + STATES, o.entering, STATES * sizeof *results);
    }
    return results;
}

static void in_both(void (*test)(int chunked))
{
    for (int chunked = 0; chunked < 2; chunked++)
        test(chunked);
}

static void get_counts(const scene *s, s4_emulation_counts *counts)
{
    void (*get)(s4_emulation_counts *counts);
    memset(counts, 0, sizeof *counts);
    *(void **)&get = dlsym(s->cuda.module, "s4_emulation_get_counts");
    if (get)
        get(counts);
}

/* Calls return before their work is done, which is in order with what else the stream has, before and after. */
static void stream_of_the_caller(int chunked)
{
    scene s = scene_open(chunked);
    s4_emulation_counts counts;
    scene_forward(&s);
    scene_backward(&s);
    get_counts(&s, &counts);
    const char *seed = getenv("S4_EMULATION_SEED");
    if (counts.launches && (!seed || strcmp(seed, "1") == 0))
        check(counts.kernels < counts.launches, "all %d kernels have run: the calls have waited", (int)counts.launches);
    const double *expected = scene_expected(&s, 9);
    expect_same_bits("results", RESULTS, scene_results(&s), expected);

    random_source random = {9};
    const float *u = tensor_of(S4_F32, COUNT, random_samples(&random, COUNT));
    const float *zeros = tensor_zero(S4_F32, COUNT);
    float *y = tensor_zero(S4_F32, COUNT);
    check(s.cuda.copy(s.u, zeros, BYTES, TO_DEVICE) == 0, "no copy to the device");
    check(s.cuda.copy_async(s.u, u, BYTES, TO_DEVICE, s.stream) == 0, "no copy to the device");
    must(s4_plan_forward(s.run.plan, s.layer, s.run.workspace, &s.forward));
    check(s.cuda.copy_async(y, s.y, BYTES, TO_HOST, s.stream) == 0, "no copy from the device");
    check(s.cuda.copy_async(s.u, zeros, BYTES, TO_DEVICE, s.stream) == 0, "no copy to the device");
    check(s.cuda.stream_synchronize(s.stream) == 0, "the caller's stream fails");
    expect_same_bits("y", COUNT, values_of(S4_F32, COUNT, y), expected);

    /* Back to the workspace's own, which waits for what is there; calls wait again. */
    scene_forward(&s);
    must(s4_workspace_set_stream(s.run.workspace, NULL));
    get_counts(&s, &counts);
    check(counts.kernels == counts.launches, "%d of %d kernels have run", (int)counts.kernels, (int)counts.launches);
    s.forward.u = s.dy;
    must(s4_plan_forward(s.run.plan, s.layer, s.run.workspace, &s.forward));
    get_counts(&s, &counts);
    check(counts.kernels == counts.launches, "%d of %d kernels have run", (int)counts.kernels, (int)counts.launches);
    scene_close(&s);
}

Test(device_streams, stream_of_the_caller)
{
    in_both(stream_of_the_caller);
}

/* Work that a call has left on the stream is waited for before what it needs goes. */
static void nothing_is_left(const scene *s)
{
    s4_emulation_counts counts;
    get_counts(s, &counts);
    check(counts.kernels == counts.launches, "%d of %d kernels have run", (int)counts.kernels, (int)counts.launches);
}

static void plan_goes_first(int chunked)
{
    scene s = scene_open(chunked);
    scene_forward(&s);
    s4_plan_destroy(s.run.plan);
    s.run.plan = NULL;
    nothing_is_left(&s);
    scene_close(&s);
}

Test(device_streams, plan_goes_first)
{
    in_both(plan_goes_first);
}

static void workspace_goes_first(int chunked)
{
    scene s = scene_open(chunked);
    scene_forward(&s);
    s4_workspace_destroy(s.run.workspace);
    s.run.workspace = NULL;
    nothing_is_left(&s);
    scene_close(&s);
}

Test(device_streams, workspace_goes_first)
{
    in_both(workspace_goes_first);
}

/* What a call puts on the stream, captured once, runs again and again, with the parameters of the last refresh. */
static void graph_within(int chunked, int least_budget)
{
    scene s = scene_open_within(chunked, least_budget);
    scene_forward(&s);
    scene_backward(&s);
    const double *expected = scene_expected(&s, 9);
    expect_same_bits("results", RESULTS, scene_results(&s), expected);
    void *graph = NULL, *executable = NULL;
    check(s.cuda.begin_capture(s.stream, 0) == 0, "no capture");
    scene_forward(&s);
    scene_backward(&s);
    check(s.cuda.end_capture(s.stream, &graph) == 0 && graph, "the capture is spoilt");
    check(s.cuda.instantiate(&executable, graph, 0) == 0, "no executable graph");
    for (int i = 0; i < 3; i++) {
        about("%s, launch %d", chunked ? "chunked" : "fft", i);
        scene_clear(&s);
        check(s.cuda.launch(executable, s.stream) == 0, "[%s] no launch", about_text());
        expect_same_bits("results", RESULTS, scene_results(&s), expected);
        if (i != 1)
            continue;
        for (int64_t k = 0; k < layer_count(s.layer, S4_PARAMETER_C); k++)
            layer_data(s.layer, S4_PARAMETER_C)[k] *= -0.5;
        must(s4_layer_changed(s.layer, 1u << S4_PARAMETER_C));
        must(s4_plan_refresh(s.run.plan, s.layer, s.run.workspace));
        const double *other = scene_expected(&s, 9);
        expect_other_bits("results", RESULTS, other, expected);
        expected = other;
    }
    check(s.cuda.executable_destroy(executable) == 0 && s.cuda.graph_destroy(graph) == 0, "graphs cannot be destroyed");
    scene_close(&s);
}

static void graph(int chunked) { graph_within(chunked, 0); }
/* Kernels that are made again in every call must be made there. */
static void graph_in_blocks(int chunked)
{
    if (chunked || place_placement().stage[S4_STAGE_KERNEL] == S4_PLACE_GPU)
        graph_within(chunked, 1);
}

Test(device_streams, graph)
{
    in_both(graph);
}

Test(device_streams, graph_in_blocks)
{
    in_both(graph_in_blocks);
}

/* What a call that went on has found is of no interest to a refresh, before which another plan may have had the memory. */
Test(device_streams, refresh_after_another_plan)
{
    enum { ROWS = 400 };
    scene s = scene_open_within(1, 1);
    s4_problem problem = problem_of(s.layer, S4_DIRECTION_STEP, S4_F32, ROWS, T, 0);
    must(s4_placement_parse("step=gpu", &problem.placement));
    session other = session_open(s.context, &problem);
    random_source random = {4};
    s4_step_io io;
    S4_INIT(&io);
    io.u = tensor_of(S4_F32, ROWS * H * T, random_samples(&random, ROWS * H * T));
    io.y = tensor_zero(S4_F32, ROWS * H * T);
    io.state = numbers(ROWS * H * 4);
    s4_workspace_destroy(s.run.workspace);
    s.run.workspace = other.workspace; /* the larger one */
    must(s4_workspace_set_stream(s.run.workspace, s.stream));
    for (int i = 0; i < 2; i++) {
        must(s4_plan_refresh(s.run.plan, s.layer, s.run.workspace));
        scene_forward(&s);
        must(s4_plan_refresh(other.plan, s.layer, s.run.workspace));
        must(s4_plan_step(other.plan, s.layer, s.run.workspace, &io));
    }
    void *graph = NULL; /* that is never launched */
    must(s4_plan_refresh(s.run.plan, s.layer, s.run.workspace));
    check(s.cuda.begin_capture(s.stream, 0) == 0, "no capture");
    scene_forward(&s);
    check(s.cuda.end_capture(s.stream, &graph) == 0 && s.cuda.graph_destroy(graph) == 0, "the capture is spoilt");
    must(s4_workspace_set_stream(s.run.workspace, NULL));
    scene_forward(&s);
    other.workspace = NULL;
    session_close(&other);
    scene_close(&s);
}

/* One plan, two workspaces, each with a stream and tensors of its own, in turn: work of one does not use the FFT plans'
 * stream or work area of the other. */
static void two_workspaces_in_turn(int chunked)
{
    scene a = scene_open(chunked), b = a;
    scene_fill(&b, 10);
    const double *expected_a = scene_expected(&a, 9), *expected_b = scene_expected(&b, 10);
    for (int i = 0; i < 3; i++) {
        scene_forward(&a);
        scene_forward(&b);
        scene_backward(&a);
        scene_backward(&b);
    }
    expect_same_bits("results of the second", RESULTS, scene_results(&b), expected_b);
    expect_same_bits("results of the first", RESULTS, scene_results(&a), expected_a);
    scene_empty(&b);
    scene_close(&a);
}

Test(device_streams, two_workspaces_in_turn)
{
    in_both(two_workspaces_in_turn);
}

typedef struct worker {
    scene *s;
    const double *expected;
    int wrong;
} worker;

static void *work(void *argument)
{
    worker *w = argument;
    scene *s = w->s;
    for (int i = 0; i < 10; i++) {
        w->wrong += s4_plan_refresh(s->run.plan, s->layer, s->run.workspace) != S4_OK;
        w->wrong += s4_plan_forward(s->run.plan, s->layer, s->run.workspace, &s->forward) != S4_OK;
        w->wrong += s4_plan_backward(s->run.plan, s->layer, s->run.workspace, &s->backward) != S4_OK;
        w->wrong += s->cuda.stream_synchronize(s->stream) != 0;
    }
    return NULL;
}

static void two_threads(int chunked)
{
    scene a = scene_open(chunked), b = a;
    scene_fill(&b, 10);
    worker workers[2] = {{&a, scene_expected(&a, 9), 0}, {&b, scene_expected(&b, 10), 0}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        check(pthread_create(&threads[i], NULL, work, &workers[i]) == 0, "no thread");
    for (int i = 0; i < 2; i++)
        check(pthread_join(threads[i], NULL) == 0, "no thread");
    for (int i = 0; i < 2; i++) {
        about("thread %d", i);
        check(workers[i].wrong == 0, "[%s] %d calls failed", about_text(), workers[i].wrong);
        expect_same_bits("results", RESULTS, scene_results(workers[i].s), workers[i].expected);
    }
    scene_empty(&b);
    scene_close(&a);
}

Test(device_streams, two_threads)
{
    in_both(two_threads);
}
