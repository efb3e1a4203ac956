/*
 * Gradients of the convolution in chunks, of plain C: against finite differences of the forward call with respect to all
 * that a call takes, against the reference, against the algorithm fft where it has the same leaf, against themselves in
 * two calls; and what they do not depend on.
 */
#include <math.h>
#include <stdlib.h>

#include "allocations.h"
#include "chunked.h"
#include "derivative.h"
#include "expect.h"
#include "place.h"
#include "tolerances.h"

/* Differences at steps of 1e-3, extrapolated to sixth order, of a loss that is good to 1e-14. */
#define TOLERANCE_DIFFERENCE 1e-8

/* ---- finite differences -------------------------------------------------------------------------------------------- */

static double loss_of(session *s, const void *call)
{
    const chunked_call *c = call;
    const int64_t outputs = chunked_outputs(c), states = chunked_states(c);
    double *y = calloc((size_t)(outputs + states), sizeof *y), *out = y + outputs, sum = 0; /* thousands of times */
    cr_assert(y);
    s4_forward_io io;
    S4_INIT(&io);
    io.u = c->u;
    io.y = y;
    io.state_in = c->x0;
    io.state_out = c->states ? out : NULL;
    io.lengths = c->lengths;
    must(s4_plan_forward(s->plan, c->layer, s->workspace, &io));
    for (int64_t i = 0; i < outputs; i++) sum += y[i] * c->G[i];
    for (int64_t i = 0; c->ds && i < states; i++) sum += out[i] * c->ds[i];
    free(y);
    return sum;
}

static double refreshed_loss_of(session *s, const void *call)
{
    must(s4_plan_refresh(s->plan, ((const chunked_call *)call)->layer, s->workspace));
    return loss_of(s, call);
}

static chunked_result differences(s4_context *context, const chunked_call *c)
{
    const s4_problem problem = chunked_problem(c, S4_DIRECTION_FORWARD);
    session s = session_open(context, &problem);
    chunked_result r = {.g = gradients_zero(c->layer, chunked_inputs(c)), .entering = numbers(chunked_states(c))};
    for (int q = 0; q < S4_PARAMETER_COUNT; q++)
        for (int64_t i = 0; i < r.g.count[q]; i++)
            r.g.parameter[q][i] =
                derivative_of(refreshed_loss_of, &s, c, c->layer, &layer_data(c->layer, (s4_parameter)q)[i]);
    must(s4_plan_refresh(s.plan, c->layer, s.workspace));
    for (int64_t i = 0; i < chunked_inputs(c); i++) r.g.du[i] = derivative_of(loss_of, &s, c, NULL, &c->u[i]);
    for (int64_t i = 0; c->x0 && i < chunked_states(c); i++) r.entering[i] = derivative_of(loss_of, &s, c, NULL, &c->x0[i]);
    session_close(&s);
    return r;
}

/* What the CPU gives, which has been compared with differences. */
static chunked_result of_the_cpu(s4_context *context, const chunked_call *c)
{
    chunked_call on_cpu = *c;
    on_cpu.on_cpu = 1;
    return chunked_backward(context, &on_cpu);
}

static void expect_close_results(const chunked_call *c, const chunked_result *got, const chunked_result *expected,
                                 double tolerance)
{
    expect_close_gradients(&got->g, &expected->g, tolerance);
    if (c->x0)
        expect_close("gradient of x0", chunked_states(c), got->entering, expected->entering, tolerance, 1e-6);
}

static void compare(s4_context *context, const chunked_call *c, const chunked_result *expected, double tolerance)
{
    chunked_result got = chunked_backward(context, c);
    expect_close_results(c, &got, expected, tolerance);
    chunked_call single = *c;
    single.dtype = S4_F32;
    got = chunked_backward(context, &single);
    expect_close_results(c, &got, expected, TOLERANCE_F32_GRADIENT);
}

static void compare_with_differences(s4_context *context, const chunked_call *c)
{
    const chunked_result expected = place_has_gpu() ? of_the_cpu(context, c) : differences(context, c);
    compare(context, c, &expected, place_has_gpu() ? TOLERANCE_PLACES_GRADIENT : TOLERANCE_DIFFERENCE);
}

