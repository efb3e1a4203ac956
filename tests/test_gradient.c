/*
 * Gradients of the loss sum(y G) against finite differences of the reference; and how they are asked for and added up.
 */
#include <math.h>

#include "expect.h"
#include "layers.h"
#include "place.h"
#include "session.h"
#include "tolerances.h"

static const double tolerance_of[] = {[S4_F32] = TOLERANCE_F32_GRADIENT, [S4_F64] = TOLERANCE_GRADIENT_DIFFERENCE};

/* What the reference says for the leaf C~ of length L, which the layer stores now. Widens *tolerance by what its
 * extrapolation may still miss. */
static gradients reference_gradients(s4_layer *layer, int64_t batch, int64_t input_length, int64_t kernel_length,
                                     const double *u, const double *G, double *tolerance)
{
    const struct ref_layer reference = layer_reference(layer);
    gradients g = gradients_zero(layer, batch * reference.d_model * input_length);
    const struct ref_loss loss = {
        .leaf = REF_LEAF_C_TILDE,
        .route = REF_ROUTE_STRUCTURED,
        .c_tilde = layer_data(layer, S4_PARAMETER_C),
        .kernel_length = (int)kernel_length,
        .batch = (int)batch,
        .input_length = (int)input_length,
        .u = u,
        .G = G,
    };
    const struct ref_gradients out = {
        .inv_dt = g.parameter[S4_PARAMETER_INV_DT],
        .A_real = g.parameter[S4_PARAMETER_A_REAL],
        .A_imag = g.parameter[S4_PARAMETER_A_IMAG],
        .B = g.parameter[S4_PARAMETER_B],
        .P = g.parameter[S4_PARAMETER_P],
        .C = g.parameter[S4_PARAMETER_C],
        .D = g.parameter[S4_PARAMETER_D],
        .u = g.du,
    };
    *tolerance += ref_gradients(&reference, &loss, &out);
    return g;
}

typedef struct gradient_case {
    layer_shape shape;
    int64_t batch, input_length, kernel_length;
} gradient_case;

static void compare(s4_context *context, const gradient_case *c, uint64_t seed)
{
    const int64_t count = c->batch * c->shape.d_model * c->input_length;
    s4_layer *layer = layer_random(&c->shape, seed);
    must(s4_layer_setup(context, layer, c->kernel_length));
    random_source random = {seed};
    const double *u = random_samples(&random, count), *G = random_samples(&random, count);
    double miss = 0;
    const gradients expected =
        reference_gradients(layer, c->batch, c->input_length, c->kernel_length, u, G, &miss);
    /* At length 1 the kernel does not depend on dt: its estimate is noise relative to noise. */
    if (c->kernel_length == 1)
        miss = 0;
    check(miss <= TOLERANCE_GRADIENT_DIFFERENCE, "[%s] the reference is good to %.3g only", about_text(), miss);
    for (int d = 0; d < 2; d++) {
        const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
        const s4_problem problem =
            problem_of(layer, S4_DIRECTION_TRAINING, dtype, c->batch, c->input_length, c->kernel_length);
        session s = session_open(context, &problem);
        const gradients got = session_backward(&s, layer, 0, 0, u, G);
        expect_close_gradients(&got, &expected, tolerance_of[dtype] + miss);
        session_close(&s);
    }
    s4_layer_destroy(layer);
}

Test(gradient, lengths_and_states)
{
    static const int64_t lengths[] = {1, 2, 3, 8, 31, 64}, d_state[] = {2, 4, 16};
    s4_context *context = context_open();
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 3; j++) {
            about("length %d, N = %d", (int)lengths[i], (int)d_state[j]);
            const gradient_case c = {
                .shape = {.d_model = 2, .d_state = d_state[j], .rank = 1, .plain_transforms = 1},
                .batch = 2, .input_length = lengths[i], .kernel_length = lengths[i]};
            compare(context, &c, (uint64_t)(10 * i + j));
        }
    s4_context_destroy(context);
}

Test(gradient, ranks_and_shared_copies)
{
    s4_context *context = context_open();
    for (int rank = 1; rank <= S4_RANK_MAX; rank++)
        for (int length = 15; length <= 16; length++) {
            about("rank %d, length %d, two copies for four channels", rank, length);
            const gradient_case c = {
                .shape = {.d_model = 4, .d_state = 6, .rank = rank, .n_ssm = 2, .plain_transforms = 1},
                .batch = 2, .input_length = length, .kernel_length = length};
            compare(context, &c, (uint64_t)(20 + 2 * rank + length));
        }
    s4_context_destroy(context);
}

