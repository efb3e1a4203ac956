/*
 * The three ways to do a step (step_linear.c, step_dense.c, step_diagonal.c): how each makes STEP_SYSTEM of a channel, and runs
 * rows by it at an instruction level.
 */
#ifndef CPU_STEP_H
#define CPU_STEP_H

#include "cpu/level/step.h"
#include "cpu/place.h"

typedef struct cpu_step_way {
    /* Read-outs (M,N) are already in their place, split. 0 with *failure filled. */
    int (*make)(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_lane *lane, double *base,
                cpu_failure *failure);
    int64_t (*rows_before)(const s4_shape *shape); /* rows (N) of the system before its read-outs */
    /* dA, dB and C of a channel whose STEP_SYSTEM is `base`, and the shape's sizes; nothing of a row */
    cpu_recurrence (*open)(const s4_shape *shape, const double *base);
    void (*run)(const cpu_stepper *level, const cpu_recurrence *row);
} cpu_step_way;

extern const cpu_step_way cpu_way_linear, cpu_way_dense, cpu_way_diagonal;
/* make is NULL where there is no such way. */
const cpu_step_way *cpu_step_way_of(const s4_shape *shape);

static inline cpu_recurrence cpu_recurrence_of(const s4_shape *shape)
{
    return (cpu_recurrence){.modes = shape->modes,
                            .rank = shape->rank,
                            .channels = shape->channels,
                            .dtype = shape->dtype,
                            .d_output = shape->d_model};
}

#endif
