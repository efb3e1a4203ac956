/* Barriers, votes and shuffles. The work is done in src/collectives.cpp, which a
 * race detector never sees; what is here only gives types and lane numbers. */
#ifndef S4_EMULATION_COLLECTIVES_H
#define S4_EMULATION_COLLECTIVES_H

namespace s4_emulation
{

enum class Vote { none, any, all, ballot, count };

unsigned block_barrier(Vote vote, bool yes, Site where);
std::uint64_t warp_exchange(unsigned mask, std::uint64_t bits, unsigned from_lane, Site where);
unsigned warp_vote(unsigned mask, Vote vote, bool yes, Site where);
void warp_barrier(unsigned mask, Site where);
void thread_fence();
[[noreturn]] void device_trap(Site where);

template <typename T> inline T shuffle(unsigned mask, T value, unsigned from_lane, Site where)
{
    static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8),
                  "a shuffle moves scalars of 4 or 8 bytes");
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = warp_exchange(mask, bits, from_lane, where);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

/* The first lane of the caller's segment of `width` lanes. */
inline unsigned segment(int width) { return lane & ~unsigned(width - 1); }

} // namespace s4_emulation

static inline void __syncthreads(S4_EMULATION_SITE)
{
    s4_emulation::block_barrier(s4_emulation::Vote::none, false, S4_EMULATION_HERE);
}
static inline int __syncthreads_count(int p, S4_EMULATION_SITE)
{
    return int(s4_emulation::block_barrier(s4_emulation::Vote::count, p != 0, S4_EMULATION_HERE));
}
static inline int __syncthreads_and(int p, S4_EMULATION_SITE)
{
    return int(s4_emulation::block_barrier(s4_emulation::Vote::all, p != 0, S4_EMULATION_HERE));
}
static inline int __syncthreads_or(int p, S4_EMULATION_SITE)
{
    return int(s4_emulation::block_barrier(s4_emulation::Vote::any, p != 0, S4_EMULATION_HERE));
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, S4_EMULATION_SITE)
{
    s4_emulation::warp_barrier(mask, S4_EMULATION_HERE);
}
static inline unsigned __ballot_sync(unsigned mask, int p, S4_EMULATION_SITE)
{
    return s4_emulation::warp_vote(mask, s4_emulation::Vote::ballot, p != 0, S4_EMULATION_HERE);
}
static inline int __any_sync(unsigned mask, int p, S4_EMULATION_SITE)
{
    return int(s4_emulation::warp_vote(mask, s4_emulation::Vote::any, p != 0, S4_EMULATION_HERE));
}
static inline int __all_sync(unsigned mask, int p, S4_EMULATION_SITE)
{
    return int(s4_emulation::warp_vote(mask, s4_emulation::Vote::all, p != 0, S4_EMULATION_HERE));
}
static inline void __threadfence() { s4_emulation::thread_fence(); }
static inline void __threadfence_block() { s4_emulation::thread_fence(); }
[[noreturn]] static inline void __trap(S4_EMULATION_SITE) { s4_emulation::device_trap(S4_EMULATION_HERE); }

template <typename T> static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32, S4_EMULATION_SITE)
{
    const unsigned source = s4_emulation::segment(width) + (unsigned(from) & unsigned(width - 1));
    return s4_emulation::shuffle(mask, value, source, S4_EMULATION_HERE);
}
template <typename T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, S4_EMULATION_SITE)
{
    const unsigned own = s4_emulation::lane, source = own + delta;
    const bool inside = source < s4_emulation::segment(width) + unsigned(width);
    return s4_emulation::shuffle(mask, value, inside ? source : own, S4_EMULATION_HERE);
}
template <typename T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, S4_EMULATION_SITE)
{
    const unsigned own = s4_emulation::lane;
    const bool inside = own >= s4_emulation::segment(width) + delta;
    return s4_emulation::shuffle(mask, value, inside ? own - delta : own, S4_EMULATION_HERE);
}
template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, S4_EMULATION_SITE)
{
    const unsigned own = s4_emulation::lane, source = own ^ unsigned(bits);
    const bool inside = source < s4_emulation::segment(width) + unsigned(width);
    return s4_emulation::shuffle(mask, value, inside ? source : own, S4_EMULATION_HERE);
}

#endif
