/*
 * replay CORPUS: every file of the corpus through its reader, without a fuzzer. Prints how many were read and refused;
 * fails if a reader has no files, or if none or all of them are read: then the corpus tests nothing.
 */
#define _XOPEN_SOURCE 700

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "readers.h"

#define SIZE_MAX_KEPT ((size_t)1 << 20)

/* 1: read, 0: refused, -1: the file itself cannot be read */
static int replay_file(const reader *r, const char *path)
{
    unsigned char *bytes = malloc(SIZE_MAX_KEPT);
    FILE *file = fopen(path, "rb");
    int result = -1;
    if (bytes && file) {
        size_t size = fread(bytes, 1, SIZE_MAX_KEPT, file);
        if (size < SIZE_MAX_KEPT) result = reader_run(r, bytes, size);
    }
    if (file) fclose(file);
    free(bytes);
    return result;
}

static int replay_folder(const reader *r, const char *corpus)
{
    char folder[512], path[1024];
    int count[2] = {0, 0}, failed = 0;
    snprintf(folder, sizeof folder, "%s/%s", corpus, r->name);
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        int result = replay_file(r, path);
        if (result < 0) {
            fprintf(stderr, "%s cannot be read\n", path);
            failed = 1;
        } else {
            count[result]++;
        }
    }
    if (directory) closedir(directory);
    printf("%-12s %4d read, %4d refused\n", r->name, count[1], count[0]);
    return failed || !count[0] || !count[1];
}

int main(int argc, char *argv[])
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
        return 2;
    }
    int failed = 0;
    for (int i = 0; i < reader_count; i++) failed |= replay_folder(&readers[i], argv[1]);
    return failed;
}