Test(chunked_gradient, are_differences)
{
    static const int64_t lengths[] = {1, 31, 33, 75};
    s4_context *context = context_open();
    for (int k = 0; k < chunked_kind_count; k++)
        for (int i = 0; i < 4; i++) {
            if (chunked_kinds[k].shape.d_state > 16 && i != 2)
                continue;
            about("%s, length %d", chunked_kinds[k].name, (int)lengths[i]);
            s4_layer *layer = layer_random(&chunked_kinds[k].shape, (uint64_t)k);
            const chunked_call c = chunked_open(layer, 2, lengths[i], i != 1, (uint64_t)(10 * k + i));
            compare_with_differences(context, &c);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

Test(chunked_gradient, with_lengths)
{
    static const int64_t lengths[] = {70, 0, 32, 33, 64, 5};
    s4_context *context = context_open();
    for (int k = 0; k < chunked_kind_count; k++) {
        about("%s", chunked_kinds[k].name);
        s4_layer *layer = layer_random(&chunked_kinds[k].shape, (uint64_t)k);
        if (chunked_kinds[k].shape.d_state <= 16) {
            chunked_call c = chunked_open(layer, 6, 70, 1, (uint64_t)k);
            c.lengths = lengths;
            compare_with_differences(context, &c);
        }
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* ---- the reference, and fft ---------------------------------------------------------------------------------------- */

Test(chunked_gradient, against_reference)
{
    static const int64_t lengths[] = {1, 2, 3, 8, 31, 64, 65, 100};
    s4_context *context = context_open();
    for (int rank = 1; rank <= 3; rank++)
        for (int i = 0; i < 8; i += place_has_gpu() ? 3 : 1) {
            about("rank %d, length %d", rank, (int)lengths[i]);
            const layer_shape shape = {.d_model = 2, .d_state = 6, .rank = rank, .n_ssm = 1 + i % 2, .dt_untied = i % 2,
                                       .plain_transforms = 1};
            s4_layer *layer = layer_random(&shape, (uint64_t)(10 * rank + i));
            const chunked_call c = chunked_open(layer, 2, lengths[i], 1, (uint64_t)(10 * rank + i));
            const struct ref_layer reference = layer_reference(layer);
            chunked_result expected = {.g = gradients_zero(layer, chunked_inputs(&c)),
                                       .entering = numbers(chunked_states(&c))};
            const struct ref_loss loss = {.leaf = REF_LEAF_C, .route = REF_ROUTE_STRUCTURED,
                                          .kernel_length = (int)c.T, .batch = (int)c.B, .input_length = (int)c.T,
                                          .u = c.u, .G = c.G, .state_in = c.x0, .g_state_out = c.ds};
            const struct ref_gradients out = {.inv_dt = expected.g.parameter[S4_PARAMETER_INV_DT],
                                              .A_real = expected.g.parameter[S4_PARAMETER_A_REAL],
                                              .A_imag = expected.g.parameter[S4_PARAMETER_A_IMAG],
                                              .B = expected.g.parameter[S4_PARAMETER_B],
                                              .P = expected.g.parameter[S4_PARAMETER_P],
                                              .C = expected.g.parameter[S4_PARAMETER_C],
                                              .D = expected.g.parameter[S4_PARAMETER_D],
                                              .u = expected.g.du,
                                              .state_in = expected.entering};
            const double miss = ref_gradients(&reference, &loss, &out);
            check(miss <= TOLERANCE_GRADIENT_DIFFERENCE, "[%s] the reference is good to %.3g only", about_text(), miss);
            compare(context, &c, &expected, TOLERANCE_GRADIENT_DIFFERENCE + miss);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* Diagonal layers train C either way; 70000 samples are more than the states that are kept at a time. */
Test(chunked_gradient, against_fft)
{
    static const int64_t sizes[][2] = {{5, 200}, {17, 64}, {3, 1000}, {2, 5000}, {1, 70000}};
    s4_context *context = context_open();
    for (int k = 0; k < chunked_kind_count; k++)
        for (int i = 0; i < 5; i++) {
            if (chunked_kinds[k].shape.mode != S4_MODE_DIAG || (i == 4 && k != 6))
                continue;
            about("%s, %d rows of %d", chunked_kinds[k].name, (int)sizes[i][0], (int)sizes[i][1]);
            s4_layer *layer = layer_random(&chunked_kinds[k].shape, (uint64_t)k);
            chunked_call c = chunked_open(layer, sizes[i][0], sizes[i][1], i < 3, (uint64_t)(10 * k + i));
            c.algorithm = S4_ALGORITHM_FFT;
            const chunked_result expected = chunked_backward(context, &c);
            c.algorithm = S4_ALGORITHM_CHUNKED;
            compare(context, &c, &expected, TOLERANCE_GRADIENT_DIFFERENCE);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* A row cut in two, the state handed over: the gradients of one call. The second time, the states of the whole row are
 * more than are kept at a time. */
static void compare_two_calls(s4_context *context, const layer_shape *shape, int64_t T, int64_t first)
{
    s4_layer *layer = layer_random(shape, 200);
    const int64_t H = shape->d_model;
    const chunked_call whole = chunked_open(layer, 1, T, 1, 300);
    const chunked_result expected = chunked_backward(context, &whole);
    chunked_call part[2] = {whole, whole};
    for (int i = 0; i < 2; i++) {
        chunked_call *p = &part[i];
        const int64_t from = i == 0 ? 0 : first;
        p->T = i == 0 ? first : T - first;
        p->u = numbers(H * p->T);
        p->G = numbers(H * p->T);
        for (int64_t j = 0; j < H * p->T; j++) {
            p->u[j] = whole.u[j / p->T * T + from + j % p->T];
            p->G[j] = whole.G[j / p->T * T + from + j % p->T];
        }
    }
    part[1].x0 = chunked_forward(context, &part[0]).state;
    const chunked_result tail = chunked_backward(context, &part[1]);
    part[0].ds = tail.entering;
    chunked_result got = chunked_backward(context, &part[0]);
    for (int q = 0; q < S4_PARAMETER_COUNT; q++)
        for (int64_t i = 0; i < got.g.count[q]; i++) got.g.parameter[q][i] += tail.g.parameter[q][i];
    double *du = numbers(H * T);
    for (int64_t h = 0; h < H; h++)
        for (int64_t t = 0; t < T; t++)
            du[h * T + t] = t < first ? got.g.du[h * first + t] : tail.g.du[h * (T - first) + t - first];
    got.g.du = du;
    got.g.du_count = H * T;
    expect_close_results(&whole, &got, &expected, TOLERANCE_STATE);
    s4_layer_destroy(layer);
}

Test(chunked_gradient, of_two_calls_add_up)
{
    static const layer_shape dplr = {.d_model = 2, .d_state = 6, .rank = 2, .plain_transforms = 1};
    static const layer_shape diagonal = {
        .d_model = 2, .d_state = 6, .mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .plain_transforms = 1};
    s4_context *context = context_open();
    for (int i = 0; i < 2; i++) {
        about("%s", i == 0 ? "dplr" : "diag");
        const layer_shape *shape = i == 0 ? &dplr : &diagonal;
        compare_two_calls(context, shape, 300, 137);
        if (!place_has_gpu()) /* an emulated GPU is slow */
            compare_two_calls(context, shape, i == 0 ? 40000 : 150000, i == 0 ? 19999 : 80001);
        compare_two_calls(context, shape, i == 0 ? 20000 : 70000, i == 0 ? 16385 : 65537); /* ends just after a part */
    }
    s4_context_destroy(context);
}

/* A row that ends in an earlier part of the states that are kept than a row beside it, inside a chunk and at the end of
 * one: the gradients of each row alone. */
Test(chunked_gradient, of_rows_that_end_early)
{
    enum { H = 2, T = 20000, B = 2 };
    static const int64_t ends[] = {777, 640};
    static const layer_shape shape = {.d_model = H, .d_state = 6, .rank = 1, .plain_transforms = 1};
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shape, 12);
    for (int i = 0; i < 2; i++) {
        about("the second row has %d samples", (int)ends[i]);
        const int64_t lengths[B] = {T, ends[i]};
        chunked_call both = chunked_open(layer, B, T, 1, 13);
        both.lengths = lengths;
        const chunked_result got = chunked_backward(context, &both);
        chunked_result expected = {.g = gradients_zero(layer, chunked_inputs(&both)),
                                   .entering = numbers(chunked_states(&both))};
        for (int64_t b = 0; b < B; b++) {
            chunked_call row = both;
            const int64_t count = lengths[b], states = chunked_states(&both) / B;
            row.lengths = NULL;
            row.B = 1;
            row.T = count;
            row.u = numbers(H * count);
            row.G = numbers(H * count);
            for (int64_t j = 0; j < H * count; j++) {
                row.u[j] = both.u[(b * H + j / count) * T + j % count];
                row.G[j] = both.G[(b * H + j / count) * T + j % count];
            }
            row.x0 = both.x0 + b * states;
            row.ds = both.ds + b * states;
            const chunked_result alone = chunked_backward(context, &row);
            for (int q = 0; q < S4_PARAMETER_COUNT; q++)
                for (int64_t n = 0; n < alone.g.count[q]; n++)
                    expected.g.parameter[q][n] += alone.g.parameter[q][n];
            for (int64_t j = 0; j < H * count; j++)
                expected.g.du[(b * H + j / count) * T + j % count] = alone.g.du[j];
            memcpy(expected.entering + b * states, alone.entering, sizeof *alone.entering * (size_t)states);
        }
        expect_close_results(&both, &got, &expected, TOLERANCE_STATE);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* ---- what they do not depend on ------------------------------------------------------------------------------------- */

Test(chunked_gradient, have_the_same_bits)
{
    s4_context *context = context_open();
    for (int k = 0; k < chunked_kind_count; k += place_has_gpu() ? 3 : 1) /* an emulated GPU is slow */
        for (int single = 0; single < 2; single++) {
            s4_layer *layer = layer_random(&chunked_kinds[k].shape, (uint64_t)k);
            chunked_call c = chunked_open(layer, 18, 101, 1, (uint64_t)k);
            c.dtype = single ? S4_F32 : S4_F64;
            const chunked_result expected = chunked_backward(context, &c);
            for (int way = 0; way < CHUNKED_WAYS; way++) {
                about("%s, way %d", chunked_kinds[k].name, way);
                const chunked_call other = chunked_another_way(context, &c, S4_DIRECTION_TRAINING, way);
                const chunked_result got = chunked_backward(context, &other);
                expect_same_backward(&c, &got, &expected);
            }
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* What is asked for has the bits it has when all is asked for. */
static void ask_for_some(s4_context *context, const chunked_call *all, const chunked_result *expected, unsigned frozen,
                         int no_du, int no_entering)
{
    chunked_call c = *all;
    c.frozen = frozen;
    c.no_du = no_du;
    c.no_entering = no_entering;
    chunked_result got = chunked_backward(context, &c);
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        if (frozen >> p & 1)
            got.g.parameter[p] = expected->g.parameter[p];
    if (no_du)
        got.g.du = expected->g.du;
    if (no_entering)
        got.entering = expected->entering;
    expect_same_backward(&c, &got, expected);
}

Test(chunked_gradient, of_what_is_asked_for)
{
    static const int kinds[] = {0, 2, 6, 8};
    static const unsigned all_but[] = {S4_PARAMETER_C, S4_PARAMETER_D, S4_PARAMETER_INV_DT, S4_PARAMETER_P};
    s4_context *context = context_open();
    for (int i = 0; i < 8; i++) {
        const struct chunked_kind *kind = &chunked_kinds[kinds[i / 2]];
        const int states = i % 2;
        s4_layer *layer = layer_random(&kind->shape, (uint64_t)i);
        const chunked_call c = chunked_open(layer, 3, 40, states, (uint64_t)i);
        const chunked_result expected = chunked_backward(context, &c);
        for (unsigned frozen = 0; frozen < 1u << S4_PARAMETER_COUNT && i % 4 == 1; frozen += 5) {
            about("%s, frozen %u", kind->name, frozen);
            ask_for_some(context, &c, &expected, frozen, frozen % 2, frozen / 2 % 2);
        }
        for (int alone = 0; alone <= 4; alone++)
            for (int way = 0; way < 4; way++) {
                about("%s, alone %d, way %d, %s states", kind->name, alone, way, states ? "with" : "no");
                const unsigned wanted = alone < 4 ? 1u << all_but[alone] : 0;
                ask_for_some(context, &c, &expected, S4_PARAMETER_ALL & ~wanted, way & 1, way & 2);
            }
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* What is there is added to, once. */
Test(chunked_gradient, accumulate)
{
    s4_context *context = context_open();
    for (int k = 0; k < 3; k++) {
        about("%s", chunked_kinds[3 * k].name);
        s4_layer *layer = layer_random(&chunked_kinds[3 * k].shape, 1);
        chunked_call c = chunked_open(layer, 5, 70, 1, 1);
        chunked_result expected = chunked_backward(context, &c);
        for (int p = 0; p < S4_PARAMETER_COUNT; p++)
            for (int64_t i = 0; i < expected.g.count[p]; i++)
                expected.g.parameter[p][i] += 0.5;
        c.accumulate = 1;
        for (int way = 0; way < CHUNKED_WAYS; way++) {
            const chunked_call other = chunked_another_way(context, &c, S4_DIRECTION_TRAINING, way);
            const chunked_result got = chunked_backward(context, &other);
            expect_same_backward(&c, &got, &expected);
        }
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* Each of x0, the gradient of the state that leaves, and that of the one that enters may be missing. */
Test(chunked_gradient, of_what_is_given)
{
    s4_context *context = context_open();
    for (int i = 0; i < 8; i++) {
        about("%s, %s x0, %s ds", i & 4 ? "diag" : "dplr", i & 1 ? "with" : "no", i & 2 ? "with" : "no");
        s4_layer *layer = layer_random(&chunked_kinds[i & 4 ? 6 : 0].shape, (uint64_t)i);
        chunked_call c = chunked_open(layer, 2, 40, 1, (uint64_t)i);
        c.x0 = i & 1 ? c.x0 : NULL;
        c.ds = i & 2 ? c.ds : NULL;
        compare_with_differences(context, &c);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* du in the place of dy. */
Test(chunked_gradient, in_place)
{
    s4_context *context = context_open();
    for (int i = 0; i < 2; i++) {
        s4_layer *layer = layer_random(&chunked_kinds[i ? 6 : 0].shape, 1);
        const chunked_call c = chunked_open(layer, 3, 5000, 0, 1);
        const chunked_result expected = chunked_backward(context, &c);
        const s4_problem problem = chunked_problem(&c, S4_DIRECTION_TRAINING);
        session s = session_open(context, &problem);
        double *both = numbers_copy(chunked_outputs(&c), c.G);
        s4_backward_io io;
        S4_INIT(&io);
        io.u = c.u;
        io.dy = io.du = both;
        must(s4_plan_refresh(s.plan, layer, s.workspace));
        must(s4_plan_backward(s.plan, layer, s.workspace, &io));
        expect_same_bits("du", chunked_inputs(&c), both, expected.g.du);
        session_close(&s);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

Test(chunked_gradient, allocate_nothing)
{
    s4_context *context = context_open();
    for (int i = 0; i < 2; i++) {
        s4_layer *layer = layer_random(&chunked_kinds[i ? 6 : 0].shape, 1);
        const chunked_call c = chunked_open(layer, 3, 100, 1, 1);
        const s4_problem problem = chunked_problem(&c, S4_DIRECTION_TRAINING);
        session s = session_open(context, &problem);
        gradients g = gradients_zero(layer, chunked_inputs(&c));
        s4_backward_io io;
        S4_INIT(&io);
        io.u = c.u;
        io.dy = c.G;
        io.du = g.du;
        io.dstate_out = c.ds;
        for (int p = 0; p < S4_PARAMETER_COUNT; p++) io.gradients.parameter[p] = g.parameter[p];
        must(s4_plan_refresh(s.plan, layer, s.workspace));
        must(s4_plan_backward(s.plan, layer, s.workspace, &io));
        if (allocations_supported() && !place_has_gpu()) { /* an emulated GPU allocates on the host */
            allocations_begin();
            must(s4_plan_refresh(s.plan, layer, s.workspace));
            must(s4_plan_backward(s.plan, layer, s.workspace, &io));
            const long count = allocations_end();
            check(count == 0, "%ld allocations", count);
        }
        session_close(&s);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}
