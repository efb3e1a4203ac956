/*
 * One line on the terminal, rewritten in place. Work that ends within a second shows nothing, and the line changes
 * five times a second at most. The state is the terminal's, of which a process has one.
 */
#define _POSIX_C_SOURCE 200809L
#include "progress.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "s4/s4.h"
#include "timing.h"

static struct {
    int terminal; /* 0 unknown, 1 yes, -1 no */
    int shown;
    char operation[64];
    int64_t began, last_shown, last_done;
} line;

static const int64_t quiet_ns = 1000000000, pause_ns = 200000000;

/* ---- signals ------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

/* Once: the next one of that number does what it does by default. */
static void handle(int signal_number, void (*handler)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART | (int)SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    sigaction(signal_number, &action, NULL);
}

static void end(int signal_number)
{
    s4_unfinished_remove();
    raise(signal_number); /* waits until this returns, and ends the process then */
}

static void interrupt(int signal_number)
{
    interrupted = 1;
    handle(signal_number, end);
}

void progress_begin(void)
{
    static const int deadly[] = {SIGTERM, SIGHUP};
    handle(SIGINT, interrupt);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
        struct sigaction old;
        if (sigaction(deadly[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) handle(deadly[i], end);
    }
    (void)signal(SIGXFSZ, SIG_IGN); /* too large a file is a failure to write, with its reason */
}

int progress_cancelled(void) { return interrupted != 0; }

/* ---- the line ------------------------------------------------------------------------------------------------ */

static void describe_remaining(char *text, size_t size, double seconds)
{
    if (seconds < 60)
        snprintf(text, size, "%.0f s", seconds);
    else if (seconds < 3600)
        snprintf(text, size, "%d min %02d s", (int)seconds / 60, (int)seconds % 60);
    else
        snprintf(text, size, "%.1f h", seconds / 3600);
}

int progress_report(void *user, const char *operation, int64_t done, int64_t total)
{
    if (interrupted) return 1;
    if (!line.terminal) line.terminal = isatty(STDERR_FILENO) ? 1 : -1;
    if (line.terminal < 0) return 0;

    int64_t now = now_ns();
    if (strncmp(line.operation, operation, sizeof line.operation - 1) != 0 || done <= line.last_done) {
        snprintf(line.operation, sizeof line.operation, "%s", operation);
        line.began = now;
    }
    line.last_done = done;
    if (now - line.began < quiet_ns || now - line.last_shown < pause_ns || done < 1) return 0;

    double rate = (double)done / ((double)(now - line.began) * 1e-9);
    char remaining[32];
    describe_remaining(remaining, sizeof remaining, (double)(total - done) / rate);
    fprintf(stderr, "\r\033[Ks4 %s: %s %lld/%lld, %.3g/s, %s left", (const char *)user, operation, (long long)done,
            (long long)total, rate, remaining);
    fflush(stderr);
    line.shown = 1;
    line.last_shown = now;
    return 0;
}

void progress_clear(void)
{
    if (line.shown) fputs("\r\033[K", stderr);
    line.shown = 0;
}
