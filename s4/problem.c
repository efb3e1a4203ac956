/* The wall around plans: checks every field of a problem, fills defaults, makes the shape. */
#include <math.h>

#include "s4/algorithm.h"
#include "s4/context_object.h"
#include "s4/errors.h"
#include "s4/options.h"
#include "s4/plan_object.h"

/* FFTW and cuFFT index one transform with int; the padded length must stay below 2^30. */
#define LENGTH_MAX ((int64_t)1 << 28)
#define CHANNELS_MAX ((int64_t)1 << 24)
#define STATE_MAX ((int64_t)1 << 12)
#define BATCH_MAX ((int64_t)1 << 31)
#define THREADS_MAX 1024
#define BYTES_MAX ((int64_t)1 << 60)

/* Rows of one batched FFT on the GPU, with their products for every output: about this many elements, constant for a
 * problem so that bits are, too. */
#define TILE_ELEMENTS ((int64_t)1 << 22)
#define STAGE_ELEMENTS ((int64_t)1 << 18) /* of a thread: a part of its cache */
#define TILE_ROWS_MAX 256
#define TILE_CHUNKED_ROWS_MAX 4096
#define TILE_CHANNELS_MAX 64

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* Calls may give states. */
static int carries_states(const s4_problem *p)
{
    return p->states && (p->direction == S4_DIRECTION_FORWARD || p->direction == S4_DIRECTION_TRAINING);
}

static s4_status check_choices(const s4_problem *p)
{
    S4_TRY(s4_check_range("direction", p->direction, S4_DIRECTION_KERNEL, S4_DIRECTION_STEP));
    S4_TRY(s4_check_range("mode", p->mode, S4_MODE_DPLR, S4_MODE_DIAG));
    S4_TRY(s4_check_range("dtype", p->dtype, S4_F32, S4_F64));
    S4_TRY(s4_check_range("algorithm", p->algorithm, S4_ALGORITHM_AUTO, S4_ALGORITHM_CHUNKED));
    S4_TRY(s4_check_range("step_mode", p->step_mode, S4_STEP_LINEAR, S4_STEP_DIAGONAL));
    for (int stage = 0; stage < S4_STAGE_COUNT; stage++)
        S4_TRY(s4_check_range("placement", p->placement.stage[stage], S4_PLACE_CPU, S4_PLACE_AUTO));
    S4_TRY(s4_check_range("discretisation", p->discretisation, S4_BILINEAR, S4_DSS));
    S4_TRY(s4_check_range("tensors", p->tensors, S4_PLACE_CPU, S4_PLACE_GPU));
    S4_TRY(s4_check_range("layout", p->layout, S4_LAYOUT_BHL, S4_LAYOUT_BLH));
    if (p->frozen & ~S4_PARAMETER_ALL)
        return s4_fail(S4_ERROR_ARGUMENT, "frozen is 0x%x, must have bits 1 << s4_parameter only, those of 0x%x",
                       p->frozen, S4_PARAMETER_ALL);
    if (p->mode == S4_MODE_DPLR && p->discretisation != S4_BILINEAR)
        return s4_fail(S4_ERROR_UNSUPPORTED, "discretisation is %s; dplr layers are bilinear",
                       s4_discretisation_name(p->discretisation));
    int recurs = p->direction == S4_DIRECTION_STEP || carries_states(p);
    if (recurs && p->discretisation == S4_DSS)
        return s4_fail(S4_ERROR_UNSUPPORTED, "dss layers are kernels only: they have no recurrence and no state");
    if (recurs && p->bidirectional)
        return s4_fail(S4_ERROR_UNSUPPORTED,
                       "bidirectional layers have no recurrence: their output depends on samples to "
                       "come");
    if (p->direction == S4_DIRECTION_STEP && p->step_mode == S4_STEP_DENSE && p->mode == S4_MODE_DIAG)
        return s4_fail(S4_ERROR_UNSUPPORTED, "step mode dense is for dplr layers; diagonal layers step by linear");
    return S4_OK;
}

