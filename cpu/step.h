/* A row (b,h) of the recurrence, as the three ways to do a step hand it to the instruction level (level/step.h). */
#ifndef CPU_STEP_H
#define CPU_STEP_H

#include "cpu/level/step.h"
#include "cpu/place.h"

/* All but what a way keeps in STEP_SYSTEM. */
static inline cpu_recurrence cpu_recurrence_of(const cpu_step_row *row)
{
    const s4_shape *shape = row->shape;
    return (cpu_recurrence){.modes = shape->modes,
                            .rank = shape->rank,
                            .channels = shape->channels,
                            .dtype = shape->dtype,
                            .d = row->d,
                            .d_output = shape->d_model,
                            .u = row->u,
                            .y = row->y,
                            .u_time = row->u_time,
                            .y_output = row->y_output,
                            .y_time = row->y_time,
                            .length = row->length,
                            .x = row->x,
                            .scratch = row->scratch};
}

#endif
