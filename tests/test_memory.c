/*
 * Memory: the planned peak is the measured one to the byte, execution allocates nothing, and any allocation through the
 * hooks may fail without harm.
 */
#include <stdlib.h>

#include "allocations.h"
#include "expect.h"
#include "layers.h"
#include "place.h"
#include "session.h"

/* Kinds of layers; the first stands for all where the kind makes no difference. */
static const layer_shape shapes[] = {
    {.d_model = 5, .d_state = 16, .rank = 2, .plain_transforms = 1},
    {.d_model = 5, .d_state = 16, .rank = 1, .plain_transforms = 1, .channels = 2, .dt_untied = 1},
    {.d_model = 5, .d_state = 16, .mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .plain_transforms = 1},
    {.d_model = 5, .d_state = 16, .mode = S4_MODE_DIAG, .discretisation = S4_DSS, .plain_transforms = 1, .channels = 2,
     .bidirectional = 1},
};
#define SHAPES (int)(sizeof shapes / sizeof shapes[0])
static const layer_shape *const shape = &shapes[0];
enum { B = 3, H = 5, T = 200, MODES = 8, COUNT = B * H * T, STATES = B * H * MODES * 2 };

/* ---- hooks ----------------------------------------------------------------------------------------------------- */

typedef struct block {
    void *pointer;
    size_t bytes;
} block;

typedef struct hook_log {
    long calls, fail_at; /* fail_at: which call fails, 0 none */
    long live, wrong;
    int64_t current, peak;
    block blocks[64];
} hook_log;

static void *hook_allocate(void *user, size_t bytes, size_t alignment)
{
    hook_log *log = user;
    if (++log->calls == log->fail_at)
        return NULL;
    log->wrong += bytes == 0 || alignment == 0 || (alignment & (alignment - 1)) != 0;
    void *pointer = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    int slot = 0;
    while (slot < 64 && log->blocks[slot].pointer)
        slot++;
    if (!pointer || slot == 64)
        abort();
    memset(pointer, 0xff, bytes); /* NaN where it is read before it is written */
    log->blocks[slot] = (block){pointer, bytes};
    log->live++;
    log->current += (int64_t)bytes;
    if (log->current > log->peak)
        log->peak = log->current;
    return pointer;
}

static void hook_release(void *user, void *pointer)
{
    hook_log *log = user;
    for (int slot = 0; slot < 64; slot++)
        if (pointer && log->blocks[slot].pointer == pointer) {
            log->current -= (int64_t)log->blocks[slot].bytes;
            log->live--;
            log->blocks[slot].pointer = NULL;
            free(pointer);
            return;
        }
    log->wrong++; /* NULL, or no block of ours */
}

static s4_context *hooked_context(hook_log *log)
{
    s4_context_options options;
    S4_INIT(&options);
    options.threads = 2;
    options.allocate = hook_allocate;
    options.release = hook_release;
    options.allocator_user = log;
    s4_context *context;
    must(s4_context_create(&options, &context));
    place_required(context);
    return context;
}

/* ---- one plan of each kind ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    s4_direction direction;
    int states, chunked;
    s4_step_mode step_mode;
} work_list[] = {
    {"kernel", S4_DIRECTION_KERNEL, 0, 0, S4_STEP_LINEAR},
    {"forward", S4_DIRECTION_FORWARD, 0, 0, S4_STEP_LINEAR},
    {"forward with states", S4_DIRECTION_FORWARD, 1, 0, S4_STEP_LINEAR},
    {"training", S4_DIRECTION_TRAINING, 0, 0, S4_STEP_LINEAR},
    {"forward in chunks", S4_DIRECTION_FORWARD, 0, 1, S4_STEP_LINEAR},
    {"training in chunks with states", S4_DIRECTION_TRAINING, 1, 1, S4_STEP_LINEAR},
    {"step linear", S4_DIRECTION_STEP, 0, 0, S4_STEP_LINEAR},
    {"step dense", S4_DIRECTION_STEP, 0, 0, S4_STEP_DENSE},
    {"step diagonal", S4_DIRECTION_STEP, 0, 0, S4_STEP_DIAGONAL},
};
#define WORKS (int)(sizeof work_list / sizeof work_list[0])

static s4_problem work_problem(int work, s4_layer *layer, s4_dtype dtype)
{
    const s4_direction direction = work_list[work].direction;
    s4_problem problem = problem_of(layer, direction, dtype, B, T, direction == S4_DIRECTION_STEP ? 0 : T);
    problem.states = work_list[work].states;
    problem.step_mode = work_list[work].step_mode;
    problem.algorithm = work_list[work].chunked ? S4_ALGORITHM_CHUNKED : S4_ALGORITHM_FFT;
    problem.threads = 2;
    return problem;
}

/* Whether layers of this kind do this work, here. */
static int works(s4_context *context, int kind, int work, s4_layer *layer)
{
    const layer_shape *of = &shapes[kind];
    const int steps = work_list[work].direction == S4_DIRECTION_STEP;
    const int recurs = work_list[work].states || work_list[work].chunked || steps;
    if (recurs && (of->bidirectional || of->discretisation == S4_DSS))
        return 0;
    if (work_list[work].step_mode == S4_STEP_DENSE && of->mode == S4_MODE_DIAG)
        return 0;
    const s4_problem problem = work_problem(work, layer, S4_F64);
    return session_offered(context, &problem);
}

