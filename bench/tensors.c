/* Tensors of one execution, and what is computed with them. */
#include "tensors.h"

#include <string.h>

#include "memory.h"
#include "problem.h"
#include "samples.h"

/* ---- tensors ------------------------------------------------------------------------------------------------- */

int64_t output_length(const s4_problem *problem)
{
    return problem->direction == S4_DIRECTION_KERNEL ? problem->kernel_length : problem->length;
}

void tensors_create(const s4_problem *problem, s4_layer *layer, uint64_t seed, struct tensors *tensors)
{
    int64_t count = problem->batch * problem->d_model * problem->length;
    int64_t outputs = count * problem->channels;
    size_t size = s4_dtype_size(problem->dtype);
    memset(tensors, 0, sizeof *tensors);
    tensors->dtype = problem->dtype;
    if (problem->direction == S4_DIRECTION_KERNEL) {
        tensors->y = memory_zeroed(kernels_of(problem) * problem->d_model * problem->kernel_length, size);
        return;
    }
    tensors->y = memory_zeroed(outputs, size);
    tensors->u = memory_zeroed(count, size);
    samples_fill(problem->dtype, tensors->u, count, seed);
    if (problem->direction == S4_DIRECTION_STEP)
        tensors->state = memory_zeroed(problem->batch * problem->d_model * problem->d_state, sizeof(double));
    if (problem->direction != S4_DIRECTION_TRAINING) return;
    tensors->dy = memory_zeroed(outputs, size);
    samples_fill(problem->dtype, tensors->dy, outputs, seed + 1);
    tensors->du = memory_zeroed(count, size);
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        s4_parameter_view view;
        if (!(problem->frozen >> p & 1) && !s4_layer_parameter(layer, (s4_parameter)p, &view) && view.count)
            tensors->gradient[p] = memory_zeroed(view.count, sizeof(double));
    }
}

void tensors_destroy(struct tensors *tensors)
{
    free(tensors->u);
    free(tensors->dy);
    free(tensors->y);
    free(tensors->du);
    free(tensors->state);
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) free(tensors->gradient[p]);
    memset(tensors, 0, sizeof *tensors);
}

/* ---- executions ---------------------------------------------------------------------------------------------- */

static s4_status step_from_zero(const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace,
                                const struct tensors *tensors, int64_t batch)
{
    s4_plan_info info;
    s4_status status = s4_plan_describe(plan, &info);
    if (status) return status;
    const s4_problem *problem = &info.problem;
    memset(tensors->state, 0, (size_t)(problem->batch * problem->d_model * problem->d_state) * sizeof(double));
    s4_step_io io;
    S4_INIT(&io);
    io.batch = batch;
    io.u = tensors->u;
    io.y = tensors->y;
    io.state = tensors->state;
    return s4_plan_step(plan, layer, workspace, &io);
}

s4_status compute_output(const s4_plan *plan, s4_direction direction, const s4_layer *layer, s4_workspace *workspace,
                         const struct tensors *tensors, int64_t batch)
{
    if (direction == S4_DIRECTION_KERNEL) return s4_plan_kernel(plan, layer, workspace, tensors->y);
    if (direction == S4_DIRECTION_STEP) return step_from_zero(plan, layer, workspace, tensors, batch);
    s4_forward_io io;
    S4_INIT(&io);
    io.batch = batch;
    io.u = tensors->u;
    io.y = tensors->y;
    return s4_plan_forward(plan, layer, workspace, &io);
}

s4_status compute_gradients(const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace,
                            const struct tensors *tensors, int64_t batch)
{
    s4_backward_io io;
    S4_INIT(&io);
    io.batch = batch;
    io.u = tensors->u;
    io.dy = tensors->dy;
    io.du = tensors->du;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) io.gradients.parameter[p] = tensors->gradient[p];
    return s4_plan_backward(plan, layer, workspace, &io);
}
