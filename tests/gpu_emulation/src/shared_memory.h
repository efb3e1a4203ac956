/* Shared memory of the block now running on the calling thread. */
#ifndef S4_EMULATION_SHARED_MEMORY_H
#define S4_EMULATION_SHARED_MEMORY_H

#include <cstddef>

namespace s4_emulation
{

constexpr std::size_t shared_bytes_default = 48 * 1024;
constexpr std::size_t shared_bytes_opt_in = 227 * 1024; /* compute capability 9.0 */

/* Before a block: everything shared becomes NaN, and dynamic shared memory beyond
 * `dynamic_bytes` a trap for the address sanitizer or a canary. */
void prepare_shared_memory(std::size_t dynamic_bytes);
/* After a block: how many bytes behind its end the canary was first damaged; -1 if
 * it was not. */
long damaged_shared_memory(std::size_t dynamic_bytes);

} // namespace s4_emulation
#endif
