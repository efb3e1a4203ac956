/* What a layer is, in JSON and in words. */
#ifndef BENCH_DESCRIBE_H
#define BENCH_DESCRIBE_H

#include <cjson/cJSON.h>

#include "s4/s4.h"

void json_layer(cJSON *object, const s4_layer_options *sizes);
#define LAYER_TEXT_SIZE 256
/* "dplr, bilinear, H = 4, N = 16, rank 1, n_ssm 4, channels 1"; writes to text[LAYER_TEXT_SIZE] and returns it. */
const char *describe_layer(char *text, const s4_layer_options *sizes);
const char *describe_leaf(char *text, int64_t length); /* to text[FORMAT_SIZE]: "plain C", "C~ of length 32" */

#endif
