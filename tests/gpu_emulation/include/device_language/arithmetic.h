/* The mathematical functions and intrinsics that CUDA has and <math.h> lacks.
 * Their accuracy is that of the host's libm, not the GPU's: compare with
 * tolerances. */
#ifndef S4_EMULATION_ARITHMETIC_H
#define S4_EMULATION_ARITHMETIC_H

/* CUDA's min and max are global and take mixed types. */
template <typename A, typename B, typename = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
static constexpr std::common_type_t<A, B> min(A a, B b)
{
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>)
        return std::isnan(T(a)) || T(b) < T(a) ? T(b) : T(a); /* fmin: a number wins over NaN */
    else
        return T(b) < T(a) ? T(b) : T(a);
}
template <typename A, typename B, typename = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
static constexpr std::common_type_t<A, B> max(A a, B b)
{
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>)
        return std::isnan(T(a)) || T(a) < T(b) ? T(b) : T(a);
    else
        return T(a) < T(b) ? T(b) : T(a);
}

static inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
static inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
static inline float rsqrt(float x) { return rsqrtf(x); }

/* sin(pi x) and cos(pi x): exact reduction to a quarter turn around a multiple of
 * a half turn, so that multiples of 1/2 give exactly 0, 1 or -1. */
static inline void sincospi(double x, double *s, double *c)
{
    const double turns = std::fmod(x, 2.0), quarters = std::rint(2.0 * turns);
    const double angle = (turns - 0.5 * quarters) * 3.14159265358979323846;
    const double sine = std::sin(angle), cosine = std::cos(angle);
    switch (int(quarters) & 3) {
    case 0:
        *s = sine, *c = cosine;
        break;
    case 1:
        *s = cosine, *c = -sine;
        break;
    case 2:
        *s = -sine, *c = -cosine;
        break;
    default:
        *s = -cosine, *c = sine;
        break;
    }
}
static inline void sincospif(float x, float *s, float *c)
{
    double sine, cosine;
    sincospi(double(x), &sine, &cosine);
    *s = float(sine);
    *c = float(cosine);
}
static inline double sinpi(double x)
{
    double s, c;
    sincospi(x, &s, &c);
    return s;
}
static inline double cospi(double x)
{
    double s, c;
    sincospi(x, &s, &c);
    return c;
}
static inline float sinpif(float x) { return float(sinpi(double(x))); }
static inline float cospif(float x) { return float(cospi(double(x))); }

/* Fast approximations; libm already owns the reserved names, hence macros. */
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __sincosf(x, s, c) sincosf(x, s, c)
static inline float __fdividef(float a, float b) { return a / b; }

/* Operations that must not be contracted: nothing is, on the host. */
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __frcp_rn(float a) { return 1.0f / a; }
static inline float __fsqrt_rn(float a) { return std::sqrt(a); }
static inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __drcp_rn(double a) { return 1.0 / a; }
static inline double __dsqrt_rn(double a) { return std::sqrt(a); }
static inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }

/* Loads and stores with cache hints. */
template <typename T> static inline T __ldg(const T *p) { return *p; }
template <typename T> static inline T __ldca(const T *p) { return *p; }
template <typename T> static inline T __ldcg(const T *p) { return *p; }
template <typename T> static inline T __ldcs(const T *p) { return *p; }
template <typename T> static inline void __stcg(T *p, T v) { *p = v; }
template <typename T> static inline void __stcs(T *p, T v) { *p = v; }

/* Bits. */
namespace s4_emulation
{
template <typename To, typename From> inline To bit_cast(From from)
{
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
} // namespace s4_emulation
static inline int __float_as_int(float x) { return s4_emulation::bit_cast<int>(x); }
static inline unsigned __float_as_uint(float x) { return s4_emulation::bit_cast<unsigned>(x); }
static inline float __int_as_float(int x) { return s4_emulation::bit_cast<float>(x); }
static inline float __uint_as_float(unsigned x) { return s4_emulation::bit_cast<float>(x); }
static inline long long __double_as_longlong(double x) { return s4_emulation::bit_cast<long long>(x); }
static inline double __longlong_as_double(long long x) { return s4_emulation::bit_cast<double>(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x)
{
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (x >> i & 1u) << (31 - i);
    return r;
}

#endif
