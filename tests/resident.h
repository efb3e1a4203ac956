/* The memory of this process, as the operating system counts it; it says nothing in a sanitized build. */
#ifndef S4_TEST_RESIDENT_H
#define S4_TEST_RESIDENT_H

#include <stdint.h>

/* Most bytes that were resident so far, or since the last reset; -1 where that cannot be known. */
int64_t resident_peak(void);
/* The peak begins anew; 0 if the system refuses. Where it offers no way, the peak goes on, and 1 comes back: it bounds any
 * later one. */
int resident_reset(void);

#endif
