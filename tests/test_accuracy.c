/*
 * Single precision judged by double, by size: kernels, outputs and gradients of fresh layers of every kind, the largest
 * error over the largest value of a tensor. Every bound of docs/accuracy.md stands here, and none is above 1e-5. With
 * S4_TEST_ACCURACY=1 the table of what was measured goes to standard error.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "expect.h"
#include "layers.h"
#include "place.h"
#include "session.h"
#include "tolerances.h"

static const struct {
    int64_t d_state, length;
    double kernel, output, du, gradient; /* bounds; gradient: of every parameter */
} sizes[] = {
    {16, 256, 1.2e-7, 1e-6, 1e-6, 1e-5},    {64, 1024, 1.2e-7, 1e-6, 1e-6, 1e-5},
    {64, 4096, 1.2e-7, 1e-6, 1e-6, 1e-5},   {64, 16384, 1.2e-7, 1e-6, 1e-6, 1e-5},
    {256, 16384, 1.2e-7, 1e-6, 1e-6, 1e-5},
};
#define SIZES (int)(sizeof sizes / sizeof sizes[0])

static const struct {
    s4_init init;
    int64_t rank;
    s4_discretisation discretisation;
} families[] = {
    {S4_INIT_LEGS, 1, S4_BILINEAR},  {S4_INIT_LEGT, 2, S4_BILINEAR},  {S4_INIT_FOURIER, 1, S4_BILINEAR},
    {S4_INIT_DIAG_LIN, 0, S4_ZOH},   {S4_INIT_DIAG_LEGS, 0, S4_ZOH},  {S4_INIT_DIAG_INV, 0, S4_BILINEAR},
    {S4_INIT_DIAG_LIN, 0, S4_DSS},
};
#define FAMILIES (int)(sizeof families / sizeof families[0])

static s4_layer *fresh(s4_context *context, int family, int64_t d_state)
{
    s4_layer_options options;
    S4_INIT(&options);
    options.mode = families[family].rank ? S4_MODE_DPLR : S4_MODE_DIAG;
    options.d_model = 2;
    options.d_state = d_state;
    options.rank = families[family].rank;
    options.discretisation = families[family].discretisation;
    s4_init_options init;
    S4_INIT(&init);
    init.init = families[family].init;
    init.seed = 1;
    s4_layer *layer;
    must(s4_layer_create(&options, &layer));
    must(s4_layer_init(context, layer, &init));
    return layer;
}

/* The kernel (direction kernel) or the output (forward), in one precision. */
static double *execute(s4_context *context, s4_layer *layer, s4_direction direction, s4_dtype dtype, int64_t length)
{
    const s4_problem problem = problem_of(layer, direction, dtype, 1, length, length);
    session s = session_open(context, &problem);
    random_source random = {3};
    double *result = direction == S4_DIRECTION_KERNEL
                         ? session_kernel(&s, layer)
                         : session_forward(&s, layer, 0, 0, random_samples(&random, 2 * length), NULL, NULL);
    session_close(&s);
    return result;
}

static double error_of(s4_context *context, s4_layer *layer, s4_direction direction, int64_t length)
{
    const double *single = execute(context, layer, direction, S4_F32, length),
                 *exact = execute(context, layer, direction, S4_F64, length);
    return distance(2 * length, single, exact) / largest(2 * length, exact);
}

static gradients backward(s4_context *context, s4_layer *layer, s4_dtype dtype, int64_t length)
{
    const s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, dtype, 1, length, length);
    session s = session_open(context, &problem);
    random_source random = {4};
    const double *u = random_samples(&random, 2 * length), *dy = random_samples(&random, 2 * length);
    const gradients g = session_backward(&s, layer, 0, 0, u, dy);
    session_close(&s);
    return g;
}

typedef struct gradient_errors {
    double du, parameters;
} gradient_errors;

/* Of a layer that trains at this length. A parameter whose gradient all but vanishes is measured by the largest of all. */
static gradient_errors gradient_errors_of(s4_context *context, s4_layer *layer, int64_t length)
{
    layer_make_trainable(context, layer, length);
    const gradients single = backward(context, layer, S4_F32, length), exact = backward(context, layer, S4_F64, length);
    gradient_errors errors = {distance(exact.du_count, single.du, exact.du) / largest(exact.du_count, exact.du), 0};
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        if (!exact.count[p])
            continue;
        const double size = fmax(largest(exact.count[p], exact.parameter[p]), FLOOR_GRADIENT * gradients_largest(&exact));
        const double error = distance(exact.count[p], single.parameter[p], exact.parameter[p]) / size;
        errors.parameters = !(error <= errors.parameters) ? error : errors.parameters;
    }
    return errors;
}

static void expect_below(const char *what, double error, double bound)
{
    check(error <= bound, "[%s] %s off by %.3g, more than %.3g", about_text(), what, error, bound);
}

Test(accuracy, single_against_double)
{
    s4_context *context = context_open();
    const int print = getenv("S4_TEST_ACCURACY") != NULL;
    int measured = 0;
    for (int i = 0; i < SIZES; i++)
        for (int family = 0; family < FAMILIES; family++) {
            if (sizes[i].d_state > 64 && family > 0 && family != 3) /* one of each mode is enough there */
                continue;
            about("%s, %s, N = %d, length %d", s4_init_name(families[family].init),
                  s4_discretisation_name(families[family].discretisation), (int)sizes[i].d_state,
                  (int)sizes[i].length);
            s4_layer *layer = fresh(context, family, sizes[i].d_state);
            const s4_problem problem =
                problem_of(layer, S4_DIRECTION_FORWARD, S4_F32, 1, sizes[i].length, sizes[i].length);
            if (session_offered(context, &problem)) {
                const double kernel = error_of(context, layer, S4_DIRECTION_KERNEL, sizes[i].length),
                             output = error_of(context, layer, S4_DIRECTION_FORWARD, sizes[i].length);
                const gradient_errors g = gradient_errors_of(context, layer, sizes[i].length);
                if (print)
                    fprintf(stderr, "| %s | %s | %d | %d | %.1e | %.1e | %.1e | %.1e |\n",
                            s4_init_name(families[family].init),
                            s4_discretisation_name(families[family].discretisation), (int)sizes[i].d_state,
                            (int)sizes[i].length, kernel, output, g.du, g.parameters);
                expect_below("kernel", kernel, sizes[i].kernel);
                expect_below("output", output, sizes[i].output);
                expect_below("du", g.du, sizes[i].du);
                expect_below("gradients of parameters", g.parameters, sizes[i].gradient);
                measured++;
            }
            s4_layer_destroy(layer);
        }
    cr_assert(measured > 0);
    s4_context_destroy(context);
}

/* The promise of the documentation. */
Test(accuracy, bounds_are_under_1e_5)
{
    for (int i = 0; i < SIZES; i++)
        cr_assert(sizes[i].kernel <= 1e-5 && sizes[i].output <= 1e-5 && sizes[i].du <= 1e-5 && sizes[i].gradient <= 1e-5);
}
