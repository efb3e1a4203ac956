/* A folder for the files of one test, and whole files in memory. */
#ifndef S4_TEST_SCRATCH_H
#define S4_TEST_SCRATCH_H

#include <stddef.h>

/* Makes a new folder (under TMPDIR or /tmp), removed with what is in it when the process ends. */
const char *scratch_folder(void);
/* Path of a file in it; valid until the process ends. */
const char *scratch_path(const char *name);
/* How many files are in it. */
int scratch_count(void);

typedef struct file_bytes {
    unsigned char *data;
    size_t size;
} file_bytes;
/* data NULL if there is none; lives until the process ends, with a final 0. */
file_bytes file_read(const char *path);
void file_write(const char *path, const void *data, size_t size);

#endif
