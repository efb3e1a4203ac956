/*
 * Budgets over a grid of problems: what a plan says it takes is what is taken, to the byte, by the library's own count, by
 * the allocator's hooks and by what reaches malloc; every budget from the minimum up and every number of threads gives the
 * same bits; a byte less is refused. And the process as a whole grows by no more than the plan and its reserve say.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allocations.h"
#include "expect.h"
#include "layers.h"
#include "place.h"
#include "session.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

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
    char name[32];
    s4_direction direction;
    int states;
    s4_step_mode step_mode;
    s4_algorithm algorithm;
} works[] = {
    {"kernel", S4_DIRECTION_KERNEL, 0, S4_STEP_LINEAR, S4_ALGORITHM_FFT},
    {"forward", S4_DIRECTION_FORWARD, 0, S4_STEP_LINEAR, S4_ALGORITHM_FFT},
    {"forward with states", S4_DIRECTION_FORWARD, 1, S4_STEP_LINEAR, S4_ALGORITHM_FFT},
    {"training", S4_DIRECTION_TRAINING, 0, S4_STEP_LINEAR, S4_ALGORITHM_FFT},
    {"training with states", S4_DIRECTION_TRAINING, 1, S4_STEP_LINEAR, S4_ALGORITHM_FFT},
    {"step linear", S4_DIRECTION_STEP, 0, S4_STEP_LINEAR, S4_ALGORITHM_FFT},
    {"step dense", S4_DIRECTION_STEP, 0, S4_STEP_DENSE, S4_ALGORITHM_FFT},
    {"step diagonal", S4_DIRECTION_STEP, 0, S4_STEP_DIAGONAL, S4_ALGORITHM_FFT},
    {"forward in chunks", S4_DIRECTION_FORWARD, 0, S4_STEP_LINEAR, S4_ALGORITHM_CHUNKED},
    {"forward in chunks with states", S4_DIRECTION_FORWARD, 1, S4_STEP_LINEAR, S4_ALGORITHM_CHUNKED},
    {"training in chunks", S4_DIRECTION_TRAINING, 0, S4_STEP_LINEAR, S4_ALGORITHM_CHUNKED},
    {"training in chunks with states", S4_DIRECTION_TRAINING, 1, S4_STEP_LINEAR, S4_ALGORITHM_CHUNKED},
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
    if (chunked && place_has_gpu())
        return 0;
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

/* Inputs, and one block of bytes for all that comes out. */
typedef struct tensors {
    void *u, *dy;
    double *state, *dstate;
    size_t bytes, y, du, state_out, dstate_in, gradient[S4_PARAMETER_COUNT]; /* offsets in the block */
} tensors;

static size_t take(tensors *t, size_t bytes)
{
    const size_t at = t->bytes;
    t->bytes += (bytes + 63) / 64 * 64;
    return at;
}

static tensors tensors_for(s4_layer *layer, const s4_problem *p)
{
    random_source random = {7};
    const int64_t rows = p->batch * p->d_model, states = rows * p->d_state;
    const int64_t samples = rows * p->length, kernels = layer_kernels(layer) * p->d_model * p->kernel_length;
    const int64_t outputs = samples * layer_options(layer).channels;
    tensors t = {.u = tensor_of(p->dtype, samples, random_samples(&random, samples)),
                 .dy = tensor_of(p->dtype, outputs, random_samples(&random, outputs)),
                 .state = random_samples(&random, states), .dstate = random_samples(&random, states)};
    const size_t size = s4_dtype_size(p->dtype);
    t.y = take(&t, size * (size_t)(outputs > kernels ? outputs : kernels));
    t.du = take(&t, size * (size_t)samples);
    t.state_out = take(&t, 8 * (size_t)states);
    t.dstate_in = take(&t, 8 * (size_t)states);
    for (int q = 0; q < S4_PARAMETER_COUNT; q++)
        t.gradient[q] = take(&t, 8 * (size_t)layer_count(layer, (s4_parameter)q));
    return t;
}

