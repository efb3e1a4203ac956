/* Finite differences: see derivative.h. */
#include "derivative.h"

#include "expect.h"

static void changed(s4_layer *layer)
{
    if (layer)
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
}

double derivative_of(double (*loss)(session *s, const void *call), session *s, const void *call, s4_layer *layer,
                     double *value)
{
    const double at = *value, step = 1e-3;
    double difference[3];
    for (int i = 0; i < 3; i++) {
        const double h = step * (i + 1);
        *value = at + h;
        changed(layer);
        const double up = loss(s, call);
        *value = at - h;
        changed(layer);
        difference[i] = (up - loss(s, call)) / (2 * h);
    }
    *value = at;
    changed(layer);
    return 1.5 * difference[0] - 0.6 * difference[1] + 0.1 * difference[2];
}
