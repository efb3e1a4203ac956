/* The algorithm of a problem. */
#ifndef S4_ALGORITHM_H
#define S4_ALGORITHM_H

#include "s4/plan.h"

/* AUTO becomes one of the two; S4_ERROR_UNSUPPORTED where chunked is asked for and cannot be. The problem is checked,
 * and its defaults are filled in. Directions that do not convolve have FFT. */
s4_status s4_algorithm_settle(s4_problem *problem);
/* Samples of a chunk, a power of two. Depends on the kind of layer, its states and the length only. */
int64_t s4_chunk_length(const s4_problem *problem);

#endif
