/* Signals in .wav files: values to the last bit, files as other programs write them, and files that are refused. */
#define _GNU_SOURCE
#include <stdio.h>

#include "signal_arrays.h"

typedef struct bytes {
    unsigned char data[512];
    size_t size;
} bytes;

static void add(bytes *b, const void *data, size_t size)
{
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void add_number(bytes *b, uint64_t number, int size)
{
    for (int i = 0; i < size; i++) b->data[b->size++] = (unsigned char)(number >> (8 * i));
}

static void add_chunk(bytes *b, const char *name, const void *data, size_t size)
{
    add(b, name, 4);
    add_number(b, size, 4);
    add(b, data, size);
    if (size % 2) add_number(b, 0, 1);
}

static void add_format(bytes *b, int coding, int channels, int rate, int bits)
{
    bytes f = {.size = 0};
    add_number(&f, (uint64_t)coding, 2);
    add_number(&f, (uint64_t)channels, 2);
    add_number(&f, (uint64_t)rate, 4);
    add_number(&f, (uint64_t)(rate * channels * bits / 8), 4);
    add_number(&f, (uint64_t)(channels * bits / 8), 2);
    add_number(&f, (uint64_t)bits, 2);
    add_chunk(b, "fmt ", f.data, f.size);
}

/* WAVE_FORMAT_EXTENSIBLE, `valid` of `bits` bits, coding in a GUID. */
static void add_extensible(bytes *b, int coding, int channels, int rate, int bits, int valid)
{
    static const unsigned char rest[] = {0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71};
    bytes f = {.size = 0};
    bytes plain = {.size = 0};
    add_format(&plain, 0xfffe, channels, rate, bits);
    add(&f, plain.data + 8, 16);
    add_number(&f, 22, 2);
    add_number(&f, (uint64_t)valid, 2);
    add_number(&f, 0, 4);
    add_number(&f, (uint64_t)coding, 2);
    add(&f, rest, sizeof rest);
    add_chunk(b, "fmt ", f.data, f.size);
}

static bytes begin_wave(void)
{
    bytes b = {.size = 0};
    add(&b, "RIFF\0\0\0\0WAVE", 12);
    return b;
}

static void set_number(bytes *b, size_t at, uint64_t number, int size)
{
    for (int i = 0; i < size; i++) b->data[at + (size_t)i] = (unsigned char)(number >> (8 * i));
}

static const char *write_wave(bytes *b)
{
    const char *path = scratch_path("x.wav");
    set_number(b, 4, b->size - 8, 4);
    file_write(path, b->data, b->size);
    return path;
}

Test(wav, samples)
{
    static const struct {
        int coding, bits;
        s4_dtype dtype;
        unsigned char data[32]; /* (2 frames, 2 channels) */
        double expected[4];     /* (2 channels, 2 frames) */
    } cases[] = {
        {1, 16, S4_F32, {0x00, 0x80, 0xff, 0x7f, 0x01, 0x00, 0xff, 0xff}, {-1, 0x1p-15, 1 - 0x1p-15, -0x1p-15}},
        {1,
         24,
         S4_F32,
         {0, 0, 0x80, 0xff, 0xff, 0x7f, 1, 0, 0, 0xff, 0xff, 0xff},
         {-1, 0x1p-23, 1 - 0x1p-23, -0x1p-23}},
        {1,
         32,
         S4_F64,
         {0, 0, 0, 0x80, 0xff, 0xff, 0xff, 0x7f, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
         {-1, 0x1p-31, 1 - 0x1p-31, -0x1p-31}},
        {3, 32, S4_F32, {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0, 0x3f, 0, 0, 0, 0}, {1, 0.5, -2, 0}},
        {3,
         64,
         S4_F64,
         {0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f},
         {1, 0.5, -2, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int extensible = 0; extensible < 2; extensible++) {
            about("coding %d of %d bits, extensible %d", cases[i].coding, cases[i].bits, extensible);
            bytes b = begin_wave();
            add_chunk(&b, "odd ", "abc", 3);
            if (extensible)
                add_extensible(&b, cases[i].coding, 2, 44100, cases[i].bits, cases[i].bits - 4);
            else
                add_format(&b, cases[i].coding, 2, 44100, cases[i].bits);
            add_chunk(&b, "data", cases[i].data, (size_t)cases[i].bits / 2);
            add_chunk(&b, "LIST", "after", 5);
            b.size--; /* the last padding is often missing */
            s4_array *array;
            int64_t rate;
            must(s4_array_read_rate(write_wave(&b), &array, &rate));
            check(rate == 44100, "[%s] rate %lld", about_text(), (long long)rate);
            check(array->dtype == cases[i].dtype && array->rank == 2 && array->shape[0] == 2 && array->shape[1] == 2,
                  "[%s] dtype or shape", about_text());
            for (int k = 0; k < 4; k++)
                check(value_of(array, k) == cases[i].expected[k], "[%s] value %d is %.17g", about_text(), k,
                      value_of(array, k));
            s4_array_destroy(array);
        }
}

/* More frames than a reader or writer holds at once. */
Test(wav, round_trip)
{
    static const struct {
        int rank;
        int64_t shape[3];
    } shapes[] = {{1, {5}}, {2, {3, 7}}, {3, {1, 2, 40000}}, {2, {20000, 3}}, {2, {4, 0}}};
    for (int i = 0; i < 5; i++)
        for (int dtype = S4_F32; dtype <= S4_F64; dtype++) {
            about("%s, shape %d", s4_dtype_name((s4_dtype)dtype), i);
            if (shapes[i].shape[0] == 20000) continue; /* see wav_cannot_hold */
            s4_array *array = signal_of((s4_dtype)dtype, shapes[i].rank, shapes[i].shape), *back;
            const char *path = scratch_path("x.wav");
            int64_t rate;
            must(s4_array_write(path, array, 360));
            must(s4_array_read_rate(path, &back, &rate));
            check(rate == 360 && back->dtype == S4_F32 && back->count == array->count && back->rank == 2, "[%s] array",
                  about_text());
            check(back->shape[1] == array->shape[array->rank - 1], "[%s] shape", about_text());
            for (int64_t k = 0; k < array->count; k++)
                check(value_of(back, k) == (double)(float)value_of(array, k), "[%s] value %lld", about_text(),
                      (long long)k);
            s4_array_destroy(back);
            s4_array_destroy(array);
        }
}

Test(wav, as_written)
{
    static const unsigned char expected[] = {
        'R', 'I', 'F', 'F',  66,   0,    0,    0, 'W',  'A', 'V',  'E', 'f',  'm', 't', ' ',  18,  0, 0,
        0,   3,   0,   2,    0,    0x80, 0x3e, 0, 0,    0,   0xf4, 1,   0,    8,   0,   32,   0,   0, 0,
        'f', 'a', 'c', 't',  4,    0,    0,    0, 2,    0,   0,    0,   'd',  'a', 't', 'a',  16,  0, 0,
        0,   0,   0,   0x80, 0x3f, 0,    0,    0, 0x3f, 0,   0,    0,   0xc0, 0,   0,   0x80, 0xbe};
    static const int64_t shape[] = {2, 2};
    s4_array *array;
    must(s4_array_create(S4_F64, 2, shape, &array));
    memcpy(array->data, (const double[]){1, -2, 0.5, -0.25}, 32);
    const char *path = scratch_path("x.wav");
    must(s4_array_write(path, array, 16000));
    const file_bytes got = file_read(path);
    cr_assert_eq(got.size, sizeof expected);
    cr_assert(memcmp(got.data, expected, sizeof expected) == 0);
    s4_array_destroy(array);
}

static void refuse_wave(bytes *b, s4_status status, const char *word)
{
    s4_array *array = (s4_array *)(void *)b;
    const char *path = scratch_path("x.wav");
    file_write(path, b->data, b->size);
    must_refuse(s4_array_read(path, &array), status, word);
    check(array == NULL, "[%s] the pointer is not NULL", about_text());
}

static bytes good_wave(void)
{
    bytes b = begin_wave();
    add_format(&b, 1, 2, 8000, 16);
    add_chunk(&b, "data", "01234567", 8);
    set_number(&b, 4, b.size - 8, 4);
    return b;
}

Test(wav, that_lies)
{
    /* A field of good_wave, and what it lies: "RIFF" 0, "fmt " 12, its fields 20 and on, "data" 36. */
    static const struct {
        size_t at;
        int size;
        uint64_t number;
        s4_status status;
        char word[32];
    } cases[] = {
        {0, 4, 0x34364652, S4_ERROR_UNSUPPORTED, "RF64"},
        {0, 4, 0x58464952, S4_ERROR_UNSUPPORTED, "RIFX"},
        {0, 4, 0x12345678, S4_ERROR_FORMAT, "not a .wav"},
        {8, 4, 0x12345678, S4_ERROR_FORMAT, "not a .wav"},
        {4, 4, 45, S4_ERROR_FORMAT, "should have 53"},
        {4, 4, 0xffffffff, S4_ERROR_FORMAT, "should have"},
        {4, 4, 40, S4_ERROR_FORMAT, "byte 36"},
        {4, 4, 4, S4_ERROR_FORMAT, "fmt "},
        {4, 4, 0, S4_ERROR_FORMAT, "fmt "},
        {12, 4, 0x20202020, S4_ERROR_FORMAT, "fmt "},
        {16, 4, 14, S4_ERROR_FORMAT, "14 bytes"},
        {16, 4, 0xffffffff, S4_ERROR_FORMAT, "byte 12"},
        {20, 2, 0x55, S4_ERROR_UNSUPPORTED, "MP3"},
        {20, 2, 2, S4_ERROR_UNSUPPORTED, "ADPCM"},
        {20, 2, 6, S4_ERROR_UNSUPPORTED, "A-law"},
        {20, 2, 0x7777, S4_ERROR_UNSUPPORTED, "0x7777"},
        {20, 2, 0xfffe, S4_ERROR_FORMAT, "extensible"},
        {20, 2, 3, S4_ERROR_UNSUPPORTED, "floats of 16 bits"},
        {22, 2, 0, S4_ERROR_FORMAT, "0 channels"},
        {22, 2, 1, S4_ERROR_FORMAT, "frames"},
        {24, 4, 0, S4_ERROR_FORMAT, "0 samples a second"},
        {32, 2, 8, S4_ERROR_FORMAT, "frames"},
        {34, 2, 8, S4_ERROR_UNSUPPORTED, "8 bits"},
        {34, 2, 12, S4_ERROR_UNSUPPORTED, "12 bits"},
        {36, 4, 0x20202020, S4_ERROR_FORMAT, "data"},
        {40, 4, 7, S4_ERROR_FORMAT, "multiple"},
        {40, 4, 9, S4_ERROR_FORMAT, "9 bytes"},
        {40, 4, 0xffffffff, S4_ERROR_FORMAT, "byte 36"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("byte %zu is %llx", cases[i].at, (unsigned long long)cases[i].number);
        bytes b = good_wave();
        set_number(&b, cases[i].at, cases[i].number, cases[i].size);
        refuse_wave(&b, cases[i].status, cases[i].word);
    }
    for (size_t size = 0; size < good_wave().size; size++) {
        about("the first %zu bytes", size);
        bytes b = good_wave();
        b.size = size;
        refuse_wave(&b, S4_ERROR_FORMAT, "");
    }
    about("two formats");
    bytes b = begin_wave();
    add_format(&b, 1, 1, 8000, 16);
    add_format(&b, 1, 1, 8000, 16);
    add_chunk(&b, "data", "0123", 4);
    set_number(&b, 4, b.size - 8, 4);
    refuse_wave(&b, S4_ERROR_FORMAT, "two \"fmt \"");
    about("two datas");
    b = good_wave();
    add_chunk(&b, "data", "0123", 4);
    set_number(&b, 4, b.size - 8, 4);
    refuse_wave(&b, S4_ERROR_FORMAT, "two \"data\"");
    about("more valid bits than bits");
    b = begin_wave();
    add_extensible(&b, 1, 1, 8000, 16, 17);
    set_number(&b, 4, b.size - 8, 4);
    refuse_wave(&b, S4_ERROR_FORMAT, "17");
    about("another GUID");
    b = begin_wave();
    add_extensible(&b, 1, 1, 8000, 16, 16);
    b.data[b.size - 1] ^= 1;
    set_number(&b, 4, b.size - 8, 4);
    refuse_wave(&b, S4_ERROR_UNSUPPORTED, "standard");
}

Test(wav, cannot_hold)
{
    static const struct {
        int rank;
        int64_t shape[3], rate;
        s4_dtype dtype;
        s4_status status;
        char word[16];
    } cases[] = {
        {2, {2, 3}, 0, S4_F32, S4_ERROR_ARGUMENT, "rate is 0"},
        {2, {2, 3}, -1, S4_F32, S4_ERROR_ARGUMENT, "rate is -1"},
        {2, {2, 3}, 4294967296, S4_F32, S4_ERROR_ARGUMENT, "4294967296"},
        {3, {2, 2, 3}, 1, S4_F32, S4_ERROR_ARGUMENT, "(2,2,3)"},
        {0, {0}, 1, S4_F32, S4_ERROR_ARGUMENT, "()"},
        {2, {2, 3}, 1, S4_I64, S4_ERROR_UNSUPPORTED, "i64"},
        {2, {20000, 3}, 1, S4_F32, S4_ERROR_UNSUPPORTED, "20000"},
        {2, {0, 3}, 1, S4_F32, S4_ERROR_UNSUPPORTED, "0 channels"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("case %zu", i);
        s4_array *array = signal_of(cases[i].dtype, cases[i].rank, cases[i].shape);
        must_refuse(s4_array_write(scratch_path("x.wav"), array, cases[i].rate), cases[i].status, cases[i].word);
        s4_array_destroy(array);
    }
    about("4 GiB"); /* only the description is that large: nothing of the data is read */
    float sample = 0;
    s4_array large = {
        .dtype = S4_F32, .rank = 1, .shape = {(int64_t)1 << 30}, .count = (int64_t)1 << 30, .data = &sample};
    must_refuse(s4_array_write(scratch_path("x.wav"), &large, 1), S4_ERROR_UNSUPPORTED, "4 GiB");
    cr_assert_eq(scratch_count(), 0, "a file is left");
}
