/*
 * Set-up, recurrence and states on the GPU against the same on the CPU, through the public door, in double: the two places
 * share formulas and no code. And that what is wrong with parameters is told there in the same words.
 */
#include <math.h>

#include "expect.h"
#include "layers.h"
#include "place.h"
#include "session.h"

/* Of the largest number of a result. */
#define TOLERANCE_PLACE 1e-12

static const layer_shape shapes[] = {
    {.d_model = 3, .d_state = 8, .rank = 1, .plain_transforms = 1},
    {.d_model = 4, .d_state = 6, .rank = 2, .n_ssm = 2, .channels = 2, .plain_transforms = 1},
    {.d_model = 2, .d_state = 70, .rank = 3, .plain_transforms = 1},
    {.d_model = 2, .d_state = 2, .rank = 4, .dt_untied = 1, .plain_transforms = 1},
    {.d_model = 4, .d_state = 8, .rank = 1, .n_ssm = 1, .bandlimit = 0.3, .plain_transforms = 1},
    {.d_model = 2, .d_state = 6, .rank = 1, .dt_transform = S4_TRANSFORM_SOFTPLUS,
     .real_transform = S4_TRANSFORM_RELU, .imag_transform = S4_TRANSFORM_EXP},
    {.d_model = 2, .d_state = 6, .rank = 1, .dt_transform = S4_TRANSFORM_SIGMOID,
     .real_transform = S4_TRANSFORM_SOFTPLUS, .imag_transform = S4_TRANSFORM_NONE},
    {.d_model = 3, .d_state = 10, .mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .plain_transforms = 1},
    {.d_model = 4, .d_state = 66, .mode = S4_MODE_DIAG, .n_ssm = 2, .channels = 2, .dt_untied = 1,
     .discretisation = S4_ZOH, .plain_transforms = 1},
    {.d_model = 3, .d_state = 6, .mode = S4_MODE_DIAG, .discretisation = S4_BILINEAR, .bandlimit = 0.2,
     .plain_transforms = 1},
};
#define SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

/* Stages on the GPU; diagonal kernels may not be there. */
static s4_problem place_at(s4_problem problem, const char *placement)
{
    must(s4_placement_parse(placement, &problem.placement));
    return problem;
}

static void require_gpu(void)
{
    if (!place_has_gpu())
        cr_skip_test("placement %s: nothing is on the gpu", place_text());
}

typedef struct sample {
    s4_layer *layer;
    s4_layer_options o;
    int64_t B, T, L, outputs, states;
    double *u, *dy, *x0, *ds;
} sample;

/* A layer as it is stored: DPLR with C~ of `stored` samples, or plain C for 0. */
static sample sample_open(s4_context *context, int i, int64_t stored, int64_t length)
{
    enum { B = 3 };
    sample p = {.layer = layer_random(&shapes[i], (uint64_t)(7 + i)), .B = B, .T = length, .L = length};
    p.o = layer_options(p.layer);
    if (p.o.mode == S4_MODE_DPLR && stored) {
        must(s4_layer_setup(context, p.layer, stored));
        int64_t count = layer_count(p.layer, S4_PARAMETER_C);
        layer_write_c(p.layer, numbers_copy(count, layer_data(p.layer, S4_PARAMETER_C)), stored);
    }
    random_source random = {(uint64_t)(3 + i)};
    p.outputs = B * p.o.d_model * p.o.channels * length;
    p.states = B * p.o.d_model * p.o.d_state;
    p.u = random_samples(&random, B * p.o.d_model * length);
    p.dy = random_samples(&random, p.outputs);
    p.x0 = random_samples(&random, p.states);
    p.ds = random_samples(&random, p.states);
    about("shape %d, stored %d, length %d", i, (int)stored, (int)length);
    return p;
}

