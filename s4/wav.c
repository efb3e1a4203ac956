/*
 * .wav files: a RIFF chunk of type WAVE with chunks in it, each of a name, a length and the data, padded to even.
 *   "fmt ": coding, channels, rate, bytes a second, bytes a frame (one sample of every channel), bits a sample
 *   "data": frames
 * Read are whole numbers of 16, 24 and 32 bits, scaled to [-1, 1), and floats of 32 and 64 bits; written are 32-bit
 * floats. What is exact in f32 becomes f32; 32-bit whole numbers and 64-bit floats become f64.
 */
#include <stdlib.h>
#include <string.h>

#include "s4/atomic_file.h"
#include "s4/errors.h"
#include "s4/tensor_file.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))
#define BUFFER ((int64_t)1 << 16)
#define CHANNELS_MAX 65535

enum { CODING_PCM = 1, CODING_FLOAT = 3, CODING_EXTENSIBLE = 0xfffe };

/* Codings that are refused by name. */
static const struct {
    int coding;
    const char *name;
} codings[] = {
    {0x02, "Microsoft ADPCM"}, {0x06, "A-law"}, {0x07, "mu-law"}, {0x11, "IMA ADPCM"}, {0x31, "GSM 6.10"},
    {0x40, "G.721 ADPCM"},     {0x50, "MPEG"},  {0x55, "MP3"},    {0xff, "AAC"},       {0x161, "Windows Media Audio"},
    {0xf1ac, "FLAC"}};

/* An extensible format has the coding in the first two bytes of its GUID; the rest of it is this. */
static const unsigned char guid_rest[14] = {0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71};

