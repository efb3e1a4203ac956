/*
 * The convolution in chunks, forward and backward (kernels/chunk_product.cu says what is multiplied). Rows (h,b) of a block
 * are padded to whole chunks, tile by tile (rows.c). A row that ends inside a chunk, of which states leave, is taken on
 * sample by sample from its last whole chunk, and back.
 */
#include "gpu/chunk.h"

/* A tile, its matrices, and where its panels are. */
typedef struct chunk_work {
    const s4_task *task;
    const char *operation;
    gpu_chunk_tile tile;
    gpu_chunk_system system;
    int64_t done;       /* rows of the block before it */
    int64_t lane, next; /* elements from one row to the next, and from one output's rows to the next's */
    void *u, *out;      /* rows: of u; (M; rows) of y, or dy */
    void *states, *adjoints; /* panels (lanes; chunks, N^) */
    void *ends;              /* rows: du of samples after the last whole chunk */
    double *carry, *leaving, *leaving_adjoint, *partials;
} chunk_work;

static void *element(const chunk_work *w, void *base, int64_t index)
{
    return (char *)base + (size_t)index * gpu_element_bytes(w->task);
}

static chunk_work open_tile(const s4_task *task, int64_t done, const char *operation)
{
    const s4_shape *s = task->shape;
    const int64_t lanes = s4_gpu_row_lanes(s), state = s4_chunk_state(s), panel = lanes * s4_chunk_count(s) * state;
    chunk_work w = {.task = task, .operation = operation, .done = done, .system = gpu_chunk_system_of(task)};
    w.tile = (gpu_chunk_tile){.rows = gpu_row_tile_at(task, done),
                              .chunk = s->chunk,
                              .count = s4_chunk_count(s),
                              .modes = s->modes,
                              .state = state};
    w.lane = s4_row_stride(s4_gpu_row_length(s));
    w.next = w.tile.rows.lanes * w.lane;
    w.u = task->buffer[S4_BUFFER_ROWS_U];
    w.out = task->buffer[S4_BUFFER_ROWS_DY];
    w.carry = task->buffer[S4_BUFFER_CHUNK_ROWS];
    w.leaving = w.carry + lanes * state;
    w.leaving_adjoint = w.leaving + lanes * 2 * s->modes;
    w.partials = w.leaving_adjoint + lanes * 2 * s->modes;
    w.states = w.carry + lanes * s4_gpu_chunk_lane_doubles(s);
    w.adjoints = element(&w, w.states, panel);
    w.ends = element(&w, w.adjoints, panel);
    return w;
}

static s4_status pad(const chunk_work *w, const void *tensor, const s4_strides *strides, int64_t outputs, void *rows,
                     double *partials)
{
    return gpu_pad_rows(w->task, &w->tile.rows, tensor, strides, outputs, w->u, rows, partials, w->operation);
}

