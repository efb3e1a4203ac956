/* Checks that need no stored answers: the small seeded layers they are made on, one of every kind, and their list. */
#include "check_property.h"
#include "difference.h"
#include "execution.h"
#include "new_layer.h"
#include "problem.h"
#include "progress.h"

/* ---- layers and runs ----------------------------------------------------------------------------------------- */

static const struct kind {
    const char *subject;
    s4_mode mode;
    s4_discretisation discretisation;
    s4_init init;
    int d_state, rank, n_ssm, channels, bidirectional, dt_untied;
    double bandlimit;
} kinds[] = {
    {"legs", S4_MODE_DPLR, S4_BILINEAR, S4_INIT_LEGS, 16, 1, 2, 1, 0, 0, 0},
    {"legt of rank 2, 2 channels, dt per mode", S4_MODE_DPLR, S4_BILINEAR, S4_INIT_LEGT, 8, 2, 2, 2, 0, 1, 0},
    {"legs, bidirectional", S4_MODE_DPLR, S4_BILINEAR, S4_INIT_LEGS, 8, 1, 4, 1, 1, 0, 0},
    {"diagonal, zoh", S4_MODE_DIAG, S4_ZOH, S4_INIT_DIAG_LIN, 16, 0, 2, 1, 0, 0, 0},
    {"diagonal, bilinear, 2 channels, bidirectional", S4_MODE_DIAG, S4_BILINEAR, S4_INIT_DIAG_INV, 8, 0, 4, 2, 1, 0, 0},
    {"diagonal, zoh, dt per mode, bandlimited", S4_MODE_DIAG, S4_ZOH, S4_INIT_DIAG_LEGS, 8, 0, 2, 1, 0, 1, 0.25},
    {"diagonal, dss", S4_MODE_DIAG, S4_DSS, S4_INIT_DIAG_LIN, 8, 0, 2, 1, 0, 0, 0},
};
#define KIND_COUNT ((int)(sizeof kinds / sizeof *kinds))

static s4_status make_layers(struct properties *p, const struct kind *kind)
{
    s4_layer_options options;
    S4_INIT(&options);
    options.mode = kind->mode;
    options.discretisation = kind->discretisation;
    options.d_model = D_MODEL;
    options.d_state = kind->d_state;
    options.rank = kind->rank;
    options.n_ssm = kind->n_ssm;
    options.channels = kind->channels;
    options.bidirectional = kind->bidirectional;
    options.dt_untied = kind->dt_untied;
    options.bandlimit = kind->bandlimit;
    s4_init_options init;
    S4_INIT(&init);
    init.init = kind->init;
    init.seed = 1;
    init.dt_min = 0.01;
    init.dt_max = 0.1;
    RETURN_FAILURE(s4_layer_create(&options, &p->plain));
    S4_INIT(&p->sizes);
    RETURN_FAILURE(s4_layer_describe(p->plain, &p->sizes));
    RETURN_FAILURE(s4_layer_init(p->checker->context, p->plain, &init));
    RETURN_FAILURE(copy_layer(p->plain, &p->layer));
    return kind->mode == S4_MODE_DPLR ? s4_layer_setup(p->checker->context, p->layer, LENGTH) : S4_OK;
}

int64_t output_samples(const struct properties *p) { return SAMPLES * p->sizes.channels; }

void set_problem(const struct properties *p, s4_direction direction, s4_dtype dtype, s4_problem *problem)
{
    S4_INIT(problem);
    problem->direction = direction;
    problem->dtype = dtype;
    problem->batch = BATCH;
    problem->length = problem->kernel_length = LENGTH;
    problem->mode = p->sizes.mode;
    problem->d_model = p->sizes.d_model;
    problem->d_state = p->sizes.d_state;
    problem->rank = p->sizes.rank;
    problem->n_ssm = p->sizes.n_ssm;
    problem->channels = p->sizes.channels;
    problem->bidirectional = p->sizes.bidirectional;
    problem->dt_untied = p->sizes.dt_untied;
    problem->discretisation = p->sizes.discretisation;
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

/* What a layer must have. */
enum { SET_UP = 1, RECURRENCE = 2, MATRIX = 4, ALL_MODES = 8 };

static unsigned abilities(const s4_layer_options *sizes)
{
    unsigned has = 0;
    if (sizes->mode == S4_MODE_DPLR) has |= SET_UP | MATRIX;
    if (!sizes->bidirectional && sizes->discretisation != S4_DSS) has |= RECURRENCE;
    if (!(sizes->bandlimit > 0)) has |= ALL_MODES; /* the limit is that of rate 1 */
    return has;
}

static const struct {
    const char *name; /* for a property that could not be checked */
    s4_status (*check)(struct properties *p);
    unsigned needs;
    int host; /* always on the host: once is enough */
} properties[] = {
    {"C~ by doubling = C~ from C", check_doubling, SET_UP, 1},
    {"undoing the set-up gives C", check_undo, SET_UP, 1},
    {"convolution = linear step, f64", check_step_linear, RECURRENCE, 0},
    {"convolution = dense step, f64", check_step_dense, RECURRENCE | MATRIX, 0},
    {"convolution = diagonal step, f64", check_step_diagonal, RECURRENCE | MATRIX, 0},
    {"convolution = linear step, f32", check_step_f32, RECURRENCE, 0},
    {"two halves joined by the state = the whole", check_chunks, RECURRENCE, 0},
    {"kernel at rate 2 = kernel of twice the dt", check_rate, ALL_MODES, 0},
    {"same bits with time before channel", check_layout, 0, 0},
    {"a row cut short = the row alone", check_lengths, 0, 0},
    {"gradients = slopes", check_gradients, 0, 0},
    {"f32 against f64", check_precision, 0, 0},
    {"same bits within the minimum budgets", check_budgets, 0, 0},
    {"same bits with one thread", check_threads, 0, 0},
    {"measured peak = planned peak", check_memory, 0, 0},
};

/* Places need not have every kind. */
static s4_status try_place(const struct properties *p)
{
    s4_problem problem;
    struct execution execution;
    set_problem(p, S4_DIRECTION_FORWARD, S4_F64, &problem);
    s4_status status = execution_open(&execution, p->checker->context, &problem, p->layer);
    execution_close(&execution);
    return status;
}

static void check_kind(struct checker *checker, const struct kind *kind)
{
    struct properties p = {.checker = checker};
    checker->subject = kind->subject;
    s4_status status = make_layers(&p, kind);
    if (status) check_status(checker, "set-up", status);
    s4_status here = status ? status : try_place(&p);
    if (!status && here) check_status(checker, "this kind of layer", here);
    for (size_t i = 0; i < sizeof properties / sizeof *properties && !status && !progress_cancelled(); i++) {
        if (properties[i].host ? !checker->first_place : here) continue;
        if (properties[i].needs & ~abilities(&p.sizes)) continue;
        s4_status failure = properties[i].check(&p);
        if (failure) check_status(checker, properties[i].name, failure);
    }
    s4_layer_destroy(p.layer);
    s4_layer_destroy(p.plain);
}

void check_properties(struct checker *checker)
{
    for (int k = 0; k < KIND_COUNT && !progress_cancelled(); k++) check_kind(checker, &kinds[k]);
}
