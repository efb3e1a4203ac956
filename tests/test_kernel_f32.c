/*
 * Kernels whose sums are in single precision (kernel_f32), at the place of the environment: near those in double, single
 * indeed, of the same bits whatever threads and blocks there are, near those of the CPU elsewhere, and refused by name
 * where they are not offered.
 */
#include "expect.h"
#include "layers.h"
#include "place.h"
#include "session.h"

typedef struct result {
    double *kernel, *y;
    gradients g;
} result;

static s4_problem single(const s4_layer *layer, s4_direction direction, int64_t length, int kernel_f32)
{
    s4_problem problem = problem_of(layer, direction, S4_F64, 2, length, length);
    problem.kernel_f32 = kernel_f32;
    return problem;
}

/* Budgets of both memories; 0 = none. */
typedef struct budgets {
    int64_t host, device;
} budgets;
static const budgets unlimited = {0, 0};

/* Kernel, and gradients of a layer that trains at this length. `placement`: NULL, or elsewhere than in the environment. */
static result execute(s4_context *context, s4_layer *layer, int64_t length, int kernel_f32, int threads, budgets most,
                      const char *placement)
{
    const int64_t outputs = layer_options(layer).channels, rows = 2 * layer_options(layer).d_model;
    random_source random = {5};
    const double *u = random_samples(&random, rows * length), *dy = random_samples(&random, rows * outputs * length);
    result r;
    s4_problem problem = single(layer, S4_DIRECTION_KERNEL, length, kernel_f32);
    problem.threads = threads;
    if (placement) must(s4_placement_parse(placement, &problem.placement));
    session s = session_open(context, &problem);
    r.kernel = session_kernel(&s, layer);
    session_close(&s);
    problem = single(layer, S4_DIRECTION_TRAINING, length, kernel_f32);
    problem.threads = threads;
    if (placement) must(s4_placement_parse(placement, &problem.placement));
    problem.host_budget = most.host;
    problem.device_budget = most.device;
    s = session_open(context, &problem);
    r.g = session_backward(&s, layer, 0, 0, u, dy);
    session_close(&s);
    return r;
}

static const struct {
    layer_shape shape;
    int64_t length;
    double kernel, gradient; /* bounds, of the largest value of the kernel; of all gradients */
} cases[] = {
    {{.d_model = 2, .d_state = 2, .rank = 1, .plain_transforms = 1}, 1, 2e-6, 2e-5},
    {{.d_model = 2, .d_state = 4, .rank = 1, .plain_transforms = 1}, 31, 2e-6, 2e-5},
    {{.d_model = 2, .d_state = 16, .rank = 2, .channels = 2, .plain_transforms = 1}, 100, 2e-6, 2e-5},
    {{.d_model = 2, .d_state = 12, .rank = 1, .bidirectional = 1, .plain_transforms = 1}, 256, 2e-6, 2e-5},
    {{.d_model = 2, .d_state = 6, .rank = 2, .plain_transforms = 1}, 300, 2e-6, 2e-5},
    {{.d_model = 1, .d_state = 10, .rank = 3, .dt_untied = 1, .plain_transforms = 1}, 64, 2e-6, 2e-5},
    {{.d_model = 1, .d_state = 8, .rank = 4, .channels = 2, .plain_transforms = 1}, 64, 2e-6, 2e-5},
    {{.d_model = 1, .d_state = 2, .rank = 1, .plain_transforms = 1}, 40000, 2e-6, 2e-5}, /* several spans of frequencies */
    {{.d_model = 2, .d_state = 64, .rank = 1}, 4096, 1e-5, 1e-4}, /* legs */
    {{.d_model = 1, .d_state = 256, .rank = 1}, 16384, 1e-5, 1e-4},
};
#define CASES (int)(sizeof cases / sizeof cases[0])

/* Kernels to the bound of the case, of the largest value, gradients to that of the case, of the largest of all. Returns the
 * error of kernels. */
static double expect_near(int i, int64_t count, const result *got, const result *expected)
{
    const double error = distance(count, got->kernel, expected->kernel) / largest(count, expected->kernel);
    check(error <= cases[i].kernel, "[%s] kernel off by %.3g", about_text(), error);
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        if (!expected->g.count[p])
            continue;
        const double off = distance(expected->g.count[p], got->g.parameter[p], expected->g.parameter[p]) /
                           gradients_largest(&expected->g);
        check(off <= cases[i].gradient, "[%s] gradient of %s off by %.3g", about_text(),
              s4_parameter_name((s4_parameter)p), off);
    }
    return error;
}

static s4_layer *layer_of(s4_context *context, int i)
{
    const layer_shape *shape = &cases[i].shape;
    s4_layer *layer = shape->plain_transforms ? layer_random(shape, 11)
                                              : layer_legs(context, shape->d_model, shape->d_state, 11);
    layer_make_trainable(context, layer, cases[i].length);
    return layer;
}