Test(gradient, input_and_kernel_of_different_lengths)
{
    static const int64_t lengths[][2] = {{5, 12}, {12, 5}, {1, 9}, {9, 1}, {33, 32}};
    s4_context *context = context_open();
    for (int i = 0; i < 5; i++) {
        about("input %d, kernel %d", (int)lengths[i][0], (int)lengths[i][1]);
        const gradient_case c = {.shape = {.d_model = 2, .d_state = 4, .rank = 2, .plain_transforms = 1},
                                 .batch = 3, .input_length = lengths[i][0], .kernel_length = lengths[i][1]};
        compare(context, &c, (uint64_t)(40 + i));
    }
    s4_context_destroy(context);
}

/* More frequencies than are summed in one go; by both threads together, and by each for a channel of its own. */
Test(gradient, long_kernels)
{
    static const int64_t lengths[] = {4200, 8501};
    s4_context *context = context_open();
    for (int i = 0; i < 2; i++) {
        about("kernel %d", (int)lengths[i]);
        const gradient_case c = {.shape = {.d_model = 1 + i, .d_state = 2, .rank = 1, .plain_transforms = 1},
                                 .batch = 1, .input_length = 9, .kernel_length = lengths[i]};
        compare(context, &c, (uint64_t)(80 + i));
    }
    s4_context_destroy(context);
}

/* A channel for each thread, or threads that share one. */
Test(gradient, threads_give_the_same_bits)
{
    enum { T = 9, L = 13000 };
    s4_context *context = context_open();
    for (int64_t d_model = 1; d_model <= 3; d_model++) {
        const layer_shape shape = {.d_model = d_model, .d_state = 10, .rank = 2, .channels = 2, .plain_transforms = 1};
        s4_layer *layer = layer_random(&shape, 7);
        must(s4_layer_setup(context, layer, L));
        random_source random = {5};
        const double *u = random_samples(&random, d_model * T), *dy = random_samples(&random, 2 * d_model * T);
        s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, S4_F64, 1, T, L);
        problem.threads = 1;
        session one = session_open(context, &problem);
        const gradients expected = session_backward(&one, layer, 0, 0, u, dy);
        session_close(&one);
        for (int threads = 2; threads <= 5; threads++) {
            about("d_model %d, %d threads", (int)d_model, threads);
            problem.threads = threads;
            session s = session_open(context, &problem);
            const gradients got = session_backward(&s, layer, 0, 0, u, dy);
            expect_same_gradients(&got, &expected);
            session_close(&s);
        }
        s4_problem kernels = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, L, L);
        kernels.threads = 1;
        session alone = session_open(context, &kernels), together;
        kernels.threads = 3;
        together = session_open(context, &kernels);
        expect_same_bits("K", 2 * d_model * L, session_kernel(&together, layer), session_kernel(&alone, layer));
        session_close(&alone);
        session_close(&together);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

Test(gradient, transforms)
{
    s4_context *context = context_open();
    for (int t = S4_TRANSFORM_NONE; t <= S4_TRANSFORM_SOFTPLUS; t++)
        for (int which = 0; which < 3; which++) {
            about("transform %s of %s", s4_transform_name((s4_transform)t),
                  which == 0 ? "inv_dt" : which == 1 ? "A_real" : "A_imag");
            gradient_case c = {.shape = {.d_model = 2, .d_state = 6, .rank = 1,
                                         .dt_transform = S4_TRANSFORM_EXP, .real_transform = S4_TRANSFORM_EXP,
                                         .imag_transform = S4_TRANSFORM_NONE},
                               .batch = 2, .input_length = 12, .kernel_length = 12};
            s4_transform *transform = which == 0   ? &c.shape.dt_transform
                                      : which == 1 ? &c.shape.real_transform
                                                   : &c.shape.imag_transform;
            *transform = (s4_transform)t;
            compare(context, &c, (uint64_t)(60 + 3 * t + which));
        }
    s4_context_destroy(context);
}

