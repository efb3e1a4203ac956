/*
 * Allocations of the C library: none in a million steps; and each that objects and files take may fail without harm.
 */
#include <stdlib.h>

#include "allocations.h"
#include "expect.h"
#include "golden.h"
#include "layers.h"
#include "place.h"
#include "scratch.h"
#include "session.h"

/* A million steps, one call each: as a layer runs on a stream. */
Test(memory, a_million_steps)
{
    const int64_t steps = place_has_gpu() ? 2000 : 1000000; /* the emulation is slow */
    if (!allocations_supported())
        cr_skip_test("allocations cannot be counted in this build");
    s4_context *context = context_open();
    for (int mode = 0; mode < 2; mode++) {
        about("%s", s4_mode_name((s4_mode)mode));
        const layer_shape one = {.mode = (s4_mode)mode, .d_model = 1, .d_state = 4, .rank = mode == S4_MODE_DPLR,
                                 .plain_transforms = 1};
        s4_layer *layer = layer_random(&one, 6);
        s4_problem problem = problem_of(layer, S4_DIRECTION_STEP, S4_F32, 1, 1, 0);
        problem.threads = 1;
        session s = session_ready(context, &problem, layer);
        float u = 1, y = 0;
        double state[4] = {0};
        s4_step_io io;
        S4_INIT(&io);
        io.u = &u;
        io.y = &y;
        io.state = state;
        must(s4_plan_step(s.plan, layer, s.workspace, &io));
        allocations_begin();
        s4_status status = S4_OK;
        for (int64_t t = 0; t < steps && status == S4_OK; t++)
            status = s4_plan_step(s.plan, layer, s.workspace, &io);
        const long count = allocations_end();
        must(status);
        const int emulated = place_placement().stage[S4_STAGE_STEP] == S4_PLACE_GPU; /* whose launches allocate */
        check(count == 0 || emulated, "[%s] %ld allocations", about_text(), count);
        check(y == y && y != 0, "[%s] y is %g", about_text(), (double)y);
        session_close(&s);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* Each allocation of the C library fails in turn, where no other library takes part. */
typedef enum fallible { CREATE_CONTEXT, CREATE_LAYER, CREATE_PLAN, REPORT, LOAD_LAYER, SAVE_LAYER, FALLIBLES } fallible;

static s4_status attempt(fallible what, s4_layer *layer, const s4_plan *plan, const char *from, const char *to)
{
    s4_status status = S4_OK;
    switch (what) {
    case CREATE_CONTEXT: {
        s4_context *context;
        status = s4_context_create(NULL, &context);
        s4_context_destroy(context);
        break;
    }
    case CREATE_LAYER: {
        s4_layer_options options;
        S4_INIT(&options);
        s4_layer *made;
        options.d_model = 3;
        options.d_state = 4;
        status = s4_layer_create(&options, &made);
        s4_layer_destroy(made);
        break;
    }
    case CREATE_PLAN: {
        s4_problem problem;
        S4_INIT(&problem);
        problem.direction = S4_DIRECTION_TRAINING;
        problem.batch = problem.length = problem.d_model = 8;
        problem.d_state = 4;
        s4_plan *made;
        status = s4_plan_create(&problem, &made);
        s4_plan_destroy(made);
        break;
    }
    case REPORT: {
        char text[16];
        size_t needed;
        status = s4_plan_report(plan, S4_REPORT_JSON, text, sizeof text, &needed);
        if (!status)
            status = s4_plan_report(plan, S4_REPORT_TEXT, text, sizeof text, &needed);
        break;
    }
    case LOAD_LAYER: {
        s4_layer *made;
        status = s4_layer_load(from, NULL, NULL, &made);
        s4_layer_destroy(made);
        break;
    }
    case SAVE_LAYER:
        status = s4_layer_save(layer, to, NULL);
        break;
    case FALLIBLES:
        break;
    }
    return status;
}

Test(memory, allocations_that_fail)
{
    if (!allocations_supported())
        cr_skip_test("allocations cannot be made to fail in this build");
    static const char names[FALLIBLES][16] = {"create context", "create layer", "create plan",
                                              "report",         "load layer",   "save layer"};
    const layer_shape shape = {.d_model = 5, .d_state = 16, .rank = 2, .plain_transforms = 1};
    s4_layer *layer = layer_random(&shape, 5);
    const s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, S4_F32, 3, 200, 200);
    s4_plan *plan;
    must(s4_plan_create(&problem, &plan));
    char from[1024];
    golden_path("dplr_legs", ".in.safetensors", sizeof from, from);
    const char *to = scratch_path("layer.safetensors");
    must(s4_layer_save(layer, to, NULL));
    file_bytes old = file_read(to);
    for (int what = 0; what < FALLIBLES; what++) {
        long nth = 1;
        for (;; nth++) {
            about("%s, allocation %ld", names[what], nth);
            allocations_fail(nth);
            const s4_status status = attempt((fallible)what, layer, plan, from, to);
            if (!allocations_failed()) {
                must(status);
                break;
            }
            if (status == S4_OK) /* something that can be done without */
                continue;
            /* The parser of JSON does not tell lack of memory from lack of sense, and fopen not from lack of a file. */
            check(status == S4_ERROR_MEMORY ||
                      (what >= LOAD_LAYER && (status == S4_ERROR_FORMAT || status == S4_ERROR_FILE)),
                  "[%s] %s: %s", about_text(), s4_status_name(status), s4_last_error());
            check(strlen(s4_last_error()) > 0, "[%s] no text", about_text());
            if (what == SAVE_LAYER) {
                file_bytes now = file_read(to);
                check(now.size == old.size && memcmp(now.data, old.data, old.size) == 0,
                      "[%s] the old file is not as it was", about_text());
                check(scratch_count() == 1, "[%s] a temporary file is left", about_text());
            }
        }
        check(nth > 1, "[%s] no allocation was seen", about_text());
    }
    s4_plan_destroy(plan);
    s4_layer_destroy(layer);
}
