/*
 * Signals in .csv files: every number to the last bit, files as other programs write them, and files that are refused;
 * and what holds for signals of every suffix.
 */
#define _GNU_SOURCE
#include <locale.h>
#include <stdio.h>

#include "signal_arrays.h"

Test(csv, as_others_write_it)
{
    static const struct {
        char text[64];
        int64_t channels, length;
        double expected[6]; /* (channels, length) */
    } cases[] = {
        {"1,2\n3,4\n5,6\n", 2, 3, {1, 3, 5, 2, 4, 6}},
        {"1;2;3\r\n4;5;6\r\n", 3, 2, {1, 4, 2, 5, 3, 6}},
        {"1\t2\n3\t4", 2, 2, {1, 3, 2, 4}},
        {"1 2\n3 4\n", 2, 2, {1, 3, 2, 4}},
        {"   1   2 \n\t3\t 4\n", 2, 2, {1, 3, 2, 4}},
        {" 1 , 2 \n3 ,4\n\n  \n\r\n", 2, 2, {1, 3, 2, 4}},
        {"1\n2\n3\n", 1, 3, {1, 2, 3}},
        {"7", 1, 1, {7}},
        {"time,value\n1,2\n", 2, 1, {1, 2}},
        {"\"time, s\",\"mV\"\n1,2\n", 2, 1, {1, 2}},
        {"one column\n1\n2\n", 1, 2, {1, 2}},
        {"\xef\xbb\xbf"
         "a;b\n1;2\n",
         2,
         1,
         {1, 2}},
        {"\xef\xbb\xbf"
         "1;2\n",
         2,
         1,
         {1, 2}},
        {"-1.5e-3,+.5\n1E2,2.\n", 2, 2, {-1.5e-3, 1e2, 0.5, 2}},
        {"inf,-Infinity\n+INF,1\n", 2, 2, {INFINITY, INFINITY, -INFINITY, 1}},
        {"0.1,1e-400,5e-324\n", 3, 1, {0.1, 0, 5e-324}},
        {"1797693134862315708145274237317e278,9007199254740993\n", 2, 1, {1.797693134862315708e308, 9007199254740992}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("case %zu", i);
        s4_array *array;
        int64_t rate = 7;
        must(s4_array_read_rate(write_text("x.csv", cases[i].text), &array, &rate));
        check(rate == 0 && array->dtype == S4_F64 && array->rank == 2 && array->shape[0] == cases[i].channels &&
                  array->shape[1] == cases[i].length,
              "[%s] dtype or shape", about_text());
        for (int64_t k = 0; k < array->count; k++)
            check(value_of(array, k) == cases[i].expected[k], "[%s] value %lld is %.17g", about_text(), (long long)k,
                  value_of(array, k));
        s4_array_destroy(array);
    }
    s4_array *array;
    must(s4_array_read(write_text("x.csv", "nan,-NaN\n"), &array));
    cr_assert(isnan(value_of(array, 0)) && isnan(value_of(array, 1)));
    s4_array_destroy(array);
}

Test(csv, that_is_none)
{
    static const struct {
        char text[40], word[48];
    } cases[] = {
        {"", "no numbers"},
        {"\n\n", "no numbers"},
        {"a,b\n", "no numbers"},
        {"1,2\n3\n", "line 2 has 1 columns, line 1 has 2"},
        {"a,b\n1,2\n1,2,3\n", "line 3 has 3 columns, line 2 has 2"},
        {"1,2\n\n3,4\n", "line 2 is empty"},
        {"\n1,2\n", "line 1 is empty"},
        {"1,2\n3,x\n", "line 2, column 2: \"x\""},
        {"1,2\na,b\n", "line 2, column 1: \"a\""},
        {"a,1\n2,3\n", "line 1, column 1: \"a\""},
        {"1,,3\n", "line 1, column 2: \"\""},
        {"1,2,\n", "line 1, column 3: \"\""},
        {"1,5;2,5\n", "line 1, column 1: \"1,5\""},
        {"1 2\t3\n", "line 1, column 1: \"1 2\""},
        {"0x10\n1\n", "line 1, column 1: \"0x10\""},
        {"1st,2nd\n1,2\n", "line 1, column 1: \"1st\""},
        {"1\n1e999\n", "line 2, column 1: \"1e999\""},
        {"1\n1e\n", "line 2, column 1"},
        {"1\n--1\n", "line 2, column 1"},
        {"-\n-\n", "line 2, column 1"},
        {"1\n.\n", "line 2, column 1"},
        {"1\nnan(1)\n", "line 2, column 1"},
        {"1\n1_000\n", "line 2, column 1"},
        {"1\n\"2\"\n", "line 2, column 1"},
        {"1\r2\r", "line 1, column 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("case %zu", i);
        s4_array *array = (s4_array *)(void *)&i;
        must_refuse(s4_array_read(write_text("x.csv", cases[i].text), &array), S4_ERROR_FORMAT, cases[i].word);
        check(array == NULL, "[%s] the pointer is not NULL", about_text());
    }
    about("a NUL");
    s4_array *array;
    const char *path = scratch_path("x.csv");
    file_write(path,
               "1\0"
               "2\n3\n",
               6);
    must_refuse(s4_array_read(path, &array), S4_ERROR_FORMAT, "line 1, column 1: \"1?2\"");
}

Test(csv, brings_every_number_back)
{
    static const double values[] = {0.1, -1.0 / 3, 5e-324,    -0.0, 1.7976931348623157e308, 123456789012345678.0,
                                    NAN, INFINITY, -INFINITY, 1};
    static const int64_t shape[] = {1, 2, 5};
    for (int dtype = S4_F32; dtype <= S4_F64; dtype++) {
        about("%s", s4_dtype_name((s4_dtype)dtype));
        s4_array *array, *back;
        must(s4_array_create(S4_F64, 3, shape, &array));
        memcpy(array->data, values, sizeof values);
        must(s4_array_convert(array, (s4_dtype)dtype));
        const char *path = scratch_path("x.csv");
        must(s4_array_write(path, array, 0));
        must(s4_array_read(path, &back));
        must(s4_array_convert(back, (s4_dtype)dtype));
        check(back->rank == 2 && back->shape[0] == 2 && back->shape[1] == 5, "[%s] shape", about_text());
        for (int64_t k = 0; k < 10; k++) {
            const double a = value_of(array, k), b = value_of(back, k);
            check((isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b)), "[%s] value %lld is %.17g",
                  about_text(), (long long)k, b);
        }
        s4_array_destroy(back);
        s4_array_destroy(array);
    }
    static const int64_t one[] = {1};
    static const char expected[2][24] = {"0.100000001\n", "0.10000000000000001\n"};
    for (int dtype = S4_F32; dtype <= S4_F64; dtype++) {
        s4_array *array;
        must(s4_array_create(S4_F64, 1, one, &array));
        *(double *)array->data = 0.1;
        must(s4_array_convert(array, (s4_dtype)dtype));
        must(s4_array_write(scratch_path("x.csv"), array, 0));
        cr_assert_str_eq((const char *)file_read(scratch_path("x.csv")).data, expected[dtype]);
        s4_array_destroy(array);
    }
}

/* More than a writer holds at once. */
Test(csv, round_trip)
{
    static const int64_t shape[] = {3, 5000};
    s4_array *array = signal_of(S4_F64, 2, shape), *back;
    const char *path = scratch_path("x.csv");
    must(s4_array_write(path, array, 0));
    must(s4_array_read(path, &back));
    expect_same_bits("numbers", array->count, back->data, array->data);
    s4_array_destroy(back);
    s4_array_destroy(array);
}

Test(csv, numbers_do_not_follow_the_locale)
{
    static const char names[][16] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR.utf8"};
    int found = 0;
    for (int i = 0; i < 5 && !found; i++) found = setlocale(LC_ALL, names[i]) != NULL;
    if (!found) cr_skip_test("no locale with a decimal comma is installed");
    static const int64_t one[] = {1};
    s4_array *array;
    must(s4_array_read(write_text("x.csv", "1.5\n"), &array));
    cr_assert_eq(value_of(array, 0), 1.5);
    s4_array_destroy(array);
    must(s4_array_create(S4_F64, 1, one, &array));
    *(double *)array->data = 2.5;
    must(s4_array_write(scratch_path("x.csv"), array, 0));
    cr_assert_str_eq((const char *)file_read(scratch_path("x.csv")).data, "2.5\n");
    s4_array_destroy(array);
}

Test(csv, suffixes)
{
    static const int64_t shape[] = {2, 3};
    s4_array *array = signal_of(S4_F32, 2, shape), *back;
    int64_t rate = 1;
    must(s4_array_write(scratch_path("x.npy"), array, 44100));
    must(s4_array_read_rate(scratch_path("x.npy"), &back, &rate));
    cr_assert_eq(rate, 0);
    cr_assert_eq(back->count, 6);
    s4_array_destroy(back);
    must_refuse(s4_array_write(scratch_path("x.flac"), array, 1), S4_ERROR_ARGUMENT, ".wav");
    must_refuse(s4_array_write(scratch_path("x"), array, 1), S4_ERROR_ARGUMENT, ".csv");
    must_refuse(s4_array_write(NULL, array, 1), S4_ERROR_ARGUMENT, "path");
    must_refuse(s4_array_write(scratch_path("x.npy"), NULL, 1), S4_ERROR_ARGUMENT, "NULL");
    must_refuse(s4_array_read(scratch_path("x.flac"), &back), S4_ERROR_ARGUMENT, ".wav");
    must_refuse(s4_array_read_rate(scratch_path("x.wav"), &back, NULL), S4_ERROR_ARGUMENT, "rate");
    must_refuse(s4_array_read(scratch_path("none.wav"), &back), S4_ERROR_FILE, "none.wav");
    must_refuse(s4_array_read(scratch_path("none.csv"), &back), S4_ERROR_FILE, "none.csv");
    must_refuse(s4_array_write(scratch_path("none/x.wav"), array, 1), S4_ERROR_FILE, "none/x.wav");
    must_refuse(s4_array_write(scratch_path("none/x.csv"), array, 1), S4_ERROR_FILE, "none/x.csv");
    s4_array_destroy(array);
}
