/*
 * Budgets over a grid of problems: what a plan says it takes is what is taken, to the byte, by the library's own count, by
 * the allocator's hooks and by what reaches malloc; every budget from the minimum up and every number of threads gives the
 * same bits; a byte less is refused.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "allocations.h"
#include "expect.h"
#include "layers.h"
#include "place.h"
#include "problem_calls.h"

/* ---- the grid ------------------------------------------------------------------------------------------------- */

static const layer_shape kinds[] = {
    {.rank = 1, .d_model = 5, .d_state = 8, .plain_transforms = 1},
    {.rank = 2, .d_model = 6, .d_state = 4, .n_ssm = 2, .plain_transforms = 1},
    {.rank = 3, .d_model = 3, .d_state = 6, .dt_untied = 1, .plain_transforms = 1},
    {.rank = 4, .d_model = 2, .d_state = 10, .plain_transforms = 1},
    {.rank = 1, .d_model = 4, .d_state = 6, .channels = 3, .plain_transforms = 1},
    {.rank = 2, .d_model = 4, .d_state = 4, .bidirectional = 1, .plain_transforms = 1},
    {.rank = 1, .d_model = 3, .d_state = 8, .channels = 2, .bidirectional = 1, .dt_untied = 1, .plain_transforms = 1},
    {.rank = 1, .d_model = 7, .d_state = 4, .dt_transform = S4_TRANSFORM_SOFTPLUS, .real_transform = S4_TRANSFORM_RELU},
    {.rank = 1, .d_model = 4, .d_state = 8, .bandlimit = 0.5, .plain_transforms = 1},
    {.mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .d_model = 5, .d_state = 8, .plain_transforms = 1},
    {.mode = S4_MODE_DIAG, .discretisation = S4_BILINEAR, .d_model = 6, .d_state = 6, .n_ssm = 3, .plain_transforms = 1},
    {.mode = S4_MODE_DIAG, .discretisation = S4_DSS, .d_model = 4, .d_state = 6, .plain_transforms = 1},
    {.mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .d_model = 3, .d_state = 10, .dt_untied = 1, .plain_transforms = 1},
    {.mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .d_model = 4, .d_state = 4, .channels = 3, .plain_transforms = 1},
    {.mode = S4_MODE_DIAG, .discretisation = S4_BILINEAR, .d_model = 4, .d_state = 6, .bidirectional = 1,
     .plain_transforms = 1},
    {.mode = S4_MODE_DIAG, .discretisation = S4_DSS, .d_model = 3, .d_state = 4, .channels = 2, .bidirectional = 1,
     .dt_untied = 1, .plain_transforms = 1},
    {.mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .d_model = 1, .d_state = 2, .bandlimit = 0.5, .plain_transforms = 1},
};
#define KINDS ((int)(sizeof kinds / sizeof kinds[0]))

static const struct {
    char name[40];
    s4_direction direction;
    int states;
    s4_step_mode step_mode;
    unsigned frozen;
    s4_algorithm algorithm;
} works[] = {
    {"kernel", S4_DIRECTION_KERNEL, 0, S4_STEP_LINEAR, 0, S4_ALGORITHM_FFT},
    {"forward", S4_DIRECTION_FORWARD, 0, S4_STEP_LINEAR, 0, S4_ALGORITHM_FFT},
    {"forward with states", S4_DIRECTION_FORWARD, 1, S4_STEP_LINEAR, 0, S4_ALGORITHM_FFT},
    {"training", S4_DIRECTION_TRAINING, 0, S4_STEP_LINEAR, 0, S4_ALGORITHM_FFT},
    {"training with states", S4_DIRECTION_TRAINING, 1, S4_STEP_LINEAR, 0, S4_ALGORITHM_FFT},
    {"training, D alone", S4_DIRECTION_TRAINING, 0, S4_STEP_LINEAR, S4_PARAMETER_ALL & ~(1u << S4_PARAMETER_D), S4_ALGORITHM_FFT},
    {"training with states, D alone", S4_DIRECTION_TRAINING, 1, S4_STEP_LINEAR,
     S4_PARAMETER_ALL & ~(1u << S4_PARAMETER_D), S4_ALGORITHM_FFT},
    {"training, C alone", S4_DIRECTION_TRAINING, 0, S4_STEP_LINEAR, S4_PARAMETER_ALL & ~(1u << S4_PARAMETER_C), S4_ALGORITHM_FFT},
    {"training of nothing", S4_DIRECTION_TRAINING, 0, S4_STEP_LINEAR, S4_PARAMETER_ALL, S4_ALGORITHM_FFT},
    {"step linear", S4_DIRECTION_STEP, 0, S4_STEP_LINEAR, 0, S4_ALGORITHM_FFT},
    {"step dense", S4_DIRECTION_STEP, 0, S4_STEP_DENSE, 0, S4_ALGORITHM_FFT},
    {"step diagonal", S4_DIRECTION_STEP, 0, S4_STEP_DIAGONAL, 0, S4_ALGORITHM_FFT},
    {"forward in chunks", S4_DIRECTION_FORWARD, 0, S4_STEP_LINEAR, 0, S4_ALGORITHM_CHUNKED},
    {"forward in chunks with states", S4_DIRECTION_FORWARD, 1, S4_STEP_LINEAR, 0, S4_ALGORITHM_CHUNKED},
    {"training in chunks", S4_DIRECTION_TRAINING, 0, S4_STEP_LINEAR, 0, S4_ALGORITHM_CHUNKED},
    {"training in chunks with states", S4_DIRECTION_TRAINING, 1, S4_STEP_LINEAR, 0, S4_ALGORITHM_CHUNKED},
    {"training in chunks, C alone", S4_DIRECTION_TRAINING, 0, S4_STEP_LINEAR,
     S4_PARAMETER_ALL & ~(1u << S4_PARAMETER_C), S4_ALGORITHM_CHUNKED},
    {"training of nothing in chunks", S4_DIRECTION_TRAINING, 0, S4_STEP_LINEAR, S4_PARAMETER_ALL, S4_ALGORITHM_CHUNKED},
};
#define WORKS ((int)(sizeof works / sizeof works[0]))

