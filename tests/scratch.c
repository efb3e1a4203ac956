/* Files of one test: see scratch.h. */
#define _GNU_SOURCE
#include "scratch.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "expect.h"
#include "numbers.h"

static char folder[512];

static void remove_folder(void)
{
    DIR *directory = opendir(folder);
    if (!directory)
        return;
    for (struct dirent *entry; (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlink(scratch_path(entry->d_name));
    closedir(directory);
    rmdir(folder);
}

const char *scratch_folder(void)
{
    if (folder[0])
        return folder;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/s4_test_XXXXXX", base && *base ? base : "/tmp");
    cr_assert(mkdtemp(folder) != NULL, "no folder %s", folder);
    atexit(remove_folder);
    return folder;
}

const char *scratch_path(const char *name)
{
    const size_t size = strlen(scratch_folder()) + strlen(name) + 2;
    char *path = (char *)numbers((int64_t)(size / sizeof(double)) + 1);
    snprintf(path, size, "%s/%s", folder, name);
    return path;
}

int scratch_count(void)
{
    int count = 0;
    DIR *directory = opendir(scratch_folder());
    cr_assert(directory != NULL);
    for (struct dirent *entry; (entry = readdir(directory));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(directory);
    return count;
}

file_bytes file_read(const char *path)
{
    file_bytes bytes = {NULL, 0};
    FILE *file = fopen(path, "rb");
    if (!file)
        return bytes;
    fseek(file, 0, SEEK_END);
    bytes.size = (size_t)ftell(file);
    rewind(file);
    bytes.data = (unsigned char *)numbers((int64_t)(bytes.size / sizeof(double)) + 1);
    check(fread(bytes.data, 1, bytes.size, file) == bytes.size, "%s could not be read", path);
    fclose(file);
    bytes.data[bytes.size] = 0;
    return bytes;
}

void file_write(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    check(file != NULL, "%s could not be opened", path);
    check(fwrite(data, 1, size, file) == size && fclose(file) == 0, "%s could not be written", path);
}
