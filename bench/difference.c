/* Comparison of arrays of either dtype. */
#include "difference.h"

#include <math.h>

double larger(double a, double b)
{
    if (isnan(a)) return a;
    return b <= a ? a : b; /* b if it is not a number */
}

double element(s4_dtype dtype, const void *data, int64_t index)
{
    return dtype == S4_F32 ? (double)((const float *)data)[index] : ((const double *)data)[index];
}

void difference_add(struct difference *difference, s4_dtype a_dtype, const void *a, s4_dtype b_dtype, const void *b,
                    int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double x = element(a_dtype, a, i), y = element(b_dtype, b, i);
        difference->error = larger(difference->error, fabs(x - y));
        difference->scale = larger(difference->scale, fabs(y));
    }
}

double difference_relative(const struct difference *difference)
{
    return difference->scale > 0 ? difference->error / difference->scale : difference->error;
}
