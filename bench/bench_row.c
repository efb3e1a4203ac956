/* Measurement of one placement. */
#include "bench_row.h"

#include <string.h>

#include "execution.h"
#include "memory.h"
#include "new_layer.h"
#include "output.h"
#include "problem.h"
#include "progress.h"
#include "timing.h"

/* A single step is repeated within a measurement until it has taken about this long. */
static const int64_t step_measurement_ns = 2000000;

/* ---- one row ------------------------------------------------------------------------------------------------- */

/* What is in work while a row is measured. */
struct measurement {
    const struct bench *bench;
    s4_problem problem; /* with the placement of the row */
    s4_layer *layer;    /* set up */
    s4_plan *plan;
    s4_workspace *workspace;
    struct row *row;
};

static s4_status memory_peak_since(s4_context *context, s4_place place, int64_t base, int64_t *bytes)
{
    s4_memory_use use;
    s4_status status = s4_context_memory(context, place, &use);
    if (!status) *bytes = use.peak - base;
    return status;
}

static s4_status memory_begin_peak(s4_context *context, s4_place place, int64_t *base)
{
    s4_memory_use use;
    s4_status status = s4_context_memory_reset(context, place);
    if (!status) status = s4_context_memory(context, place, &use);
    if (!status) *base = use.current;
    return status;
}

s4_status fit_leaf(s4_context *context, const s4_problem *problem, s4_layer *layer)
{
    int plain = problem->algorithm == S4_ALGORITHM_CHUNKED && problem->direction == S4_DIRECTION_TRAINING;
    if (problem->mode != S4_MODE_DPLR) return S4_OK;
    return s4_layer_setup(context, layer, plain ? 0 : problem->kernel_length);
}

static s4_status measure_setup(struct measurement *m)
{
    s4_context *context = m->bench->context;
    s4_ledger before, after;
    int64_t base = 0;
    s4_status status = copy_layer(m->bench->layer, &m->layer);
    if (!status) status = memory_begin_peak(context, S4_PLACE_GPU, &base);
    if (!status) status = s4_context_ledger(context, &before);
    int64_t began = now_ns();
    if (m->problem.mode == S4_MODE_DPLR) { /* a diagonal layer needs none */
        if (!status) status = fit_leaf(context, &m->problem, m->layer);
        m->row->setup_ns = now_ns() - began;
    }
    if (!status) status = s4_context_ledger(context, &after);
    if (!status) status = memory_peak_since(context, S4_PLACE_GPU, base, &m->row->setup_device_bytes);
    if (!status) m->row->setup_launches = after.launches - before.launches;
    return status;
}

static s4_status refresh(struct measurement *m) { return s4_plan_refresh(m->plan, m->layer, m->workspace); }

/* For direction kernel all that depends on parameters only is the kernel itself. */
static s4_status refresh_and_kernel(struct measurement *m)
{
    s4_status status = refresh(m);
    if (!status && m->problem.direction == S4_DIRECTION_KERNEL)
        status = s4_plan_kernel(m->plan, m->layer, m->workspace, m->bench->tensors.y);
    return status;
}

static s4_status forward(struct measurement *m)
{
    return compute_output(m->plan, m->problem.direction, m->layer, m->workspace, &m->bench->tensors, 0);
}

static s4_status backward(struct measurement *m)
{
    return compute_gradients(m->plan, m->layer, m->workspace, &m->bench->tensors, 0);
}

static s4_status median_time(struct measurement *m, s4_status (*work)(struct measurement *), int64_t *ns)
{
    int64_t repeats = m->bench->options->repeats;
    int64_t *times = memory_zeroed(repeats, sizeof *times);
    s4_status status = S4_OK;
    for (int64_t i = 0; i < repeats && !status; i++) {
        if (progress_cancelled()) status = S4_ERROR_CANCELLED;
        int64_t began = now_ns();
        if (!status) status = work(m);
        times[i] = now_ns() - began;
    }
    *ns = median_ns(times, repeats);
    free(times);
    return status;
}

/* Prepare, workspace, first refresh, first output. */
static s4_status measure_first(struct measurement *m)
{
    int64_t began = now_ns();
    s4_status status = s4_plan_prepare(m->plan, m->bench->context);
    if (!status) status = s4_workspace_create(m->plan, &m->workspace);
    if (!status) status = refresh(m);
    if (!status) status = forward(m);
    m->row->first_ns = now_ns() - began;
    return status;
}

