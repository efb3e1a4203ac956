/* What AUTO becomes, and why. */
#include <string.h>

#include "s4/context_object.h"
#include "s4/errors.h"
#include "s4/options.h"
#include "s4/plan.h"

/* Samples from which on the way to a GPU and back is worth it for tensors on the host: some milliseconds of work there. */
#define WORTH_THE_WAY ((int64_t)1 << 20)

static const char *const no_gpu = "auto chose cpu: no GPU is available (s4 info says why)";
static const char *const emulated = "auto chose cpu: the GPU is an emulation, which gives values, not speed";
static const char *const refused = "auto chose cpu: the GPU place does not offer this problem, or not in these budgets";
static const char *const small = "auto chose cpu: there are fewer than 2^20 samples, not worth the way to the GPU";
static const char *const chosen = "auto chose the GPU for kernel and convolution, or the recurrence: one is available; the "
                                  "set-up stays on the host, in double";

/* AUTO stages of `given` on a place; what depends on parameters only stays on the host. */
static s4_placement resolve(const s4_problem *given, s4_place place)
{
    s4_placement made = given->placement;
    int steps = given->direction == S4_DIRECTION_STEP;
    for (int stage = 0; stage < S4_STAGE_COUNT; stage++) {
        if (made.stage[stage] != S4_PLACE_AUTO) continue;
        int moves = steps ? stage == S4_STAGE_STEP : stage == S4_STAGE_KERNEL || stage == S4_STAGE_CONVOLVE;
        made.stage[stage] = moves ? place : S4_PLACE_CPU;
    }
    return made;
}

static const char *why_not(s4_context *context, const s4_problem *problem)
{
    s4_place_info gpu;
    s4_plan *plan;
    if (s4_context_place(context, S4_PLACE_GPU, &gpu) || !gpu.available) return no_gpu;
    if (gpu.emulated) return emulated;
    s4_problem candidate = *problem;
    candidate.placement = resolve(problem, S4_PLACE_GPU);
    if (s4_plan_create(&candidate, &plan)) return refused;
    s4_plan_destroy(plan);
    double samples = (double)problem->batch * (double)problem->d_model * (double)problem->length;
    return problem->tensors == S4_PLACE_CPU && samples < (double)WORTH_THE_WAY ? small : NULL;
}

s4_status s4_placement_choose(s4_context *context, s4_problem *problem)
{
    if (!context) return s4_fail(S4_ERROR_ARGUMENT, "context is NULL");
    s4_problem given;
    S4_TRY(s4_options_read("s4_problem", problem, &given, sizeof given));
    int open = 0;
    for (int stage = 0; stage < S4_STAGE_COUNT; stage++) open |= given.placement.stage[stage] == S4_PLACE_AUTO;
    if (!open) return S4_OK;
    const char *reason = why_not(context, &given);
    problem->placement = resolve(&given, reason ? S4_PLACE_CPU : S4_PLACE_GPU);
    problem->placement_reason = reason ? reason : chosen;
    return S4_OK;
}
