/* Rows of the convolution at one instruction level, in both precisions: ring_typed.h and convolve_typed.h, once for
 * each. */
#include <math.h>
#include <string.h>

#include "cpu/level/ring.h"
#include "cpu/level/transpose.h"

#define REAL float
#define VECTOR cpu_floats
#define STORED cpu_floats_stored
#define LANES CPU_FLOATS
#define GROUP 4
#define TYPED(name) name##_f32
#include "cpu/level/ring_typed.h"
#include "cpu/level/stage_typed.h"
#include "cpu/level/convolve_typed.h"
#undef REAL
#undef VECTOR
#undef STORED
#undef LANES
#undef GROUP
#undef TYPED
#undef UNITS
#undef INLINE
#undef BLOCK_REALS

#define REAL double
#define VECTOR cpu_doubles
#define STORED cpu_doubles_stored
#define LANES CPU_DOUBLES
#define GROUP 2
#define TYPED(name) name##_f64
#include "cpu/level/ring_typed.h"
#include "cpu/level/stage_typed.h"
#include "cpu/level/convolve_typed.h"

const cpu_row_types CPU_AT_LEVEL(cpu_rows_at) = {
    {{sizeof(float), plan_f32, fill_f32, row_f32, stage_in_f32, stage_out_f32, spectrum_f32, correlate_f32, inner_f32},
     {sizeof(double), plan_f64, fill_f64, row_f64, stage_in_f64, stage_out_f64, spectrum_f64, correlate_f64,
      inner_f64}},
};