static s4_status check_sizes(const s4_problem *p)
{
    int has_kernel = p->direction != S4_DIRECTION_STEP;
    S4_TRY(s4_check_range("batch", p->batch, 1, BATCH_MAX));
    S4_TRY(s4_check_range("length", p->length, 1, LENGTH_MAX));
    if (has_kernel) S4_TRY(s4_check_range("kernel_length", p->kernel_length, 1, LENGTH_MAX));
    S4_TRY(s4_check_range("d_model", p->d_model, 1, CHANNELS_MAX));
    S4_TRY(s4_check_range("d_state", p->d_state, 2, STATE_MAX));
    if (p->d_state % 2)
        return s4_fail(S4_ERROR_ARGUMENT,
                       "d_state is %lld, must be even: half of it is stored, one of each conjugate "
                       "pair",
                       (long long)p->d_state);
    if (p->mode == S4_MODE_DPLR)
        S4_TRY(s4_check_range("rank", p->rank, 1, S4_RANK_MAX));
    else
        S4_TRY(s4_check_range("rank", p->rank, 0, 0));
    S4_TRY(s4_check_range("channels", p->channels, 1, S4_CHANNELS_MAX));
    S4_TRY(s4_check_range("n_ssm", p->n_ssm, 1, p->d_model));
    if (p->d_model % p->n_ssm)
        return s4_fail(S4_ERROR_ARGUMENT, "n_ssm is %lld, must divide d_model %lld", (long long)p->n_ssm,
                       (long long)p->d_model);
    S4_TRY(s4_check_range("threads", p->threads, 1, THREADS_MAX));
    S4_TRY(s4_check_range("pinned_budget", p->pinned_budget, 0, INT64_MAX));
    S4_TRY(s4_check_range("host_budget", p->host_budget, 0, INT64_MAX));
    S4_TRY(s4_check_range("device_budget", p->device_budget, 0, INT64_MAX));
    if (!(p->rate > 0) || !isfinite(p->rate))
        return s4_fail(S4_ERROR_ARGUMENT, "rate is %g, must be positive and finite", p->rate);
    int trains_c_tilde = p->direction == S4_DIRECTION_TRAINING && p->mode == S4_MODE_DPLR &&
                         p->algorithm != S4_ALGORITHM_CHUNKED;
    if (trains_c_tilde && p->rate != 1)
        return s4_fail(S4_ERROR_UNSUPPORTED,
                       "rate is %g; training a dplr layer by fft needs 1: the stored C~ belongs to its step "
                       "size",
                       p->rate);
    if (trains_c_tilde && p->states && p->length > p->kernel_length)
        return s4_fail(S4_ERROR_ARGUMENT,
                       "length is %lld, must be <= kernel_length %lld: training a dplr layer with "
                       "states, C~ of that length says nothing of what lies beyond",
                       (long long)p->length, (long long)p->kernel_length);
    int64_t elements;
    if (__builtin_mul_overflow(p->batch, p->d_model * p->channels, &elements) ||
        __builtin_mul_overflow(elements, p->length > p->kernel_length ? p->length : p->kernel_length, &elements) ||
        elements > BYTES_MAX / 64)
        return s4_fail(S4_ERROR_ARGUMENT, "batch %lld x d_model %lld x length %lld is too large to address",
                       (long long)p->batch, (long long)p->d_model, (long long)p->length);
    return S4_OK;
}

static void fill_defaults(s4_problem *p)
{
    if (!p->batch && p->direction == S4_DIRECTION_KERNEL) p->batch = 1;
    if (!p->length && p->direction == S4_DIRECTION_KERNEL) p->length = p->kernel_length;
    if (!p->length && p->direction == S4_DIRECTION_STEP) p->length = 1;
    if (!p->kernel_length) p->kernel_length = p->length;
    if (p->direction == S4_DIRECTION_STEP) p->kernel_length = 0;
    p->bidirectional = !!p->bidirectional;
    p->dt_untied = !!p->dt_untied;
    p->kernel_f32 = !!p->kernel_f32;
    p->either_leaf = !!p->either_leaf;
    if (!p->rank && p->mode == S4_MODE_DPLR) p->rank = 1;
    if (!p->n_ssm) p->n_ssm = p->d_model;
    if (!p->channels) p->channels = 1;
    if (p->rate == 0) p->rate = 1;
    if (!p->threads) p->threads = s4_processors();
    for (int stage = 0; stage < S4_STAGE_COUNT; stage++) {
        if (p->placement.stage[stage] != S4_PLACE_AUTO) continue;
        p->placement.stage[stage] = S4_PLACE_CPU;
        p->placement_reason = "auto is cpu: no context was asked what it has (s4_placement_choose)";
    }
    p->placement.stage[S4_STAGE_INIT] = S4_PLACE_CPU; /* eigen-decompositions run on the host whatever is asked */
}

