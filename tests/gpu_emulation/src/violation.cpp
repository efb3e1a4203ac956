/* Messages about what the program did wrong. */
#include "violation.h"
#include "gpu_emulation.h"
#include <cstdarg>
#include <cstdio>
#include <unistd.h>

namespace s4_emulation
{

namespace
{
void print(const char *kind, const char *format, va_list arguments)
{
    char text[2048];
    std::vsnprintf(text, sizeof text, format, arguments);
    std::fprintf(stderr, "emulated GPU: %s: %s\n", kind, text);
    std::fflush(stderr);
}
} // namespace

void violation(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print("violation", format, arguments);
    va_end(arguments);
    std::fflush(stdout);
    _exit(S4_EMULATION_VIOLATION_EXIT); /* not exit(): other threads and fibers are in mid-flight */
}

Words words(const char *format, ...)
{
    Words w;
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(w.text, sizeof w.text, format, arguments);
    va_end(arguments);
    return w;
}

void remark(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print("note", format, arguments);
    va_end(arguments);
}

} // namespace s4_emulation
