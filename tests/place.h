/*
 * Where the tests of execution run. The environment says it:
 *   S4_TEST_PLACEMENT  "cpu" (default), "split", or any text that s4_placement_parse takes.
 * A test whose place is not there is skipped, with the reason.
 */
#ifndef S4_TEST_PLACE_H
#define S4_TEST_PLACE_H

#include "s4/s4.h"

const char *place_text(void);
s4_placement place_placement(void);
/* 1 if some stage runs on the GPU. */
int place_has_gpu(void);
/* The schedule of the emulated GPU, -1 elsewhere: cases that are too many for each are shared out among schedules. */
int place_schedule(void);
/* Skips the test if the GPU is wanted and not there. */
void place_required(s4_context *context);

#endif
