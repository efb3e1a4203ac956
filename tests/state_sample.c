/* Calls with states for tests of their gradients: see state_sample.h. */
#include "state_sample.h"

#include "expect.h"

const layer_shape sample_dplr = {.d_model = 2, .d_state = 6, .rank = 1, .plain_transforms = 1};
const layer_shape sample_diagonal = {
    .d_model = 2, .d_state = 6, .mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .plain_transforms = 1};

sample sample_open(s4_context *context, const layer_shape *shape, int64_t B, int64_t T, int64_t L, uint64_t seed)
{
    sample p = {.layer = layer_random(shape, seed), .B = B, .T = T, .L = L, .wants_entering = 1};
    const s4_layer_options o = layer_options(p.layer);
    layer_make_trainable(context, p.layer, L);
    random_source random = {seed};
    p.states = B * o.d_model * o.d_state;
    p.u = random_samples(&random, B * o.d_model * T);
    p.G = random_samples(&random, B * o.d_model * o.channels * T);
    p.x0 = random_samples(&random, p.states);
    p.ds = random_samples(&random, p.states);
    return p;
}

s4_problem sample_problem(const sample *p, s4_dtype dtype)
{
    s4_problem problem = problem_of(p->layer, S4_DIRECTION_TRAINING, dtype, p->B, p->T, p->L);
    problem.states = 1;
    problem.threads = 1;
    return problem;
}

int64_t count_u(const sample *p) { return p->B * layer_options(p->layer).d_model * p->T; }
int64_t count_y(const sample *p) { return count_u(p) * layer_options(p->layer).channels; }

result result_zero(const sample *p)
{
    return (result){gradients_zero(p->layer, count_u(p)), numbers(p->states)};
}

void backward_into(session *s, const sample *p, result *r, int accumulate)
{
    const s4_dtype dtype = s->info.problem.dtype;
    s4_backward_io io;
    S4_INIT(&io);
    io.u = tensor_of(dtype, count_u(p), p->u);
    io.dy = tensor_of(dtype, count_y(p), p->G);
    io.du = tensor_zero(dtype, count_u(p));
    io.state_in = p->x0;
    io.dstate_out = p->ds;
    io.dstate_in = p->wants_entering ? r->entering : NULL;
    io.lengths = p->lengths;
    io.gradients.accumulate = accumulate;
    for (int q = 0; q < S4_PARAMETER_COUNT; q++) io.gradients.parameter[q] = r->g.parameter[q];
    must(s4_plan_refresh(s->plan, p->layer, s->workspace));
    must(s4_plan_backward(s->plan, p->layer, s->workspace, &io));
    r->g.du = values_of(dtype, count_u(p), io.du);
}

result backward(session *s, const sample *p)
{
    result r = result_zero(p);
    backward_into(s, p, &r, 0);
    return r;
}

result backward_alone(s4_context *context, const sample *p, const s4_problem *problem)
{
    session s = session_open(context, problem);
    const result r = backward(&s, p);
    session_close(&s);
    return r;
}

void expect_same_results(const sample *p, const result *got, const result *expected)
{
    expect_same_gradients(&got->g, &expected->g);
    expect_same_bits("gradient of x0", p->states, got->entering, expected->entering);
}
