/*
 * Where samples lie and which of them count: time before channel, any strides, rows of different lengths. All to the bit
 * of the dense row by row result.
 */
#include <math.h>

#include "expect.h"
#include "layers.h"
#include "place.h"
#include "session.h"

enum { B = 3, H = 2, T = 17, L = 20, MODES = 3, IN = B * H * T, STATES = B * H * MODES * 2 };

static const struct {
    s4_mode mode;
    int channels, bidirectional;
    s4_algorithm algorithm;
} kinds[] = {{S4_MODE_DPLR, 1, 0, S4_ALGORITHM_FFT},     {S4_MODE_DPLR, 2, 0, S4_ALGORITHM_FFT},
             {S4_MODE_DIAG, 1, 0, S4_ALGORITHM_FFT},     {S4_MODE_DIAG, 2, 1, S4_ALGORITHM_FFT},
             {S4_MODE_DPLR, 2, 0, S4_ALGORITHM_CHUNKED}, {S4_MODE_DIAG, 1, 0, S4_ALGORITHM_CHUNKED}};
#define KINDS 6

static s4_layer *layer_of(s4_context *context, int kind)
{
    const layer_shape shape = {.mode = kinds[kind].mode, .d_model = H, .d_state = 2 * MODES,
                               .rank = kinds[kind].mode == S4_MODE_DPLR, .channels = kinds[kind].channels,
                               .bidirectional = kinds[kind].bidirectional, .plain_transforms = 1};
    s4_layer *layer = layer_random(&shape, (uint64_t)kind);
    if (kinds[kind].algorithm == S4_ALGORITHM_FFT)
        layer_make_trainable(context, layer, L);
    return layer;
}

static s4_problem problem_for(int kind, s4_layer *layer, s4_direction direction, s4_dtype dtype)
{
    s4_problem problem = problem_of(layer, direction, dtype, B, T, L);
    problem.algorithm = kinds[kind].algorithm;
    return problem;
}

/* Strides of a tensor of B x channels x T, and how many elements it spans. */
typedef struct place_of {
    int64_t strides[3], span;
} place_of;

static place_of dense(int64_t channels)
{
    const place_of p = {{channels * T, T, 1}, B * channels * T};
    return p;
}

static place_of time_first(int64_t channels)
{
    const place_of p = {{channels * T, 1, channels}, B * channels * T};
    return p;
}

/* Gaps between all, channels outermost. */
static place_of sparse(int64_t channels)
{
    const place_of p = {{3 * T + 5, B * (3 * T + 5), 3}, channels * B * (3 * T + 5)};
    return p;
}

/* Values (B,channels,T) put into a tensor full of 7, and back; gaps must hold their 7. */
static void *put(s4_dtype dtype, const place_of *p, int64_t channels, const double *values)
{
    double *all = numbers(p->span);
    for (int64_t i = 0; i < p->span; i++)
        all[i] = 7;
    for (int64_t i = 0; values && i < B * channels * T; i++)
        all[i / (channels * T) * p->strides[0] + i / T % channels * p->strides[1] + i % T * p->strides[2]] = values[i];
    return tensor_of(dtype, p->span, all);
}

static double *take(s4_dtype dtype, const place_of *p, int64_t channels, const void *tensor)
{
    double *all = values_of(dtype, p->span, tensor), *values = numbers(B * channels * T);
    for (int64_t i = 0; i < B * channels * T; i++) {
        double *from =
            &all[i / (channels * T) * p->strides[0] + i / T % channels * p->strides[1] + i % T * p->strides[2]];
        values[i] = *from;
        *from = 7;
    }
    for (int64_t i = 0; i < p->span; i++)
        check(all[i] == 7, "[%s] the gap at %d was written", about_text(), (int)i);
    return values;
}

/* What one way of lying gives; `strides` 0: dense in the layout of the plan. */
typedef struct outcome {
    double *y, *state, *stepped, *step_state;
    gradients g;
} outcome;