/* Batch, samples, length of the kernel; with states, training needs T <= L. */
static const int64_t sizes[][3] = {{3, 20, 20}, {2, 33, 50}, {4, 17, 29}, {1, 48, 48}};
#define SIZES 4

/* What the library refuses by its own rules. */
static int makes_sense(const layer_shape *kind, int work)
{
    const int chunked = works[work].algorithm == S4_ALGORITHM_CHUNKED;
    const int recurs = works[work].direction == S4_DIRECTION_STEP || works[work].states || chunked;
    if (recurs && (kind->bidirectional || kind->discretisation == S4_DSS))
        return 0;
    return works[work].step_mode == S4_STEP_LINEAR || kind->mode == S4_MODE_DPLR;
}

/* ---- hooks that count ------------------------------------------------------------------------------------------ */

#define BLOCKS 8
static struct {
    void *pointer[BLOCKS];
    size_t bytes[BLOCKS];
    int64_t current, peak;
    long calls;
} hooks;

static void *hook_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    int slot = 0;
    while (slot < BLOCKS && hooks.pointer[slot])
        slot++;
    void *pointer = NULL; /* exactly so many bytes, which aligned_alloc does not promise */
    if (slot == BLOCKS || posix_memalign(&pointer, alignment, bytes))
        abort();
    memset(pointer, 0xff, bytes); /* NaN where it is read before it is written */
    hooks.calls++;
    hooks.pointer[slot] = pointer;
    hooks.bytes[slot] = bytes;
    hooks.current += (int64_t)bytes;
    if (hooks.current > hooks.peak)
        hooks.peak = hooks.current;
    return pointer;
}

static void hook_release(void *user, void *pointer)
{
    (void)user;
    int slot = 0;
    while (slot < BLOCKS && hooks.pointer[slot] != pointer)
        slot++;
    if (!pointer || slot == BLOCKS)
        abort();
    hooks.current -= (int64_t)hooks.bytes[slot];
    hooks.pointer[slot] = NULL;
    free(pointer);
}

static s4_context *hooked_context(void)
{
    s4_context_options options;
    S4_INIT(&options);
    options.threads = 3;
    options.allocate = hook_allocate;
    options.release = hook_release;
    s4_context *context;
    must(s4_context_create(&options, &context));
    place_required(context);
    return context;
}

/* ---- one problem ----------------------------------------------------------------------------------------------- */

/* Bytes of a workspace's handle, which is no part of a plan: of one in the caller's memory it is all there is. */
static int64_t handle_bytes(const s4_plan *plan, int64_t host_peak)
{
    void *block = aligned_alloc(256, (size_t)host_peak / 256 * 256 + 256);
    s4_workspace *workspace;
    allocations_begin();
    const s4_status status = s4_workspace_create_in(plan, block, (size_t)host_peak, &workspace);
    const int64_t bytes = allocations_held();
    allocations_end();
    must(status);
    s4_workspace_destroy(workspace);
    free(block);
    return bytes;
}

