/*
 * What nobody wants costs nothing: a call skips the operations that only make gradients that were not asked for, a plan
 * of frozen parameters does not have them at all, nor their memory; and what is asked for keeps its bits.
 */
#include <stdio.h>
#include <stdlib.h>

#include "expect.h"
#include "layers.h"
#include "place.h"
#include "session.h"

enum { B = 3, H = 4, T = 19, COUNT = B * H * T };

#define BIT(parameter) (1u << S4_PARAMETER_##parameter)
#define KERNEL_PARAMETERS (S4_PARAMETER_ALL & ~BIT(D)) /* all that come through the kernel */

static const struct {
    char name[24];
    layer_shape shape;
    int states;
} kinds[] = {
    {"dplr", {.d_model = H, .d_state = 6, .rank = 2, .n_ssm = 2, .plain_transforms = 1}, 0},
    {"dplr with states", {.d_model = H, .d_state = 4, .rank = 1, .plain_transforms = 1}, 1},
    {"dplr, many options",
     {.d_model = H, .d_state = 4, .rank = 1, .channels = 2, .bidirectional = 1, .dt_untied = 1, .plain_transforms = 1}, 0},
    {"diagonal", {.mode = S4_MODE_DIAG, .discretisation = S4_ZOH, .d_model = H, .d_state = 6, .plain_transforms = 1}, 0},
    {"diagonal with states",
     {.mode = S4_MODE_DIAG, .discretisation = S4_BILINEAR, .d_model = H, .d_state = 4, .n_ssm = 2, .channels = 2,
      .plain_transforms = 1}, 1},
};
#define KINDS ((int)(sizeof kinds / sizeof kinds[0]))

/* Memory of NaN: a value that was left over from an earlier call must not pass for one that was made. */
static void *allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    void *pointer = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    return pointer ? memset(pointer, 0xff, bytes) : NULL;
}

static void release(void *user, void *pointer)
{
    (void)user;
    free(pointer);
}

/* Names that progress told. */
typedef struct told {
    int count;
    char name[64][24];
} told;

static int on_progress(void *user, const char *operation, int64_t done, int64_t total)
{
    told *all = user;
    (void)done;
    (void)total;
    if (all->count < 64)
        snprintf(all->name[all->count++], sizeof all->name[0], "%s", operation);
    return 0;
}

/* A layer of a kind with tensors, in a context of its own. */
typedef struct subject {
    told told;
    s4_context *context;
    s4_layer *layer;
    s4_problem problem;
    double *u, *dy, *state, *dstate;
    int64_t states, outputs;
} subject;

/* 0 if the place does not offer the kind. */
static int subject_open(subject *s, int kind)
{
    about("%s", kinds[kind].name);
    *s = (subject){.told = {0}};
    s4_context_options options;
    S4_INIT(&options);
    options.threads = 2;
    options.allocate = allocate;
    options.release = release;
    options.progress = on_progress;
    options.progress_user = &s->told;
    must(s4_context_create(&options, &s->context));
    place_required(s->context);
    s->layer = layer_random(&kinds[kind].shape, (uint64_t)kind);
    layer_make_trainable(s->context, s->layer, T);
    s->problem = problem_of(s->layer, S4_DIRECTION_TRAINING, S4_F64, B, T, T);
    s->problem.states = kinds[kind].states;
    s->problem.threads = 1; /* hundreds of small runs: threads would wait more than work */
    s->outputs = COUNT * layer_options(s->layer).channels;
    random_source random = {(uint64_t)kind};
    s->u = random_samples(&random, COUNT);
    s->dy = random_samples(&random, s->outputs);
    if (kinds[kind].states) {
        s->states = B * H * kinds[kind].shape.d_state;
        s->state = random_samples(&random, s->states);
        s->dstate = random_samples(&random, s->states);
    }
    return session_offered(s->context, &s->problem);
}

static void subject_close(subject *s)
{
    s4_layer_destroy(s->layer);
    s4_context_destroy(s->context);
}

/* Gradients of the parameters in the mask, and of u and x0, or not. */
typedef struct wish {
    unsigned parameters;
    int du, dstate;
} wish;

typedef struct result {
    gradients g;
    double *entering; /* of x0 */
} result;

static s4_status backward(const subject *s, const session *at, wish wanted, result *r)
{
    *r = (result){gradients_zero(s->layer, COUNT), numbers(s->states)};
    s4_backward_io io;
    S4_INIT(&io);
    io.u = s->u;
    io.dy = s->dy;
    io.du = wanted.du ? r->g.du : NULL;
    io.state_in = s->state;
    io.dstate_out = s->dstate;
    io.dstate_in = wanted.dstate && s->states ? r->entering : NULL;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        io.gradients.parameter[p] = wanted.parameters >> p & 1 ? r->g.parameter[p] : NULL;
    return s4_plan_backward(at->plan, s->layer, at->workspace, &io);
}

