/* From a value to the raw parameter whose transform it is. */
#ifndef S4_TRANSFORM_INVERSE_H
#define S4_TRANSFORM_INVERSE_H

#include "s4/types.h"

/* Where a transform must be above 0 and have a slope, a raw parameter starts at this value at least. */
#define S4_TRANSFORM_FLOOR 1e-4

/* *raw with transform(*raw) = value. Transforms other than none reach positive values only: a value below `floor` (0:
 * no clamp) is moved up to it; relu, which has no slope at raw <= 0, to raw = floor. 0 if the transform cannot reach
 * the value: *raw is undefined then; else 1. */
int s4_transform_inverse(s4_transform transform, double value, double floor, double *raw);

#endif
