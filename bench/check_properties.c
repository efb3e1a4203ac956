/* Checks that need no stored answers: the small seeded HiPPO-LegS layer they are made on, and their list. */
#include "check_property.h"
#include "difference.h"
#include "execution.h"
#include "problem.h"

/* ---- layers and runs ----------------------------------------------------------------------------------------- */

static s4_status make_layers(struct properties *p)
{
    s4_layer_options options;
    S4_INIT(&options);
    options.d_model = D_MODEL;
    options.d_state = D_STATE;
    options.n_ssm = N_SSM;
    s4_init_options init;
    S4_INIT(&init);
    init.seed = 1;
    init.dt_min = 0.01;
    init.dt_max = 0.1;
    RETURN_FAILURE(s4_layer_create(&options, &p->plain));
    RETURN_FAILURE(s4_layer_init_legs(p->checker->context, p->plain, &init));
    RETURN_FAILURE(copy_layer(p->plain, &p->layer));
    return s4_layer_setup(p->checker->context, p->layer, LENGTH);
}

void set_problem(const struct properties *p, s4_direction direction, s4_dtype dtype, s4_problem *problem)
{
    S4_INIT(problem);
    problem->direction = direction;
    problem->dtype = dtype;
    problem->batch = BATCH;
    problem->length = problem->kernel_length = LENGTH;
    problem->d_model = D_MODEL;
    problem->d_state = D_STATE;
    problem->n_ssm = N_SSM;
    problem->placement = p->checker->placement;
}

s4_status run_problem(const struct properties *p, const s4_problem *problem, s4_layer *layer,
                      const struct tensors *tensors)
{
    struct execution execution;
    s4_status status = execution_open(&execution, p->checker->context, problem, layer);
    if (!status) status = compute_output(execution.plan, problem->direction, layer, execution.workspace, tensors, 0);
    if (!status && problem->direction == S4_DIRECTION_TRAINING)
        status = compute_gradients(execution.plan, layer, execution.workspace, tensors, 0);
    execution_close(&execution);
    return status;
}

double relative_difference(s4_dtype a_dtype, const void *a, s4_dtype b_dtype, const void *b, int64_t count)
{
    struct difference difference = {0, 0};
    difference_add(&difference, a_dtype, a, b_dtype, b, count);
    return difference_relative(&difference);
}

/* ---- the list ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name; /* for a property that could not be checked */
    s4_status (*check)(struct properties *p);
    int host; /* always on the host: once is enough */
} properties[] = {
    {"C~ by doubling = C~ from C", check_doubling, 1},
    {"undoing the set-up gives C", check_undo, 1},
    {"convolution = linear step, f64", check_step_linear, 0},
    {"convolution = dense step, f64", check_step_dense, 0},
    {"convolution = linear step, f32", check_step_f32, 0},
    {"two halves joined by the state = the whole", check_chunks, 0},
    {"kernel at rate 2 = kernel of twice the dt", check_rate, 0},
    {"gradients = slopes", check_gradients, 0},
    {"f32 against f64", check_precision, 0},
    {"same bits within the minimum budgets", check_budgets, 0},
    {"same bits with one thread", check_threads, 0},
    {"measured peak = planned peak", check_memory, 0},
};

void check_properties(struct checker *checker)
{
    struct properties p = {.checker = checker};
    checker->subject = "seeded layer";
    s4_status status = make_layers(&p);
    if (status) check_status(checker, "set-up", status);
    for (size_t i = 0; i < sizeof properties / sizeof *properties && !status; i++) {
        if (properties[i].host && !checker->first_place) continue;
        s4_status failure = properties[i].check(&p);
        if (failure) check_status(checker, properties[i].name, failure);
    }
    s4_layer_destroy(p.layer);
    s4_layer_destroy(p.plain);
}