/* Plan, fresh workspace, refresh and backward of a problem. */
static result run(const subject *s, const s4_problem *problem, wish wanted)
{
    result r;
    session at = session_ready(s->context, problem, s->layer);
    must(backward(s, &at, wanted, &r));
    session_close(&at);
    return r;
}

static const wish everything = {S4_PARAMETER_ALL, 1, 1};

static void expect_wanted_bits(const subject *s, wish wanted, const result *got, const result *all)
{
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        if ((wanted.parameters >> p & 1) && all->g.count[p] > 0)
            expect_same_bits(s4_parameter_name((s4_parameter)p), all->g.count[p], got->g.parameter[p], all->g.parameter[p]);
    if (wanted.du)
        expect_same_bits("du", COUNT, got->g.du, all->g.du);
    if (wanted.dstate && s->states)
        expect_same_bits("gradient of x0", s->states, got->entering, all->entering);
}

/* ---- at run time ------------------------------------------------------------------------------------------------ */

/* Every subset of all that can be asked for, without a budget and in the least memory. The emulation is slow: each of its
 * schedules does a share of its own. */
Test(frozen, what_is_asked_for_keeps_its_bits)
{
    const unsigned share = place_schedule() > 0 ? 3 * (unsigned)place_schedule() % 13 : 0;
    for (int kind = 0; kind < KINDS; kind++) {
        subject s;
        if (subject_open(&s, kind))
            for (int least = 0; least < 2; least++) {
                s4_problem problem = s.problem;
                about("%s", kinds[kind].name);
                const result all = run(&s, &problem, everything);
                if (least) {
                    session at = session_open(s.context, &problem);
                    problem.host_budget = at.info.host_minimum;
                    problem.device_budget = at.info.device_minimum;
                    session_close(&at);
                }
                for (unsigned bits = 0; bits < 4u << S4_PARAMETER_COUNT; bits++) {
                    const wish wanted = {bits & S4_PARAMETER_ALL, (bits >> S4_PARAMETER_COUNT) & 1,
                                         (bits >> S4_PARAMETER_COUNT) >> 1};
                    if ((wanted.dstate && !s.states) || (place_has_gpu() && bits % 13 != share))
                        continue;
                    about("%s%s, parameters 0x%x, %s du, %s x0", kinds[kind].name, least ? " in the least memory" : "",
                          wanted.parameters, wanted.du ? "with" : "no", wanted.dstate ? "with" : "no");
                    const result got = run(&s, &problem, wanted);
                    expect_wanted_bits(&s, wanted, &got, &all);
                }
            }
        subject_close(&s);
    }
}

#define NO_DU " kernel move_kernel spectrum download_du"
#define NO_KERNEL " correlate move_kernel_gradient kernel_backward move_state_sums state_gradients"
#define NO_RAW " move_gradients chain download_gradients"
#define NO_STATE " download_dstate"

static const struct {
    wish wanted;
    char skipped[240]; /* names of operations of backward, a space before each; "*": all */
} wishes[] = {
    {{S4_PARAMETER_ALL, 1, 1}, ""},
    {{0, 0, 0}, "*"},
    {{0, 1, 0}, " upload_u" NO_RAW NO_KERNEL NO_STATE},
    {{BIT(D), 0, 0}, " states_backward upload_state upload_dstate" NO_DU NO_KERNEL NO_STATE},
    {{BIT(D), 1, 0}, NO_KERNEL NO_STATE},
    {{BIT(C), 0, 0}, NO_DU NO_STATE},
    {{BIT(C) | BIT(D), 1, 0}, NO_STATE},
    {{BIT(INV_DT), 0, 0}, NO_DU NO_STATE},
    {{0, 0, 1}, " convolve_backward" NO_RAW NO_DU NO_KERNEL},
};
#define WISHES ((int)(sizeof wishes / sizeof wishes[0]))

static int is_skipped(int row, const char *name)
{
    char word[32];
    const char *list = wishes[row].skipped;
    const size_t length = (size_t)snprintf(word, sizeof word, " %s", name);
    if (!strcmp(list, "*"))
        return 1;
    for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
        if (at[length] == ' ' || !at[length])
            return 1;
    return 0;
}

/* How many operations of backward the plan has for a wish, each as often as it is repeated. */
static int64_t count_operations(const session *at, int row)
{
    const int64_t channels = (H + at->info.block_channels - 1) / at->info.block_channels;
    const int64_t batch = (B + at->info.block_batch - 1) / at->info.block_batch;
    int64_t count = 0;
    for (int64_t i = 0; i < at->info.operations; i++) {
        s4_operation_info o;
        must(s4_plan_operation(at->plan, i, &o));
        if (strcmp(o.phase, "backward") || is_skipped(row, o.name))
            continue;
        count += !strcmp(o.loop, "once") ? 1 : !strcmp(o.loop, "channels") ? channels : channels * batch;
    }
    return count;
}

