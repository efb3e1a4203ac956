/*
 * Sums of the generating function with the frequencies of a tile in the lanes of vectors: over the modes, to K^; and,
 * of the gradient, over the frequencies. Per mode and frequency there is one division, 1 / den, which all pairs share
 * and the gradient finds in the scratch of its tile. Formulas in cpu/cauchy.h and cpu/kernel_backward.c.
 *
 * The sums of a group of pairs stay in registers; a group is as many pairs as these have room for.
 *
 * In single precision the real parts of denominators are double all the same, up to their rounding: they are differences,
 * small where a mode resonates, and that is where K^ is large.
 */
#include "cpu/level/cauchy.h"

#include <string.h>

#include "cpu/level/elementary.h"
#include "s4/layer.h"

#define PI 3.14159265358979323846
#define INLINE static inline __attribute__((always_inline))

#if CPU_VECTOR_BYTES == 64
#define GROUP 4
#else
#define GROUP 2
#endif
#define VECTORS (CPU_TILE / LANES) /* of a tile */

/* Angles pi k / L of the frequencies from `first` on; beyond the last, L/2, the last is repeated. An angle is measured
 * from the nearer end of [0, pi/2], so that both functions have full relative precision and the cosine at Nyquist (k =
 * L/2) is 0, the sine 1, exactly. */
static void make_angles(const cpu_cauchy *work, int64_t first)
{
    cpu_doubles length = cpu_all_doubles((double)work->length), last = cpu_all_doubles((double)(work->length / 2));
    for (int64_t vector = 0; vector < CPU_TILE / CPU_DOUBLES; vector++) {
        cpu_doubles k = cpu_counting_doubles((double)(first + vector * CPU_DOUBLES));
        k = cpu_select_doubles((cpu_masks)(k < last), k, last);
        cpu_doubles from_zero = 2.0 * k, from_nyquist = length - from_zero;
        cpu_masks low = (cpu_masks)(from_zero <= from_nyquist);
        cpu_doubles s, c;
        cpu_sine_cosine(PI * cpu_select_doubles(low, from_zero, from_nyquist) / (2.0 * length), &s, &c);
        cpu_doubles sine = cpu_select_doubles(low, s, c), cosine = cpu_select_doubles(low, c, s);
        double *at = work->angle + vector * CPU_DOUBLES;
        cpu_store_doubles(at, sine);
        cpu_store_doubles(at + CPU_TILE, cosine);
        cpu_store_doubles(at + 2 * CPU_TILE, sine * sine);
        cpu_store_doubles(at + 3 * CPU_TILE, cosine * cosine);
        cpu_store_doubles(at + 4 * CPU_TILE, sine * cosine);
    }
}

/* den = c^2 |w|^2 / 4 - S^2 - i S c Re w; term: Re w, |w|^2 / 4. Its real part at a vector of angles: */
INLINE cpu_doubles den_re(const double *angle, const double *term)
{
    cpu_doubles sine_squared = cpu_load_doubles(angle + 2 * CPU_TILE);
    return cpu_load_doubles(angle + 3 * CPU_TILE) * term[1] - sine_squared;
}

#define REAL double
#define VECTOR cpu_doubles
#define STORED cpu_doubles_stored
#define MASKS cpu_masks
#define SIZE_BITS INT64_MAX
#define LANES CPU_DOUBLES
#define TYPED(name) name##_f64
#include "cpu/level/woodbury_typed.h"
INLINE cpu_doubles den_re_f64(const double *angle, const double *term) { return den_re(angle, term); }
#include "cpu/level/cauchy_typed.h"
#include "cpu/level/cauchy_gradient_typed.h"
#undef REAL
#undef VECTOR
#undef STORED
#undef MASKS
#undef SIZE_BITS
#undef LANES
#undef TYPED
#undef COMPLEXES

#define REAL float
#define VECTOR cpu_floats
#define STORED cpu_floats_stored
#define MASKS cpu_float_masks
#define SIZE_BITS INT32_MAX
#define LANES CPU_FLOATS
#define TYPED(name) name##_f32
#include "cpu/level/woodbury_typed.h"
INLINE cpu_floats den_re_f32(const double *angle, const double *term)
{
    return cpu_rounded_floats(den_re(angle, term), den_re(angle + CPU_DOUBLES, term));
}
#include "cpu/level/cauchy_typed.h"
#include "cpu/level/cauchy_gradient_typed.h"

const cpu_cauchy_level CPU_AT_LEVEL(cpu_cauchy_at) = {
    .of = {[S4_F32] = {.spectrum = spectrum_f32, .gradient = gradient_f32},
           [S4_F64] = {.spectrum = spectrum_f64, .gradient = gradient_f64}},
};
