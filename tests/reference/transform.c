/* The map from raw to effective parameters and its slope (maths: "Raw parameters and transforms").
 */
#include <math.h>

#include "reference_internal.h"

static const ref_real relu_floor = 1e-4L;

ref_real ref_transform_real(enum ref_transform transform, ref_real raw)
{
    switch (transform) {
    case REF_TRANSFORM_NONE:
        return raw;
    case REF_TRANSFORM_EXP:
        return expl(raw);
    case REF_TRANSFORM_RELU:
        return (raw > 0 ? raw : 0) + relu_floor;
    case REF_TRANSFORM_SIGMOID:
        return 1 / (1 + expl(-raw));
    case REF_TRANSFORM_SOFTPLUS: /* log(1 + e^raw) without overflow */
        return (raw > 0 ? raw : 0) + log1pl(expl(-fabsl(raw)));
    }
    ref_check(0, "unknown transform");
    return 0;
}

double ref_transform(enum ref_transform transform, double raw)
{
    return (double)ref_transform_real(transform, raw);
}

double ref_transform_derivative(enum ref_transform transform, double raw)
{
    ref_real s;
    switch (transform) {
    case REF_TRANSFORM_NONE:
        return 1;
    case REF_TRANSFORM_EXP:
        return (double)expl(raw);
    case REF_TRANSFORM_RELU:
        return raw > 0 ? 1 : 0;
    case REF_TRANSFORM_SIGMOID:
        s = 1 / (1 + expl(-(ref_real)raw));
        return (double)(s / (1 + expl(raw)));
    case REF_TRANSFORM_SOFTPLUS:
        return (double)(1 / (1 + expl(-(ref_real)raw)));
    }
    ref_check(0, "unknown transform");
    return 0;
}