/* Samples of rows to the tensor that they belong to; D is in the kernels. */
static s4_status crop(const chunk_work *w, const void *rows, void *tensor, const s4_strides *strides, int64_t outputs)
{
    const gpu_crop to = {.to = tensor, .to_strides = *strides, .outputs_to = outputs, .scale = 1};
    return gpu_crop_rows(w->task, &w->tile.rows, rows, &to, w->operation);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* Rows of samples, of `outputs` outputs one after the other, times a matrix whose rows are `columns` apart. */
static gpu_chunk_factor samples_times(const chunk_work *w, const void *rows, int64_t outputs, const void *matrix,
                                      int64_t columns)
{
    const int64_t chunk = w->tile.chunk;
    return (gpu_chunk_factor){.a = rows, .b = matrix, .a_lane = w->lane, .a_next = w->next,
                              .b_channel = w->system.channel, .b_next = chunk * columns, .b_step = columns,
                              .period = chunk, .depth = outputs * chunk};
}

/* The same times Toep or its transpose, whose rows begin one element earlier each, the first at `first` of an output's
 * 2 tau. */
static gpu_chunk_factor samples_times_kernel(const chunk_work *w, const void *rows, int64_t outputs, const void *kernel,
                                             int64_t first, gpu_chunk_triangle triangle)
{
    gpu_chunk_factor f = samples_times(w, rows, outputs, kernel, 0);
    f.b_next = 2 * w->tile.chunk;
    f.b_first = first;
    f.b_step = -1;
    f.triangle = triangle;
    return f;
}

static gpu_chunk_factor states_times(const chunk_work *w, const void *panel, const void *matrix)
{
    const int64_t state = w->tile.state;
    return (gpu_chunk_factor){.a = panel, .b = matrix, .a_lane = w->tile.count * state, .b_channel = w->system.channel,
                              .b_step = w->tile.chunk, .period = state, .depth = state};
}

/* Into a panel of states, or rows of samples. */
static gpu_chunk_product into_states(const chunk_work *w, void *panel)
{
    const int64_t state = w->tile.state;
    return (gpu_chunk_product){.columns = state, .out = panel, .out_lane = w->tile.count * state};
}
static gpu_chunk_product into_samples(const chunk_work *w, void *rows)
{
    return (gpu_chunk_product){.columns = w->tile.chunk, .out = rows, .out_lane = w->lane};
}

static s4_status multiply(const chunk_work *w, gpu_chunk_product product)
{
    const s4_task *task = w->task;
    const char *operation = w->operation;
    GPU_LAUNCH(chunk_product, &w->tile, &product);
    return S4_OK;
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static gpu_chunk_states states_of_caller(const s4_task *task, const double *states)
{
    return (gpu_chunk_states){(double *)(uintptr_t)states, task->state_batch, 2 * task->shape->modes};
}

/* What is there lane by lane, as rows of the block find it: its batch is inside. */
static void *of_block(const chunk_work *w, void *lanes, int64_t lane_bytes)
{
    return (void *)((uintptr_t)lanes - (uintptr_t)(w->done * lane_bytes));
}
static gpu_chunk_states states_of_lanes(const chunk_work *w, double *lanes)
{
    const int64_t state = 2 * w->tile.modes;
    return (gpu_chunk_states){of_block(w, lanes, state * (int64_t)sizeof *lanes), state, w->task->rows * state};
}

static s4_status scan(const chunk_work *w, gpu_chunk_scan scan)
{
    const s4_task *task = w->task;
    const char *operation = w->operation;
    scan.is_dense = task->shape->mode == S4_MODE_DPLR;
    scan.power_channel = w->system.channel;
    scan.carry = w->carry;
    GPU_LAUNCH(chunk_scan, &w->tile, &scan);
    return S4_OK;
}

/* The states before all chunks, and, unless it has no memory, the one after the last whole chunk. */
static s4_status make_states(const chunk_work *w, gpu_chunk_states whole)
{
    gpu_chunk_product inputs = into_states(w, w->states);
    inputs.factors = 1;
    inputs.factor[0] = samples_times(w, w->u, 1, w->system.into, w->tile.state);
    GPU_TRY(multiply(w, inputs));
    return scan(w, (gpu_chunk_scan){.power = w->system.power,
                                    .panel = w->states,
                                    .first = states_of_caller(w->task, w->task->state_in),
                                    .whole = whole});
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static s4_status outputs(const chunk_work *w, int64_t output)
{
    const int64_t chunk = w->tile.chunk, state = w->tile.state;
    gpu_chunk_product y = into_samples(w, element(w, w->out, output * w->next));
    y.factors = 2;
    y.factor[0] = samples_times_kernel(w, w->u, 1, element(w, w->system.kernel, output * 2 * chunk), chunk, GPU_CHUNK_UPPER);
    y.factor[1] = states_times(w, w->states, element(w, w->system.out, output * state * chunk));
    return multiply(w, y);
}

static s4_status chunk_forward(const s4_task *task)
{
    static const char operation[] = "chunk forward";
    const s4_shape *s = task->shape;
    for (int64_t done = 0; done < task->channels * task->rows; done += s4_gpu_row_lanes(s)) {
        const chunk_work w = open_tile(task, done, operation);
        GPU_TRY(pad(&w, task->u, &task->u_strides, 1, w.u, NULL));
        GPU_TRY(make_states(&w, states_of_caller(task, task->state_out)));
        for (int64_t c = 0; c < s->channels; c++) GPU_TRY(outputs(&w, c));
        if (task->state_out) {
            gpu_recurrence rows = gpu_recurrence_of(task);
            rows.first = done;
            rows.count = w.tile.rows.count;
            rows.state_in = task->state_out;
            GPU_TRY(gpu_absorb(task, rows, operation));
        }
        GPU_TRY(crop(&w, w.out, task->y, &task->y_strides, s->channels));
    }
    return S4_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* What a call needs. */
typedef struct needs {
    int u, adjoints, ends;
    int sums_of_kernel, sums_of_system; /* the first: states, too */
} needs;

static needs needs_of(const s4_task *task)
{
    needs need = {.sums_of_kernel = (task->wanted & S4_WANTED_KERNEL) != 0,
                  .sums_of_system = (task->wanted & S4_WANTED_SYSTEM) != 0};
    need.adjoints = task->du || need.sums_of_system || task->dstate_in;
    need.ends = task->dstate_out && need.adjoints; /* C alone does not meet the state that leaves */
    need.u = need.sums_of_kernel || (task->wanted & S4_WANTED_D);
    return need;
}

/* From the adjoint of the state that leaves to that of the state after the last whole chunk, with du of the samples
 * between, and what they give to the sums. */
static s4_status through_ends(const chunk_work *w, const needs *need, const gpu_chunk_gradients *sums)
{
    const s4_task *task = w->task;
    const char *operation = w->operation;
    const int64_t bytes = w->lane * (int64_t)gpu_element_bytes(task);
    const gpu_chunk_states from = states_of_caller(task, task->dstate_out);
    const gpu_chunk_states x = states_of_lanes(w, w->leaving), adjoint = states_of_lanes(w, w->leaving_adjoint);
    static const int along_x[2] = {1, 0};
    gpu_recurrence rows = gpu_recurrence_of(task);
    gpu_backward way = gpu_backward_of(task);
    GPU_LAUNCH(chunk_gather_states, &w->tile, &from, w->leaving_adjoint);
    GPU_TRY(gpu_check(cudaMemsetAsync(w->ends, 0, (size_t)(w->tile.rows.count * bytes), gpu_stream(task)), operation,
                      "cudaMemsetAsync"));
    rows.first = w->done;
    rows.count = w->tile.rows.count;
    rows.du = task->du ? of_block(w, w->ends, bytes) : NULL;
    rows.du_strides = (s4_strides){.batch = w->lane, .channel = task->rows * w->lane, .time = 1};
    rows.state_in = need->sums_of_kernel ? x.at : NULL; /* only sums need it */
    rows.dstate_out = rows.dstate_in = adjoint.at;
    rows.state_batch = x.batch;
    rows.state_channel = x.channel;
    way.sums_channel = sums->channel;
    return gpu_rows_backward(task, rows, &way, along_x, sums->ends, operation);
}

static s4_status add_sums(const chunk_work *w, gpu_chunk_sum sum)
{
    const s4_task *task = w->task;
    const char *operation = w->operation;
    sum.sums_channel = s4_chunk_sums(task->shape);
    GPU_LAUNCH(chunk_sums, &w->tile, &sum);
    return S4_OK;
}

/* U^T G and S^T G of an output. */
static s4_status sums_of_kernel(const chunk_work *w, const gpu_chunk_gradients *sums, int64_t output)
{
    const int64_t chunk = w->tile.chunk, state = w->tile.state;
    gpu_chunk_sum sum = {.left = w->u, .left_lane = w->lane, .left_width = chunk, .right_lane = w->lane,
                         .right_width = chunk, .upper = 1, .sums = sums->kernel + output * chunk * chunk};
    sum.right = element(w, w->out, output * w->next);
    GPU_TRY(add_sums(w, sum));
    sum.left = w->states;
    sum.left_lane = w->tile.count * state;
    sum.left_width = state;
    sum.upper = 0;
    sum.sums = sums->out + output * state * chunk;
    return add_sums(w, sum);
}

/* U^T L, and L^T S or what of it a diagonal layer needs. */
static s4_status sums_of_system(const chunk_work *w, const gpu_chunk_gradients *sums)
{
    const s4_task *task = w->task;
    const char *operation = w->operation;
    const int64_t chunk = w->tile.chunk, state = w->tile.state, panel = w->tile.count * state;
    GPU_TRY(add_sums(w, (gpu_chunk_sum){.left = w->u, .left_lane = w->lane, .left_width = chunk, .right = w->adjoints,
                                        .right_lane = panel, .right_width = state, .sums = sums->into}));
    const gpu_chunk_sum of_power = {.left = w->adjoints, .left_lane = panel, .left_width = state, .right = w->states,
                                    .right_lane = panel, .right_width = state, .sums = sums->power,
                                    .sums_channel = sums->channel};
    if (task->shape->mode == S4_MODE_DPLR) return add_sums(w, of_power);
    GPU_LAUNCH(chunk_mode_sums, &w->tile, &of_power);
    return S4_OK;
}

static s4_status make_adjoints(const chunk_work *w, const needs *need)
{
    const int64_t M = w->task->shape->channels;
    gpu_chunk_product inputs = into_states(w, w->adjoints);
    inputs.factors = 1;
    inputs.factor[0] = samples_times(w, w->out, M, w->system.out_back, w->tile.state);
    GPU_TRY(multiply(w, inputs));
    return scan(w, (gpu_chunk_scan){.back = 1,
                                    .power = w->system.power_back,
                                    .panel = w->adjoints,
                                    .whole = need->ends ? states_of_lanes(w, w->leaving_adjoint) : (gpu_chunk_states){0},
                                    .last = states_of_caller(w->task, w->task->dstate_in)});
}

/* In place of u, which nothing needs any more, or onto what the ends give. */
static s4_status make_du(const chunk_work *w, const needs *need)
{
    void *rows = need->ends ? w->ends : w->u;
    gpu_chunk_product du = into_samples(w, rows);
    du.adds = need->ends;
    du.factors = 2;
    du.factor[0] = samples_times_kernel(w, w->out, w->task->shape->channels, w->system.kernel_back, w->tile.chunk - 1,
                                        GPU_CHUNK_LOWER);
    du.factor[1] = states_times(w, w->adjoints, w->system.into_back);
    GPU_TRY(multiply(w, du));
    return crop(w, rows, w->task->du, &w->task->du_strides, 1);
}

static s4_status tile_backward(const chunk_work *w, const needs *need, const gpu_chunk_gradients *sums)
{
    const s4_task *task = w->task;
    const s4_shape *s = task->shape;
    const char *operation = w->operation;
    double *partials = task->wanted & S4_WANTED_D ? w->partials : NULL;
    double *gradient_d = s4_system_gradient_view(s, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]).d + task->channel;
    if (need->u) GPU_TRY(pad(w, task->u, &task->u_strides, 1, w->u, NULL));
    GPU_TRY(pad(w, task->dy, &task->dy_strides, s->channels, w->out, partials));
    if (partials) GPU_LAUNCH(skip_sums, &w->tile.rows, partials, task->row == 0, s->d_model, gradient_d);
    if (need->sums_of_kernel)
        GPU_TRY(make_states(w, need->ends ? states_of_lanes(w, w->leaving) : (gpu_chunk_states){0}));
    if (need->ends) GPU_TRY(through_ends(w, need, sums));
    for (int64_t c = 0; c < s->channels && need->sums_of_kernel; c++) GPU_TRY(sums_of_kernel(w, sums, c));
    if (need->adjoints) GPU_TRY(make_adjoints(w, need));
    if (need->sums_of_system) GPU_TRY(sums_of_system(w, sums));
    return task->du ? make_du(w, need) : S4_OK;
}

static s4_status clear_sums(const s4_task *task, const char *operation)
{
    const size_t bytes = (size_t)(task->channels * s4_chunk_sums(task->shape)) * sizeof(double);
    return gpu_check(cudaMemsetAsync(task->buffer[S4_BUFFER_CHUNK_SUMS], 0, bytes, gpu_stream(task)), operation,
                     "cudaMemsetAsync");
}

static s4_status chunk_backward(const s4_task *task)
{
    static const char operation[] = "chunk backward";
    const needs need = needs_of(task);
    const gpu_chunk_gradients sums = gpu_chunk_gradients_of(task);
    if (need.sums_of_kernel && task->row == 0) GPU_TRY(clear_sums(task, operation));
    for (int64_t done = 0; done < task->channels * task->rows; done += s4_gpu_row_lanes(task->shape)) {
        const chunk_work w = open_tile(task, done, operation);
        GPU_TRY(tile_backward(&w, &need, &sums));
    }
    return S4_OK;
}

s4_status gpu_chunk_forward(const s4_task *task) { return gpu_on_device(task, "chunk forward", chunk_forward); }

s4_status gpu_chunk_backward(const s4_task *task) { return gpu_on_device(task, "chunk backward", chunk_backward); }