static uint64_t little_endian(const unsigned char *bytes, int count)
{
    uint64_t value = 0;
    for (int byte = count - 1; byte >= 0; byte--) value = value << 8 | bytes[byte];
    return value;
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

static void take_16(const unsigned char *from, void *to, int64_t at)
{
    ((float *)to)[at] = (float)(int16_t)little_endian(from, 2) / 32768.0f;
}

static void take_24(const unsigned char *from, void *to, int64_t at)
{
    int32_t value = (int32_t)little_endian(from, 3);
    if (value >= 1 << 23) value -= 1 << 24;
    ((float *)to)[at] = (float)value / 8388608.0f;
}

static void take_32(const unsigned char *from, void *to, int64_t at)
{
    ((double *)to)[at] = (double)(int32_t)little_endian(from, 4) / 2147483648.0;
}

static void take_float(const unsigned char *from, void *to, int64_t at) { memcpy((float *)to + at, from, 4); }
static void take_double(const unsigned char *from, void *to, int64_t at) { memcpy((double *)to + at, from, 8); }

static const struct sample_format {
    int coding, bits;
    s4_dtype dtype;
    void (*take)(const unsigned char *from, void *to, int64_t at);
} sample_formats[] = {
    {CODING_PCM, 16, S4_F32, take_16},      {CODING_PCM, 24, S4_F32, take_24},       {CODING_PCM, 32, S4_F64, take_32},
    {CODING_FLOAT, 32, S4_F32, take_float}, {CODING_FLOAT, 64, S4_F64, take_double},
};

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

typedef struct sound {
    const s4_input_file *file;
    const struct sample_format *format; /* NULL: no "fmt " seen */
    int64_t channels, rate;
    int64_t data, data_bytes; /* data 0: no "data" seen */
} sound;

static s4_status find_format(sound *s, int coding, int bits)
{
    const char *path = s->file->path;
    for (int i = 0; i < COUNT(sample_formats); i++)
        if (sample_formats[i].coding == coding && sample_formats[i].bits == bits) s->format = &sample_formats[i];
    if (s->format) return S4_OK;
    if (coding == CODING_PCM || coding == CODING_FLOAT)
        return s4_fail(S4_ERROR_UNSUPPORTED,
                       "%s: has %s of %d bits; whole numbers of 16, 24 or 32 and floats of 32 or 64 "
                       "bits can be read",
                       path, coding == CODING_PCM ? "whole numbers" : "floats", bits);
    const char *name = "an unknown coding";
    for (int i = 0; i < COUNT(codings); i++)
        if (codings[i].coding == coding) name = codings[i].name;
    return s4_fail(S4_ERROR_UNSUPPORTED, "%s: is compressed, by %s (0x%04x); only PCM and floats can be read", path,
                   name, (unsigned)coding);
}

static s4_status read_format(sound *s, int64_t begin, int64_t bytes)
{
    const char *path = s->file->path;
    unsigned char fields[40] = {0};
    if (s->format) return s4_fail(S4_ERROR_FORMAT, "%s: has two \"fmt \" chunks", path);
    if (bytes < 16) return s4_fail(S4_ERROR_FORMAT, "%s: its \"fmt \" has %lld bytes, not 16", path, (long long)bytes);
    S4_TRY(s4_input_read(s->file, begin, fields, bytes < 40 ? bytes : 40));
    int coding = (int)little_endian(fields, 2);
    s->channels = (int64_t)little_endian(fields + 2, 2);
    s->rate = (int64_t)little_endian(fields + 4, 4);
    int64_t frame = (int64_t)little_endian(fields + 12, 2);
    int bits = (int)little_endian(fields + 14, 2);
    if (coding == CODING_EXTENSIBLE) {
        if (bytes < 40 || little_endian(fields + 16, 2) < 22)
            return s4_fail(S4_ERROR_FORMAT, "%s: its extensible \"fmt \" has %lld bytes, not 40", path,
                           (long long)bytes);
        if (memcmp(fields + 26, guid_rest, sizeof guid_rest) != 0)
            return s4_fail(S4_ERROR_UNSUPPORTED, "%s: its coding is none of those that are standardised", path);
        coding = (int)little_endian(fields + 24, 2);
        int valid = (int)little_endian(fields + 18, 2); /* the upper bits of a sample, 0 for all: no scale changes */
        if (valid > bits)
            return s4_fail(S4_ERROR_FORMAT, "%s: %d of the %d bits of a sample are valid", path, valid, bits);
    }
    S4_TRY(find_format(s, coding, bits));
    if (s->channels < 1 || s->rate < 1)
        return s4_fail(S4_ERROR_FORMAT, "%s: has %lld channels and %lld samples a second", path, (long long)s->channels,
                       (long long)s->rate);
    if (frame != s->channels * bits / 8)
        return s4_fail(S4_ERROR_FORMAT, "%s: has frames of %lld bytes, %lld channels of %d bits have %lld", path,
                       (long long)frame, (long long)s->channels, bits, (long long)s->channels * bits / 8);
    return S4_OK;
}

/* The end of the RIFF chunk. */
static s4_status read_start(const s4_input_file *file, int64_t *end)
{
    static const struct {
        char magic[5];
        const char *what;
    } others[] = {{"RF64", "RF64 (more than 4 GiB)"}, {"BW64", "BW64 (more than 4 GiB)"}, {"RIFX", "big-endian RIFX"}};
    unsigned char start[12] = {0};
    S4_TRY(s4_input_read(file, 0, start, file->bytes < 12 ? file->bytes : 12));
    for (int i = 0; i < COUNT(others); i++)
        if (memcmp(start, others[i].magic, 4) == 0)
            return s4_fail(S4_ERROR_UNSUPPORTED, "%s: is a %s file; only RIFF can be read", file->path, others[i].what);
    if (file->bytes < 12 || memcmp(start, "RIFF", 4) != 0 || memcmp(start + 8, "WAVE", 4) != 0)
        return s4_fail(S4_ERROR_FORMAT, "%s: is not a .wav file", file->path);
    *end = 8 + (int64_t)little_endian(start + 4, 4);
    if (*end > file->bytes)
        return s4_fail(S4_ERROR_FORMAT, "%s: should have %lld bytes and has %lld", file->path, (long long)*end,
                       (long long)file->bytes);
    return S4_OK;
}

static s4_status read_chunks(sound *s)
{
    const char *path = s->file->path;
    int64_t end = 0;
    S4_TRY(read_start(s->file, &end));
    int64_t at = 12;
    while (at < end) {
        unsigned char head[8] = {0};
        if (end - at < 8)
            return s4_fail(S4_ERROR_FORMAT, "%s: has a chunk of %lld bytes at its end", path, (long long)(end - at));
        S4_TRY(s4_input_read(s->file, at, head, 8));
        int64_t begin = at + 8, bytes = (int64_t)little_endian(head + 4, 4);
        if (bytes > end - begin)
            return s4_fail(S4_ERROR_FORMAT, "%s: the chunk at byte %lld has %lld bytes, of which %lld are there", path,
                           (long long)at, (long long)bytes, (long long)(end - begin));
        if (memcmp(head, "fmt ", 4) == 0) S4_TRY(read_format(s, begin, bytes));
        if (memcmp(head, "data", 4) == 0) {
            if (s->data) return s4_fail(S4_ERROR_FORMAT, "%s: has two \"data\" chunks", path);
            s->data = begin;
            s->data_bytes = bytes;
        }
        at = begin + bytes + bytes % 2; /* a last chunk may lack its padding */
    }
    if (!s->format || !s->data)
        return s4_fail(S4_ERROR_FORMAT, "%s: has no \"%s\" chunk", path, s->format ? "data" : "fmt ");
    return S4_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static s4_status read_frames(const sound *s, int64_t length, unsigned char *buffer, int64_t buffer_frames, void *data)
{
    int64_t sample = s->format->bits / 8, frame = s->channels * sample;
    for (int64_t done = 0; done < length;) {
        int64_t frames = length - done < buffer_frames ? length - done : buffer_frames;
        S4_TRY(s4_input_read(s->file, s->data + done * frame, buffer, frames * frame));
        for (int64_t c = 0; c < s->channels; c++)
            for (int64_t t = 0; t < frames; t++)
                s->format->take(buffer + t * frame + c * sample, data, c * length + done + t);
        done += frames;
    }
    return S4_OK;
}

static s4_status read_sound(sound *s, s4_array **array)
{
    S4_TRY(read_chunks(s));
    int64_t frame = s->channels * s->format->bits / 8;
    if (s->data_bytes % frame)
        return s4_fail(S4_ERROR_FORMAT, "%s: has %lld bytes of data, no multiple of the %lld of a frame", s->file->path,
                       (long long)s->data_bytes, (long long)frame);
    const int64_t shape[2] = {s->channels, s->data_bytes / frame};
    int64_t buffer_frames = BUFFER / frame > 1 ? BUFFER / frame : 1;
    unsigned char *buffer = malloc((size_t)(buffer_frames * frame));
    if (!buffer) return s4_fail(S4_ERROR_MEMORY, "%s: no memory to read it", s->file->path);
    s4_status status = s4_array_create(s->format->dtype, 2, shape, array);
    if (!status) status = read_frames(s, shape[1], buffer, buffer_frames, (*array)->data);
    free(buffer);
    if (status) {
        s4_array_destroy(*array);
        *array = NULL;
    }
    return status;
}

s4_status s4_wav_read(const char *path, s4_array **array, int64_t *rate)
{
    s4_input_file file;
    S4_TRY(s4_input_open(path, &file));
    sound s = {.file = &file};
    s4_status status = read_sound(&s, array);
    if (!status) *rate = s.rate;
    s4_input_close(&file);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

#define START_BYTES 58 /* RIFF, "fmt ", "fact" (the frames, wanted for all but PCM), and the head of "data" */

static void format_start(unsigned char start[START_BYTES], int64_t channels, int64_t length, int64_t rate)
{
    const int64_t frame = 4 * channels;
    const struct {
        const char *text; /* four letters, or NULL for a number */
        int64_t number;
        int bytes;
    } fields[] = {
        {"RIFF", 0, 4},
        {NULL, START_BYTES - 8 + frame * length, 4},
        {"WAVE", 0, 4},
        {"fmt ", 0, 4},
        {NULL, 18, 4},
        {NULL, CODING_FLOAT, 2},
        {NULL, channels, 2},
        {NULL, rate, 4},
        {NULL, rate * frame, 4},
        {NULL, frame, 2},
        {NULL, 32, 2},
        {NULL, 0, 2}, /* no extension */
        {"fact", 0, 4},
        {NULL, 4, 4},
        {NULL, length, 4},
        {"data", 0, 4},
        {NULL, frame * length, 4},
    };
    unsigned char *at = start;
    for (int i = 0; i < COUNT(fields); i++)
        for (int byte = 0; byte < fields[i].bytes; byte++)
            *at++ = (unsigned char)(fields[i].text ? (uint64_t)fields[i].text[byte]
                                                   : (uint64_t)fields[i].number >> (8 * byte));
}

static s4_status write_frames(s4_atomic_file *file, const s4_signal *signal, float *buffer, int64_t buffer_frames)
{
    for (int64_t done = 0; done < signal->length;) {
        int64_t frames = signal->length - done < buffer_frames ? signal->length - done : buffer_frames;
        for (int64_t c = 0; c < signal->channels; c++)
            for (int64_t t = 0; t < frames; t++)
                buffer[t * signal->channels + c] = (float)s4_signal_sample(signal, c, done + t);
        S4_TRY(s4_atomic_write(file, buffer, frames * signal->channels * (int64_t)sizeof *buffer));
        done += frames;
    }
    return S4_OK;
}

s4_status s4_wav_write(const char *path, const s4_array *array, int64_t rate)
{
    s4_signal signal;
    S4_TRY(s4_signal_shape(path, array, &signal));
    if (rate < 1 || rate > UINT32_MAX)
        return s4_fail(S4_ERROR_ARGUMENT, "%s: the rate is %lld Hz, a .wav file needs one in 1 .. %lld", path,
                       (long long)rate, (long long)UINT32_MAX);
    const int64_t frame_max = CHANNELS_MAX / 4 * 4; /* bytes; the field has 16 bits */
    if (signal.channels < 1 || 4 * signal.channels > frame_max)
        return s4_fail(S4_ERROR_UNSUPPORTED, "%s: has %lld channels, a .wav file of floats has 1 .. %lld", path,
                       (long long)signal.channels, (long long)frame_max / 4);
    int64_t frame = 4 * signal.channels;
    if (signal.length > (UINT32_MAX - START_BYTES) / frame)
        return s4_fail(S4_ERROR_UNSUPPORTED, "%s: %lld samples of %lld channels are more than the 4 GiB of a .wav file",
                       path, (long long)signal.length, (long long)signal.channels);
    int64_t buffer_frames = BUFFER / frame > 1 ? BUFFER / frame : 1;
    float *buffer = malloc((size_t)(buffer_frames * frame));
    if (!buffer) return s4_fail(S4_ERROR_MEMORY, "%s: no memory to write it", path);
    unsigned char start[START_BYTES];
    format_start(start, signal.channels, signal.length, rate);
    s4_atomic_file file;
    s4_status status = s4_atomic_open(path, &file);
    if (!status) status = s4_atomic_write(&file, start, START_BYTES);
    if (!status) status = write_frames(&file, &signal, buffer, buffer_frames);
    if (!status) status = s4_atomic_commit(&file);
    free(buffer);
    return status;
}
