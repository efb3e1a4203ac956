/*
 * Shadow mode: every operation on both places, compared. Where all is right nothing is said; a sample that is not finite is
 * named with the operation, the tensor and the index where it first shows. That planted errors of kernels are named is in
 * tests/defects.sh, which looks for this test to fail.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "expect.h"
#include "layers.h"
#include "place.h"
#include "session.h"

enum { B = 3, LENGTH = 40, H = 4 };

static const layer_shape shapes[] = {
    {.mode = S4_MODE_DPLR, .d_model = H, .d_state = 6, .rank = 1, .n_ssm = 2, .plain_transforms = 1},
    {.mode = S4_MODE_DPLR, .d_model = H, .d_state = 4, .rank = 2, .channels = 2, .bidirectional = 1, .plain_transforms = 1},
    {.mode = S4_MODE_DIAG, .d_model = H, .d_state = 6, .discretisation = S4_ZOH, .dt_untied = 1, .plain_transforms = 1},
    {.mode = S4_MODE_DIAG, .d_model = H, .d_state = 4, .channels = 3, .discretisation = S4_BILINEAR, .plain_transforms = 1},
};
#define SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

static s4_context *shadow_context(void)
{
    s4_context_options options;
    s4_context *context;
    S4_INIT(&options);
    options.threads = 2;
    options.strict = options.shadow = 1;
    must(s4_context_create(&options, &context));
    place_required(context);
    return context;
}

/* What is run, and what is added to one of its samples. */
typedef struct way {
    s4_direction direction;
    s4_dtype dtype;
    s4_algorithm algorithm;
    s4_step_mode step_mode;
    int kernel_f32;
    double spoilt;
    int64_t length; /* 0: LENGTH */
} way;

/* All that a direction has, with states where the layer has any. */
static s4_status run(s4_context *context, s4_layer *layer, const layer_shape *shape, way how)
{
    const s4_direction direction = how.direction;
    const s4_dtype dtype = how.dtype;
    const int64_t T = how.length ? how.length : LENGTH;
    const int64_t M = shape->channels ? shape->channels : 1, N = shape->d_state;
    s4_problem problem = problem_of(layer, direction, dtype, B, T, T);
    problem.algorithm = how.algorithm;
    problem.kernel_f32 = how.kernel_f32;
    problem.states = !shape->bidirectional && direction != S4_DIRECTION_STEP && direction != S4_DIRECTION_KERNEL;
    problem.step_mode = how.step_mode;
    if (direction == S4_DIRECTION_STEP && shape->bidirectional) return S4_OK;
    if (!session_offered(context, &problem)) return S4_OK;
    session s = session_open(context, &problem);
    random_source random = {7};
    double *samples = random_samples(&random, B * M * H * T);
    samples[(1 * H + 2) * T + 5] += how.spoilt;
    void *u = tensor_of(dtype, B * H * T, samples), *dy = tensor_of(dtype, B * M * H * T, samples);
    void *y = tensor_zero(dtype, B * M * H * T), *du = tensor_zero(dtype, B * H * T);
    void *K = tensor_zero(dtype, 2 * M * H * T);
    double *state = random_samples(&random, B * H * N), *dstate = random_samples(&random, B * H * N);
    gradients g = gradients_zero(layer, B * H * T);
    s4_status status = s4_plan_refresh(s.plan, layer, s.workspace);
    s4_forward_io forward = {.struct_size = sizeof forward, .u = u, .y = y};
    s4_backward_io backward = {.struct_size = sizeof backward, .u = u, .dy = dy, .du = du};
    s4_step_io step = {.struct_size = sizeof step, .u = u, .y = y, .state = state};
    if (problem.states) {
        forward.state_in = state;
        forward.state_out = numbers(B * H * N);
        backward.state_in = state;
        backward.dstate_out = backward.dstate_in = dstate;
    }
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) backward.gradients.parameter[p] = g.parameter[p];
    if (!status && direction == S4_DIRECTION_KERNEL) status = s4_plan_kernel(s.plan, layer, s.workspace, K);
    if (!status && (direction == S4_DIRECTION_FORWARD || direction == S4_DIRECTION_TRAINING))
        status = s4_plan_forward(s.plan, layer, s.workspace, &forward);
    if (!status && direction == S4_DIRECTION_TRAINING)
        status = s4_plan_backward(s.plan, layer, s.workspace, &backward);
    if (!status && direction == S4_DIRECTION_STEP) status = s4_plan_step(s.plan, layer, s.workspace, &step);
    session_close(&s);
    return status;
}

