/*
 * Status codes and error texts.
 *
 * Every function that can fail returns an s4_status; results come back through pointers. A function that
 * fails leaves its objects as they were unless its comment says otherwise. The library never aborts, exits
 * or prints.
 */
#ifndef S4_STATUS_H
#define S4_STATUS_H

#include "export.h"

S4_BEGIN_DECLS

/* X(name, value, what it means). The one list of codes and texts. */
#define S4_STATUS_LIST(X)                                                                            \
    X(S4_OK, 0, "ok")                                                                                \
    X(S4_ERROR_ARGUMENT, 1, "an argument is out of its bounds")                                      \
    X(S4_ERROR_MEMORY, 2, "an allocation failed")                                                    \
    X(S4_ERROR_OUT_OF_BUDGET, 3, "the memory budget is below what is needed")                        \
    X(S4_ERROR_UNAVAILABLE, 4, "the place asked for is not available")                               \
    X(S4_ERROR_UNSUPPORTED, 5, "this combination is not supported")                                  \
    X(S4_ERROR_STALE, 6, "data derived from older parameters, or from another plan: refresh first")  \
    X(S4_ERROR_NOT_FINITE, 7, "a parameter is not finite")                                           \
    X(S4_ERROR_SINGULAR, 8, "a system that must be solved is singular to working precision")         \
    X(S4_ERROR_FILE, 9, "a file could not be opened, read or written")                               \
    X(S4_ERROR_FORMAT, 10, "a file does not hold what it should")                                    \
    X(S4_ERROR_CANCELLED, 11, "cancelled by the caller")                                             \
    X(S4_ERROR_DEVICE, 12, "a CUDA or cuFFT call failed")                                            \
    X(S4_ERROR_LIBRARY, 13, "FFTW or LAPACK reported a failure")                                     \
    X(S4_ERROR_ORDER, 14, "calls in the wrong order (plan not prepared, workspace too small)")       \
    X(S4_ERROR_MISMATCH, 15, "what ran is not what was planned, or places do not agree")

typedef enum s4_status {
#define S4_STATUS_ENUM(name, value, text) name = value,
    S4_STATUS_LIST(S4_STATUS_ENUM)
#undef S4_STATUS_ENUM
} s4_status;

/* "S4_ERROR_ARGUMENT" and its meaning from the list above; "unknown status" for any other value. */
S4_API const char *s4_status_name(s4_status status);
S4_API const char *s4_status_text(s4_status status);

/* Text of the last failure in this thread, with the argument, its value and the bound; "" if there was
 * none. Valid until the next failing call of the same thread. */
S4_API const char *s4_last_error(void);

S4_END_DECLS
#endif
