/*
 * Gradients through states, and how they are asked for: in parts that add up, by plans of every kind, in other layouts.
 */
#include "allocations.h"
#include "expect.h"
#include "place.h"
#include "state_sample.h"
#include "tolerances.h"

enum { WHOLE = 300, FIRST = 137, CHANNELS = 2 };

static void compare_two_calls(s4_context *context, const layer_shape *shape)
{
    enum { T = WHOLE, H = CHANNELS };
    sample whole = sample_open(context, shape, 1, T, T, 200);
    const s4_problem problem = sample_problem(&whole, S4_F64);
    if (!session_offered(context, &problem)) {
        s4_layer_destroy(whole.layer);
        return;
    }
    session s = session_open(context, &problem);
    const result expected = backward(&s, &whole);
    session_close(&s);

    sample part[2] = {whole, whole};
    result got = result_zero(&whole), tail = result_zero(&whole);
    for (int i = 1; i >= 0; i--) {
        sample *p = &part[i];
        const int64_t from = i == 0 ? 0 : FIRST;
        p->T = i == 0 ? FIRST : T - FIRST;
        p->u = numbers(H * p->T);
        p->G = numbers(H * p->T);
        for (int64_t h = 0; h < H; h++)
            for (int64_t t = 0; t < p->T; t++) {
                p->u[h * p->T + t] = whole.u[h * T + from + t];
                p->G[h * p->T + t] = whole.G[h * T + from + t];
            }
    }
    s4_problem parts = problem;
    parts.length = FIRST;
    s = session_open(context, &parts);
    double *between = numbers(whole.states);
    session_forward(&s, whole.layer, 0, 0, part[0].u, whole.x0, between);
    session_close(&s);
    part[1].x0 = between;
    parts.length = T - FIRST;
    s = session_open(context, &parts);
    backward_into(&s, &part[1], &got, 0);
    session_close(&s);
    memcpy(tail.g.du, got.g.du, sizeof(double) * (size_t)(H * part[1].T));
    part[0].ds = numbers_copy(whole.states, got.entering);
    parts.length = FIRST;
    s = session_open(context, &parts);
    backward_into(&s, &part[0], &got, 1);
    session_close(&s);

    double *du = numbers(H * T);
    for (int64_t h = 0; h < H; h++)
        for (int64_t t = 0; t < T; t++)
            du[h * T + t] = t < FIRST ? got.g.du[h * FIRST + t] : tail.g.du[h * (T - FIRST) + t - FIRST];
    got.g.du = du;
    got.g.du_count = H * T;
    expect_close_gradients(&got.g, &expected.g, TOLERANCE_STATE);
    expect_close("gradient of x0", whole.states, got.entering, expected.entering, TOLERANCE_STATE, 0);
    s4_layer_destroy(whole.layer);
}

/* A layer cut into two calls, the state handed over: the gradients of one call. Several strides, and a part of one. */
Test(state_calls, of_two_calls_add_up)
{
    s4_context *context = context_open();
    about("dplr");
    compare_two_calls(context, &sample_dplr);
    about("diag");
    compare_two_calls(context, &sample_diagonal);
    s4_context_destroy(context);
}

/* Threads and budgets change nothing but time and memory. */
Test(state_calls, does_not_depend_on_the_plan)
{
    static const int threads[] = {2, 5};
    s4_context *context = context_open();
    for (int i = 0; i < 2; i++) {
        layer_shape shape = i == 0 ? sample_dplr : sample_diagonal;
        shape.d_model = 7;
        sample p = sample_open(context, &shape, 3, 40, 45, (uint64_t)(210 + i));
        s4_problem problem = sample_problem(&p, S4_F64);
        if (!session_offered(context, &problem)) {
            s4_layer_destroy(p.layer);
            continue;
        }
        session s = session_open(context, &problem);
        const result expected = backward(&s, &p);
        const int64_t least = s.info.host_minimum;
        session_close(&s);
        for (int j = 0; j < 2; j++) {
            about("%s, %d threads", i == 0 ? "dplr" : "diag", threads[j]);
            problem.threads = threads[j];
            const result got = backward_alone(context, &p, &problem);
            expect_same_results(&p, &got, &expected);
        }
        about("%s, the smallest budget", i == 0 ? "dplr" : "diag");
        problem.threads = 1;
        problem.host_budget = least;
        const result got = backward_alone(context, &p, &problem);
        expect_same_results(&p, &got, &expected);
        s4_layer_destroy(p.layer);
    }
    s4_context_destroy(context);
}