/* Runs a problem under its budget into `out`, and compares what was planned with three measurements. */
static void run(s4_context *context, s4_layer *layer, const s4_problem *problem, const tensors *t, unsigned char *out)
{
    session s = {.context = context};
    s4_memory_use use;
    must(s4_plan_create(problem, &s.plan));
    must(s4_plan_describe(s.plan, &s.info));
    check(!problem->host_budget || s.info.host_peak <= problem->host_budget, "[%s] the peak is over the budget",
          about_text());
    must(s4_plan_prepare(s.plan, context));
    const int counts = allocations_supported() && !place_has_gpu(); /* an emulated GPU allocates on the host */
    const int64_t handle = counts ? handle_bytes(s.plan, s.info.host_peak) : 0;
    must(s4_context_memory_reset(context, S4_PLACE_CPU));
    must(s4_context_memory_reset(context, S4_PLACE_GPU));
    hooks.peak = hooks.current;
    hooks.calls = 0;
    memset(out, 0, t->bytes);
    if (counts)
        allocations_begin();
    s4_status status = s4_workspace_create(s.plan, &s.workspace);
    if (!status)
        status = execute(problem, s.plan, layer, s.workspace, t, out);
    if (counts)
        allocations_end();
    must(status);
    const int64_t planned = s.info.host_peak;
    must(s4_context_memory(context, S4_PLACE_CPU, &use));
    check(use.peak == planned && use.current == planned, "[%s] host: planned %lld, counted %lld", about_text(),
          (long long)planned, (long long)use.peak);
    check(hooks.peak == planned && hooks.calls == (planned > 0), "[%s] host: planned %lld, the hooks saw %lld in %ld calls",
          about_text(), (long long)planned, (long long)hooks.peak, hooks.calls);
    check(!counts || allocations_peak() == planned + handle, "[%s] host: planned %lld and a handle of %lld, malloc saw %lld",
          about_text(), (long long)planned, (long long)handle, (long long)allocations_peak());
    must(s4_context_memory(context, S4_PLACE_GPU, &use));
    check(use.peak == s.info.device_peak && use.current == s.info.device_peak, "[%s] device: planned %lld, counted %lld",
          about_text(), (long long)s.info.device_peak, (long long)use.peak);
    session_close(&s);
    check(hooks.current == 0 && (!counts || allocations_held() == 0), "[%s] memory is left", about_text());
    must(s4_context_memory(context, S4_PLACE_GPU, &use));
    check(use.current == 0, "[%s] device memory is left", about_text());
}

/* One byte under the minimum: refused, with what is needed and given and the largest batch, which fits, and no more. */
static void refuse_a_byte_less(s4_problem problem, s4_place place, int64_t minimum)
{
    s4_plan *plan = (s4_plan *)(void *)&problem;
    char text[64];
    problem.host_budget = place == S4_PLACE_CPU ? minimum - 1 : 0;
    problem.device_budget = place == S4_PLACE_GPU ? minimum - 1 : 0;
    snprintf(text, sizeof text, "%lld bytes are needed, %lld were given", (long long)minimum, (long long)minimum - 1);
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_OUT_OF_BUDGET, text);
    check(plan == NULL, "[%s] the plan is not NULL", about_text());
    const char *named = strstr(s4_last_error(), "would fit is ");
    if (!named) {
        check(problem.batch == 1 || strstr(s4_last_error(), "no batch would fit: a batch of 1 needs ") != NULL,
              "[%s] %s", about_text(), s4_last_error());
        problem.batch = 1;
        must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_OUT_OF_BUDGET, "bytes are needed");
        check(strstr(s4_last_error(), "batch") == NULL, "[%s] %s", about_text(), s4_last_error());
        return;
    }
    problem.batch = strtoll(named + strlen("would fit is "), NULL, 10);
    must(s4_plan_create(&problem, &plan));
    s4_plan_destroy(plan);
    problem.batch++;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_OUT_OF_BUDGET, "bytes are needed");
}

static void check_problem(s4_context *context, s4_layer *layer, s4_problem problem)
{
    problem.threads = 1;
    const tensors t = tensors_for(layer, &problem);
    unsigned char *expected = malloc(t.bytes), *got = malloc(t.bytes);
    cr_assert(expected && got);
    char text[160];
    snprintf(text, sizeof text, "%s", about_text());
    run(context, layer, &problem, &t, expected);
    for (int threads = 1; threads <= 3; threads++) {
        problem.threads = threads;
        problem.host_budget = problem.device_budget = 0;
        const s4_plan_info all = describe(&problem);
        if (all.host_minimum)
            refuse_a_byte_less(problem, S4_PLACE_CPU, all.host_minimum);
        if (all.device_minimum)
            refuse_a_byte_less(problem, S4_PLACE_GPU, all.device_minimum);
        for (int budget = threads == 1; budget < 3; budget++) { /* none, the minimum, between */
            about("%s, %s budget, %d threads", text, budget == 0 ? "no" : budget == 1 ? "minimum" : "middle", threads);
            const int64_t host[] = {0, all.host_minimum, (all.host_minimum + all.host_peak) / 2};
            const int64_t device[] = {0, all.device_minimum, (all.device_minimum + all.device_peak) / 2};
            problem.host_budget = host[budget];
            problem.device_budget = device[budget];
            run(context, layer, &problem, &t, got);
            check(memcmp(got, expected, t.bytes) == 0, "[%s] other bits than without a budget in one thread",
                  about_text());
        }
    }
    free(expected);
    free(got);
}

