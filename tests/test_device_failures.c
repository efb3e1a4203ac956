/*
 * Every call into CUDA and cuFFT fails in turn, by the fault injection of the emulated GPU: a typed error, nothing left
 * behind, and the next call works.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "cuda_calls.h"
#include "expect.h"
#include "gpu_emulation/include/gpu_emulation.h"
#include "layers.h"
#include "place.h"
#include "s4/cuda.h"
#include "session.h"

enum { B = 2, H = 2, T = 36, COUNT = B * H * T, STATES = B * H * 6 };

typedef struct emulation {
    void (*fail_call)(const char *name, long nth, int error);
    size_t (*live_objects)(void);
} emulation;

static emulation emulation_find(void)
{
    const char *path = getenv("S4_GPU_MODULE");
    void *module = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    emulation e = {NULL, NULL};
    if (module) {
        *(void **)&e.fail_call = dlsym(module, "s4_emulation_fail_call");
        *(void **)&e.live_objects = dlsym(module, "s4_emulation_live_objects");
    }
    if (!e.fail_call || !e.live_objects || !place_has_gpu())
        cr_skip_test("needs the emulated GPU");
    return e;
}

/* By FFT, or in chunks with states. */
static s4_problem problem_by(int chunked, s4_layer *layer)
{
    s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, S4_F32, B, T, T);
    problem.states = chunked;
    problem.algorithm = chunked ? S4_ALGORITHM_CHUNKED : S4_ALGORITHM_FFT;
    return problem;
}

static s4_problem problem_for(s4_layer *layer) { return problem_by(0, layer); }

static s4_layer *layer_by(int chunked)
{
    const layer_shape shape = {.d_model = H, .d_state = 6, .rank = 1, .plain_transforms = 1};
    s4_context *context;
    must(s4_context_create(NULL, &context));
    s4_layer *layer = layer_random(&shape, 1);
    if (!chunked)
        must(s4_layer_setup(context, layer, T));
    s4_context_destroy(context);
    return layer;
}

static s4_layer *layer_for(void) { return layer_by(0); }

static void must_be_typed(s4_status status)
{
    check(status == S4_ERROR_DEVICE || status == S4_ERROR_MEMORY || status == S4_ERROR_UNAVAILABLE,
          "[%s] %s: %s", about_text(), s4_status_name(status), s4_last_error());
    check(strlen(s4_last_error()) > 0, "[%s] no text", about_text());
}

/* From nothing to a workspace. */
static void open_and_prepare(int chunked)
{
    const emulation e = emulation_find();
    s4_layer *layer = layer_by(chunked);
    const s4_problem problem = problem_by(chunked, layer);
    int failures = 0;
    for (long nth = 1;; nth++) {
        about("call %ld", nth);
        s4_context *context;
        s4_plan *plan;
        s4_workspace *workspace = NULL;
        must(s4_context_create(NULL, &context));
        must(s4_plan_create(&problem, &plan));
        e.fail_call(NULL, nth, 0);
        s4_status status = s4_plan_prepare(plan, context);
        if (status == S4_OK)
            status = s4_workspace_create(plan, &workspace);
        e.fail_call(NULL, 0, 0);
        s4_workspace_destroy(workspace);
        s4_memory_use use;
        must(s4_context_memory(context, S4_PLACE_GPU, &use));
        check(use.current == 0, "[%s] device memory is left", about_text());
        s4_plan_destroy(plan);
        s4_context_destroy(context);
        check(e.live_objects() == 0, "[%s] %zu objects of the device are left", about_text(), e.live_objects());
        if (status == S4_OK)
            break; /* there are no more calls to fail */
        must_be_typed(status);
        failures++;
        check(nth < 10000, "no end of calls");
    }
    cr_assert(failures >= 3, "only %d calls could fail", failures);
    s4_layer_destroy(layer);
}

Test(device_failures, opening_and_preparing)
{
    open_and_prepare(0);
    open_and_prepare(1);
}

typedef struct outcome {
    float y[COUNT], du[COUNT];
    double state[STATES], dstate[STATES]; /* of plans with states */
    gradients g;
} outcome;

static s4_status execute(const session *s, s4_layer *layer, const float *u, const float *dy, outcome *out)
{
    const int states = s->info.problem.states;
    for (int i = 0; i < STATES; i++)
        out->state[i] = out->dstate[i] = 0.01 * i;
    s4_status status = s4_plan_refresh(s->plan, layer, s->workspace);
    if (status)
        return status;
    s4_forward_io forward;
    S4_INIT(&forward);
    forward.u = u;
    forward.y = out->y;
    forward.state_in = forward.state_out = states ? out->state : NULL;
    status = s4_plan_forward(s->plan, layer, s->workspace, &forward);
    if (status)
        return status;
    s4_backward_io backward;
    S4_INIT(&backward);
    backward.u = u;
    backward.dy = dy;
    backward.du = out->du;
    backward.dstate_out = backward.dstate_in = states ? out->dstate : NULL;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        backward.gradients.parameter[p] = out->g.parameter[p];
    return s4_plan_backward(s->plan, layer, s->workspace, &backward);
}

