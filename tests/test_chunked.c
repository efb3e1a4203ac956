/*
 * The convolution in chunks, forward: against the definition of a layer, against steps where states go in and out, with
 * lengths and layouts; and what it refuses.
 */
#include <math.h>

#include "chunked.h"
#include "expect.h"
#include "naive.h"
#include "place.h"
#include "tolerances.h"

static const int64_t lengths[] = {1, 2, 3, 8, 31, 32, 64, 65, 200};
enum { LENGTHS = 9 };

static void compare(s4_context *context, const chunked_call *c, const double *y, double tolerance)
{
    for (int single = 0; single < 2; single++) {
        chunked_call call = *c;
        call.dtype = single ? S4_F32 : S4_F64;
        const chunked_result got = chunked_forward(context, &call);
        expect_close(single ? "y in f32" : "y in f64", chunked_outputs(c), got.y, y,
                     single ? TOLERANCE_F32_OUTPUT : tolerance, 0);
    }
}

Test(chunked, is_the_definition)
{
    s4_context *context = context_open();
    for (int k = 0; k < chunked_kind_count; k++) {
        s4_layer *layer = layer_random(&chunked_kinds[k].shape, (uint64_t)k);
        for (int i = 0; i < LENGTHS; i++) {
            about("%s, length %d", chunked_kinds[k].name, (int)lengths[i]);
            const int64_t T = lengths[i];
            const chunked_call c = chunked_open(layer, 3, T, 0, (uint64_t)(100 * k + i));
            compare(context, &c, naive_output(layer, T, naive_kernels(layer, 1, T), 3, T, c.u, NULL),
                    TOLERANCE_FORWARD_RANK);
        }
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* Other rates, kernels longer than the input, and a layer that stores C~. */
Test(chunked, takes_any_leaf_and_rate)
{
    s4_context *context = context_open();
    for (int k = 0; k < chunked_kind_count; k++) {
        s4_layer *layer = layer_random(&chunked_kinds[k].shape, (uint64_t)k);
        const layer_shape *shape = &chunked_kinds[k].shape;
        about("%s", chunked_kinds[k].name);
        chunked_call c = chunked_open(layer, 2, 75, 0, (uint64_t)k);
        c.rate = 1.7;
        const double *y = naive_output(layer, 75, naive_kernels(layer, 1.7, 75), 2, 75, c.u, NULL);
        compare(context, &c, y, TOLERANCE_FORWARD_RANK);
        if (shape->mode == S4_MODE_DPLR && shape->bandlimit == 0) {
            must(s4_layer_setup(context, layer, 128));
            compare(context, &c, y, TOLERANCE_UNDO);
        }
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

Test(chunked, hands_states_on_as_steps_do)
{
    s4_context *context = context_open();
    for (int k = 0; k < chunked_kind_count; k++) {
        s4_layer *layer = layer_random(&chunked_kinds[k].shape, (uint64_t)k);
        for (int i = 0; i < LENGTHS; i++) {
            const int64_t T = lengths[i], B = 5;
            about("%s, length %d", chunked_kinds[k].name, (int)T);
            chunked_call c = chunked_open(layer, B, T, 1, (uint64_t)(100 * k + i));
            double *state = numbers_copy(chunked_states(&c), c.x0);
            s4_problem step = problem_of(layer, S4_DIRECTION_STEP, S4_F64, B, T, 0);
            session s = session_open(context, &step);
            const double *y = session_step(&s, layer, 0, 0, c.u, state);
            session_close(&s);
            for (int single = 0; single < 2; single++) {
                c.dtype = single ? S4_F32 : S4_F64;
                const double tolerance = single ? TOLERANCE_F32_OUTPUT : TOLERANCE_STATE;
                const chunked_result got = chunked_forward(context, &c);
                expect_close("y", chunked_outputs(&c), got.y, y, tolerance, 0);
                expect_close("the state that leaves", chunked_states(&c), got.state, state, tolerance, 0);
            }
        }
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* Each row is that of a call of its own length; beyond it, y is 0 and u is not read. */
Test(chunked, with_lengths)
{
    enum { B = 6, T = 130 };
    static const int64_t counts[B] = {130, 0, 31, 64, 65, 1};
    s4_context *context = context_open();
    for (int k = 0; k < chunked_kind_count; k++) {
        s4_layer *layer = layer_random(&chunked_kinds[k].shape, (uint64_t)k);
        const s4_layer_options o = layer_options(layer);
        const int64_t H = o.d_model, M = o.channels, N = o.d_state;
        chunked_call c = chunked_open(layer, B, T, 1, (uint64_t)k);
        c.lengths = counts;
        for (int64_t b = 0; b < B; b++)
            for (int64_t h = 0; h < H; h++)
                for (int64_t t = counts[b]; t < T; t++)
                    c.u[(b * H + h) * T + t] = 0.0 / 0.0;
        const chunked_result all = chunked_forward(context, &c);
        for (int64_t b = 0; b < B; b++) {
            about("%s, row %d", chunked_kinds[k].name, (int)b);
            for (int64_t i = b * M * H; i < (b + 1) * M * H; i++)
                for (int64_t t = counts[b]; t < T; t++)
                    check(all.y[i * T + t] == 0, "[%s] y[%d] is %g beyond the row", about_text(), (int)t,
                          all.y[i * T + t]);
            if (!counts[b]) {
                expect_same_bits("the state that leaves", H * N, all.state + b * H * N, c.x0 + b * H * N);
                continue;
            }
            chunked_call one = c;
            one.B = 1;
            one.T = counts[b];
            one.lengths = NULL;
            one.planned_length = T;
            one.x0 = c.x0 + b * H * N;
            one.u = numbers(H * one.T);
            for (int64_t i = 0; i < H * one.T; i++)
                one.u[i] = c.u[(b * H + i / one.T) * T + i % one.T];
            const chunked_result got = chunked_forward(context, &one);
            expect_same_bits("the state that leaves", H * N, all.state + b * H * N, got.state);
            for (int64_t i = 0; i < M * H; i++)
                expect_same_bits("y", one.T, all.y + (b * M * H + i) * T, got.y + i * one.T);
        }
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* Layout, threads, budget, and the rows that a row is computed with change nothing. */
Test(chunked, has_the_same_bits)
{
    s4_context *context = context_open();
    for (int k = 0; k < chunked_kind_count; k++)
        for (int single = 0; single < 2; single++) {
            s4_layer *layer = layer_random(&chunked_kinds[k].shape, (uint64_t)k);
            chunked_call c = chunked_open(layer, 18, 101, 1, (uint64_t)k);
            c.dtype = single ? S4_F32 : S4_F64;
            const chunked_result expected = chunked_forward(context, &c);
            for (int way = 0; way < CHUNKED_WAYS; way++) {
                about("%s, way %d", chunked_kinds[k].name, way);
                const chunked_call other = chunked_another_way(context, &c, S4_DIRECTION_FORWARD, way);
                const chunked_result got = chunked_forward(context, &other);
                expect_same_forward(&c, &got, &expected);
            }
            about("%s, rows alone", chunked_kinds[k].name);
            const int64_t row = chunked_outputs(&c) / c.B, in = chunked_inputs(&c) / c.B, states = chunked_states(&c) / c.B;
            for (int64_t b = 0; b < c.B; b += 5) {
                chunked_call one = c;
                one.B = 1;
                one.u = c.u + b * in;
                one.x0 = c.x0 + b * states;
                const chunked_result got = chunked_forward(context, &one);
                expect_same_bits("y", row, got.y, expected.y + b * row);
                expect_same_bits("the state that leaves", states, got.state, expected.state + b * states);
            }
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* y in the place of u. */
Test(chunked, in_place)
{
    s4_context *context = context_open();
    for (int k = 0; k < chunked_kind_count; k++) {
        if (chunked_kinds[k].shape.channels > 1)
            continue;
        about("%s", chunked_kinds[k].name);
        s4_layer *layer = layer_random(&chunked_kinds[k].shape, (uint64_t)k);
        const chunked_call c = chunked_open(layer, 3, 300, 0, (uint64_t)k);
        const chunked_result expected = chunked_forward(context, &c);
        const s4_problem problem = chunked_problem(&c, S4_DIRECTION_FORWARD);
        session s = session_open(context, &problem);
        double *both = numbers_copy(chunked_inputs(&c), c.u);
        s4_forward_io io;
        S4_INIT(&io);
        io.u = io.y = both;
        must(s4_plan_refresh(s.plan, layer, s.workspace));
        must(s4_plan_forward(s.plan, layer, s.workspace, &io));
        expect_same_bits("y", chunked_outputs(&c), both, expected.y);
        session_close(&s);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* A sample that is not finite stays in its row. */
Test(chunked, rows_do_not_meet)
{
    s4_context *context = context_open();
    for (int k = 0; k < chunked_kind_count; k++) {
        about("%s", chunked_kinds[k].name);
        s4_layer *layer = layer_random(&chunked_kinds[k].shape, (uint64_t)k);
        const s4_layer_options o = layer_options(layer);
        const chunked_call c = chunked_open(layer, 7, 100, 1, (uint64_t)k);
        const chunked_result expected = chunked_forward(context, &c);
        c.u[3 * o.d_model * c.T + 50] = 0.0 / 0.0; /* row 3, channel 0 */
        const chunked_result got = chunked_forward(context, &c);
        const int64_t channels = o.d_model * o.channels;
        for (int64_t i = 0; i < c.B * channels; i++)
            if (i / channels != 3 || i % o.d_model != 0)
                expect_same_bits("y", c.T, got.y + i * c.T, expected.y + i * c.T);
        check(isnan(got.y[3 * channels * c.T + 99]), "[%s] the row itself is spoilt", about_text());
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* Many panels, and states that decay slowly. */
Test(chunked, long_rows)
{
    enum { T = 20000 };
    s4_context *context = context_open();
    for (int k = 0; k < 2; k++) {
        const layer_shape shape = {.d_model = 1, .d_state = 6, .rank = k == 0, .plain_transforms = 1,
                                   .mode = k == 0 ? S4_MODE_DPLR : S4_MODE_DIAG};
        s4_layer *layer = layer_random(&shape, (uint64_t)k);
        layer_data(layer, S4_PARAMETER_INV_DT)[0] = -8; /* dt 3e-4 */
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        about("%s", k == 0 ? "dplr" : "diag");
        chunked_call c = chunked_open(layer, 1, T, 0, (uint64_t)k);
        c.algorithm = S4_ALGORITHM_FFT;
        const chunked_result expected = chunked_forward(context, &c);
        c.algorithm = S4_ALGORITHM_CHUNKED;
        compare(context, &c, expected.y, TOLERANCE_FORWARD_RANK);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

Test(chunked, refuses)
{
    static const struct {
        layer_shape shape;
        char word[16];
    } layers[] = {
        {{.d_model = 2, .d_state = 4, .rank = 1, .bidirectional = 1, .plain_transforms = 1}, "bidirectional"},
        {{.d_model = 2, .d_state = 4, .mode = S4_MODE_DIAG, .discretisation = S4_DSS, .plain_transforms = 1}, "dss"}};
    s4_context *context = context_open();
    s4_plan *plan;
    for (int i = 0; i < 2; i++) {
        s4_layer *layer = layer_random(&layers[i].shape, 1);
        s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F32, 1, 64, 64);
        problem.algorithm = S4_ALGORITHM_CHUNKED;
        must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_UNSUPPORTED, layers[i].word);
        problem.algorithm = S4_ALGORITHM_AUTO;
        session s = session_open(context, &problem);
        check(s.info.problem.algorithm == S4_ALGORITHM_FFT, "auto takes what can do it");
        session_close(&s);
        s4_layer_destroy(layer);
    }
    s4_layer *layer = layer_random(&chunked_kinds[0].shape, 1);
    s4_problem problem = problem_of(layer, S4_DIRECTION_FORWARD, S4_F32, 1, 64, 63);
    problem.algorithm = S4_ALGORITHM_CHUNKED;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_UNSUPPORTED, "kernel_length 63, length 64");
    problem.kernel_length = 64;
    problem.rate_parity = 1;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_UNSUPPORTED, "rate_parity");
    problem.rate_parity = 0;
    must(s4_placement_parse("split", &problem.placement));
    problem.algorithm = S4_ALGORITHM_AUTO; /* prices are of a CPU */
    must(s4_plan_create(&problem, &plan));
    s4_plan_info info;
    must(s4_plan_describe(plan, &info));
    check(info.problem.algorithm == S4_ALGORITHM_FFT && info.chunk == 0, "auto on the gpu is fft");
    s4_plan_destroy(plan);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

static s4_plan_info chosen(s4_problem problem)
{
    s4_plan *plan;
    s4_plan_info info;
    must(s4_plan_create(&problem, &plan));
    must(s4_plan_describe(plan, &info));
    s4_plan_destroy(plan);
    return info;
}

static s4_problem shape_of(s4_mode mode, s4_direction direction, s4_dtype dtype, int64_t d_state, int64_t length, int64_t batch)
{
    s4_problem problem;
    S4_INIT(&problem);
    problem.mode = mode;
    problem.discretisation = mode == S4_MODE_DIAG ? S4_ZOH : S4_BILINEAR;
    problem.direction = direction;
    problem.dtype = dtype;
    problem.d_model = 4;
    problem.d_state = d_state;
    problem.length = length;
    problem.batch = batch;
    problem.either_leaf = 1;
    return problem;
}

/* The faster one where both can be had, refresh included: each case was measured, and is not near a tie. */
Test(chunked, is_chosen)
{
    static const struct {
        s4_mode mode;
        s4_direction direction;
        s4_dtype dtype;
        int64_t d_state, length, batch;
        s4_algorithm algorithm;
    } cases[] = {
        {S4_MODE_DIAG, S4_DIRECTION_FORWARD, S4_F32, 16, 4096, 1, S4_ALGORITHM_CHUNKED},
        {S4_MODE_DIAG, S4_DIRECTION_TRAINING, S4_F32, 16, 65536, 4, S4_ALGORITHM_CHUNKED},
        {S4_MODE_DIAG, S4_DIRECTION_FORWARD, S4_F32, 64, 1024, 1, S4_ALGORITHM_CHUNKED}, /* the kernel is dearer than its rows */
        {S4_MODE_DIAG, S4_DIRECTION_FORWARD, S4_F32, 64, 1024, 64, S4_ALGORITHM_FFT},
        {S4_MODE_DIAG, S4_DIRECTION_FORWARD, S4_F64, 1024, 1024, 64, S4_ALGORITHM_FFT},
        {S4_MODE_DPLR, S4_DIRECTION_FORWARD, S4_F32, 64, 1048576, 1, S4_ALGORITHM_CHUNKED},
        {S4_MODE_DPLR, S4_DIRECTION_FORWARD, S4_F32, 64, 16384, 1, S4_ALGORITHM_CHUNKED},
        {S4_MODE_DPLR, S4_DIRECTION_FORWARD, S4_F32, 64, 16384, 64, S4_ALGORITHM_FFT},
        {S4_MODE_DPLR, S4_DIRECTION_FORWARD, S4_F32, 256, 1024, 1, S4_ALGORITHM_FFT}, /* its dense powers */
        {S4_MODE_DPLR, S4_DIRECTION_FORWARD, S4_F64, 16, 64, 1, S4_ALGORITHM_FFT},
        {S4_MODE_DPLR, S4_DIRECTION_TRAINING, S4_F32, 16, 65536, 1, S4_ALGORITHM_CHUNKED},
        {S4_MODE_DPLR, S4_DIRECTION_TRAINING, S4_F64, 64, 1024, 16, S4_ALGORITHM_FFT},
        {S4_MODE_DPLR, S4_DIRECTION_TRAINING, S4_F32, 256, 65536, 1, S4_ALGORITHM_FFT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("case %d", (int)i);
        s4_problem problem = shape_of(cases[i].mode, cases[i].direction, cases[i].dtype, cases[i].d_state, cases[i].length,
                                      cases[i].batch);
        for (int j = 0; j < 2; j++) {
            problem.threads = j ? 1 : 7;
            s4_plan_info info = chosen(problem);
            check(info.problem.algorithm == cases[i].algorithm, "[%s] %s", about_text(),
                  s4_algorithm_name(info.problem.algorithm));
            check((info.chunk > 0) == (cases[i].algorithm == S4_ALGORITHM_CHUNKED), "[%s] chunk", about_text());
            check((info.fft_length > 0) == (cases[i].algorithm == S4_ALGORITHM_FFT), "[%s] fft_length", about_text());
            problem.host_budget = 2 * info.host_minimum;
        }
    }
}

/* More rows share the kernel: once a batch is large enough for fft, larger ones are. In the longest rows of few states,
 * chunks win. */
Test(chunked, is_chosen_in_order)
{
    for (int kind = 0; kind < 8; kind++)
        for (int64_t d_state = 4; d_state <= 256; d_state *= 4)
            for (int64_t length = 64; length <= 1 << 20; length *= 4) {
                int by_fft = 0;
                for (int64_t batch = 1; batch <= 64; batch *= 2) {
                    about("kind %d, N %d, L %d, B %d", kind, (int)d_state, (int)length, (int)batch);
                    s4_problem problem = shape_of(kind & 1 ? S4_MODE_DIAG : S4_MODE_DPLR,
                                                  kind & 2 ? S4_DIRECTION_TRAINING : S4_DIRECTION_FORWARD,
                                                  kind & 4 ? S4_F64 : S4_F32, d_state, length, batch);
                    int fft = chosen(problem).problem.algorithm == S4_ALGORITHM_FFT;
                    check(fft || !by_fft || length < 4096, "[%s] chunked after fft", about_text());
                    check(!fft || length < 1 << 20 || batch > 1 || d_state > 64, "[%s] fft", about_text());
                    by_fft = fft;
                }
            }
}

/* The leaf that a problem does not tell of is C~, which only fft trains. */
Test(chunked, is_not_chosen_for_c_tilde)
{
    s4_problem problem = shape_of(S4_MODE_DPLR, S4_DIRECTION_TRAINING, S4_F32, 16, 65536, 1);
    problem.either_leaf = 0;
    check(chosen(problem).problem.algorithm == S4_ALGORITHM_FFT, "C~ is the leaf");
    problem.direction = S4_DIRECTION_FORWARD;
    check(chosen(problem).problem.algorithm == S4_ALGORITHM_CHUNKED, "forward takes either leaf");
}

/* A budget is refused with the largest batch that would fit, whatever auto takes for that one. */
Test(chunked, largest_batch_with_auto)
{
    s4_problem problem = shape_of(S4_MODE_DPLR, S4_DIRECTION_FORWARD, S4_F32, 64, 16384, 64);
    s4_problem one = problem;
    one.batch = 1;
    s4_plan_info many = chosen(problem), few = chosen(one);
    check(many.problem.algorithm == S4_ALGORITHM_FFT && few.problem.algorithm == S4_ALGORITHM_CHUNKED, "the choices");
    check(few.host_minimum < many.host_minimum, "chunks need less memory here");
    s4_plan *plan;
    problem.host_budget = few.host_minimum;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_OUT_OF_BUDGET, "the largest batch that would fit is");
}

/* What is trained is what is stored. */
Test(chunked, trains_plain_c)
{
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&chunked_kinds[0].shape, 1);
    must(s4_layer_setup(context, layer, 64));
    s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, S4_F32, 1, 64, 64);
    problem.algorithm = S4_ALGORITHM_CHUNKED;
    session s = session_open(context, &problem);
    check(s.info.problem.algorithm == S4_ALGORITHM_CHUNKED && s.info.chunk == 32 && s.info.fft_length == 0, "the choice");
    must_refuse(s4_plan_refresh(s.plan, layer, s.workspace), S4_ERROR_UNSUPPORTED, "s4_layer_setup(context, layer, 0)");
    must(s4_layer_setup(context, layer, 0));
    must(s4_plan_refresh(s.plan, layer, s.workspace));
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* No operation of kernels or spectra, and no buffer of their length. */
Test(chunked, makes_no_kernel)
{
    s4_context *context = context_open();
    for (int k = 0; k < 2; k++) {
        s4_layer *layer = layer_random(&chunked_kinds[k == 0 ? 0 : 6].shape, 1);
        s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, S4_F32, 1, 1 << 22, 1 << 22);
        problem.algorithm = S4_ALGORITHM_CHUNKED;
        problem.threads = 1;
        session s = session_open(context, &problem);
        check(place_has_gpu() || s.info.host_peak < 4 << 20, "%d bytes", (int)s.info.host_peak);
        for (int64_t i = 0; i < s.info.operations; i++) {
            s4_operation_info o;
            must(s4_plan_operation(s.plan, i, &o));
            check(!strstr(o.name, "kernel") && !strstr(o.name, "spectrum") && strcmp(o.name, "convolve"), "%s", o.name);
        }
        session_close(&s);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}
