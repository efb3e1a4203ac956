/*
 * FFTW wisdom on disk: what tuning measured, for later processes on the same kind of processor with the same FFTW.
 *
 * A file in $XDG_CACHE_HOME/s4, or ~/.cache/s4. Its name holds the version of FFTW and a hash of the processor's name;
 * its first line "s4-wisdom 2 <bytes> <hash>", the size of the text that follows and its hash, so that a file that is
 * damaged in any way is as if there were none. It is replaced whole: written beside its place, synced and renamed.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu/fft.h"

#define PATH_BYTES 4096
#define HEADER_BYTES 96
#define FILE_BYTES_MAX ((int64_t)64 << 20)

/* FNV-1a, 64 bits. */
static uint64_t hash(uint64_t start, const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    uint64_t value = start;
    for (size_t i = 0; i < bytes; i++) value = (value ^ byte[i]) * UINT64_C(1099511628211);
    return value;
}
#define HASH_START UINT64_C(14695981039346656037)

/* ---- where it is ----------------------------------------------------------------------------------------------- */

static s4_status wisdom_path(char *path)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"), *below = "";
    if (!cache || cache[0] != '/') { /* what is relative counts as not set */
        if (!home || home[0] != '/')
            return cpu_host->fail(S4_ERROR_FILE, "no place for FFT wisdom: neither XDG_CACHE_HOME nor HOME is set to "
                                                 "an absolute path");
        cache = home;
        below = "/.cache";
    }
    char processor[128], version[64];
    cpu_processor_name(processor, sizeof processor);
    uint64_t machine = hash(HASH_START, processor, strlen(processor));
    snprintf(version, sizeof version, "%s", cpu_fft_version());
    for (char *c = version; *c; c++)
        if (*c == '/' || *c == ' ') *c = '_';
    int length = snprintf(path, PATH_BYTES, "%s%s/s4/%s-%08" PRIx32 ".wisdom", cache, below, version,
                          (uint32_t)(machine ^ machine >> 32));
    if (length < PATH_BYTES) return S4_OK;
    return cpu_host->fail(S4_ERROR_FILE, "the path of the FFT wisdom has %d bytes, at most %d can be used", length,
                          PATH_BYTES - 1);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The whole regular file with a 0 behind it, or NULL. */
static char *read_file(const char *path, size_t *bytes)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return NULL;
    struct stat status;
    char *text = NULL;
    size_t size = 0, done = 0;
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= FILE_BYTES_MAX) {
        size = (size_t)status.st_size;
        text = malloc(size + 1);
    }
    while (text && done < size) {
        ssize_t count = read(descriptor, text + done, size - done);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) {
            free(text);
            text = NULL;
            break;
        }
        done += (size_t)count;
    }
    close(descriptor);
    if (text) text[size] = 0;
    *bytes = size;
    return text;
}

/* Adds what the file holds to the wisdom of this process, if it is whole. The lock is held. */
static void learn_file(const char *path)
{
    size_t bytes, size;
    uint64_t expected;
    int header = 0;
    char *text = read_file(path, &bytes);
    if (!text) return;
    if (sscanf(text, "s4-wisdom 2 %zu %" SCNx64 "%n", &size, &expected, &header) == 2 && text[header] == '\n') {
        const char *body = text + header + 1;
        size_t rest = bytes - (size_t)header - 1;
        if (size == rest && hash(HASH_START, body, rest) == expected) cpu_fft_learn(body);
    }
    free(text);
}

void cpu_load_wisdom(s4_device *device)
{
    char path[PATH_BYTES];
    device->uses_wisdom = 1;
    if (wisdom_path(path)) return;
    cpu_fft_lock();
    learn_file(path);
    cpu_fft_unlock();
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* The folders above the file that are not there yet. A failure shows when the file is opened. */
static void make_folders(const char *path)
{
    char folder[PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(folder, 0700);
        *slash = '/';
    }
}

/* 0, or errno. */
static int write_all(int descriptor, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t count = write(descriptor, text, bytes);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return errno;
        text += count;
        bytes -= (size_t)count;
    }
    return fsync(descriptor) == 0 ? 0 : errno;
}

/* Replaces the file, or leaves it as it is. */
static s4_status write_file(const char *path, const char *const *parts, int count)
{
    char temporary[PATH_BYTES + 8];
    make_folders(path);
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    int descriptor = mkstemp(temporary);
    if (descriptor < 0)
        return cpu_host->fail(S4_ERROR_FILE, "%s: FFT wisdom cannot be written: %s", path, strerror(errno));
    int error = 0;
    for (int i = 0; i < count && !error; i++) error = write_all(descriptor, parts[i], strlen(parts[i]));
    if (close(descriptor) != 0 && !error) error = errno;
    if (!error && rename(temporary, path) != 0) error = errno;
    if (!error) return S4_OK;
    (void)unlink(temporary);
    return cpu_host->fail(S4_ERROR_FILE, "%s: FFT wisdom cannot be written: %s", path, strerror(error));
}

static s4_status write_wisdom(const char *path, const char *text)
{
    char header[HEADER_BYTES];
    size_t size = strlen(text);
    snprintf(header, sizeof header, "s4-wisdom 2 %zu %016" PRIx64 "\n", size, hash(HASH_START, text, size));
    const char *const parts[] = {header, text};
    return write_file(path, parts, 2);
}

/* ---- tuning ------------------------------------------------------------------------------------------------------ */

/* The wisdom of this process, which afterwards has none. */
static s4_status take_wisdom(char **text)
{
    *text = cpu_fft_wisdom();
    if (!*text) return cpu_host->fail(S4_ERROR_MEMORY, "no memory for FFT wisdom");
    cpu_fft_forget();
    return S4_OK;
}

/* Measures with the file's wisdom alone, so that only such goes into the file; *tuned is what to write. The process
 * afterwards has its own wisdom and that. `path` may be empty. The lock is held. */
static s4_status measure(const s4_shape *shape, double seconds, const char *path, char **tuned)
{
    char *own;
    s4_status status = take_wisdom(&own);
    if (status) return status;
    learn_file(path);
    if (cpu_fft_length(shape)) status = cpu_fft_measure(cpu_fft_length(shape), seconds);
    if (!status) learn_file(path); /* another process may have written it meanwhile */
    if (!status) status = take_wisdom(tuned);
    if (!status) cpu_fft_learn(*tuned);
    cpu_fft_learn(own);
    free(own);
    return status;
}

s4_status cpu_tune(s4_device *device, const s4_shape *shape, double seconds, char *path, size_t path_size)
{
    (void)device;
    char file[PATH_BYTES] = "", *tuned;
    s4_status nowhere = wisdom_path(file);
    if (nowhere) file[0] = 0;
    if (path && path_size <= strlen(file))
        return cpu_host->fail(S4_ERROR_ARGUMENT, "path_size is %zu, must be at least %zu", path_size, strlen(file) + 1);
    if (path) snprintf(path, path_size, "%s", file);

    cpu_fft_lock();
    s4_status status = measure(shape, seconds, file, &tuned);
    cpu_fft_unlock();
    if (status) return status;
    status = nowhere ? wisdom_path(file) : write_wisdom(file, tuned);
    free(tuned);
    return status;
}
