// A user of the installed library, in C++: one mode, no low-rank part, whose answer to an impulse is known,
//   y[t] = 2 Re(C a^t b) + D [t = 0],  a = (1 + dt lambda/2) / (1 - dt lambda/2),  b = dt B / (1 - dt lambda/2).
//
// consumer [gpu]: with gpu, the GPU module must be found too.
#include <s4/s4.h>

#include <cmath>
#include <complex>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void check(s4_status status)
{
    if (status != S4_OK) throw std::runtime_error(std::string(s4_status_name(status)) + ": " + s4_last_error());
}

template <class Object> using owner = std::unique_ptr<Object, void (*)(Object *)>;

double *parameter(s4_layer *layer, s4_parameter which)
{
    s4_parameter_view view;
    check(s4_layer_parameter(layer, which, &view));
    return view.data;
}

owner<s4_layer> make_layer()
{
    s4_layer_options options;
    S4_INIT(&options);
    options.mode = S4_MODE_DPLR, options.d_model = 1, options.d_state = 2;
    s4_layer *made;
    check(s4_layer_create(&options, &made));
    owner<s4_layer> layer(made, s4_layer_destroy);
    *parameter(made, S4_PARAMETER_INV_DT) = std::log(0.1);
    *parameter(made, S4_PARAMETER_A_REAL) = std::log(0.5);
    *parameter(made, S4_PARAMETER_A_IMAG) = 3;
    parameter(made, S4_PARAMETER_B)[0] = 1;
    parameter(made, S4_PARAMETER_C)[0] = 0.25;
    parameter(made, S4_PARAMETER_C)[1] = -0.75;
    *parameter(made, S4_PARAMETER_D) = 2;
    check(s4_layer_changed(made, S4_PARAMETER_ALL));
    return layer;
}

owner<s4_plan> make_plan(s4_context *context, std::size_t length)
{
    s4_problem problem;
    S4_INIT(&problem);
    problem.direction = S4_DIRECTION_FORWARD, problem.mode = S4_MODE_DPLR, problem.dtype = S4_F64;
    problem.batch = 1, problem.length = static_cast<std::int64_t>(length), problem.d_model = 1, problem.d_state = 2;
    s4_plan *plan;
    check(s4_plan_create(&problem, &plan));
    owner<s4_plan> owned(plan, s4_plan_destroy);
    check(s4_plan_prepare(plan, context));
    return owned;
}

void check_impulse(s4_context *context)
{
    std::vector<double> u{1, 0, 0, 0, 0}, y(u.size());
    owner<s4_layer> layer = make_layer();
    owner<s4_plan> plan = make_plan(context, u.size());
    s4_workspace *made;
    check(s4_workspace_create(plan.get(), &made));
    owner<s4_workspace> workspace(made, s4_workspace_destroy);
    check(s4_plan_refresh(plan.get(), layer.get(), made));
    s4_forward_io io;
    S4_INIT(&io);
    io.u = u.data(), io.y = y.data();
    check(s4_plan_forward(plan.get(), layer.get(), made, &io));

    const std::complex<double> lambda(-0.5, -3), C(0.25, -0.75), half = 0.05 * lambda;
    std::complex<double> x = 0.1 / (1.0 - half);
    for (std::size_t t = 0; t < y.size(); t++, x *= (1.0 + half) / (1.0 - half)) {
        double expected = 2 * (C * x).real() + (t == 0 ? 2 : 0);
        if (!(std::abs(y[t] - expected) <= 1e-12)) throw std::runtime_error("a wrong value at " + std::to_string(t));
    }
}

void check_gpu(s4_context *context)
{
    s4_place_info info;
    check(s4_context_place(context, S4_PLACE_GPU, &info));
    if (!info.available) throw std::runtime_error(info.reason);
}

} // namespace

int main(int count, char **arguments)
try {
    s4_context *made;
    check(s4_context_create(nullptr, &made));
    owner<s4_context> context(made, s4_context_destroy);
    if (count > 1 && std::string(arguments[1]) == "gpu") check_gpu(context.get());
    check_impulse(context.get());
    std::cout << s4_version() << '\n';
    return 0;
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