/* C from C~ of another length, C~ from C, C~ by doubling and at another rate: through the kernel that they give. */
Test(setup_place, read_outs)
{
    static const int64_t lengths[][2] = {{0, 24}, {24, 24}, {12, 24}, {6, 24}, {17, 24}, {24, 1}};
    require_gpu();
    s4_context *context = context_open();
    for (int i = 0; i < SHAPES; i++)
        for (int j = 0; j < 6; j++)
            for (int rate = 1; rate <= 2; rate++) {
                if (shapes[i].mode == S4_MODE_DIAG && (j > 0 || rate > 1)) continue;
                sample p = sample_open(context, i, lengths[j][0], lengths[j][1]);
                s4_problem problem = problem_of(p.layer, S4_DIRECTION_KERNEL, S4_F64, 1, p.T, p.L);
                problem.rate = rate == 1 ? 1 : 0.5;
                const s4_problem cpu = place_at(problem, "cpu"), gpu = place_at(problem, "setup=gpu");
                session s = session_open(context, &cpu), g = session_open(context, &gpu);
                const int64_t count = p.o.channels * p.o.d_model * p.L;
                expect_close("kernel", count, session_kernel(&g, p.layer), session_kernel(&s, p.layer), TOLERANCE_PLACE,
                             0);
                session_close(&s);
                session_close(&g);
                s4_layer_destroy(p.layer);
            }
    s4_context_destroy(context);
}

/* What powers of dA meet on their way: eigenvalues apart, two that coincide or nearly do, one that is the conjugate of
 * another, real ones, modes that P does not couple; and so many that nearly coincide that matrices are needed. */
typedef enum spectrum { APART, CLOSE_PAIR, EQUAL_PAIR, REAL, HALF_EQUAL, ALL_EQUAL, DECOUPLED, SPECTRA } spectrum;

/* Of copy 1, if there is one, so that the channels of copy 0 go another way. */
static void shape_spectrum(s4_layer *layer, spectrum kind, int64_t n_ssm, int64_t modes, int64_t rank)
{
    const int64_t at = n_ssm > 1 ? modes : 0;
    double *A_real = layer_data(layer, S4_PARAMETER_A_REAL) + at, *A_imag = layer_data(layer, S4_PARAMETER_A_IMAG) + at;
    if ((kind == CLOSE_PAIR || kind == EQUAL_PAIR) && modes > 1) {
        A_real[1] = A_real[0];
        A_imag[1] = A_imag[0] + (kind == CLOSE_PAIR ? 1e-5 : 0);
    }
    if (kind == EQUAL_PAIR && modes > 3) {
        A_real[3] = A_real[2];
        A_imag[3] = -A_imag[2];
    }
    for (int64_t n = 0; n < modes; n++) {
        if (kind == REAL) A_imag[n] = 0;
        if (kind == REAL) A_real[n] = log(0.3 + (double)n); /* the transform is exp */
        if (kind == ALL_EQUAL || (kind == HALF_EQUAL && n % 2)) {
            A_real[n] = A_real[0];
            A_imag[n] = A_imag[0];
        }
        for (int64_t r = 0; r < rank && kind == DECOUPLED && n % 2; r++) {
            double *p = layer_data(layer, S4_PARAMETER_P) + 2 * (r * n_ssm * modes + at + n);
            p[0] = p[1] = 0;
        }
    }
}

/* Kernels from read-outs of length `stored` (0: plain C), on the GPU against the CPU. */
static void compare_kernels(s4_context *context, s4_layer *layer, int64_t stored, int64_t length, double tolerance)
{
    if (stored) {
        must(s4_layer_setup(context, layer, stored));
        const int64_t count = layer_count(layer, S4_PARAMETER_C);
        layer_write_c(layer, numbers_copy(count, layer_data(layer, S4_PARAMETER_C)), stored);
    }
    const s4_problem problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, length, length);
    const s4_problem cpu = place_at(problem, "cpu"), gpu = place_at(problem, "setup=gpu");
    session s = session_open(context, &cpu), g = session_open(context, &gpu);
    const int64_t count = layer_kernels(layer) * layer_options(layer).d_model * length;
    expect_close("kernel", count, session_kernel(&g, layer), session_kernel(&s, layer), tolerance, 0);
    session_close(&s);
    session_close(&g);
}

/* C of `stored` samples to kernels of `length`. */
static void compare_powers(s4_context *context, const layer_shape *shape, spectrum kind, int64_t stored, int64_t length)
{
    s4_layer *layer = layer_random(shape, (uint64_t)(shape->rank + 10 * kind));
    shape_spectrum(layer, kind, shape->n_ssm, shape->d_state / 2, shape->rank);
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
    about("rank %d, spectrum %d, %s dt, H = %d, N = %d, %d -> %d", (int)shape->rank, kind,
          shape->dt_untied ? "untied" : "tied", (int)shape->d_model, (int)shape->d_state, (int)stored, (int)length);
    compare_kernels(context, layer, stored, length, TOLERANCE_PLACE);
    s4_layer_destroy(layer);
}