/* One refresh, forward and backward, counted; it warms up the backward pass too. */
static s4_status count_work(struct measurement *m)
{
    s4_ledger before, after;
    s4_status status = s4_context_ledger(m->bench->context, &before);
    if (!status) status = refresh(m);
    if (!status) status = forward(m);
    if (!status && m->problem.direction == S4_DIRECTION_TRAINING) status = backward(m);
    if (!status) status = s4_context_ledger(m->bench->context, &after);
    if (status) return status;
    m->row->launches = after.launches - before.launches;
    m->row->moved_to_device = after.moved_to_device - before.moved_to_device;
    m->row->moved_to_host = after.moved_to_host - before.moved_to_host;
    return S4_OK;
}

static s4_status measure_repeats(struct measurement *m)
{
    struct row *row = m->row;
    s4_direction direction = m->problem.direction;
    int convolves = direction == S4_DIRECTION_FORWARD || direction == S4_DIRECTION_TRAINING;
    s4_status status = median_time(m, refresh_and_kernel, &row->refresh_ns);
    if (!status && convolves) status = median_time(m, forward, &row->forward_ns);
    if (!status && direction == S4_DIRECTION_TRAINING) status = median_time(m, backward, &row->backward_ns);
    return status;
}

static s4_status measure_error(struct measurement *m)
{
    const struct bench *bench = m->bench;
    int64_t batch = reference_batch(bench->reference);
    s4_status status = compute_output(m->plan, m->problem.direction, m->layer, m->workspace, &bench->tensors, batch);
    if (!status && m->problem.direction == S4_DIRECTION_TRAINING)
        status = compute_gradients(m->plan, m->layer, m->workspace, &bench->tensors, batch);
    if (!status) m->row->max_error = reference_error(bench->reference, m->layer, &bench->tensors);
    return status;
}

static s4_status measure_plan(struct measurement *m)
{
    struct row *row = m->row;
    s4_context *context = m->bench->context;
    s4_plan_info info;
    int64_t host_base = 0, device_base = 0;
    s4_status status = s4_plan_create(&m->problem, &m->plan);
    if (!status) status = s4_plan_describe(m->plan, &info);
    if (!status) status = memory_begin_peak(context, S4_PLACE_CPU, &host_base);
    if (!status) status = memory_begin_peak(context, S4_PLACE_GPU, &device_base);
    if (!status) status = measure_first(m);
    if (!status) status = count_work(m);
    if (!status && !row->emulated) status = measure_repeats(m);
    if (!status) status = measure_error(m);
    if (!status) status = memory_peak_since(context, S4_PLACE_CPU, host_base, &row->host_measured);
    if (!status) status = memory_peak_since(context, S4_PLACE_GPU, device_base, &row->device_measured);
    if (status) return status;
    row->host_planned = info.host_peak;
    row->device_planned = info.device_peak;
    s4_workspace_destroy(m->workspace);
    s4_plan_destroy(m->plan);
    m->workspace = NULL;
    m->plan = NULL;
    return S4_OK;
}

/* One sample of the whole batch, by a plan of its own. Left at null where this placement cannot. */
static s4_status measure_step(struct measurement *m)
{
    const struct bench *bench = m->bench;
    s4_problem problem = m->problem;
    problem.direction = S4_DIRECTION_STEP;
    problem.length = 1;
    problem.kernel_length = 0;
    struct execution execution;
    s4_status status = execution_open(&execution, bench->context, &problem, bench->layer);
    if (status) {
        execution_close(&execution);
        int cannot = status == S4_ERROR_UNSUPPORTED || status == S4_ERROR_OUT_OF_BUDGET || status == S4_ERROR_SINGULAR;
        return cannot ? S4_OK : status;
    }

    struct tensors tensors;
    tensors_create(&problem, bench->layer, (uint64_t)bench->options->seed, &tensors);
    s4_step_io io;
    S4_INIT(&io);
    io.u = tensors.u;
    io.y = tensors.y;
    io.state = tensors.state;
    int64_t repeats = bench->options->repeats, steps = 1;
    int64_t *times = memory_zeroed(repeats + 1, sizeof *times);
    for (int64_t i = 0; i <= repeats && !status; i++) { /* the first warms up and tells how many to time together */
        int64_t began = now_ns();
        for (int64_t s = 0; s < steps && !status; s++)
            status = s4_plan_step(execution.plan, bench->layer, execution.workspace, &io);
        if (!status && progress_cancelled()) status = S4_ERROR_CANCELLED;
        times[i] = (now_ns() - began) / steps;
        if (i == 0) steps = times[0] > 0 ? step_measurement_ns / times[0] : 1000;
        if (steps < 1) steps = 1;
    }
    m->row->step_ns = median_ns(times + 1, repeats);
    free(times);
    tensors_destroy(&tensors);
    execution_close(&execution);
    return status;
}

