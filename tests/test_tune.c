/*
 * Tuned FFTs: wisdom appears where it should, in a cache folder of the test's own; a file that is corrupt, foreign or
 * cannot be written does no harm; and who ignores wisdom has the bits of a machine that was never tuned.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "layers.h"
#include "place.h"
#include "scratch.h"
#include "session.h"
#include "tolerances.h"

enum { B = 2, H = 2, T = 1500, COUNT = B * H * T };

static const layer_shape shape = {.d_model = H, .d_state = 8, .rank = 1, .plain_transforms = 1};
static const double seconds = 0.05;

static void use_cache(const char *folder)
{
    setenv("XDG_CACHE_HOME", folder, 1);
}

static s4_context *context_with(int ignore_wisdom)
{
    s4_context_options options;
    S4_INIT(&options);
    options.threads = 2;
    options.ignore_wisdom = ignore_wisdom;
    s4_context *context;
    must(s4_context_create(&options, &context));
    place_required(context);
    return context;
}

static s4_problem training(s4_layer *layer, s4_dtype dtype)
{
    return problem_of(layer, S4_DIRECTION_TRAINING, dtype, B, T, T);
}

typedef struct outcome {
    double y[2][COUNT], du[2][COUNT]; /* of both precisions */
} outcome;

/* In a process of its own, as wisdom is the process's: what comes out with the wisdom that is there, or without. */
static outcome *run_apart(int ignore_wisdom)
{
    int pipe_ends[2];
    outcome *out = (outcome *)(void *)numbers((int64_t)(sizeof *out / sizeof(double)));
    cr_assert_eq(pipe(pipe_ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        s4_context *context = context_with(ignore_wisdom);
        s4_layer *layer = layer_random(&shape, 1);
        must(s4_layer_setup(context, layer, T));
        random_source random = {1};
        const double *u = random_samples(&random, COUNT), *dy = random_samples(&random, COUNT);
        for (int d = 0; d < 2; d++) {
            const s4_problem problem = training(layer, d == 0 ? S4_F64 : S4_F32);
            session s = session_open(context, &problem);
            memcpy(out->y[d], session_forward(&s, layer, 0, 0, u, NULL, NULL), sizeof out->y[d]);
            memcpy(out->du[d], session_backward(&s, layer, 0, 0, u, dy).du, sizeof out->du[d]);
            session_close(&s);
        }
        FILE *to = fdopen(pipe_ends[1], "wb");
        const int fine = to && fwrite(out, sizeof *out, 1, to) == 1 && fclose(to) == 0;
        _exit(fine ? 0 : 1);
    }
    close(pipe_ends[1]);
    FILE *from = fdopen(pipe_ends[0], "rb");
    cr_assert(from && fread(out, sizeof *out, 1, from) == 1, "[%s] the other process gave nothing", about_text());
    fclose(from);
    int status = 0;
    cr_assert(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return out;
}

static void expect_same_outcome(const outcome *got, const outcome *expected)
{
    for (int d = 0; d < 2; d++) {
        expect_same_bits("y", COUNT, got->y[d], expected->y[d]);
        expect_same_bits("du", COUNT, got->du[d], expected->du[d]);
    }
}

static void expect_close_outcome(const outcome *got, const outcome *expected)
{
    for (int d = 0; d < 2; d++) {
        const double tolerance = d == 0 ? TOLERANCE_TUNED : TOLERANCE_F32_TUNED;
        expect_close("y", COUNT, got->y[d], expected->y[d], tolerance, 0);
        expect_close("du", COUNT, got->du[d], expected->du[d], tolerance, 0);
    }
}

/* Tunes for both precisions; the path of the file. In a process of its own too: this one stays untuned. */
static const char *tune_apart(s4_status expected)
{
    static char path[4096];
    int pipe_ends[2];
    cr_assert_eq(pipe(pipe_ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        s4_context *context = context_with(0);
        s4_layer *layer = layer_random(&shape, 1);
        int fine = 1;
        for (int d = 0; d < 2; d++) {
            const s4_problem problem = training(layer, d == 0 ? S4_F64 : S4_F32);
            const s4_status status = s4_context_tune(context, &problem, seconds, path, sizeof path);
            if (status != expected)
                fprintf(stderr, "tune: %s: %s\n", s4_status_name(status), s4_last_error());
            fine = fine && status == expected;
        }
        fine = fine && write(pipe_ends[1], path, sizeof path) == (ssize_t)sizeof path;
        _exit(fine ? 0 : 1);
    }
    close(pipe_ends[1]);
    FILE *from = fdopen(pipe_ends[0], "rb");
    const size_t got = from ? fread(path, 1, sizeof path, from) : 0;
    fclose(from);
    int status = 0;
    cr_assert(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
              "[%s] tuning did not end with %s", about_text(), s4_status_name(expected));
    cr_assert_eq(got, sizeof path);
    return path;
}

static void remove_file(const char *path)
{
    unlink(path);
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    rmdir(folder);
}

Test(tune, wisdom_is_stored_and_used)
{
    if (place_has_gpu())
        cr_skip_test("tuning is of the CPU's FFTs");
    use_cache(scratch_folder());
    about("before");
    const outcome *untuned = run_apart(0);
    expect_same_outcome(run_apart(1), untuned);
    const char *path = tune_apart(S4_OK);
    about("%.200s", path);
    char folder[1024];
    snprintf(folder, sizeof folder, "%s/s4/", scratch_folder());
    cr_assert(strncmp(path, folder, strlen(folder)) == 0, "%s is not in %s", path, folder);
    cr_assert(file_read(path).size > 20, "there is no wisdom in %s", path);

    const outcome *tuned = run_apart(0);
    expect_close_outcome(tuned, untuned);
    about("again: the same wisdom, the same bits");
    expect_same_outcome(run_apart(0), tuned);
    about("wisdom ignored");
    expect_same_outcome(run_apart(1), untuned);

    about("corrupt files");
    const file_bytes good = file_read(path);
    static const char nonsense[] = "(fftw-3.3.8 fftw_wisdom #x1 #x2 #x3 #x4\n  (nothing 1 2 3";
    for (int i = 0; i < 5; i++) {
        about("corrupt file %d", i);
        unsigned char *bad = (unsigned char *)numbers((int64_t)good.size);
        memcpy(bad, good.data, good.size);
        bad[good.size / 2] ^= 1;
        bad[good.size - 3] ^= 1;
        if (i == 0) file_write(path, "", 0);
        if (i == 1) file_write(path, nonsense, sizeof nonsense);
        if (i == 2) file_write(path, good.data, good.size / 2);
        if (i == 3) file_write(path, bad, good.size);
        if (i == 4) {
            unlink(path);
            cr_assert_eq(mkdir(path, 0700), 0);
        }
        expect_same_outcome(run_apart(0), untuned);
        if (i == 4)
            rmdir(path);
    }
    about("tuning over a corrupt file");
    file_write(path, nonsense, sizeof nonsense);
    path = tune_apart(S4_OK);
    expect_close_outcome(run_apart(0), untuned);
    remove_file(path);
}

/* Without XDG_CACHE_HOME it is ~/.cache. */
Test(tune, home)
{
    if (place_has_gpu())
        cr_skip_test("tuning is of the CPU's FFTs");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", scratch_folder(), 1);
    const char *path = tune_apart(S4_OK);
    char folder[1024];
    snprintf(folder, sizeof folder, "%s/.cache/s4/", scratch_folder());
    cr_assert(strncmp(path, folder, strlen(folder)) == 0, "%s is not in %s", path, folder);
    cr_assert(file_read(path).size > 20);
    remove_file(path);
    rmdir(scratch_path(".cache"));
}

/* A cache folder that is a file: an error, and everything goes on. */
Test(tune, unwritable)
{
    if (place_has_gpu())
        cr_skip_test("tuning is of the CPU's FFTs");
    const char *file = scratch_path("a_file");
    file_write(file, "x", 1);
    use_cache(file);
    const outcome *untuned = run_apart(0);
    about("unwritable");
    tune_apart(S4_ERROR_FILE);
    expect_same_outcome(run_apart(0), untuned);
    cr_assert_eq(file_read(file).size, 1);
}

Test(tune, refused)
{
    use_cache(scratch_folder());
    s4_context *context = context_with(0);
    s4_layer *layer = layer_random(&shape, 1);
    s4_problem problem = training(layer, S4_F32);
    char path[4096], little[2] = "";
    must_refuse(s4_context_tune(NULL, &problem, seconds, path, sizeof path), S4_ERROR_ARGUMENT, "context");
    must_refuse(s4_context_tune(context, NULL, seconds, path, sizeof path), S4_ERROR_ARGUMENT, "s4_problem");
    must_refuse(s4_context_tune(context, &problem, -1, path, sizeof path), S4_ERROR_ARGUMENT, "seconds");
    must_refuse(s4_context_tune(context, &problem, NAN, path, sizeof path), S4_ERROR_ARGUMENT, "seconds");
    must_refuse(s4_context_tune(context, &problem, seconds, little, sizeof little), S4_ERROR_ARGUMENT, "path_size");
    problem.d_state = 7;
    must_refuse(s4_context_tune(context, &problem, seconds, path, sizeof path), S4_ERROR_ARGUMENT, "d_state");
    cr_assert_eq(scratch_count(), 0, "something was written");
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}