Test(budget_grid, planned_is_measured_and_bits_stay)
{
    s4_context *context = hooked_context();
    const int step = place_has_gpu() ? 5 : 1; /* an emulated GPU is slow */
    int problems = 0;
    for (int kind = 0, index = 0; kind < KINDS; kind++)
        for (int dtype = 0; dtype < 2; dtype++)
            for (int work = 0; work < WORKS; work++) {
                if (!makes_sense(&kinds[kind], work) || index++ % step)
                    continue;
                const int64_t *size = sizes[index % SIZES];
                about("kind %d, %s, %s, batch %d, %d samples, kernel %d", kind, s4_dtype_name((s4_dtype)dtype),
                      works[work].name, (int)size[0], (int)size[1], (int)size[2]);
                s4_layer *layer = layer_random(&kinds[kind], (uint64_t)index);
                const s4_direction direction = works[work].direction;
                s4_problem problem = problem_of(layer, direction, (s4_dtype)dtype, size[0], size[1],
                                                direction == S4_DIRECTION_STEP ? 0 : size[2]);
                problem.states = works[work].states;
                problem.step_mode = works[work].step_mode;
                problem.frozen = works[work].frozen;
                problem.algorithm = works[work].algorithm;
                problem.layout = !place_has_gpu() && index % 3 == 0 ? S4_LAYOUT_BLH : S4_LAYOUT_BHL;
                if (!session_offered(context, &problem)) {
                    s4_layer_destroy(layer);
                    continue;
                }
                if (works[work].algorithm == S4_ALGORITHM_FFT || direction != S4_DIRECTION_TRAINING)
                    layer_make_trainable(context, layer, size[2]);
                check_problem(context, layer, problem);
                s4_layer_destroy(layer);
                problems++;
            }
    s4_context_destroy(context);
    printf("%d problems\n", problems);
    /* Guards this test: it must have tried enough. */
    cr_assert(problems >= (place_has_gpu() ? 12 : 300), "only %d problems", problems);
}

/* A workspace in the caller's memory: after prepare the hooks are not called at all, and malloc gives the handle only. */
Test(budget_grid, memory_of_the_caller_is_all)
{
    s4_context *context = hooked_context();
    for (int work = 0; work < WORKS; work++) {
        about("%s", works[work].name);
        if (!makes_sense(&kinds[0], work))
            continue;
        s4_layer *layer = layer_random(&kinds[0], 1);
        if (works[work].algorithm == S4_ALGORITHM_FFT || works[work].direction != S4_DIRECTION_TRAINING)
            must(s4_layer_setup(context, layer, sizes[0][2]));
        const s4_direction direction = works[work].direction;
        s4_problem problem = problem_of(layer, direction, S4_F32, sizes[0][0], sizes[0][1],
                                        direction == S4_DIRECTION_STEP ? 0 : sizes[0][2]);
        problem.states = works[work].states;
        problem.step_mode = works[work].step_mode;
        problem.frozen = works[work].frozen;
        problem.algorithm = works[work].algorithm;
        problem.threads = 2;
        if (!session_offered(context, &problem)) {
            s4_layer_destroy(layer);
            continue;
        }
        const tensors t = tensors_for(layer, &problem);
        unsigned char *out = malloc(t.bytes);
        s4_plan *plan;
        s4_workspace *workspace;
        must(s4_plan_create(&problem, &plan));
        must(s4_plan_prepare(plan, context));
        const s4_plan_info info = describe(&problem);
        void *block = aligned_alloc(64, (size_t)info.host_peak / 64 * 64 + 64);
        cr_assert(out && block);
        hooks.calls = 0;
        must(s4_workspace_create_in(plan, block, (size_t)info.host_peak, &workspace));
        const int counts = !place_has_gpu();
        if (counts)
            allocations_begin();
        const s4_status status = execute(&problem, plan, layer, workspace, &t, out);
        const long count = counts ? allocations_end() : 0;
        must(status);
        check(hooks.calls == 0, "[%s] the hooks were called %ld times", about_text(), hooks.calls);
        check(count == 0, "[%s] %ld allocations", about_text(), count);
        s4_workspace_destroy(workspace);
        s4_plan_destroy(plan);
        s4_layer_destroy(layer);
        free(block);
        free(out);
    }
    s4_context_destroy(context);
}