/* relu: slope 0 at raw <= 0, where the value is the constant 1e-4. */
Test(gradient, relu_below_zero)
{
    enum { T = 10 };
    s4_context *context = context_open();
    const layer_shape shape = {.d_model = 1, .d_state = 4, .rank = 1, .dt_transform = S4_TRANSFORM_EXP,
                               .real_transform = S4_TRANSFORM_RELU, .imag_transform = S4_TRANSFORM_NONE};
    s4_layer *layer = layer_random(&shape, 80);
    layer_data(layer, S4_PARAMETER_A_REAL)[0] = -0.25;
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
    must(s4_layer_setup(context, layer, T));
    random_source random = {80};
    const double *u = random_samples(&random, T), *G = random_samples(&random, T);
    const s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, S4_F64, 1, T, T);
    session s = session_open(context, &problem);
    const gradients got = session_backward(&s, layer, 0, 0, u, G);
    cr_assert(got.parameter[S4_PARAMETER_A_REAL][0] == 0);
    cr_assert(got.parameter[S4_PARAMETER_A_REAL][1] != 0);
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* One layer at work for the tests below. */
enum { B = 3, H = 4, T = 21, COUNT = B * H * T };
typedef struct fixture {
    s4_context *context;
    s4_layer *layer;
    session s;
    double *u, *dy;
} fixture;

static fixture fixture_open(s4_dtype dtype)
{
    const layer_shape shape = {.d_model = H, .d_state = 6, .rank = 2, .n_ssm = 2, .plain_transforms = 1};
    fixture f = {.context = context_open()};
    f.layer = layer_random(&shape, 7);
    must(s4_layer_setup(f.context, f.layer, T));
    random_source random = {7};
    f.u = random_samples(&random, COUNT);
    f.dy = random_samples(&random, COUNT);
    const s4_problem problem = problem_of(f.layer, S4_DIRECTION_TRAINING, dtype, B, T, T);
    f.s = session_open(f.context, &problem);
    return f;
}

static void fixture_close(fixture *f)
{
    session_close(&f->s);
    s4_layer_destroy(f->layer);
    s4_context_destroy(f->context);
}

static s4_backward_io backward_io(fixture *f)
{
    s4_backward_io io;
    S4_INIT(&io);
    io.u = f->u;
    io.dy = f->dy;
    return io;
}

/* A pure function: of no forward, of no backward before. */
Test(gradient, twice_the_same_bits)
{
    for (int d = 0; d < 2; d++) {
        const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
        about("%s", s4_dtype_name(dtype));
        fixture f = fixture_open(dtype);
        const gradients first = session_backward(&f.s, f.layer, 0, 0, f.u, f.dy);
        const gradients second = session_backward(&f.s, f.layer, 0, 0, f.u, f.dy);
        expect_same_gradients(&second, &first);
        session_forward(&f.s, f.layer, 0, 0, f.dy, NULL, NULL); /* other data through the same workspace */
        const gradients third = session_backward(&f.s, f.layer, 0, 0, f.u, f.dy);
        expect_same_gradients(&third, &first);
        fixture_close(&f);
    }
}

Test(gradient, accumulate)
{
    fixture f = fixture_open(S4_F64);
    const gradients alone = session_backward(&f.s, f.layer, 0, 0, f.u, f.dy);
    gradients sum = gradients_zero(f.layer, COUNT), expected = gradients_zero(f.layer, COUNT);
    random_source random = {3};
    s4_backward_io io = backward_io(&f);
    io.gradients.accumulate = 1;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        for (int64_t i = 0; i < sum.count[p]; i++) {
            sum.parameter[p][i] = random_uniform(&random, -1, 1);
            expected.parameter[p][i] = sum.parameter[p][i] + 2 * alone.parameter[p][i];
        }
        io.gradients.parameter[p] = sum.parameter[p];
    }
    must(s4_plan_backward(f.s.plan, f.layer, f.s.workspace, &io));
    must(s4_plan_backward(f.s.plan, f.layer, f.s.workspace, &io));
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        expect_close("a sum of gradients", sum.count[p], sum.parameter[p], expected.parameter[p], TOLERANCE_ROUNDING,
                     0);
    io.gradients.accumulate = 0;
    must(s4_plan_backward(f.s.plan, f.layer, f.s.workspace, &io));
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        expect_same_bits("overwritten", sum.count[p], sum.parameter[p], alone.parameter[p]);
    fixture_close(&f);
}

/* Whatever the dtype, gradients of parameters are summed in double: a term as large as all that single precision holds
 * beside the others cancels, within a row (D) and over the batch (the kernel), and the others are left. */
