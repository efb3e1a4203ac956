/*
 * The kernel from the generating function against the plain recurrence K[l] = C dA^l dB, at every kind of length:
 * 1, 2, odd, prime, powers of two, and long.
 */
#include <math.h>

#include "compare.h"
#include "expect.h"
#include "layers.h"
#include "session.h"
#include "tolerances.h"

static const int64_t lengths[] = {1, 2, 3, 7, 8, 13, 31, 64, 101, 1801, 14113};
#define LENGTHS (int)(sizeof lengths / sizeof lengths[0])

Test(kernel, recurrence)
{
    s4_context *context = context_open();
    for (int rank = 1; rank <= S4_RANK_MAX; rank++)
        for (int i = 0; i < LENGTHS; i++) {
            const int64_t L = lengths[i];
            const layer_shape shape = {.d_model = 4, .d_state = 8, .rank = rank, .n_ssm = 2, .plain_transforms = 1};
            s4_layer *layer = layer_random(&shape, (uint64_t)(100 * rank + i));
            about("rank %d, length %d", rank, (int)L);
            cr_assert(compare_kernel(context, layer, 1, L, rank > 1 ? TOLERANCE_FORWARD_RANK : TOLERANCE_FORWARD));
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

Test(kernel, smallest_and_wide_states)
{
    static const int64_t d_state[] = {2, 6, 64};
    s4_context *context = context_open();
    for (int i = 0; i < 3; i++) {
        about("N = %d", (int)d_state[i]);
        const layer_shape shape = {.d_model = 1, .d_state = d_state[i], .rank = 1, .plain_transforms = 1};
        s4_layer *layer = layer_random(&shape, (uint64_t)i);
        cr_assert(compare_kernel(context, layer, 1, 30, TOLERANCE_FORWARD));
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* Values by hand: K[0..3] at any length; the Nyquist bin of K^, the sum of (-1)^l K[l], where the textbook form of the
 * generating function is 0 times infinity. */
Test(kernel, by_hand)
{
    static const double first[] = {0.195227033547585, 0.020348785980764, -0.0787035229623899, -0.098592433232996};
    static const struct {
        int64_t length;
        double nyquist;
    } cases[] = {{2, 0.174878247566821}, {8, 0.0207323335732966}, {64, 0.150697013834592}};
    s4_context *context = context_open();
    s4_layer *layer = layer_by_hand();
    for (int i = 0; i < 3; i++) {
        const int64_t L = cases[i].length;
        about("length %d", (int)L);
        const s4_problem problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, L, L);
        session s = session_open(context, &problem);
        const double *K = session_kernel(&s, layer);
        expect_close("K[0..3]", L < 4 ? L : 4, K, first, TOLERANCE_FORWARD, 0);
        double nyquist = 0;
        for (int64_t l = 0; l < L; l++)
            nyquist += l % 2 ? -K[l] : K[l];
        expect_close("Nyquist bin", 1, &nyquist, &cases[i].nyquist, TOLERANCE_FORWARD, 0);
        session_close(&s);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* The step size at another rate; what the kernel of a layer becomes when its input is sampled differently. */
Test(kernel, rate)
{
    s4_context *context = context_open();
    const layer_shape shape = {.d_model = 2, .d_state = 8, .rank = 2, .plain_transforms = 1};
    s4_layer *layer = layer_random(&shape, 5);
    struct ref_layer reference = layer_reference(layer);
    reference.rate = 2;
    double *expected = numbers(2 * 40);
    ref_kernel(&reference, 40, expected);
    s4_problem problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, 40, 40);
    problem.rate = 2;
    session s = session_open(context, &problem);
    expect_close("K at rate 2 from C", 80, session_kernel(&s, layer), expected, TOLERANCE_FORWARD_RANK, 0);
    must(s4_layer_setup(context, layer, 80));
    expect_close("K at rate 2 from C~", 80, session_kernel(&s, layer), expected, TOLERANCE_FORWARD_RANK, 0);
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* A layer as it is used: N = 64 at 16384 samples, from C and from C~. */
Test(kernel, long_legs)
{
    enum { L = 16384 };
    s4_context *context = context_open();
    s4_layer *layer = layer_legs(context, 1, 64, 3);
    const struct ref_layer reference = layer_reference(layer);
    long double *exact = calloc(L, sizeof *exact);
    cr_assert(exact != NULL);
    ref_kernel_long_double(&reference, 0, L, exact);
    double *expected = numbers(L);
    for (int l = 0; l < L; l++)
        expected[l] = (double)exact[l];
    free(exact);
    const s4_problem problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, L, L);
    session s = session_open(context, &problem);
    about("plain C");
    expect_close("K", L, session_kernel(&s, layer), expected, TOLERANCE_FORWARD_RANK, 0);
    about("C~");
    must(s4_layer_setup(context, layer, L));
    expect_close("K", L, session_kernel(&s, layer), expected, TOLERANCE_FORWARD_RANK, 0);
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* Lambda = 1 (not damped: the transform of A_real is none), one mode, P_1 = (1 + i)/2, so that 1 + sigma_11 of the first
 * column is exactly 0 at frequency 0. */
static s4_layer *undamped_layer(int64_t rank)
{
    const layer_shape shape = {.d_model = 1, .d_state = 2, .rank = rank, .dt_transform = S4_TRANSFORM_NONE,
                               .real_transform = S4_TRANSFORM_NONE, .imag_transform = S4_TRANSFORM_NONE};
    s4_layer *layer = layer_random(&shape, 3);
    layer_data(layer, S4_PARAMETER_INV_DT)[0] = 0.1;
    layer_data(layer, S4_PARAMETER_A_REAL)[0] = -1;
    layer_data(layer, S4_PARAMETER_A_IMAG)[0] = 0;
    double *P = layer_data(layer, S4_PARAMETER_P);
    P[0] = P[1] = 0.5;
    if (rank > 1) {
        P[2] = 0.3;
        P[3] = -0.2;
    }
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
    return layer;
}

/* The generating function is 0/0 there: an error, and never numbers that look like a kernel. */
Test(kernel, singular)
{
    s4_context *context = context_open();
    s4_layer *layer = undamped_layer(1);
    const s4_problem problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, 8, 8);
    session s = session_open(context, &problem);
    double K[8];
    s4_status status = s4_plan_refresh(s.plan, layer, s.workspace);
    if (!status)
        status = s4_plan_kernel(s.plan, layer, s.workspace, K);
    must_refuse(status, S4_ERROR_SINGULAR, "channel 0");
    session_close(&s);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* The first pivot of the R x R system is 0 there, the system is not singular. */
Test(kernel, zero_pivot)
{
    s4_context *context = context_open();
    s4_layer *layer = undamped_layer(2);
    cr_assert(compare_kernel(context, layer, 1, 8, TOLERANCE_FORWARD_RANK));
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* More modes than the GPU stages at a time. */
Test(kernel, many_modes)
{
    static const int64_t d_state[] = {66, 130};
    enum { L = 12 };
    s4_context *context = context_open();
    for (int i = 0; i < 2; i++) {
        about("N = %d", (int)d_state[i]);
        const layer_shape shape = {.d_model = 1, .d_state = d_state[i], .rank = 1, .plain_transforms = 1};
        s4_layer *layer = layer_random(&shape, (uint64_t)i);
        cr_assert(compare_kernel(context, layer, 1, L, TOLERANCE_FORWARD_RANK));
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}
