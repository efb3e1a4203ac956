/* Blocks of a plan under budgets. */
#ifndef S4_BUDGET_H
#define S4_BUDGET_H

#include "s4/plan_object.h"

/* Sets resident, block_channels and block_batch of the shape and fills the map; minimum[place] are the smallest
 * budgets. S4_ERROR_OUT_OF_BUDGET tells needed, given and the largest batch. The problem has its algorithm; `asked` is what
 * the caller said. */
s4_status s4_budget_choose(const s4_problem *problem, s4_algorithm asked, s4_shape *shape, s4_map *map,
                           int64_t *minimum);

#endif
