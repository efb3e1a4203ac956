/* Problems that plans are made of: see plan_cases.h. */
#include "plan_cases.h"

#include "expect.h"
#include "place.h"

s4_problem plan_problem(s4_direction direction)
{
    s4_problem problem;
    S4_INIT(&problem);
    problem.direction = direction;
    problem.batch = 4;
    problem.length = 100;
    problem.d_model = 6;
    problem.d_state = 8;
    problem.dtype = S4_F32;
    problem.placement = place_placement();
    problem.algorithm = S4_ALGORITHM_FFT;
    return problem;
}

/* Kinds of layers that plans are made for; 0 is the plainest. */
static const struct {
    s4_mode mode;
    s4_discretisation discretisation;
    int channels, bidirectional, dt_untied;
} kinds[] = {{S4_MODE_DPLR, S4_BILINEAR, 1, 0, 0}, {S4_MODE_DPLR, S4_BILINEAR, 3, 0, 1},
             {S4_MODE_DPLR, S4_BILINEAR, 2, 1, 0}, {S4_MODE_DIAG, S4_ZOH, 1, 0, 0},
             {S4_MODE_DIAG, S4_BILINEAR, 2, 0, 1}, {S4_MODE_DIAG, S4_DSS, 2, 1, 0}};
#define KINDS (int)(sizeof kinds / sizeof kinds[0])

static void set_kind(s4_problem *problem, int kind)
{
    problem->mode = kinds[kind].mode;
    problem->discretisation = kinds[kind].discretisation;
    problem->channels = kinds[kind].channels;
    problem->bidirectional = kinds[kind].bidirectional;
    problem->dt_untied = kinds[kind].dt_untied;
}

static int recurs(int kind)
{
    return !kinds[kind].bidirectional && kinds[kind].discretisation != S4_DSS;
}

/* Plans of one kind: all directions, and budgets from the minimum up. */
static void over_plans_of(int kind, s4_algorithm algorithm, void (*check_plan)(const s4_plan *plan, const s4_plan_info *info))
{
    static const struct {
        int64_t batch, length, kernel_length, d_model;
    } sizes[] = {{1, 1, 1, 1}, {4, 100, 0, 6}, {3, 50, 200, 5}, {16, 1000, 1000, 32}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int direction = S4_DIRECTION_KERNEL; direction <= S4_DIRECTION_STEP; direction++)
            for (int states = 0; states <= (direction == S4_DIRECTION_FORWARD); states++)
                for (int budget = 0; budget < 3; budget++) {
                    about("kind %d, %s, size %d, %s%s, budget %d", kind, s4_algorithm_name(algorithm), (int)i,
                          s4_direction_name((s4_direction)direction), states ? " with states" : "", budget);
                    if (!recurs(kind) && (states || direction == S4_DIRECTION_STEP))
                        continue;
                    s4_problem problem = plan_problem((s4_direction)direction);
                    set_kind(&problem, kind);
                    problem.algorithm = algorithm;
                    problem.batch = sizes[i].batch;
                    problem.length = sizes[i].length;
                    problem.kernel_length = sizes[i].kernel_length;
                    problem.d_model = sizes[i].d_model;
                    problem.states = states;
                    problem.threads = 2;
                    s4_plan *plan;
                    s4_plan_info info;
                    must(s4_plan_create(&problem, &plan));
                    must(s4_plan_describe(plan, &info));
                    if (budget) { /* the minimum, and half way from it */
                        s4_plan_destroy(plan);
                        problem.host_budget =
                            budget == 1 ? info.host_minimum : (info.host_minimum + info.host_peak) / 2;
                        problem.device_budget =
                            budget == 1 ? info.device_minimum : (info.device_minimum + info.device_peak) / 2;
                        must(s4_plan_create(&problem, &plan));
                        must(s4_plan_describe(plan, &info));
                        check(info.host_peak <= problem.host_budget && info.device_peak <= problem.device_budget,
                              "[%s] the plan is over its budget", about_text());
                    }
                    check_plan(plan, &info);
                    s4_plan_destroy(plan);
                }
}

void over_plans(void (*check_plan)(const s4_plan *plan, const s4_plan_info *info))
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int algorithm = S4_ALGORITHM_FFT; algorithm <= S4_ALGORITHM_CHUNKED; algorithm++)
            if (algorithm == S4_ALGORITHM_FFT || (recurs(kind) && !place_has_gpu()))
                over_plans_of(kind, (s4_algorithm)algorithm, check_plan);
}
