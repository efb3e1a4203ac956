/* The public calls that execute a plan: their checks, then the phase. */
#include <math.h>

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
    } sizes[] = {{"d_model", o->d_model, p->d_model},
                 {"d_state", o->d_state, p->d_state},
                 {"rank", o->rank, p->rank},
                 {"n_ssm", o->n_ssm, p->n_ssm},
                 {"mode", o->mode, p->mode},
                 {"channels", o->channels, p->channels},
                 {"bidirectional", o->bidirectional, p->bidirectional},
                 {"dt_untied", o->dt_untied, p->dt_untied},
                 {"discretisation", o->discretisation, p->discretisation}};
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
                   workspace->plan_id != plan->id     ? "another plan, or none"
                   : workspace->layer_id != layer->id ? "another layer"
                                                      : "older parameters");
}

/* Strides of a tensor with `outputs` x H channels: as given, or dense in the plan's layout. */
static s4_strides make_strides(const s4_plan *plan, const int64_t *given, int64_t outputs, int64_t length)
{
    int64_t H = plan->shape.d_model;
    if (given[0] || given[1] || given[2]) return (s4_strides){given[0], given[1], H * given[1], given[2]};
    if (plan->problem.layout == S4_LAYOUT_BLH) return (s4_strides){length * outputs * H, 1, H, outputs * H};
    return (s4_strides){outputs * H * length, length, H * length, 1};
}

/* Those in device memory are the caller's to keep in their bounds. */
static s4_status check_lengths(const s4_plan *plan, const int64_t *lengths, int64_t batch, int64_t length)
{
    if (plan->shape.tensors == S4_PLACE_GPU) return S4_OK;
    for (int64_t b = 0; lengths && b < batch; b++)
        if (lengths[b] < 0 || lengths[b] > length)
            return s4_fail(S4_ERROR_ARGUMENT, "lengths[%lld] is %lld, must be in 0 .. %lld", (long long)b,
                           (long long)lengths[b], (long long)length);
    return S4_OK;
}

/* y over u, or du over dy: only element by element. */
static s4_status check_alias(const s4_plan *plan, const char *pair, const void *a, const s4_strides *a_strides,
                             const void *b, const s4_strides *b_strides)
{
    if (a != b) return S4_OK;
    if (plan->shape.channels != 1)
        return s4_fail(S4_ERROR_ARGUMENT, "%s are the same tensor; with channels %lld they must differ", pair,
                       (long long)plan->shape.channels);
    if (a_strides->batch != b_strides->batch || a_strides->channel != b_strides->channel ||
        a_strides->time != b_strides->time)
        return s4_fail(S4_ERROR_ARGUMENT, "%s are the same tensor, but their strides differ", pair);
    return S4_OK;
}

/* States are what a plan is made with. They are looked at when y, or du, is already written. given: name of one, or
 * NULL. */
static s4_status check_states(const s4_plan *plan, const char *given, const char *pair, int same)
{
    if (!given) return S4_OK;
    if (!plan->shape.states)
        return s4_fail(S4_ERROR_ARGUMENT, "%s is given, but the plan was made without states", given);
    if (same) return s4_fail(S4_ERROR_ARGUMENT, "%s; with states they must differ", pair);
    return S4_OK;
}

static s4_status check_direction(const s4_plan *plan, const char *call, int allowed)
{
    if (allowed) return S4_OK;
    return s4_fail(S4_ERROR_ARGUMENT, "%s: the plan's direction is %s", call,
                   s4_direction_name(plan->problem.direction));
}

