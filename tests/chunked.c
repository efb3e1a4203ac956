/* One call of a chunked plan: see chunked.h. */
#include "chunked.h"

#include "expect.h"

const struct chunked_kind chunked_kinds[] = {
    {"dplr", {.d_model = 2, .d_state = 6, .rank = 1, .plain_transforms = 1}},
    {"dplr, rank 2, 2 outputs, 2 copies",
     {.d_model = 4, .d_state = 4, .rank = 2, .n_ssm = 2, .channels = 2, .plain_transforms = 1}},
    {"dplr, rank 3, untied", {.d_model = 2, .d_state = 16, .rank = 3, .dt_untied = 1, .plain_transforms = 1}},
    {"dplr, bandlimit", {.d_model = 2, .d_state = 6, .rank = 1, .bandlimit = 0.2, .plain_transforms = 1}},
    {"dplr, transforms",
     {.d_model = 2, .d_state = 4, .rank = 1, .dt_transform = S4_TRANSFORM_SOFTPLUS,
      .real_transform = S4_TRANSFORM_RELU, .imag_transform = S4_TRANSFORM_EXP}},
    {"dplr, 70 states", {.d_model = 1, .d_state = 70, .rank = 1, .plain_transforms = 1}},
    {"zoh", {.d_model = 2, .d_state = 6, .mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .plain_transforms = 1}},
    {"bilinear", {.d_model = 2, .d_state = 6, .mode = S4_MODE_DIAG, .plain_transforms = 1}},
    {"zoh, 2 outputs, 2 copies",
     {.d_model = 4, .d_state = 4, .n_ssm = 2, .channels = 2, .mode = S4_MODE_DIAG, .discretisation = S4_ZOH,
      .plain_transforms = 1}},
    {"bilinear, untied, 3 outputs",
     {.d_model = 2, .d_state = 4, .dt_untied = 1, .channels = 3, .mode = S4_MODE_DIAG, .plain_transforms = 1}},
    {"zoh, bandlimit",
     {.d_model = 2, .d_state = 6, .mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .bandlimit = 0.2,
      .plain_transforms = 1}},
    {"zoh, 34 states",
     {.d_model = 1, .d_state = 34, .mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .plain_transforms = 1}},
    {"dplr, 2 states, rank 4, 3 outputs, 1 copy",
     {.d_model = 2, .d_state = 2, .rank = 4, .n_ssm = 1, .channels = 3, .plain_transforms = 1}},
    {"zoh, 2 states, 1 copy",
     {.d_model = 2, .d_state = 2, .n_ssm = 1, .mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .plain_transforms = 1}},
};
const int chunked_kind_count = (int)(sizeof chunked_kinds / sizeof chunked_kinds[0]);

int64_t chunked_inputs(const chunked_call *c) { return c->B * layer_options(c->layer).d_model * c->T; }
int64_t chunked_outputs(const chunked_call *c) { return chunked_inputs(c) * layer_options(c->layer).channels; }
int64_t chunked_states(const chunked_call *c)
{
    const s4_layer_options o = layer_options(c->layer);
    return c->B * o.d_model * o.d_state;
}

chunked_call chunked_open(s4_layer *layer, int64_t B, int64_t T, int states, uint64_t seed)
{
    chunked_call c = {.layer = layer, .B = B, .T = T, .states = states, .dtype = S4_F64, .threads = 1};
    c.algorithm = S4_ALGORITHM_CHUNKED;
    random_source random = {seed};
    c.u = random_samples(&random, chunked_inputs(&c));
    c.G = random_samples(&random, chunked_outputs(&c));
    if (states) {
        c.x0 = random_samples(&random, chunked_states(&c));
        c.ds = random_samples(&random, chunked_states(&c));
    }
    return c;
}

s4_problem chunked_problem(const chunked_call *c, s4_direction direction)
{
    const int64_t length = c->planned_length ? c->planned_length : c->T;
    s4_problem problem =
        problem_of(c->layer, direction, c->dtype, c->planned_batch ? c->planned_batch : c->B, length, length);
    problem.algorithm = c->algorithm;
    problem.rate = c->rate;
    problem.layout = c->layout;
    problem.states = c->states;
    problem.threads = c->threads;
    problem.host_budget = c->host_budget;
    problem.device_budget = c->device_budget;
    if (c->on_cpu) must(s4_placement_parse("cpu", &problem.placement));
    return problem;
}