/* In one block, and in many, so that samples go through both slots. */
static void execute_with_failures(int chunked, int in_blocks)
{
    const emulation e = emulation_find();
    s4_layer *layer = layer_by(chunked);
    s4_context *context = context_open();
    s4_problem problem = problem_by(chunked, layer);
    session s = session_open(context, &problem);
    random_source random = {1};
    const float *u = tensor_of(S4_F32, COUNT, random_samples(&random, COUNT)),
                *dy = tensor_of(S4_F32, COUNT, random_samples(&random, COUNT));
    static outcome expected, got;
    expected.g = gradients_zero(layer, COUNT);
    got.g = gradients_zero(layer, COUNT);
    must(execute(&s, layer, u, dy, &expected));
    if (in_blocks) {
        /* In chunks a little more than the minimum: blocks of a row, whose matrices are made again in every call. */
        problem.device_budget = s.info.device_minimum + chunked * (s.info.device_peak - s.info.device_minimum) / 64;
        session_close(&s);
        s = session_open(context, &problem);
        check(s.info.block_channels * s.info.block_batch * 2 < B * H, "all in %d blocks of channels, %d of rows",
              (int)s.info.block_channels, (int)s.info.block_batch);
    }
    int failures = 0;
    for (long nth = 1;; nth++) {
        about("%s, call %ld", chunked ? "chunked" : "fft", nth);
        e.fail_call(NULL, nth, 0);
        const s4_status status = execute(&s, layer, u, dy, &got);
        e.fail_call(NULL, 0, 0);
        if (status == S4_OK)
            break;
        must_be_typed(status);
        failures++;
        must(execute(&s, layer, u, dy, &got)); /* the same context, plan and workspace */
        check(memcmp(got.y, expected.y, sizeof got.y) == 0 && memcmp(got.du, expected.du, sizeof got.du) == 0,
              "[%s] other bits after a failure", about_text());
        expect_same_bits("states after a failure", STATES, got.state, expected.state);
        expect_same_bits("gradients of states after a failure", STATES, got.dstate, expected.dstate);
        for (int p = 0; p < S4_PARAMETER_COUNT; p++)
            expect_same_bits("a gradient after a failure", got.g.count[p], got.g.parameter[p], expected.g.parameter[p]);
        check(nth < 10000, "no end of calls");
    }
    cr_assert(failures >= 10, "only %d calls could fail", failures);
    session_close(&s);
    s4_context_destroy(context);
    s4_layer_destroy(layer);
    cr_assert_eq(e.live_objects(), 0);
}

Test(device_failures, executing)
{
    execute_with_failures(0, 0);
    execute_with_failures(1, 0);
}

Test(device_failures, executing_in_blocks)
{
    execute_with_failures(0, 1);
    execute_with_failures(1, 1);
}

/* To a stream of the caller, a call with tensors on the device, and back. Whatever fails, the workspace's own stream
 * serves it again. */
static void fail_on_stream_of_the_caller(int chunked)
{
    const emulation e = emulation_find();
    const cuda_calls cuda = cuda_find();
    s4_layer *layer = layer_by(chunked);
    s4_context *context = context_open();
    s4_problem problem = problem_by(chunked, layer);
    problem.tensors = S4_PLACE_GPU;
    session s = session_open(context, &problem);
    random_source random = {1};
    const size_t bytes = COUNT * sizeof(float);
    float *u = cuda_put(&cuda, bytes, tensor_of(S4_F32, COUNT, random_samples(&random, COUNT)));
    float *y = cuda_put(&cuda, bytes, tensor_zero(S4_F32, COUNT)), expected[COUNT], got[COUNT] = {0};
    struct CUstream_st *stream = cuda_stream(&cuda);
    must(s4_plan_refresh(s.plan, layer, s.workspace));
    s4_forward_io io;
    S4_INIT(&io);
    io.u = u;
    io.y = y;
    must(s4_plan_forward(s.plan, layer, s.workspace, &io));
    cuda_get(&cuda, bytes, y, expected);
    int failures = 0;
    for (long nth = 1;; nth++) {
        about("%s, call %ld", chunked ? "chunked" : "fft", nth);
        e.fail_call(NULL, nth, 0);
        s4_status status = s4_workspace_set_stream(s.workspace, stream);
        if (status == S4_OK)
            status = s4_plan_forward(s.plan, layer, s.workspace, &io);
        if (status == S4_OK)
            status = s4_workspace_set_stream(s.workspace, NULL);
        e.fail_call(NULL, 0, 0);
        if (status == S4_OK)
            break;
        must_be_typed(status);
        failures++;
        must(s4_workspace_set_stream(s.workspace, NULL));
        check(cuda.copy(y, got, bytes, TO_DEVICE) == 0, "[%s] no copy to the device", about_text());
        must(s4_plan_forward(s.plan, layer, s.workspace, &io));
        cuda_get(&cuda, bytes, y, got);
        check(memcmp(got, expected, bytes) == 0, "[%s] other bits after a failure", about_text());
        memset(got, 0, bytes);
        check(nth < 1000, "no end of calls");
    }
    cr_assert(failures >= 5, "only %d calls could fail", failures);
    session_close(&s);
    check(cuda.free(u) == 0 && cuda.free(y) == 0 && cuda.stream_destroy(stream) == 0, "the caller's own cannot go");
    s4_context_destroy(context);
    s4_layer_destroy(layer);
    cr_assert_eq(e.live_objects(), 0);
}

