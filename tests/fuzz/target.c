/* A libFuzzer target for one reader, S4_FUZZ_READER. See run.sh. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "readers.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const reader *r;
    if (!r) r = reader_find(S4_FUZZ_READER);
    if (!r) abort();
    (void)reader_run(r, bytes, size);
    return 0;
}
