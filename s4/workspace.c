/* s4_workspace: takes the blocks that plans execute in. */
#include "s4/workspace_object.h"

#include <stdlib.h>

#include "s4/context_object.h"
#include "s4/errors.h"

#define HOST_ALIGNMENT 64

void s4_workspace_destroy(s4_workspace *workspace)
{
    if (!workspace) return;
    for (int place = 0; place < S4_PLACE_COUNT; place++) {
        if (workspace->owned[place])
            s4_context_release(workspace->context, (s4_place)place, workspace->block[place], workspace->bytes[place]);
        else if (workspace->block[place])
            s4_context_count(workspace->context, (s4_place)place, -(int64_t)workspace->bytes[place]);
    }
    free(workspace);
}

static s4_status make(const s4_plan *plan, void *host_block, s4_workspace **workspace)
{
    s4_workspace *made = calloc(1, sizeof *made);
    if (!made) return s4_fail(S4_ERROR_MEMORY, "no memory for a workspace");
    made->context = plan->context;
    for (int place = 0; place < S4_PLACE_COUNT; place++) {
        size_t bytes = (size_t)plan->map.peak[place];
        if (!bytes) continue;
        if (place == S4_PLACE_CPU && host_block) {
            made->block[place] = host_block;
            s4_context_count(plan->context, S4_PLACE_CPU, (int64_t)bytes);
        } else {
            s4_status status = s4_context_allocate(plan->context, (s4_place)place, bytes, &made->block[place]);
            if (status) {
                s4_workspace_destroy(made);
                return status;
            }
            made->owned[place] = 1;
        }
        made->bytes[place] = bytes;
    }
    *workspace = made;
    return S4_OK;
}

static s4_status check_arguments(const s4_plan *plan, s4_workspace **workspace)
{
    if (!plan || !workspace) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", plan ? "workspace" : "plan");
    *workspace = NULL;
    if (!plan->context) return s4_fail(S4_ERROR_ORDER, "the plan is not prepared: call s4_plan_prepare first");
    return S4_OK;
}

s4_status s4_workspace_create(const s4_plan *plan, s4_workspace **workspace)
{
    S4_TRY(check_arguments(plan, workspace));
    return make(plan, NULL, workspace);
}

s4_status s4_workspace_create_in(const s4_plan *plan, void *host_block, size_t host_bytes, s4_workspace **workspace)
{
    S4_TRY(check_arguments(plan, workspace));
    if (!host_block || (uintptr_t)host_block % HOST_ALIGNMENT)
        return s4_fail(S4_ERROR_ARGUMENT, "host_block is %p, must be a multiple of %d and not NULL", host_block,
                       HOST_ALIGNMENT);
    if (host_bytes < (size_t)plan->map.peak[S4_PLACE_CPU])
        return s4_fail(S4_ERROR_ORDER, "host_bytes is %zu, the plan needs %lld", host_bytes,
                       (long long)plan->map.peak[S4_PLACE_CPU]);
    return make(plan, host_block, workspace);
}

s4_status s4_workspace_check(const s4_workspace *workspace, const s4_plan *plan)
{
    if (!plan->context) return s4_fail(S4_ERROR_ORDER, "the plan is not prepared: call s4_plan_prepare first");
    if (workspace->context != plan->context)
        return s4_fail(S4_ERROR_ORDER, "the workspace belongs to another context than the plan");
    if (plan->used[S4_PLACE_GPU]) S4_TRY(s4_context_check_process(S4_PLACE_GPU));
    for (int place = 0; place < S4_PLACE_COUNT; place++)
        if ((int64_t)workspace->bytes[place] < plan->map.peak[place])
            return s4_fail(S4_ERROR_ORDER, "the workspace has %zu bytes on place %s, the plan needs %lld",
                           workspace->bytes[place], s4_place_name((s4_place)place), (long long)plan->map.peak[place]);
    return S4_OK;
}
