/* Files of other formats that are taken for tensor files, by the bytes they begin with. */
#include <string.h>

#include "s4/tensor_file.h"

static const struct {
    const char *begin;
    size_t bytes;
    const char *what;
} kinds[] = {
    {"\x93NUMPY", 6, "a NumPy array (.npy)"},
    {"PK\3\4", 4, "a zip archive (a PyTorch checkpoint, or .npz)"},
    {"\x80\2", 2, "a pickle (an older PyTorch checkpoint)"},
    {"\x80\3", 2, "a pickle"},
    {"\x80\4", 2, "a pickle"},
    {"\x80\5", 2, "a pickle"},
    {"RIFF", 4, "a RIFF file (.wav)"},
};

const char *s4_file_kind(const void *begin, size_t bytes)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (bytes >= kinds[i].bytes && memcmp(begin, kinds[i].begin, kinds[i].bytes) == 0) return kinds[i].what;
    return NULL;
}
