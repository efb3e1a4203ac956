/*
 * What the tests use of Criterion, for builds in which Criterion does not start (ThreadSanitizer): tests that register
 * themselves, and assertions that end the process of their test. main.c of this folder runs them.
 */
#ifndef S4_TEST_PLAIN_CRITERION_H
#define S4_TEST_PLAIN_CRITERION_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct plain_test {
    const char *suite, *name;
    void (*run)(void);
    struct plain_test *next;
} plain_test;

void plain_register(plain_test *test);
/* Both say why and end the process. */
void plain_fail(const char *file, int line, const char *format, ...) __attribute__((noreturn, format(printf, 3, 4)));
void plain_skip(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#define Test(suite_, name_)                                                                                            \
    static void suite_##_##name_(void);                                                                                \
    __attribute__((constructor)) static void register_##suite_##_##name_(void)                                         \
    {                                                                                                                  \
        static plain_test test = {#suite_, #name_, suite_##_##name_, NULL};                                            \
        plain_register(&test);                                                                                         \
    }                                                                                                                  \
    static void suite_##_##name_(void)

#define cr_skip_test(...) plain_skip(__VA_ARGS__)
#define cr_assert_fail(...) plain_fail(__FILE__, __LINE__, __VA_ARGS__)
/* The text behind is optional, and a literal. */
#define cr_assert(condition, ...)                                                                                      \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            plain_fail(__FILE__, __LINE__, "an assertion fails: " __VA_ARGS__);                                         \
    } while (0)
#define cr_assert_eq(a, b, ...) cr_assert((a) == (b), __VA_ARGS__)
#define cr_assert_neq(a, b, ...) cr_assert((a) != (b), __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) cr_assert(strcmp(a, b) == 0, __VA_ARGS__)

#endif