Test(setup_place, powers)
{
    /* C~ of C, by doubling from a quarter, and C of C~ on the way to another length */
    static const int64_t lengths[][2] = {{0, 100}, {25, 100}, {21, 30}, {0, 1}, {0, 3}};
    static const int64_t sizes[] = {2, 18, 70};
    require_gpu();
    s4_context *context = context_open();
    for (int rank = 1; rank <= S4_RANK_MAX; rank++)
        for (int kind = APART; kind < SPECTRA; kind++)
            for (int size = 0; size < 3; size++) {
                const layer_shape shape = {.d_model = 3, .d_state = sizes[size], .rank = rank, .n_ssm = 3,
                                           .channels = 1 + size % 2, .plain_transforms = 1,
                                           .dt_untied = (rank + kind + size) % 2};
                for (int i = 0; i < (size < 2 ? 5 : 2); i++)
                    compare_powers(context, &shape, (spectrum)kind, lengths[i][0], lengths[i][1]);
            }
    s4_context_destroy(context);
}

/* More channels than there are lanes, with matrices or without. */
Test(setup_place, powers_of_many_channels)
{
    require_gpu();
    s4_context *context = context_open();
    const layer_shape shape = {.d_model = 260, .d_state = 4, .rank = 1, .n_ssm = 4, .plain_transforms = 1};
    compare_powers(context, &shape, ALL_EQUAL, 0, 20);
    compare_powers(context, &shape, APART, 12, 20);
    s4_context_destroy(context);
}