static s4_status execute(const s4_problem *p, const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace,
                         const tensors *t, unsigned char *out)
{
    const s4_direction direction = p->direction;
    double *state_out = (double *)(void *)(out + t->state_out);
    s4_status status = s4_plan_refresh(plan, layer, workspace);
    if (!status && direction == S4_DIRECTION_KERNEL)
        status = s4_plan_kernel(plan, layer, workspace, out + t->y);
    if (!status && direction == S4_DIRECTION_STEP) {
        memcpy(state_out, t->state, 8 * (size_t)(p->batch * p->d_model * p->d_state));
        s4_step_io io;
        S4_INIT(&io);
        io.u = t->u;
        io.y = out + t->y;
        io.state = state_out;
        status = s4_plan_step(plan, layer, workspace, &io);
    }
    if (!status && (direction == S4_DIRECTION_FORWARD || direction == S4_DIRECTION_TRAINING)) {
        s4_forward_io io;
        S4_INIT(&io);
        io.u = t->u;
        io.y = out + t->y;
        io.state_in = p->states ? t->state : NULL;
        io.state_out = p->states ? state_out : NULL;
        status = s4_plan_forward(plan, layer, workspace, &io);
    }
    if (!status && direction == S4_DIRECTION_TRAINING) {
        s4_backward_io io;
        S4_INIT(&io);
        io.u = t->u;
        io.dy = t->dy;
        io.du = out + t->du;
        io.state_in = p->states ? t->state : NULL;
        io.dstate_out = p->states ? t->dstate : NULL;
        io.dstate_in = p->states ? (double *)(void *)(out + t->dstate_in) : NULL;
        for (int q = 0; q < S4_PARAMETER_COUNT; q++)
            io.gradients.parameter[q] = (double *)(void *)(out + t->gradient[q]);
        status = s4_plan_backward(plan, layer, workspace, &io);
    }
    return status;
}

static s4_plan_info describe(const s4_problem *problem)
{
    s4_plan *plan;
    s4_plan_info info;
    must(s4_plan_create(problem, &plan));
    must(s4_plan_describe(plan, &info));
    s4_plan_destroy(plan);
    return info;
}

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
    allocations_begin();
    s4_status status = s4_workspace_create(s.plan, &s.workspace);
    if (!status)
        status = execute(problem, s.plan, layer, s.workspace, t, out);
    allocations_end();
    must(status);
    const int64_t planned = s.info.host_peak;
    must(s4_context_memory(context, S4_PLACE_CPU, &use));
    check(use.peak == planned && use.current == planned, "[%s] host: planned %lld, counted %lld", about_text(),
          (long long)planned, (long long)use.peak);
    check(hooks.peak == planned && hooks.calls == 1, "[%s] host: planned %lld, the hooks saw %lld in %ld calls",
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
        check(strstr(s4_last_error(), "no batch would fit") != NULL, "[%s] %s", about_text(), s4_last_error());
        problem.batch = 1;
        must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_OUT_OF_BUDGET, "no batch would fit");
        return;
    }
    problem.batch = strtoll(named + strlen("would fit is "), NULL, 10);
    must(s4_plan_create(&problem, &plan));
    s4_plan_destroy(plan);
    problem.batch++;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_OUT_OF_BUDGET, "batch");
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
                problem.algorithm = works[work].algorithm;
                problem.layout = !place_has_gpu() && index % 3 == 0 ? S4_LAYOUT_BLH : S4_LAYOUT_BHL;
                if (!session_offered(context, &problem)) {
                    s4_layer_destroy(layer);
                    continue;
                }
                const int trains_plain_c = works[work].algorithm == S4_ALGORITHM_CHUNKED && direction == S4_DIRECTION_TRAINING;
                if (kinds[kind].mode == S4_MODE_DPLR && !trains_plain_c)
                    must(s4_layer_setup(context, layer, size[2]));
                check_problem(context, layer, problem);
                s4_layer_destroy(layer);
                problems++;
            }
    s4_context_destroy(context);
    printf("%d problems\n", problems);
    /* Guards this test: it must have tried enough. */
    cr_assert(problems >= (place_has_gpu() ? 8 : 200), "only %d problems", problems);
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
        const s4_direction direction = works[work].direction;
        if (works[work].algorithm == S4_ALGORITHM_FFT || direction != S4_DIRECTION_TRAINING)
            must(s4_layer_setup(context, layer, sizes[0][2]));
        s4_problem problem = problem_of(layer, direction, S4_F32, sizes[0][0], sizes[0][1],
                                        direction == S4_DIRECTION_STEP ? 0 : sizes[0][2]);
        problem.states = works[work].states;
        problem.step_mode = works[work].step_mode;
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
        allocations_begin();
        const s4_status status = execute(&problem, plan, layer, workspace, &t, out);
        const long count = allocations_end();
        must(status);
        check(hooks.calls == 0, "[%s] the hooks were called %ld times", about_text(), hooks.calls);
        check(place_has_gpu() || count == 0, "[%s] %ld allocations", about_text(), count);
        s4_workspace_destroy(workspace);
        s4_plan_destroy(plan);
        s4_layer_destroy(layer);
        free(block);
        free(out);
    }
    s4_context_destroy(context);
}

