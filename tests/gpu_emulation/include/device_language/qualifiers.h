/* Function and variable qualifiers of the device language. */
#ifndef S4_EMULATION_QUALIFIERS_H
#define S4_EMULATION_QUALIFIERS_H

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __grid_constant__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)

/* A block runs on one thread of the host, so thread storage is block storage. At
 * block scope `thread_local T x[8]` implies static and `extern thread_local T x[]`
 * is a declaration: one word serves static and dynamic shared memory. */
#define __shared__ thread_local

#endif
