/*
 * A user of the installed library, in C: one mode, no low-rank part, whose answer to an impulse is known,
 *   y[t] = 2 Re(C a^t b) + D [t = 0],  a = (1 + dt lambda/2) / (1 - dt lambda/2),  b = dt B / (1 - dt lambda/2).
 *
 * consumer [gpu]: with gpu, the GPU module must be found too.
 */
#include <complex.h>
#include <math.h>
#include <s4/s4.h>
#include <stdio.h>
#include <string.h>

#define LENGTH 5

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, s4_last_error());
    return 1;
}

static double *parameter(s4_layer *layer, s4_parameter which)
{
    s4_parameter_view view;
    return s4_layer_parameter(layer, which, &view) ? NULL : view.data;
}

static void set_up(s4_layer *layer)
{
    *parameter(layer, S4_PARAMETER_INV_DT) = log(0.1);
    *parameter(layer, S4_PARAMETER_A_REAL) = log(0.5);
    *parameter(layer, S4_PARAMETER_A_IMAG) = 3;
    parameter(layer, S4_PARAMETER_B)[0] = 1;
    parameter(layer, S4_PARAMETER_C)[0] = 0.25;
    parameter(layer, S4_PARAMETER_C)[1] = -0.75;
    *parameter(layer, S4_PARAMETER_D) = 2;
}

static double expected(int t)
{
    double complex lambda = -0.5 - 3 * I, C = 0.25 - 0.75 * I, x = 0.1 / (1 - 0.05 * lambda);
    for (int s = 0; s < t; s++) x *= (1 + 0.05 * lambda) / (1 - 0.05 * lambda);
    return 2 * creal(C * x) + (t == 0 ? 2 : 0);
}

int main(int count, char **arguments)
{
    s4_context *context;
    if (s4_context_create(NULL, &context)) return failed("context");
    if (count > 1 && !strcmp(arguments[1], "gpu")) {
        s4_place_info info;
        if (s4_context_place(context, S4_PLACE_GPU, &info)) return failed("GPU place");
        if (!info.available) return fprintf(stderr, "GPU place: %s\n", info.reason), 1;
    }

    s4_layer_options options;
    S4_INIT(&options);
    options.mode = S4_MODE_DPLR, options.d_model = 1, options.d_state = 2;
    s4_layer *layer;
    if (s4_layer_create(&options, &layer)) return failed("layer");
    set_up(layer);
    if (s4_layer_changed(layer, S4_PARAMETER_ALL)) return failed("changed");

    s4_problem problem;
    S4_INIT(&problem);
    problem.direction = S4_DIRECTION_FORWARD, problem.mode = S4_MODE_DPLR, problem.dtype = S4_F64;
    problem.batch = 1, problem.length = LENGTH, problem.d_model = 1, problem.d_state = 2;
    s4_plan *plan;
    if (s4_plan_create(&problem, &plan)) return failed("plan");
    if (s4_plan_prepare(plan, context)) return failed("prepare");
    s4_workspace *workspace;
    if (s4_workspace_create(plan, &workspace)) return failed("workspace");
    if (s4_plan_refresh(plan, layer, workspace)) return failed("refresh");

    double u[LENGTH] = {1}, y[LENGTH];
    s4_forward_io io;
    S4_INIT(&io);
    io.u = u, io.y = y;
    if (s4_plan_forward(plan, layer, workspace, &io)) return failed("forward");
    for (int t = 0; t < LENGTH; t++)
        if (!(fabs(y[t] - expected(t)) <= 1e-12))
            return fprintf(stderr, "y[%d] is %.17g, not %.17g\n", t, y[t], expected(t)), 1;

    s4_workspace_destroy(workspace);
    s4_plan_destroy(plan);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
    printf("%s\n", s4_version());
    return 0;
}