/* A layer of this kind, ready to train, which in chunks it is with plain C. */
static s4_layer *layer_for(s4_context *context, int kind, int work)
{
    s4_layer *layer = layer_random(&shapes[kind], 1);
    if (!work_list[work].chunked || work_list[work].direction != S4_DIRECTION_TRAINING)
        layer_make_trainable(context, layer, T);
    return layer;
}

typedef struct tensors {
    double *u, *dy, *y, *du, *state, *dstate;
    gradients g;
} tensors;

static tensors tensors_for(s4_layer *layer)
{
    random_source random = {1};
    /* As many as any kind needs: two outputs, two kernels of each. */
    tensors t = {.u = random_samples(&random, COUNT), .dy = random_samples(&random, 2 * COUNT), .y = numbers(4 * COUNT),
                 .du = numbers(COUNT), .state = numbers(STATES), .dstate = numbers(STATES),
                 .g = gradients_zero(layer, COUNT)};
    return t;
}

static s4_status execute(int work, const s4_plan *plan, s4_layer *layer, s4_workspace *workspace, tensors *t)
{
    const s4_direction direction = work_list[work].direction;
    double *const state = work_list[work].states ? t->state : NULL;
    s4_status status = s4_plan_refresh(plan, layer, workspace);
    if (status)
        return status;
    if (direction == S4_DIRECTION_KERNEL)
        return s4_plan_kernel(plan, layer, workspace, t->y);
    if (direction != S4_DIRECTION_STEP) {
        s4_forward_io io;
        S4_INIT(&io);
        io.u = t->u;
        io.y = t->y;
        io.state_in = io.state_out = state;
        status = s4_plan_forward(plan, layer, workspace, &io);
        if (status || direction == S4_DIRECTION_FORWARD)
            return status;
        s4_backward_io back;
        S4_INIT(&back);
        back.u = t->u;
        back.dy = t->dy;
        back.du = t->du;
        back.state_in = state;
        back.dstate_out = state;
        back.dstate_in = state ? t->dstate : NULL;
        for (int p = 0; p < S4_PARAMETER_COUNT; p++)
            back.gradients.parameter[p] = t->g.parameter[p];
        return s4_plan_backward(plan, layer, workspace, &back);
    }
    s4_step_io io;
    S4_INIT(&io);
    io.u = t->u;
    io.y = t->y;
    io.state = t->state;
    return s4_plan_step(plan, layer, workspace, &io);
}

/* ---- tests ----------------------------------------------------------------------------------------------------- */

