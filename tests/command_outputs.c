/* What the command refuses to write to: one file by two names, a pipe that nobody reads. */
#define _XOPEN_SOURCE 700
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "expect.h"
#include "program.h"
#include "s4/s4.h"
#include "scratch.h"

/* A layer of one channel and an input for it. */
static void make_inputs(const char *s4, const char *layer, const char *u)
{
    const program_result made =
        program_run("'%s' init -o '%s' --mode diag --d-model 1 --d-state 2", s4, layer);
    check(made.code == 0, "exit code %d, not 0: %s", made.code, made.errors);
    const int64_t shape[] = {1, 1, 4};
    s4_array *array;
    must(s4_array_create(S4_F64, 3, shape, &array));
    must(s4_array_write_npy(u, array));
    s4_array_destroy(array);
}

Test(command_outputs, one_file_by_two_names)
{
    const char *s4 = command(), *layer = scratch_path("layer.safetensors"), *u = scratch_path("u.npy"),
               *y = scratch_path("y.npy"), *link = scratch_path("link.npy"), *other = scratch_path("other.npy");
    make_inputs(s4, layer, u);
    cr_assert(symlink("y.npy", link) == 0);
    for (int there = 0; there < 2; there++) { /* the file: not yet, and already */
        program_result result = program_run("'%s' run '%s' '%s' -o '%s' --state-out '%s'", s4, layer, u, y, link);
        check(result.code == 2, "exit code %d, not 2: %s", result.code, result.errors);
        result = program_run("'%s' run '%s' '%s' -o '%s' --state-out '%s/.//y.npy'", s4, layer, u, y, scratch_folder());
        check(result.code == 2, "exit code %d, not 2: %s", result.code, result.errors);
        result = program_run("'%s' run '%s' '%s' -o '%s' --state-out '%s'", s4, layer, u, y, other);
        check(result.code == 0, "exit code %d, not 0: %s", result.code, result.errors);
    }
}

Test(command_outputs, a_pipe_that_nobody_reads, .timeout = 60)
{
    const char *s4 = command(), *layer = scratch_path("layer.safetensors"), *u = scratch_path("u.npy"),
               *pipe = scratch_path("pipe.npy");
    make_inputs(s4, layer, u);
    cr_assert(mkfifo(pipe, 0600) == 0);
    const program_result result = program_run("'%s' run '%s' '%s' -o '%s'", s4, layer, u, pipe);
    check(result.code == 3, "exit code %d, not 3: %s", result.code, result.errors);
}
