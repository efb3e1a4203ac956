/*
 * The rows of the convolution in both precisions: convolve_row_typed.h, once for each.
 */
#include "cpu/convolve_row.h"

#include <string.h>

#define REAL float
#define TYPED(name) name##_f32
#include "cpu/convolve_row_typed.h"
#undef REAL
#undef TYPED

#define REAL double
#define TYPED(name) name##_f64
#include "cpu/convolve_row_typed.h"
#undef REAL
#undef TYPED

const cpu_convolve_row cpu_convolve_rows[] = {
    [S4_F32] = {sizeof(float), spectrum_f32, load_f32, convolve_f32, gradient_f32, adjoint_f32, correlate_f32},
    [S4_F64] = {sizeof(double), spectrum_f64, load_f64, convolve_f64, gradient_f64, adjoint_f64, correlate_f64},
};
