/*
 * The recurrence over rows (b,h) of a block, h outside and b inside: steps, states of a convolution, and gradients through
 * them. A warp takes a row; rows are launched in as many pieces as lanes of scratch ask for, which changes no values.
 */
#include "gpu/setup.h"

gpu_recurrence gpu_recurrence_of(const s4_task *task)
{
    const s4_shape *s = task->shape;
    return (gpu_recurrence){
        .shape = *s,
        .channel = task->channel,
        .rows = task->rows,
        .count = task->rows * task->channels,
        .length = task->length,
        .lengths = task->lengths,
        .system = task->buffer[S4_BUFFER_STEP_SYSTEM],
        .system_size = s4_step_system(s),
        .u = task->u,
        .dy = task->dy,
        .y = task->y,
        .du = task->du,
        .u_strides = task->u_strides,
        .y_strides = task->y_strides,
        .dy_strides = task->dy_strides,
        .du_strides = task->du_strides,
        .state_in = task->state_in,
        .dstate_out = task->dstate_out,
        .state_out = task->state_out,
        .dstate_in = task->dstate_in,
        .state_batch = task->state_batch,
        .state_channel = 2 * s->modes,
    };
}

/* Rows in pieces, each with its state in a lane where shared memory is too small. */
static s4_status run_rows(const s4_task *task, gpu_recurrence rows,
                          cudaError_t (*launch)(const gpu_recurrence *rows, cudaStream_t stream), const char *operation,
                          const char *kernel)
{
    const int64_t end = rows.first + rows.count;
    const int in_lanes = task->shape->modes > S4_GPU_STEP_SHARED;
    const int64_t piece = in_lanes ? S4_GPU_STEP_LANES : rows.count;
    if (in_lanes) rows.scratch = task->buffer[S4_BUFFER_STEP_ROWS];
    for (; rows.first < end; rows.first += piece) {
        rows.count = piece < end - rows.first ? piece : end - rows.first;
        GPU_TRY(gpu_launched(task, launch(&rows, gpu_stream(task)), operation, kernel));
    }
    return S4_OK;
}

s4_status gpu_absorb(const s4_task *task, gpu_recurrence rows, const char *operation)
{
    return run_rows(task, rows, gpu_launch_absorb, operation, "k_absorb");
}

static s4_status step(const s4_task *task)
{
    gpu_recurrence rows = gpu_recurrence_of(task);
    rows.d = s4_system_view(task->shape, task->buffer[S4_BUFFER_SYSTEM]).d;
    return run_rows(task, rows, gpu_launch_step, "step", "k_step");
}

static s4_status states(const s4_task *task)
{
    const gpu_recurrence rows = gpu_recurrence_of(task);
    if (task->state_in) GPU_TRY(run_rows(task, rows, gpu_launch_respond, "states", "k_respond"));
    return task->state_out ? gpu_absorb(task, rows, "states") : S4_OK;
}

#define SHARED_BYTES (48 << 10) /* of a block, without asking for more */
#define WARPS 4                 /* of a block */

gpu_backward gpu_backward_of(const s4_task *task)
{
    const s4_shape *s = task->shape;
    const int64_t hot = (int64_t)sizeof(double) * WARPS * (s4_state_sums(s) + 2) * 2 * s->modes;
    return (gpu_backward){
        .system = s4_system_view(s, task->buffer[S4_BUFFER_SYSTEM]),
        .span = s4_gpu_state_span(s),
        .stride = s4_state_stride(s4_gpu_state_span(s)),
        .sums = s4_state_sums(s),
        .sums_channel = s4_state_sums(s) * 2 * s->modes,
        .lane_size = s4_gpu_state_lane(s),
        .in_shared = hot <= SHARED_BYTES,
    };
}

/* The ways back of one piece of rows, then their sums. */
static s4_status piece_backward(const s4_task *task, const gpu_recurrence *rows, gpu_backward way, const int *along,
                                double *sums, const char *operation)
{
    const cudaStream_t stream = gpu_stream(task);
    for (int along_z = 0; along_z < 2; along_z++) {
        if (!along[along_z]) continue;
        way.along_z = along_z;
        way.begins = !along_z || !along[0];
        way.ends = along_z || !along[1];
        GPU_TRY(gpu_launched(task, gpu_launch_states_backward(rows, &way, stream), operation, "k_states_backward"));
    }
    return gpu_launched(task, gpu_launch_state_sums(rows, &way, task->row == 0, sums, stream), operation,
                        "k_state_sums");
}

s4_status gpu_rows_backward(const s4_task *task, gpu_recurrence rows, const gpu_backward *way, const int *along,
                            double *sums, const char *operation)
{
    const int64_t end = rows.first + rows.count, lanes = s4_gpu_state_lanes(task->shape);
    rows.scratch = task->buffer[S4_BUFFER_STATE_ROWS];
    if (!(task->wanted & S4_WANTED_KERNEL)) rows.u = NULL; /* only sums need it: it has not been sent */
    for (; rows.first < end; rows.first += lanes) {
        rows.count = lanes < end - rows.first ? lanes : end - rows.first;
        GPU_TRY(piece_backward(task, &rows, *way, along, sums, operation));
    }
    return S4_OK;
}

static s4_status states_backward(const s4_task *task)
{
    static const char operation[] = "states backward";
    const gpu_backward way = gpu_backward_of(task);
    double *sums = (double *)task->buffer[S4_BUFFER_STATE_SUMS] + task->channel * way.sums_channel;
    const int along[2] = {task->dstate_out != NULL, task->state_in || task->dstate_in};
    if (along[0] || along[1])
        return gpu_rows_backward(task, gpu_recurrence_of(task), &way, along, sums, operation);
    if (task->row > 0) return S4_OK;
    const size_t bytes = (size_t)(task->channels * way.sums_channel) * sizeof *sums;
    return gpu_check(cudaMemsetAsync(sums, 0, bytes, gpu_stream(task)), operation, "cudaMemsetAsync");
}

static s4_status state_gradients(const s4_task *task)
{
    static const char operation[] = "state gradients";
    const s4_shape *s = task->shape;
    const s4_system_gradient gradient = s4_system_gradient_view(s, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]);
    double *sums = task->buffer[S4_BUFFER_STATE_SUMS];
    const double *systems = task->buffer[S4_BUFFER_STEP_SYSTEM];
    gpu_model model;
    GPU_TRY(gpu_model_open(task, 0, &model));
    for (int64_t h = 0; s->mode == S4_MODE_DPLR && h < s->d_model; h += s4_gpu_dense_lanes(s)) {
        const gpu_setup_tile tile = gpu_dense_tile_at(task, h);
        GPU_TRY(gpu_launched(
            task, gpu_launch_read_out_gradient(&model, &tile, s4_state_sums(s), systems, sums, gpu_stream(task)),
            operation, "k_read_out_gradient"));
    }
    const gpu_channel_sums of = {.channels = s->d_model, .size = s4_state_sums(s) * 2 * s->modes, .sums = sums};
    return gpu_launched(task, gpu_launch_state_gradients(&model, &of, 0, &gradient, gpu_stream(task)), operation,
                        "k_state_gradients");
}

s4_status gpu_step(const s4_task *task) { return gpu_on_device(task, "step", step); }

s4_status gpu_states(const s4_task *task) { return gpu_on_device(task, "states", states); }

s4_status gpu_states_backward(const s4_task *task) { return gpu_on_device(task, "states backward", states_backward); }

s4_status gpu_state_gradients(const s4_task *task) { return gpu_on_device(task, "state gradients", state_gradients); }
