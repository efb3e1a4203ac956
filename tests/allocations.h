/*
 * Counts the allocations of the whole process, and lets one of them fail. The functions of the C library are replaced
 * in the test program that links this.
 */
#ifndef S4_TEST_ALLOCATIONS_H
#define S4_TEST_ALLOCATIONS_H

#include <stdint.h>

/* 0 where they cannot be replaced (another C library; under sanitizers, which replace them themselves). */
int allocations_supported(void);
/* From here on, of all threads; ends with the count. Neither counted nor made to fail are those that FFTW and the BLAS
 * make themselves (scratch inside some transforms, part of the reserve that plans state) and those of threads being made. */
void allocations_begin(void);
long allocations_end(void);
/* Bytes asked for by the allocations counted since the last begin: those that still live, also after the end, and the most
 * at a time. */
int64_t allocations_held(void);
int64_t allocations_peak(void);
/* The nth allocation from now on (1 = the next) of this thread fails; 0 takes it back. Tells whether it was reached. */
void allocations_fail(long nth);
int allocations_failed(void);

#endif
