/* The memory of a whole model from the plans of its layers: what is counted, once or for every layer. */
#include <stdint.h>

#include "expect.h"
#include "layers.h"
#include "place.h"
#include "session.h"

static const layer_shape shapes[] = {
    {.mode = S4_MODE_DPLR, .d_model = 6, .d_state = 8, .rank = 2, .n_ssm = 3, .plain_transforms = 1},
    {.mode = S4_MODE_DPLR, .d_model = 4, .d_state = 4, .rank = 1, .channels = 3, .bidirectional = 1, .dt_untied = 1,
     .plain_transforms = 1},
    {.mode = S4_MODE_DIAG, .d_model = 5, .d_state = 6, .discretisation = S4_ZOH, .dt_untied = 1, .plain_transforms = 1},
};
#define SHAPES 3
enum { B = 3, T = 40 };

static s4_plan *plan_of(const s4_layer *layer, s4_direction direction, s4_dtype dtype, int states, s4_plan_info *info)
{
    s4_problem problem = problem_of(layer, direction, dtype, B, T, T);
    s4_plan *plan;
    problem.states = states;
    problem.threads = 2;
    must(s4_plan_create(&problem, &plan));
    must(s4_plan_describe(plan, info));
    return plan;
}

static int64_t numbers_of(s4_layer *layer)
{
    int64_t count = 0;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        count += layer_count(layer, (s4_parameter)p);
    return count;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

Test(plan_set, counts)
{
    s4_plan_set_info info;
    must(s4_plan_set_describe(NULL, 0, &info));
    check(info.peak[S4_PLACE_CPU] == 0 && info.peak[S4_PLACE_GPU] == 0, "an empty model takes memory");
    for (int i = 0; i < SHAPES; i++) {
        about("shape %d", i);
        s4_layer *layer = layer_random(&shapes[i], 1);
        const int64_t H = shapes[i].d_model, parameters = 8 * numbers_of(layer);
        s4_plan_info training, forward;
        s4_plan *plans[] = {plan_of(layer, S4_DIRECTION_TRAINING, S4_F32, 0, &training),
                            plan_of(layer, S4_DIRECTION_FORWARD, S4_F64, !shapes[i].bidirectional, &forward)};
        const s4_plan_set_entry entries[] = {{plans[0], 24, 1}, {plans[1], 0, 0}, {plans[1], 5, 0}, {plans[1], 2, 1}};
        must(s4_plan_set_describe(entries, 4, &info));
        const int64_t states = shapes[i].bidirectional ? 0 : 8 * B * H * shapes[i].d_state;
        check(info.parameters[S4_PLACE_CPU] == (24 * 2 + 5 + 2) * parameters, "[%s] parameters: %lld", about_text(),
              (long long)info.parameters[S4_PLACE_CPU]);
        check(info.kept[S4_PLACE_CPU] == 24 * 4 * B * H * T + 2 * (8 * B * H * T + states), "[%s] kept: %lld",
              about_text(), (long long)info.kept[S4_PLACE_CPU]);
        check(info.parameters[S4_PLACE_GPU] == 0 && info.kept[S4_PLACE_GPU] == 0, "[%s] on the device", about_text());
        check(info.workspace[S4_PLACE_CPU] == larger(training.host_peak, forward.host_peak), "[%s] workspace: %lld",
              about_text(), (long long)info.workspace[S4_PLACE_CPU]);
        check(info.workspace[S4_PLACE_GPU] == larger(training.device_peak, forward.device_peak),
              "[%s] workspace on the device: %lld", about_text(), (long long)info.workspace[S4_PLACE_GPU]);
        for (int place = 0; place < S4_PLACE_COUNT; place++)
            check(info.peak[place] == info.parameters[place] + info.kept[place] + info.workspace[place],
                  "[%s] the peak is not the sum", about_text());
        s4_plan_destroy(plans[0]);
        s4_plan_destroy(plans[1]);
        s4_layer_destroy(layer);
    }
}

/* One workspace made of the largest plan serves them all. */
Test(plan_set, one_workspace_serves_all)
{
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shapes[0], 2);
    must(s4_layer_setup(context, layer, T));
    s4_plan_info info[2];
    s4_plan *plans[] = {plan_of(layer, S4_DIRECTION_TRAINING, S4_F32, 0, &info[0]),
                        plan_of(layer, S4_DIRECTION_FORWARD, S4_F32, 0, &info[1])};
    const s4_plan_set_entry entries[] = {{plans[0], 1, 1}, {plans[1], 0, 0}};
    s4_plan_set_info set;
    must(s4_plan_set_describe(entries, 2, &set));
    for (int i = 0; i < 2; i++)
        must(s4_plan_prepare(plans[i], context));
    s4_workspace *workspace;
    must(s4_workspace_create(plans[info[1].host_peak > info[0].host_peak], &workspace));
    s4_memory_use use;
    must(s4_context_memory(context, S4_PLACE_CPU, &use));
    cr_assert_eq(use.current, set.workspace[S4_PLACE_CPU]);
    for (int i = 0; i < 2 && !place_has_gpu(); i++) /* one plan may need more here and the other there */
        must(s4_plan_refresh(plans[i], layer, workspace));
    s4_workspace_destroy(workspace);
    for (int i = 0; i < 2; i++)
        s4_plan_destroy(plans[i]);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

Test(plan_set, refuses)
{
    s4_layer *layer = layer_random(&shapes[0], 3);
    s4_plan_info ignored;
    s4_plan *plan = plan_of(layer, S4_DIRECTION_TRAINING, S4_F32, 0, &ignored);
    s4_plan_set_info info, before;
    memset(&info, 0x5a, sizeof info);
    before = info;
    s4_plan_set_entry entries[] = {{plan, 1, 1}, {plan, 1, 1}};
    must_refuse(s4_plan_set_describe(entries, 1, NULL), S4_ERROR_ARGUMENT, "info");
    must_refuse(s4_plan_set_describe(NULL, 1, &info), S4_ERROR_ARGUMENT, "entries");
    must_refuse(s4_plan_set_describe(entries, -1, &info), S4_ERROR_ARGUMENT, "count");
    entries[1].layers = -2;
    must_refuse(s4_plan_set_describe(entries, 2, &info), S4_ERROR_ARGUMENT, "layers of entry 1 is -2");
    entries[1].layers = INT64_MAX / 4;
    must_refuse(s4_plan_set_describe(entries, 2, &info), S4_ERROR_ARGUMENT, "64 bits");
    entries[1].plan = NULL;
    must_refuse(s4_plan_set_describe(entries, 2, &info), S4_ERROR_ARGUMENT, "plan of entry 1");
    check(memcmp(&info, &before, sizeof info) == 0, "a refusal wrote to info");
    s4_plan_destroy(plan);
    s4_layer_destroy(layer);
}
