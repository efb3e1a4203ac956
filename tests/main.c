/*
 * The main program of every test executable: Criterion with a last line that a person and CTest can read,
 * "N passed, N failed, N skipped", and the exit code 0 fine, 1 something failed, 77 everything that ran was skipped,
 * 2 no test was there to run (a filter that matches nothing, or tests lost in linking). The home of whoever runs the
 * tests is out of sight: FFT wisdom that is kept there would change bits.
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    size_t passed, failed, skipped;
} total;

ReportHook(POST_ALL)(struct criterion_global_stats *stats)
{
    for (const struct criterion_suite_stats *suite = stats->suites; suite; suite = suite->next)
        for (const struct criterion_test_stats *test = suite->tests; test; test = test->next) {
            if (test->test->data->disabled) /* by a filter */
                continue;
            if (test->test_status == CR_STATUS_SKIPPED)
                total.skipped++;
            else if (test->test_status == CR_STATUS_PASSED && !test->crashed && !test->timed_out)
                total.passed++;
            else
                total.failed++;
        }
    /* What the walk above did not see must not look like success. */
    if (total.failed < stats->tests_failed)
        total.failed = stats->tests_failed;
    printf("%zu passed, %zu failed, %zu skipped\n", total.passed, total.failed, total.skipped);
    fflush(stdout);
}

int main(int argc, char *argv[])
{
    setenv("HOME", S4_TEST_HOME, 1);
    setenv("XDG_CACHE_HOME", S4_TEST_HOME, 1);
    struct criterion_test_set *tests = criterion_initialize();
    int passed = 1;
    const int run = criterion_handle_args(argc, argv, true);
    if (run)
        passed = criterion_run_all_tests(tests);
    criterion_finalize(tests);
    if (!run)
        return 0;
    if (total.failed > 0 || !passed)
        return 1;
    if (total.passed == 0)
        return total.skipped > 0 ? 77 : 2;
    return 0;
}
