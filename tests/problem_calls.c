/* All calls that a problem's direction has: see problem_calls.h. */
#include "problem_calls.h"

#include "expect.h"
#include "layers.h"

static size_t take(tensors *t, size_t bytes)
{
    const size_t at = t->bytes;
    t->bytes += (bytes + 63) / 64 * 64;
    return at;
}

tensors tensors_for(s4_layer *layer, const s4_problem *p)
{
    random_source random = {7};
    const int64_t rows = p->batch * p->d_model, states = rows * p->d_state;
    const int64_t samples = rows * p->length, kernels = layer_kernels(layer) * p->d_model * p->kernel_length;
    const int64_t outputs = samples * layer_options(layer).channels;
    tensors t = {.u = tensor_of(p->dtype, samples, random_samples(&random, samples)),
                 .dy = tensor_of(p->dtype, outputs, random_samples(&random, outputs)),
                 .state = random_samples(&random, states), .dstate = random_samples(&random, states)};
    const size_t size = s4_dtype_size(p->dtype);
    t.y = take(&t, size * (size_t)(outputs > kernels ? outputs : kernels));
    t.du = take(&t, size * (size_t)samples);
    t.state_out = take(&t, 8 * (size_t)states);
    t.dstate_in = take(&t, 8 * (size_t)states);
    for (int q = 0; q < S4_PARAMETER_COUNT; q++)
        t.gradient[q] = take(&t, 8 * (size_t)layer_count(layer, (s4_parameter)q));
    return t;
}

s4_status execute(const s4_problem *p, const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace,
                  const tensors *t, unsigned char *out)
{
    const s4_direction direction = p->direction;
    double *state_out = (double *)(void *)(out + t->state_out);
    s4_status status = s4_plan_refresh(plan, layer, workspace);
    if (!status && direction == S4_DIRECTION_KERNEL)
        status = s4_plan_kernel(plan, layer, workspace, out + t->y);
    if (!status && direction == S4_DIRECTION_STEP) {
        memcpy(state_out, t->state, 8 * (size_t)(p->batch * p->d_model * p->d_state));
        s4_step_io io;
        S4_INIT(&io);
        io.u = t->u;
        io.y = out + t->y;
        io.state = state_out;
        status = s4_plan_step(plan, layer, workspace, &io);
    }
    if (!status && (direction == S4_DIRECTION_FORWARD || direction == S4_DIRECTION_TRAINING)) {
        s4_forward_io io;
        S4_INIT(&io);
        io.u = t->u;
        io.y = out + t->y;
        io.state_in = p->states ? t->state : NULL;
        io.state_out = p->states ? state_out : NULL;
        status = s4_plan_forward(plan, layer, workspace, &io);
    }
    if (!status && direction == S4_DIRECTION_TRAINING) {
        s4_backward_io io;
        S4_INIT(&io);
        io.u = t->u;
        io.dy = t->dy;
        io.du = out + t->du;
        io.state_in = p->states ? t->state : NULL;
        io.dstate_out = p->states ? t->dstate : NULL;
        io.dstate_in = p->states ? (double *)(void *)(out + t->dstate_in) : NULL;
        for (int q = 0; q < S4_PARAMETER_COUNT; q++)
            io.gradients.parameter[q] = p->frozen >> q & 1 ? NULL : (double *)(void *)(out + t->gradient[q]);
        status = s4_plan_backward(plan, layer, workspace, &io);
    }
    return status;
}

s4_plan_info describe(const s4_problem *problem)
{
    s4_plan *plan;
    s4_plan_info info;
    must(s4_plan_create(problem, &plan));
    must(s4_plan_describe(plan, &info));
    s4_plan_destroy(plan);
    return info;
}
