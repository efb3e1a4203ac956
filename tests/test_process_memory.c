/*
 * The process as a whole grows by no more than the plan and its reserve say: what the system counts as resident, from plan
 * to gradients, in a process of its own.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "layers.h"
#include "place.h"
#include "problem_calls.h"
#include "resident.h"
#include "sanitized.h"

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
    check(resident_reset(), "the peak cannot begin anew");
    const int64_t before = resident_peak();
    check(resident_reset(), "the peak cannot begin anew");
    session s = session_open(context, &problem);
    must(execute(&problem, s.plan, layer, s.workspace, &t, out));
    const growth g = {resident_peak() - before, info.host_peak, info.host_reserve};
    session_close(&s);
    return g;
}

Test(process_memory, the_process_grows_no_more)
{
#ifdef SANITIZED
    cr_skip_test("a sanitizer keeps memory of its own");
#endif
    if (place_has_gpu())
        cr_skip_test("an emulated GPU has its memory on the host");
    if (resident_peak() < 0 || !resident_reset())
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
