/*
 * The main program of every test executable where Criterion does not start. Each test runs in a process of its own, this
 * program called again with the test's name; last line and exit codes are those of ../main.c. A sanitizer that has
 * something to report gives a process another exit code than 0.
 *
 *   test_topic            all tests
 *   test_topic SUITE.NAME one of them, in this process
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/wait.h>

extern char **environ;

enum { PASSED = 0, FAILED = 1, NO_SUCH_TEST = 2, SKIPPED = 77 };

static plain_test *tests;

void plain_register(plain_test *test)
{
    plain_test **end = &tests;
    while (*end)
        end = &(*end)->next;
    *end = test;
}

void plain_fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    fflush(NULL);
    _Exit(FAILED); /* other threads may be in mid-flight */
}

void plain_skip(const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "SKIPPED: ");
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    exit(SKIPPED);
}

static int run_here(const char *full_name)
{
    for (const plain_test *test = tests; test; test = test->next) {
        char name[256];
        snprintf(name, sizeof name, "%s.%s", test->suite, test->name);
        if (!strcmp(name, full_name)) {
            test->run();
            return PASSED;
        }
    }
    fprintf(stderr, "no test %s\n", full_name);
    return NO_SUCH_TEST;
}

static int run_apart(char *program, const plain_test *test)
{
    char name[256];
    pid_t child;
    int status;
    snprintf(name, sizeof name, "%s.%s", test->suite, test->name);
    char *arguments[] = {program, name, NULL};
    if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) || waitpid(child, &status, 0) != child)
        return FAILED;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : FAILED;
    if (code != PASSED && code != SKIPPED)
        printf("%s: FAILED (%s %d)\n", name, WIFEXITED(status) ? "exit code" : "signal",
               WIFEXITED(status) ? code : WTERMSIG(status));
    return code;
}

int main(int argc, char *argv[])
{
    setenv("HOME", S4_TEST_HOME, 1);
    setenv("XDG_CACHE_HOME", S4_TEST_HOME, 1);
    if (argc > 1)
        return run_here(argv[1]);
    int passed = 0, failed = 0, skipped = 0;
    for (const plain_test *test = tests; test; test = test->next) {
        const int code = run_apart(argv[0], test);
        *(code == PASSED ? &passed : code == SKIPPED ? &skipped : &failed) += 1;
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed ? FAILED : passed ? PASSED : skipped ? SKIPPED : NO_SUCH_TEST;
}
