/*
 * Complex numbers, and the functions of a = dt Lambda that the zero-order hold of a diagonal system needs, exact near a = 0:
 *   e^a,   e^a - 1,   phi1(a) = (e^a - 1)/a,   phi1'(a) = (e^a - phi1(a))/a.
 * A result that overflows is not finite.
 */
#ifndef CPU_PHI_H
#define CPU_PHI_H

#include <stdint.h>

typedef struct cpu_complex {
    double re, im;
} cpu_complex;

static inline cpu_complex cpu_times(cpu_complex x, cpu_complex y)
{
    return (cpu_complex){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
static inline cpu_complex cpu_conjugate(cpu_complex x) { return (cpu_complex){x.re, -x.im}; }

/* Entry n of a split vector (2,stride): real parts, then imaginary ones. */
static inline cpu_complex cpu_split_at(const double *split, int64_t stride, int64_t n)
{
    return (cpu_complex){split[n], split[stride + n]};
}
static inline void cpu_split_put(double *split, int64_t stride, int64_t n, cpu_complex value)
{
    split[n] = value.re;
    split[stride + n] = value.im;
}

/* x / y, without overflow in between. */
cpu_complex cpu_quotient(cpu_complex x, cpu_complex y);

/* base^exponent, exponent >= 0, by squaring (discretise.c). */
cpu_complex cpu_complex_power(cpu_complex base, int64_t exponent);

cpu_complex cpu_exp(cpu_complex a);
cpu_complex cpu_expm1(cpu_complex a);
cpu_complex cpu_phi1(cpu_complex a);
cpu_complex cpu_phi1_slope(cpu_complex a);

#endif
