/* The four calls that come before any computing. */
#include "execution.h"

s4_status execution_open(struct execution *execution, s4_context *context, const s4_problem *problem,
                         const s4_layer *layer)
{
    execution->plan = NULL;
    execution->workspace = NULL;
    s4_problem chosen = *problem;
    s4_status status = s4_placement_choose(context, &chosen);
    if (!status) status = s4_plan_create(&chosen, &execution->plan);
    if (!status) status = s4_plan_prepare(execution->plan, context);
    if (!status) status = s4_workspace_create(execution->plan, &execution->workspace);
    if (!status) status = s4_plan_refresh(execution->plan, layer, execution->workspace);
    return status;
}

void execution_close(struct execution *execution)
{
    s4_workspace_destroy(execution->workspace);
    s4_plan_destroy(execution->plan);
    execution->workspace = NULL;
    execution->plan = NULL;
}
