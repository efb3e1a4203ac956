/* Names of one file. */
#define _XOPEN_SOURCE 700

#include "one_file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINKS_MAX 40 /* as the system follows */

/* The folder without links, in `folder` (PATH_MAX), and the name in it, in `name` (PATH_MAX), that writing to `path` comes
 * to; 0 if there is no such folder. */
static int find_file(const char *path, char *folder, char *name)
{
    char at[PATH_MAX], text[PATH_MAX];
    if (snprintf(at, sizeof at, "%s", path) >= (int)sizeof at) return 0;
    for (int links = 0; links < LINKS_MAX; links++) {
        const ssize_t length = readlink(at, text, sizeof text - 1);
        if (length < 0) break;
        text[length] = 0;
        const char *slash = text[0] == '/' ? NULL : strrchr(at, '/');
        const size_t before = slash ? (size_t)(slash - at) + 1 : 0;
        if (snprintf(at + before, sizeof at - before, "%s", text) >= (int)(sizeof at - before)) return 0;
    }
    char *slash = strrchr(at, '/');
    strcpy(name, slash ? slash + 1 : at);
    if (slash) slash[slash == at] = 0; /* "/" stays */
    return realpath(slash ? at : ".", folder) != NULL;
}

int is_one_file(const char *a, const char *b)
{
    char folder[2][PATH_MAX], name[2][PATH_MAX];
    if (strcmp(a, b) == 0) return 1;
    return find_file(a, folder[0], name[0]) && find_file(b, folder[1], name[1]) && !strcmp(folder[0], folder[1]) &&
           !strcmp(name[0], name[1]);
}
