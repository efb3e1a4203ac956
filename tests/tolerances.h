/*
 * Every tolerance of the tests, each with its reason. All are relative to the largest absolute value of what is
 * expected; comparisons are written !(error <= tolerance), so that NaN fails.
 */
#ifndef S4_TEST_TOLERANCES_H
#define S4_TEST_TOLERANCES_H

/* Double precision against the golden files and the reference: their own formulas agree to 1e-13. */
#define TOLERANCE_FORWARD 1e-12
/* Two and more low-rank columns: the R x R solve of the Woodbury identity loses one digit. */
#define TOLERANCE_FORWARD_RANK 1e-11
/* Gradients of golden files: sums over modes, frequencies and batch, in the published code too. */
#define TOLERANCE_GRADIENT 1e-10
/* Layers with a mode at Lambda = -1e-4 (1 + i): their published gradient of A_imag is good to 5e-10 itself. */
#define TOLERANCE_GRADIENT_FOURIER 1e-8
/* Gradients against finite differences extrapolated to sixth order in long double, on top of what the reference
 * itself says that it misses. */
#define TOLERANCE_GRADIENT_DIFFERENCE 1e-10
/* The same where (e^a - 1)/a of a definition in long double has lost digits: a of 1e-7, and differences of it. */
#define TOLERANCE_GRADIENT_NEAR_ZERO 1e-7
/* A gradient smaller than this part of the case's largest one is compared against that floor: at length 1 the
 * gradient of inv_dt is exactly 0 and what is computed is rounding of larger terms. */
#define FLOOR_GRADIENT 1e-9

/* Single precision. The kernel is computed in double and rounded once: half a unit in the last place, and the double
 * error. */
#define TOLERANCE_F32_KERNEL 1.2e-7
/* Output through single-precision FFTs: some sixteen roundings of 6e-8. */
#define TOLERANCE_F32_OUTPUT 2e-6
/* Convolution against the direct sum done in single precision: FFTs spread the error of the largest sample over
 * the row, hence a small factor over the error of the direct sum, which is at least one rounding. */
#define FACTOR_F32_CONVOLVE 8.0
#define ROUNDING_F32 6e-8
/* Gradients: u, dy and the spectra are single; the sums over the batch and the parameters are double. */
#define TOLERANCE_F32_GRADIENT 1e-4

/* Convolution against recurrence on a LegS layer (N = 64, L = 1024): the condition of its set-up. */
#define TOLERANCE_CONVOLVE_STEP 1e-10
#define TOLERANCE_F32_CONVOLVE_STEP 2e-4
/* The same states by another grouping of sums (dense against linear steps, states through a convolution). */
#define TOLERANCE_STATE 1e-11

/* C~ back to C without a kept C, and from C~ to another length: the condition of I - dA^L of the test's layers,
 * which is under 1e3. */
#define TOLERANCE_UNDO 1e-11
/* Powers by displacement structure, of max(1, |dA^L|): dense ones in double miss 3e-13 at L = 1000. */
#define TOLERANCE_STRUCTURED_POWER 5e-13
/* Powers of dA by repeated squaring against plain repeated multiplication. */
#define TOLERANCE_POWER 1e-12
/* The same at dt = 1e-5, N = 64: the condition of I - dA^L is 1e5 and more. */
#define TOLERANCE_UNDO_SLOW 1e-9
/* HiPPO-LegS: eigenvectors of a symmetric problem. The digits given by hand end at 1e-15. */
#define TOLERANCE_INIT 1e-12
/* Sums whose terms are of one sign and exact (the norms of P and B). */
#define TOLERANCE_ROUNDING 1e-14

/* A recurrence in eigenvectors of dA, of condition under 1e4. */
#define TOLERANCE_STEP_DIAGONAL 1e-11
/* FFTs that were measured against those that were not: other orders of the same sums. */
#define TOLERANCE_TUNED 1e-14
#define TOLERANCE_F32_TUNED 2e-6

/* The two places against each other in double: another FFT, another order of sums, another mathematical library. */
#define TOLERANCE_PLACES 1e-13
#define TOLERANCE_PLACES_GRADIENT 1e-12
/* Kernels of both places: R x R solves and powers of many turns on top. */
#define TOLERANCE_PLACES_KERNEL 1e-12
/* Single precision: kernels that differ in the last place, through the same FFTs. */
#define TOLERANCE_F32_PLACES 1e-5

/* Linearity of f64 convolution: two roundings of the transform. */
#define TOLERANCE_LINEAR 1e-14
/* What a causal convolution by FFT leaves before an impulse: rounding of the transform. */
#define TOLERANCE_CAUSAL 1e-15
#define TOLERANCE_F32_CAUSAL 1e-6
/* Files: text and f32 conversions are exact; nothing to tolerate there. */

#endif
