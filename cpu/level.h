/*
 * Instruction levels of the CPU place. Sources in cpu/level/ are compiled once for every level and differ in their vector
 * width only; which of them runs is chosen when a context opens the place: the best that the processor has, capped by
 * s4_context_options.cpu_level and by the environment variable S4_CPU_LEVEL. Bits may differ between levels.
 *
 * A topic is a table of functions, declared in cpu/level/<topic>.h by
 *
 *   typedef struct cpu_foo { void (*bar)(...); } cpu_foo;
 *   CPU_LEVEL_TABLES(cpu_foo, cpu_foo_at)
 *
 * defined in cpu/level/<topic>.c by
 *
 *   const cpu_foo CPU_AT_LEVEL(cpu_foo_at) = {.bar = bar};
 *
 * and used by cpu_foo_at(task->device)->bar(...).
 */
#ifndef CPU_LEVEL_H
#define CPU_LEVEL_H

#include <stddef.h>

#include "s4/backend.h"

#if defined(__x86_64__)
#define CPU_LEVELS 3
#define CPU_LEVEL_TABLES(type, name)                                                                                   \
    extern const type name##_base, name##_v3, name##_v4;                                                               \
    static inline const type *name(const s4_device *device)                                                            \
    {                                                                                                                  \
        static const type *const tables[CPU_LEVELS] = {&name##_base, &name##_v3, &name##_v4};                          \
        return tables[cpu_level_of(device)];                                                                           \
    }
#else
#define CPU_LEVELS 1
#define CPU_LEVEL_TABLES(type, name)                                                                                   \
    extern const type name##_base;                                                                                     \
    static inline const type *name(const s4_device *device)                                                            \
    {                                                                                                                  \
        (void)device;                                                                                                  \
        return &name##_base;                                                                                           \
    }
#endif

/* name -> name_base, name_v3 or name_v4, in sources that are compiled for every level. */
#ifdef CPU_LEVEL_SUFFIX
#define CPU_LEVEL_JOIN_(name, suffix) name##suffix
#define CPU_LEVEL_JOIN(name, suffix) CPU_LEVEL_JOIN_(name, suffix)
#define CPU_AT_LEVEL(name) CPU_LEVEL_JOIN(name, CPU_LEVEL_SUFFIX)
#endif

/* The level that a device was opened with. */
int cpu_level_of(const s4_device *device);
/* "x86-64", "x86-64-v3", "x86-64-v4"; elsewhere there is one level, "arm64" or "portable". */
const char *cpu_level_name(int level);
/* The best level of this processor that is not above `cap` nor above S4_CPU_LEVEL (NULL: not capped).
 * S4_ERROR_ARGUMENT lists the names. */
s4_status cpu_level_choose(const char *cap, int *level);

#endif
