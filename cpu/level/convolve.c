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
#undef FACTOR_REALS
#undef LONG_ROW_BYTES
#undef BLOCKS_AHEAD

#define REAL double
#define VECTOR cpu_doubles
#define STORED cpu_doubles_stored
#define LANES CPU_DOUBLES
#define GROUP 2
#define TYPED(name) name##_f64
#include "cpu/level/ring_typed.h"
#include "cpu/level/stage_typed.h"
#include "cpu/level/convolve_typed.h"

#define TABLE(suffix, real)                                                                                            \
    {                                                                                                                  \
        .size = sizeof(real), .plan = plan_##suffix, .fill = fill_##suffix, .row = row_##suffix,                       \
        .stage_in = stage_in_##suffix, .stage_out = stage_out_##suffix, .spectrum = spectrum_##suffix,                 \
        .correlate = correlate_##suffix, .round = round_##suffix, .inner = inner_##suffix                              \
    }

const cpu_row_types CPU_AT_LEVEL(cpu_rows_at) = {
    .dtype = {[S4_F32] = TABLE(f32, float), [S4_F64] = TABLE(f64, double)},
};