static int64_t executed(s4_context *context, int64_t *moved)
{
    s4_ledger ledger;
    must(s4_context_ledger(context, &ledger));
    *moved = ledger.moved_to_device + ledger.moved_to_host;
    return ledger.operations[S4_PLACE_CPU] + ledger.operations[S4_PLACE_GPU];
}

Test(frozen, operations_that_nobody_wants_do_not_run)
{
    for (int kind = 0; kind < KINDS; kind++) {
        subject s;
        if (subject_open(&s, kind))
            for (int least = 0; least < 2; least++) {
                about("%s", kinds[kind].name);
                session at = session_open(s.context, &s.problem);
                if (least) {
                    s4_problem problem = s.problem;
                    problem.host_budget = at.info.host_minimum;
                    problem.device_budget = at.info.device_minimum;
                    session_close(&at);
                    at = session_open(s.context, &problem);
                    check(!at.info.resident, "[%s] spectra are kept", about_text());
                }
                must(s4_plan_refresh(at.plan, s.layer, at.workspace));
                for (int i = 0; i < WISHES; i++) {
                    about("%s%s, wish %d", kinds[kind].name, least ? " in the least memory" : "", i);
                    if (wishes[i].wanted.dstate && !wishes[i].wanted.du && !s.states)
                        continue;
                    int64_t moved_before, moved;
                    result r;
                    const int64_t before = executed(s.context, &moved_before);
                    s.told.count = 0;
                    must(backward(&s, &at, wishes[i].wanted, &r));
                    const int64_t count = executed(s.context, &moved) - before;
                    check(count == count_operations(&at, i), "[%s] %lld operations ran, not %lld", about_text(),
                          (long long)count, (long long)count_operations(&at, i));
                    for (int j = 0; j < s.told.count; j++)
                        check(!is_skipped(i, s.told.name[j]), "[%s] progress tells of %s", about_text(), s.told.name[j]);
                    check(i != 1 || moved == moved_before, "[%s] %lld bytes moved for nothing", about_text(),
                          (long long)(moved - moved_before));
                }
                session_close(&at);
            }
        subject_close(&s);
    }
}

/* ---- at plan time ------------------------------------------------------------------------------------------------ */

static int64_t buffer_bytes(const s4_plan *plan, const char *name)
{
    s4_plan_info info;
    int64_t bytes = 0;
    must(s4_plan_describe(plan, &info));
    for (int64_t i = 0; i < info.buffers; i++) {
        s4_buffer_info b;
        must(s4_plan_buffer(plan, i, &b));
        if (!strcmp(b.name, name) && b.bytes > bytes)
            bytes = b.bytes;
    }
    return bytes;
}

static int has_operation(const s4_plan *plan, const char *name)
{
    s4_plan_info info;
    must(s4_plan_describe(plan, &info));
    for (int64_t i = 0; i < info.operations; i++) {
        s4_operation_info o;
        must(s4_plan_operation(plan, i, &o));
        if (!strcmp(o.phase, "backward") && !strcmp(o.name, name))
            return 1;
    }
    return 0;
}

static void expect_report(const s4_plan *plan, unsigned frozen)
{
    for (int format = 0; format < 2; format++) {
        size_t size;
        must(s4_plan_report(plan, (s4_report_format)format, NULL, 0, &size));
        char *text = malloc(size), line[128] = "frozen:";
        cr_assert(text);
        must(s4_plan_report(plan, (s4_report_format)format, text, size, &size));
        if (format == S4_REPORT_JSON)
            snprintf(line, sizeof line, "\"frozen\":\t[");
        for (int p = 0, first = 1; p < S4_PARAMETER_COUNT; p++) {
            if (!(frozen >> p & 1))
                continue;
            const char *name = s4_parameter_name((s4_parameter)p);
            const size_t used = strlen(line);
            if (format == S4_REPORT_JSON)
                snprintf(line + used, sizeof line - used, "%s\"%s\"", first ? "" : ", ", name);
            else
                snprintf(line + used, sizeof line - used, " %s", name);
            first = 0;
        }
        strcat(line, format == S4_REPORT_JSON ? "]" : frozen ? "\n" : " nothing\n");
        check(strstr(text, line) != NULL, "[%s] no \"%s\" in the report: %s", about_text(), line, text);
        free(text);
    }
}

