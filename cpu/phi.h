/*
 * Complex functions of a = dt Lambda that the zero-order hold of a diagonal system needs, exact near a = 0:
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
/* x / y, without overflow in between. */
cpu_complex cpu_quotient(cpu_complex x, cpu_complex y);

/* base^exponent, exponent >= 0, by squaring (discretise.c). */
cpu_complex cpu_complex_power(cpu_complex base, int64_t exponent);

cpu_complex cpu_exp(cpu_complex a);
cpu_complex cpu_expm1(cpu_complex a);
cpu_complex cpu_phi1(cpu_complex a);
cpu_complex cpu_phi1_slope(cpu_complex a);

#endif