Test(shadow, places_agree)
{
    s4_context *context = shadow_context();
    for (int i = 0; i < SHAPES; i++)
        for (int direction = S4_DIRECTION_KERNEL; direction <= S4_DIRECTION_STEP; direction++)
            for (int dtype = S4_F32; dtype <= S4_F64; dtype++)
                for (int kernel_f32 = 0; kernel_f32 <= (shapes[i].mode == S4_MODE_DPLR); kernel_f32++) {
                    about("shape %d, %s, %s%s", i, s4_direction_name((s4_direction)direction),
                          s4_dtype_name((s4_dtype)dtype), kernel_f32 ? ", kernel sums f32" : "");
                    s4_layer *layer = layer_random(&shapes[i], 1);
                    if (direction == S4_DIRECTION_TRAINING) layer_make_trainable(context, layer, LENGTH);
                    must(run(context, layer, &shapes[i],
                             (way){(s4_direction)direction, (s4_dtype)dtype, .algorithm = S4_ALGORITHM_FFT,
                                   .kernel_f32 = kernel_f32}));
                    s4_layer_destroy(layer);
                }
    s4_context_destroy(context);
}

/* Of one sample the gradient of the step sizes is 0 but for rounding. */
Test(shadow, gradients_that_vanish)
{
    s4_context *context = shadow_context();
    for (int i = 0; i < SHAPES; i++) {
        about("shape %d", i);
        s4_layer *layer = layer_random(&shapes[i], 1);
        layer_make_trainable(context, layer, 1);
        must(run(context, layer, &shapes[i],
                 (way){S4_DIRECTION_TRAINING, S4_F64, .algorithm = S4_ALGORITHM_FFT, .length = 1}));
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

Test(shadow, places_agree_in_chunks)
{
    s4_context *context = shadow_context();
    for (int i = 0; i < SHAPES; i++)
        for (int trains = 0; trains < 2; trains++)
            for (int dtype = S4_F32; dtype <= S4_F64; dtype++) {
                if (shapes[i].bidirectional) continue;
                about("shape %d, %s, %s", i, trains ? "training" : "forward", s4_dtype_name((s4_dtype)dtype));
                s4_layer *layer = layer_random(&shapes[i], 1);
                must(run(context, layer, &shapes[i],
                         (way){trains ? S4_DIRECTION_TRAINING : S4_DIRECTION_FORWARD, (s4_dtype)dtype,
                               .algorithm = S4_ALGORITHM_CHUNKED}));
                s4_layer_destroy(layer);
            }
    s4_context_destroy(context);
}

/* Eigenvectors are the host's wherever the set-up is: what is made of them is compared. A is normal but for little. */
Test(shadow, steps_in_eigenvectors)
{
    s4_context *context = shadow_context();
    for (int dtype = S4_F32; dtype <= S4_F64; dtype++) {
        about("%s", s4_dtype_name((s4_dtype)dtype));
        s4_layer *layer = layer_random(&shapes[0], 1);
        for (int64_t i = 0; i < layer_count(layer, S4_PARAMETER_P); i++) layer_data(layer, S4_PARAMETER_P)[i] *= 0.1;
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        must(run(context, layer, &shapes[0],
                 (way){S4_DIRECTION_STEP, (s4_dtype)dtype, .step_mode = S4_STEP_DIAGONAL}));
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* The first sample of the row that a NaN spoils: of row 1, channel 2, all. */
Test(shadow, a_sample_that_is_not_finite)
{
    s4_context *context = shadow_context();
    s4_layer *layer = layer_random(&shapes[0], 1);
    s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, B, LENGTH, LENGTH);
    problem.states = 1;
    session_required(context, layer, &problem);
    s4_placement placement = place_placement();
    char name[64];
    snprintf(name, sizeof name, "operation convolve: y[%d]", (1 * H + 2) * LENGTH);
    const way forward = {S4_DIRECTION_FORWARD, S4_F64, .algorithm = S4_ALGORITHM_FFT, .spoilt = NAN};
    if (placement.stage[S4_STAGE_CONVOLVE] == S4_PLACE_GPU)
        must_refuse(run(context, layer, &shapes[0], forward), S4_ERROR_MISMATCH, name);
    else
        must(run(context, layer, &shapes[0], forward));
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}
