/* The first element in which two places differ, or that is not finite. */
#include <math.h>

#include "s4/errors.h"
#include "s4/shadow.h"

static double value_at(s4_dtype dtype, const void *values, int64_t i)
{
    return dtype == S4_F32 ? (double)((const float *)values)[i] : ((const double *)values)[i];
}

s4_status s4_shadow_compare(const s4_comparison *c)
{
    double largest = c->least_scale;
    for (int64_t i = 0; i < c->count; i++) {
        double expected = fabs(value_at(c->dtype, c->expected, i));
        if (expected > largest) largest = expected;
    }
    for (int64_t i = 0; i < c->count; i++) {
        double made = value_at(c->dtype, c->made, i), expected = value_at(c->dtype, c->expected, i);
        int finite = isfinite(made) && isfinite(expected);
        if (finite && fabs(made - expected) <= c->tolerance * largest) continue;
        return s4_fail(S4_ERROR_MISMATCH, "operation %s: %s[%lld] is %.17g on the gpu, %.17g on the cpu%s", c->operation,
                       c->tensor, (long long)(c->first + i), made, expected,
                       finite ? "" : " (not finite)");
    }
    return S4_OK;
}
