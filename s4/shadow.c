/*
 * Shadow mode: a second plan of the same problem, all on the CPU, follows the first operation by operation. Which results
 * are compared after which operation stands in one table; scratch and spectra, whose layout is each place's own, show in
 * what is made from them.
 */
#include "s4/shadow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "s4/errors.h"

#define CPU S4_PLACE_CPU
#define GPU S4_PLACE_GPU
#define EVENT (S4_EVENTS - 1)

struct s4_shadow {
    s4_plan *plan;
    s4_workspace *workspace;
    void *samples;         /* dt (batch, M, H, T): y, or du */
    double *states[2];     /* (batch,H,n,2): state_out, dstate_in */
    double *raw_gradients; /* as RAW_GRADIENT */
    void *made;            /* what was read from the device */
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

static int64_t samples_of(const s4_shape *s) { return s->batch * s->channels * s->d_model * s->length; }
static int64_t states_of(const s4_shape *s) { return 2 * s->batch * s->d_model * s->modes; }

/* Bytes of the largest thing that is compared at once. */
static size_t largest_read(const s4_plan *plan)
{
    int64_t bytes = s4_raw_offset(&plan->shape, S4_PARAMETER_COUNT) * 8;
    for (int i = 0; i < plan->map.buffer_count; i++)
        if (plan->map.buffer[i].bytes > bytes) bytes = plan->map.buffer[i].bytes;
    return (size_t)bytes;
}

static s4_status make_plan(const s4_plan *plan, s4_plan **shadow)
{
    s4_problem problem = plan->problem;
    problem.host_budget = problem.device_budget = problem.pinned_budget = 0;
    memset(&problem.placement, 0, sizeof problem.placement);
    S4_TRY(s4_plan_create(&problem, shadow));
    s4_shape *shape = &(*shadow)->shape;
    shape->resident = plan->shape.resident;
    shape->block_channels = plan->shape.block_channels;
    shape->block_batch = plan->shape.block_batch;
    s4_map_make(shape, &problem.placement, &(*shadow)->map);
    return s4_plan_prepare(*shadow, plan->context);
}

s4_status s4_shadow_create(const s4_plan *plan, s4_shadow **shadow)
{
    const s4_shape *shape = &plan->shape;
    *shadow = NULL;
    if (shape->tensors == GPU)
        return s4_fail(S4_ERROR_UNSUPPORTED, "shadow mode follows tensors on the host; this plan's are on the gpu");
    s4_shadow *made = calloc(1, sizeof *made);
    if (!made) return s4_fail(S4_ERROR_MEMORY, "no memory for shadow mode");
    s4_status status = make_plan(plan, &made->plan);
    if (!status) status = s4_workspace_create(made->plan, &made->workspace);
    if (!status) {
        made->samples = malloc((size_t)samples_of(shape) * s4_dtype_size(shape->dtype));
        made->states[0] = malloc((size_t)states_of(shape) * sizeof(double));
        made->states[1] = malloc((size_t)states_of(shape) * sizeof(double));
        made->raw_gradients = malloc((size_t)s4_raw_offset(shape, S4_PARAMETER_COUNT) * sizeof(double));
        made->made = malloc(largest_read(plan));
        if (!made->samples || !made->states[0] || !made->states[1] || !made->raw_gradients || !made->made)
            status = s4_fail(S4_ERROR_MEMORY, "no memory for shadow mode, which needs what the plan needs once more");
    }
    if (status)
        s4_shadow_destroy(made);
    else
        *shadow = made;
    return status;
}

void s4_shadow_destroy(s4_shadow *shadow)
{
    if (!shadow) return;
    s4_workspace_destroy(shadow->workspace);
    s4_plan_destroy(shadow->plan);
    free(shadow->samples);
    free(shadow->states[0]);
    free(shadow->states[1]);
    free(shadow->raw_gradients);
    free(shadow->made);
    free(shadow);
}

void s4_shadow_begin(const s4_call *call, s4_call *follower)
{
    s4_shadow *shadow = call->workspace->shadow;
    const s4_shape *shape = &call->plan->shape;
    int64_t H = shape->d_model, T = call->length, M = shape->channels;
    static s4_gradients none;
    *follower = *call;
    follower->plan = shadow->plan;
    follower->workspace = shadow->workspace;
    follower->follower = NULL;
    follower->gradients = call->gradients ? &follower->device_gradients : &none;
    memset(&follower->device_gradients, 0, sizeof follower->device_gradients);
    for (int p = 0; call->gradients && p < S4_PARAMETER_COUNT; p++)
        if (call->gradients->parameter[p])
            follower->device_gradients.parameter[p] = shadow->raw_gradients + s4_raw_offset(shape, p);
    if (call->y) {
        follower->y = shadow->samples;
        follower->y_strides = (s4_strides){M * H * T, T, H * T, 1};
    }
    if (call->du) {
        follower->du = shadow->samples;
        follower->du_strides = (s4_strides){H * T, T, H * T, 1};
    }
    if (call->state_out) follower->state_out = shadow->states[0];
    if (call->dstate_in) follower->dstate_in = shadow->states[1];
}

/* ---- what is compared ---------------------------------------------------------------------------------------------- */

/* One operation that has run in both places. */
typedef struct step {
    const s4_call *call, *follower;
    const s4_operation_row *row;
    const s4_task *task;
    const s4_block *block;
} step;

/* `bytes` of the device, to the host. */
static s4_status read_device(const step *s, const void *from, size_t bytes, void *to)
{
    const s4_backend *backend = s->call->plan->backend[GPU];
    s4_device *device = s->call->plan->device[GPU];
    s4_queue *queue = s->call->workspace->queue;
    s4_copy copy = {0, to, from, bytes, bytes, bytes, 1};
    if (!bytes) return S4_OK;
    S4_TRY(backend->copy(device, queue, S4_LANE_WORK, &copy));
    S4_TRY(backend->record(device, queue, S4_LANE_WORK, EVENT));
    return backend->await(device, queue, EVENT);
}

static double tolerance(const step *s)
{
    const s4_shape *shape = &s->call->plan->shape;
    return shape->dtype == S4_F32 || shape->kernel_dtype == S4_F32 ? 1e-4 : 1e-8;
}

/* The largest of some values, and of what was the largest before. Gradients are compared at the scale of the largest of all
 * of them: in a part that is 0 but for rounding there is nothing else to compare. */
static double larger_of(double largest, int64_t count, const double *values)
{
    for (int64_t i = 0; i < count; i++)
        if (fabs(values[i]) > largest) largest = fabs(values[i]);
    return largest;
}

/* `count` elements from element `first` of a tensor on, contiguous in both places. */
static s4_status compare_at_scale(const step *s, const char *tensor, s4_dtype dtype, const void *device, const void *host,
                                  int64_t first, int64_t count, double least_scale)
{
    void *made = s->call->workspace->shadow->made;
    size_t size = s4_dtype_size(dtype);
    S4_TRY(read_device(s, (const char *)device + (size_t)first * size, (size_t)count * size, made));
    s4_comparison comparison = {.operation = s->row->name,
                                .tensor = tensor,
                                .dtype = dtype,
                                .tolerance = tolerance(s),
                                .least_scale = least_scale,
                                .made = made,
                                .expected = (const char *)host + (size_t)first * size,
                                .count = count,
                                .first = first};
    return s4_shadow_compare(&comparison);
}

static s4_status compare(const step *s, const char *tensor, s4_dtype dtype, const void *device, const void *host,
                         int64_t first, int64_t count)
{
    return compare_at_scale(s, tensor, dtype, device, host, first, count, 0);
}

static s4_status compare_buffer(const step *s, s4_buffer buffer, s4_dtype dtype, int64_t first, int64_t count)
{
    return compare(s, s4_buffer_name(buffer), dtype, s->call->buffer[GPU][buffer], s->follower->buffer[CPU][buffer], first,
                   count);
}

static s4_status compare_system(const step *s)
{
    return compare_buffer(s, S4_BUFFER_SYSTEM, S4_F64, 0, s4_system_count(&s->call->plan->shape));
}

static s4_status compare_step_system(const step *s)
{
    const s4_shape *shape = &s->call->plan->shape;
    return compare_buffer(s, S4_BUFFER_STEP_SYSTEM, S4_F64, 0, shape->d_model * s4_step_system(shape));
}

static s4_status compare_kernel(const step *s)
{
    const s4_shape *shape = &s->call->plan->shape;
    return compare_buffer(s, S4_BUFFER_KERNEL, shape->dtype, 0,
                          shape->kernels * s->block->channels * shape->kernel_length);
}

static s4_status compare_kernel_gradient(const step *s)
{
    const s4_shape *shape = &s->call->plan->shape;
    return compare_buffer(s, S4_BUFFER_KERNEL_GRADIENT, S4_F64, 0,
                          shape->kernels * s->block->channels * shape->kernel_length);
}

/* The block's channels of every part that kernel_backward makes. */
static s4_status compare_system_gradient(const step *s)
{
    const s4_shape *shape = &s->call->plan->shape;
    const double *base = s->follower->buffer[CPU][S4_BUFFER_SYSTEM_GRADIENT];
    const s4_system_gradient at = s4_system_gradient_view(shape, (double *)(uintptr_t)base);
    const int64_t state = 2 * shape->modes;
    const struct {
        const double *part;
        int64_t rows, width;
    } parts[] = {{at.lambda, 1, state}, {at.b, 1, state}, {at.p, shape->rank, state}, {at.c, shape->kernels, state},
                 {at.dt, 1, shape->dt_modes}};
    const char *tensor = s4_buffer_name(S4_BUFFER_SYSTEM_GRADIENT);
    const void *device = s->call->buffer[GPU][S4_BUFFER_SYSTEM_GRADIENT];
    double scale = 0;
    for (int compares = 0; compares < 2; compares++)
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
            for (int64_t r = 0; r < parts[i].rows; r++) {
                int64_t first = parts[i].part - base + (r * shape->d_model + s->block->channel) * parts[i].width;
                int64_t count = s->block->channels * parts[i].width;
                if (compares)
                    S4_TRY(compare_at_scale(s, tensor, S4_F64, device, base, first, count, scale));
                else
                    scale = larger_of(scale, count, base + first);
            }
    return S4_OK;
}

/* (rows, outputs, channels, T) of the device's slot against the shadow's tensor (batch, outputs, H, T). */
static s4_status compare_samples(const step *s, const char *tensor, const void *device, int64_t outputs)
{
    const s4_shape *shape = &s->call->plan->shape;
    int64_t H = shape->d_model, T = s->call->length, width = s->block->channels * T;
    size_t size = s4_dtype_size(shape->dtype);
    s4_shadow *shadow = s->call->workspace->shadow;
    s4_comparison comparison = {
        .operation = s->row->name, .tensor = tensor, .dtype = shape->dtype, .tolerance = tolerance(s), .made = shadow->made,
        .count = width};
    if (!device) return S4_OK;
    for (int64_t row = 0; row < s->block->rows * outputs; row++) {
        int64_t b = s->block->row + row / outputs, c = row % outputs;
        comparison.first = ((b * outputs + c) * H + s->block->channel) * T;
        comparison.expected = (const char *)shadow->samples + (size_t)comparison.first * size;
        S4_TRY(read_device(s, (const char *)device + (size_t)(row * width) * size, (size_t)width * size, shadow->made));
        S4_TRY(s4_shadow_compare(&comparison));
    }
    return S4_OK;
}

/* (rows, channels, n, 2) against (batch,H,n,2). */
static s4_status compare_states(const step *s, const char *tensor, const double *device, const double *host)
{
    const s4_shape *shape = &s->call->plan->shape;
    int64_t state = 2 * shape->modes, width = s->block->channels * state;
    s4_shadow *shadow = s->call->workspace->shadow;
    s4_comparison comparison = {
        .operation = s->row->name, .tensor = tensor, .dtype = S4_F64, .tolerance = tolerance(s), .made = shadow->made,
        .count = width};
    if (!device) return S4_OK;
    for (int64_t row = 0; row < s->block->rows; row++) {
        comparison.first = ((s->block->row + row) * shape->d_model + s->block->channel) * state;
        comparison.expected = host + comparison.first;
        S4_TRY(read_device(s, device + row * width, (size_t)width * sizeof(double), shadow->made));
        S4_TRY(s4_shadow_compare(&comparison));
    }
    return S4_OK;
}

static s4_status compare_outputs(const step *s)
{
    S4_TRY(compare_samples(s, "y", s->task->y, s->call->plan->shape.channels));
    return strcmp(s->row->name, "convolve") ? compare_states(s, "state_out", s->task->state_out, s->follower->state_out)
                                            : S4_OK;
}

static s4_status compare_gradient_of_d(const step *s)
{
    const s4_shape *shape = &s->call->plan->shape;
    const double *base = s->follower->buffer[CPU][S4_BUFFER_SYSTEM_GRADIENT];
    const double *d = s4_system_gradient_view(shape, (double *)(uintptr_t)base).d;
    for (int64_t c = 0; c < shape->channels && (s->call->wanted & S4_WANTED_D); c++)
        S4_TRY(compare_buffer(s, S4_BUFFER_SYSTEM_GRADIENT, S4_F64, d - base + c * shape->d_model + s->block->channel,
                              s->block->channels));
    return S4_OK;
}

static s4_status compare_input_gradients(const step *s)
{
    S4_TRY(compare_gradient_of_d(s));
    return compare_samples(s, "du", s->task->du, 1);
}

static s4_status compare_state_gradients(const step *s)
{
    const s4_shape *shape = &s->call->plan->shape;
    int64_t sums = s4_state_sums(shape) * 2 * shape->modes;
    S4_TRY(compare_states(s, "dstate_in", s->task->dstate_in, s->follower->dstate_in));
    S4_TRY(compare_buffer(s, S4_BUFFER_STATE_SUMS, S4_F64, s->block->channel * sums, s->block->channels * sums));
    return compare_samples(s, "du", s->task->du, 1);
}

/* Poles of a diagonal channel are in double whatever the dtype: they show in what is made with them. */
static s4_status compare_chunk_system(const step *s)
{
    const s4_shape *shape = &s->call->plan->shape;
    const s4_chunk_system_parts at = s4_chunk_system_parts_of(shape);
    int64_t size = s4_chunk_system(shape), row = shape->resident ? s->block->channel : 0;
    int64_t first = shape->mode == S4_MODE_DPLR ? at.power : at.into;
    for (int64_t i = 0; i < s->block->channels; i++)
        for (int64_t way = 0; way < size; way += at.end)
            S4_TRY(compare_buffer(s, S4_BUFFER_CHUNK_SYSTEM, shape->dtype, (row + i) * size + way + first, at.end - first));
    return S4_OK;
}

/* Of the sums those of M_C, M_B and X: of those of K, half is not used. */
static s4_status compare_chunk_gradients(const step *s)
{
    const s4_shape *shape = &s->call->plan->shape;
    const s4_chunk_sums_parts at = s4_chunk_sums_parts_of(shape);
    S4_TRY(compare_gradient_of_d(s));
    S4_TRY(compare_states(s, "dstate_in", s->task->dstate_in, s->follower->dstate_in));
    for (int64_t i = 0; i < s->block->channels && (s->call->wanted & S4_WANTED_KERNEL); i++)
        S4_TRY(compare_buffer(s, S4_BUFFER_CHUNK_SUMS, S4_F64, i * at.end + at.out,
                              (s->call->wanted & S4_WANTED_SYSTEM ? at.ends : at.into) - at.out));
    return compare_samples(s, "du", s->task->du, 1);
}

static s4_status compare_raw_gradients(const step *s)
{
    const s4_shape *shape = &s->call->plan->shape;
    const double *expected = s->call->workspace->shadow->raw_gradients;
    const void *device = s->call->buffer[GPU][S4_BUFFER_RAW_GRADIENT];
    double scale = 0;
    for (int compares = 0; compares < 2; compares++)
        for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
            int64_t first = s4_raw_offset(shape, p), count = s4_raw_offset(shape, p + 1) - first;
            if (!s->call->gradients->parameter[p]) continue;
            if (compares)
                S4_TRY(compare_at_scale(s, "raw_gradient", S4_F64, device, expected, first, count, scale));
            else
                scale = larger_of(scale, count, expected + first);
        }
    return S4_OK;
}

static const struct {
    const char *operation;
    s4_status (*compare)(const step *s);
} comparisons[] = {
    {"transform", compare_system},
    {"read_out", compare_system},
    {"step_system", compare_step_system},
    {"kernel", compare_kernel},
    {"convolve", compare_outputs},
    {"states", compare_outputs},
    {"step", compare_outputs},
    {"convolve_backward", compare_input_gradients},
    {"states_backward", compare_state_gradients},
    {"chunk_matrices", compare_chunk_system},
    {"chunk_forward", compare_outputs},
    {"chunk_backward", compare_chunk_gradients},
    {"chunk_gradient", compare_system_gradient},
    {"correlate", compare_kernel_gradient},
    {"kernel_backward", compare_system_gradient},
    {"state_gradients", compare_system_gradient},
    {"chain", compare_raw_gradients},
};

s4_status s4_shadow_check(const s4_call *call, const s4_operation_row *row, const s4_task *task, const s4_call *follower,
                          const s4_block *block)
{
    const step s = {call, follower, row, task, block};
    if (s4_operation_place(row, &call->plan->problem.placement) == CPU) return S4_OK;
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++)
        if (!strcmp(row->name, comparisons[i].operation)) return comparisons[i].compare(&s);
    return S4_OK;
}