/* Nothing of states given: the bits of a plan without. */
Test(state_calls, of_no_states)
{
    s4_context *context = context_open();
    sample p = sample_open(context, &sample_dplr, 2, 9, 9, 220);
    s4_problem problem = sample_problem(&p, S4_F64);
    p.x0 = p.ds = NULL;
    p.wants_entering = 0;
    const result got = backward_alone(context, &p, &problem);
    problem.states = 0;
    const result expected = backward_alone(context, &p, &problem);
    expect_same_results(&p, &got, &expected);
    s4_layer_destroy(p.layer);
    s4_context_destroy(context);
}

Test(state_calls, accumulates)
{
    s4_context *context = context_open();
    sample p = sample_open(context, &sample_dplr, 2, 9, 9, 230);
    const s4_problem problem = sample_problem(&p, S4_F64);
    session s = session_open(context, &problem);
    const result once = backward(&s, &p);
    result sum = result_zero(&p), expected = result_zero(&p);
    for (int q = 0; q < S4_PARAMETER_COUNT; q++)
        for (int64_t i = 0; i < sum.g.count[q]; i++) {
            sum.g.parameter[q][i] = (double)i;
            expected.g.parameter[q][i] = (double)i + once.g.parameter[q][i];
        }
    expected.g.du = once.g.du;
    expected.entering = once.entering;
    backward_into(&s, &p, &sum, 1);
    expect_same_results(&p, &sum, &expected);
    session_close(&s);
    s4_layer_destroy(p.layer);
    s4_context_destroy(context);
}

/* dx0 in the place of ds; no du; no gradients of parameters; fewer rows and samples than planned. */
Test(state_calls, parts_and_places)
{
    enum { B = 3, T = 9, H = 2 };
    s4_context *context = context_open();
    sample p = sample_open(context, &sample_dplr, B, T, T, 240);
    const s4_problem problem = sample_problem(&p, S4_F64);
    session s = session_open(context, &problem);
    const result expected = backward(&s, &p);
    s4_backward_io io;
    S4_INIT(&io);
    io.u = p.u;
    io.dy = p.G;
    io.state_in = p.x0;
    double *over = numbers_copy(p.states, p.ds);
    io.dstate_out = io.dstate_in = over;
    must(s4_plan_backward(s.plan, p.layer, s.workspace, &io));
    expect_same_bits("gradient of x0 in the place of ds", p.states, over, expected.entering);

    double *entering = numbers(p.states), *du = numbers(H * T);
    io.dstate_out = p.ds;
    io.dstate_in = entering;
    io.du = du;
    io.batch = 1;
    must(s4_plan_backward(s.plan, p.layer, s.workspace, &io));
    expect_same_bits("gradient of x0 of one row", p.states / B, entering, expected.entering);
    expect_same_bits("du of one row", H * T, du, expected.g.du);
    session_close(&s);
    s4_layer_destroy(p.layer);
    s4_context_destroy(context);
}

/* Samples that lie otherwise: time before channel, planned, and every other number of larger tensors. */
Test(state_calls, of_other_layouts)
{
    enum { B = 2, T = 9, H = 2, M = 2 };
    s4_context *context = context_open();
    layer_shape shape = sample_dplr;
    shape.channels = M;
    sample p = sample_open(context, &shape, B, T, T, 250);
    s4_problem problem = sample_problem(&p, S4_F64);
    problem.placement = (s4_placement){{S4_PLACE_CPU}};
    const result expected = backward_alone(context, &p, &problem);
    double *u = numbers(2 * B * T * H), *dy = numbers(2 * B * T * M * H), *du = numbers(2 * B * T * H);
    for (int layout = 0; layout < 2; layout++) {
        const int64_t gap = 1 + layout;
        about(layout ? "strides" : "blh");
        for (int64_t b = 0; b < B; b++)
            for (int64_t t = 0; t < T; t++) {
                for (int64_t h = 0; h < H; h++) u[gap * ((b * T + t) * H + h)] = p.u[(b * H + h) * T + t];
                for (int64_t h = 0; h < M * H; h++) dy[gap * ((b * T + t) * M * H + h)] = p.G[(b * M * H + h) * T + t];
            }
        problem.layout = layout ? S4_LAYOUT_BHL : S4_LAYOUT_BLH;
        session s = session_open(context, &problem);
        result got = result_zero(&p);
        s4_backward_io io;
        S4_INIT(&io);
        io.u = u;
        io.dy = dy;
        io.du = du;
        io.state_in = p.x0;
        io.dstate_out = p.ds;
        io.dstate_in = got.entering;
        for (int q = 0; q < S4_PARAMETER_COUNT; q++) io.gradients.parameter[q] = got.g.parameter[q];
        const int64_t of_u[] = {2 * T * H, 2, 2 * H}, of_dy[] = {2 * T * M * H, 2, 2 * M * H};
        for (int i = 0; layout && i < 3; i++) {
            io.u_strides[i] = io.du_strides[i] = of_u[i];
            io.dy_strides[i] = of_dy[i];
        }
        must(s4_plan_refresh(s.plan, p.layer, s.workspace));
        must(s4_plan_backward(s.plan, p.layer, s.workspace, &io));
        for (int64_t b = 0; b < B; b++)
            for (int64_t t = 0; t < T; t++)
                for (int64_t h = 0; h < H; h++) got.g.du[(b * H + h) * T + t] = du[gap * ((b * T + t) * H + h)];
        expect_same_results(&p, &got, &expected);
        session_close(&s);
    }
    s4_layer_destroy(p.layer);
    s4_context_destroy(context);
}

