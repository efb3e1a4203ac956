/* Atomics on integers, as real atomics of the host, so that a race detector knows
 * them. There are none on floating-point numbers: a sum would depend on the order
 * in which blocks run, and this library promises the same bits every time. */
#ifndef S4_EMULATION_ATOMICS_H
#define S4_EMULATION_ATOMICS_H

namespace s4_emulation
{

template <typename T, typename F> inline T atomic_update(T *p, F f)
{
    static_assert(std::is_integral_v<T> && sizeof(T) >= 4,
                  "atomics are for integers of 4 or 8 bytes: floating-point ones depend on the order of blocks");
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(p, &old, f(old), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}

/* Keeps the second argument out of template deduction. */
template <typename T> struct Same {
    using type = T;
};
template <typename T> using same = typename Same<T>::type;

} // namespace s4_emulation

template <typename T> static inline T atomicAdd(T *p, s4_emulation::same<T> v)
{
    return s4_emulation::atomic_update(p, [=](T old) { return T(old + v); });
}
template <typename T> static inline T atomicSub(T *p, s4_emulation::same<T> v)
{
    return s4_emulation::atomic_update(p, [=](T old) { return T(old - v); });
}
template <typename T> static inline T atomicMax(T *p, s4_emulation::same<T> v)
{
    return s4_emulation::atomic_update(p, [=](T old) { return old < v ? v : old; });
}
template <typename T> static inline T atomicMin(T *p, s4_emulation::same<T> v)
{
    return s4_emulation::atomic_update(p, [=](T old) { return v < old ? v : old; });
}
template <typename T> static inline T atomicOr(T *p, s4_emulation::same<T> v)
{
    return s4_emulation::atomic_update(p, [=](T old) { return T(old | v); });
}
template <typename T> static inline T atomicAnd(T *p, s4_emulation::same<T> v)
{
    return s4_emulation::atomic_update(p, [=](T old) { return T(old & v); });
}
template <typename T> static inline T atomicExch(T *p, s4_emulation::same<T> v)
{
    return s4_emulation::atomic_update(p, [=](T) { return v; });
}
template <typename T> static inline T atomicCAS(T *p, s4_emulation::same<T> expected, s4_emulation::same<T> v)
{
    return s4_emulation::atomic_update(p, [=](T old) { return old == expected ? v : old; });
}

#endif
