/* A problem of training with tensors on the host: see host_tensors.h. */
#include "host_tensors.h"

#include "expect.h"

s4_layer *layer_of_sizes(s4_context *context, const sizes *s, uint64_t seed)
{
    const layer_shape shape = {.d_model = s->H, .d_state = 4, .rank = 1, .channels = s->channels,
                               .bidirectional = s->bidirectional, .plain_transforms = 1};
    s4_layer *layer = layer_random(&shape, seed);
    if (!s->chunked)
        must(s4_layer_setup(context, layer, s->L));
    return layer;
}

s4_problem problem_of_sizes(const s4_layer *layer, const sizes *s, s4_direction direction)
{
    s4_problem problem = problem_of(layer, direction, s->dtype, s->B, s->T, s->L);
    problem.algorithm = s->chunked ? S4_ALGORITHM_CHUNKED : S4_ALGORITHM_FFT;
    problem.states = s->states;
    return problem;
}

int64_t state_count(s4_layer *layer, const sizes *s)
{
    return s->states ? s->B * s->H * layer_options(layer).d_state : 0;
}

state_pair states_of_sizes(s4_layer *layer, const sizes *s)
{
    random_source random = {11};
    const int64_t count = state_count(layer, s);
    if (!s->states)
        return (state_pair){NULL, NULL};
    double *in = random_samples(&random, count);
    return (state_pair){in, random_samples(&random, count)};
}

void expect_same_outcome(s4_layer *layer, const sizes *s, const outcome *got, const outcome *expected)
{
    expect_same_bits("y", s->B * s->H * s->channels * s->T, got->y, expected->y);
    expect_same_gradients(&got->g, &expected->g);
    if (!s->states)
        return;
    expect_same_bits("the states that leave", state_count(layer, s), got->state, expected->state);
    expect_same_bits("gradients of the states that enter", state_count(layer, s), got->entering, expected->entering);
}

gradients gradients_begun(s4_layer *layer, int64_t du_count, s4_gradients *to)
{
    const gradients g = gradients_zero(layer, du_count);
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        for (int64_t i = 0; i < g.count[p]; i++) g.parameter[p][i] = 0.25;
        to->parameter[p] = g.parameter[p];
    }
    to->accumulate = 1;
    return g;
}

outcome with_host_tensors(s4_context *context, s4_layer *layer, const sizes *s, s4_placement placement,
                          const double *u, const double *dy, const int64_t *lengths)
{
    s4_problem problem = problem_of_sizes(layer, s, S4_DIRECTION_TRAINING);
    problem.placement = placement;
    const int64_t in = s->B * s->H * s->T, out = in * s->channels;
    session run = session_open(context, &problem);
    must(s4_plan_refresh(run.plan, layer, run.workspace));
    const state_pair states = states_of_sizes(layer, s);
    outcome o = {.state = s->states ? numbers_copy(state_count(layer, s), states.in) : NULL,
                 .entering = s->states ? numbers_copy(state_count(layer, s), states.gradient) : NULL};
    s4_forward_io forward;
    S4_INIT(&forward);
    forward.u = tensor_of(s->dtype, in, u);
    forward.y = tensor_zero(s->dtype, out);
    forward.lengths = lengths;
    forward.state_in = forward.state_out = o.state;
    must(s4_plan_forward(run.plan, layer, run.workspace, &forward));
    o.y = values_of(s->dtype, out, forward.y);
    s4_backward_io backward;
    S4_INIT(&backward);
    backward.u = forward.u;
    backward.dy = tensor_of(s->dtype, out, dy);
    backward.du = tensor_zero(s->dtype, in);
    backward.lengths = lengths;
    backward.state_in = states.in;
    backward.dstate_out = backward.dstate_in = o.entering;
    o.g = gradients_begun(layer, in, &backward.gradients);
    must(s4_plan_backward(run.plan, layer, run.workspace, &backward));
    o.g.du = values_of(s->dtype, in, backward.du);
    session_close(&run);
    return o;
}
