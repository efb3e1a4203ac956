/* Comparing the library with the definition of a layer: see compare.h. */
#include "compare.h"

#include <math.h>

#include "expect.h"
#include "layers.h"
#include "naive.h"
#include "place.h"
#include "tolerances.h"

int compare_kernel(s4_context *context, s4_layer *layer, double rate, int64_t kernel_length, double tolerance)
{
    const double *expected = NULL;
    for (int d = 0; d < 2; d++) {
        const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
        s4_problem problem = problem_of(layer, S4_DIRECTION_KERNEL, dtype, 1, kernel_length, kernel_length);
        problem.rate = rate;
        if (!session_offered(context, &problem))
            return 0;
        if (!expected)
            expected = naive_kernels(layer, rate, kernel_length);
        session s = session_open(context, &problem);
        expect_close(d == 0 ? "K in f64" : "K in f32", layer_kernels(layer) * problem.d_model * kernel_length,
                     session_kernel(&s, layer), expected, d == 0 ? tolerance : TOLERANCE_F32_KERNEL, 0);
        session_close(&s);
    }
    return 1;
}

int compare_output(s4_context *context, s4_layer *layer, const compare_sizes *sizes, double tolerance)
{
    const s4_layer_options options = layer_options(layer);
    const int64_t inputs = sizes->batch * options.d_model * sizes->length;
    random_source random = {(uint64_t)(sizes->length + 1000 * sizes->kernel_length)};
    const double *u = random_samples(&random, inputs);
    const double *expected = NULL;
    for (int d = 0; d < 2; d++) {
        const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
        const s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, dtype, sizes->batch, sizes->length,
                                              sizes->kernel_length);
        if (!session_offered(context, &problem))
            return 0;
        if (!expected)
            expected = naive_output(layer, sizes->kernel_length, naive_kernels(layer, 1, sizes->kernel_length),
                                    sizes->batch, sizes->length, u, NULL);
        session s = session_open(context, &problem);
        expect_close(d == 0 ? "y in f64" : "y in f32", inputs * options.channels,
                     session_forward(&s, layer, 0, 0, u, NULL, NULL), expected,
                     d == 0 ? tolerance : TOLERANCE_F32_OUTPUT, 0);
        session_close(&s);
    }
    return 1;
}

/* Rows of `rows` channels, 0 from their end on, or NaN: what lies there is absent, and not read. */
static double *cut_rows(const compare_sizes *sizes, int64_t rows, const double *samples, const int64_t *lengths,
                        double beyond)
{
    double *cut = numbers_copy(sizes->batch * rows * sizes->length, samples);
    for (int64_t row = 0; row < sizes->batch * rows; row++)
        for (int64_t t = lengths[row / rows]; t < sizes->length; t++)
            cut[row * sizes->length + t] = beyond;
    return cut;
}

int compare_gradients(s4_context *context, s4_layer *layer, const compare_sizes *sizes, double tolerance)
{
    return compare_gradients_of_rows(context, layer, sizes, NULL, tolerance);
}

int compare_gradients_of_rows(s4_context *context, s4_layer *layer, const compare_sizes *sizes, const int64_t *lengths,
                              double tolerance)
{
    const s4_layer_options options = layer_options(layer);
    const int64_t inputs = sizes->batch * options.d_model * sizes->length;
    random_source random = {(uint64_t)(sizes->length + 1000 * sizes->kernel_length)};
    const double *u = random_samples(&random, inputs), *G = random_samples(&random, inputs * options.channels);
    const double *given_u = u, *given_G = G;
    if (lengths) {
        if (place_has_gpu())
            return 0;
        given_u = cut_rows(sizes, options.d_model, u, lengths, NAN);
        given_G = cut_rows(sizes, options.d_model * options.channels, G, lengths, NAN);
        u = cut_rows(sizes, options.d_model, u, lengths, 0);
        G = cut_rows(sizes, options.d_model * options.channels, G, lengths, 0);
    }
    gradients expected = {.du_count = 0};
    for (int d = 0; d < 2; d++) {
        const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
        const s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, dtype, sizes->batch, sizes->length,
                                              sizes->kernel_length);
        if (!session_offered(context, &problem))
            return 0;
        if (!expected.du_count) {
            expected = naive_gradients(layer, sizes->kernel_length, sizes->batch, sizes->length, u, G);
            if (lengths)
                expected.du = cut_rows(sizes, options.d_model, expected.du, lengths, 0);
        }
        session s = session_open(context, &problem);
        const gradients got = session_backward_rows(&s, layer, 0, 0, lengths, given_u, given_G);
        expect_close_gradients(&got, &expected, d == 0 ? tolerance : TOLERANCE_F32_GRADIENT);
        session_close(&s);
    }
    return 1;
}

int compare_steps(s4_context *context, s4_layer *layer, s4_step_mode mode, const compare_sizes *sizes,
                  double tolerance)
{
    const s4_layer_options options = layer_options(layer);
    const int64_t inputs = sizes->batch * options.d_model * sizes->length,
                  states = sizes->batch * options.d_model * options.d_state;
    random_source random = {(uint64_t)sizes->length};
    const double *u = random_samples(&random, inputs), *state_in = random_samples(&random, states);
    double *state_out = numbers(states), *state = numbers_copy(states, state_in);
    s4_problem forward = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, sizes->batch, sizes->length, sizes->length);
    forward.states = 1;
    if (!session_offered(context, &forward))
        return 0;
    session c = session_open(context, &forward);
    const double *convolved = session_forward(&c, layer, 0, 0, u, state_in, state_out);
    session_close(&c);
    s4_problem problem = problem_of(layer, S4_DIRECTION_STEP, S4_F64, sizes->batch, sizes->length, 0);
    problem.step_mode = mode;
    session s = session_open(context, &problem);
    const double *stepped = session_step(&s, layer, 0, 0, u, state);
    expect_close("convolution against steps", inputs * options.channels, convolved, stepped, tolerance, 0);
    expect_close("final state of a convolution against steps", states, state_out, state, tolerance, 0);
    session_close(&s);
    return 1;
}
