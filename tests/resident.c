/* Reads and resets the peak that the system keeps of a process. */
#include "resident.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int64_t resident_peak(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long long kibibytes = -1;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %lld", &kibibytes) == 1)
            break;
    if (file)
        fclose(file);
    return kibibytes < 0 ? -1 : kibibytes * 1024;
}

int resident_reset(void)
{
    const int reset = open("/proc/self/clear_refs", O_WRONLY);
    if (reset < 0)
        return 1;
    const int done = write(reset, "5", 1) == 1;
    close(reset);
    return done;
}
