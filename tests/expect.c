/* What the tests say about numbers: see expect.h. */
#include "expect.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static char case_text[256];

void about(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(case_text, sizeof case_text, format, arguments);
    va_end(arguments);
}

const char *about_text(void)
{
    return case_text;
}

double largest(int64_t count, const double *x)
{
    double value = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(x[i]))
            return INFINITY;
        if (fabs(x[i]) > value)
            value = fabs(x[i]);
    }
    return value;
}

double distance(int64_t count, const double *x, const double *y)
{
    double value = 0;
    for (int64_t i = 0; i < count; i++) {
        const double difference = fabs(x[i] - y[i]);
        if (isnan(difference))
            return INFINITY;
        if (difference > value)
            value = difference;
    }
    return value;
}

void expect_close(const char *what, int64_t count, const double *got, const double *expected, double tolerance,
                  double floor)
{
    check(count > 0, "[%s] %s: nothing to compare", case_text, what);
    const double size = fmax(largest(count, expected), floor);
    check(isfinite(size), "[%s] %s: what is expected is not finite", case_text, what);
    const double error = distance(count, got, expected);
    check(size > 0 || error == 0, "[%s] %s: expected 0, off by %.3g", case_text, what, error);
    int64_t worst = 0;
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - expected[i]) < error)) {
            worst = i;
            break;
        }
    check(size == 0 || error / size <= tolerance,
              "[%s] %s: off by %.3g of the largest value, more than %.3g; [%lld] is %.17g, not %.17g", case_text, what,
              error / size, tolerance, (long long)worst, got[worst], expected[worst]);
}

static int64_t first_other(int64_t count, const double *x, const double *y)
{
    for (int64_t i = 0; i < count; i++)
        if (memcmp(&x[i], &y[i], sizeof x[i]) != 0)
            return i;
    return -1;
}

void expect_same_bits(const char *what, int64_t count, const double *got, const double *expected)
{
    check(count > 0, "[%s] %s: nothing to compare", case_text, what);
    const int64_t i = first_other(count, got, expected);
    check(i < 0, "[%s] %s: [%lld] has other bits: %.17g, not %.17g", case_text, what, (long long)i, got[i],
              expected[i]);
}

void expect_other_bits(const char *what, int64_t count, const double *got, const double *expected)
{
    check(first_other(count, got, expected) >= 0, "[%s] %s: all bits are the same", case_text, what);
}
