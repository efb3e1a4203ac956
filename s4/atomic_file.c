/*
 * Reading regular files exactly, and replacing files atomically: a temporary in the same folder, fsync, rename.
 */
#define _POSIX_C_SOURCE 200809L

#include "s4/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "s4/errors.h"
#include "s4/io.h"

_Static_assert(sizeof(off_t) >= 8, "files beyond 2 GiB need a 64-bit off_t");

#define LINKS_MAX 40             /* symbolic links followed before it is called a loop, as the system does */
#define NAME_ATTEMPTS 100        /* names tried for a temporary */
#define CHUNK ((int64_t)1 << 30) /* bytes of one system call */

/* ---- reading -------------------------------------------------------------------------------------------------- */

s4_status s4_input_open(const char *path, s4_input_file *file)
{
    file->path = path;
    file->bytes = 0;
    /* O_NONBLOCK: a named pipe is refused below instead of waited for. */
    file->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->descriptor < 0) return s4_fail(S4_ERROR_FILE, "%s: cannot be opened: %s", path, strerror(errno));

    struct stat status;
    s4_status failure = S4_OK;
    if (fstat(file->descriptor, &status) != 0)
        failure = s4_fail(S4_ERROR_FILE, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(status.st_mode))
        failure = s4_fail(S4_ERROR_FILE, "%s: is not a regular file", path);
    if (failure) {
        s4_input_close(file);
        return failure;
    }
    file->bytes = status.st_size;
    return S4_OK;
}

s4_status s4_input_read(const s4_input_file *file, int64_t offset, void *data, int64_t bytes)
{
    struct stat status;
    if (fstat(file->descriptor, &status) != 0) return s4_fail(S4_ERROR_FILE, "%s: %s", file->path, strerror(errno));
    if (status.st_size != file->bytes)
        return s4_fail(S4_ERROR_FILE, "%s: has %lld bytes, had %lld when it was opened", file->path,
                       (long long)status.st_size, (long long)file->bytes);

    char *to = data;
    while (bytes > 0) {
        int64_t chunk = bytes < CHUNK ? bytes : CHUNK;
        ssize_t done = pread(file->descriptor, to, (size_t)chunk, (off_t)offset);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0)
            return s4_fail(S4_ERROR_FILE, "%s: cannot be read at byte %lld: %s", file->path, (long long)offset,
                           strerror(errno));
        if (done == 0)
            return s4_fail(S4_ERROR_FILE, "%s: ends at byte %lld, %lld bytes early", file->path, (long long)offset,
                           (long long)bytes);
        to += done;
        offset += done;
        bytes -= done;
    }
    return S4_OK;
}

void s4_input_close(s4_input_file *file)
{
    if (file->descriptor >= 0) (void)close(file->descriptor); /* nothing was written: nothing can be lost */
    file->descriptor = -1;
}

/* ---- names ---------------------------------------------------------------------------------------------------- */

/* Characters of `path` up to and with the last '/'; 0 if there is none. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* New string: the folder of `path`, then `name`; just `name` if that is absolute. NULL without memory. */
static char *beside(const char *path, const char *name)
{
    size_t folder = name[0] == '/' ? 0 : folder_length(path);
    size_t length = strlen(name);
    char *joined = malloc(folder + length + 1);
    if (!joined) return NULL;
    memcpy(joined, path, folder);
    memcpy(joined + folder, name, length + 1);
    return joined;
}

/* Follows symbolic links in the last part of `path`, also to something that does not exist yet. The caller frees. */
static s4_status follow_links(const char *path, char **target)
{
    *target = NULL;
    char *at = beside("", path);
    for (int links = 0; at && links < LINKS_MAX; links++) {
        char text[PATH_MAX];
        ssize_t length = readlink(at, text, sizeof text - 1);
        if (length < 0) { /* not a link; a real error shows when the temporary is made */
            *target = at;
            return S4_OK;
        }
        text[length] = 0;
        char *next = beside(at, text);
        free(at);
        at = next;
    }
    if (!at) return s4_fail(S4_ERROR_MEMORY, "%s: no memory for a path", path);
    free(at);
    return s4_fail(S4_ERROR_FILE, "%s: more than %d symbolic links", path, LINKS_MAX);
}

/* ---- what a signal finds ---------------------------------------------------------------------------------------- */

#define ENTRIES 16 /* files that are written at a time, and removed by s4_unfinished_remove */

static struct {
    atomic_int taken;
    atomic_uint turn; /* odd: path is whole */
    char path[PATH_MAX];
} entries[ENTRIES];

static int enter(const char *path)
{
    size_t size = strlen(path) + 1;
    for (int i = 0; i < ENTRIES && size <= sizeof entries[i].path; i++) {
        if (atomic_exchange(&entries[i].taken, 1)) continue;
        memcpy(entries[i].path, path, size);
        atomic_fetch_add(&entries[i].turn, 1u);
        return i;
    }
    return -1;
}

static void leave(s4_atomic_file *file)
{
    if (file->entry >= 0) {
        atomic_fetch_add(&entries[file->entry].turn, 1u);
        atomic_store(&entries[file->entry].taken, 0);
    }
    file->entry = -1;
}

void s4_unfinished_remove(void)
{
    int reason = errno;
    for (int i = 0; i < ENTRIES; i++) {
        unsigned turn = atomic_load(&entries[i].turn);
        char path[PATH_MAX];
        memcpy(path, entries[i].path, sizeof path); /* another thread may be at it: then turn is another */
        if (turn % 2 && atomic_load(&entries[i].turn) == turn) (void)unlink(path);
    }
    errno = reason;
}

