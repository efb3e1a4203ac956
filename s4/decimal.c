/*
 * Numbers as decimal text. The C library rounds correctly but follows the locale of the process, where 1.5 may be
 * written 1,5; so its functions run in the "C" locale, set for this thread and for as long as they take.
 */
#define _POSIX_C_SOURCE 200809L

#include "s4/decimal.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static locale_t plain; /* made once, kept for the process */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_plain(void) { plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

/* The locale to return to. Where there was no memory for another one, the process's own must do. */
static locale_t enter_plain(void)
{
    (void)pthread_once(&once, make_plain);
    return uselocale(plain); /* 0 leaves it as it is */
}

static int is_digit(char c) { return c >= '0' && c <= '9'; }

static const char *skip_digits(const char *at, const char *end)
{
    while (at < end && is_digit(*at)) at++;
    return at;
}

/* Behind `word`, which is in small letters, or NULL. */
static const char *skip_word(const char *at, const char *end, const char *word)
{
    for (; *word; at++, word++)
        if (at == end || (*at | 0x20) != *word) return NULL;
    return at;
}

/* End of a number without its sign, or NULL; strtod would also take hexadecimal ones and more. */
static const char *skip_number(const char *at, const char *end)
{
    const char *integer = skip_digits(at, end), *last = integer;
    int digits = integer > at;
    if (last < end && *last == '.') {
        const char *fraction = skip_digits(last + 1, end);
        digits |= fraction > last + 1;
        last = fraction;
    }
    if (!digits) return NULL;
    if (last < end && (*last | 0x20) == 'e') {
        const char *exponent = last + 1;
        if (exponent < end && (*exponent == '+' || *exponent == '-')) exponent++;
        if (exponent < end && is_digit(*exponent)) last = skip_digits(exponent, end);
    }
    return last;
}

const char *s4_decimal_parse(const char *at, const char *end, double *value)
{
    double sign = at < end && *at == '-' ? -1 : 1;
    if (at < end && (*at == '-' || *at == '+')) at++;
    const struct {
        const char *word;
        double value;
    } words[] = {{"nan", (double)NAN}, {"infinity", (double)INFINITY}, {"inf", (double)INFINITY}};
    for (int i = 0; i < 3; i++) {
        const char *behind = skip_word(at, end, words[i].word);
        if (!behind) continue;
        *value = copysign(words[i].value, sign);
        return behind;
    }
    const char *behind = skip_number(at, end);
    if (!behind) return NULL;
    locale_t old = enter_plain();
    double magnitude = strtod(at, NULL);
    (void)uselocale(old);
    *value = copysign(magnitude, sign);
    return isfinite(magnitude) ? behind : NULL;
}

int s4_decimal_format(double value, int digits, char text[S4_DECIMAL_TEXT])
{
    if (isnan(value)) value = (double)NAN; /* printf writes the sign of a NaN */
    locale_t old = enter_plain();
    int length = snprintf(text, S4_DECIMAL_TEXT, "%.*g", digits, value);
    (void)uselocale(old);
    return length;
}
