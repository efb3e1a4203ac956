/* What the programs of this folder say and share: one line for every failure, and a layer's work from plan to gradients. */
#ifndef S4_TEST_THREADS_CHECK_H
#define S4_TEST_THREADS_CHECK_H

#include "s4/s4.h"

/* From any thread. A failure is printed and remembered for the exit code. */
void check_that(int holds, const char *format, ...) __attribute__((format(printf, 2, 3)));
int check_failures(void);

#define must(call)                                                                                                  \
    do {                                                                                                            \
        const s4_status must_status = (call);                                                                       \
        check_that(must_status == S4_OK, "%s:%d: %s: %s", __FILE__, __LINE__, #call, s4_last_error());              \
    } while (0)

/* The place of all plans, and their lanes. */
extern s4_placement work_placement;
enum { WORK_LANES = 3, BATCH = 2, CHANNELS = 4, STATE = 8 };

/* A DPLR layer of C~ of `length`, off the published start, different for every seed. */
s4_layer *work_layer(s4_context *context, int64_t length, uint64_t seed);
s4_plan *work_plan(int64_t length); /* training, not prepared */

/* y, du and the gradient of C, of one refresh, forward and backward over samples made from the seed. Their sum of bits, to
 * compare; 0 after a failure, which is reported. */
uint64_t work_bits(const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace, int64_t length, uint64_t seed);

/* forks.c: what works in a forked process. */
void check_forks(s4_context *context);

#endif
