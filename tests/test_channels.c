/*
 * Several outputs of an input channel, and backward kernels: against their definition, and against what they are made
 * of.
 */
#include <math.h>

#include "compare.h"
#include "expect.h"
#include "layers.h"
#include "naive.h"
#include "tolerances.h"

/* Every pair of mode and number of kernels. */
typedef struct kind {
    s4_mode mode;
    int channels, bidirectional;
} kind;

static const kind kinds[] = {{S4_MODE_DPLR, 3, 0}, {S4_MODE_DPLR, 1, 1}, {S4_MODE_DPLR, 2, 1},
                             {S4_MODE_DIAG, 3, 0}, {S4_MODE_DIAG, 1, 1}, {S4_MODE_DIAG, 2, 1}};
#define KINDS (int)(sizeof kinds / sizeof kinds[0])

static layer_shape shape_of(const kind *k)
{
    const layer_shape shape = {.mode = k->mode, .d_model = 2, .d_state = 4, .rank = k->mode == S4_MODE_DPLR ? 2 : 0,
                               .n_ssm = 1, .plain_transforms = 1, .channels = k->channels,
                               .bidirectional = k->bidirectional,
                               .discretisation = k->mode == S4_MODE_DPLR ? S4_BILINEAR : S4_ZOH};
    return shape;
}

static void say(const kind *k, const char *what, const compare_sizes *sizes)
{
    about("%s, %d channels%s, %s, length %d, kernel %d", s4_mode_name(k->mode), k->channels,
          k->bidirectional ? ", bidirectional" : "", what, (int)sizes->length, (int)sizes->kernel_length);
}

static s4_context *context_for_channels(void)
{
    s4_context *context = context_open();
    const layer_shape shape = shape_of(&kinds[0]);
    s4_layer *layer = layer_random(&shape, 1);
    const s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, 1, 4, 4);
    session_required(context, layer, &problem);
    s4_layer_destroy(layer);
    return context;
}

static const compare_sizes size_list[] = {{2, 20, 20}, {1, 7, 12}, {2, 12, 7}, {1, 1, 1}, {1, 2, 1}, {2, 16, 16},
                                          {1, 1, 5}};

