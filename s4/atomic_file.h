/*
 * Files as the tensor formats need them: regular files read exactly, and files that are replaced whole or not at all.
 */
#ifndef S4_ATOMIC_FILE_H
#define S4_ATOMIC_FILE_H

#include <stdint.h>

#include "s4/status.h"

/* A regular file open for reading, with the size that it had then. `path` is the caller's, for error texts. */
typedef struct s4_input_file {
    const char *path;
    int descriptor;
    int64_t bytes;
} s4_input_file;

s4_status s4_input_open(const char *path, s4_input_file *file);
/* Exactly `bytes` from `offset`. S4_ERROR_FILE if that is impossible, or if the file's size is no longer what it was
 * when it was opened. */
s4_status s4_input_read(const s4_input_file *file, int64_t offset, void *data, int64_t bytes);
void s4_input_close(s4_input_file *file);

/*
 * Writes go to a new file beside the target; commit syncs it and renames it over the target, which until then is
 * untouched. A target that is no regular file (a terminal, a pipe, a device) is written directly.
 *   open, write..., then commit or abandon. Every failure abandons by itself; abandon again is fine.
 */
typedef struct s4_atomic_file {
    const char *path; /* the caller's, for error texts */
    char *target;     /* `path` with symbolic links followed; NULL when the target is written directly */
    char *temporary;
    int descriptor;
    int entry; /* of the temporary in the list for signals; < 0: in none */
} s4_atomic_file;

s4_status s4_atomic_open(const char *path, s4_atomic_file *file);
s4_status s4_atomic_write(s4_atomic_file *file, const void *data, int64_t bytes);
s4_status s4_atomic_commit(s4_atomic_file *file);
void s4_atomic_abandon(s4_atomic_file *file);

#endif