/* ---- the whole process ------------------------------------------------------------------------------------------ */

/* Most bytes that were resident since the last call; -1 where that cannot be known. */
static int64_t resident_peak(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long long kibibytes = -1;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %lld", &kibibytes) == 1)
            break;
    if (file)
        fclose(file);
    const int reset = open("/proc/self/clear_refs", O_WRONLY);
    if (reset >= 0) {
        if (write(reset, "5", 1) != 1)
            kibibytes = -1;
        close(reset);
    }
    return kibibytes < 0 ? -1 : kibibytes * 1024;
}

typedef struct growth {
    int64_t bytes, peak, reserve;
} growth;

/* From plan to gradients, in a process that holds layer and tensors already. */
static growth grow(const layer_shape *shape, s4_dtype dtype, const int64_t *size, int minimum)
{
    s4_context_options options;
    S4_INIT(&options);
    options.threads = 2;
    s4_context *context;
    must(s4_context_create(&options, &context));
    s4_layer *layer = layer_random(shape, 1);
    if (shape->mode == S4_MODE_DPLR)
        must(s4_layer_set_length(layer, size[2])); /* any numbers will do for a C~ */
    s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, dtype, size[0], size[1], size[2]);
    problem.threads = 2;
    s4_plan_info info = describe(&problem);
    if (minimum) {
        problem.host_budget = info.host_minimum;
        info = describe(&problem);
    }
    const tensors t = tensors_for(layer, &problem);
    unsigned char *out = malloc(t.bytes);
    check(out != NULL, "no memory");
    memset(out, 1, t.bytes);
    (void)resident_peak();
    const int64_t before = resident_peak();
    session s = session_open(context, &problem);
    must(execute(&problem, s.plan, layer, s.workspace, &t, out));
    const growth g = {resident_peak() - before, info.host_peak, info.host_reserve};
    session_close(&s);
    return g;
}

Test(budget_grid, the_process_grows_no_more)
{
#ifdef SANITIZED
    cr_skip_test("a sanitizer keeps memory of its own");
#endif
    if (place_has_gpu())
        cr_skip_test("an emulated GPU has its memory on the host");
    if (resident_peak() < 0)
        cr_skip_test("this system does not tell the memory of a process");
    static const struct {
        layer_shape shape;
        s4_dtype dtype;
        int64_t size[3];
    } cases[] = {
        {{.rank = 1, .d_model = 64, .d_state = 64, .plain_transforms = 1}, S4_F32, {2, 4096, 4096}},
        {{.rank = 1, .d_model = 4, .d_state = 16, .plain_transforms = 1}, S4_F64, {1, 65536, 65536}},
        {{.rank = 2, .d_model = 8, .d_state = 16, .plain_transforms = 1}, S4_F32, {2, 10007, 10007}}, /* a prime */
        {{.mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .d_model = 128, .d_state = 32, .plain_transforms = 1}, S4_F32,
         {4, 2048, 2048}},
        {{.mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .d_model = 16, .d_state = 16, .bidirectional = 1, .channels = 2,
          .plain_transforms = 1}, S4_F64, {2, 8000, 8000}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int minimum = 0; minimum < 2; minimum++) {
            about("case %d, %s budget", (int)i, minimum ? "minimum" : "no");
            int ends[2], status = 0;
            growth g;
            cr_assert_eq(pipe(ends), 0);
            fflush(NULL);
            const pid_t child = fork();
            cr_assert(child >= 0);
            if (child == 0) {
                g = grow(&cases[i].shape, cases[i].dtype, cases[i].size, minimum);
                _exit(write(ends[1], &g, sizeof g) == (ssize_t)sizeof g ? 0 : 1);
            }
            close(ends[1]);
            const int got = read(ends[0], &g, sizeof g) == (ssize_t)sizeof g;
            close(ends[0]);
            cr_assert(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0 && got,
                      "[%s] the other process failed", about_text());
            printf("%s: grew by %.1f MiB, planned %.1f and %.1f in reserve\n", about_text(), (double)g.bytes / 1048576,
                   (double)g.peak / 1048576, (double)g.reserve / 1048576);
            check(g.bytes <= g.peak + g.reserve, "[%s] grew by %lld, more than %lld planned and %lld in reserve",
                  about_text(), (long long)g.bytes, (long long)g.peak, (long long)g.reserve);
            check(g.bytes > g.peak / 2, "[%s] grew by %lld only: nothing was measured", about_text(), (long long)g.bytes);
        }
}
