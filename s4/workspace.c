/* s4_workspace: takes the blocks that plans execute in. */
#include "s4/workspace_object.h"

#include <stdlib.h>

#include "s4/context_object.h"
#include "s4/cuda.h"
#include "s4/errors.h"
#include "s4/shadow.h"

#define HOST_ALIGNMENT 64

void s4_workspace_destroy(s4_workspace *workspace)
{
    if (!workspace) return;
    s4_shadow_destroy(workspace->shadow);
    if (workspace->queue && !s4_context_forked(S4_PLACE_GPU)) {
        workspace->backend->queue_destroy(workspace->device, workspace->queue);
        if (workspace->pinned) workspace->backend->unpin(workspace->device, workspace->pinned);
    }
    for (int place = 0; place < S4_PLACE_COUNT; place++) {
        if (workspace->owned[place])
            s4_context_release(workspace->context, (s4_place)place, workspace->block[place], workspace->bytes[place]);
        else if (workspace->block[place])
            s4_context_count(workspace->context, (s4_place)place, -(int64_t)workspace->bytes[place]);
    }
    free(workspace);
}

/* What work on the GPU goes through, and a pinned way for the samples of host tensors. */
static s4_status open_queue(const s4_plan *plan, s4_workspace *workspace)
{
    workspace->backend = plan->backend[S4_PLACE_GPU];
    workspace->device = plan->device[S4_PLACE_GPU];
    S4_TRY(workspace->backend->queue_create(workspace->device, &workspace->queue));
    if (!plan->map.staging) return S4_OK;
    int64_t begin = INT64_MAX, end = 0;
    for (int i = 0; i < plan->map.buffer_count; i++) {
        const s4_map_buffer *b = &plan->map.buffer[i];
        if (b->place != S4_PLACE_CPU || !s4_buffer_travels(b->buffer)) continue;
        if (b->offset < begin) begin = b->offset;
        if (b->offset + b->bytes > end) end = b->offset + b->bytes;
    }
    void *first = (char *)workspace->block[S4_PLACE_CPU] + begin;
    S4_TRY(workspace->backend->pin(workspace->device, first, (size_t)(end - begin)));
    workspace->pinned = first;
    return S4_OK;
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
    s4_status status = plan->used[S4_PLACE_GPU] ? open_queue(plan, made) : S4_OK;
    if (!status && plan->used[S4_PLACE_GPU] && plan->context->options.shadow)
        status = s4_shadow_create(plan, &made->shadow);
    if (status) {
        s4_workspace_destroy(made);
        return status;
    }
    *workspace = made;
    return S4_OK;
}

s4_status s4_workspace_set_stream(s4_workspace *workspace, struct CUstream_st *stream)
{
    if (!workspace) return s4_fail(S4_ERROR_ARGUMENT, "workspace is NULL");
    if (!workspace->queue) return s4_fail(S4_ERROR_ARGUMENT, "the workspace was made for a plan without the gpu");
    S4_TRY(s4_context_check_process(S4_PLACE_GPU));
    S4_TRY(workspace->backend->queue_use_stream(workspace->device, workspace->queue, stream));
    workspace->stream_given = stream != NULL;
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
    if (plan->used[S4_PLACE_GPU] && !workspace->queue)
        return s4_fail(S4_ERROR_ORDER, "the workspace was made for a plan without the gpu, this plan needs it");
    for (int place = 0; place < S4_PLACE_COUNT; place++)
        if ((int64_t)workspace->bytes[place] < plan->map.peak[place])
            return s4_fail(S4_ERROR_ORDER, "the workspace has %zu bytes on place %s, the plan needs %lld",
                           workspace->bytes[place], s4_place_name((s4_place)place), (long long)plan->map.peak[place]);
    return S4_OK;
}
