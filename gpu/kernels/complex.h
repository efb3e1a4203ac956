/* Complex numbers of either precision, as pairs in memory and by hand in registers. */
#ifndef GPU_KERNELS_COMPLEX_H
#define GPU_KERNELS_COMPLEX_H

#include "gpu/kernels/grid.h"

template <typename T> struct complex_in {
    using real = T;
    T re, im;
};
using complex_d = complex_in<double>;

template <typename T> static inline __device__ complex_in<T> operator*(complex_in<T> a, complex_in<T> b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
/* The factor is rounded to the precision of the number. */
template <typename T>
static inline __device__ complex_in<T> operator*(typename complex_in<T>::real a, complex_in<T> b)
{
    return {a * b.re, a * b.im};
}
template <typename T> static inline __device__ complex_in<T> operator-(complex_in<T> a, complex_in<T> b)
{
    return {a.re - b.re, a.im - b.im};
}
template <typename T> static inline __device__ complex_in<T> conj(complex_in<T> a) { return {a.re, -a.im}; }
template <typename T> static inline __device__ T norm(complex_in<T> a) { return a.re * a.re + a.im * a.im; }
template <typename T> static inline __device__ complex_in<T> inverse(complex_in<T> a)
{
    const T scale = 1 / norm(a);
    return {a.re * scale, -a.im * scale};
}
template <typename T> static inline __device__ void add(complex_in<T> &sum, complex_in<T> term)
{
    sum.re += term.re;
    sum.im += term.im;
}

/* In another precision, or in its own. */
template <typename T, typename F> static inline __device__ complex_in<T> complex_cast(complex_in<F> a)
{
    return {T(a.re), T(a.im)};
}

template <typename T> static inline __device__ complex_in<T> load_complex(const T *pairs, int64_t index)
{
    const complex_of<T> z = reinterpret_cast<const complex_of<T> *>(pairs)[index];
    return {z.x, z.y};
}
template <typename T> static inline __device__ void store_complex(T *pairs, int64_t index, complex_in<T> z)
{
    reinterpret_cast<complex_of<T> *>(pairs)[index] = complex_value<T>(z.re, z.im);
}

/* Neither infinite nor not a number. */
template <typename T> static inline __device__ bool is_finite(T x) { return x - x == 0; }

/* Keeps the smallest index of what is not finite; from all ones. Nobody asks if `first` is null. */
static inline __device__ void report_index(unsigned long long *first, int64_t index)
{
    if (first) atomicMin(first, static_cast<unsigned long long>(index));
}

#endif
