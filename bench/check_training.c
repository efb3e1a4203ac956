/*
 * Properties of training:
 *   gradients     <gradient, d> = (loss(-2e d) - 8 loss(-e d) + 8 loss(e d) - loss(2e d)) / 12e, loss = sum y dy, for
 *                 every parameter and u
 *   precision     f32 against f64
 *   same bits     under the smallest budgets, and with one thread;  a byte less is refused
 *   memory        measured peak = planned peak
 */
#include <math.h>
#include <string.h>

#include "check_property.h"
#include "difference.h"
#include "execution.h"
#include "memory.h"
#include "new_layer.h"
#include "samples.h"

/* ---- gradients ----------------------------------------------------------------------------------------------- */

static double norm(const double *values, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += values[i] * values[i];
    return sqrt(sum);
}

/* Half along the gradient, where the loss changes most, half along random values, which a missing part cannot miss. */
static double *choose_direction(const double *gradient, int64_t count, uint64_t seed)
{
    double *direction = memory_zeroed(count, sizeof *direction);
    samples_fill(S4_F64, direction, count, seed);
    double random = norm(direction, count), slope = norm(gradient, count);
    for (int64_t i = 0; i < count; i++) direction[i] = direction[i] / random + (slope > 0 ? gradient[i] / slope : 0);
    return direction;
}

struct slope {
    struct properties *properties;
    struct execution execution; /* forward, f64 */
    s4_layer *layer;            /* parameters are moved in this copy */
    const struct tensors *tensors;
};

static s4_status loss_at(const struct slope *s, double *values, const double *start, const double *direction,
                         int64_t count, double distance, double *loss)
{
    const double *y = s->tensors->y, *dy = s->tensors->dy;
    for (int64_t i = 0; i < count; i++) values[i] = start[i] + distance * direction[i];
    RETURN_FAILURE(s4_layer_changed(s->layer, S4_PARAMETER_ALL));
    RETURN_FAILURE(s4_plan_refresh(s->execution.plan, s->layer, s->execution.workspace));
    RETURN_FAILURE(
        compute_output(s->execution.plan, S4_DIRECTION_FORWARD, s->layer, s->execution.workspace, s->tensors, 0));
    *loss = 0;
    for (int64_t i = 0; i < output_samples(s->properties); i++) *loss += y[i] * dy[i];
    return S4_OK;
}

static s4_status slope_at(const struct slope *s, double *values, const double *start, const double *direction,
                          int64_t count, double distance, double *slope)
{
    static const double at[] = {-2, -1, 1, 2}, weight[] = {1.0 / 12, -2.0 / 3, 2.0 / 3, -1.0 / 12};
    *slope = 0;
    for (int i = 0; i < 4; i++) {
        double loss = NAN;
        RETURN_FAILURE(loss_at(s, values, start, direction, count, at[i] * distance, &loss));
        *slope += weight[i] * loss / distance;
    }
    return S4_OK;
}

/* `values` is a parameter of slope->layer, or u. Of two distances the better counts: the loss is too curved for the one
 * along some parameters, and too flat for the other along others. */
static s4_status check_slope(const struct slope *s, const char *name, double *values, const double *gradient,
                             int64_t count)
{
    static const double distances[] = {1e-4, 1e-3};
    double *direction = choose_direction(gradient, count, 4), *start = memory_zeroed(count, sizeof *start);
    memcpy(start, values, (size_t)count * sizeof *start);
    double product = 0, scale = norm(gradient, count), best = INFINITY;
    for (int64_t i = 0; i < count; i++) product += gradient[i] * direction[i];
    s4_status status = S4_OK;
    for (int i = 0; i < 2 && !status; i++) {
        double slope = NAN;
        status = slope_at(s, values, start, direction, count, distances[i], &slope);
        if (fabs(slope - product) < best) best = fabs(slope - product);
    }
    memcpy(values, start, (size_t)count * sizeof *start);
    if (!status) check_value(s->properties->checker, name, scale > 0 ? best / scale : best, 1e-6);
    free(start);
    free(direction);
    return status;
}

