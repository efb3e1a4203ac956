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
#include "session.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

/* Most bytes that were resident in this process so far; -1 where that cannot be known. */
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
    return kibibytes < 0 ? -1 : kibibytes * 1024;
}

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
