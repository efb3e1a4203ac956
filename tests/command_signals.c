/*
 * The command ended by a signal while it writes its output: no unfinished file stays. It is stopped as soon as its file is
 * there under another name, and looked at; where it was faster, once more.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "expect.h"
#include "scratch.h"

enum { ATTEMPTS = 20 };

static pid_t start(const char *s4, const char *output)
{
    const pid_t child = fork();
    cr_assert(child >= 0, "no process");
    if (child == 0) {
        /* 32 MB, made in no time */
        execl(s4, s4, "init", "-o", output, "--mode", "diag", "--d-model", "1000000", "--d-state", "2", "--n-ssm", "1",
              "--json", (char *)NULL);
        _exit(127);
    }
    return child;
}

/* Files in the scratch folder with a name that begins with a point. */
static int unfinished(void)
{
    int count = 0;
    DIR *folder = opendir(scratch_folder());
    cr_assert(folder != NULL);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] == '.' && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(folder);
    return count;
}

/* Stops the child while its file is unfinished; 0 if it has ended before. */
static int stop_while_it_writes(pid_t child)
{
    int status;
    while (!unfinished())
        if (waitpid(child, &status, WNOHANG) == child) {
            check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the command failed: %d", status);
            return 0;
        }
    kill(child, SIGSTOP);
    check(waitpid(child, &status, WUNTRACED) == child, "no child");
    return WIFSTOPPED(status);
}

static void end_by(int number, const char *name)
{
    const char *s4 = command(), *output = scratch_path("layer.safetensors");
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        unlink(output);
        const pid_t child = start(s4, output);
        if (!stop_while_it_writes(child)) continue;
        const int met = unfinished();
        kill(child, number);
        kill(child, SIGCONT);
        int status;
        check(waitpid(child, &status, 0) == child, "no child");
        check(unfinished() == 0, "%s has left an unfinished file", name);
        if (!met) continue;
        check(WIFSIGNALED(status) && WTERMSIG(status) == number, "%s did not end the command: %d", name, status);
        return;
    }
    cr_skip_test("the command was never met while it wrote");
}

Test(command, ended_while_it_writes)
{
    end_by(SIGTERM, "SIGTERM");
    end_by(SIGHUP, "SIGHUP");
}

/* Too large a file for a limit of the shell is a failure like others. */
Test(command, limit_of_a_file)
{
    char line[2048];
    const char *s4 = command();
    snprintf(line, sizeof line, "ulimit -f 8; '%s' init -o '%s' --mode diag --d-model 10000 --d-state 2 2>'%s'", s4,
             scratch_path("layer.safetensors"), scratch_path("errors"));
    const int status = system(line);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 3, "status %d", status);
    check(unfinished() == 0, "an unfinished file is left");
    check(strstr((const char *)file_read(scratch_path("errors")).data, "layer.safetensors: cannot be written") != NULL,
          "no reason");
}