Test(channels, kernels_and_outputs)
{
    s4_context *context = context_for_channels();
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < 7; i++) {
            const layer_shape shape = shape_of(&kinds[k]);
            s4_layer *layer = layer_random(&shape, (uint64_t)(10 * k + i));
            say(&kinds[k], "kernel", &size_list[i]);
            compare_kernel(context, layer, 1, size_list[i].kernel_length, TOLERANCE_FORWARD_RANK);
            say(&kinds[k], "output", &size_list[i]);
            compare_output(context, layer, &size_list[i], TOLERANCE_FORWARD_RANK);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

Test(channels, gradients)
{
    s4_context *context = context_for_channels();
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < 6; i++) {
            const layer_shape shape = shape_of(&kinds[k]);
            s4_layer *layer = layer_random(&shape, (uint64_t)(10 * k + i));
            const compare_sizes sizes = {size_list[i].batch, size_list[i].length < 12 ? size_list[i].length : 9,
                                         size_list[i].kernel_length < 12 ? size_list[i].kernel_length : 9};
            say(&kinds[k], "gradients", &sizes);
            layer_make_trainable(context, layer, sizes.kernel_length);
            compare_gradients(context, layer, &sizes, TOLERANCE_GRADIENT_DIFFERENCE);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* A backward kernel alone: what it makes of an impulse at t lies before t, its first value just before it. */
Test(channels, backward_impulse)
{
    enum { T = 20, AT = 13 };
    s4_context *context = context_for_channels();
    const kind k = {S4_MODE_DIAG, 1, 1};
    layer_shape shape = shape_of(&k);
    shape.d_model = 1;
    s4_layer *layer = layer_random(&shape, 3);
    memset(layer_data(layer, S4_PARAMETER_C), 0, 4 * sizeof(double)); /* the forward kernel */
    layer_data(layer, S4_PARAMETER_D)[0] = 0;
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
    const double *K = naive_kernels(layer, 1, T);
    double u[T] = {0}, expected[T] = {0};
    u[AT] = 1;
    for (int t = 0; t < AT; t++)
        expected[t] = K[T + AT - t - 1];
    const s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, 1, T, T);
    session s = session_open(context, &problem);
    expect_close("y", T, session_forward(&s, layer, 0, 0, u, NULL, NULL), expected, TOLERANCE_FORWARD, 0);
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* Output c is that of a layer with kernel c alone, to the bit: by convolution, from a state, and by steps. */
Test(channels, outputs_stand_alone)
{
    enum { B = 2, H = 2, T = 30, STATES = B * H * 4 };
    s4_context *context = context_for_channels();
    random_source random = {4};
    const double *u = random_samples(&random, B * H * T), *state_in = random_samples(&random, STATES);
    for (int mode = 0; mode < 2; mode++) {
        const kind k = {(s4_mode)mode, 3, 0};
        layer_shape shape = shape_of(&k), one = shape;
        one.channels = 1;
        s4_layer *layer = layer_random(&shape, 5), *alone = layer_random(&one, 5);
        static const s4_parameter shared[] = {S4_PARAMETER_INV_DT, S4_PARAMETER_A_REAL, S4_PARAMETER_A_IMAG,
                                              S4_PARAMETER_B, S4_PARAMETER_P};
        for (int p = 0; p < 5; p++)
            if (layer_count(alone, shared[p]) > 0)
                memcpy(layer_data(alone, shared[p]), layer_data(layer, shared[p]),
                       sizeof(double) * (size_t)layer_count(alone, shared[p]));
        for (int c = 0; c < 3; c++) {
            memcpy(layer_data(alone, S4_PARAMETER_C), &layer_data(layer, S4_PARAMETER_C)[c * H * 4],
                   H * 4 * sizeof(double));
            memcpy(layer_data(alone, S4_PARAMETER_D), &layer_data(layer, S4_PARAMETER_D)[c * H], H * sizeof(double));
            must(s4_layer_changed(alone, S4_PARAMETER_ALL));
            for (int steps = 0; steps < 2; steps++) {
                about("%s, output %d, %s", s4_mode_name(k.mode), c, steps ? "steps" : "convolution");
                double *y[2], *state[2];
                for (int i = 0; i < 2; i++) {
                    s4_layer *of = i == 0 ? layer : alone;
                    s4_problem problem = problem_of(of, steps ? S4_DIRECTION_STEP : S4_DIRECTION_FORWARD, S4_F64, B, T,
                                                    steps ? 0 : T);
                    problem.states = !steps;
                    problem.states = problem.states && session_offered(context, &problem);
                    session s = session_open(context, &problem);
                    state[i] = numbers_copy(STATES, state_in);
                    y[i] = steps ? session_step(&s, of, 0, 0, u, state[i])
                                 : session_forward(&s, of, 0, 0, u, problem.states ? state[i] : NULL,
                                                    problem.states ? state[i] : NULL);
                    session_close(&s);
                }
                for (int b = 0; b < B; b++)
                    expect_same_bits("y", H * T, &y[0][(b * 3 + c) * H * T], &y[1][b * H * T]);
                expect_same_bits("state", STATES, state[0], state[1]);
            }
        }
        s4_layer_destroy(layer);
        s4_layer_destroy(alone);
    }
    s4_context_destroy(context);
}

Test(channels, steps_equal_convolution)
{
    static const compare_sizes sizes = {2, 25, 25};
    s4_context *context = context_for_channels();
    for (int mode = S4_MODE_DPLR; mode <= S4_MODE_DIAG; mode++)
        for (int step = S4_STEP_LINEAR; step <= (mode == S4_MODE_DPLR ? S4_STEP_DENSE : S4_STEP_LINEAR); step++) {
            about("%s, %s", s4_mode_name((s4_mode)mode), s4_step_mode_name((s4_step_mode)step));
            const kind k = {(s4_mode)mode, 3, 0};
            const layer_shape shape = shape_of(&k);
            s4_layer *layer = layer_random(&shape, 6);
            compare_steps(context, layer, (s4_step_mode)step, &sizes, TOLERANCE_STATE);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* Set-up of every kernel of a channel: there and back. */
Test(channels, setup_and_undo)
{
    s4_context *context = context_open();
    for (int k = 0; k < 3; k++) {
        about("%d channels, bidirectional %d", kinds[k].channels, kinds[k].bidirectional);
        const layer_shape shape = shape_of(&kinds[k]);
        s4_layer *layer = layer_random(&shape, 7);
        const int64_t count = layer_count(layer, S4_PARAMETER_C), part = count / layer_kernels(layer);
        const double *c = numbers_copy(count, layer_data(layer, S4_PARAMETER_C));
        double *expected = numbers(count);
        for (int64_t kernel = 0; kernel < layer_kernels(layer); kernel++) {
            const struct ref_layer reference = layer_reference_kernel(layer, kernel);
            ref_c_tilde(&reference, 13, &expected[kernel * part]);
        }
        must(s4_layer_setup(context, layer, 13));
        expect_close("C~", count, layer_data(layer, S4_PARAMETER_C), expected, TOLERANCE_FORWARD_RANK, 0);
        layer_write_c(layer, expected, 13);
        must(s4_layer_setup(context, layer, 0));
        expect_close("C", count, layer_data(layer, S4_PARAMETER_C), c, TOLERANCE_UNDO, 0);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

Test(channels, refused)
{
    s4_context *context = context_for_channels();
    const kind two = {S4_MODE_DPLR, 2, 0}, both = {S4_MODE_DIAG, 1, 1};
    const layer_shape shape = shape_of(&two), other = shape_of(&both);
    s4_layer *layer = layer_random(&shape, 1), *bidirectional = layer_random(&other, 1);
    const s4_problem forward = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, 1, 8, 8);
    session s = session_ready(context, &forward, layer);
    double samples[4 * 8] = {0};
    s4_forward_io io;
    S4_INIT(&io);
    io.u = io.y = samples;
    must_refuse(s4_plan_forward(s.plan, layer, s.workspace, &io), S4_ERROR_ARGUMENT, "channels");
    must_refuse(s4_plan_refresh(s.plan, bidirectional, s.workspace), S4_ERROR_ARGUMENT, "the layer's");
    session_close(&s);
    s4_plan *plan;
    s4_problem problem = problem_of(bidirectional, S4_DIRECTION_STEP, S4_F64, 1, 8, 0);
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_UNSUPPORTED, "bidirectional");
    problem = problem_of(bidirectional, S4_DIRECTION_FORWARD, S4_F64, 1, 8, 8);
    problem.states = 1;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_UNSUPPORTED, "bidirectional");
    s4_layer_destroy(layer);
    s4_layer_destroy(bidirectional);
    s4_context_destroy(context);
}