s4_status check_gradients(struct properties *p)
{
    s4_problem training, forward;
    struct tensors tensors;
    struct slope slope = {.properties = p, .tensors = &tensors};
    set_problem(p, S4_DIRECTION_TRAINING, S4_F64, &training);
    set_problem(p, S4_DIRECTION_FORWARD, S4_F64, &forward);
    tensors_create(&training, p->layer, 5, &tensors);
    s4_status status = run_problem(p, &training, p->layer, &tensors);
    if (!status) status = copy_layer(p->layer, &slope.layer);
    if (!status) status = execution_open(&slope.execution, p->checker->context, &forward, slope.layer);
    for (int i = 0; i < S4_PARAMETER_COUNT && !status; i++) {
        char name[64];
        s4_parameter_view view;
        status = s4_layer_parameter(slope.layer, (s4_parameter)i, &view);
        if (status) break;
        if (!view.count) continue;
        snprintf(name, sizeof name, "gradient of %s = slope", view.name);
        status = check_slope(&slope, name, view.data, tensors.gradient[i], view.count);
    }
    if (!status) status = check_slope(&slope, "gradient of u = slope", tensors.u, tensors.du, SAMPLES);
    execution_close(&slope.execution);
    s4_layer_destroy(slope.layer);
    tensors_destroy(&tensors);
    return status;
}

/* ---- precision and bits -------------------------------------------------------------------------------------- */

static s4_status gradients_difference(s4_layer *layer, const struct tensors *a, const struct tensors *b, double *value)
{
    *value = relative_difference(a->dtype, a->du, b->dtype, b->du, SAMPLES);
    for (int i = 0; i < S4_PARAMETER_COUNT; i++) {
        s4_parameter_view view;
        RETURN_FAILURE(s4_layer_parameter(layer, (s4_parameter)i, &view));
        if (view.count)
            *value = larger(*value, relative_difference(S4_F64, a->gradient[i], S4_F64, b->gradient[i], view.count));
    }
    return S4_OK;
}

s4_status check_precision(struct properties *p)
{
    s4_problem problem;
    struct tensors single, right;
    double gradients = NAN;
    set_problem(p, S4_DIRECTION_TRAINING, S4_F64, &problem);
    tensors_create(&problem, p->layer, 6, &right);
    s4_status status = run_problem(p, &problem, p->layer, &right);
    problem.dtype = S4_F32;
    tensors_create(&problem, p->layer, 6, &single);
    if (!status) status = run_problem(p, &problem, p->layer, &single);
    if (!status) status = gradients_difference(p->layer, &single, &right, &gradients);
    if (!status) {
        check_value(p->checker, "y in f32 against f64",
                    relative_difference(S4_F32, single.y, S4_F64, right.y, output_samples(p)), 1e-5);
        check_value(p->checker, "gradients in f32 against f64", gradients, 1e-4);
    }
    tensors_destroy(&single);
    tensors_destroy(&right);
    return status;
}

/* Elements whose bits differ. */
static s4_status count_different_bits(s4_layer *layer, const struct tensors *a, const struct tensors *b,
                                      int64_t outputs, double *count)
{
    const size_t size = s4_dtype_size(a->dtype);
    int64_t different = 0;
    for (int64_t i = 0; i < outputs; i++)
        different += memcmp((char *)a->y + (size_t)i * size, (char *)b->y + (size_t)i * size, size) != 0;
    for (int64_t i = 0; i < SAMPLES; i++)
        different += memcmp((char *)a->du + (size_t)i * size, (char *)b->du + (size_t)i * size, size) != 0;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        s4_parameter_view view;
        RETURN_FAILURE(s4_layer_parameter(layer, (s4_parameter)p, &view));
        for (int64_t i = 0; i < view.count; i++)
            different += memcmp(&a->gradient[p][i], &b->gradient[p][i], sizeof(double)) != 0;
    }
    *count = (double)different;
    return S4_OK;
}

