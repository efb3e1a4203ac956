/* Problems that plans are made of. */
#ifndef S4_TEST_PLAN_CASES_H
#define S4_TEST_PLAN_CASES_H

#include "s4/s4.h"

/* A small problem in f32, at the place of the environment. */
s4_problem plan_problem(s4_direction direction);
/* Runs `check_plan` over plans of all kinds of layers and directions, several sizes, and budgets from the minimum up. */
void over_plans(void (*check_plan)(const s4_plan *plan, const s4_plan_info *info));

#endif
