/* Which bytes are well-formed UTF-8: names in files are. */
#include "s4/tensor_file.h"

/* Well-formed sequences by their first byte: how many bytes follow, and the range of the first of those (which keeps
 * out overlong forms, surrogates and what is beyond U+10FFFF). */
static const struct {
    unsigned char first, last;
    int following;
    unsigned char low, high;
} utf8[] = {
    {0x00, 0x7f, 0, 0, 0},       {0xc2, 0xdf, 1, 0x80, 0xbf}, {0xe0, 0xe0, 2, 0xa0, 0xbf},
    {0xe1, 0xec, 2, 0x80, 0xbf}, {0xed, 0xed, 2, 0x80, 0x9f}, {0xee, 0xef, 2, 0x80, 0xbf},
    {0xf0, 0xf0, 3, 0x90, 0xbf}, {0xf1, 0xf3, 3, 0x80, 0xbf}, {0xf4, 0xf4, 3, 0x80, 0x8f},
};

size_t s4_utf8_prefix(const char *text, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t done = 0;
    while (done < bytes) {
        size_t row = 0, rows = sizeof utf8 / sizeof *utf8;
        while (row < rows && !(at[done] >= utf8[row].first && at[done] <= utf8[row].last)) row++;
        if (row == rows) return done;
        size_t following = (size_t)utf8[row].following;
        if (following >= bytes - done) return done;
        for (size_t k = 1; k <= following; k++) {
            unsigned char low = k == 1 ? utf8[row].low : 0x80, high = k == 1 ? utf8[row].high : 0xbf;
            if (at[done + k] < low || at[done + k] > high) return done;
        }
        done += following + 1;
    }
    return done;
}