static s4_status same_bits(struct properties *p, const char *name, const s4_problem *one, const s4_problem *other)
{
    struct tensors first, second;
    double different = NAN;
    tensors_create(one, p->layer, 7, &first);
    tensors_create(other, p->layer, 7, &second);
    s4_status status = run_problem(p, one, p->layer, &first);
    if (!status) status = run_problem(p, other, p->layer, &second);
    if (!status) status = count_different_bits(p->layer, &first, &second, output_samples(p), &different);
    if (!status) check_value(p->checker, name, different, 0);
    tensors_destroy(&second);
    tensors_destroy(&first);
    return status;
}

/* A budget of one byte less than the minimum must be refused as that, whatever else fails. */
static void check_refusal(struct properties *p, const char *name, const s4_problem *problem)
{
    s4_plan *plan = NULL;
    s4_status status = s4_plan_create(problem, &plan);
    check_value(p->checker, name, status == S4_ERROR_OUT_OF_BUDGET && !plan ? 0 : 1, 0);
    s4_plan_destroy(plan);
}

s4_status check_budgets(struct properties *p)
{
    static const s4_dtype dtypes[] = {S4_F64, S4_F32};
    static const char *const names[] = {"same bits within the minimum budgets, f64",
                                        "same bits within the minimum budgets, f32"};
    for (int i = 0; i < 2; i++) {
        s4_problem problem, small;
        s4_plan *plan = NULL;
        s4_plan_info info;
        set_problem(p, S4_DIRECTION_TRAINING, dtypes[i], &problem);
        s4_status status = s4_plan_create(&problem, &plan);
        if (!status) status = s4_plan_describe(plan, &info);
        s4_plan_destroy(plan);
        if (status) return status;
        small = problem;
        small.host_budget = info.host_minimum;
        small.device_budget = info.device_minimum;
        RETURN_FAILURE(same_bits(p, names[i], &problem, &small));
        if (dtypes[i] != S4_F64) continue;
        small.host_budget = info.host_minimum - 1;
        check_refusal(p, "a byte less of host memory is refused", &small);
        small.host_budget = info.host_minimum;
        small.device_budget = info.device_minimum - 1;
        if (info.device_minimum > 1) check_refusal(p, "a byte less of GPU memory is refused", &small);
    }
    return S4_OK;
}

s4_status check_threads(struct properties *p)
{
    s4_problem all, one;
    set_problem(p, S4_DIRECTION_TRAINING, S4_F64, &all);
    one = all;
    one.threads = 1;
    return same_bits(p, "same bits with one thread", &all, &one);
}

s4_status check_memory(struct properties *p)
{
    s4_context *context = p->checker->context;
    s4_problem problem;
    struct tensors tensors;
    s4_plan *plan = NULL;
    s4_plan_info info;
    s4_memory_use before[S4_PLACE_COUNT], after[S4_PLACE_COUNT];
    set_problem(p, S4_DIRECTION_TRAINING, S4_F64, &problem);
    tensors_create(&problem, p->layer, 8, &tensors);
    s4_status status = s4_plan_create(&problem, &plan);
    if (!status) status = s4_plan_describe(plan, &info);
    s4_plan_destroy(plan);
    for (int place = 0; place < S4_PLACE_COUNT && !status; place++) {
        status = s4_context_memory_reset(context, (s4_place)place);
        if (!status) status = s4_context_memory(context, (s4_place)place, &before[place]);
    }
    if (!status) status = run_problem(p, &problem, p->layer, &tensors);
    for (int place = 0; place < S4_PLACE_COUNT && !status; place++)
        status = s4_context_memory(context, (s4_place)place, &after[place]);
    tensors_destroy(&tensors);
    if (status) return status;
    int64_t host = after[S4_PLACE_CPU].peak - before[S4_PLACE_CPU].current - info.host_peak;
    int64_t device = after[S4_PLACE_GPU].peak - before[S4_PLACE_GPU].current - info.device_peak;
    check_value(p->checker, "measured peak = planned peak, host bytes", fabs((double)host), 0);
    check_value(p->checker, "measured peak = planned peak, GPU bytes", fabs((double)device), 0);
    return S4_OK;
}