Test(gradient, sums_are_in_double)
{
    const double huge = 1 << 26;
    fixture f = fixture_open(S4_F32);
    double *u = numbers(COUNT), *dy = numbers(COUNT), *small_dy = numbers(COUNT);
    for (int64_t i = 0; i < H * T; i++) { /* rows 0 and 2 of the batch cancel; row 1 is left */
        u[i] = u[2 * H * T + i] = (double)(float)f.u[i];
        u[H * T + i] = (double)(float)f.u[H * T + i];
        dy[i] = huge * (double)(float)f.dy[i];
        dy[2 * H * T + i] = -dy[i];
        dy[H * T + i] = small_dy[H * T + i] = (double)(float)f.dy[H * T + i];
    }
    const gradients got = session_backward(&f.s, f.layer, 0, 0, u, dy);
    const gradients expected = session_backward(&f.s, f.layer, 0, 0, u, small_dy);
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        expect_close(s4_parameter_name((s4_parameter)p), got.count[p], got.parameter[p], expected.parameter[p], 1e-5, 0);
    fixture_close(&f);
}

/* Whatever is left out, the rest keeps its bits. */
Test(gradient, some_only)
{
    fixture f = fixture_open(S4_F64);
    const gradients all = session_backward(&f.s, f.layer, 0, 0, f.u, f.dy);
    for (int p = 0; p <= S4_PARAMETER_COUNT; p++) {
        about("%s", p < S4_PARAMETER_COUNT ? "one parameter" : "du");
        s4_backward_io io = backward_io(&f);
        double *got = numbers(p < S4_PARAMETER_COUNT ? all.count[p] : COUNT);
        if (p < S4_PARAMETER_COUNT)
            io.gradients.parameter[p] = got;
        else
            io.du = got;
        must(s4_plan_backward(f.s.plan, f.layer, f.s.workspace, &io));
        if (p < S4_PARAMETER_COUNT)
            expect_same_bits("a gradient asked for alone", all.count[p], got, all.parameter[p]);
        else
            expect_same_bits("du asked for alone", COUNT, got, all.du);
    }
    fixture_close(&f);
}

Test(gradient, du_over_dy)
{
    for (int d = 0; d < 2; d++) {
        const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
        about("%s", s4_dtype_name(dtype));
        fixture f = fixture_open(dtype);
        const gradients expected = session_backward(&f.s, f.layer, 0, 0, f.u, f.dy);
        gradients got = gradients_zero(f.layer, COUNT);
        s4_backward_io io = backward_io(&f);
        io.u = tensor_of(dtype, COUNT, f.u);
        io.dy = io.du = tensor_of(dtype, COUNT, f.dy);
        for (int p = 0; p < S4_PARAMETER_COUNT; p++)
            io.gradients.parameter[p] = got.parameter[p];
        must(s4_plan_backward(f.s.plan, f.layer, f.s.workspace, &io));
        got.du = values_of(dtype, COUNT, io.du);
        expect_same_gradients(&got, &expected);
        fixture_close(&f);
    }
}

/* Fewer rows and samples than planned: as if the rest had been zero. */
Test(gradient, smaller_than_planned)
{
    enum { FEW = 2, SHORT = 13 };
    fixture f = fixture_open(S4_F64);
    double *u = numbers(FEW * H * SHORT), *dy = numbers(FEW * H * SHORT);
    double *padded_u = numbers(COUNT), *padded_dy = numbers(COUNT);
    for (int row = 0; row < FEW * H; row++)
        for (int t = 0; t < SHORT; t++) {
            u[row * SHORT + t] = padded_u[row * T + t] = f.u[row * T + t];
            dy[row * SHORT + t] = padded_dy[row * T + t] = f.dy[row * T + t];
        }
    const gradients got = session_backward(&f.s, f.layer, FEW, SHORT, u, dy);
    const gradients padded = session_backward(&f.s, f.layer, 0, 0, padded_u, padded_dy);
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        expect_close("a gradient", got.count[p], got.parameter[p], padded.parameter[p], TOLERANCE_ROUNDING, 0);
    for (int row = 0; row < FEW * H; row++)
        expect_same_bits("du", SHORT, &got.du[row * SHORT], &padded.du[row * T]);
    fixture_close(&f);
}

/* What is not finite in one row stays in that row of du. */
Test(gradient, rows_do_not_leak)
{
    enum { BROKEN = 1 * H + 2 };
    for (int d = 0; d < 2; d++)
        for (int of_u = 0; of_u < 2; of_u++) {
            const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
            about("%s, NaN in %s", s4_dtype_name(dtype), of_u ? "u" : "dy");
            fixture f = fixture_open(dtype);
            const gradients clean = session_backward(&f.s, f.layer, 0, 0, f.u, f.dy);
            double *dirty = numbers_copy(COUNT, of_u ? f.u : f.dy);
            dirty[BROKEN * T + 11] = NAN;
            const gradients got =
                session_backward(&f.s, f.layer, 0, 0, of_u ? dirty : f.u, of_u ? f.dy : dirty);
            for (int row = 0; row < B * H; row++)
                if (row != BROKEN || of_u) /* du does not depend on u */
                    expect_same_bits("du", T, &got.du[row * T], &clean.du[row * T]);
            check(of_u || isnan(got.du[BROKEN * T + 11]), "[%s] a NaN sample gave a number", about_text());
            fixture_close(&f);
        }
}