/* ---- the row ------------------------------------------------------------------------------------------------- */

static void row_begin(struct row *row, const char *text, const s4_placement *placement)
{
    memset(row, 0, sizeof *row);
    row->text = text;
    row->placement = *placement;
    row->setup_ns = row->first_ns = row->refresh_ns = row->forward_ns = row->backward_ns = row->step_ns =
        NOT_APPLICABLE;
    row->host_planned = row->host_measured = row->device_planned = row->device_measured = NOT_APPLICABLE;
    row->setup_launches = row->setup_device_bytes = NOT_APPLICABLE;
    row->launches = row->moved_to_device = row->moved_to_host = NOT_APPLICABLE;
    row->max_error = -1;
}

static const struct {
    s4_status refusal;
    const char *word;
} refusals[] = {{S4_ERROR_OUT_OF_BUDGET, "out of budget"}, {S4_ERROR_UNSUPPORTED, "unsupported"}};

static void row_refuse(struct row *row, s4_status refusal, const char *why)
{
    const char *word = "unavailable";
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (refusals[i].refusal == refusal) word = refusals[i].word;
    row_begin(row, row->text, &row->placement);
    row->refusal = refusal;
    snprintf(row->place_state, sizeof row->place_state, "%s: %s", word, why);
}

/* What no placement can do is the caller's mistake; what this one cannot do is said in its row. */
static s4_status row_end(struct row *row, s4_status status)
{
    int unsupported_here = status == S4_ERROR_UNSUPPORTED && placement_uses_gpu(&row->placement);
    if (status != S4_ERROR_UNAVAILABLE && status != S4_ERROR_OUT_OF_BUDGET && !unsupported_here) return status;
    row_refuse(row, status, s4_last_error());
    return S4_OK;
}

s4_status row_check(const struct bench *bench, const char *text, const s4_placement *placement, struct row *row)
{
    row_begin(row, text, placement);
    s4_problem problem = bench->problem;
    problem.placement = *placement;
    s4_status status = s4_placement_choose(bench->context, &problem);
    if (status) return row_end(row, status);
    row->placement = problem.placement;
    if (placement_uses_gpu(&row->placement)) {
        s4_place_info gpu;
        status = s4_context_place(bench->context, S4_PLACE_GPU, &gpu);
        if (status) return status;
        row->emulated = gpu.emulated;
        if (!gpu.available) {
            row_refuse(row, S4_ERROR_UNAVAILABLE, gpu.reason);
            return S4_OK;
        }
    }
    s4_plan *plan = NULL;
    status = s4_plan_create(&problem, &plan);
    s4_plan_destroy(plan);
    return row_end(row, status);
}

s4_status row_measure(const struct bench *bench, struct row *row)
{
    struct measurement m = {.bench = bench, .problem = bench->problem, .row = row};
    m.problem.placement = row->placement;
    s4_status status = measure_setup(&m);
    if (!status) status = measure_plan(&m);
    if (!status && !row->emulated && m.problem.direction != S4_DIRECTION_KERNEL) status = measure_step(&m);
    s4_workspace_destroy(m.workspace);
    s4_plan_destroy(m.plan);
    s4_layer_destroy(m.layer);
    if (status) return row_end(row, status);
    if (row->emulated) row->setup_ns = row->first_ns = NOT_APPLICABLE;
    snprintf(row->place_state, sizeof row->place_state, "%s", row->emulated ? "emulated" : "ok");
    row->ran = 1;
    return S4_OK;
}
