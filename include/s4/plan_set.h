/*
 * s4_plan_set: the memory of a whole model from the plans of its layers, before any of it runs. The layers execute one
 * after the other in one workspace; each has its own parameters, and its own input where the backward pass needs it again.
 */
#ifndef S4_PLAN_SET_H
#define S4_PLAN_SET_H

#include "plan.h"

S4_BEGIN_DECLS

typedef struct s4_plan_set_entry {
    const s4_plan *plan; /* need not be prepared */
    int64_t layers;      /* that execute this plan, >= 0; 0: a further plan of layers that another entry counts */
    int keeps_input;     /* 1: u, and state_in of a plan with states, stay from forward to backward */
} s4_plan_set_entry;

/* Bytes, by s4_place. Raw parameters and tensors of the caller are on the host in this version. Not in it: y, dy and du,
 * which other layers share, the plain C that a layer keeps beside C~, and the plans' reserves. */
typedef struct s4_plan_set_info {
    int64_t parameters[S4_PLACE_COUNT]; /* in double; of training plans twice, with their gradients */
    int64_t kept[S4_PLACE_COUNT];       /* between forward and backward */
    int64_t workspace[S4_PLACE_COUNT];  /* one that serves every plan: the largest of their peaks */
    int64_t peak[S4_PLACE_COUNT];       /* the sum of the three */
} s4_plan_set_info;

/* Arithmetic only. `count` entries, 0 and more. S4_ERROR_ARGUMENT names the entry and its field, or says that the bytes
 * leave the range of 64 bits; *info is as it was then. */
S4_API s4_status s4_plan_set_describe(const s4_plan_set_entry *entries, int64_t count, s4_plan_set_info *info);

S4_END_DECLS
#endif
