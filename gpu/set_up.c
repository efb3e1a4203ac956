/*
 * The set-up stage: raw -> effective parameters; read-outs between lengths of C~; the system of the recurrence; and the
 * way back to gradients of raw parameters.
 *
 * A conversion of a read-out from one length to another is up to three moves: undo, double, set up. Doubling is taken
 * where the new length is the old one times a power of two at the same step; it needs no solve. Channels are taken tile
 * by tile, one in each lane of SETUP_MATRICES, whose lanes have matrices, too, where an operation needs them.
 */
#include "gpu/setup.h"

s4_status gpu_model_open(const s4_task *task, int anew, gpu_model *model)
{
    *model = (gpu_model){.shape = *task->shape, .system = s4_system_view(task->shape, task->buffer[S4_BUFFER_SYSTEM])};
    if (task->raw) model->raw = *task->raw;
    return gpu_flags_open(task, anew, &model->flags);
}

static gpu_setup_tile tile_of(const s4_task *task, int64_t first, int64_t lanes, int64_t lane_size, int64_t matrices)
{
    const s4_shape *s = task->shape;
    const int64_t left = s->d_model - first;
    double *marks = task->buffer[S4_BUFFER_SETUP_MATRICES];
    return (gpu_setup_tile){
        .first = first,
        .count = left < lanes ? left : lanes,
        .marks = marks,
        .lanes = marks + s4_gpu_setup_marks(s),
        .lane_size = lane_size,
        .lane_rows = matrices * 4 * s->modes * s->modes,
        .step_system_size = s4_step_system(s),
    };
}

static gpu_setup_tile tile_at(const s4_task *task, int64_t first)
{
    return tile_of(task, first, s4_gpu_setup_lanes(task->shape), s4_gpu_setup_lane(task->shape), 0);
}

gpu_setup_tile gpu_dense_tile_at(const s4_task *task, int64_t first)
{
    const s4_shape *s = task->shape;
    return tile_of(task, first, s4_gpu_dense_lanes(s), s4_gpu_dense_lane(s), s4_gpu_dense_matrices(s));
}

static s4_status transform(const s4_task *task)
{
    gpu_model model;
    GPU_TRY(gpu_model_open(task, 1, &model));
    return gpu_launched(task, gpu_launch_transform(&model, gpu_stream(task)), "transform", "k_transform");
}

/* ---- read-outs --------------------------------------------------------------------------------------------------- */

/* From `from` to `to`; 0: plain C. */
static void choose_moves(gpu_conversion *cv, int64_t from, int64_t to)
{
    cv->from = from;
    if (from && to && cv->scale_from == cv->scale_to) {
        int64_t length = from;
        int doublings = 0;
        while (length < to && length <= INT64_MAX / 2) {
            length *= 2;
            doublings++;
        }
        if (length == to) {
            cv->doublings = doublings;
            return;
        }
    }
    cv->undo = from;
    cv->set_up = to;
}

/* C of the raw parameters at length `to` for the step sizes of the system, which are shape->rate times the raw ones. */
static gpu_conversion raw_conversion(const s4_task *task, int64_t to)
{
    const s4_shape *s = task->shape;
    const s4_raw *raw = task->raw;
    const int as_stored = raw->c_length == to && (to == 0 || s->rate == 1);
    const int from_plain = raw->c_length == 0 || (raw->plain_c && !as_stored);
    gpu_conversion cv = {.scale_from = 1 / s->rate, .scale_to = 1};
    cv.c = from_plain && raw->c_length ? raw->plain_c : raw->parameter[S4_PARAMETER_C];
    if (!as_stored) choose_moves(&cv, from_plain ? 0 : raw->c_length, to);
    return cv;
}

static s4_status convert(const s4_task *task, const gpu_model *model, const gpu_conversion *cv, const char *operation)
{
    for (int64_t h = 0; h < task->shape->d_model && !cv->undo; h += s4_gpu_setup_lanes(task->shape)) {
        const gpu_setup_tile tile = tile_at(task, h);
        GPU_TRY(gpu_launched(task, gpu_launch_read_out(model, &tile, cv, gpu_stream(task)), operation, "k_read_out"));
    }
    if (!cv->undo && !cv->doublings && !cv->set_up) return S4_OK;
    const gpu_setup_tile lanes = gpu_dense_tile_at(task, 0);
    return gpu_launched(task, gpu_launch_read_out_by_matrices(model, &lanes, cv, gpu_stream(task)), operation,
                        "k_read_out_by_matrices");
}