/* Planned = measured on each place, by the context's count and by the hooks; and all is given back. */
Test(memory, planned_is_measured)
{
    for (int i = 0; i < SHAPES * WORKS; i++)
        for (int budget = 0; budget < 2; budget++) {
            const int kind = i / WORKS, work = i % WORKS;
            about("kind %d, %s%s", kind, work_list[work].name, budget ? ", minimum budget" : "");
            static hook_log log;
            log = (hook_log){0};
            s4_context *context = hooked_context(&log);
            s4_layer *layer = layer_for(context, kind, work);
            s4_memory_use use;
            must(s4_context_memory(context, S4_PLACE_CPU, &use));
            check(use.current == 0, "[%s] a set-up holds memory", about_text());
            check(use.peak == log.peak, "[%s] a set-up took memory that was not counted", about_text());

            if (!works(context, kind, work, layer)) {
                s4_layer_destroy(layer);
                s4_context_destroy(context);
                continue;
            }
            s4_problem problem = work_problem(work, layer, S4_F64);
            if (budget) {
                s4_plan *plan;
                s4_plan_info info;
                must(s4_plan_create(&problem, &plan));
                must(s4_plan_describe(plan, &info));
                s4_plan_destroy(plan);
                problem.host_budget = info.host_minimum;
                problem.device_budget = info.device_minimum;
            }
            must(s4_context_memory_reset(context, S4_PLACE_CPU));
            must(s4_context_memory_reset(context, S4_PLACE_GPU));
            log.peak = log.current;
            session s = session_open(context, &problem);
            tensors t = tensors_for(layer);
            must(execute(work, s.plan, layer, s.workspace, &t));
            must(execute(work, s.plan, layer, s.workspace, &t));
            must(s4_context_memory(context, S4_PLACE_CPU, &use));
            check(use.peak == s.info.host_peak && use.current == s.info.host_peak,
                  "[%s] host: planned %lld, now %lld, peak %lld", about_text(), (long long)s.info.host_peak,
                  (long long)use.current, (long long)use.peak);
            check(log.peak == s.info.host_peak, "[%s] host: planned %lld, hooks saw %lld", about_text(),
                  (long long)s.info.host_peak, (long long)log.peak);
            must(s4_context_memory(context, S4_PLACE_GPU, &use));
            check(use.peak == s.info.device_peak && use.current == s.info.device_peak,
                  "[%s] device: planned %lld, now %lld, peak %lld", about_text(), (long long)s.info.device_peak,
                  (long long)use.current, (long long)use.peak);
            session_close(&s);
            must(s4_context_memory(context, S4_PLACE_CPU, &use));
            check(use.current == 0 && log.current == 0 && log.live == 0, "[%s] host memory is left", about_text());
            must(s4_context_memory(context, S4_PLACE_GPU, &use));
            check(use.current == 0, "[%s] device memory is left", about_text());
            check(log.wrong == 0, "[%s] the hooks were called wrongly %ld times", about_text(), log.wrong);
            s4_layer_destroy(layer);
            s4_context_destroy(context);
        }
}

