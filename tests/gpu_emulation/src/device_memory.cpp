/* Guarded memory. Device allocations lie in a reserved range that the host can never
 * touch; the device thread can while it works. An allocation ends at an inaccessible
 * page as nearly as cudaMalloc's alignment of 256 bytes lets it; the slack in front
 * and behind is poisoned for the address sanitizer, or a canary. Memory starts as NaN
 * and addresses are never given out twice, so that use after release is found. */
#include "device_memory.h"
#include "controls.h"
#include "sanitizers.h"
#include "violation.h"
#include <algorithm>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <vector>

namespace s4_emulation
{

namespace
{

constexpr std::size_t page = 4096, alignment = 256;
constexpr std::size_t range_bytes = std::size_t(1) << 38;
constexpr int fill = 0xff; /* NaN as float and double, -1 as integer */

char *range, *next_free;
std::map<char *, Allocation> live;
std::vector<Allocation> released;
std::map<char *, std::size_t> registered;
int serial;
bool open_now;

bool in_range(const void *p) { return range && p >= range && p < range + range_bytes; }

void protect_device_memory(int protection)
{
    for (const auto &entry : live)
        if (entry.second.place == Place::device) mprotect(entry.second.pages, entry.second.pages_size, protection);
    open_now = protection != PROT_NONE;
}

Words name_of(const Allocation &a) { return words("allocation #%d of %zu bytes (%s)", a.serial, a.size, a.made_by); }

void check_canaries(const Allocation &a)
{
    if (S4_EMULATION_ADDRESS_SANITIZER) return; /* poisoned instead */
    const volatile char *begin = a.begin,
                        *end = a.begin + a.size; /* volatile: not memcmp, which the race detector sees */
    const volatile char *pages_end = a.pages + a.pages_size;
    for (const volatile char *c = a.pages; c < begin; c++)
        if (*c != char(fill))
            violation("%s: something was written %td bytes before its beginning", name_of(a).c_str(), begin - c);
    for (const volatile char *c = end; c < pages_end; c++)
        if (*c != char(fill))
            violation("%s: something was written %td bytes behind its end", name_of(a).c_str(), c - end);
}

} // namespace

void *allocate(Place place, std::size_t size, int device, const char *made_by)
{
    const std::size_t user = (size + alignment - 1) / alignment * alignment;
    const std::size_t pages_size = (user + page - 1) / page * page;
    if (place == Place::device && (size > controls.memory || live_bytes(device) + user > controls.memory))
        return nullptr;
    if (!range) {
        void *m = mmap(nullptr, range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (m == MAP_FAILED) violation("cannot reserve a range of addresses for device memory");
        range = next_free = static_cast<char *>(m);
    }
    if (std::size_t(range + range_bytes - next_free) < pages_size + 2 * page)
        violation("all %zu bytes of addresses are used up; they are never given out twice", range_bytes);

    Allocation a;
    a.pages = next_free + page;
    a.pages_size = pages_size;
    a.begin = a.pages + pages_size - user;
    a.size = size;
    a.place = place;
    a.device = device;
    a.serial = ++serial;
    a.made_by = made_by;
    if (mprotect(a.pages, pages_size, PROT_READ | PROT_WRITE)) return nullptr;
    /* Opening and closing device memory costs time for every page. */
    madvise(a.pages, pages_size, MADV_HUGEPAGE);
    next_free = a.pages + pages_size; /* the next allocation's first page is this one's guard */
    std::memset(a.pages, fill, pages_size);
#if S4_EMULATION_ADDRESS_SANITIZER
    __asan_poison_memory_region(a.pages, std::size_t(a.begin - a.pages));
    __asan_poison_memory_region(a.begin + size, user - size);
#endif
    if (place == Place::device && !open_now) mprotect(a.pages, pages_size, PROT_NONE);
    live[a.begin] = a;
    count_object(place == Place::device ? "device allocation" : "pinned allocation", 1);
    std::uint64_t &bytes = place == Place::device ? counts.device_bytes : counts.pinned_bytes;
    std::uint64_t &peak = place == Place::device ? counts.device_bytes_peak : counts.pinned_bytes_peak;
    bytes += size;
    peak = std::max(peak, bytes);
    return a.begin;
}

void release_allocation(Place place, void *p, const char *call)
{
    const auto it = live.find(static_cast<char *>(p));
    if (it == live.end() || it->second.place != place)
        violation("%s of %s, which is not the beginning of a live allocation of that kind", call, explain(p).c_str());
    const Allocation a = it->second;
    {
        const DeviceMemoryOpen open;
        check_canaries(a);
    }
    madvise(a.pages, a.pages_size, MADV_DONTNEED);
    mprotect(a.pages, a.pages_size, PROT_NONE);
    released.push_back(a);
    live.erase(it);
    count_object(place == Place::device ? "device allocation" : "pinned allocation", -1);
    (place == Place::device ? counts.device_bytes : counts.pinned_bytes) -= a.size;
}

const Allocation *find_allocation(const void *p)
{
    auto it = live.upper_bound(static_cast<char *>(const_cast<void *>(p)));
    if (it == live.begin()) return nullptr;
    const Allocation &a = (--it)->second;
    return p <= a.begin + a.size ? &a : nullptr;
}

bool is_device_address(const void *p)
{
    if (!in_range(p)) return false;
    const Allocation *a = find_allocation(p);
    return !a || a->place == Place::device;
}

bool was_given_out(const void *p) { return in_range(p) && p < next_free; }

bool register_host(void *p, std::size_t size)
{
    if (in_range(p) || is_registered(p)) return false;
    registered[static_cast<char *>(p)] = size;
    count_object("registered host range", 1);
    return true;
}

bool unregister_host(void *p)
{
    if (!registered.erase(static_cast<char *>(p))) return false;
    count_object("registered host range", -1);
    return true;
}

bool is_registered(const void *p)
{
    auto it = registered.upper_bound(static_cast<char *>(const_cast<void *>(p)));
    return it != registered.begin() && (--it, p < it->first + it->second);
}

void require_reachable(const void *p, std::size_t size, const char *what)
{
    const Allocation *a = find_allocation(p);
    if ((!a || static_cast<const char *>(p) + size > a->begin + a->size) && !is_registered(p))
        violation("%s: %zu bytes at %s are not inside one allocation", what, size, explain(p).c_str());
}

Words explain(const void *p)
{
    const auto *c = static_cast<const char *>(p);
    if (!in_range(p)) return words("host address %p", p);
    for (const Allocation &a : released)
        if (c >= a.begin && c < a.begin + std::max<std::size_t>(a.size, 1))
            return words("released memory, %s", name_of(a).c_str());
    const Allocation *nearest = nullptr; /* the last one in front of p, else the first behind */
    for (const auto &entry : live)
        if (!nearest || entry.second.begin <= c) nearest = &entry.second;
    if (!nearest) return words("an address of device memory in no allocation");
    return words("%td bytes from the beginning of %s", c - nearest->begin, name_of(*nearest).c_str());
}

std::size_t live_bytes(int device)
{
    std::size_t bytes = 0;
    for (const auto &entry : live)
        if (entry.second.place == Place::device && entry.second.device == device)
            bytes += (entry.second.size + alignment - 1) / alignment * alignment;
    return bytes;
}

DeviceMemoryOpen::DeviceMemoryOpen() : outermost(!open_now)
{
    if (outermost) protect_device_memory(PROT_READ | PROT_WRITE);
}

DeviceMemoryOpen::~DeviceMemoryOpen()
{
    if (!outermost) return;
    for (const auto &entry : live) check_canaries(entry.second);
    protect_device_memory(PROT_NONE);
}

void describe_live_memory()
{
    for (const auto &entry : live) remark("still alive: %s", name_of(entry.second).c_str());
}

} // namespace s4_emulation
