/*
 * What the tests say about numbers and statuses. `about` names the case in work; every message shows it, because
 * loops over sizes sit inside one Test.
 */
#ifndef S4_TEST_EXPECT_H
#define S4_TEST_EXPECT_H

#include <criterion/criterion.h>
#include <stdint.h>

#include "s4/s4.h"

void about(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *about_text(void);

/* A passing cr_assert costs a message to the test runner, which loops over sizes cannot afford: this one only speaks
 * when it fails. */
#define check(condition, ...)                                                                                        \
    do {                                                                                                             \
        if (!(condition))                                                                                            \
            cr_assert_fail(__VA_ARGS__);                                                                             \
    } while (0)

/* The call succeeds. */
#define must(call)                                                                                                   \
    do {                                                                                                             \
        const s4_status must_status = (call);                                                                        \
        check(must_status == S4_OK, "[%s] %s: %s: %s", about_text(), #call, s4_status_name(must_status),             \
              s4_last_error());                                                                                      \
    } while (0)

/* The call fails with this status, and the text of the failure contains `word` ("" for any text but an empty one). */
#define must_refuse(call, expected, word)                                                                            \
    do {                                                                                                             \
        const s4_status refuse_status = (call);                                                                      \
        check(refuse_status == (expected), "[%s] %s: %s instead of %s: %s", about_text(), #call,                 \
                  s4_status_name(refuse_status), s4_status_name(expected), s4_last_error());                         \
        check(strlen(s4_last_error()) > 0, "[%s] %s: no text", about_text(), #call);                             \
        check(strstr(s4_last_error(), (word)) != NULL, "[%s] %s: \"%s\" does not say \"%s\"", about_text(),      \
                  #call, s4_last_error(), (word));                                                                   \
    } while (0)

/* Largest |x|; infinite if any value is not finite. 0 for count 0. */
double largest(int64_t count, const double *x);
/* Largest |x - y|; infinite if any difference is not a number. */
double distance(int64_t count, const double *x, const double *y);

/* |got - expected| <= tolerance * max(largest expected, floor) everywhere. */
void expect_close(const char *what, int64_t count, const double *got, const double *expected, double tolerance,
                  double floor);
/* The same bits everywhere. */
void expect_same_bits(const char *what, int64_t count, const double *got, const double *expected);
/* Some bits differ: guards a comparison of bits against comparing a thing with itself. */
void expect_other_bits(const char *what, int64_t count, const double *got, const double *expected);

#endif
