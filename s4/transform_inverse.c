/*
 * Inverses of the five transforms: none x, exp log x, relu x - 1e-4, sigmoid log x - log(1 - x),
 * softplus log(e^x - 1) = x + log(1 - e^-x), which neither overflows nor cancels.
 */
#include "s4/transform_inverse.h"

#include <math.h>

#define RELU_SHIFT 1e-4

static double identity(double x) { return x; }
static double logit(double x) { return log(x) - log1p(-x); }
static double softplus_inverse(double x) { return x + log(-expm1(-x)); }

/* Not of relu, whose clamp is on the other side. */
static double (*const inverses[])(double value) = {
    [S4_TRANSFORM_NONE] = identity,
    [S4_TRANSFORM_EXP] = log,
    [S4_TRANSFORM_SIGMOID] = logit,
    [S4_TRANSFORM_SOFTPLUS] = softplus_inverse,
};

int s4_transform_inverse(s4_transform transform, double value, double floor, double *raw)
{
    if (transform == S4_TRANSFORM_RELU) {
        *raw = fmax(value - RELU_SHIFT, floor);
        return isfinite(*raw) && *raw > 0;
    }
    *raw = inverses[transform](transform == S4_TRANSFORM_NONE ? value : fmax(value, floor));
    return isfinite(*raw) != 0;
}
