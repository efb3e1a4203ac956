/*
 * The recurrence x' = dA x + dB u, y = 2 Re(C x') + D u: against the convolution, against the dense reference, and cut
 * into calls of any size.
 */
#include <math.h>

#include "expect.h"
#include "layers.h"
#include "session.h"
#include "tolerances.h"

static const layer_shape small = {.d_model = 4, .d_state = 8, .rank = 2, .n_ssm = 2, .plain_transforms = 1};

static s4_problem step_problem(s4_layer *layer, s4_dtype dtype, s4_step_mode mode, int64_t batch, int64_t length)
{
    s4_problem problem = problem_of(layer, S4_DIRECTION_STEP, dtype, batch, length, 0);
    problem.step_mode = mode;
    return problem;
}

Test(step, against_recurrence)
{
    enum { B = 3, T = 40, MODES = 4 };
    s4_context *context = context_open();
    for (int rank = 1; rank <= S4_RANK_MAX; rank++) {
        layer_shape shape = small;
        shape.rank = rank;
        const int64_t count = B * shape.d_model * T, states = B * shape.d_model * MODES * 2;
        s4_layer *layer = layer_random(&shape, (uint64_t)rank);
        const struct ref_layer reference = layer_reference(layer);
        random_source random = {(uint64_t)rank};
        const double *u = random_samples(&random, count), *state_in = random_samples(&random, states);
        double *expected = numbers(count), *expected_state = numbers(states);
        ref_recurrence(&reference, B, T, u, state_in, expected, expected_state);
        for (int mode = S4_STEP_LINEAR; mode <= S4_STEP_DENSE; mode++)
            for (int d = 0; d < 2; d++) {
                const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
                about("rank %d, %s, %s", rank, s4_step_mode_name((s4_step_mode)mode), s4_dtype_name(dtype));
                const s4_problem problem = step_problem(layer, dtype, (s4_step_mode)mode, B, T);
                session s = session_open(context, &problem);
                double *state = numbers_copy(states, state_in);
                const double *y = session_step(&s, layer, 0, 0, u, state);
                const double tolerance = dtype == S4_F64 ? TOLERANCE_STATE : TOLERANCE_F32_OUTPUT;
                expect_close("y", count, y, expected, tolerance, 0);
                expect_close("state", states, state, expected_state, tolerance, 0);
                session_close(&s);
            }
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* The two ways to run a layer, on the start that is used in practice. */
Test(step, equals_convolution)
{
    enum { H = 2, N = 64, T = 1024 };
    s4_context *context = context_open();
    s4_layer *layer = layer_legs(context, H, N, 5);
    random_source random = {5};
    const double *u = random_samples(&random, H * T);
    for (int d = 0; d < 2; d++) {
        const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
        const s4_problem forward = problem_of(layer, S4_DIRECTION_FORWARD, dtype, 1, T, T);
        session c = session_open(context, &forward);
        const double *convolved = session_forward(&c, layer, 0, 0, u, NULL, NULL);
        for (int mode = S4_STEP_LINEAR; mode <= S4_STEP_DENSE; mode++) {
            about("%s, %s", s4_dtype_name(dtype), s4_step_mode_name((s4_step_mode)mode));
            const s4_problem problem = step_problem(layer, dtype, (s4_step_mode)mode, 1, T);
            session s = session_open(context, &problem);
            double *state = numbers(H * N);
            expect_close("convolution against steps", H * T, convolved, session_step(&s, layer, 0, 0, u, state),
                         dtype == S4_F64 ? TOLERANCE_CONVOLVE_STEP : TOLERANCE_F32_CONVOLVE_STEP, 0);
            session_close(&s);
        }
        session_close(&c);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* The recurrence in eigenvectors of dA, where they are far enough from one another: A is normal but for little. */
Test(step, in_eigenvectors)
{
    enum { B = 2, T = 60, MODES = 4 };
    s4_context *context = context_open();
    for (int channels = 1; channels <= 2; channels++)
        for (int dtype = S4_F32; dtype <= S4_F64; dtype++) {
            about("%d channels, %s", channels, s4_dtype_name((s4_dtype)dtype));
            layer_shape shape = small;
            shape.channels = channels;
            s4_layer *layer = layer_random(&shape, 5);
            double *P = layer_data(layer, S4_PARAMETER_P);
            for (int64_t i = 0; i < layer_count(layer, S4_PARAMETER_P); i++)
                P[i] *= 0.3;
            must(s4_layer_changed(layer, S4_PARAMETER_ALL));
            const int64_t rows = B * shape.d_model, states = rows * MODES * 2, out = rows * channels * T;
            random_source random = {5};
            const double *u = random_samples(&random, rows * T), *state_in = random_samples(&random, states);
            double *y[2], *state[2];
            for (int m = 0; m < 2; m++) {
                const s4_problem problem =
                    step_problem(layer, (s4_dtype)dtype, m == 0 ? S4_STEP_DIAGONAL : S4_STEP_LINEAR, B, T);
                session s = session_open(context, &problem);
                state[m] = numbers_copy(states, state_in);
                y[m] = session_step(&s, layer, 0, 0, u, state[m]);
                session_close(&s);
            }
            const double tolerance = dtype == S4_F64 ? TOLERANCE_STEP_DIAGONAL : TOLERANCE_F32_OUTPUT;
            expect_close("y", out, y[0], y[1], tolerance, 0);
            expect_close("state", states, state[0], state[1], tolerance, 0);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* A fresh LegS layer has eigenvectors of condition 1e10 and more: refused by name, and the plan works for a layer that
 * has better ones. */
Test(step, in_eigenvectors_of_a_bad_condition)
{
    enum { N = 16 };
    s4_context *context = context_open();
    s4_layer *legs = layer_legs(context, 2, N, 5);
    const s4_problem problem = step_problem(legs, S4_F64, S4_STEP_DIAGONAL, 1, 4);
    const layer_shape shape = {.d_model = 2, .d_state = N, .rank = 1, .plain_transforms = 1};
    s4_layer *tame = layer_random(&shape, 5);
    memset(layer_data(tame, S4_PARAMETER_P), 0, sizeof(double) * 2 * N);
    must(s4_layer_changed(tame, S4_PARAMETER_ALL));
    session s = session_open(context, &problem);
    must_refuse(s4_plan_refresh(s.plan, legs, s.workspace), S4_ERROR_UNSUPPORTED, "condition");
    must(s4_plan_refresh(s.plan, tame, s.workspace));
    must_refuse(s4_plan_refresh(s.plan, legs, s.workspace), S4_ERROR_UNSUPPORTED, "condition");
    double u[8] = {0}, state[2 * N] = {0};
    s4_step_io io;
    S4_INIT(&io);
    io.u = io.y = u;
    io.state = state;
    must_refuse(s4_plan_step(s.plan, tame, s.workspace, &io), S4_ERROR_STALE, "");
    session_close(&s);
    s4_layer_destroy(legs);
    s4_layer_destroy(tame);
    s4_context_destroy(context);
}

/* A layer that stores C~ is stepped with the C that it stands for. */
Test(step, from_c_tilde)
{
    enum { T = 30, MODES = 4 };
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&small, 6);
    const struct ref_layer reference = layer_reference(layer);
    random_source random = {6};
    const double *u = random_samples(&random, small.d_model * T);
    double *expected = numbers(small.d_model * T), *c_tilde = numbers(small.d_model * MODES * 2);
    ref_recurrence(&reference, 1, T, u, NULL, expected, NULL);
    ref_c_tilde(&reference, 50, c_tilde);
    layer_write_c(layer, c_tilde, 50);
    for (int mode = S4_STEP_LINEAR; mode <= S4_STEP_DENSE; mode++) {
        about("%s", s4_step_mode_name((s4_step_mode)mode));
        const s4_problem problem = step_problem(layer, S4_F64, (s4_step_mode)mode, 1, T);
        session s = session_open(context, &problem);
        double *state = numbers(small.d_model * MODES * 2);
        expect_close("y", small.d_model * T, session_step(&s, layer, 0, 0, u, state), expected, TOLERANCE_UNDO, 0);
        session_close(&s);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* However the samples are cut into calls: the same bits. */
static void chunk_law(const layer_shape *shape)
{
    enum { B = 2, T = 24, MODES = 4 };
    static const int64_t chunks[][8] = {{24}, {1, 23}, {23, 1}, {5, 7, 12}, {8, 8, 8}, {1, 1, 1, 1, 20}, {11, 2, 11}};
    const int64_t rows = B * shape->d_model, states = rows * MODES * 2;
    s4_context *context = context_open();
    s4_layer *layer = layer_random(shape, 8);
    random_source random = {8};
    const double *u = random_samples(&random, rows * T), *state_in = random_samples(&random, states);
    for (int d = 0; d < 2; d++) {
        const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
        const s4_problem problem = step_problem(layer, dtype, S4_STEP_LINEAR, B, 7);
        session s = session_open(context, &problem);
        double *whole_state = numbers_copy(states, state_in);
        const double *whole = session_step(&s, layer, 0, T, u, whole_state); /* more samples than planned */
        for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
            about("%s, %s, first chunk %d", s4_mode_name(shape->mode), s4_dtype_name(dtype), (int)chunks[i][0]);
            double *state = numbers_copy(states, state_in), *y = numbers(rows * T);
            int64_t t = 0;
            for (int j = 0; j < 8 && chunks[i][j]; j++) {
                const int64_t length = chunks[i][j];
                double *part = numbers(rows * length);
                for (int64_t row = 0; row < rows; row++)
                    memcpy(&part[row * length], &u[row * T + t], sizeof *u * (size_t)length);
                const double *out = session_step(&s, layer, 0, length, part, state);
                for (int64_t row = 0; row < rows; row++)
                    memcpy(&y[row * T + t], &out[row * length], sizeof *y * (size_t)length);
                t += length;
            }
            cr_assert_eq(t, T);
            expect_same_bits("y", rows * T, y, whole);
            expect_same_bits("state", states, state, whole_state);
        }
        session_close(&s);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

Test(step, chunk_law)
{
    static const layer_shape diagonal = {.mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .d_model = 4, .d_state = 8,
                                         .plain_transforms = 1};
    chunk_law(&small);
    chunk_law(&diagonal);
}

/* One sample at a time, which goes through tiles of channels and of rows: the bits of all samples in one call. */
Test(step, one_sample_of_many_rows)
{
    enum { B = 5, H = 11, T = 3 };
    static const int64_t sizes[] = {2, 8, 26, 64};
    s4_context *context = context_open();
    for (int rank = 0; rank <= 2; rank++)
        for (int i = 0; i < 4; i++)
            for (int d = 0; d < 2; d++) {
                const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
                const int64_t N = sizes[i], states = B * H * N;
                about("rank %d, N %d, %s", rank, (int)N, s4_dtype_name(dtype));
                const layer_shape shape = {.mode = rank ? S4_MODE_DPLR : S4_MODE_DIAG, .d_model = H, .d_state = N,
                                           .discretisation = rank ? S4_BILINEAR : S4_ZOH, .rank = rank,
                                           .plain_transforms = 1};
                s4_layer *layer = layer_random(&shape, (uint64_t)N);
                random_source random = {(uint64_t)N};
                const double *u = random_samples(&random, B * H * T), *state_in = random_samples(&random, states);
                s4_problem problem = step_problem(layer, dtype, S4_STEP_LINEAR, B, T);
                problem.threads = 1 + i % 2;
                session s = session_open(context, &problem);
                double *state = numbers_copy(states, state_in), *one_state = numbers_copy(states, state_in);
                const double *y = session_step(&s, layer, 0, T, u, state);
                for (int64_t t = 0; t < T; t++) {
                    double *now = numbers(B * H), *then = numbers(B * H);
                    for (int64_t row = 0; row < B * H; row++) {
                        now[row] = u[row * T + t];
                        then[row] = y[row * T + t];
                    }
                    expect_same_bits("y", B * H, session_step(&s, layer, 0, 1, now, one_state), then);
                }
                expect_same_bits("state", states, one_state, state);
                session_close(&s);
                s4_layer_destroy(layer);
            }
    s4_context_destroy(context);
}

/* So many that two threads share them, an odd number each: no row is met twice. */
Test(step, rows_of_two_threads)
{
    enum { B = 502, H = 8, N = 64 };
    static const layer_shape shape = {.mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .d_model = H, .d_state = N,
                                      .plain_transforms = 1};
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shape, 11);
    random_source random = {11};
    const double *u = random_samples(&random, B * H), *state_in = random_samples(&random, B * H * N);
    double *state[2];
    const double *y[2];
    for (int threads = 1; threads <= 2; threads++) {
        s4_problem problem = step_problem(layer, S4_F64, S4_STEP_LINEAR, B, 1);
        problem.threads = threads;
        session s = session_open(context, &problem);
        state[threads - 1] = numbers_copy(B * H * N, state_in);
        y[threads - 1] = session_step(&s, layer, 0, 0, u, state[threads - 1]);
        session_close(&s);
    }
    expect_same_bits("y", B * H, y[1], y[0]);
    expect_same_bits("state", B * H * N, state[1], state[0]);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* Fewer rows than planned, y in the place of u, any number of threads: the same bits a row. */
Test(step, rows_stand_alone)
{
    enum { B = 3, T = 9, MODES = 4 };
    const int64_t H = small.d_model, states = B * H * MODES * 2;
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&small, 9);
    random_source random = {9};
    const double *u = random_samples(&random, B * H * T), *state_in = random_samples(&random, states);
    for (int mode = S4_STEP_LINEAR; mode <= S4_STEP_DENSE; mode++) {
        about("%s", s4_step_mode_name((s4_step_mode)mode));
        s4_problem problem = step_problem(layer, S4_F64, (s4_step_mode)mode, B, T);
        problem.threads = 1;
        session s = session_open(context, &problem);
        double *state = numbers_copy(states, state_in);
        const double *y = session_step(&s, layer, 0, 0, u, state);
        double *one_state = numbers_copy(states / B, state_in);
        expect_same_bits("first row of the batch", H * T, session_step(&s, layer, 1, T, u, one_state), y);
        expect_same_bits("its state", states / B, one_state, state);

        double *over = numbers_copy(B * H * T, u), *over_state = numbers_copy(states, state_in);
        s4_step_io io;
        S4_INIT(&io);
        io.u = io.y = over;
        io.state = over_state;
        must(s4_plan_step(s.plan, layer, s.workspace, &io));
        expect_same_bits("y in the place of u", B * H * T, over, y);
        expect_same_bits("its state", states, over_state, state);
        session_close(&s);

        problem.threads = 5;
        s = session_open(context, &problem);
        double *threads_state = numbers_copy(states, state_in);
        expect_same_bits("five threads", B * H * T, session_step(&s, layer, 0, 0, u, threads_state), y);
        expect_same_bits("their state", states, threads_state, state);
        session_close(&s);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* More rows than a GPU takes at a time of states that do not fit its shared memory: each is what it is alone. */
Test(step, many_rows_of_large_states)
{
    enum { B = 1030, T = 2, N = 770 };
    static const layer_shape large = {.mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .d_model = 1, .d_state = N,
                                      .plain_transforms = 1};
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&large, 10);
    random_source random = {10};
    const double *u = random_samples(&random, B * T), *state_in = random_samples(&random, B * N);
    const s4_problem problem = step_problem(layer, S4_F64, S4_STEP_LINEAR, B, T);
    session s = session_open(context, &problem);
    double *state = numbers_copy(B * N, state_in);
    const double *y = session_step(&s, layer, 0, 0, u, state);
    for (int64_t b = 3; b < B; b += 342) {
        double *one = numbers_copy(N, state_in + b * N);
        expect_same_bits("a row", T, session_step(&s, layer, 1, T, u + b * T, one), y + b * T);
        expect_same_bits("its state", N, one, state + b * N);
    }
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* What is not finite in one row stays there. */
Test(step, rows_do_not_leak)
{
    enum { B = 2, T = 12, MODES = 4 };
    const int64_t H = small.d_model, states = B * H * MODES * 2;
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&small, 10);
    random_source random = {10};
    double *u = random_samples(&random, B * H * T);
    const s4_problem problem = step_problem(layer, S4_F64, S4_STEP_LINEAR, B, T);
    session s = session_open(context, &problem);
    double *clean_state = numbers(states), *state = numbers(states);
    const double *clean = session_step(&s, layer, 0, 0, u, clean_state);
    u[3 * T + 5] = NAN; /* row 3, sample 5 */
    const double *y = session_step(&s, layer, 0, 0, u, state);
    for (int64_t row = 0; row < B * H; row++)
        expect_same_bits("what is not reached", row == 3 ? 5 : T, &y[row * T], &clean[row * T]);
    for (int t = 5; t < T; t++)
        check(isnan(y[3 * T + t]), "sample %d after a NaN is a number", t);
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* A step at another rate is a step of another dt. */
Test(step, rate)
{
    enum { T = 20, MODES = 4 };
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&small, 12);
    struct ref_layer reference = layer_reference(layer);
    reference.rate = 0.5;
    random_source random = {12};
    const double *u = random_samples(&random, small.d_model * T);
    double *expected = numbers(small.d_model * T);
    ref_recurrence(&reference, 1, T, u, NULL, expected, NULL);
    for (int mode = S4_STEP_LINEAR; mode <= S4_STEP_DENSE; mode++) {
        about("%s", s4_step_mode_name((s4_step_mode)mode));
        s4_problem problem = step_problem(layer, S4_F64, (s4_step_mode)mode, 1, T);
        problem.rate = 0.5;
        session s = session_open(context, &problem);
        double *state = numbers(small.d_model * MODES * 2);
        expect_close("y", small.d_model * T, session_step(&s, layer, 0, 0, u, state), expected, TOLERANCE_STATE, 0);
        session_close(&s);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

Test(step, refused)
{
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&small, 14);
    const s4_problem problem = step_problem(layer, S4_F64, S4_STEP_LINEAR, 1, 4);
    session s = session_ready(context, &problem, layer);
    double u[32] = {0}, y[32], state[32] = {0};
    s4_step_io io;
    S4_INIT(&io);
    io.u = u;
    io.y = y;
    must_refuse(s4_plan_step(s.plan, layer, s.workspace, &io), S4_ERROR_ARGUMENT, "state");
    io.state = state;
    io.length = -1;
    must_refuse(s4_plan_step(s.plan, layer, s.workspace, &io), S4_ERROR_ARGUMENT, "length");
    io.length = 0;
    io.batch = 2;
    must_refuse(s4_plan_step(s.plan, layer, s.workspace, &io), S4_ERROR_ARGUMENT, "batch");
    io.batch = 0;
    must(s4_plan_step(s.plan, layer, s.workspace, &io));
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}