Test(kernel_f32, near_double_and_single)
{
    s4_context *context = context_open();
    for (int i = 0; i < CASES; i++) {
        about("N = %d, length %d", (int)cases[i].shape.d_state, (int)cases[i].length);
        s4_layer *layer = layer_of(context, i);
        const int64_t length = cases[i].length, count = layer_kernels(layer) * cases[i].shape.d_model * length;
        const result f32 = execute(context, layer, length, 1, 2, unlimited, NULL);
        const result f64 = execute(context, layer, length, 0, 2, unlimited, NULL);
        check(expect_near(i, count, &f32, &f64) > 1e-10, "[%s] the kernel is that in double", about_text());
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

Test(kernel_f32, places_agree)
{
    if (!place_has_gpu())
        cr_skip_test("no GPU place in this run");
    s4_context *context = context_open();
    for (int i = 0; i < CASES; i++) {
        about("N = %d, length %d, against the CPU", (int)cases[i].shape.d_state, (int)cases[i].length);
        s4_layer *layer = layer_of(context, i);
        const int64_t length = cases[i].length, count = layer_kernels(layer) * cases[i].shape.d_model * length;
        const result here = execute(context, layer, length, 1, 2, unlimited, NULL);
        const result cpu = execute(context, layer, length, 1, 2, unlimited, "cpu");
        (void)expect_near(i, count, &here, &cpu);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

Test(kernel_f32, the_same_bits)
{
    s4_context *context = context_open();
    for (int i = 0; i < CASES; i++) {
        about("N = %d, length %d", (int)cases[i].shape.d_state, (int)cases[i].length);
        s4_layer *layer = layer_of(context, i);
        const int64_t length = cases[i].length, count = layer_kernels(layer) * cases[i].shape.d_model * length;
        const result first = execute(context, layer, length, 1, 1, unlimited, NULL);
        for (int threads = 1; threads <= 3; threads++) {
            s4_problem problem = single(layer, S4_DIRECTION_TRAINING, length, 1);
            problem.threads = threads;
            session s = session_open(context, &problem);
            const budgets least = {s.info.host_minimum, s.info.device_minimum};
            const result again = execute(context, layer, length, 1, threads, least, NULL);
            session_close(&s);
            expect_same_bits("kernel", count, again.kernel, first.kernel);
            expect_same_gradients(&again.g, &first.g);
        }
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* A mode whose decay is 1/2000 of its frequency: a denominator is that much smaller than what it is the difference of. */
Test(kernel_f32, resonance)
{
    enum { L = 2048, H = 2 };
    static const layer_shape shape = {.d_model = H, .d_state = 2, .rank = 1}; /* all transforms none */
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shape, 3);
    for (int h = 0; h < H; h++) {
        layer_data(layer, S4_PARAMETER_INV_DT)[h] = 0.005 * (1 + h);
        layer_data(layer, S4_PARAMETER_A_REAL)[h] = 0.1;
        layer_data(layer, S4_PARAMETER_A_IMAG)[h] = -200;
        for (int part = 0; part < 2; part++) layer_data(layer, S4_PARAMETER_P)[2 * h + part] *= 0.01;
    }
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
    layer_make_trainable(context, layer, L);
    const result f32 = execute(context, layer, L, 1, 2, unlimited, NULL);
    const result f64 = execute(context, layer, L, 0, 2, unlimited, NULL);
    expect_close("kernel", H * L, f32.kernel, f64.kernel, 1e-6, 0);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* P of 1e11: squares of sigma_11 are beyond single precision, the kernel is an ordinary one. */
Test(kernel_f32, large_pivots)
{
    enum { L = 32, H = 2, N = 8 };
    s4_context *context = context_open();
    for (int rank = 1; rank <= 2; rank++) {
        about("rank %d", rank);
        const layer_shape shape = {.d_model = H, .d_state = N, .rank = rank, .plain_transforms = 1};
        s4_layer *layer = layer_random(&shape, 3);
        random_source random = {4};
        for (int64_t i = 0; i < layer_count(layer, S4_PARAMETER_P); i++) layer_data(layer, S4_PARAMETER_P)[i] *= 1e11;
        layer_write_c(layer, random_samples(&random, H * N), L); /* C~: a power of dA says nothing here */
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        const double *kernel[2];
        for (int kernel_f32 = 0; kernel_f32 <= 1; kernel_f32++) {
            const s4_problem problem = single(layer, S4_DIRECTION_KERNEL, L, kernel_f32);
            session s = session_open(context, &problem);
            kernel[kernel_f32] = session_kernel(&s, layer);
            session_close(&s);
        }
        expect_close("kernel", H * L, kernel[1], kernel[0], 1e-4, 0);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* A denominator of 1e-24 at frequency 0, whose square is beyond single precision. */
Test(kernel_f32, out_of_range)
{
    static const layer_shape tiny = {.d_model = 2, .d_state = 2, .rank = 1}; /* all transforms none */
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&tiny, 3);
    layer_data(layer, S4_PARAMETER_INV_DT)[1] = 1e-12;
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
    for (int kernel_f32 = 0; kernel_f32 <= 1; kernel_f32++) {
        const s4_problem problem = single(layer, S4_DIRECTION_FORWARD, 8, kernel_f32);
        session s = session_open(context, &problem);
        const s4_status status = s4_plan_refresh(s.plan, layer, s.workspace);
        if (kernel_f32) {
            must_refuse(status, S4_ERROR_SINGULAR, "channel 1 (row 0 of C) is not finite at frequency 0");
            must_refuse(status, S4_ERROR_SINGULAR, "kernel_dtype f64 has more range");
        } else
            must(status);
        session_close(&s);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

Test(kernel_f32, refused_by_name)
{
    static const layer_shape diagonal = {.mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .d_model = 2, .d_state = 4,
                                         .plain_transforms = 1};
    s4_layer *layer = layer_random(&diagonal, 1);
    s4_problem problem = single(layer, S4_DIRECTION_FORWARD, 8, 1);
    s4_plan *plan;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_UNSUPPORTED, "kernel_f32");
    problem.algorithm = S4_ALGORITHM_CHUNKED; /* no kernel is made */
    must(s4_placement_parse("cpu", &problem.placement));
    must(s4_plan_create(&problem, &plan));
    s4_plan_info info = {0};
    must(s4_plan_describe(plan, &info));
    check(!info.problem.kernel_f32, "a plan without kernels has kernel_f32");
    s4_plan_destroy(plan);
    s4_layer_destroy(layer);
}
