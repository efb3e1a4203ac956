/* What a problem costs by either algorithm. */
#ifndef S4_PRICE_H
#define S4_PRICE_H

#include "s4/plan.h"

/* Nanoseconds of one core, of a channel: a refresh, a forward and, in training, a backward. The problem's defaults are filled in,
 * and it convolves; chunk: s4_chunk_length. */
double s4_price_fft(const s4_problem *problem);
double s4_price_chunked(const s4_problem *problem, int64_t chunk);

#endif