/* As large, as long and as slow as layers are, and the starts that are used in practice. */
Test(setup_place, powers_of_large_layers)
{
    static const struct {
        s4_init init;
        int64_t d_state, length;
        double dt, tolerance;
    } cases[] = {
        {S4_INIT_LEGS, 256, 1 << 16, 1e-5, TOLERANCE_PLACE},
        {S4_INIT_LEGS, 64, 4096, 1e-1, TOLERANCE_PLACE},
        {S4_INIT_LEGT, 64, 16385, 1e-4, TOLERANCE_PLACE},
        {S4_INIT_LAGT, 64, 1000, 1e-3, TOLERANCE_PLACE},
        {S4_INIT_FOURIER, 64, 1000, 1e-3, TOLERANCE_PLACE},
        {S4_INIT_LEGS, 64, 1000, 1e-7, 10 * TOLERANCE_PLACE}, /* I - dA^L is as small as L dt */
    };
    require_gpu();
    s4_context *context = context_open();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        s4_layer_options options;
        S4_INIT(&options);
        options.d_model = 2;
        options.d_state = cases[i].d_state;
        options.n_ssm = 1;
        options.rank = cases[i].init == S4_INIT_LEGT ? 2 : 1;
        s4_layer *layer;
        must(s4_layer_create(&options, &layer));
        s4_init_options init;
        S4_INIT(&init);
        init.init = cases[i].init;
        must(s4_layer_init(context, layer, &init));
        for (int h = 0; h < 2; h++) layer_data(layer, S4_PARAMETER_INV_DT)[h] = log(cases[i].dt * (1 + h));
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        about("%s, N = %d, L = %d, dt = %g", s4_init_name(cases[i].init), (int)cases[i].d_state, (int)cases[i].length,
              cases[i].dt);
        compare_kernels(context, layer, 0, cases[i].length, cases[i].tolerance);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

static const char *const step_placements[] = {"gpu",      "split", "setup=gpu",
                                              "step=gpu", "setup=gpu,step=cpu", "init=gpu,setup=gpu,step=gpu"};
enum { PLACES = sizeof step_placements / sizeof step_placements[0] };

/* One more call of steps at each place against the CPU's. */
static void compare_steps(const sample *p, session *cpu, session *gpu, const char *changed)
{
    const s4_problem *problem = &cpu->info.problem;
    double *x = numbers_copy(p->states, p->x0);
    const double *y = session_step(cpu, p->layer, 0, 0, p->u, x);
    for (int k = 0; k < PLACES; k++) {
        about("%s, N = %d, rank %d, %s changed, placement %s", s4_step_mode_name(problem->step_mode),
              (int)problem->d_state, (int)problem->rank, changed, step_placements[k]);
        double *gx = numbers_copy(p->states, p->x0);
        expect_close("y", p->outputs, session_step(&gpu[k], p->layer, 0, 0, p->u, gx), y, TOLERANCE_PLACE, 0);
        expect_close("state", p->states, gx, x, TOLERANCE_PLACE, 0);
    }
}

/* At each place, and again after changes of one parameter alone. */
static void compare_places_of_steps(s4_context *context, const sample *p, s4_step_mode mode)
{
    static const s4_parameter changed[] = {S4_PARAMETER_C, S4_PARAMETER_D, S4_PARAMETER_INV_DT};
    s4_problem problem = problem_of(p->layer, S4_DIRECTION_STEP, S4_F64, p->B, p->T, 0);
    problem.step_mode = mode;
    const s4_problem cpu = place_at(problem, "cpu");
    session s = session_open(context, &cpu), g[PLACES];
    for (int k = 0; k < PLACES; k++) {
        const s4_problem gpu = place_at(problem, step_placements[k]);
        g[k] = session_open(context, &gpu);
    }
    compare_steps(p, &s, g, "all");
    for (int i = 0; i < 3; i++) {
        layer_data(p->layer, changed[i])[0] *= 0.75;
        must(s4_layer_changed(p->layer, 1u << changed[i]));
        compare_steps(p, &s, g, s4_parameter_name(changed[i]));
    }
    session_close(&s);
    for (int k = 0; k < PLACES; k++) session_close(&g[k]);
}

Test(setup_place, steps)
{
    require_gpu();
    s4_context *context = context_open();
    for (int i = 0; i < SHAPES; i++)
        for (int mode = S4_STEP_LINEAR; mode <= S4_STEP_DENSE; mode++)
            for (int stored = 0; stored < 2; stored++) {
                if (shapes[i].mode == S4_MODE_DIAG && (mode == S4_STEP_DENSE || stored)) continue;
                sample p = sample_open(context, i, stored ? 11 : 0, 9);
                compare_places_of_steps(context, &p, (s4_step_mode)mode);
                s4_layer_destroy(p.layer);
            }
    s4_context_destroy(context);
}

/* A is normal but for little: the eigenvectors of dA are far enough from one another. */
static void decouple(s4_layer *layer)
{
    for (int64_t i = 0; i < layer_count(layer, S4_PARAMETER_P); i++) layer_data(layer, S4_PARAMETER_P)[i] *= 0.1;
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
}

/* Found on the host, wherever the rest of the set-up is. */
Test(setup_place, steps_in_eigenvectors)
{
    require_gpu();
    s4_context *context = context_open();
    for (int i = 0; i < SHAPES; i++)
        for (int stored = 0; stored < 2; stored++) {
            if (shapes[i].mode == S4_MODE_DIAG && stored) continue;
            sample p = sample_open(context, i, stored ? 11 : 0, 9);
            decouple(p.layer);
            compare_places_of_steps(context, &p, S4_STEP_DIAGONAL);
            s4_layer_destroy(p.layer);
        }
    s4_context_destroy(context);
}

/* y, the state that leaves, and every gradient, of one call. */
typedef struct result {
    double *y, *out, *entering;
    gradients g;
} result;

static result run_at(s4_context *context, const sample *p, const s4_problem *problem, unsigned given,
                     const int64_t *lengths)
{
    session s = session_open(context, problem);
    result r = {numbers(p->outputs), numbers(p->states), numbers(p->states),
                gradients_zero(p->layer, p->B * p->o.d_model * p->T)};
    must(s4_plan_refresh(s.plan, p->layer, s.workspace));
    s4_forward_io forward;
    S4_INIT(&forward);
    forward.u = p->u;
    forward.y = r.y;
    forward.state_in = given & 1 ? p->x0 : NULL;
    forward.state_out = r.out;
    forward.lengths = lengths;
    must(s4_plan_forward(s.plan, p->layer, s.workspace, &forward));
    s4_backward_io io;
    S4_INIT(&io);
    io.u = p->u;
    io.dy = p->dy;
    io.du = r.g.du;
    io.state_in = forward.state_in;
    io.dstate_out = given & 2 ? p->ds : NULL;
    io.dstate_in = given & 4 ? r.entering : NULL;
    io.lengths = lengths;
    for (int q = 0; q < S4_PARAMETER_COUNT; q++) io.gradients.parameter[q] = r.g.parameter[q];
    must(s4_plan_backward(s.plan, p->layer, s.workspace, &io));
    io.gradients.accumulate = 1; /* a second time, onto the first */
    must(s4_plan_backward(s.plan, p->layer, s.workspace, &io));
    session_close(&s);
    return r;
}

static void compare_states(s4_context *context, const sample *p, unsigned given, const int64_t *lengths)
{
    static const char *const placements[] = {"setup=gpu", "convolve=gpu", "setup=gpu,convolve=gpu"};
    s4_problem problem = problem_of(p->layer, S4_DIRECTION_TRAINING, S4_F64, p->B, p->T, p->L);
    problem.states = 1;
    const s4_problem cpu = place_at(problem, "cpu");
    const result expected = run_at(context, p, &cpu, given, lengths);
    for (int k = 0; k < 3; k++) {
        about("%s, placement %s, given %u", p->o.mode == S4_MODE_DPLR ? "dplr" : "diag", placements[k], given);
        const s4_problem gpu = place_at(problem, placements[k]);
        const result got = run_at(context, p, &gpu, given, lengths);
        expect_close("y", p->outputs, got.y, expected.y, TOLERANCE_PLACE, 0);
        expect_close("state", p->states, got.out, expected.out, TOLERANCE_PLACE, 0);
        expect_close("gradient of the state", p->states, got.entering, expected.entering, TOLERANCE_PLACE, 1e-300);
        expect_close_gradients(&got.g, &expected.g, 10 * TOLERANCE_PLACE);
    }
}

Test(setup_place, states_and_gradients)
{
    static const int64_t lengths[] = {11, 0, 5};
    require_gpu();
    s4_context *context = context_open();
    for (int i = 0; i < SHAPES; i++) {
        sample p = sample_open(context, i, 11, 11);
        compare_states(context, &p, 7, i % 2 ? lengths : NULL);
        s4_layer_destroy(p.layer);
    }
    for (unsigned given = 0; given < 7; given++)
        for (int i = 0; i < 8; i += 7) {
            sample p = sample_open(context, i, 16, 16);
            compare_states(context, &p, given, NULL);
            s4_layer_destroy(p.layer);
        }
    s4_context_destroy(context);
}

/* A power of one sample is dA itself. */
Test(setup_place, states_of_one_sample)
{
    require_gpu();
    s4_context *context = context_open();
    for (int i = 0; i < 2; i++) {
        sample p = sample_open(context, i, 1, 1);
        compare_states(context, &p, 7, NULL);
        s4_layer_destroy(p.layer);
    }
    s4_context_destroy(context);
}

/* What the set-up on the device makes for operations there, and for those of the host that come next. */
typedef struct set_up {
    const char *name;
    s4_direction direction;
    s4_step_mode mode;
    const char *placement;
} set_up;

static const set_up set_ups[] = {
    {"kernel on the host", S4_DIRECTION_KERNEL, S4_STEP_LINEAR, "setup=gpu"},
    {"kernel on the device", S4_DIRECTION_KERNEL, S4_STEP_LINEAR, "gpu"},
    {"convolution on the host", S4_DIRECTION_FORWARD, S4_STEP_LINEAR, "setup=gpu"},
    {"steps on the host", S4_DIRECTION_STEP, S4_STEP_DIAGONAL, "setup=gpu"},
    {"steps on the device", S4_DIRECTION_STEP, S4_STEP_DIAGONAL, "setup=gpu,step=gpu"},
};
#define SET_UPS ((int)(sizeof set_ups / sizeof set_ups[0]))

static s4_problem problem_of_set_up(const set_up *of, s4_layer *layer, int64_t length)
{
    s4_problem problem = problem_of(layer, of->direction, S4_F64, 1, length, length);
    problem.step_mode = of->mode;
    return place_at(problem, of->placement);
}

/* The first of what is wrong is told by name and place, and the plan works again once it is right. */
static void refuse_wrong_parameters(s4_context *context, const set_up *of)
{
    static const struct {
        s4_parameter which;
        int index;
        double value;
        s4_status status;
        const char *word;
    } cases[] = {
        {S4_PARAMETER_INV_DT, 1, NAN, S4_ERROR_NOT_FINITE, "kernel.inv_dt[1] = nan is not finite"},
        {S4_PARAMETER_A_REAL, 5, INFINITY, S4_ERROR_NOT_FINITE, "kernel.A_real[5] = inf is not finite"},
        {S4_PARAMETER_A_IMAG, 0, -INFINITY, S4_ERROR_NOT_FINITE, "kernel.A_imag[0] = -inf is not finite"},
        {S4_PARAMETER_B, 7, NAN, S4_ERROR_NOT_FINITE, "kernel.B[7] = nan"},
        {S4_PARAMETER_P, 3, NAN, S4_ERROR_NOT_FINITE, "kernel.P[3] = nan"},
        {S4_PARAMETER_C, 4, INFINITY, S4_ERROR_NOT_FINITE, "kernel.C[4] = inf"},
        {S4_PARAMETER_D, 2, NAN, S4_ERROR_NOT_FINITE, "D[2] = nan"},
        {S4_PARAMETER_INV_DT, 2, 800, S4_ERROR_NOT_FINITE, "kernel.inv_dt[2] = 800 "},
        {S4_PARAMETER_INV_DT, 0, -800, S4_ERROR_ARGUMENT, "kernel.inv_dt[0] = -800 "},
        {S4_PARAMETER_A_REAL, 6, 1000.5, S4_ERROR_NOT_FINITE, "kernel.A_real[6] = 1000.5 "},
    };
    const layer_shape shape = {.d_model = 3, .d_state = 8, .rank = 1, .plain_transforms = 1};
    s4_layer *layer = layer_random(&shape, 4);
    const s4_problem problem = problem_of_set_up(of, layer, 16);
    session s = session_open(context, &problem);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("%s, case %d", of->name, (int)i);
        double *value = layer_data(layer, cases[i].which) + cases[i].index, was = *value;
        *value = cases[i].value;
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        must_refuse(s4_plan_refresh(s.plan, layer, s.workspace), cases[i].status, cases[i].word);
        *value = was;
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        must(s4_plan_refresh(s.plan, layer, s.workspace));
    }
    session_close(&s);
    s4_layer_destroy(layer);
}

