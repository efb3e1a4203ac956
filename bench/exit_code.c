/* The table from library status to exit code, and the printing of failures. */
#include "exit_code.h"

#include <stdarg.h>
#include <stdio.h>

#include "progress.h"

static const struct {
    s4_status status;
    int code;
} codes[] = {
    {S4_OK, CODE_FINE},
    {S4_ERROR_ARGUMENT, CODE_USAGE},
    {S4_ERROR_UNSUPPORTED, CODE_USAGE},
    {S4_ERROR_ORDER, CODE_USAGE},
    {S4_ERROR_STALE, CODE_USAGE},
    {S4_ERROR_FILE, CODE_INPUT},
    {S4_ERROR_FORMAT, CODE_INPUT},
    {S4_ERROR_NOT_FINITE, CODE_INPUT},
    {S4_ERROR_SINGULAR, CODE_INPUT},
    {S4_ERROR_UNAVAILABLE, CODE_PLACE},
    {S4_ERROR_DEVICE, CODE_PLACE},
    {S4_ERROR_OUT_OF_BUDGET, CODE_BUDGET},
    {S4_ERROR_CANCELLED, CODE_CANCELLED},
};

int exit_code(s4_status status)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].status == status) return codes[i].code;
    return CODE_FAILED;
}

int fail_status(const char *verb, s4_status status)
{
    const char *text = s4_last_error();
    if (!*text) text = s4_status_text(status);
    if (status == S4_ERROR_CANCELLED) text = "cancelled"; /* by the library or by the command */
    progress_clear();
    fprintf(stderr, "s4 %s: %s\n", verb, text);
    return exit_code(status);
}

int fail_layer(const char *verb, const char *path, s4_status status)
{
    if (!path || (status != S4_ERROR_NOT_FINITE && status != S4_ERROR_SINGULAR)) return fail_status(verb, status);
    fail_input(verb, "%s: %s", path, s4_last_error());
    return exit_code(status);
}

int fail_reading(const char *verb, s4_status status)
{
    int code = fail_status(verb, status);
    return status == S4_ERROR_UNSUPPORTED ? CODE_INPUT : code;
}

static void print_failure(const char *verb, const char *format, va_list arguments)
{
    progress_clear();
    fprintf(stderr, "s4 %s: ", verb);
    vfprintf(stderr, format, arguments);
}

int fail_usage(const char *verb, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_failure(verb, format, arguments);
    va_end(arguments);
    fprintf(stderr, "; see s4 %s --help\n", verb);
    return CODE_USAGE;
}

int fail_input(const char *verb, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_failure(verb, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return CODE_INPUT;
}
