/*
 * The convolution in chunks in every place: what is larger than one tile, one piece or one block of threads of a GPU has
 * the values of the CPU, wherever the tensors of the caller lie; and a channel whose matrices are not finite is told of
 * alike.
 */
#include <math.h>

#include "chunked.h"
#include "cuda_calls.h"
#include "expect.h"
#include "place.h"
#include "tolerances.h"

typedef struct large_case {
    char name[16];
    layer_shape shape;
    int64_t B, T;
    int states;
} large_case;

static void are_as_the_cpu(const large_case *cases, size_t count)
{
    s4_context *context = context_open();
    for (size_t i = 0; i < count; i++) {
        about("%s", cases[i].name);
        s4_layer *layer = layer_random(&cases[i].shape, i);
        const chunked_call c = chunked_open(layer, cases[i].B, cases[i].T, cases[i].states, i);
        chunked_call on_cpu = c;
        on_cpu.on_cpu = 1;
        chunked_result got = chunked_forward(context, &c), expected = chunked_forward(context, &on_cpu);
        expect_close("y", chunked_outputs(&c), got.y, expected.y, TOLERANCE_FORWARD, 0);
        expect_close("the state that leaves", chunked_states(&c), got.state, expected.state, TOLERANCE_FORWARD, 0);
        got = chunked_backward(context, &c);
        expected = chunked_backward(context, &on_cpu);
        expect_close_gradients(&got.g, &expected.g, TOLERANCE_GRADIENT);
        expect_close("gradient of x0", chunked_states(&c), got.entering, expected.entering, TOLERANCE_GRADIENT, 0);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* More than a tile has, which is 4096. */
Test(chunked_places, many_rows)
{
    static const large_case cases[] = {
        {"dplr", {.d_model = 3, .d_state = 4, .rank = 1, .plain_transforms = 1}, 1370, 33, 1},
        {"zoh", {.d_model = 3, .d_state = 4, .mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .plain_transforms = 1},
         1370, 17, 0},
    };
    are_as_the_cpu(cases, sizeof cases / sizeof cases[0]);
}

/* More than have scratch of set-up at a time, 1024. */
Test(chunked_places, many_channels)
{
    static const large_case cases[] = {
        {"zoh", {.d_model = 1030, .d_state = 2, .mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .plain_transforms = 1},
         1, 17, 1},
    };
    are_as_the_cpu(cases, sizeof cases / sizeof cases[0]);
}

/* States of more numbers than a block has threads, 128, or than leave their sums in shared memory, and more rows of them than
 * have scratch on the way back, 279; more outputs than a block has warps. */
Test(chunked_places, many_states)
{
    static const large_case cases[] = {
        {"dplr", {.d_model = 1, .d_state = 132, .rank = 2, .plain_transforms = 1}, 2, 600, 1},
        {"bilinear", {.d_model = 1, .d_state = 2000, .mode = S4_MODE_DIAG, .plain_transforms = 1}, 290, 17, 1},
        {"outputs, zoh",
         {.d_model = 2, .d_state = 34, .channels = 6, .mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .plain_transforms = 1},
         2, 75, 1},
    };
    are_as_the_cpu(cases, sizeof cases / sizeof cases[0]);
}

/* One channel of three, of one mode with dt 1, in which one of the matrices overflows, or a part of it. */
Test(chunked_places, tell_what_overflows)
{
    static const struct {
        char name[16];
        s4_mode mode;
        double growth, turn, b, c; /* |dA|, and the angle of dA, to the power of a chunk: of the first e to it */
    } cases[] = {
        {"Re X, zoh", S4_MODE_DIAG, 720, 0, 0, 0},
        {"Im X, zoh", S4_MODE_DIAG, 709.84, 1.5707963267948966, 0, 0},
        {"X, dplr", S4_MODE_DPLR, 720, 0, 0, 0},
        {"M_B", S4_MODE_DIAG, 100, 0, 1e300, 0},
        {"M_C", S4_MODE_DIAG, 100, 0, 0, 1e300},
        {"K", S4_MODE_DIAG, -10, 0, 1e200, 1e200},
        {"a parameter", S4_MODE_DIAG, NAN, 0, 0, 0},
    };
    s4_context *context = context_open();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("%s", cases[i].name);
        const int is_dplr = cases[i].mode == S4_MODE_DPLR;
        const layer_shape shape = {.d_model = 3, .d_state = 2, .rank = is_dplr, .mode = cases[i].mode,
                                   .discretisation = is_dplr ? S4_BILINEAR : S4_ZOH, .dt_transform = S4_TRANSFORM_EXP};
        s4_layer *layer = layer_random(&shape, i);
        const chunked_call c = chunked_open(layer, 1, 64, 0, i);
        const s4_problem problem = chunked_problem(&c, S4_DIRECTION_FORWARD);
        session s = session_open(context, &problem);
        const double growth = cases[i].growth / (double)s.info.chunk;
        layer_data(layer, S4_PARAMETER_INV_DT)[1] = 0;
        layer_data(layer, S4_PARAMETER_A_REAL)[1] = is_dplr ? -2 * tanh(growth / 2) : -growth;
        layer_data(layer, S4_PARAMETER_A_IMAG)[1] = cases[i].turn / (double)s.info.chunk;
        for (int part = 0; part < 2; part++) {
            if (is_dplr) layer_data(layer, S4_PARAMETER_P)[2 + part] = 0;
            layer_data(layer, S4_PARAMETER_B)[2 + part] = part ? 0 : cases[i].b;
            layer_data(layer, S4_PARAMETER_C)[2 + part] = part ? 0 : cases[i].c;
        }
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        must_refuse(s4_plan_refresh(s.plan, layer, s.workspace), S4_ERROR_NOT_FINITE,
                    isnan(growth) ? "kernel.A_real[1]" : "channel 1: the read-out");
        session_close(&s);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* Tensors and states in device memory, where the state that leaves does not lie where the one that enters did: the bits
 * of tensors on the host. */
Test(chunked_places, device_tensors)
{
    const cuda_calls cuda = cuda_find();
    s4_context *context = context_open();
    for (int k = 0; k <= 6; k += 6) { /* dplr and zoh, of one output */
        about("%s", chunked_kinds[k].name);
        s4_layer *layer = layer_random(&chunked_kinds[k].shape, (uint64_t)k);
        chunked_call c = chunked_open(layer, 3, 75, 1, (uint64_t)k);
        c.frozen = S4_PARAMETER_ALL;
        const chunked_result y = chunked_forward(context, &c), du = chunked_backward(context, &c);
        s4_problem problem = chunked_problem(&c, S4_DIRECTION_TRAINING);
        problem.tensors = S4_PLACE_GPU;
        session s = session_open(context, &problem);
        const int64_t count = chunked_inputs(&c), states = chunked_states(&c);
        const size_t bytes = (size_t)count * sizeof(double), state_bytes = (size_t)states * sizeof(double);
        double *got = numbers(count), *state = numbers(states);
        double *u = cuda_put(&cuda, bytes, c.u), *dy = cuda_put(&cuda, bytes, c.G), *out = cuda_put(&cuda, bytes, got);
        double *x0 = cuda_put(&cuda, state_bytes, c.x0), *ds = cuda_put(&cuda, state_bytes, c.ds);
        double *leaving = cuda_put(&cuda, state_bytes, state);
        s4_forward_io forward = {.struct_size = sizeof forward, .u = u, .y = out, .state_in = x0, .state_out = leaving};
        must(s4_plan_refresh(s.plan, layer, s.workspace));
        must(s4_plan_forward(s.plan, layer, s.workspace, &forward));
        cuda_get(&cuda, bytes, out, got);
        cuda_get(&cuda, state_bytes, leaving, state);
        expect_same_bits("y", count, got, y.y);
        expect_same_bits("the state that leaves", states, state, y.state);
        s4_backward_io backward = {.struct_size = sizeof backward, .u = u, .dy = dy, .du = out, .state_in = x0,
                                   .dstate_out = ds, .dstate_in = leaving};
        must(s4_plan_backward(s.plan, layer, s.workspace, &backward));
        cuda_get(&cuda, bytes, out, got);
        cuda_get(&cuda, state_bytes, leaving, state);
        expect_same_bits("du", count, got, du.g.du);
        expect_same_bits("gradient of x0", states, state, du.entering);
        double *const mine[] = {u, dy, out, x0, ds, leaving};
        for (size_t i = 0; i < sizeof mine / sizeof mine[0]; i++) check(cuda.free(mine[i]) == 0, "memory cannot be freed");
        session_close(&s);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}
