/* What verbs print: JSON through cJSON, and numbers with units for people. */
#ifndef BENCH_OUTPUT_H
#define BENCH_OUTPUT_H

#include <stddef.h>
#include <stdint.h>
#include <cjson/cJSON.h>

/* A count, time or size that does not apply: null in JSON, "-" in tables. */
#define NOT_APPLICABLE (-1)

void json_integer(cJSON *object, const char *key, int64_t value); /* exact; NOT_APPLICABLE is null */
void json_shape(cJSON *object, const char *key, int rank, const int64_t *shape);
/* Prints and releases the tree; returns CODE_FINE. */
int json_print(cJSON *root);

#define FORMAT_SIZE 64
/* Each writes to text[FORMAT_SIZE] and returns it. */
const char *format_bytes(char *text, int64_t bytes); /* "1.50 MiB" */
const char *format_time(char *text, int64_t ns);     /* "12.3 ms" */
const char *format_integer(char *text, int64_t value);
const char *format_shape(char *text, int rank, const int64_t *shape); /* "(2, 4, 32)" */

#endif
