/*
 * What an optimiser sees of a layer: a list of parameters with names, shapes, pointers, and how each is trained. A loop
 * that knows nothing else makes a layer learn, and leaves alone what is frozen.
 */
#include <math.h>

#include "expect.h"
#include "layers.h"
#include "session.h"

enum { B = 2, H = 3, T = 48 };

static const layer_shape shapes[] = {
    {.mode = S4_MODE_DPLR, .d_model = H, .d_state = 8, .rank = 2, .plain_transforms = 1},
    {.mode = S4_MODE_DIAG, .d_model = H, .d_state = 8, .discretisation = S4_ZOH, .dt_untied = 1, .channels = 2,
     .plain_transforms = 1},
};
#define SHAPES 2

Test(optimiser, parameters)
{
    static const struct {
        char name[16];
        int is_complex, is_slow;
    } expected[S4_PARAMETER_COUNT] = {{"kernel.inv_dt", 0, 1}, {"kernel.A_real", 0, 1}, {"kernel.A_imag", 0, 1},
                                      {"kernel.B", 1, 1},      {"kernel.P", 1, 1},      {"kernel.C", 1, 0},
                                      {"D", 0, 0}};
    for (int i = 0; i < SHAPES; i++) {
        s4_layer *layer = layer_random(&shapes[i], 1);
        for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
            about("layer %d, parameter %d", i, p);
            s4_parameter_view v;
            must(s4_layer_parameter(layer, (s4_parameter)p, &v));
            check(strcmp(v.name, expected[p].name) == 0, "[%s] is named %s", about_text(), v.name);
            check(v.is_complex == expected[p].is_complex, "[%s] is_complex %d", about_text(), v.is_complex);
            check(!v.is_complex || v.shape[v.rank - 1] == 2, "[%s] no pairs", about_text());
            check(expected[p].is_slow ? v.learning_rate_max == 0.001 && v.weight_decay == 0
                                      : v.learning_rate_max == 0 && v.weight_decay < 0,
                  "[%s] learning rate %g, decay %g", about_text(), v.learning_rate_max, v.weight_decay);
            int64_t count = 1;
            for (int d = 0; d < v.rank; d++)
                count *= v.shape[d];
            check(v.count == count && (count > 0) == (v.data != NULL), "[%s] %lld numbers", about_text(),
                  (long long)v.count);
            check(!v.gradient, "[%s] a gradient that nobody gave", about_text());
            double number = 0;
            s4_parameter_view with;
            s4_gradients g = {.accumulate = 0};
            must(s4_layer_parameter_gradient(layer, (s4_parameter)p, &g, &with));
            check(!with.gradient && with.data == v.data, "[%s] not asked for", about_text());
            g.parameter[p] = &number;
            must(s4_layer_parameter_gradient(layer, (s4_parameter)p, &g, &with));
            check(with.gradient == (count ? &number : NULL) && with.data == v.data, "[%s] another gradient", about_text());
            must_refuse(s4_layer_parameter_gradient(layer, (s4_parameter)p, NULL, &with), S4_ERROR_ARGUMENT, "gradients");
        }
        s4_layer_destroy(layer);
    }
}

/* The loop of layer.h. */
static void descend(s4_layer *layer, const s4_gradients *g, double rate)
{
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        s4_parameter_view v;
        must(s4_layer_parameter_gradient(layer, (s4_parameter)p, g, &v));
        const double step = v.learning_rate_max > 0 && v.learning_rate_max < rate ? v.learning_rate_max : rate;
        for (int64_t i = 0; v.gradient && i < v.count; i++)
            v.data[i] -= step * v.gradient[i];
    }
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
}

/* Half the mean square of y - target; its gradient into dy. */
static double loss_of(int64_t count, const double *y, const double *target, double *dy)
{
    double loss = 0;
    for (int64_t i = 0; i < count; i++) {
        dy[i] = (y[i] - target[i]) / (double)count;
        loss += 0.5 * (y[i] - target[i]) * dy[i];
    }
    return loss;
}

/* Target: a low-pass of the input, z[t] = 0.8 z[t-1] + 0.5 u[t]. */
Test(optimiser, learns)
{
    s4_context *context = context_open();
    for (int i = 0; i < 2 * SHAPES; i++) {
        const int frozen = i / SHAPES;
        s4_layer *layer = layer_random(&shapes[i % SHAPES], 2);
        layer_make_trainable(context, layer, T);
        about("%s%s", s4_mode_name(shapes[i % SHAPES].mode), frozen ? ", C and D alone" : "");
        s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, S4_F64, B, T, T);
        if (frozen)
            problem.frozen = S4_PARAMETER_ALL & ~(1u << S4_PARAMETER_C | 1u << S4_PARAMETER_D);
        if (!session_offered(context, &problem)) {
            s4_layer_destroy(layer);
            continue;
        }
        session s = session_open(context, &problem);
        const int64_t M = s.info.problem.channels, count = B * M * H * T;
        random_source random = {3};
        double *u = random_samples(&random, B * H * T), *target = numbers(count), *dy = numbers(count);
        for (int64_t row = 0; row < B * M * H; row++)
            for (int t = 0; t < T; t++)
                target[row * T + t] = (t ? 0.8 * target[row * T + t - 1] : 0) +
                                      0.5 * u[(row / (M * H) * H + row % H) * T + t];
        double first = 0, last = 0;
        for (int step = 0; step <= 50; step++) {
            const double *y = session_forward(&s, layer, 0, 0, u, NULL, NULL);
            last = loss_of(count, y, target, dy);
            if (step == 0)
                first = last;
            const gradients found = session_backward(&s, layer, 0, 0, u, dy);
            s4_gradients g = {.accumulate = 0};
            for (int p = 0; p < S4_PARAMETER_COUNT; p++)
                g.parameter[p] = problem.frozen >> p & 1 ? NULL : found.parameter[p];
            descend(layer, &g, 1.0);
        }
        check(isfinite(last) && last < 0.5 * first, "[%s] the loss went from %g to %g", about_text(), first, last);
        session_close(&s);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}
