/*
 * Order and freshness: what is derived belongs to one plan and one state of one layer; a workspace serves every plan it
 * is large enough for; memory may be the caller's; threads and cancelling.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include <string.h>

#include "expect.h"
#include "layers.h"
#include "session.h"

static const layer_shape shape = {.d_model = 3, .d_state = 8, .rank = 1, .plain_transforms = 1};
enum { B = 2, H = 3, T = 40, COUNT = B * H * T };

static s4_status forward(const session *s, const s4_layer *layer, double *y)
{
    static double u[COUNT];
    for (int i = 0; i < COUNT; i++)
        u[i] = sin(0.3 * i);
    s4_forward_io io;
    S4_INIT(&io);
    io.u = u;
    io.y = y;
    return s4_plan_forward(s->plan, layer, s->workspace, &io);
}

static const s4_algorithm algorithms[] = {S4_ALGORITHM_FFT, S4_ALGORITHM_CHUNKED};

static session open_forward_by(s4_context *context, s4_layer *layer, s4_algorithm algorithm)
{
    s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, B, T, T);
    problem.algorithm = algorithm;
    return session_open(context, &problem);
}

static session open_forward(s4_context *context, s4_layer *layer)
{
    return open_forward_by(context, layer, S4_ALGORITHM_FFT);
}

Test(workspace, stale)
{
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shape, 1), *other = layer_random(&shape, 2);
    session s = open_forward(context, layer), second = open_forward(context, layer);
    double y[COUNT], expected[COUNT];

    must_refuse(forward(&s, layer, y), S4_ERROR_STALE, "s4_plan_refresh");
    must(s4_plan_refresh(s.plan, layer, s.workspace));
    must(forward(&s, layer, expected));

    about("after a change of parameters");
    must(s4_layer_changed(layer, 1u << S4_PARAMETER_D));
    must_refuse(forward(&s, layer, y), S4_ERROR_STALE, "parameters");
    must(s4_plan_refresh(s.plan, layer, s.workspace));
    must(forward(&s, layer, y));
    expect_same_bits("y after a refresh", COUNT, y, expected);

    about("after a set-up");
    must(s4_layer_setup(context, layer, T));
    must_refuse(forward(&s, layer, y), S4_ERROR_STALE, "");
    must(s4_plan_refresh(s.plan, layer, s.workspace));
    about("after a declared length");
    must(s4_layer_set_length(layer, T + 1));
    must_refuse(forward(&s, layer, y), S4_ERROR_STALE, "");
    must(s4_layer_set_length(layer, T));
    must(s4_plan_refresh(s.plan, layer, s.workspace));

    about("another layer");
    must_refuse(forward(&s, other, y), S4_ERROR_STALE, "layer");
    must(forward(&s, layer, y));

    about("another plan in the same workspace");
    must(s4_plan_refresh(second.plan, layer, s.workspace));
    must_refuse(forward(&s, layer, y), S4_ERROR_STALE, "plan");
    must(s4_plan_refresh(s.plan, layer, s.workspace));
    must(forward(&s, layer, y));

    about("a refresh that failed");
    layer_data(layer, S4_PARAMETER_P)[3] = NAN;
    must(s4_layer_changed(layer, 1u << S4_PARAMETER_P));
    must_refuse(s4_plan_refresh(s.plan, layer, s.workspace), S4_ERROR_NOT_FINITE, "P");
    must_refuse(forward(&s, layer, y), S4_ERROR_STALE, "");

    session_close(&s);
    session_close(&second);
    s4_layer_destroy(layer);
    s4_layer_destroy(other);
    s4_context_destroy(context);
}

/* A new layer in the memory of an old one, a new plan in that of an old one: still not what was derived from. */
Test(workspace, stale_at_the_same_address)
{
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shape, 1);
    session s = open_forward(context, layer);
    double y[COUNT];
    must(s4_plan_refresh(s.plan, layer, s.workspace));
    s4_layer_destroy(layer);
    layer = layer_random(&shape, 2);
    must_refuse(forward(&s, layer, y), S4_ERROR_STALE, "");
    must(s4_plan_refresh(s.plan, layer, s.workspace));
    const s4_problem problem = s.info.problem;
    s4_plan_destroy(s.plan);
    must(s4_plan_create(&problem, &s.plan));
    must(s4_plan_prepare(s.plan, context));
    must_refuse(forward(&s, layer, y), S4_ERROR_STALE, "");
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

