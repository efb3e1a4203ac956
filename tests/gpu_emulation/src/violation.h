/* The end of a process that did what no correct program does. */
#ifndef S4_EMULATION_VIOLATION_H
#define S4_EMULATION_VIOLATION_H

namespace s4_emulation
{

/* Says what was wrong on standard error and exits with
 * S4_EMULATION_VIOLATION_EXIT. A debugger's breakpoint belongs here. */
[[noreturn]] void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Text without a heap, because a signal handler makes it. */
struct Words {
    char text[512];
    const char *c_str() const { return text; }
};
Words words(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line on standard error that does not end the process. */
void remark(const char *format, ...) __attribute__((format(printf, 1, 2)));

} // namespace s4_emulation
#endif