static outcome run(s4_context *context, int kind, s4_layer *layer, s4_dtype dtype, s4_layout layout, int strides,
                   place_of (*lie)(int64_t channels), const double *u, const double *dy, const double *state_in)
{
    const s4_layer_options options = layer_options(layer);
    const int64_t M = options.channels;
    const place_of in = lie(H), out = lie(M * H);
    outcome o = {.state = numbers_copy(STATES, state_in), .step_state = numbers_copy(STATES, state_in)};
    s4_problem problem = problem_for(kind, layer, S4_DIRECTION_FORWARD, dtype);
    problem.layout = layout;
    problem.states = !options.bidirectional;
    problem.states = problem.states && session_offered(context, &problem);
    session s = session_ready(context, &problem, layer);
    s4_forward_io io;
    S4_INIT(&io);
    io.u = put(dtype, &in, H, u);
    io.y = put(dtype, &out, M * H, NULL);
    if (problem.states)
        io.state_in = io.state_out = o.state;
    memcpy(io.u_strides, in.strides, strides ? sizeof in.strides : 0);
    memcpy(io.y_strides, out.strides, strides ? sizeof out.strides : 0);
    must(s4_plan_forward(s.plan, layer, s.workspace, &io));
    o.y = take(dtype, &out, M * H, io.y);
    session_close(&s);

    problem = problem_for(kind, layer, S4_DIRECTION_TRAINING, dtype);
    problem.layout = layout;
    s = session_ready(context, &problem, layer);
    o.g = gradients_zero(layer, IN);
    s4_backward_io back;
    S4_INIT(&back);
    back.u = put(dtype, &in, H, u);
    back.dy = put(dtype, &out, M * H, dy);
    back.du = put(dtype, &in, H, NULL);
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        back.gradients.parameter[p] = o.g.parameter[p];
    memcpy(back.u_strides, in.strides, strides ? sizeof in.strides : 0);
    memcpy(back.dy_strides, out.strides, strides ? sizeof out.strides : 0);
    memcpy(back.du_strides, in.strides, strides ? sizeof in.strides : 0);
    must(s4_plan_backward(s.plan, layer, s.workspace, &back));
    o.g.du = take(dtype, &in, H, back.du);
    session_close(&s);

    if (options.bidirectional)
        return o;
    problem = problem_of(layer, S4_DIRECTION_STEP, dtype, B, T, 0);
    problem.layout = layout;
    s = session_ready(context, &problem, layer);
    s4_step_io step;
    S4_INIT(&step);
    step.u = put(dtype, &in, H, u);
    step.y = put(dtype, &out, M * H, NULL);
    step.state = o.step_state;
    memcpy(step.u_strides, in.strides, strides ? sizeof in.strides : 0);
    memcpy(step.y_strides, out.strides, strides ? sizeof out.strides : 0);
    must(s4_plan_step(s.plan, layer, s.workspace, &step));
    o.stepped = take(dtype, &out, M * H, step.y);
    session_close(&s);
    return o;
}