Test(workspace, not_finite_names_parameter_and_index)
{
    static const char words[S4_PARAMETER_COUNT][8] = {"inv_dt", "A_real", "A_imag", "B", "P", "C", "D"};
    s4_context *context = context_open();
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        about("%s", words[p]);
        s4_layer *layer = layer_random(&shape, 3);
        session s = open_forward(context, layer);
        layer_data(layer, (s4_parameter)p)[2] = INFINITY;
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        must_refuse(s4_plan_refresh(s.plan, layer, s.workspace), S4_ERROR_NOT_FINITE, words[p]);
        check(strstr(s4_last_error(), "2") != NULL, "[%s] no index in: %s", words[p], s4_last_error());
        session_close(&s);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* Raw values that are finite and whose transforms are not, or leave no step at all. */
Test(workspace, transforms_out_of_range)
{
    static const struct {
        s4_parameter which;
        double value;
        char word[8];
    } cases[] = {{S4_PARAMETER_INV_DT, 1000, "inv_dt"},
                 {S4_PARAMETER_INV_DT, -1000, "inv_dt"},
                 {S4_PARAMETER_A_REAL, 1000, "A_real"}};
    s4_context *context = context_open();
    for (int i = 0; i < 3; i++) {
        about("%s = %g", cases[i].word, cases[i].value);
        s4_layer *layer = layer_random(&shape, 3);
        session s = open_forward(context, layer);
        layer_data(layer, cases[i].which)[2] = cases[i].value;
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        const s4_status status = s4_plan_refresh(s.plan, layer, s.workspace);
        check(status == S4_ERROR_NOT_FINITE || (status == S4_ERROR_ARGUMENT && cases[i].value < 0), "[%s] %s: %s",
              about_text(), s4_status_name(status), s4_last_error());
        check(strstr(s4_last_error(), cases[i].word) != NULL, "[%s] %s", about_text(), s4_last_error());
        session_close(&s);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

Test(workspace, order)
{
    s4_context *context = context_open(), *other = context_open();
    s4_layer *layer = layer_random(&shape, 1);
    const s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, B, T, T);
    s4_plan *plan;
    s4_workspace *workspace = (s4_workspace *)(void *)&plan;
    must(s4_plan_create(&problem, &plan));
    must_refuse(s4_workspace_create(plan, &workspace), S4_ERROR_ORDER, "s4_plan_prepare");
    cr_assert(workspace == NULL);
    must(s4_plan_prepare(plan, context));
    must(s4_plan_prepare(plan, context)); /* again: nothing to do */
    must_refuse(s4_plan_prepare(plan, other), S4_ERROR_ORDER, "context");
    must(s4_workspace_create(plan, &workspace));

    about("a workspace of another context");
    session foreign = open_forward(other, layer);
    must_refuse(s4_plan_refresh(plan, layer, foreign.workspace), S4_ERROR_ORDER, "context");

    about("a layer of another shape");
    layer_shape wide = shape;
    wide.d_state = 10;
    s4_layer *wider = layer_random(&wide, 1);
    must_refuse(s4_plan_refresh(plan, wider, workspace), S4_ERROR_ARGUMENT, "d_state");

    about("NULL");
    must_refuse(s4_plan_refresh(NULL, layer, workspace), S4_ERROR_ARGUMENT, "plan");
    must_refuse(s4_plan_refresh(plan, NULL, workspace), S4_ERROR_ARGUMENT, "layer");
    must_refuse(s4_plan_refresh(plan, layer, NULL), S4_ERROR_ARGUMENT, "workspace");
    s4_layer_destroy(wider);
    session_close(&foreign);
    s4_workspace_destroy(workspace);
    s4_plan_destroy(plan);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
    s4_context_destroy(other);
}

/* One workspace, as large as the largest plan needs, serves them all; one that is too small is refused. */
Test(workspace, shared_by_plans)
{
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shape, 4);
    const s4_problem large = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, 8, 500, 500);
    session big = session_open(context, &large), small = open_forward(context, layer);
    cr_assert(big.info.host_peak + big.info.device_peak > small.info.host_peak + small.info.device_peak);
    double expected[COUNT], y[COUNT];
    must(s4_plan_refresh(small.plan, layer, small.workspace));
    must(forward(&small, layer, expected));
    must_refuse(s4_plan_refresh(big.plan, layer, small.workspace), S4_ERROR_ORDER, "workspace");
    must(forward(&small, layer, y)); /* a refused refresh left it as it was */
    session in_big = {.plan = small.plan, .workspace = big.workspace};
    must(s4_plan_refresh(big.plan, layer, big.workspace));
    must(s4_plan_refresh(small.plan, layer, big.workspace));
    must(forward(&in_big, layer, y));
    expect_same_bits("y in a larger workspace", COUNT, y, expected);
    session_close(&big);
    session_close(&small);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

Test(workspace, memory_of_the_caller)
{
    enum { GUARD = 256 };
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shape, 5);
    session s = open_forward(context, layer);
    double expected[COUNT], y[COUNT];
    must(s4_plan_refresh(s.plan, layer, s.workspace));
    must(forward(&s, layer, expected));
    s4_workspace_destroy(s.workspace);
    s.workspace = NULL;

    const size_t bytes = (size_t)s.info.host_peak;
    const size_t room = (bytes + 2 * GUARD + 255) / 256 * 256;
    unsigned char *memory = aligned_alloc(256, room);
    cr_assert(memory != NULL);
    memset(memory, 0x5a, room);
    must_refuse(s4_workspace_create_in(s.plan, memory + GUARD, bytes - 1, &s.workspace), S4_ERROR_ORDER, "host_bytes");
    cr_assert(s.workspace == NULL);
    must_refuse(s4_workspace_create_in(s.plan, memory + GUARD + 8, bytes, &s.workspace), S4_ERROR_ARGUMENT,
                "host_block");
    must_refuse(s4_workspace_create_in(s.plan, NULL, bytes, &s.workspace), S4_ERROR_ARGUMENT, "host_block");
    /* 64 bytes are what is asked for, no more. */
    for (int offset = 0; offset < 256; offset += 64) {
        about("block at %d bytes past 256", offset);
        must(s4_workspace_create_in(s.plan, memory + offset, bytes, &s.workspace));
        must(s4_plan_refresh(s.plan, layer, s.workspace));
        must(forward(&s, layer, y));
        expect_same_bits("y", COUNT, y, expected);
        s4_workspace_destroy(s.workspace);
        for (size_t i = (size_t)offset + bytes; i < room && i < (size_t)offset + bytes + 64; i++)
            check(memory[i] == 0x5a, "[%s] byte %d after the block was written", about_text(),
                  (int)(i - (size_t)offset - bytes));
        memset(memory, 0x5a, room);
    }
    s.workspace = NULL;
    session_close(&s);
    free(memory);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

typedef struct thread_work {
    session *s;
    s4_layer *layer;
    int failures;
    double y[COUNT];
} thread_work;

static void *thread_main(void *argument)
{
    thread_work *work = argument;
    double u[COUNT];
    for (int i = 0; i < COUNT; i++)
        u[i] = sin(0.3 * i);
    for (int repeat = 0; repeat < 5; repeat++) {
        s4_forward_io io;
        S4_INIT(&io);
        io.u = u;
        io.y = work->y;
        work->failures += s4_plan_refresh(work->s->plan, work->layer, work->s->workspace) != S4_OK;
        work->failures += s4_plan_forward(work->s->plan, work->layer, work->s->workspace, &io) != S4_OK;
    }
    return NULL;
}

/* One plan, two workspaces, two threads: the bits of one thread. */
static void run_two_threads(s4_context *context, s4_algorithm algorithm)
{
    s4_layer *first = layer_random(&shape, 6), *second = layer_random(&shape, 7);
    session s = open_forward_by(context, first, algorithm), t = s;
    must(s4_workspace_create(s.plan, &t.workspace));
    double expected[2][COUNT];
    must(s4_plan_refresh(s.plan, first, s.workspace));
    must(forward(&s, first, expected[0]));
    must(s4_plan_refresh(s.plan, second, s.workspace));
    must(forward(&s, second, expected[1]));
    static thread_work work[2];
    work[0] = (thread_work){.s = &s, .layer = first};
    work[1] = (thread_work){.s = &t, .layer = second};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, thread_main, &work[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        about("%s, thread %d", s4_algorithm_name(algorithm), i);
        cr_assert_eq(work[i].failures, 0);
        expect_same_bits("y", COUNT, work[i].y, expected[i]);
    }
    s4_workspace_destroy(t.workspace);
    session_close(&s);
    s4_layer_destroy(first);
    s4_layer_destroy(second);
}

Test(workspace, two_threads_one_plan)
{
    s4_context *context = context_open();
    for (int i = 0; i < 2; i++)
        run_two_threads(context, algorithms[i]);
    s4_context_destroy(context);
}

typedef struct progress_log {
    int calls, cancel_at;
    int64_t done, total;
    int wrong;
} progress_log;

static int on_progress(void *user, const char *operation, int64_t done, int64_t total)
{
    progress_log *log = user;
    log->wrong += !operation || !*operation || done < 0 || done > total;
    log->done = done;
    log->total = total;
    return ++log->calls == log->cancel_at;
}

/* Long work tells how far it is, and stops when asked. A budget makes several blocks of it. */
static void watch_and_cancel(s4_algorithm algorithm)
{
    about("%s", s4_algorithm_name(algorithm));
    s4_context_options options;
    S4_INIT(&options);
    options.threads = 1;
    progress_log log = {0};
    options.progress = on_progress;
    options.progress_user = &log;
    s4_context *context;
    must(s4_context_create(&options, &context));
    s4_context_destroy(context_open()); /* skips where the place is not there */
    s4_layer *layer = layer_random(&shape, 8);
    s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, B, T, T);
    problem.threads = 1;
    problem.algorithm = algorithm;
    s4_plan *probe;
    s4_plan_info info;
    must(s4_plan_create(&problem, &probe));
    must(s4_plan_describe(probe, &info));
    s4_plan_destroy(probe);
    problem.host_budget = info.host_minimum;
    problem.device_budget = info.device_minimum;
    session s = session_open(context, &problem);
    double expected[COUNT], y[COUNT];
    must(s4_plan_refresh(s.plan, layer, s.workspace));
    must(forward(&s, layer, expected));
    cr_assert(log.calls > 0, "no progress was reported");
    cr_assert_eq(log.wrong, 0);
    cr_assert_eq(log.done, log.total);
    log = (progress_log){.cancel_at = 1};
    must_refuse(forward(&s, layer, y), S4_ERROR_CANCELLED, "");
    cr_assert_eq(log.calls, 1);
    log = (progress_log){0};
    must(s4_plan_refresh(s.plan, layer, s.workspace));
    must(forward(&s, layer, y));
    expect_same_bits("y after a cancelled call", COUNT, y, expected);
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

Test(workspace, progress_and_cancel)
{
    for (int i = 0; i < 2; i++)
        watch_and_cancel(algorithms[i]);
}

/* A refresh that failed may have overwritten what was there, also what belonged to another layer. */
Test(workspace, stale_after_a_failed_refresh)
{
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shape, 1), *broken = layer_random(&shape, 2);
    layer_data(broken, S4_PARAMETER_B)[1] = NAN;
    must(s4_layer_changed(broken, S4_PARAMETER_ALL));
    session s = open_forward(context, layer);
    double y[COUNT];
    must(s4_plan_refresh(s.plan, layer, s.workspace));
    must_refuse(s4_plan_refresh(s.plan, broken, s.workspace), S4_ERROR_NOT_FINITE, "B");
    must_refuse(forward(&s, layer, y), S4_ERROR_STALE, "s4_plan_refresh");
    session_close(&s);
    s4_layer_destroy(layer);
    s4_layer_destroy(broken);
    s4_context_destroy(context);
}

