/*
 * Kernels whose sums are in single precision (kernel_f32): near those in double, single indeed, of the same bits whatever
 * threads and blocks there are, and refused by name where they are not offered.
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

/* Kernel, and gradients of a layer that trains at this length. */
static result execute(s4_context *context, s4_layer *layer, int64_t length, int kernel_f32, int threads, int64_t budget)
{
    const int64_t outputs = layer_options(layer).channels, rows = 2 * layer_options(layer).d_model;
    random_source random = {5};
    const double *u = random_samples(&random, rows * length), *dy = random_samples(&random, rows * outputs * length);
    result r;
    s4_problem problem = single(layer, S4_DIRECTION_KERNEL, length, kernel_f32);
    problem.threads = threads;
    session s = session_open(context, &problem);
    r.kernel = session_kernel(&s, layer);
    session_close(&s);
    problem = single(layer, S4_DIRECTION_TRAINING, length, kernel_f32);
    problem.threads = threads;
    problem.host_budget = budget;
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
    {{.d_model = 1, .d_state = 10, .rank = 3, .dt_untied = 1, .plain_transforms = 1}, 64, 2e-6, 2e-5},
    {{.d_model = 2, .d_state = 64, .rank = 1}, 4096, 1e-5, 1e-4}, /* legs */
    {{.d_model = 1, .d_state = 256, .rank = 1}, 16384, 1e-5, 1e-4},
};
#define CASES (int)(sizeof cases / sizeof cases[0])

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
        const result f32 = execute(context, layer, length, 1, 2, 0), f64 = execute(context, layer, length, 0, 2, 0);
        const double error = distance(count, f32.kernel, f64.kernel) / largest(count, f64.kernel);
        check(error <= cases[i].kernel, "[%s] kernel off by %.3g", about_text(), error);
        check(error > 1e-10, "[%s] the kernel is that in double", about_text());
        for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
            if (!f64.g.count[p])
                continue;
            const double off = distance(f64.g.count[p], f32.g.parameter[p], f64.g.parameter[p]) / gradients_largest(&f64.g);
            check(off <= cases[i].gradient, "[%s] gradient of %s off by %.3g", about_text(),
                  s4_parameter_name((s4_parameter)p), off);
        }
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
        const result first = execute(context, layer, length, 1, 1, 0);
        for (int threads = 1; threads <= 3; threads++) {
            s4_problem problem = single(layer, S4_DIRECTION_TRAINING, length, 1);
            problem.threads = threads;
            session s = session_open(context, &problem);
            const result again = execute(context, layer, length, 1, threads, s.info.host_minimum);
            session_close(&s);
            expect_same_bits("kernel", count, again.kernel, first.kernel);
            expect_same_gradients(&again.g, &first.g);
        }
        s4_layer_destroy(layer);
    }
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
    must(s4_plan_create(&problem, &plan));
    s4_plan_info info = {0};
    must(s4_plan_describe(plan, &info));
    check(!info.problem.kernel_f32, "a plan without kernels has kernel_f32");
    s4_plan_destroy(plan);
    s4_layer_destroy(layer);
    layer = layer_random(&cases[1].shape, 1);
    problem = single(layer, S4_DIRECTION_FORWARD, 8, 1);
    problem.placement.stage[S4_STAGE_KERNEL] = S4_PLACE_GPU;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_UNSUPPORTED, "kernel_f32");
    s4_layer_destroy(layer);
}