/* The forward of a training plan is that of a forward plan. */
Test(gradient, training_plan_runs_forward)
{
    fixture f = fixture_open(S4_F64);
    const s4_problem problem = problem_of(f.layer, S4_DIRECTION_FORWARD, S4_F64, B, T, T);
    session forward = session_open(f.context, &problem);
    const double *expected = session_forward(&forward, f.layer, 0, 0, f.u, NULL, NULL);
    expect_same_bits("y", COUNT, session_forward(&f.s, f.layer, 0, 0, f.u, NULL, NULL), expected);
    session_close(&forward);
    fixture_close(&f);
}

/* What is trained is what is stored: another leaf is refused, with the call that changes it. */
Test(gradient, other_leaves_are_refused)
{
    fixture f = fixture_open(S4_F64);
    must(s4_layer_setup(f.context, f.layer, 0));
    must_refuse(s4_plan_refresh(f.s.plan, f.layer, f.s.workspace), S4_ERROR_UNSUPPORTED, "s4_layer_setup");
    must(s4_layer_setup(f.context, f.layer, T + 1));
    must_refuse(s4_plan_refresh(f.s.plan, f.layer, f.s.workspace), S4_ERROR_UNSUPPORTED, "s4_layer_setup");
    must(s4_layer_setup(f.context, f.layer, T));
    must(s4_plan_refresh(f.s.plan, f.layer, f.s.workspace));
    s4_problem problem = problem_of(f.layer, S4_DIRECTION_TRAINING, S4_F64, B, T, T);
    problem.rate = 2;
    s4_plan *plan = (s4_plan *)(void *)&problem;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_UNSUPPORTED, "rate");
    cr_assert(plan == NULL);
    fixture_close(&f);
}

/* The CPU takes the batch in blocks only where it is large; gradients are sums over all blocks. */
Test(gradient, batch_in_blocks)
{
    enum { LONG = 1 << 20, ROWS = 9 };
    if (place_has_gpu())
        cr_skip_test("small budgets make blocks of the batch there");
    s4_context *context = context_open();
    const layer_shape shape = {.d_model = 1, .d_state = 2, .rank = 1, .plain_transforms = 1};
    s4_layer *layer = layer_random(&shape, 12);
    must(s4_layer_setup(context, layer, 1));
    float *u = tensor_zero(S4_F32, (int64_t)ROWS * LONG), *dy = tensor_zero(S4_F32, (int64_t)ROWS * LONG);
    double expected = 0;
    for (int64_t i = 0; i < (int64_t)ROWS * LONG; i++) {
        u[i] = (float)(i % 101) / 101;
        dy[i] = (float)(i % 97) / 97 - 0.25f;
        expected += (double)u[i] * (double)dy[i];
    }
    const s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, S4_F32, ROWS, LONG, 1);
    session s = session_open(context, &problem);
    cr_assert(s.info.block_batch < ROWS, "one block only");
    gradients whole = gradients_zero(layer, 1), parts = gradients_zero(layer, 1);
    s4_backward_io io;
    S4_INIT(&io);
    io.u = u;
    io.dy = dy;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        io.gradients.parameter[p] = whole.parameter[p];
    must(s4_plan_refresh(s.plan, layer, s.workspace));
    must(s4_plan_backward(s.plan, layer, s.workspace, &io));
    expect_close("gradient of D", 1, whole.parameter[S4_PARAMETER_D], &expected, TOLERANCE_FORWARD, 0);
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        io.gradients.parameter[p] = parts.parameter[p];
    io.gradients.accumulate = 1;
    io.batch = 1;
    for (int64_t row = 0; row < ROWS; row++) {
        io.u = u + row * LONG;
        io.dy = dy + row * LONG;
        must(s4_plan_backward(s.plan, layer, s.workspace, &io));
    }
    expect_close("gradient of C", parts.count[S4_PARAMETER_C], parts.parameter[S4_PARAMETER_C],
                 whole.parameter[S4_PARAMETER_C], TOLERANCE_F32_GRADIENT, 0);
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}
