/* Reading options structs by their declared size. */
#include "s4/options.h"

#include <string.h>

#include "s4/errors.h"

s4_status s4_options_read(const char *name, const void *given, void *known, size_t known_size)
{
    size_t given_size;
    if (!given) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", name);
    memcpy(&given_size, given, sizeof given_size);
    if (given_size < sizeof given_size || given_size > known_size)
        return s4_fail(S4_ERROR_ARGUMENT, "%s: struct_size is %zu, must be in %zu .. %zu (use S4_INIT)", name,
                       given_size, sizeof given_size, known_size);
    memset(known, 0, known_size);
    memcpy(known, given, given_size);
    memcpy(known, &known_size, sizeof known_size);
    return S4_OK;
}
