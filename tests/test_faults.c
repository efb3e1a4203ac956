/*
 * Allocations that fail, one after the other, wherever the library allocates: a typed error with a text, nothing lost, all
 * objects as before, and the same call works afterwards. test_memory.c has those of files and reports.
 */
#include <stdlib.h>

#include "allocations.h"
#include "expect.h"
#include "layers.h"
#include "place.h"
#include "session.h"

static const s4_algorithm algorithms[] = {S4_ALGORITHM_FFT, S4_ALGORITHM_FFT, S4_ALGORITHM_CHUNKED};
#define KINDS 3
static const layer_shape shapes[KINDS] = {
    {.mode = S4_MODE_DPLR, .d_model = 3, .d_state = 8, .rank = 2, .plain_transforms = 1},
    {.mode = S4_MODE_DIAG, .d_model = 3, .d_state = 8, .discretisation = S4_ZOH, .plain_transforms = 1},
    {.mode = S4_MODE_DPLR, .d_model = 3, .d_state = 8, .rank = 1, .plain_transforms = 1},
};
enum { B = 2, T = 30 };

/* What allocates. Each call makes and destroys what is new. */
typedef enum fallible { CONTEXT, OPEN_CPU, LAYER, INIT, SETUP, UNDO, DISCRETE, PLAN, PREPARE, WORKSPACE, WORKSPACE_IN,
                        CONTRACTION, FALLIBLES } fallible;
static const char names[FALLIBLES][16] = {"context", "open cpu", "layer",   "init",      "set-up",       "undo",
                                          "discrete", "plan",    "prepare", "workspace", "workspace in", "contraction"};

typedef struct objects {
    s4_context *context; /* its CPU place may not be open yet */
    s4_layer *layer;
    s4_problem problem;
    s4_plan *plan, *prepared;
    void *block;
} objects;

static s4_status attempt(fallible what, objects *o)
{
    s4_status status = S4_OK;
    const int64_t n = layer_options(o->layer).d_state / 2, H = shapes[0].d_model;
    switch (what) {
    case CONTEXT: {
        s4_context *made = (s4_context *)(void *)o;
        status = s4_context_create(NULL, &made);
        check(!status == !!made, "[%s] the pointer is not NULL", about_text());
        s4_context_destroy(made);
        break;
    }
    case OPEN_CPU: {
        s4_plan *plan;
        s4_context *context;
        status = s4_context_create(NULL, &context);
        if (status)
            break;
        status = s4_plan_create(&o->problem, &plan);
        if (!status)
            status = s4_plan_prepare(plan, context);
        s4_plan_destroy(plan);
        s4_context_destroy(context);
        break;
    }
    case LAYER: {
        const s4_layer_options options = layer_options(o->layer);
        s4_layer *made = (s4_layer *)(void *)o;
        status = s4_layer_create(&options, &made);
        check(!status == !!made, "[%s] the pointer is not NULL", about_text());
        s4_layer_destroy(made);
        break;
    }
    case INIT:
        status = s4_layer_init(o->context, o->layer, NULL);
        break;
    case SETUP:
        status = s4_layer_setup(o->context, o->layer, T);
        break;
    case UNDO:
        status = s4_layer_setup(o->context, o->layer, 0);
        break;
    case DISCRETE: {
        static double dA[4096];
        check(H * 4 * n * n * 2 <= 4096, "too large");
        status = s4_layer_discrete(o->context, o->layer, 1, dA, NULL, 0, NULL);
        break;
    }
    case PLAN: {
        s4_plan *made = (s4_plan *)(void *)o;
        status = s4_plan_create(&o->problem, &made);
        check(!status == !!made, "[%s] the pointer is not NULL", about_text());
        s4_plan_destroy(made);
        break;
    }
    case PREPARE:
        status = s4_plan_prepare(o->plan, o->context);
        break;
    case WORKSPACE: case WORKSPACE_IN: {
        s4_workspace *made = (s4_workspace *)(void *)o;
        s4_plan_info info;
        must(s4_plan_describe(o->prepared, &info));
        status = what == WORKSPACE ? s4_workspace_create(o->prepared, &made)
                                   : s4_workspace_create_in(o->prepared, o->block, (size_t)info.host_peak, &made);
        check(!status == !!made, "[%s] the pointer is not NULL", about_text());
        s4_workspace_destroy(made);
        break;
    }
    case CONTRACTION: {
        static const double x[6] = {1, 2, 3, 4, 5, 6};
        static const int64_t shape[] = {2, 3};
        const int64_t *const shape_list[] = {shape, shape};
        const void *const operands[] = {x, x};
        double z[4];
        s4_contraction_options options;
        S4_INIT(&options);
        options.dtype = S4_F64;
        options.threads = 1;
        status = s4_contract(o->context, "ik,jk->ij", &options, shape_list, operands, z);
        check(status || z[0] == 14, "[%s] the contraction is wrong", about_text());
        break;
    }
    case FALLIBLES:
        break;
    }
    return status;
}

static objects open_objects(s4_context *context, int kind)
{
    objects o = {.context = context, .layer = layer_random(&shapes[kind], 1)};
    o.problem = problem_of(o.layer, S4_DIRECTION_TRAINING, S4_F32, B, T, T);
    o.problem.algorithm = algorithms[kind];
    o.problem.threads = 2;
    s4_plan_info info;
    must(s4_plan_create(&o.problem, &o.plan));
    must(s4_plan_create(&o.problem, &o.prepared));
    must(s4_plan_prepare(o.prepared, context));
    must(s4_plan_describe(o.plan, &info));
    o.block = aligned_alloc(64, (size_t)info.host_peak / 64 * 64 + 64);
    return o;
}

