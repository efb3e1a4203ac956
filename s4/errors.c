/* Status names and texts, from the one list, and the error text of each thread. */
#include "s4/errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char error_text[1024];

static const struct {
    s4_status status;
    const char *name, *text;
} statuses[] = {
#define S4_STATUS_ROW(name, value, text) {name, #name, text},
    S4_STATUS_LIST(S4_STATUS_ROW)
#undef S4_STATUS_ROW
};

#define STATUS_COUNT (sizeof statuses / sizeof statuses[0])

const char *s4_status_name(s4_status status)
{
    for (size_t i = 0; i < STATUS_COUNT; i++)
        if (statuses[i].status == status) return statuses[i].name;
    return "unknown status";
}

const char *s4_status_text(s4_status status)
{
    for (size_t i = 0; i < STATUS_COUNT; i++)
        if (statuses[i].status == status) return statuses[i].text;
    return "unknown status";
}

const char *s4_last_error(void) { return error_text; }

s4_status s4_fail(s4_status code, const char *format, ...)
{
    char text[sizeof error_text]; /* an argument may be the old text */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *at = text; *at; at++) /* names out of files end up on terminals */
        if ((unsigned char)*at < ' ' || *at == 0x7f) *at = '?';
    memcpy(error_text, text, sizeof text);
    return code;
}

s4_status s4_check_range(const char *field, int64_t value, int64_t low, int64_t high)
{
    if (value >= low && value <= high) return S4_OK;
    return s4_fail(S4_ERROR_ARGUMENT, "%s is %lld, must be in %lld .. %lld", field, (long long)value, (long long)low,
                   (long long)high);
}
