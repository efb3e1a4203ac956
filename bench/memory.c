/* Checked allocation for the command; nothing has been printed when it gives up, so no output is left half-written. */
#include "memory.h"

#include <stdio.h>
#include <cjson/cJSON.h>

#include "exit_code.h"
#include "progress.h"

void *memory_zeroed(int64_t count, size_t size)
{
    void *memory = count < 0 ? NULL : calloc(count > 0 ? (size_t)count : 1, size);
    if (!memory) {
        progress_clear();
        fprintf(stderr, "s4: out of memory: %lld elements of %zu bytes\n", (long long)count, size);
        exit(CODE_FAILED);
    }
    return memory;
}

static void *allocate_json(size_t bytes) { return memory_zeroed((int64_t)bytes, 1); }

void memory_begin(void)
{
    cJSON_Hooks hooks = {allocate_json, free};
    cJSON_InitHooks(&hooks);
}