static void close_objects(objects *o)
{
    s4_plan_destroy(o->plan);
    s4_plan_destroy(o->prepared);
    s4_layer_destroy(o->layer);
    free(o->block);
}

static int applies(fallible what, const layer_shape *shape)
{
    return shape->mode == S4_MODE_DPLR || (what != SETUP && what != UNDO);
}

/* ---- the hooks ------------------------------------------------------------------------------------------------- */

static struct {
    long calls, fail_at, live;
} hooks;

static void *hook_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    if (++hooks.calls == hooks.fail_at)
        return NULL;
    hooks.live++;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void hook_release(void *user, void *pointer)
{
    (void)user;
    hooks.live--;
    free(pointer);
}

static void check_refusal(s4_status status, const objects *o, const double *parameters, int64_t length)
{
    int64_t count;
    check(status == S4_ERROR_MEMORY, "[%s] %s: %s", about_text(), s4_status_name(status), s4_last_error());
    check(strlen(s4_last_error()) > 0, "[%s] no text", about_text());
    check(s4_layer_length(o->layer) == length, "[%s] the length has changed", about_text());
    const double *now = layer_bits(o->layer, &count);
    expect_same_bits("parameters", count, now, parameters);
}

Test(faults, hooks)
{
    s4_context_options options;
    S4_INIT(&options);
    options.threads = 2;
    options.allocate = hook_allocate;
    options.release = hook_release;
    s4_context *context;
    must(s4_context_create(&options, &context));
    place_required(context);
    int refused = 0;
    for (int i = 0; i < KINDS; i++) {
        objects o = open_objects(context, i);
        for (int what = 0; what < FALLIBLES; what++)
            for (long nth = 1; applies((fallible)what, &shapes[i]); nth++) {
                about("kind %d, %s, allocation %ld", i, names[what], nth);
                int64_t count;
                const double *parameters = layer_bits(o.layer, &count);
                const int64_t length = s4_layer_length(o.layer);
                const long live = hooks.live;
                hooks.calls = 0;
                hooks.fail_at = nth;
                const s4_status status = attempt((fallible)what, &o);
                hooks.fail_at = 0;
                check(hooks.live == live, "[%s] memory is left", about_text());
                if (hooks.calls < nth) {
                    must(status);
                    break;
                }
                check_refusal(status, &o, parameters, length);
                refused++;
            }
        close_objects(&o);
    }
    cr_assert(refused >= 6, "only %d allocations were seen", refused); /* init, set-up, undo, discrete, workspace, contraction */
    cr_assert_eq(hooks.live, 0);
    s4_context_destroy(context);
}

/* ---- the C library's ------------------------------------------------------------------------------------------- */

Test(faults, malloc)
{
    if (!allocations_supported())
        cr_skip_test("allocations cannot be made to fail in this build");
    if (place_has_gpu())
        cr_skip_test("an emulated GPU allocates too, and may not fail");
    s4_context *context = context_open();
    s4_layer *first = layer_random(&shapes[0], 3); /* starts the run-time of the threads, whose memory is its own */
    must(s4_layer_setup(context, first, T));
    s4_layer_destroy(first);
    for (int i = 0; i < KINDS; i++) {
        objects o = open_objects(context, i);
        for (int what = 0; what < FALLIBLES; what++) {
            long nth = 1;
            for (; applies((fallible)what, &shapes[i]); nth++) {
                about("kind %d, %s, allocation %ld", i, names[what], nth);
                int64_t count;
                const double *parameters = layer_bits(o.layer, &count);
                const int64_t length = s4_layer_length(o.layer);
                allocations_begin();
                allocations_fail(nth);
                const s4_status status = attempt((fallible)what, &o);
                const int failed = allocations_failed();
                allocations_end();
                if (!failed) {
                    must(status);
                    break;
                }
                check(allocations_held() == 0, "[%s] %lld bytes are left", about_text(), (long long)allocations_held());
                if (status == S4_OK) { /* something that can be done without */
                    check(what == OPEN_CPU, "[%s] nobody noticed", about_text());
                    continue;
                }
                check_refusal(status, &o, parameters, length);
            }
            check(nth > 1 || !applies((fallible)what, &shapes[i]), "[%s] no allocation was seen", about_text());
        }
        close_objects(&o);
    }
    s4_context_destroy(context);
}

/* A place that could not be opened for lack of memory can be opened later. */
Test(faults, opening_can_be_tried_again)
{
    if (!allocations_supported())
        cr_skip_test("allocations cannot be made to fail in this build");
    if (place_has_gpu())
        cr_skip_test("an emulated GPU allocates too, and may not fail");
    s4_layer *layer = layer_random(&shapes[1], 2);
    const s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, B, T, T);
    for (long nth = 1;; nth++) {
        about("allocation %ld", nth);
        s4_context *context;
        s4_plan *plan;
        must(s4_context_create(NULL, &context));
        must(s4_plan_create(&problem, &plan));
        allocations_fail(nth);
        const s4_status status = s4_plan_prepare(plan, context);
        const int failed = allocations_failed();
        check(!status || status == S4_ERROR_MEMORY, "[%s] %s", about_text(), s4_last_error());
        must(s4_plan_prepare(plan, context));
        s4_plan_destroy(plan);
        s4_context_destroy(context);
        if (!failed)
            break;
    }
    s4_layer_destroy(layer);
}