/* What is planned is what is taken, and nothing is taken while it runs. */
Test(state_calls, memory)
{
    enum { T = 4000, N = 16 };
    s4_context *context = context_open();
    layer_shape shape = sample_dplr;
    shape.d_state = N;
    sample p = sample_open(context, &shape, 1, T, T, 260);
    const s4_problem problem = sample_problem(&p, S4_F64);
    session s = session_open(context, &problem);
    const s4_plan_info with = s.info;
    must(s4_context_memory_reset(context, S4_PLACE_CPU)); /* of the set-up */
    must(s4_plan_refresh(s.plan, p.layer, s.workspace));
    double *du = numbers(count_u(&p)), *entering = numbers(p.states);
    s4_backward_io io;
    S4_INIT(&io);
    io.u = p.u;
    io.dy = p.G;
    io.du = du;
    io.state_in = p.x0;
    io.dstate_out = p.ds;
    io.dstate_in = entering;
    must(s4_plan_backward(s.plan, p.layer, s.workspace, &io));
    if (allocations_supported() && !place_has_gpu()) {
        allocations_begin();
        const s4_status status = s4_plan_backward(s.plan, p.layer, s.workspace, &io);
        const long count = allocations_end();
        must(status);
        cr_assert_eq(count, 0, "%ld allocations in a backward call", count);
    }
    s4_memory_use use;
    must(s4_context_memory(context, S4_PLACE_CPU, &use));
    cr_assert_eq(use.peak, with.host_peak, "measured %lld, planned %lld", (long long)use.peak,
                 (long long)with.host_peak);
    s4_problem without = problem;
    without.states = 0;
    session_close(&s);
    s = session_open(context, &without);
    check(with.host_peak - s.info.host_peak < (int64_t)(8 * N * T / 4), "states take %lld bytes more",
          (long long)(with.host_peak - s.info.host_peak));
    session_close(&s);
    s4_layer_destroy(p.layer);
    s4_context_destroy(context);
}

Test(state_calls, refused)
{
    s4_context *context = context_open();
    sample p = sample_open(context, &sample_dplr, 1, 9, 9, 270);
    s4_problem problem = sample_problem(&p, S4_F64);
    s4_plan *plan;
    problem.length = 10;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_ARGUMENT, "kernel_length");
    problem.length = 9;
    problem.bidirectional = 1;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_UNSUPPORTED, "bidirectional");
    problem.bidirectional = 0;
    problem.mode = S4_MODE_DIAG;
    problem.rank = 0;
    problem.discretisation = S4_DSS;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_UNSUPPORTED, "dss");

    for (int states = 0; states < 2; states++) {
        s4_problem given = sample_problem(&p, S4_F64);
        given.states = states;
        session s = session_ready(context, &given, p.layer);
        s4_backward_io io;
        S4_INIT(&io);
        io.u = p.u;
        io.dy = io.du = p.G;
        for (int which = 0; which < 3; which++) {
            io.state_in = which == 0 ? p.x0 : NULL;
            io.dstate_out = which == 1 ? p.ds : NULL;
            io.dstate_in = which == 2 ? p.ds : NULL;
            must_refuse(s4_plan_backward(s.plan, p.layer, s.workspace, &io), S4_ERROR_ARGUMENT,
                        states ? "du is dy" : which == 0 ? "state_in" : which == 1 ? "dstate_out" : "dstate_in");
        }
        session_close(&s);
    }
    s4_layer_destroy(p.layer);
    s4_context_destroy(context);
}
