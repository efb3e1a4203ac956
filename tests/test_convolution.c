/*
 * The convolution y[t] = sum over s <= t of K[t-s] u[s] + D u[t]: against that sum, and by the properties that it has.
 */
#include <float.h>
#include <math.h>

#include "expect.h"
#include "layers.h"
#include "session.h"
#include "tolerances.h"

typedef struct sizes {
    int64_t batch, d_model, length, kernel_length;
} sizes;

static const sizes size_list[] = {
    {1, 1, 1, 1},   {1, 1, 1, 5},    {1, 1, 5, 1},    {2, 2, 2, 2},    {1, 3, 7, 7},    {3, 1, 13, 31},
    {2, 2, 31, 13}, {2, 4, 64, 64},  {1, 1, 100, 37}, {1, 2, 37, 100}, {2, 1, 101, 101}, {5, 3, 257, 257},
    {1, 1, 97, 8},  {3, 2, 48, 49},  {1, 5, 240, 17},
};

static s4_layer *layer_of(const sizes *size, uint64_t seed)
{
    const layer_shape shape = {.d_model = size->d_model, .d_state = 8, .rank = 1, .plain_transforms = 1};
    return layer_random(&shape, seed);
}

static int64_t count_of(const sizes *size)
{
    return size->batch * size->d_model * size->length;
}

static double *reference_output(s4_layer *layer, const sizes *size, const double *u)
{
    const struct ref_layer reference = layer_reference(layer);
    double *kernel = numbers(size->d_model * size->kernel_length), *y = numbers(count_of(size));
    ref_kernel(&reference, (int)size->kernel_length, kernel);
    ref_convolve((int)size->batch, (int)size->d_model, (int)size->length, (int)size->kernel_length, kernel, u,
                 layer_data(layer, S4_PARAMETER_D), y);
    return y;
}

/* Error of the direct sum in single precision, from a kernel rounded to it, relative to the largest output. */
static double direct_single_error(s4_layer *layer, const sizes *size, const double *u, const double *y)
{
    const struct ref_layer reference = layer_reference(layer);
    double *kernel = numbers(size->d_model * size->kernel_length);
    ref_kernel(&reference, (int)size->kernel_length, kernel);
    const double *D = layer_data(layer, S4_PARAMETER_D);
    double error = 0;
    for (int64_t row = 0; row < size->batch * size->d_model; row++) {
        const int64_t h = row % size->d_model;
        for (int64_t t = 0; t < size->length; t++) {
            float sum = (float)D[h] * (float)u[row * size->length + t];
            for (int64_t s = t - size->kernel_length + 1 > 0 ? t - size->kernel_length + 1 : 0; s <= t; s++)
                sum += (float)kernel[h * size->kernel_length + t - s] * (float)u[row * size->length + s];
            error = fmax(error, fabs((double)sum - y[row * size->length + t]));
        }
    }
    return error / largest(count_of(size), y);
}

