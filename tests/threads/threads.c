/*
 * Several threads in the library at once: one plan in two workspaces, plans of many lengths being prepared, layers being
 * refreshed, each thread's own error text. A program of its own, for ThreadSanitizer too.
 *
 *   s4_test_threads PLACEMENT
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

typedef struct work {
    int index;
    s4_context *context;
    s4_plan *plan; /* NULL: makes its own */
    s4_layer *layer;
    int64_t length;
    int repeats;
    uint64_t expected;
    pthread_barrier_t *together;
} work;

static void run_threads(work *works, int count, void *(*body)(void *))
{
    pthread_t threads[16];
    pthread_barrier_t together;
    pthread_barrier_init(&together, NULL, (unsigned)count);
    for (int i = 0; i < count; i++) {
        works[i].index = i;
        works[i].together = &together;
        check_that(pthread_create(&threads[i], NULL, body, &works[i]) == 0, "thread %d does not start", i);
    }
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&together);
}

/* Plans and workspaces of its own where none is given; the same bits again and again. */
static void *execute(void *argument)
{
    work *w = argument;
    pthread_barrier_wait(w->together);
    for (int repeat = 0; repeat < w->repeats; repeat++) {
        s4_plan *plan = w->plan ? w->plan : work_plan(w->length);
        s4_workspace *workspace = NULL;
        if (!w->plan)
            must(s4_plan_prepare(plan, w->context));
        must(s4_workspace_create(plan, &workspace));
        const uint64_t bits = work_bits(plan, w->layer, workspace, w->length, (uint64_t)w->index);
        check_that(bits == w->expected, "thread %d, length %lld: other bits than alone", w->index, (long long)w->length);
        s4_workspace_destroy(workspace);
        if (!w->plan)
            s4_plan_destroy(plan);
    }
    return NULL;
}

static uint64_t bits_alone(s4_context *context, const s4_layer *layer, int64_t length, int index)
{
    s4_plan *plan = work_plan(length);
    s4_workspace *workspace = NULL;
    must(s4_plan_prepare(plan, context));
    must(s4_workspace_create(plan, &workspace));
    const uint64_t bits = work_bits(plan, layer, workspace, length, (uint64_t)index);
    s4_workspace_destroy(workspace);
    s4_plan_destroy(plan);
    return bits;
}

/* Two threads, one plan; `shared`: one layer too. */
static void check_one_plan(s4_context *context, int shared)
{
    work works[2];
    s4_plan *plan = work_plan(100);
    must(s4_plan_prepare(plan, context));
    s4_layer *layers[] = {work_layer(context, 100, 1), work_layer(context, 100, 2)};
    for (int i = 0; i < 2; i++) {
        s4_layer *layer = layers[shared ? 0 : i];
        works[i] = (work){.context = context, .plan = plan, .layer = layer, .length = 100, .repeats = 5,
                          .expected = bits_alone(context, layer, 100, i)};
    }
    run_threads(works, 2, execute);
    s4_plan_destroy(plan);
    for (int i = 0; i < 2; i++)
        s4_layer_destroy(layers[i]);
}

/* Sixteen threads plan sixteen lengths. */
static void check_many_plans(s4_context *context)
{
    work works[16];
    for (int i = 0; i < 16; i++) {
        const int64_t length = 40 + 13 * i;
        s4_layer *layer = work_layer(context, length, (uint64_t)i);
        works[i] = (work){.context = context, .layer = layer, .length = length, .repeats = 2,
                          .expected = bits_alone(context, layer, length, i)};
    }
    run_threads(works, 16, execute);
    for (int i = 0; i < 16; i++)
        s4_layer_destroy(works[i].layer);
}

/* Layers are made, set up and destroyed, each in its thread. */
static void *make_layers(void *argument)
{
    work *w = argument;
    pthread_barrier_wait(w->together);
    for (int repeat = 0; repeat < w->repeats; repeat++) {
        s4_layer *layer = work_layer(w->context, w->length, (uint64_t)w->index);
        const uint64_t bits = bits_alone(w->context, layer, w->length, w->index);
        check_that(bits == w->expected, "thread %d: a layer made beside others has other bits", w->index);
        s4_layer_destroy(layer);
    }
    return NULL;
}

static void check_layers(s4_context *context)
{
    work works[4];
    for (int i = 0; i < 4; i++) {
        s4_layer *layer = work_layer(context, 64, (uint64_t)i);
        works[i] = (work){.context = context, .length = 64, .repeats = 3, .expected = bits_alone(context, layer, 64, i)};
        s4_layer_destroy(layer);
    }
    run_threads(works, 4, make_layers);
}

static void *fail_differently(void *argument)
{
    work *w = argument;
    char text[32];
    s4_problem problem;
    s4_plan *plan;
    check_that(s4_last_error()[0] == 0, "thread %d begins with another thread's error", w->index);
    S4_INIT(&problem);
    problem.batch = -1000 - w->index;
    problem.length = problem.d_model = problem.d_state = 2;
    snprintf(text, sizeof text, "batch is %d", -1000 - w->index);
    for (int repeat = 0; repeat < 10; repeat++) {
        pthread_barrier_wait(w->together);
        check_that(s4_plan_create(&problem, &plan) == S4_ERROR_ARGUMENT, "thread %d: no error", w->index);
        pthread_barrier_wait(w->together);
        check_that(strstr(s4_last_error(), text) != NULL, "thread %d: the text is \"%s\"", w->index, s4_last_error());
    }
    return NULL;
}

static void check_errors(void)
{
    work works[8] = {{0}};
    run_threads(works, 8, fail_differently);
}

int main(int argc, char *argv[])
{
    const char *text = argc > 1 ? argv[1] : "cpu";
    s4_context_options options;
    s4_context *context = NULL;
    s4_place_info info;
    S4_INIT(&options);
    options.threads = WORK_LANES;
    options.ignore_wisdom = 1;
    if (s4_placement_parse(text, &work_placement) || s4_context_create(&options, &context)) {
        fprintf(stderr, "%s\n", s4_last_error());
        return 2;
    }
    must(s4_context_place(context, S4_PLACE_GPU, &info));
    if (strcmp(text, "cpu") != 0 && !info.available) {
        printf("SKIPPED: placement %s: %s\n", text, info.reason);
        return 77;
    }
    check_errors();
    check_one_plan(context, 0);
    check_one_plan(context, 1);
    check_many_plans(context);
    check_layers(context);
#ifdef S4_TEST_FORKS
    check_forks(context);
#endif
    s4_context_destroy(context);
    printf("%s: %d failures\n", text, check_failures());
    return check_failures() > 0;
}
