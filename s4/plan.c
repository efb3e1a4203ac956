/* s4_plan: made by arithmetic, then prepared on a context. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "s4/budget.h"
#include "s4/context_object.h"
#include "s4/errors.h"
#include "s4/options.h"
#include "s4/plan_object.h"

#define MIB ((int64_t)1 << 20)

/* Twiddles of the convolution (at most 14 bytes a sample of the FFT); what FFTW holds inside for DPLR kernels: twiddle
 * tables, and for lengths with large primes a padded transform, in the plan and once more in every thread that executes
 * it; 16 MiB for handles and thread stacks. */
static int64_t host_reserve(const s4_problem *problem, const s4_shape *shape)
{
    int64_t reserve = 16 * MIB;
    if (problem->placement.stage[S4_STAGE_CONVOLVE] == S4_PLACE_CPU) reserve += 32 * shape->fft_length;
    if (problem->placement.stage[S4_STAGE_KERNEL] == S4_PLACE_CPU && problem->mode == S4_MODE_DPLR &&
        !shape->chunk)
        reserve += (s4_fft_smooth(shape->kernel_length ? shape->kernel_length : 1) ? 32 : 160 + 96 * shape->threads) *
                   shape->kernel_length;
    return reserve;
}

/* CUDA context with the code of cuFFT, and its tables. */
static int64_t device_reserve(const s4_shape *shape, int used)
{
    return used ? 1024 * MIB + 32 * (shape->fft_length + shape->kernel_length) : 0;
}

static void fill_info(s4_plan *plan, const int64_t *minimum)
{
    s4_plan_info *info = &plan->info;
    info->problem = plan->problem;
    info->fft_length = plan->shape.fft_length;
    info->chunk = plan->shape.chunk;
    info->block_channels = plan->shape.block_channels;
    info->block_batch = plan->shape.block_batch;
    info->resident = plan->shape.resident;
    info->host_peak = plan->map.peak[S4_PLACE_CPU];
    info->device_peak = plan->map.peak[S4_PLACE_GPU];
    info->pinned = plan->map.staging;
    info->host_minimum = minimum[S4_PLACE_CPU];
    info->device_minimum = minimum[S4_PLACE_GPU];
    info->host_reserve = host_reserve(&plan->problem, &plan->shape);
    info->device_reserve = device_reserve(&plan->shape, plan->used[S4_PLACE_GPU]);
    info->buffers = plan->map.buffer_count;
    info->operations = plan->map.operation_count;
    for (int i = 0; i < plan->map.operation_count; i++) {
        int64_t to_device, to_host;
        s4_operation_moves(plan->map.operation[i], &plan->shape, &plan->problem.placement, plan->shape.batch,
                           plan->shape.length, &to_device, &to_host);
        info->to_device += to_device;
        info->to_host += to_host;
    }
}

s4_status s4_plan_create(const s4_problem *problem, s4_plan **plan)
{
    static atomic_ullong next_id = 1;
    if (!plan) return s4_fail(S4_ERROR_ARGUMENT, "plan is NULL");
    *plan = NULL;
    s4_plan *made = calloc(1, sizeof *made);
    if (!made) return s4_fail(S4_ERROR_MEMORY, "no memory for a plan");
    int64_t minimum[S4_PLACE_COUNT];
    s4_status status = s4_options_read("s4_problem", problem, &made->problem, sizeof made->problem);
    s4_algorithm asked = made->problem.algorithm;
    if (!status) status = s4_problem_check(&made->problem, &made->shape);
    if (!status) status = s4_budget_choose(&made->problem, asked, &made->shape, &made->map, minimum);
    if (status) {
        free(made);
        return status;
    }
    for (int i = 0; i < made->map.operation_count; i++)
        made->used[s4_operation_place(made->map.operation[i], &made->problem.placement)] = 1;
    made->id = atomic_fetch_add(&next_id, 1);
    fill_info(made, minimum);
    *plan = made;
    return S4_OK;
}

static void unprepare(s4_plan *plan)
{
    for (int place = 0; place < S4_PLACE_COUNT; place++) {
        if (plan->prepared[place] && !s4_context_forked((s4_place)place))
            plan->backend[place]->unprepare(plan->device[place], plan->prepared[place]);
        plan->prepared[place] = NULL;
    }
}

void s4_plan_destroy(s4_plan *plan)
{
    if (!plan) return;
    unprepare(plan);
    free(plan);
}

