/* Inside of s4_workspace: one block per place, and what its derived data came from. */
#ifndef S4_WORKSPACE_OBJECT_H
#define S4_WORKSPACE_OBJECT_H

#include "s4/plan_object.h"

typedef struct s4_shadow s4_shadow; /* s4/shadow.h */

struct s4_workspace {
    s4_context *context;
    void *block[S4_PLACE_COUNT];
    size_t bytes[S4_PLACE_COUNT];
    int owned[S4_PLACE_COUNT];                  /* made here, not the caller's */
    uint64_t plan_id, layer_id, layer_version;  /* of the last refresh; plan_id 0: stale */
    const s4_backend *backend; /* of the GPU place, like device and queue; NULL without one */
    s4_device *device;
    s4_queue *queue;
    void *pinned;    /* part of the host's block, or NULL */
    s4_shadow *shadow; /* or NULL */
    int stream_given; /* work goes to a stream of the caller: calls on device tensors return before it is done */
};

/* S4_ERROR_ORDER if the plan is not prepared, or the workspace is of another context or too small;
 * S4_ERROR_UNAVAILABLE in a forked process if it needs the GPU. */
s4_status s4_workspace_check(const s4_workspace *workspace, const s4_plan *plan);

#endif