Test(device_failures, stream_of_the_caller)
{
    fail_on_stream_of_the_caller(0);
    fail_on_stream_of_the_caller(1);
}

/* ---- what waits for what ----------------------------------------------------------------------------------------- */

/* Of the emulation since its start, from the module that emulation_find has loaded. */
static s4_emulation_counts counts_now(void)
{
    void *module = dlopen(getenv("S4_GPU_MODULE"), RTLD_NOW | RTLD_LOCAL);
    void (*get_counts)(s4_emulation_counts *counts);
    *(void **)&get_counts = dlsym(module, "s4_emulation_get_counts");
    s4_emulation_counts counts;
    get_counts(&counts);
    return counts;
}

static void nothing_is_pending(void)
{
    const s4_emulation_counts counts = counts_now();
    cr_assert(counts.launches > 0);
    cr_assert_eq(counts.kernels, counts.launches, "%d of %d kernels have run", (int)counts.kernels,
                 (int)counts.launches);
}

/* A refresh returns when its work is done, though nothing comes back to the host; so what dies is told by the call that
 * began it. */
Test(device_failures, refresh_waits)
{
    const emulation e = emulation_find();
    s4_layer *layer = layer_for();
    s4_context *context = context_open();
    const s4_problem problem = problem_for(layer);
    session s = session_ready(context, &problem, layer);
    nothing_is_pending();
    e.fail_call("kernel", 1, 0);
    must_refuse(s4_plan_refresh(s.plan, layer, s.workspace), S4_ERROR_DEVICE, "failed");
    session_close(&s);
    s4_context_destroy(context);
    s4_layer_destroy(layer);
    cr_assert_eq(e.live_objects(), 0);
}

static int cancel(void *user, const char *operation, int64_t done, int64_t total)
{
    return user == NULL && *operation && done <= total;
}

/* Work that was given up half way has ended before the plan that it transforms with goes, or the memory it is in. */
static void give_up(int plan_first)
{
    const emulation e = emulation_find();
    s4_layer *layer = layer_for();
    s4_context_options options;
    S4_INIT(&options);
    options.progress = cancel;
    s4_context *context;
    must(s4_context_create(&options, &context));
    const s4_problem problem = problem_for(layer);
    session s = session_open(context, &problem);
    must_refuse(s4_plan_refresh(s.plan, layer, s.workspace), S4_ERROR_CANCELLED, "");
    if (plan_first) {
        s4_plan_destroy(s.plan);
        s.plan = NULL;
    } else {
        s4_workspace_destroy(s.workspace);
        s.workspace = NULL;
    }
    nothing_is_pending();
    session_close(&s);
    s4_context_destroy(context);
    s4_layer_destroy(layer);
    cr_assert_eq(e.live_objects(), 0);
}

Test(device_failures, plan_outlives_its_transforms)
{
    give_up(1);
}

Test(device_failures, workspace_outlives_its_work)
{
    give_up(0);
}

/* S4_GPU_DEBUG=1: every launch is waited for, kernel or transform, and an error names it. */
Test(device_failures, debug_mode)
{
    const emulation e = emulation_find();
    setenv("S4_GPU_DEBUG", "1", 1);
    s4_layer *layer = layer_for();
    s4_context *context = context_open();
    const s4_problem problem = problem_for(layer);
    session s = session_open(context, &problem);
    s4_emulation_counts before = counts_now();
    e.fail_call("cufftExec", 1, 0);
    must_refuse(s4_plan_refresh(s.plan, layer, s.workspace), S4_ERROR_DEVICE, "FFT");
    cr_assert_eq(counts_now().kernels, before.kernels + 1, "the kernel before the transform has not run");
    e.fail_call("launch", 2, 0);
    must_refuse(s4_plan_refresh(s.plan, layer, s.workspace), S4_ERROR_DEVICE, "k_kernel_store");
    cr_assert_eq(counts_now().transforms, before.transforms + 1, "the transform before the kernel has not run");
    e.fail_call("cudaStreamSynchronize", 2, 0); /* waits for the transform, behind the first kernel */
    must_refuse(s4_plan_refresh(s.plan, layer, s.workspace), S4_ERROR_DEVICE, "FFT");
    e.fail_call("kernel", 1, 0);
    must_refuse(s4_plan_refresh(s.plan, layer, s.workspace), S4_ERROR_DEVICE, "k_kernel_spectrum");
    session_close(&s);
    s4_context_destroy(context);
    s4_layer_destroy(layer);
    cr_assert_eq(e.live_objects(), 0);
}