/* What a plan moves between the places is what it said. */
Test(memory, planned_transfers_are_made)
{
    s4_context *context = context_open();
    for (int i = 0; i < SHAPES * WORKS; i++) {
        const int kind = i / WORKS, work = i % WORKS;
        about("kind %d, %s", kind, work_list[work].name);
        s4_layer *layer = layer_for(context, kind, work);
        if (!works(context, kind, work, layer)) {
            s4_layer_destroy(layer);
            continue;
        }
        const s4_problem problem = work_problem(work, layer, S4_F64);
        session s = session_open(context, &problem);
        tensors t = tensors_for(layer);
        s4_ledger before, after;
        must(s4_context_ledger(context, &before));
        must(execute(work, s.plan, layer, s.workspace, &t));
        must(s4_context_ledger(context, &after));
        check(after.moved_to_device - before.moved_to_device == s.info.to_device,
              "[%s] to the device: planned %lld, moved %lld", about_text(), (long long)s.info.to_device,
              (long long)(after.moved_to_device - before.moved_to_device));
        check(after.moved_to_host - before.moved_to_host == s.info.to_host, "[%s] to the host: planned %lld, moved %lld",
              about_text(), (long long)s.info.to_host, (long long)(after.moved_to_host - before.moved_to_host));
        check(after.operations[S4_PLACE_CPU] + after.operations[S4_PLACE_GPU] >
                  before.operations[S4_PLACE_CPU] + before.operations[S4_PLACE_GPU], "[%s] nothing ran", about_text());
        check(!place_has_gpu() || work_list[work].direction == S4_DIRECTION_STEP || after.launches > before.launches, "[%s] nothing was launched",
              about_text());
        session_close(&s);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* After the first call of each kind, which lets FFTW and the threads' run-time take what they keep. */
Test(memory, execution_allocates_nothing)
{
    if (!allocations_supported())
        cr_skip_test("allocations cannot be counted in this build");
    if (place_has_gpu())
        cr_skip_test("an emulated GPU allocates as it runs; the library's own calls are the same as on the CPU");
    s4_context *context = context_open();
    /* Guards this test: the wrappers must be seen from inside the library. */
    s4_layer *layer = layer_random(shape, 3);
    allocations_begin();
    must(s4_layer_setup(context, layer, T));
    cr_assert(allocations_end() > 0, "no allocation was seen in a set-up, which makes some");
    s4_layer_destroy(layer);
    for (int i = 0; i < SHAPES * WORKS; i++)
        for (int d = 0; d < 2; d++) {
            const int kind = i / WORKS, work = i % WORKS;
            const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
            about("kind %d, %s, %s", kind, work_list[work].name, s4_dtype_name(dtype));
            layer = layer_for(context, kind, work);
            if (!works(context, kind, work, layer)) {
                s4_layer_destroy(layer);
                continue;
            }
            const s4_problem problem = work_problem(work, layer, dtype);
            session s = session_open(context, &problem);
            tensors t = tensors_for(layer);
            must(execute(work, s.plan, layer, s.workspace, &t));
            allocations_begin();
            const s4_status status = execute(work, s.plan, layer, s.workspace, &t);
            const long count = allocations_end();
            must(status);
            check(count == 0, "[%s] %ld allocations", about_text(), count);
            session_close(&s);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* Each allocation through the hooks fails in turn: a typed error, nothing lost, and all works afterwards. */
Test(memory, hooks_that_fail)
{
    static hook_log log;
    log = (hook_log){0};
    s4_context *context = hooked_context(&log);
    s4_layer *layer = layer_random(shape, 4);
    int64_t count;
    const double *plain = layer_bits(layer, &count);
    int refused = 0;
    for (long nth = 1;; nth++) {
        about("set-up, allocation %ld", nth);
        log.calls = 0;
        log.fail_at = nth;
        const s4_status status = s4_layer_setup(context, layer, T);
        if (log.calls < nth) { /* there are no more */
            must(status);
            break;
        }
        check(status == S4_ERROR_MEMORY, "[%s] %s", about_text(), s4_status_name(status));
        check(log.live == 0, "[%s] memory is left", about_text());
        expect_same_bits("parameters", count, layer_bits(layer, &count), plain);
        check(s4_layer_length(layer) == 0, "[%s] the length has changed", about_text());
        refused++;
    }
    cr_assert(refused > 0, "a set-up took no memory through the hooks");

    for (int work = 0; work < WORKS; work++) {
        about("workspace of %s", work_list[work].name);
        log.fail_at = 0;
        s4_layer_destroy(layer);
        layer = layer_for(context, 0, work);
        const s4_problem problem = work_problem(work, layer, S4_F32);
        s4_plan *plan;
        s4_workspace *workspace = (s4_workspace *)(void *)&log;
        if (!session_offered(context, &problem))
            continue;
        must(s4_plan_create(&problem, &plan));
        must(s4_plan_prepare(plan, context));
        s4_plan_info info;
        must(s4_plan_describe(plan, &info));
        if (!info.host_peak) { /* all of it is on the device */
            s4_plan_destroy(plan);
            continue;
        }
        log.calls = 0;
        log.fail_at = 1;
        must_refuse(s4_workspace_create(plan, &workspace), S4_ERROR_MEMORY, "bytes");
        check(workspace == NULL, "[%s] the pointer is not NULL", about_text());
        check(log.live == 0, "[%s] memory is left", about_text());
        s4_memory_use use;
        must(s4_context_memory(context, S4_PLACE_GPU, &use));
        check(use.current == 0, "[%s] device memory is left", about_text());
        log.fail_at = 0;
        must(s4_workspace_create(plan, &workspace));
        tensors t = tensors_for(layer);
        must(execute(work, plan, layer, workspace, &t));
        s4_workspace_destroy(workspace);
        s4_plan_destroy(plan);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
    cr_assert_eq(log.live, 0);
}

/* One hook without the other cannot work. */
Test(memory, hooks_come_in_pairs)
{
    s4_context_options options;
    S4_INIT(&options);
    options.allocate = hook_allocate;
    s4_context *context = (s4_context *)(void *)&options;
    must_refuse(s4_context_create(&options, &context), S4_ERROR_ARGUMENT, "release");
    cr_assert(context == NULL);
}
