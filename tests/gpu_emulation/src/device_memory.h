/* Device memory and pinned host memory with guards around every allocation. */
#ifndef S4_EMULATION_DEVICE_MEMORY_H
#define S4_EMULATION_DEVICE_MEMORY_H

#include "violation.h"
#include <cstddef>

namespace s4_emulation
{

enum class Place { device, pinned };

struct Allocation {
    char *begin = nullptr; /* what the caller got */
    std::size_t size = 0;
    char *pages = nullptr; /* whole pages; an inaccessible one follows, and one precedes */
    std::size_t pages_size = 0;
    Place place = Place::device;
    int device = 0;
    int serial = 0; /* counts allocations, for messages */
    const char *made_by = "";
};

/* NULL when the device has no more memory. */
void *allocate(Place place, std::size_t size, int device, const char *made_by);
/* The caller has waited for all work. */
void release_allocation(Place place, void *p, const char *call);

/* The live allocation that p is in, or one past the end of; NULL if there is none. */
const Allocation *find_allocation(const void *p);
/* Is this an address of that kind, live or not? */
bool is_device_address(const void *p);
/* Has an allocation ever been there? The range reaches far beyond the last one. */
bool was_given_out(const void *p);

/* Memory of the caller's that cudaHostRegister pinned. */
bool register_host(void *p, std::size_t size);
bool unregister_host(void *p);
bool is_registered(const void *p);
inline bool is_pinned(const void *p)
{
    const Allocation *a = find_allocation(p);
    return (a && a->place == Place::pinned) || is_registered(p);
}

/* Violation unless all bytes are in one live allocation of device or pinned memory. */
void require_reachable(const void *p, std::size_t size, const char *what);
/* What p is, in words. */
Words explain(const void *p);

std::size_t live_bytes(int device);

/* Device memory can be touched while one of these exists: while the device works. */
class DeviceMemoryOpen
{
    bool outermost;

  public:
    DeviceMemoryOpen();
    ~DeviceMemoryOpen();
    DeviceMemoryOpen(const DeviceMemoryOpen &) = delete;
};

/* Installs and removes the handler that explains wrong accesses. */
void watch_memory();
void unwatch_memory();
/* For a thread that will run GPU threads: one that overflowed its stack has no room
 * for a handler. */
void provide_signal_stack();
void describe_live_memory();

} // namespace s4_emulation
#endif
