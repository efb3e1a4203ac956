/* Error texts: one per thread, set where a failure is found. */
#ifndef S4_ERRORS_H
#define S4_ERRORS_H

#include <stdint.h>

#include "s4/status.h"

/* Sets the thread's error text (printf) and returns code. */
s4_status s4_fail(s4_status code, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* S4_ERROR_ARGUMENT, naming field, value and bounds, unless value is in low .. high. */
s4_status s4_check_range(const char *field, int64_t value, int64_t low, int64_t high);

/* Returns the failure of `call` from the calling function. */
#define S4_TRY(call)                            \
    do {                                        \
        s4_status s4_try_status = (call);       \
        if (s4_try_status) return s4_try_status; \
    } while (0)

#endif