/* ---- writing -------------------------------------------------------------------------------------------------- */

/* Leaves descriptor < 0 with errno set on failure. */
static void create_temporary(s4_atomic_file *file, mode_t mode)
{
    static atomic_uint counter;
    for (int attempt = 0; attempt < NAME_ATTEMPTS; attempt++) {
        struct timespec now = {0, 0};
        (void)clock_gettime(CLOCK_REALTIME, &now); /* only makes the name more likely to be new */
        char name[96];
        (void)snprintf(name, sizeof name, ".s4-%ld-%u-%ld.tmp", (long)getpid(), atomic_fetch_add(&counter, 1u),
                       (long)now.tv_nsec);
        file->temporary = beside(file->target, name);
        if (!file->temporary) {
            errno = ENOMEM;
            return;
        }
        file->entry = enter(file->temporary); /* before there is a file to leave behind */
        file->descriptor = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (file->descriptor >= 0) return;
        int reason = errno;
        leave(file);
        free(file->temporary);
        file->temporary = NULL;
        errno = reason;
        if (reason != EEXIST) return;
    }
}

/* The new file takes over what the old one allows. */
static int keep_access(int descriptor, const struct stat *old)
{
    struct stat created;
    if (fstat(descriptor, &created) != 0) return -1;
    /* Only a privileged process may give files away; others become the owner, as with any copy. */
    if (created.st_uid != old->st_uid || created.st_gid != old->st_gid) {
        if (fchown(descriptor, old->st_uid, old->st_gid) != 0 && errno != EPERM) return -1;
    }
    return fchmod(descriptor, old->st_mode & 0777);
}

static int same_file(const char *path, const struct stat *status)
{
    struct stat other;
    return stat(path, &other) == 0 && other.st_dev == status->st_dev && other.st_ino == status->st_ino;
}

/* A pipe that nobody reads is refused (ENXIO) instead of waited for; writing to one waits. */
static int open_special(const char *path)
{
    int descriptor = open(path, O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return descriptor;
    int flags = fcntl(descriptor, F_GETFL);
    if (flags >= 0 && fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK) == 0) return descriptor;
    int reason = errno;
    (void)close(descriptor);
    errno = reason;
    return -1;
}

s4_status s4_atomic_open(const char *path, s4_atomic_file *file)
{
    *file = (s4_atomic_file){.path = path, .descriptor = -1, .entry = -1};
    S4_TRY(follow_links(path, &file->target));

    struct stat old;
    int exists = stat(path, &old) == 0;
    if (exists && S_ISDIR(old.st_mode)) {
        s4_atomic_abandon(file);
        return s4_fail(S4_ERROR_FILE, "%s: is a directory", path);
    }

    /* No regular file, or one that has no name of its own any more (an open descriptor seen as /dev/fd/N). */
    if (exists && (!S_ISREG(old.st_mode) || !same_file(file->target, &old))) {
        free(file->target);
        file->target = NULL;
        file->descriptor = open_special(path);
    } else if (exists && faccessat(AT_FDCWD, file->target, W_OK, AT_EACCESS) != 0) {
        /* A rename would replace a file that is protected against writing. */
    } else {
        create_temporary(file, exists ? old.st_mode & 0777 : 0666);
        if (file->descriptor >= 0 && exists && keep_access(file->descriptor, &old) != 0) {
            int reason = errno;
            s4_atomic_abandon(file);
            errno = reason;
        }
    }
    if (file->descriptor < 0) {
        int reason = errno;
        s4_atomic_abandon(file);
        return s4_fail(reason == ENOMEM ? S4_ERROR_MEMORY : S4_ERROR_FILE, "%s: cannot be opened for writing: %s", path,
                       reason == ENXIO ? "nobody reads it" : strerror(reason));
    }
    return S4_OK;
}

s4_status s4_atomic_write(s4_atomic_file *file, const void *data, int64_t bytes)
{
    const char *from = data;
    while (bytes > 0) {
        int64_t chunk = bytes < CHUNK ? bytes : CHUNK;
        ssize_t done = write(file->descriptor, from, (size_t)chunk);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            int reason = done < 0 ? errno : EIO;
            s4_atomic_abandon(file);
            return s4_fail(S4_ERROR_FILE, "%s: cannot be written: %s", file->path, strerror(reason));
        }
        from += done;
        bytes -= done;
    }
    return S4_OK;
}

s4_status s4_atomic_commit(s4_atomic_file *file)
{
    const char *failed = NULL;
    int reason = 0;
    if (file->target && fsync(file->descriptor) != 0) {
        failed = "cannot be synced";
        reason = errno;
    }
    /* The descriptor is gone whatever close says. */
    if (close(file->descriptor) != 0 && !failed) {
        failed = "cannot be closed";
        reason = errno;
    }
    file->descriptor = -1;
    if (!failed && file->target && rename(file->temporary, file->target) != 0) {
        failed = "cannot be replaced";
        reason = errno;
    }
    if (!failed) { /* the temporary has the target's name now */
        leave(file);
        free(file->temporary);
        file->temporary = NULL;
    }
    s4_atomic_abandon(file);
    return failed ? s4_fail(S4_ERROR_FILE, "%s: %s: %s", file->path, failed, strerror(reason)) : S4_OK;
}

void s4_atomic_abandon(s4_atomic_file *file)
{
    if (file->descriptor >= 0) (void)close(file->descriptor); /* what was written is thrown away */
    if (file->temporary) (void)unlink(file->temporary);
    leave(file);
    free(file->temporary);
    free(file->target);
    file->descriptor = -1;
    file->temporary = NULL;
    file->target = NULL;
}
