/*
 * What is right, for bench: the same layer, already set up, in double on the CPU. Beyond 2^22 samples of y the first
 * row and evenly spaced channels stand for the whole: outputs of one channel depend on no other, and neither do the
 * gradients of its own parameters. Those of parameters that channels share are then left out.
 */
#include <string.h>

#include "bench_row.h"
#include "difference.h"
#include "execution.h"
#include "memory.h"
#include "problem.h"

static const int64_t whole_samples = (int64_t)1 << 22;
/* A gradient under this share of the largest one is rounding: its error is judged against the largest. */
static const double gradient_floor = 1e-9;

struct reference {
    s4_problem problem;
    int64_t d_model, n_ssm; /* of the whole layer */
    int64_t channel_count;
    int64_t *channel;       /* numbers in the whole layer */
    s4_layer *layer;        /* of these channels */
    struct tensors tensors; /* of these channels, f64 */
};

/* A parameter as (outer, axis, inner), where axis counts channels, or copies that channels share. */
struct strips {
    int64_t outer, axis, inner;
    int shared;
};

static struct strips strips_of(const s4_parameter_view *view, s4_parameter which)
{
    static const int axis[S4_PARAMETER_COUNT] = {
        [S4_PARAMETER_B] = 1, [S4_PARAMETER_P] = 1, [S4_PARAMETER_C] = 1, [S4_PARAMETER_D] = 1};
    static const int shared[S4_PARAMETER_COUNT] = {
        [S4_PARAMETER_A_REAL] = 1, [S4_PARAMETER_A_IMAG] = 1, [S4_PARAMETER_B] = 1, [S4_PARAMETER_P] = 1};
    struct strips strips = {1, view->shape[axis[which]], 1, shared[which]};
    for (int i = 0; i < axis[which]; i++) strips.outer *= view->shape[i];
    for (int i = axis[which] + 1; i < view->rank; i++) strips.inner *= view->shape[i];
    return strips;
}

static int is_whole(const struct reference *reference) { return reference->channel_count == reference->d_model; }

/* Strip of the whole layer that strip i of the reference's stands for. */
static int64_t strip_source(const struct reference *reference, const struct strips *strips, int64_t i)
{
    if (is_whole(reference)) return i;
    return strips->shared ? reference->channel[i] % reference->n_ssm : reference->channel[i];
}

static s4_status gather_layer(struct reference *reference, s4_layer *layer)
{
    s4_layer_options options;
    S4_INIT(&options);
    s4_status status = s4_layer_describe(layer, &options);
    options.transforms_given = 1;
    if (!is_whole(reference)) options.d_model = options.n_ssm = reference->channel_count;
    if (!status) status = s4_layer_create(&options, &reference->layer);
    for (int p = 0; p < S4_PARAMETER_COUNT && !status; p++) {
        s4_parameter_view from, to;
        status = s4_layer_parameter(layer, (s4_parameter)p, &from);
        if (!status) status = s4_layer_parameter(reference->layer, (s4_parameter)p, &to);
        if (status) break;
        struct strips source = strips_of(&from, (s4_parameter)p), target = strips_of(&to, (s4_parameter)p);
        for (int64_t o = 0; to.count && o < target.outer; o++)
            for (int64_t i = 0; i < target.axis; i++)
                memcpy(to.data + (o * target.axis + i) * target.inner,
                       from.data + (o * source.axis + strip_source(reference, &source, i)) * source.inner,
                       (size_t)target.inner * sizeof(double));
    }
    if (!status) status = s4_layer_changed(reference->layer, S4_PARAMETER_ALL);
    if (!status) status = s4_layer_set_length(reference->layer, s4_layer_length(layer));
    return status;
}

/* `groups` times d_model rows: batch rows, each with the channels of every output. */
static void gather_rows(const struct reference *reference, s4_dtype dtype, const void *whole, int64_t groups,
                        double *part)
{
    int64_t length = reference->problem.length, count = reference->channel_count;
    for (int64_t b = 0; b < groups; b++)
        for (int64_t i = 0; i < count; i++)
            for (int64_t t = 0; t < length; t++)
                part[(b * count + i) * length + t] =
                    element(dtype, whole, (b * reference->d_model + reference->channel[i]) * length + t);
}

