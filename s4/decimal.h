/* Numbers as decimal text, the same in every locale. */
#ifndef S4_DECIMAL_H
#define S4_DECIMAL_H

#include <stddef.h>

/*
 * Reads the number that begins at `at`: digits with a point and an exponent as they please, "nan", "inf" or "infinity"
 * in any case, all with a sign or without. Returns where it ends, NULL if there is none, or if it is finite but beyond
 * double. Nothing at or behind `end` is read but *end itself, which must be 0.
 */
const char *s4_decimal_parse(const char *at, const char *end, double *value);

/* Writes `value` with that many significant digits (9 bring every float back, 17 every double), or "nan", "inf",
 * "-inf". Returns the length. */
#define S4_DECIMAL_TEXT 32
int s4_decimal_format(double value, int digits, char text[S4_DECIMAL_TEXT]);

#endif