/* What a refresh has made outlasts the calls: a second one gives the same bits. Short rows of many channels: what a
 * call needs besides is small and would fit into what was made. */
Test(workspace, again_without_a_refresh)
{
    enum { ROWS = 2, CHANNELS = 24, SHORT = 3, N = 4 };
    enum { SAMPLES = ROWS * CHANNELS * SHORT, STATES = ROWS * CHANNELS * N };
    s4_context *context = context_open();
    const layer_shape flat = {.d_model = CHANNELS, .d_state = N, .rank = 1, .plain_transforms = 1};
    s4_layer *layer = layer_random(&flat, 9);
    random_source random = {9};
    const double *u = random_samples(&random, SAMPLES), *state = random_samples(&random, STATES);
    for (int way = 0; way < 4; way++)
        for (int states = 0; states < 2; states++) {
            const int minimum = way % 2;
            about("%s, %s%s", s4_algorithm_name(algorithms[way / 2]), minimum ? "minimum budget" : "no budget",
                  states ? ", with states" : "");
            s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, ROWS, SHORT, SHORT);
            problem.algorithm = algorithms[way / 2];
            problem.states = states;
            problem.threads = 1;
            session s = session_open(context, &problem);
            if (minimum) {
                problem.host_budget = s.info.host_minimum;
                problem.device_budget = s.info.device_minimum;
                session_close(&s);
                s = session_open(context, &problem);
            }
            double *y[2] = {numbers(SAMPLES), numbers(SAMPLES)}, *last[2] = {numbers(STATES), numbers(STATES)};
            must(s4_plan_refresh(s.plan, layer, s.workspace));
            for (int call = 0; call < 2; call++) {
                s4_forward_io io;
                S4_INIT(&io);
                io.u = u;
                io.y = y[call];
                io.state_in = states ? state : NULL;
                io.state_out = states ? last[call] : NULL;
                must(s4_plan_forward(s.plan, layer, s.workspace, &io));
            }
            expect_same_bits("y", SAMPLES, y[1], y[0]);
            expect_same_bits("final state", STATES, last[1], last[0]);
            session_close(&s);
        }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* What a refresh leaves for the calls after it is nobody else's memory until the end of the plan. */