static s4_status read_out(const s4_task *task)
{
    const s4_shape *s = task->shape;
    gpu_model model;
    GPU_TRY(gpu_model_open(task, 0, &model));
    gpu_conversion cv = raw_conversion(task, s->direction == S4_DIRECTION_STEP || s->chunk ? 0 : s->kernel_length);
    cv.rows = s->kernels;
    cv.out = model.system.c;
    cv.out_channel = 2 * s->modes;
    cv.out_row = s->d_model * cv.out_channel;
    return convert(task, &model, &cv, "read out");
}

/* ---- the system of the recurrence -------------------------------------------------------------------------------- */

/* Read-outs of plain C to where the layout keeps them. It is in SYSTEM.c, through the bandlimit already, except for a
 * convolution of a DPLR layer: there that is C~, and C is found again from the raw parameters. */
static s4_status place_read_outs(const s4_task *task, const gpu_model *model, int64_t rows_before)
{
    const s4_shape *s = task->shape;
    const int in_system = s->mode != S4_MODE_DPLR || s->direction == S4_DIRECTION_STEP || s->chunk;
    gpu_conversion cv = in_system ? (gpu_conversion){.c = model->system.c} : raw_conversion(task, 0);
    cv.rows = s->channels;
    cv.out_row = 2 * s->modes;
    cv.out_channel = s4_step_system(s);
    cv.out = (double *)task->buffer[S4_BUFFER_STEP_SYSTEM] + rows_before * cv.out_row;
    cv.as_rows = 1;
    gpu_model given = *model;
    if (in_system) given.raw.bandlimit = 0;
    return convert(task, &given, &cv, "step system");
}

/* One way to do a step. */
typedef struct step_way {
    cudaError_t (*launch)(const gpu_model *model, const gpu_setup_tile *tile, double *base, cudaStream_t stream);
    const char *kernel;
} step_way;

static const step_way linear = {gpu_launch_step_linear_system, "k_step_linear_system"};
static const step_way dense = {gpu_launch_step_dense_system, "k_step_dense_system"};

static s4_status step_system(const s4_task *task)
{
    const s4_shape *s = task->shape;
    const int is_dense = s->mode == S4_MODE_DPLR && s->step_mode == S4_STEP_DENSE;
    const step_way *way = is_dense ? &dense : &linear;
    gpu_model model;
    GPU_TRY(gpu_model_open(task, 0, &model));
    GPU_TRY(place_read_outs(task, &model, is_dense ? 2 * s->modes + 1 : 2 + 2 * s->rank));
    for (int64_t h = 0; h < s->d_model; h += s4_gpu_setup_lanes(s)) {
        const gpu_setup_tile tile = tile_at(task, h);
        GPU_TRY(gpu_launched(task, way->launch(&model, &tile, task->buffer[S4_BUFFER_STEP_SYSTEM], gpu_stream(task)),
                             "step system", way->kernel));
    }
    return S4_OK;
}

/* ---- chain ------------------------------------------------------------------------------------------------------- */

static s4_status chain(const s4_task *task)
{
    const s4_shape *s = task->shape;
    const s4_gradients *to = task->gradients;
    const s4_system_gradient from = s4_system_gradient_view(s, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]);
    const gpu_model model = {
        .shape = *s, .raw = *task->raw, .system = s4_system_view(s, task->buffer[S4_BUFFER_SYSTEM])};
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        const int64_t count = s4_raw_offset(s, p + 1) - s4_raw_offset(s, p);
        if (!to->parameter[p] || count == 0) continue;
        GPU_TRY(gpu_launched(task,
                             gpu_launch_chain(&model, (s4_parameter)p, count, &from, to->accumulate, to->parameter[p],
                                              gpu_stream(task)),
                             "chain", "k_chain"));
    }
    return S4_OK;
}

s4_status gpu_transform_raw(const s4_task *task) { return gpu_on_device(task, "transform", transform); }

s4_status gpu_read_out(const s4_task *task) { return gpu_on_device(task, "read out", read_out); }

s4_status gpu_step_system(const s4_task *task) { return gpu_on_device(task, "step system", step_system); }

s4_status gpu_chain(const s4_task *task) { return gpu_on_device(task, "chain", chain); }
