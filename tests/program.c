/* Running a program of the build: see program.h. */
#define _GNU_SOURCE
#include "program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "expect.h"
#include "scratch.h"

program_result program_run(const char *format, ...)
{
    static char line[8192], whole[10240];
    va_list arguments;
    va_start(arguments, format);
    const int size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    cr_assert(size > 0 && (size_t)size < sizeof line, "a command line is too long");
    const char *output = scratch_path("program.output"), *errors = scratch_path("program.errors");
    snprintf(whole, sizeof whole, "%s >'%s' 2>'%s'", line, output, errors);
    const int status = system(whole);
    program_result result = {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1};
    result.output = (char *)file_read(output).data;
    result.errors = (char *)file_read(errors).data;
    cr_assert(result.output && result.errors, "%s could not be started", line);
    about("%.200s", line);
    return result;
}
