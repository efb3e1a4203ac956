/*
 * What a layer is, from its definition and in long double, for every option that it can have: kernels one mode and one
 * sample at a time, outputs by direct sums. Independent of the library, except that it reads raw parameters out of a
 * layer. DPLR layers go through tests/reference.
 */
#ifndef S4_TEST_NAIVE_H
#define S4_TEST_NAIVE_H

#include "session.h"

/* K (K,H,L) at step rate * dt, from the plain C that the layer stores. */
double *naive_kernels(s4_layer *layer, double rate, int64_t L);

/* y (B,channels*H,T) of those kernels and the layer's D; lengths (B) or NULL as in s4_forward_io. */
double *naive_output(s4_layer *layer, int64_t L, const double *K, int64_t B, int64_t T, const double *u,
                     const int64_t *lengths);

/* Gradients of sum(y G). Diagonal layers, of plain C: finite differences of the above, extrapolated to sixth order. DPLR
 * layers, of the C~ of length L that the layer stores: those of the reference, kernel by kernel, where a backward kernel
 * is a forward one of the samples in reverse. Bandlimits too. */
gradients naive_gradients(s4_layer *layer, int64_t L, int64_t B, int64_t T, const double *u, const double *G);

#endif
