/*
 * The readers of files, one entry for each, as fuzzing and the replay of its corpus see them: bytes go in; what comes
 * out must be an error of the right kind, or something that survives being written and read again.
 */
#ifndef S4_FUZZ_READERS_H
#define S4_FUZZ_READERS_H

#include <stddef.h>

typedef struct reader {
    const char *name; /* of the reader, and of its folder in the corpus */
    const char *suffix;
    int (*read)(const char *path); /* 1: the file was read; 0: it was refused */
} reader;

extern const reader readers[];
extern const int reader_count;

const reader *reader_find(const char *name); /* NULL: no such reader */

/* Reads the bytes as a file. Aborts the process, with a text, where a promise of the headers is broken. */
int reader_run(const reader *r, const void *bytes, size_t size);

#endif