/* Every operation of the plan must be an entry of its place's table. */
static s4_status check_entries(const s4_plan *plan)
{
    for (int i = 0; i < plan->map.operation_count; i++) {
        const s4_operation_row *row = plan->map.operation[i];
        s4_place place = s4_operation_place(row, &plan->problem.placement);
        s4_operation entry = NULL;
        if (row->transfer != S4_TRANSFER_NONE) continue;
        memcpy(&entry, (const char *)plan->backend[place] + row->entry, sizeof entry);
        if (!entry)
            return s4_fail(S4_ERROR_UNSUPPORTED, "operation %s (stage %s) is not offered by place %s in this version",
                           row->name, s4_stage_name(row->stage), s4_place_name(place));
    }
    return S4_OK;
}

s4_status s4_plan_prepare(s4_plan *plan, s4_context *context)
{
    if (!plan || !context) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", plan ? "context" : "plan");
    if (plan->context == context) return S4_OK;
    if (plan->context) return s4_fail(S4_ERROR_ORDER, "the plan is already prepared with another context");
    for (int place = 0; place < S4_PLACE_COUNT; place++)
        if (plan->used[place])
            S4_TRY(s4_context_open(context, (s4_place)place, &plan->backend[place], &plan->device[place]));
    S4_TRY(check_entries(plan));
    for (int place = 0; place < S4_PLACE_COUNT; place++) {
        if (!plan->used[place]) continue;
        int64_t bytes[S4_BUFFER_COUNT] = {0};
        for (int i = 0; i < plan->map.buffer_count; i++)
            if (plan->map.buffer[i].place == (s4_place)place)
                bytes[plan->map.buffer[i].buffer] = plan->map.buffer[i].bytes;
        s4_status status =
            plan->backend[place]->prepare(plan->device[place], &plan->shape, bytes, &plan->prepared[place]);
        if (status) {
            unprepare(plan);
            return status;
        }
    }
    plan->context = context;
    return S4_OK;
}

s4_status s4_context_tune(s4_context *context, const s4_problem *problem, double seconds, char *path, size_t path_size)
{
    s4_problem given;
    s4_shape shape;
    const s4_backend *backend;
    s4_device *device;
    if (!context) return s4_fail(S4_ERROR_ARGUMENT, "context is NULL");
    if (!(seconds >= 0)) return s4_fail(S4_ERROR_ARGUMENT, "seconds is %g, must be >= 0", seconds);
    S4_TRY(s4_options_read("s4_problem", problem, &given, sizeof given));
    S4_TRY(s4_problem_check(&given, &shape));
    S4_TRY(s4_context_open(context, S4_PLACE_CPU, &backend, &device));
    if (!backend->tune) return s4_fail(S4_ERROR_UNSUPPORTED, "place cpu has no tuning");
    return backend->tune(device, &shape, seconds > 0 ? seconds : 10, path, path_size);
}

s4_status s4_plan_describe(const s4_plan *plan, s4_plan_info *info)
{
    if (!plan || !info) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", plan ? "info" : "plan");
    *info = plan->info;
    return S4_OK;
}

s4_status s4_plan_buffer(const s4_plan *plan, int64_t index, s4_buffer_info *info)
{
    if (!plan || !info) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", plan ? "info" : "plan");
    if (index < 0 || index >= plan->map.buffer_count)
        return s4_fail(S4_ERROR_ARGUMENT, "index is %lld, must be in 0 .. %d", (long long)index,
                       plan->map.buffer_count - 1);
    const s4_map_buffer *buffer = &plan->map.buffer[index];
    *info = (s4_buffer_info){
        s4_buffer_name(buffer->buffer), buffer->place, buffer->bytes, buffer->offset, buffer->first, buffer->last};
    return S4_OK;
}

s4_status s4_plan_operation(const s4_plan *plan, int64_t index, s4_operation_info *info)
{
    static const char *const phases[] = {"refresh", "kernel", "forward", "backward", "step"};
    static const char *const loops[] = {"once", "channels", "batch"};
    if (!plan || !info) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", plan ? "info" : "plan");
    if (index < 0 || index >= plan->map.operation_count)
        return s4_fail(S4_ERROR_ARGUMENT, "index is %lld, must be in 0 .. %d", (long long)index,
                       plan->map.operation_count - 1);
    const s4_operation_row *row = plan->map.operation[index];
    *info = (s4_operation_info){row->name, row->stage, s4_operation_place(row, &plan->problem.placement),
                                phases[row->phase], loops[row->loop]};
    return S4_OK;
}
