/* The public calls that execute a plan: their checks, then the phase. */
#include "s4/errors.h"
#include "s4/execute.h"
#include "s4/layer_object.h"
#include "s4/options.h"

static s4_status check_size(const char *field, int64_t planned, int64_t *value)
{
    if (!*value) *value = planned;
    if (*value >= 1 && *value <= planned) return S4_OK;
    return s4_fail(S4_ERROR_ARGUMENT, "%s is %lld, must be in 1 .. %lld, as planned", field, (long long)*value,
                   (long long)planned);
}

static s4_status check_layer(const s4_plan *plan, const s4_layer *layer)
{
    const s4_problem *p = &plan->problem;
    const s4_layer_options *o = &layer->options;
    const struct {
        const char *name;
        int64_t layer, plan;
    } sizes[] = {{"d_model", o->d_model, p->d_model}, {"d_state", o->d_state, p->d_state}, {"rank", o->rank, p->rank},
                 {"n_ssm", o->n_ssm, p->n_ssm}, {"mode", o->mode, p->mode}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].layer != sizes[i].plan)
            return s4_fail(S4_ERROR_ARGUMENT, "the layer's %s is %lld, the plan's is %lld", sizes[i].name,
                           (long long)sizes[i].layer, (long long)sizes[i].plan);
    return S4_OK;
}

/* What every execution needs: objects that fit together, and derived data of this plan and these parameters. */
static s4_status check_objects(const s4_plan *plan, const s4_layer *layer, const s4_workspace *workspace)
{
    if (!plan || !layer || !workspace)
        return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", !plan ? "plan" : !layer ? "layer" : "workspace");
    return s4_workspace_check(workspace, plan);
}

static s4_status check_fresh(const s4_plan *plan, const s4_layer *layer, const s4_workspace *workspace)
{
    S4_TRY(check_objects(plan, layer, workspace));
    if (workspace->plan_id == plan->id && workspace->layer_id == layer->id &&
        workspace->layer_version == layer->version)
        return S4_OK;
    return s4_fail(S4_ERROR_STALE, "the workspace holds data derived from %s: call s4_plan_refresh first",
                   workspace->plan_id != plan->id       ? "another plan, or none"
                   : workspace->layer_id != layer->id   ? "another layer"
                                                        : "older parameters");
}

static s4_status check_direction(const s4_plan *plan, const char *call, int allowed)
{
    if (allowed) return S4_OK;
    return s4_fail(S4_ERROR_ARGUMENT, "%s: the plan's direction is %s", call, s4_direction_name(plan->problem.direction));
}

/* A DPLR layer trains by FFT from C~ of exactly the plan's kernel length: that is what is stored, and the leaf. */
static s4_status check_leaf(const s4_plan *plan, const s4_layer *layer)
{
    if (plan->problem.direction != S4_DIRECTION_TRAINING || layer->c_length == plan->shape.kernel_length) return S4_OK;
    if (!layer->c_length)
        return s4_fail(S4_ERROR_UNSUPPORTED, "the layer stores plain C; training by fft needs C~ of length %lld: call "
                       "s4_layer_setup(context, layer, %lld), or `s4 setup --length %lld`",
                       (long long)plan->shape.kernel_length, (long long)plan->shape.kernel_length,
                       (long long)plan->shape.kernel_length);
    return s4_fail(S4_ERROR_UNSUPPORTED, "the layer stores C~ of length %lld; training with kernel length %lld needs that "
                   "of the same length: call s4_layer_setup(context, layer, %lld), or `s4 setup --length %lld`",
                   (long long)layer->c_length, (long long)plan->shape.kernel_length,
                   (long long)plan->shape.kernel_length, (long long)plan->shape.kernel_length);
}

s4_status s4_plan_refresh(const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace)
{
    S4_TRY(check_objects(plan, layer, workspace));
    S4_TRY(check_layer(plan, layer));
    S4_TRY(check_leaf(plan, layer));
    s4_raw raw = s4_layer_raw(layer);
    s4_call call = {
        .plan = plan, .workspace = workspace, .batch = plan->shape.batch, .length = plan->shape.length, .raw = &raw};
    workspace->plan_id = 0;
    S4_TRY(s4_execute(&call, S4_PHASE_REFRESH));
    workspace->plan_id = plan->id;
    workspace->layer_id = layer->id;
    workspace->layer_version = layer->version;
    return S4_OK;
}