Test(setup_place, wrong_parameters)
{
    require_gpu();
    s4_context *context = context_open();
    for (int i = 0; i < SET_UPS; i++) refuse_wrong_parameters(context, &set_ups[i]);
    s4_context_destroy(context);
}

/* Lambda = 0, refused as such; and a C~ that has no way back to C, told by its channel. */
Test(setup_place, singular)
{
    require_gpu();
    s4_context *context = context_open();
    const layer_shape shape = {.d_model = 3, .d_state = 6, .rank = 1,
                               .dt_transform = S4_TRANSFORM_NONE, .real_transform = S4_TRANSFORM_NONE,
                               .imag_transform = S4_TRANSFORM_NONE};
    for (int i = 0; i < 2 * SET_UPS; i++) {
        const set_up *of = &set_ups[i / 2];
        const int is_zero = i % 2 == 0;
        about("%s, Lambda %s", of->name, is_zero ? "0" : "nearly 0");
        s4_layer *layer = layer_random(&shape, 6);
        int64_t count = layer_count(layer, S4_PARAMETER_C);
        layer_write_c(layer, numbers_copy(count, layer_data(layer, S4_PARAMETER_C)), 10);
        for (int64_t n = 2 * 3; n < 3 * 3; n++) {
            layer_data(layer, S4_PARAMETER_A_REAL)[n] = is_zero ? 0 : 1e-17;
            layer_data(layer, S4_PARAMETER_A_IMAG)[n] = 0;
            layer_data(layer, S4_PARAMETER_P)[2 * n] = layer_data(layer, S4_PARAMETER_P)[2 * n + 1] = 0;
        }
        must(s4_layer_changed(layer, S4_PARAMETER_ALL));
        const s4_problem problem = problem_of_set_up(of, layer, 13);
        session s = session_open(context, &problem);
        must_refuse(s4_plan_refresh(s.plan, layer, s.workspace), S4_ERROR_SINGULAR,
                    is_zero ? "copy 2, mode 0" : "channel 2: no C from C~");
        session_close(&s);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}
