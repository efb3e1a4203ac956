/* Complex numbers in double, as pairs in memory and by hand in registers. */
#ifndef GPU_KERNELS_COMPLEX_H
#define GPU_KERNELS_COMPLEX_H

#include "gpu/kernels/grid.h"

struct complex_d {
    double re, im;
};
static inline __device__ complex_d operator*(complex_d a, complex_d b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
static inline __device__ complex_d operator*(double a, complex_d b) { return {a * b.re, a * b.im}; }
static inline __device__ complex_d operator-(complex_d a, complex_d b) { return {a.re - b.re, a.im - b.im}; }
static inline __device__ complex_d conj(complex_d a) { return {a.re, -a.im}; }
static inline __device__ double norm(complex_d a) { return a.re * a.re + a.im * a.im; }
static inline __device__ complex_d inverse(complex_d a)
{
    const double scale = 1 / norm(a);
    return {a.re * scale, -a.im * scale};
}
static inline __device__ void add(complex_d &sum, complex_d term)
{
    sum.re += term.re;
    sum.im += term.im;
}

static inline __device__ complex_d load_complex(const double *pairs, int64_t index)
{
    const double2 z = reinterpret_cast<const double2 *>(pairs)[index];
    return {z.x, z.y};
}
static inline __device__ void store_complex(double *pairs, int64_t index, complex_d z)
{
    reinterpret_cast<double2 *>(pairs)[index] = make_double2(z.re, z.im);
}

/* Neither infinite nor not a number. */
static inline __device__ bool is_finite(double x) { return x - x == 0; }

/* Keeps the smallest index of what is not finite; from all ones. Nobody asks if `first` is null. */
static inline __device__ void report_index(unsigned long long *first, int64_t index)
{
    if (first) atomicMin(first, static_cast<unsigned long long>(index));
}

#endif
