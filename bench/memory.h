/* Memory of the command itself: an allocation that fails ends the program with a line that says how much was asked. */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include <stdint.h>
#include <stdlib.h>

void *memory_zeroed(int64_t count, size_t size); /* count * size bytes, zero; release with free */
void memory_begin(void);                         /* the same for cJSON */

#endif