static void choose_sample(struct reference *reference, const s4_problem *problem)
{
    int64_t row = output_length(problem) > problem->length ? output_length(problem) : problem->length;
    row *= kernels_of(problem);
    int64_t most = whole_samples / row, d_model = problem->d_model;
    int whole = problem->batch * d_model <= most;
    reference->d_model = d_model;
    reference->n_ssm = problem->n_ssm;
    reference->channel_count = whole || d_model <= most ? d_model : most < 1 ? 1 : most;
    reference->channel = memory_zeroed(reference->channel_count, sizeof *reference->channel);
    for (int64_t i = 0; i < reference->channel_count; i++)
        reference->channel[i] = i * d_model / reference->channel_count;

    reference->problem = *problem;
    reference->problem.dtype = S4_F64;
    reference->problem.kernel_f32 = 0;
    if (problem->direction != S4_DIRECTION_TRAINING || problem->mode != S4_MODE_DPLR)
        reference->problem.algorithm = S4_ALGORITHM_FFT; /* another way where the leaf is the same */
    reference->problem.host_budget = reference->problem.device_budget = 0;
    memset(&reference->problem.placement, 0, sizeof reference->problem.placement);
    if (!whole) reference->problem.batch = 1;
    if (!is_whole(reference)) reference->problem.d_model = reference->problem.n_ssm = reference->channel_count;
}

s4_status reference_create(s4_context *context, const s4_problem *problem, s4_layer *layer,
                           const struct tensors *tensors, struct reference **result)
{
    struct reference *reference = *result = memory_zeroed(1, sizeof *reference);
    choose_sample(reference, problem);
    s4_status status = gather_layer(reference, layer);
    if (status) return status;

    s4_direction direction = problem->direction;
    int64_t batch = reference->problem.batch, channels = problem->channels;
    tensors_create(&reference->problem, reference->layer, 0, &reference->tensors);
    if (tensors->u) gather_rows(reference, tensors->dtype, tensors->u, batch, reference->tensors.u);
    if (tensors->dy) gather_rows(reference, tensors->dtype, tensors->dy, batch * channels, reference->tensors.dy);
    struct execution execution;
    status = execution_open(&execution, context, &reference->problem, reference->layer);
    if (!status)
        status =
            compute_output(execution.plan, direction, reference->layer, execution.workspace, &reference->tensors, 0);
    if (!status && direction == S4_DIRECTION_TRAINING)
        status = compute_gradients(execution.plan, reference->layer, execution.workspace, &reference->tensors, 0);
    execution_close(&execution);
    return status;
}

void reference_destroy(struct reference *reference)
{
    if (!reference) return;
    tensors_destroy(&reference->tensors);
    s4_layer_destroy(reference->layer);
    free(reference->channel);
    free(reference);
}

int64_t reference_batch(const struct reference *reference) { return reference->problem.batch; }

static double rows_error(const struct reference *reference, s4_dtype dtype, const void *whole, const double *part,
                         int64_t groups, int64_t length)
{
    struct difference difference = {0, 0};
    for (int64_t b = 0; b < groups; b++)
        for (int64_t i = 0; i < reference->channel_count; i++) {
            int64_t at = (b * reference->d_model + reference->channel[i]) * length;
            difference_add(&difference, dtype, (const char *)whole + (size_t)at * s4_dtype_size(dtype), S4_F64,
                           part + (b * reference->channel_count + i) * length, length);
        }
    return difference_relative(&difference);
}

static struct difference gradient_difference(const struct reference *reference, s4_layer *layer, s4_parameter which,
                                             const double *whole)
{
    struct difference difference = {0, 0};
    s4_parameter_view from, to;
    if (!whole) return difference; /* frozen */
    if (s4_layer_parameter(layer, which, &from) || s4_layer_parameter(reference->layer, which, &to)) return difference;
    struct strips source = strips_of(&from, which), target = strips_of(&to, which);
    if (source.shared && !is_whole(reference) && reference->n_ssm != reference->d_model) return difference;
    if (!to.count) return difference;
    for (int64_t o = 0; o < target.outer; o++)
        for (int64_t i = 0; i < target.axis; i++)
            difference_add(&difference, S4_F64,
                           whole + (o * source.axis + strip_source(reference, &source, i)) * source.inner, S4_F64,
                           reference->tensors.gradient[which] + (o * target.axis + i) * target.inner, target.inner);
    return difference;
}

double reference_error(const struct reference *reference, s4_layer *layer, const struct tensors *tensors)
{
    const struct tensors *right = &reference->tensors;
    int64_t batch = reference->problem.batch;
    int kernel = reference->problem.direction == S4_DIRECTION_KERNEL;
    double error = rows_error(reference, tensors->dtype, tensors->y, right->y,
                              kernel ? kernels_of(&reference->problem) : batch * reference->problem.channels,
                              output_length(&reference->problem));
    if (!tensors->du) return error;

    error =
        larger(error, rows_error(reference, tensors->dtype, tensors->du, right->du, batch, reference->problem.length));
    struct difference differences[S4_PARAMETER_COUNT];
    double largest = 0;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        differences[p] = gradient_difference(reference, layer, (s4_parameter)p, tensors->gradient[p]);
        largest = larger(largest, differences[p].scale);
    }
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        if (differences[p].scale < gradient_floor * largest) differences[p].scale = largest;
        error = larger(error, difference_relative(&differences[p]));
    }
    return error;
}