/* Tensors in device memory are of use to operations there only. */
static s4_status check_tensors(const s4_problem *p)
{
    s4_stage stage = p->direction == S4_DIRECTION_STEP ? S4_STAGE_STEP : S4_STAGE_CONVOLVE;
    if (p->tensors == S4_PLACE_CPU || p->placement.stage[stage] == S4_PLACE_GPU) return S4_OK;
    return s4_fail(S4_ERROR_UNSUPPORTED, "tensors are on the gpu, but stage %s is placed on the cpu",
                   s4_stage_name(stage));
}

/* Of plans that make kernels. */
static s4_status check_kernel_dtype(s4_problem *p)
{
    int convolves = p->direction == S4_DIRECTION_FORWARD || p->direction == S4_DIRECTION_TRAINING;
    if (p->direction == S4_DIRECTION_STEP || (convolves && p->algorithm == S4_ALGORITHM_CHUNKED)) p->kernel_f32 = 0;
    if (p->kernel_f32 && p->mode == S4_MODE_DIAG)
        return s4_fail(S4_ERROR_UNSUPPORTED, "kernel_f32 is of the sums of dplr kernels; those of diagonal layers are made in "
                                             "double");
    return S4_OK;
}

s4_status s4_problem_check(s4_problem *p, s4_shape *shape)
{
    S4_TRY(check_choices(p));
    fill_defaults(p);
    S4_TRY(check_tensors(p));
    S4_TRY(check_sizes(p));
    S4_TRY(s4_algorithm_settle(p));
    S4_TRY(check_kernel_dtype(p));
    int convolves = p->direction == S4_DIRECTION_FORWARD || p->direction == S4_DIRECTION_TRAINING;
    int by_fft = convolves && p->algorithm == S4_ALGORITHM_FFT;
    *shape = (s4_shape){
        .direction = p->direction,
        .dtype = p->dtype,
        .kernel_dtype = p->kernel_f32 ? S4_F32 : S4_F64,
        .step_mode = p->direction == S4_DIRECTION_STEP ? p->step_mode : S4_STEP_LINEAR,
        .batch = p->batch,
        .length = p->length,
        .kernel_length = p->kernel_length,
        .fft_length = by_fft ? s4_fft_length(p->kernel_length + p->length - !p->bidirectional) : 0,
        .chunk = convolves && !by_fft ? s4_chunk_length(p) : 0,
        .d_model = p->d_model,
        .modes = p->d_state / 2,
        .rank = p->rank,
        .n_ssm = p->n_ssm,
        .mode = p->mode,
        .discretisation = p->discretisation,
        .channels = p->channels,
        .kernels = p->bidirectional ? 2 * p->channels : p->channels,
        .bidirectional = p->bidirectional,
        .dt_modes = p->dt_untied ? p->d_state / 2 : 1,
        .rate_parity = p->rate_parity && p->mode == S4_MODE_DPLR && p->kernel_length > 0,
        .threads = p->threads,
        .states = carries_states(p),
        .tensors = p->tensors,
        .rate = p->rate,
        .trained = p->direction == S4_DIRECTION_TRAINING ? S4_PARAMETER_ALL & ~p->frozen : 0,
        .wanted = p->direction == S4_DIRECTION_TRAINING ? s4_wanted_by(S4_PARAMETER_ALL & ~p->frozen, p->rank) : 0,
    };
    if (by_fft && p->layout == S4_LAYOUT_BLH && p->channels == 1 && p->d_model > 1) {
        int64_t line = p->dtype == S4_F32 ? 16 : 8; /* 64 bytes */
        shape->stage_channels = clamp(clamp(STAGE_ELEMENTS / s4_stage_stride(shape), line / 4, line), 1, p->d_model);
    }
    if (convolves)
        shape->tile_rows = clamp(clamp(TILE_ELEMENTS / s4_gpu_row_length(shape) / p->channels, 1,
                                       by_fft ? TILE_ROWS_MAX : TILE_CHUNKED_ROWS_MAX), 1, p->batch * p->d_model);
    if (p->kernel_length)
        shape->tile_channels = clamp(clamp(TILE_ELEMENTS / p->kernel_length, 1, TILE_CHANNELS_MAX), 1, p->d_model);
    return S4_OK;
}