/* Freezing P of a diagonal layer, which has none, freezes nothing. */
static const struct {
    unsigned frozen;
    int kernel; /* a gradient that comes through the kernel is left */
} frozen_sets[] = {{KERNEL_PARAMETERS, 0},
                   {S4_PARAMETER_ALL, 0},
                   {KERNEL_PARAMETERS & ~BIT(C), 1},
                   {BIT(C) | BIT(D), 1},
                   {KERNEL_PARAMETERS & ~BIT(P), -1},
                   {BIT(A_IMAG), 1}};

Test(frozen, a_plan_leaves_out_what_only_they_need)
{
    for (int kind = 0; kind < KINDS; kind++) {
        subject s;
        if (subject_open(&s, kind)) {
            about("%s", kinds[kind].name);
            const result all = run(&s, &s.problem, everything);
            s4_plan *full;
            s4_plan_info full_info;
            must(s4_plan_create(&s.problem, &full));
            must(s4_plan_describe(full, &full_info));
            expect_report(full, 0);
            for (size_t i = 0; i < sizeof frozen_sets / sizeof frozen_sets[0]; i++) {
                const unsigned frozen = frozen_sets[i].frozen;
                const int kernel = frozen_sets[i].kernel < 0 ? kinds[kind].shape.mode == S4_MODE_DPLR : frozen_sets[i].kernel;
                about("%s, 0x%x frozen", kinds[kind].name, frozen);
                s4_problem problem = s.problem;
                problem.frozen = frozen;
                session at = session_open(s.context, &problem);
                cr_assert_eq(at.info.problem.frozen, frozen);
                expect_report(at.plan, frozen);
                static const char *const names[] = {"correlate", "kernel_backward"};
                for (int j = 0; j < 2; j++)
                    check(has_operation(at.plan, names[j]) == kernel, "[%s] %s", about_text(), names[j]);
                check(has_operation(at.plan, "chain") == (frozen != S4_PARAMETER_ALL), "[%s] chain", about_text());
                check(!buffer_bytes(at.plan, "gradient_spectrum") == !kernel, "[%s] gradient_spectrum", about_text());
                check(!buffer_bytes(at.plan, "kernel_gradient") == !kernel, "[%s] kernel_gradient", about_text());
                const int64_t D_bytes = 8 * H * layer_options(s.layer).channels;
                check(kernel || s.states || buffer_bytes(at.plan, "system_gradient") == D_bytes,
                      "[%s] %lld bytes of gradients for D", about_text(),
                      (long long)buffer_bytes(at.plan, "system_gradient"));
                if (kernel)
                    check(at.info.host_peak <= full_info.host_peak && at.info.device_peak <= full_info.device_peak,
                          "[%s] more memory than of all parameters", about_text());
                else
                    check(at.info.host_peak + at.info.device_peak < full_info.host_peak + full_info.device_peak &&
                              at.info.host_minimum <= full_info.host_minimum && at.info.to_host <= full_info.to_host,
                          "[%s] as much memory as of all parameters", about_text());
                result got;
                const wish wanted = {S4_PARAMETER_ALL & ~frozen, 1, 1};
                int64_t before, after;
                (void)executed(s.context, &before);
                const int64_t states = s.states ? B * H * layer_options(s.layer).d_state : 0;
                double *state = states ? numbers(states) : NULL;
                session_forward(&at, s.layer, 0, 0, s.u, state, state); /* with its refresh */
                must(backward(&s, &at, wanted, &got));
                (void)executed(s.context, &after);
                expect_wanted_bits(&s, wanted, &got, &all);
                check(after - before == at.info.to_device + at.info.to_host, "[%s] %lld bytes moved, not %lld",
                      about_text(), (long long)(after - before), (long long)(at.info.to_device + at.info.to_host));
                session_close(&at);
            }
            s4_plan_destroy(full);
        }
        subject_close(&s);
    }
}

Test(frozen, refused)
{
    subject s;
    s4_plan *plan;
    if (!subject_open(&s, 0))
        cr_skip_test("%s", s4_last_error());
    s4_problem problem = s.problem;
    problem.frozen = 1u << S4_PARAMETER_COUNT;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_ARGUMENT, "frozen is 0x80");
    problem.frozen = ~0u;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_ARGUMENT, "frozen");
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        about("%s", s4_parameter_name((s4_parameter)p));
        problem.frozen = 1u << p;
        session at = session_ready(s.context, &problem, s.layer);
        result r;
        must_refuse(backward(&s, &at, everything, &r), S4_ERROR_ARGUMENT, s4_parameter_name((s4_parameter)p));
        for (int64_t i = 0; i < COUNT; i++)
            check(r.g.du[i] == 0, "[%s] du was written", about_text());
        session_close(&at);
    }
    subject_close(&s);
}
