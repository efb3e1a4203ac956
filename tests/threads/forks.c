/*
 * What works in a forked process: the CPU place, with the same bits, whatever the parent was doing; the GPU place says that
 * it does not.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { LENGTH = 300, CHILD_SECONDS = 60 };

typedef struct scene {
    s4_context *context;
    s4_layer *layer;
    s4_plan *plan;
    s4_workspace *workspace;
    uint64_t expected; /* bits of the CPU place */
} scene;

/* Runs `body` in a child, which must end by itself. */
static void in_child(const char *what, void (*body)(scene *), scene *s)
{
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const int before = check_failures();
        alarm(CHILD_SECONDS); /* a team that is gone is waited for, for ever */
        body(s);
        _exit(check_failures() != before);
    }
    check_that(child > 0 && waitpid(child, &status, 0) == child, "%s: no child", what);
    check_that(!WIFSIGNALED(status), "%s: the child was ended by signal %d%s", what, WTERMSIG(status),
               WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? ", it hung" : "");
    check_that(!WIFEXITED(status) || WEXITSTATUS(status) == 0, "%s: the child failed", what);
}

/* The plan, the workspace and the layer that the parent has used. */
static void use_the_parents(scene *s)
{
    check_that(work_bits(s->plan, s->layer, s->workspace, LENGTH, 5) == s->expected, "other bits than in the parent");
}

static void make_all_anew(scene *s)
{
    s4_context *context = NULL;
    s4_workspace *workspace = NULL;
    s4_context_options options;
    S4_INIT(&options);
    options.threads = WORK_LANES;
    options.ignore_wisdom = 1;
    must(s4_context_create(&options, &context));
    s4_layer *layer = work_layer(context, LENGTH, 9);
    s4_plan *plan = work_plan(LENGTH);
    must(s4_plan_prepare(plan, context));
    must(s4_workspace_create(plan, &workspace));
    check_that(work_bits(plan, layer, workspace, LENGTH, 5) == s->expected, "new objects have other bits");
    s4_workspace_destroy(workspace);
    s4_plan_destroy(plan);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

static void *thread_body(void *argument)
{
    use_the_parents(argument);
    return NULL;
}

static void use_a_thread(scene *s)
{
    pthread_t thread;
    check_that(pthread_create(&thread, NULL, thread_body, s) == 0, "no thread in the child");
    pthread_join(thread, NULL);
    use_the_parents(s);
}

static void leave_all(scene *s)
{
    s4_workspace_destroy(s->workspace);
    s4_plan_destroy(s->plan);
    s4_layer_destroy(s->layer);
    s4_context_destroy(s->context);
}

/* Contractions have threads of their own. */
static void contract(scene *s)
{
    static double x[64 * 64], y[64 * 64], z[64 * 64];
    static const int64_t shape[] = {64, 64};
    const int64_t *const shapes[] = {shape, shape};
    const void *const operands[] = {x, y};
    s4_contraction_options options;
    for (int i = 0; i < 64 * 64; i++)
        x[i] = y[i] = i % 64 == i / 64;
    S4_INIT(&options);
    options.dtype = S4_F64;
    options.threads = WORK_LANES;
    must(s4_contract(s->context, "ik,kj->ij", &options, shapes, operands, z));
    check_that(memcmp(x, z, sizeof z) == 0, "the unit matrix squared is another");
}

/* A thread that plans FFTs without end, while this one forks. */
static atomic_int planning;
static void *plan_without_end(void *argument)
{
    scene *s = argument;
    for (int64_t i = 0; atomic_load(&planning); i++) {
        s4_plan *plan = work_plan(200 + i % 50);
        must(s4_plan_prepare(plan, s->context));
        s4_plan_destroy(plan);
    }
    return NULL;
}

static void check_fork_while_planning(scene *s)
{
    pthread_t thread;
    atomic_store(&planning, 1);
    check_that(pthread_create(&thread, NULL, plan_without_end, s) == 0, "no thread");
    for (int i = 0; i < 20; i++)
        in_child("a fork while FFTs are planned", make_all_anew, s);
    atomic_store(&planning, 0);
    pthread_join(thread, NULL);
}

/* ---- the GPU place ---------------------------------------------------------------------------------------------- */

static void must_say_forked(s4_status status, const char *call)
{
    check_that(status == S4_ERROR_UNAVAILABLE && strstr(s4_last_error(), "forked"), "%s: %s: %s", call,
               s4_status_name(status), s4_last_error());
}

static void refuse_the_gpu(scene *s)
{
    float u[BATCH * CHANNELS * LENGTH] = {0}, y[BATCH * CHANNELS * LENGTH];
    s4_forward_io io;
    s4_place_info info;
    s4_workspace *workspace;
    S4_INIT(&io);
    io.u = u;
    io.y = y;
    must_say_forked(s4_plan_refresh(s->plan, s->layer, s->workspace), "refresh");
    must_say_forked(s4_plan_forward(s->plan, s->layer, s->workspace, &io), "forward");
    must_say_forked(s4_workspace_create(s->plan, &workspace), "workspace");
    s4_plan *plan = work_plan(LENGTH);
    must_say_forked(s4_plan_prepare(plan, s->context), "prepare");
    s4_plan_destroy(plan);
    must(s4_context_place(s->context, S4_PLACE_GPU, &info));
    check_that(!info.available && strstr(info.reason, "forked"), "the GPU is available, or not because \"%s\"",
               info.reason);
    s4_context *context = NULL;
    must(s4_context_create(NULL, &context));
    plan = work_plan(LENGTH);
    must_say_forked(s4_plan_prepare(plan, context), "prepare in a new context");
    s4_plan_destroy(plan);
    s4_context_destroy(context);
    must(s4_placement_parse("cpu", &work_placement));
    make_all_anew(s);
    leave_all(s);
}

static scene open_scene(s4_context *context)
{
    scene s = {.context = context, .layer = work_layer(context, LENGTH, 9), .plan = work_plan(LENGTH)};
    must(s4_plan_prepare(s.plan, context));
    must(s4_workspace_create(s.plan, &s.workspace));
    s.expected = work_bits(s.plan, s.layer, s.workspace, LENGTH, 5);
    return s;
}

static void close_scene(scene *s)
{
    s4_workspace_destroy(s->workspace);
    s4_plan_destroy(s->plan);
    s4_layer_destroy(s->layer);
}

void check_forks(s4_context *context)
{
    const s4_placement placement = work_placement;
    must(s4_placement_parse("cpu", &work_placement));
    scene s = open_scene(context);
    contract(&s);
    in_child("the parent's objects", use_the_parents, &s);
    in_child("new objects", make_all_anew, &s);
    in_child("a thread of the child", use_a_thread, &s);
    in_child("a contraction", contract, &s);
    in_child("the end of all objects", leave_all, &s);
    check_fork_while_planning(&s);
    use_the_parents(&s); /* and the parent goes on */
    close_scene(&s);
    work_placement = placement;
    if (placement.stage[S4_STAGE_CONVOLVE] == S4_PLACE_GPU) {
        const uint64_t expected = s.expected;
        s = open_scene(context);
        const uint64_t before = s.expected;
        s.expected = expected;
        in_child("the GPU place", refuse_the_gpu, &s);
        check_that(work_bits(s.plan, s.layer, s.workspace, LENGTH, 5) == before, "the parent does not go on as before");
        close_scene(&s);
    }
}