Test(layout, the_same_bits)
{
    s4_context *context = context_open();
    for (int kind = 0; kind < KINDS; kind++)
        for (int d = 0; d < 2; d++) {
            const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
            s4_layer *layer = layer_of(context, kind);
            const int64_t out = IN * kinds[kind].channels;
            random_source random = {(uint64_t)kind};
            const double *u = random_samples(&random, IN), *dy = random_samples(&random, out),
                         *state = random_samples(&random, STATES);
            about("kind %d, %s, dense", kind, s4_dtype_name(dtype));
            const outcome expected = run(context, kind, layer, dtype, S4_LAYOUT_BHL, 0, dense, u, dy, state);
            const struct {
                const char *name;
                s4_layout layout;
                int strides;
                place_of (*lie)(int64_t channels);
            } ways[] = {{"blh", S4_LAYOUT_BLH, 0, time_first},
                        {"dense strides in a blh plan", S4_LAYOUT_BLH, 1, dense},
                        {"blh strides", S4_LAYOUT_BHL, 1, time_first},
                        {"gaps", S4_LAYOUT_BHL, 1, sparse}};
            for (int w = 0; w < 4; w++) {
                about("kind %d, %s, %s", kind, s4_dtype_name(dtype), ways[w].name);
                const outcome got =
                    run(context, kind, layer, dtype, ways[w].layout, ways[w].strides, ways[w].lie, u, dy, state);
                expect_same_bits("y", out, got.y, expected.y);
                expect_same_bits("state", STATES, got.state, expected.state);
                expect_same_gradients(&got.g, &expected.g);
                if (expected.stepped)
                    expect_same_bits("y of steps", out, got.stepped, expected.stepped);
                expect_same_bits("state of steps", STATES, got.step_state, expected.step_state);
            }
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* ---- lengths ------------------------------------------------------------------------------------------------------ */

static const int64_t lengths[B] = {T, 6, 0};

/* A copy with `value` where a row no longer counts. */
static double *beyond(int64_t channels, const double *from, double value)
{
    double *to = numbers_copy(B * channels * T, from);
    for (int64_t i = 0; i < B * channels * T; i++)
        if (i % T >= lengths[i / (channels * T)])
            to[i] = value;
    return to;
}

static void expect_zero_beyond(const char *what, int64_t channels, const double *values)
{
    for (int64_t i = 0; i < B * channels * T; i++)
        check(i % T < lengths[i / (channels * T)] || values[i] == 0, "[%s] %s[%d] beyond its row is %g", about_text(),
              what, (int)i, values[i]);
}

static double *forward_of_lengths(s4_context *context, int kind, s4_layer *layer, s4_dtype dtype, s4_layout layout,
                                  place_of (*lie)(int64_t channels), const double *u)
{
    const int64_t outputs = layer_options(layer).channels * H;
    const place_of in = lie(H), out = lie(outputs);
    s4_problem problem = problem_for(kind, layer, S4_DIRECTION_FORWARD, dtype);
    problem.layout = layout;
    session s = session_ready(context, &problem, layer);
    s4_forward_io io;
    S4_INIT(&io);
    io.u = put(dtype, &in, H, u);
    io.y = put(dtype, &out, outputs, NULL);
    io.lengths = lengths;
    must(s4_plan_forward(s.plan, layer, s.workspace, &io));
    double *y = take(dtype, &out, outputs, io.y);
    session_close(&s);
    return y;
}

Test(layout, lengths_with_time_first)
{
    s4_context *context = context_open();
    for (int kind = 0; kind < KINDS; kind++)
        for (int d = 0; d < 2; d++) {
            const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
            about("kind %d, %s", kind, s4_dtype_name(dtype));
            s4_layer *layer = layer_of(context, kind);
            random_source random = {(uint64_t)kind};
            const double *u = beyond(H, random_samples(&random, IN), NAN);
            const double *y = forward_of_lengths(context, kind, layer, dtype, S4_LAYOUT_BHL, dense, u);
            expect_zero_beyond("y", kinds[kind].channels * H, y);
            expect_same_bits("y", IN * kinds[kind].channels,
                             forward_of_lengths(context, kind, layer, dtype, S4_LAYOUT_BLH, time_first, u), y);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* A row of a batch is a row of that length alone; what lies beyond is not read, and 0 comes out there. */
Test(layout, lengths_of_rows)
{
    s4_context *context = context_open();
    for (int kind = 0; kind < KINDS; kind++)
        for (int d = 0; d < 2; d++) {
            const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
            about("kind %d, %s", kind, s4_dtype_name(dtype));
            s4_layer *layer = layer_of(context, kind);
            const int64_t M = kinds[kind].channels;
            random_source random = {(uint64_t)kind};
            const double *u = random_samples(&random, IN), *state = random_samples(&random, STATES);
            s4_problem problem = problem_for(kind, layer, S4_DIRECTION_FORWARD, dtype);
            problem.states = !kinds[kind].bidirectional;
            problem.states = problem.states && session_offered(context, &problem);
            session s = session_ready(context, &problem, layer);
            s4_forward_io io;
            S4_INIT(&io);
            io.u = tensor_of(dtype, IN, beyond(H, u, NAN));
            const place_of out = dense(M * H);
            io.y = put(dtype, &out, M * H, NULL);
            io.lengths = lengths;
            double *state_out = numbers(STATES);
            if (problem.states) {
                io.state_in = state;
                io.state_out = state_out;
            }
            must(s4_plan_forward(s.plan, layer, s.workspace, &io));
            const double *y = values_of(dtype, IN * M, io.y);
            expect_zero_beyond("y", M * H, y);
            for (int b = 0; b < B; b++) {
                about("kind %d, %s, row %d of %d samples", kind, s4_dtype_name(dtype), b, (int)lengths[b]);
                const double *state_row = &state[b * STATES / B];
                double *alone_state = numbers_copy(STATES / B, state_row);
                if (lengths[b] > 0) {
                    const int64_t count = lengths[b];
                    double *row = numbers(H * count);
                    for (int64_t h = 0; h < H; h++)
                        memcpy(&row[h * count], &u[(b * H + h) * T], sizeof *row * (size_t)count);
                    const double *alone = session_forward(&s, layer, 1, count, row, problem.states ? state_row : NULL,
                                                          problem.states ? alone_state : NULL);
                    for (int64_t c = 0; c < M * H; c++)
                        expect_same_bits("y", count, &y[(b * M * H + c) * T], &alone[c * count]);
                }
                if (problem.states)
                    expect_same_bits("state", STATES / B, &state_out[b * STATES / B], alone_state);
            }
            session_close(&s);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* Gradients: as if u and dy were 0 beyond; what is there is not read. */
Test(layout, gradients_of_lengths)
{
    s4_context *context = context_open();
    for (int kind = 0; kind < KINDS; kind++)
        for (int d = 0; d < 2; d++) {
            const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
            about("kind %d, %s", kind, s4_dtype_name(dtype));
            s4_layer *layer = layer_of(context, kind);
            const int64_t M = kinds[kind].channels;
            random_source random = {(uint64_t)kind};
            const double *u = random_samples(&random, IN), *dy = random_samples(&random, IN * M);
            const s4_problem problem = problem_for(kind, layer, S4_DIRECTION_TRAINING, dtype);
            session s = session_open(context, &problem);
            gradients expected =
                session_backward(&s, layer, 0, 0, beyond(H, u, 0), beyond(M * H, dy, 0));
            expected.du = beyond(H, expected.du, 0);
            for (int over = 0; over < (M == 1 ? 2 : 1); over++) {
                gradients got = gradients_zero(layer, IN);
                s4_backward_io io;
                S4_INIT(&io);
                io.u = tensor_of(dtype, IN, beyond(H, u, NAN));
                void *dy_tensor = tensor_of(dtype, IN * M, beyond(M * H, dy, NAN));
                io.dy = dy_tensor;
                io.du = over ? dy_tensor : tensor_of(dtype, IN, u);
                io.lengths = lengths;
                for (int p = 0; p < S4_PARAMETER_COUNT; p++)
                    io.gradients.parameter[p] = got.parameter[p];
                must(s4_plan_backward(s.plan, layer, s.workspace, &io));
                got.du = values_of(dtype, IN, io.du);
                expect_zero_beyond("du", H, got.du);
                expect_same_gradients(&got, &expected);
            }
            session_close(&s);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

Test(layout, refused)
{
    static const int64_t bad[][B] = {{1, -1, 1}, {1, 1, T + 1}};
    s4_context *context = context_open();
    s4_layer *layer = layer_of(context, 0);
    s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, S4_F64, B, T, L);
    session s = session_ready(context, &problem, layer);
    s4_forward_io io;
    S4_INIT(&io);
    double *samples = numbers(IN);
    io.u = io.y = samples;
    for (int i = 0; i < 2; i++) {
        io.lengths = bad[i];
        must_refuse(s4_plan_forward(s.plan, layer, s.workspace, &io), S4_ERROR_ARGUMENT, i ? "lengths[2]" : "lengths[1]");
    }
    io.lengths = NULL;
    memcpy(io.u_strides, (int64_t[]){H * T, 1, H}, sizeof io.u_strides);
    must_refuse(s4_plan_forward(s.plan, layer, s.workspace, &io), S4_ERROR_ARGUMENT, "strides");
    s4_backward_io back;
    S4_INIT(&back);
    back.u = numbers(IN);
    back.dy = back.du = samples;
    memcpy(back.du_strides, (int64_t[]){H * T, 1, H}, sizeof back.du_strides);
    must_refuse(s4_plan_backward(s.plan, layer, s.workspace, &back), S4_ERROR_ARGUMENT, "strides");
    session_close(&s);
    s4_plan *plan;
    problem.layout = S4_LAYOUT_BLH + 1;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_ARGUMENT, "layout");
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}