/* A DPLR layer trains what it stores, the leaf: by FFT C~ of exactly the plan's kernel length, in chunks plain C. */
static s4_status check_leaf(const s4_plan *plan, const s4_layer *layer)
{
    if (plan->problem.mode == S4_MODE_DIAG) return S4_OK;
    if (plan->shape.rate_parity) {
        int64_t length = (int64_t)floor((double)layer->c_length / plan->shape.rate + 0.5);
        if (layer->c_length && length == plan->shape.kernel_length) return S4_OK;
        return s4_fail(S4_ERROR_ARGUMENT,
                       "rate_parity: kernel_length is %lld, must be %lld, the stored length %lld divided "
                       "by the rate %g",
                       (long long)plan->shape.kernel_length, (long long)length, (long long)layer->c_length,
                       plan->shape.rate);
    }
    if (plan->problem.direction != S4_DIRECTION_TRAINING) return S4_OK;
    if (plan->shape.chunk) {
        if (!layer->c_length) return S4_OK;
        return s4_fail(S4_ERROR_UNSUPPORTED,
                       "the layer stores C~ of length %lld; training by chunked needs plain C: call "
                       "s4_layer_setup(context, layer, 0), or `s4 setup --undo`; or train by algorithm fft",
                       (long long)layer->c_length);
    }
    if (layer->c_length == plan->shape.kernel_length) return S4_OK;
    if (!layer->c_length)
        return s4_fail(S4_ERROR_UNSUPPORTED,
                       "the layer stores plain C; training by fft needs C~ of length %lld: call "
                       "s4_layer_setup(context, layer, %lld), or `s4 setup --length %lld`; or train by algorithm chunked",
                       (long long)plan->shape.kernel_length, (long long)plan->shape.kernel_length,
                       (long long)plan->shape.kernel_length);
    return s4_fail(S4_ERROR_UNSUPPORTED,
                   "the layer stores C~ of length %lld; training with kernel length %lld needs that "
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
    int known = workspace->plan_id == plan->id && workspace->layer_id == layer->id;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        if (!known || layer->changed_at[p] > workspace->layer_version) call.changed |= 1u << p;
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
    s4_call call = {.plan = plan, .workspace = workspace, .batch = 1, .length = plan->shape.length, .kernel = K};
    return s4_execute(&call, S4_PHASE_KERNEL);
}

s4_status s4_plan_forward(const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace, const s4_forward_io *io)
{
    s4_forward_io given = {0};
    S4_TRY(check_fresh(plan, layer, workspace));
    S4_TRY(check_direction(plan, "s4_plan_forward",
                           plan->problem.direction == S4_DIRECTION_FORWARD ||
                               plan->problem.direction == S4_DIRECTION_TRAINING));
    S4_TRY(s4_options_read("s4_forward_io", io, &given, sizeof given));
    S4_TRY(check_size("batch", plan->shape.batch, &given.batch));
    S4_TRY(check_size("length", plan->shape.length, &given.length));
    if (!given.u || !given.y) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", given.u ? "y" : "u");
    S4_TRY(check_states(plan,
                        given.state_in    ? "state_in"
                        : given.state_out ? "state_out"
                                          : NULL,
                        "y is u", given.y == given.u));
    S4_TRY(check_lengths(plan, given.lengths, given.batch, given.length));
    s4_call call = {.plan = plan,
                    .workspace = workspace,
                    .batch = given.batch,
                    .length = given.length,
                    .u = given.u,
                    .y = given.y,
                    .u_strides = make_strides(plan, given.u_strides, 1, given.length),
                    .y_strides = make_strides(plan, given.y_strides, plan->shape.channels, given.length),
                    .lengths = given.lengths,
                    .state_in = given.state_in,
                    .state_out = given.state_out};
    S4_TRY(check_alias(plan, "u and y", call.u, &call.u_strides, call.y, &call.y_strides));
    return s4_execute(&call, S4_PHASE_FORWARD);
}

/* What a call asks for: bits of s4_wanted and s4_wanted_too. No parameter may be frozen. */
static s4_status read_wishes(const s4_plan *plan, const s4_backward_io *io, unsigned *wanted)
{
    unsigned parameters = 0; /* bits 1 << s4_parameter */
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        if (!io->gradients.parameter[p]) continue;
        if (plan->problem.frozen >> p & 1)
            return s4_fail(S4_ERROR_ARGUMENT, "a gradient of %s is asked for, but the plan was made with %s frozen",
                           s4_parameter_name((s4_parameter)p), s4_parameter_name((s4_parameter)p));
        parameters |= 1u << p;
    }
    *wanted = s4_wanted_by(parameters, plan->shape.rank) & plan->shape.wanted;
    if (io->du) *wanted |= S4_WANTED_DU;
    if (io->dstate_in) *wanted |= S4_WANTED_STATE;
    return S4_OK;
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
    S4_TRY(check_states(plan,
                        given.state_in     ? "state_in"
                        : given.dstate_out ? "dstate_out"
                        : given.dstate_in  ? "dstate_in"
                                           : NULL,
                        "du is dy", given.du == given.dy));
    S4_TRY(check_lengths(plan, given.lengths, given.batch, given.length));
    unsigned wanted = 0;
    S4_TRY(read_wishes(plan, &given, &wanted));
    s4_raw raw = s4_layer_raw(layer);
    s4_call call = {.plan = plan,
                    .workspace = workspace,
                    .batch = given.batch,
                    .length = given.length,
                    .u = given.u,
                    .dy = given.dy,
                    .du = given.du,
                    .u_strides = make_strides(plan, given.u_strides, 1, given.length),
                    .dy_strides = make_strides(plan, given.dy_strides, plan->shape.channels, given.length),
                    .du_strides = make_strides(plan, given.du_strides, 1, given.length),
                    .lengths = given.lengths,
                    .state_in = given.state_in,
                    .dstate_out = given.dstate_out,
                    .dstate_in = given.dstate_in,
                    .raw = &raw,
                    .gradients = &given.gradients,
                    .wanted = wanted};
    S4_TRY(check_alias(plan, "dy and du", call.dy, &call.dy_strides, call.du, &call.du_strides));
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
    if (given.length < 1) return s4_fail(S4_ERROR_ARGUMENT, "length is %lld, must be >= 1", (long long)given.length);
    if (!given.u || !given.y || !given.state)
        return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", !given.u ? "u" : !given.y ? "y" : "state");
    s4_strides u_strides = make_strides(plan, given.u_strides, 1, given.length);
    s4_strides y_strides = make_strides(plan, given.y_strides, plan->shape.channels, given.length);
    S4_TRY(check_alias(plan, "u and y", given.u, &u_strides, given.y, &y_strides));
    /* Samples on their way to the device have room for the planned length. */
    int staged = plan->used[S4_PLACE_GPU] && plan->shape.tensors == S4_PLACE_CPU;
    int64_t piece = staged && plan->shape.length < given.length ? plan->shape.length : given.length;
    int64_t size = (int64_t)s4_dtype_size(plan->shape.dtype);
    for (int64_t t = 0; t < given.length; t += piece) {
        s4_call call = {.plan = plan,
                        .workspace = workspace,
                        .batch = given.batch,
                        .length = piece < given.length - t ? piece : given.length - t,
                        .u = (const char *)given.u + t * u_strides.time * size,
                        .y = (char *)given.y + t * y_strides.time * size,
                        .u_strides = u_strides,
                        .y_strides = y_strides,
                        .state_in = given.state,
                        .state_out = given.state};
        S4_TRY(s4_execute(&call, S4_PHASE_STEP));
    }
    return S4_OK;
}