s4_status s4_plan_kernel(const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace, void *K)
{
    S4_TRY(check_fresh(plan, layer, workspace));
    S4_TRY(check_direction(plan, "s4_plan_kernel", plan->problem.direction == S4_DIRECTION_KERNEL));
    if (!K) return s4_fail(S4_ERROR_ARGUMENT, "K is NULL");
    s4_call call = {
        .plan = plan, .workspace = workspace, .batch = 1, .length = plan->shape.length, .kernel = K};
    return s4_execute(&call, S4_PHASE_KERNEL);
}

s4_status s4_plan_forward(const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace, const s4_forward_io *io)
{
    s4_forward_io given = {0};
    S4_TRY(check_fresh(plan, layer, workspace));
    S4_TRY(check_direction(plan, "s4_plan_forward", plan->problem.direction == S4_DIRECTION_FORWARD ||
                                                        plan->problem.direction == S4_DIRECTION_TRAINING));
    S4_TRY(s4_options_read("s4_forward_io", io, &given, sizeof given));
    S4_TRY(check_size("batch", plan->shape.batch, &given.batch));
    S4_TRY(check_size("length", plan->shape.length, &given.length));
    if (!given.u || !given.y) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", given.u ? "y" : "u");
    if ((given.state_in || given.state_out) && !plan->shape.states)
        return s4_fail(S4_ERROR_ARGUMENT, "%s is given, but the plan was made without states",
                       given.state_in ? "state_in" : "state_out");
    if ((given.state_in || given.state_out) && given.u == given.y)
        return s4_fail(S4_ERROR_ARGUMENT, "y is u; with states they must differ");
    s4_call call = {.plan = plan,
                    .workspace = workspace,
                    .batch = given.batch,
                    .length = given.length,
                    .u = given.u,
                    .y = given.y,
                    .state_in = given.state_in,
                    .state_out = given.state_out};
    return s4_execute(&call, S4_PHASE_FORWARD);
}

s4_status s4_plan_backward(const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace,
                           const s4_backward_io *io)
{
    s4_backward_io given = {0};
    S4_TRY(check_fresh(plan, layer, workspace));
    S4_TRY(check_direction(plan, "s4_plan_backward", plan->problem.direction == S4_DIRECTION_TRAINING));
    S4_TRY(s4_options_read("s4_backward_io", io, &given, sizeof given));
    S4_TRY(check_size("batch", plan->shape.batch, &given.batch));
    S4_TRY(check_size("length", plan->shape.length, &given.length));
    if (!given.u || !given.dy) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", given.u ? "dy" : "u");
    s4_raw raw = s4_layer_raw(layer);
    s4_call call = {.plan = plan,
                    .workspace = workspace,
                    .batch = given.batch,
                    .length = given.length,
                    .u = given.u,
                    .dy = given.dy,
                    .du = given.du,
                    .raw = &raw,
                    .gradients = &given.gradients};
    return s4_execute(&call, S4_PHASE_BACKWARD);
}

s4_status s4_plan_step(const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace, const s4_step_io *io)
{
    s4_step_io given = {0};
    S4_TRY(check_fresh(plan, layer, workspace));
    S4_TRY(check_direction(plan, "s4_plan_step", plan->problem.direction == S4_DIRECTION_STEP));
    S4_TRY(s4_options_read("s4_step_io", io, &given, sizeof given));
    S4_TRY(check_size("batch", plan->shape.batch, &given.batch));
    if (!given.length) given.length = plan->shape.length;
    if (given.length < 1)
        return s4_fail(S4_ERROR_ARGUMENT, "length is %lld, must be >= 1", (long long)given.length);
    if (!given.u || !given.y || !given.state)
        return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", !given.u ? "u" : !given.y ? "y" : "state");
    s4_call call = {.plan = plan,
                    .workspace = workspace,
                    .batch = given.batch,
                    .length = given.length,
                    .u = given.u,
                    .y = given.y,
                    .state_in = given.state,
                    .state_out = given.state};
    return s4_execute(&call, S4_PHASE_STEP);
}