chunked_call chunked_another_way(s4_context *context, const chunked_call *c, s4_direction direction, int way)
{
    static const struct {
        int threads;
        s4_layout layout;
        int least_budget;
        int64_t more_rows, more_samples; /* planned */
    } ways[CHUNKED_WAYS] = {{2, S4_LAYOUT_BHL, 0, 0, 0},
                            {5, S4_LAYOUT_BHL, 1, 0, 0},
                            {1, S4_LAYOUT_BLH, 0, 0, 0},
                            {1, S4_LAYOUT_BLH, 1, 12, 0},
                            {1, S4_LAYOUT_BHL, 0, 1, 69}};
    chunked_call other = *c;
    other.threads = ways[way].threads;
    other.layout = ways[way].layout;
    other.planned_batch = c->B + ways[way].more_rows;
    /* Gradients are summed over groups of rows, as many as a plan's length leaves room for. */
    if (direction != S4_DIRECTION_TRAINING) other.planned_length = c->T + ways[way].more_samples;
    if (ways[way].least_budget) {
        const s4_problem problem = chunked_problem(&other, direction);
        session s = session_open(context, &problem);
        other.host_budget = s.info.host_minimum;
        other.device_budget = s.info.device_minimum;
        session_close(&s);
    }
    return other;
}

/* (rows, channels, T) as the layout has it, and back. */
static double *lay(const chunked_call *c, int64_t channels, const double *values, int back)
{
    double *out = numbers(c->B * channels * c->T);
    for (int64_t b = 0; b < c->B; b++)
        for (int64_t h = 0; h < channels; h++)
            for (int64_t t = 0; t < c->T; t++) {
                const int64_t dense = (b * channels + h) * c->T + t;
                const int64_t at = c->layout == S4_LAYOUT_BLH ? (b * c->T + t) * channels + h : dense;
                out[back ? dense : at] = values[back ? at : dense];
            }
    return out;
}

static double *from_layout(const chunked_call *c, int64_t channels, const void *tensor)
{
    return lay(c, channels, values_of(c->dtype, c->B * channels * c->T, tensor), 1);
}

chunked_result chunked_forward(s4_context *context, const chunked_call *c)
{
    const s4_layer_options o = layer_options(c->layer);
    const s4_problem problem = chunked_problem(c, S4_DIRECTION_FORWARD);
    session s = session_open(context, &problem);
    chunked_result r = {.state = numbers(chunked_states(c))};
    s4_forward_io io;
    S4_INIT(&io);
    io.batch = c->B;
    io.length = c->T;
    io.u = tensor_of(c->dtype, chunked_inputs(c), lay(c, o.d_model, c->u, 0));
    io.y = tensor_zero(c->dtype, chunked_outputs(c));
    io.lengths = c->lengths;
    io.state_in = c->x0;
    io.state_out = c->states ? r.state : NULL;
    must(s4_plan_refresh(s.plan, c->layer, s.workspace));
    must(s4_plan_forward(s.plan, c->layer, s.workspace, &io));
    r.y = from_layout(c, o.d_model * o.channels, io.y);
    session_close(&s);
    return r;
}

chunked_result chunked_backward(s4_context *context, const chunked_call *c)
{
    const s4_layer_options o = layer_options(c->layer);
    const s4_problem problem = chunked_problem(c, S4_DIRECTION_TRAINING);
    session s = session_open(context, &problem);
    chunked_result r = {.g = gradients_zero(c->layer, chunked_inputs(c)), .entering = numbers(chunked_states(c))};
    s4_backward_io io;
    S4_INIT(&io);
    io.batch = c->B;
    io.length = c->T;
    io.u = tensor_of(c->dtype, chunked_inputs(c), lay(c, o.d_model, c->u, 0));
    io.dy = tensor_of(c->dtype, chunked_outputs(c), lay(c, o.d_model * o.channels, c->G, 0));
    io.du = c->no_du ? NULL : tensor_zero(c->dtype, chunked_inputs(c));
    io.lengths = c->lengths;
    io.state_in = c->x0;
    io.dstate_out = c->ds;
    io.dstate_in = c->states && !c->no_entering ? r.entering : NULL;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        io.gradients.parameter[p] = c->frozen >> p & 1 ? NULL : r.g.parameter[p];
    io.gradients.accumulate = c->accumulate;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        for (int64_t i = 0; c->accumulate && i < r.g.count[p]; i++)
            r.g.parameter[p][i] = 0.5;
    must(s4_plan_refresh(s.plan, c->layer, s.workspace));
    must(s4_plan_backward(s.plan, c->layer, s.workspace, &io));
    if (io.du)
        r.g.du = from_layout(c, o.d_model, io.du);
    session_close(&s);
    return r;
}

void expect_same_forward(const chunked_call *c, const chunked_result *got, const chunked_result *expected)
{
    expect_same_bits("y", chunked_outputs(c), got->y, expected->y);
    expect_same_bits("the state that leaves", chunked_states(c), got->state, expected->state);
}

void expect_same_backward(const chunked_call *c, const chunked_result *got, const chunked_result *expected)
{
    expect_same_gradients(&got->g, &expected->g);
    expect_same_bits("gradient of x0", chunked_states(c), got->entering, expected->entering);
}