Test(convolution, direct_sum)
{
    s4_context *context = context_open();
    for (size_t i = 0; i < sizeof size_list / sizeof size_list[0]; i++)
        for (int d = 0; d < 2; d++) {
            const sizes *size = &size_list[i];
            const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
            about("batch %d, d_model %d, length %d, kernel length %d, %s", (int)size->batch, (int)size->d_model,
                  (int)size->length, (int)size->kernel_length, s4_dtype_name(dtype));
            s4_layer *layer = layer_of(size, i);
            random_source random = {i};
            const double *u = random_samples(&random, count_of(size)), *expected = reference_output(layer, size, u);
            const s4_problem problem =
                problem_of(layer, S4_DIRECTION_FORWARD, dtype, size->batch, size->length, size->kernel_length);
            session s = session_open(context, &problem);
            const double single = fmax(direct_single_error(layer, size, u, expected), ROUNDING_F32);
            expect_close("y", count_of(size), session_forward(&s, layer, 0, 0, u, NULL, NULL), expected,
                         dtype == S4_F64 ? TOLERANCE_FORWARD : FACTOR_F32_CONVOLVE * single, 0);
            session_close(&s);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* More samples than one block of the direct sum would like; primes on both sides. */
Test(convolution, long_and_prime)
{
    const sizes size = {1, 1, 1801, 1009};
    s4_context *context = context_open();
    s4_layer *layer = layer_of(&size, 1);
    random_source random = {1};
    const double *u = random_samples(&random, count_of(&size));
    const s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, 1, size.length, size.kernel_length);
    session s = session_open(context, &problem);
    expect_close("y", size.length, session_forward(&s, layer, 0, 0, u, NULL, NULL),
                 reference_output(layer, &size, u), TOLERANCE_FORWARD, 0);
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

Test(convolution, linear)
{
    const sizes size = {2, 3, 50, 60};
    const int64_t count = count_of(&size);
    s4_context *context = context_open();
    s4_layer *layer = layer_of(&size, 3);
    random_source random = {3};
    const double *u = random_samples(&random, count), *v = random_samples(&random, count);
    double *sum = numbers(count), *expected = numbers(count);
    for (int64_t i = 0; i < count; i++)
        sum[i] = 0.5 * u[i] - 2 * v[i];
    const s4_problem problem =
        problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, size.batch, size.length, size.kernel_length);
    session s = session_open(context, &problem);
    const double *y_u = session_forward(&s, layer, 0, 0, u, NULL, NULL),
                 *y_v = session_forward(&s, layer, 0, 0, v, NULL, NULL);
    for (int64_t i = 0; i < count; i++)
        expected[i] = 0.5 * y_u[i] - 2 * y_v[i];
    expect_close("y", count, session_forward(&s, layer, 0, 0, sum, NULL, NULL), expected, TOLERANCE_LINEAR, 0);
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* Nothing comes out before something went in, and then it is the kernel that comes out. */
Test(convolution, causal)
{
    const sizes size = {1, 2, 60, 60};
    enum { AT = 23 };
    s4_context *context = context_open();
    s4_layer *layer = layer_of(&size, 5);
    memset(layer_data(layer, S4_PARAMETER_D), 0, 2 * sizeof(double));
    must(s4_layer_changed(layer, 1u << S4_PARAMETER_D));
    const struct ref_layer reference = layer_reference(layer);
    double *kernel = numbers(2 * 60), *u = numbers(2 * 60), *expected = numbers(2 * 60);
    ref_kernel(&reference, 60, kernel);
    for (int h = 0; h < 2; h++) {
        u[h * 60 + AT] = 1;
        for (int t = AT; t < 60; t++)
            expected[h * 60 + t] = kernel[h * 60 + t - AT];
    }
    for (int d = 0; d < 2; d++) {
        const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
        about("%s", s4_dtype_name(dtype));
        const s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, dtype, 1, 60, 60);
        session s = session_open(context, &problem);
        const double *y = session_forward(&s, layer, 0, 0, u, NULL, NULL), size_of_y = largest(120, expected);
        expect_close("impulse response", 120, y, expected, dtype == S4_F64 ? TOLERANCE_FORWARD : TOLERANCE_F32_OUTPUT,
                     0);
        for (int h = 0; h < 2; h++) {
            const double before = largest(AT, &y[h * 60]) / size_of_y;
            check(before <= (dtype == S4_F64 ? TOLERANCE_CAUSAL : TOLERANCE_F32_CAUSAL),
                  "[%s] %.3g of the largest value before the impulse", about_text(), before);
        }
        session_close(&s);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* What is not finite in one row stays in that row. */
Test(convolution, rows_do_not_leak)
{
    const sizes size = {3, 4, 33, 40};
    const int64_t count = count_of(&size), T = size.length, broken = 1 * 4 + 2;
    s4_context *context = context_open();
    s4_layer *layer = layer_of(&size, 7);
    random_source random = {7};
    double *u = random_samples(&random, count);
    for (int d = 0; d < 2; d++) {
        const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
        about("%s", s4_dtype_name(dtype));
        const s4_problem problem =
            problem_of(layer, S4_DIRECTION_FORWARD, dtype, size.batch, size.length, size.kernel_length);
        session s = session_open(context, &problem);
        const double *clean = session_forward(&s, layer, 0, 0, u, NULL, NULL);
        double *dirty = numbers_copy(count, u);
        dirty[broken * T + 11] = NAN;
        const double *y = session_forward(&s, layer, 0, 0, dirty, NULL, NULL);
        check(isnan(y[broken * T + 11]), "[%s] a NaN sample gave a number", about_text());
        for (int64_t row = 0; row < size.batch * size.d_model; row++)
            if (row != broken)
                expect_same_bits("another row", T, &y[row * T], &clean[row * T]);
        expect_same_bits("the next call", count, session_forward(&s, layer, 0, 0, u, NULL, NULL), clean);
        session_close(&s);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* Fewer rows and fewer samples than planned: the bits of the whole, where the rest of the row is zero. */
Test(convolution, smaller_than_planned)
{
    const sizes size = {4, 3, 100, 70};
    static const int64_t batches[] = {1, 3, 4}, lengths[] = {1, 37, 99, 100};
    s4_context *context = context_open();
    s4_layer *layer = layer_of(&size, 9);
    random_source random = {9};
    const double *whole = random_samples(&random, count_of(&size));
    for (int d = 0; d < 2; d++) {
        const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
        const s4_problem problem =
            problem_of(layer, S4_DIRECTION_FORWARD, dtype, size.batch, size.length, size.kernel_length);
        session s = session_open(context, &problem);
        for (int i = 0; i < 4; i++) {
            const int64_t T = lengths[i];
            double *cut = numbers_copy(count_of(&size), whole);
            for (int64_t row = 0; row < 12; row++)
                memset(&cut[row * 100 + T], 0, sizeof *cut * (size_t)(100 - T));
            const double *expected = session_forward(&s, layer, 0, 0, cut, NULL, NULL);
            for (int j = 0; j < 3; j++) {
                about("batch %d, length %d, %s", (int)batches[j], (int)T, s4_dtype_name(dtype));
                double *u = numbers(batches[j] * 3 * T);
                for (int64_t row = 0; row < batches[j] * 3; row++)
                    memcpy(&u[row * T], &whole[row * 100], sizeof *u * (size_t)T);
                const double *y = session_forward(&s, layer, batches[j], T, u, NULL, NULL);
                for (int64_t row = 0; row < batches[j] * 3; row++)
                    expect_same_bits("a row", T, &y[row * T], &expected[row * 100]);
            }
        }
        session_close(&s);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

Test(convolution, output_over_input)
{
    const sizes size = {2, 3, 45, 45};
    const int64_t count = count_of(&size);
    s4_context *context = context_open();
    s4_layer *layer = layer_of(&size, 11);
    random_source random = {11};
    const double *u = random_samples(&random, count);
    for (int d = 0; d < 2; d++) {
        const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
        about("%s", s4_dtype_name(dtype));
        const s4_problem problem =
            problem_of(layer, S4_DIRECTION_FORWARD, dtype, size.batch, size.length, size.kernel_length);
        session s = session_open(context, &problem);
        const double *expected = session_forward(&s, layer, 0, 0, u, NULL, NULL);
        s4_forward_io io;
        S4_INIT(&io);
        io.u = io.y = tensor_of(dtype, count, u);
        must(s4_plan_forward(s.plan, layer, s.workspace, &io));
        expect_same_bits("y in the place of u", count, values_of(dtype, count, io.y), expected);
        session_close(&s);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* Splitting a sequence: the state that leaves the first part enters the second. The kernel is as long as the whole, so
 * that nothing is cut. */
Test(convolution, in_two_parts)
{
    enum { B = 2, H = 3, T = 60, FIRST = 23, MODES = 4 };
    const sizes size = {B, H, T, T};
    s4_context *context = context_open();
    s4_layer *layer = layer_of(&size, 13);
    random_source random = {13};
    const double *u = random_samples(&random, B * H * T);
    const struct ref_layer reference = layer_reference(layer);
    double *expected = numbers(B * H * T), *expected_state = numbers(B * H * MODES * 2),
           *state = numbers(B * H * MODES * 2), *first = numbers(B * H * FIRST), *second = numbers(B * H * (T - FIRST));
    ref_recurrence(&reference, B, T, u, NULL, expected, expected_state);
    for (int row = 0; row < B * H; row++) {
        memcpy(&first[row * FIRST], &u[row * T], FIRST * sizeof *u);
        memcpy(&second[row * (T - FIRST)], &u[row * T + FIRST], (T - FIRST) * sizeof *u);
    }
    s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, B, T, T);
    problem.states = 1;
    session_required(context, layer, &problem);
    session s = session_open(context, &problem);
    const double *y_first = session_forward(&s, layer, 0, FIRST, first, NULL, state);
    const double *y_second = session_forward(&s, layer, 0, T - FIRST, second, state, state); /* state in place */
    double *y = numbers(B * H * T);
    for (int row = 0; row < B * H; row++) {
        memcpy(&y[row * T], &y_first[row * FIRST], FIRST * sizeof *y);
        memcpy(&y[row * T + FIRST], &y_second[row * (T - FIRST)], (T - FIRST) * sizeof *y);
    }
    expect_close("y", B * H * T, y, expected, TOLERANCE_STATE, 0);
    expect_close("final state", B * H * MODES * 2, state, expected_state, TOLERANCE_STATE, 0);
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* The kernel is cut at kernel_length; the response to a state is not. */
Test(convolution, response_to_a_state_is_not_cut)
{
    enum { H = 2, T = 50, L = 10, MODES = 4 };
    const sizes size = {1, H, T, L};
    s4_context *context = context_open();
    s4_layer *layer = layer_of(&size, 15);
    random_source random = {15};
    const double *u = random_samples(&random, H * T), *state = random_samples(&random, H * MODES * 2);
    const struct ref_layer reference = layer_reference(layer);
    double *expected = reference_output(layer, &size, u), *response = numbers(H * T);
    ref_kernel_state(&reference, T, state, response);
    for (int i = 0; i < H * T; i++)
        expected[i] += response[i];
    s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, 1, T, L);
    problem.states = 1;
    session_required(context, layer, &problem);
    session s = session_open(context, &problem);
    expect_close("y", H * T, session_forward(&s, layer, 0, 0, u, state, NULL), expected, TOLERANCE_STATE, 0);
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* Calls that make no sense are refused by name and change nothing. */
Test(convolution, refused)
{
    const sizes size = {2, 2, 20, 20};
    const int64_t count = count_of(&size);
    s4_context *context = context_open();
    s4_layer *layer = layer_of(&size, 17);
    const s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F64, 2, 20, 20);
    session s = session_ready(context, &problem, layer);
    double *u = numbers(count), *y = numbers(count), state[64] = {0};
    for (int64_t i = 0; i < count; i++)
        y[i] = 7;
    s4_forward_io good;
    S4_INIT(&good);
    good.u = u;
    good.y = y;
    s4_forward_io io = good;
    io.batch = 3;
    must_refuse(s4_plan_forward(s.plan, layer, s.workspace, &io), S4_ERROR_ARGUMENT, "batch");
    io = good;
    io.batch = -1;
    must_refuse(s4_plan_forward(s.plan, layer, s.workspace, &io), S4_ERROR_ARGUMENT, "batch");
    io = good;
    io.length = 21;
    must_refuse(s4_plan_forward(s.plan, layer, s.workspace, &io), S4_ERROR_ARGUMENT, "length");
    io = good;
    io.u = NULL;
    must_refuse(s4_plan_forward(s.plan, layer, s.workspace, &io), S4_ERROR_ARGUMENT, "u");
    io = good;
    io.y = NULL;
    must_refuse(s4_plan_forward(s.plan, layer, s.workspace, &io), S4_ERROR_ARGUMENT, "y");
    io = good;
    io.state_in = state; /* the plan was not made with states */
    must_refuse(s4_plan_forward(s.plan, layer, s.workspace, &io), S4_ERROR_ARGUMENT, "state");
    s4_backward_io back;
    S4_INIT(&back);
    back.u = back.dy = u;
    back.du = y;
    cr_assert_neq(s4_plan_backward(s.plan, layer, s.workspace, &back), S4_OK); /* a forward plan */
    for (int64_t i = 0; i < count; i++)
        check(y[i] == 7, "a refused call wrote y[%d]", (int)i);
    must(s4_plan_forward(s.plan, layer, s.workspace, &good));
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}
