/* Slopes of a loss that a layer's parameters, or anything else in memory, decide. */
#ifndef S4_TEST_DERIVATIVE_H
#define S4_TEST_DERIVATIVE_H

#include "session.h"

/* Of loss(s, call) by *value, which is a parameter of `layer` (NULL: of none, and nothing need be refreshed): central
 * differences at three steps, extrapolated to sixth order. *value is put back. */
double derivative_of(double (*loss)(session *s, const void *call), session *s, const void *call, s4_layer *layer,
                     double *value);

#endif