Test(workspace, what_refresh_leaves_stays)
{
    static const char *const kept[] = {"system", "spectrum", "step_system", "chunk_system"};
    const layer_shape flat = {.d_model = 4, .d_state = 4, .rank = 1, .plain_transforms = 1};
    s4_layer *layer = layer_random(&flat, 9);
    for (int way = 0; way < 12; way++) {
        const s4_direction direction = (s4_direction)(S4_DIRECTION_FORWARD + way / 2 % 3);
        s4_problem problem = problem_of(layer, direction, S4_F64, 2, 8, 8);
        problem.algorithm = algorithms[way / 6];
        problem.states = way % 2; /* the last operation then has another buffer for its system */
        s4_plan *plan;
        must(s4_plan_create(&problem, &plan));
        s4_plan_info info = {0};
        must(s4_plan_describe(plan, &info));
        int found = 0;
        for (int64_t i = 0; i < info.buffers; i++) {
            s4_buffer_info buffer = {0};
            must(s4_plan_buffer(plan, i, &buffer));
            for (size_t k = 0; k < sizeof kept / sizeof kept[0]; k++) {
                if (strcmp(buffer.name, kept[k]) != 0)
                    continue;
                found++;
                check(buffer.last == info.operations - 1, "[%s] %s ends with operation %d of %d",
                      s4_direction_name(direction), kept[k], buffer.last, (int)info.operations);
            }
        }
        check(found > 0, "[%s] no such buffer", s4_direction_name(direction));
        s4_plan_destroy(plan);
    }
    s4_layer_destroy(layer);
}
