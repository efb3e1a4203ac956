/* Reading the caller's options structs, which begin with their size (older callers have shorter ones). */
#ifndef S4_OPTIONS_H
#define S4_OPTIONS_H

#include <stddef.h>

#include "s4/status.h"

/* Copies what the caller's struct holds into `known` (known_size bytes); the rest is 0. S4_ERROR_ARGUMENT for NULL, or
 * a struct_size that was not set or is larger than what this library knows. */
s4_status s4_options_read(const char *name, const void *given, void *known, size_t known_size);

#endif
