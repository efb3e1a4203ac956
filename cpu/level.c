/* Which instruction level the processor has, and which one is to be used. */
#include "cpu/level.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/place.h"

static const char *const names[CPU_LEVELS] = {
#if defined(__x86_64__)
    "x86-64", "x86-64-v3", "x86-64-v4"
#elif defined(__aarch64__)
    "arm64"
#else
    "portable"
#endif
};

const char *cpu_level_name(int level) { return names[level]; }
int cpu_level_of(const s4_device *device) { return device->level; }

/* Of each level what the compiler is told to use (CMakeLists.txt). */
static int best(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl"))
        return 1;
    return 2;
#else
    return 0;
#endif
}

static s4_status cap_by(const char *what, const char *name, int *level)
{
    if (!name || !*name) return S4_OK;
    for (int i = 0; i < CPU_LEVELS; i++) {
        if (strcmp(name, names[i])) continue;
        if (i < *level) *level = i;
        return S4_OK;
    }
    return cpu_host->fail(S4_ERROR_ARGUMENT, "%s is \"%s\", must be one of %s%s%s", what, name, names[0],
                          CPU_LEVELS > 1 ? ", x86-64-v3" : "", CPU_LEVELS > 2 ? ", x86-64-v4" : "");
}

s4_status cpu_level_choose(const char *cap, int *level)
{
    *level = best();
    s4_status status = cap_by("cpu_level", cap, level);
    return status ? status : cap_by("S4_CPU_LEVEL", getenv("S4_CPU_LEVEL"), level);
}
