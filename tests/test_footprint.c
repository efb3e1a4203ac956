/*
 * The memory of the whole process, as the operating system counts it: a kernel may cost little beyond itself, and hardly
 * more for four times the state. Each measurement is a process of its own.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "layers.h"
#include "place.h"
#include "resident.h"
#include "sanitized.h"
#include "session.h"

typedef struct task {
    s4_mode mode;
    int64_t d_state;
    int from_c_tilde;
} task;

enum { H = 256, L = 16384 };

/* Bytes of the layer's parameters, and of K in f32. */
static int64_t parameter_bytes(const task *t)
{
    const int64_t n = t->d_state / 2, matrices = t->mode == S4_MODE_DPLR ? 3 : 2; /* B C P */
    return 8 * (H * n * 2 * matrices + 2 * H * n + 2 * H);
}
static const int64_t K_bytes = (int64_t)H * L * 4;

/* What a program adds to its peak by making a layer and its kernel; `t` NULL: an empty program. */
static void measure(const task *t)
{
    if (!t)
        return;
    s4_context_options options;
    S4_INIT(&options);
    options.threads = 2;
    s4_context *context;
    must(s4_context_create(&options, &context));
    const layer_shape shape = {.mode = t->mode, .d_model = H, .d_state = t->d_state, .rank = t->mode == S4_MODE_DPLR,
                               .discretisation = t->mode == S4_MODE_DPLR ? S4_BILINEAR : S4_ZOH,
                               .plain_transforms = 1};
    s4_layer *layer = layer_random(&shape, 1);
    if (t->from_c_tilde)
        must(s4_layer_set_length(layer, L)); /* any numbers will do for a C~ */
    s4_problem problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F32, 1, L, L);
    problem.threads = 2;
    session s = session_open(context, &problem);
    float *K = malloc((size_t)K_bytes);
    check(K != NULL, "no memory");
    must(s4_plan_refresh(s.plan, layer, s.workspace));
    must(s4_plan_kernel(s.plan, layer, s.workspace, K));
    check(K[H * L - 1] == K[H * L - 1], "NaN");
    free(K);
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

static int64_t peak_of(const task *t)
{
    int pipe_ends[2];
    int64_t peak = -1;
    cr_assert_eq(pipe(pipe_ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        measure(t);
        peak = resident_peak();
        _exit(write(pipe_ends[1], &peak, sizeof peak) == (ssize_t)sizeof peak ? 0 : 1);
    }
    close(pipe_ends[1]);
    const int got = read(pipe_ends[0], &peak, sizeof peak) == (ssize_t)sizeof peak;
    close(pipe_ends[0]);
    int status = 0;
    cr_assert(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0 && got,
              "[%s] the other process failed", about_text());
    return peak;
}

static void skip_where_it_says_nothing(void)
{
#ifdef SANITIZED
    cr_skip_test("a sanitizer keeps memory of its own");
#endif
    if (place_has_gpu())
        cr_skip_test("an emulated GPU has its memory on the host");
    if (resident_peak() < 0)
        cr_skip_test("this system does not tell the memory of a process");
}

/* A training step keeps nothing between or inside its calls that grows with the batch, nor anything of modes times samples:
 * what a plan takes does not depend on the batch, and grows with the state by parameters and scratch of a mode only. That
 * what is planned is what is taken is in budget_grid; plans need no device. */
Test(footprint, training)
{
    static const char placements[][8] = {"cpu", "split"};
    for (int mode = S4_MODE_DPLR; mode <= S4_MODE_DIAG; mode++)
        for (int placed = 0; placed < (mode == S4_MODE_DPLR ? 2 : 1); placed++) { /* what the GPU place offers */
            about("%s, %s", s4_mode_name((s4_mode)mode), placements[placed]);
            s4_problem problem;
            S4_INIT(&problem);
            problem.direction = S4_DIRECTION_TRAINING;
            problem.algorithm = S4_ALGORITHM_FFT; /* chunks keep matrices of 32 numbers a mode, or more */
            problem.mode = (s4_mode)mode;
            problem.discretisation = mode == S4_MODE_DPLR ? S4_BILINEAR : S4_ZOH;
            problem.d_model = H;
            problem.length = L;
            problem.threads = 2;
            must(s4_placement_parse(placements[placed], &problem.placement));
            int64_t peak[2][2], least[2][2]; /* by batch, by state */
            for (int b = 0; b < 2; b++)
                for (int n = 0; n < 2; n++) {
                    problem.batch = b ? 1024 : 64;
                    problem.d_state = n ? 256 : 4;
                    s4_plan *plan;
                    s4_plan_info info;
                    must(s4_plan_create(&problem, &plan));
                    must(s4_plan_describe(plan, &info));
                    peak[b][n] = info.host_peak + info.device_peak;
                    least[b][n] = info.host_minimum + info.device_minimum;
                    s4_plan_destroy(plan);
                }
            const int64_t lengths = placed ? 8 * (1024 - 64) : 0; /* on the device, a number for every row */
            check(peak[1][0] - peak[0][0] == lengths && least[1][1] - least[0][1] == lengths,
                  "[%s] the batch takes memory", about_text());
            /* System, its gradient, and the scratch of two lanes: some 40 numbers a channel and mode, far from L. */
            const int64_t modes = (256 - 4) / 2, most = 8 * 2 * 40 * H * modes;
            check(least[0][1] - least[0][0] < most && peak[0][1] - peak[0][0] < most,
                  "[%s] more state takes %lld and %lld bytes, more than %lld", about_text(),
                  (long long)(least[0][1] - least[0][0]), (long long)(peak[0][1] - peak[0][0]), (long long)most);
            check(most < 8 * (int64_t)modes * L * H / 100, "modes times samples would be hidden");
        }
}

/* H = 256, N = 64, L = 16384: under 64 MiB beyond K (16 MiB) and an empty program. */
Test(footprint, kernel)
{
    static const task tasks[] = {{S4_MODE_DPLR, 64, 1}, {S4_MODE_DPLR, 64, 0}, {S4_MODE_DIAG, 64, 0}};
    skip_where_it_says_nothing();
    const int64_t empty = peak_of(NULL);
    for (int i = 0; i < 3; i++) {
        about("%s, from %s", s4_mode_name(tasks[i].mode), tasks[i].from_c_tilde ? "C~" : "C");
        const int64_t extra = peak_of(&tasks[i]) - empty - K_bytes;
        check(extra < 64 * 1048576, "[%s] %.1f MiB beyond K and the empty program", about_text(),
              (double)extra / 1048576);
    }
}

/* N = 256 takes hardly more than N = 64 beyond its parameters. */
Test(footprint, states)
{
    static const task tasks[][2] = {{{S4_MODE_DPLR, 64, 1}, {S4_MODE_DPLR, 256, 1}},
                                    {{S4_MODE_DIAG, 64, 0}, {S4_MODE_DIAG, 256, 0}}};
    skip_where_it_says_nothing();
    for (int i = 0; i < 2; i++) {
        about("%s", s4_mode_name(tasks[i][0].mode));
        double beyond[2];
        for (int j = 0; j < 2; j++)
            /* The parameters lie there twice: in the layer, and effective in the workspace. */
            beyond[j] = (double)(peak_of(&tasks[i][j]) - 2 * parameter_bytes(&tasks[i][j]));
        check(beyond[1] < 1.1 * beyond[0], "[%s] %.1f MiB, with a quarter of the state %.1f", about_text(),
              beyond[1] / 1048576, beyond[0] / 1048576);
    }
}
