/*
 * Contractions against the loop over all indices. Inputs are small whole numbers, so that every sum is exact in both
 * dtypes and results are compared bit by bit; budgets and threads must not change a bit of any sum that is not exact.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "allocations.h"
#include "expect.h"
#include "numbers.h"
#include "tolerances.h"

#define OPERANDS S4_CONTRACT_OPERANDS_MAX
#define INDICES S4_CONTRACT_INDICES_MAX
#define KINDS 4 /* dtype, real or complex */

/* ---- a contraction and its tensors --------------------------------------------------------------------------- */

/* An expression without spaces, and the size of every letter. */
typedef struct subject {
    char expression[80];
    int operands;
    char term[OPERANDS + 1][INDICES + 1]; /* the last one: the result */
    int64_t size[128];                    /* by letter */
    int64_t shape[OPERANDS][INDICES];
    const int64_t *shapes[OPERANDS];
    int64_t count[OPERANDS + 1];
} subject;

/* sizes: "a=3 b=1". */
static subject subject_of(const char *expression, const char *sizes)
{
    subject s = {.operands = 1};
    snprintf(s.expression, sizeof s.expression, "%s", expression);
    for (const char *at = sizes; *at; at++)
        if (at[1] == '=')
            s.size[(int)*at] = atoll(at + 2);
    int term = 0, used = 0;
    for (const char *at = expression; *at; at++) {
        if (*at == ',') {
            term = s.operands++;
            used = 0;
        } else if (*at == '-') {
            at++;
            term = OPERANDS;
            used = 0;
        } else {
            s.term[term][used++] = *at;
        }
    }
    return s;
}

/* Fills what follows from terms and sizes; s stays where it is. */
static void subject_measure(subject *s)
{
    for (int k = 0; k <= OPERANDS; k++) {
        s->count[k] = 1;
        for (int d = 0; s->term[k][d]; d++) {
            const int64_t size = s->size[(int)s->term[k][d]];
            s->count[k] *= size;
            if (k < OPERANDS)
                s->shape[k][d] = size;
        }
        if (k < OPERANDS)
            s->shapes[k] = s->shape[k];
    }
}

static int64_t offset_of(const subject *s, int term, const int64_t *position)
{
    int64_t offset = 0;
    for (const char *at = s->term[term]; *at; at++)
        offset = offset * s->size[(int)*at] + position[(int)*at];
    return offset;
}

/* result = the loop over all indices, in long double; operands as doubles, complex as pairs. */
static double *naive(const subject *s, int is_complex, double *const *operands)
{
    char letters[INDICES + 1] = "";
    for (int k = 0; k < s->operands; k++)
        for (const char *at = s->term[k]; *at; at++)
            if (!strchr(letters, *at))
                letters[strlen(letters)] = *at;
    const int parts = is_complex ? 2 : 1, indices = (int)strlen(letters);
    const int64_t count = parts * s->count[OPERANDS];
    long double *sum = calloc((size_t)count + 1, sizeof *sum);
    int64_t position[128] = {0}, all = 1;
    for (int i = 0; i < indices; i++)
        all *= s->size[(int)letters[i]];
    for (int64_t n = 0; n < all; n++) {
        long double re = 1, im = 0;
        for (int k = 0; k < s->operands; k++) {
            const double *value = operands[k] + parts * offset_of(s, k, position);
            const long double x = value[0], y = is_complex ? value[1] : 0, old = re;
            re = is_complex ? re * x - im * y : re * x;
            im = is_complex ? old * y + im * x : 0;
        }
        const int64_t at = parts * offset_of(s, OPERANDS, position);
        sum[at] += re;
        if (is_complex)
            sum[at + 1] += im;
        for (int i = indices - 1; i >= 0; i--) {
            const int letter = letters[i];
            if (++position[letter] < s->size[letter])
                break;
            position[letter] = 0;
        }
    }
    double *result = numbers(count);
    for (int64_t i = 0; i < count; i++)
        result[i] = (double)sum[i];
    free(sum);
    return result;
}

static double *whole_numbers(random_source *random, int64_t count)
{
    double *values = numbers(count);
    for (int64_t i = 0; i < count; i++)
        values[i] = floor(random_uniform(random, -3, 4));
    return values;
}

/* ---- running one ----------------------------------------------------------------------------------------------- */

typedef struct hook_log {
    long calls;
    int fails;
    int64_t current, peak, last;
} hook_log;

static void *hook_allocate(void *user, size_t bytes, size_t alignment)
{
    hook_log *log = user;
    log->calls++;
    void *pointer = log->fails ? NULL : aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (!pointer)
        return NULL;
    memset(pointer, 0xff, bytes); /* NaN where it is read before it is written */
    log->last = (int64_t)bytes;
    log->current += (int64_t)bytes;
    if (log->current > log->peak)
        log->peak = log->current;
    return pointer;
}

static void hook_release(void *user, void *pointer)
{
    hook_log *log = user;
    log->current -= log->last; /* one block at a time */
    free(pointer);
}

typedef struct progress_log {
    int64_t calls, cancel_at, total;
} progress_log;

static int on_progress(void *user, const char *operation, int64_t done, int64_t total)
{
    progress_log *log = user;
    log->calls++;
    check(!strcmp(operation, "contract") && done == log->calls && done <= total, "progress: %s %lld of %lld", operation,
          (long long)done, (long long)total);
    log->total = total;
    return log->calls == log->cancel_at;
}

static s4_context *context_of(hook_log *log, progress_log *progress)
{
    s4_context_options options;
    S4_INIT(&options);
    options.threads = 3;
    if (log) {
        options.allocate = hook_allocate;
        options.release = hook_release;
        options.allocator_user = log;
    }
    if (progress) {
        options.progress = on_progress;
        options.progress_user = progress;
    }
    s4_context *context;
    must(s4_context_create(&options, &context));
    return context;
}

static s4_contraction_options options_of(int kind, int threads, int64_t budget)
{
    s4_contraction_options options;
    S4_INIT(&options);
    options.dtype = kind & 1 ? S4_F64 : S4_F32;
    options.is_complex = kind >> 1;
    options.threads = threads;
    options.budget = budget;
    return options;
}

/* Operands of a subject in the dtype of a kind, and a result. */
typedef struct tensors {
    int kind;
    const void *operand[OPERANDS];
    double *values[OPERANDS];
    int64_t count; /* reals of the result */
    void *result;
} tensors;

static tensors tensors_of(const subject *s, int kind, random_source *random,
                          double *(*values)(random_source *, int64_t))
{
    const s4_dtype dtype = kind & 1 ? S4_F64 : S4_F32;
    const int parts = 1 + (kind >> 1);
    tensors t = {.kind = kind, .count = parts * s->count[OPERANDS]};
    for (int k = 0; k < s->operands; k++) {
        t.values[k] = values(random, parts * s->count[k]);
        t.operand[k] = tensor_of(dtype, parts * s->count[k], t.values[k]);
    }
    t.result = tensor_zero(dtype, t.count);
    return t;
}

static double *result_of(const tensors *t)
{
    return values_of(t->kind & 1 ? S4_F64 : S4_F32, t->count, t->result);
}

static void spoil(const tensors *t)
{
    memset(t->result, 0xff, (size_t)t->count * (t->kind & 1 ? 8 : 4));
}

static s4_contraction_info info_of(const subject *s, const s4_contraction_options *options)
{
    s4_contraction *contraction;
    s4_contraction_info info;
    must(s4_contraction_create(s->expression, s->shapes, options, &contraction));
    must(s4_contraction_describe(contraction, &info));
    s4_contraction_destroy(contraction);
    return info;
}

/* One budget: what the plan says is what happens. */
static double *run_budget(const subject *s, const tensors *t, int threads, int64_t budget)
{
    hook_log log = {0};
    progress_log progress = {0};
    s4_context *context = context_of(&log, &progress);
    const s4_contraction_options options = options_of(t->kind, threads, budget);
    s4_contraction *contraction;
    s4_contraction_info info;
    must(s4_contraction_create(s->expression, s->shapes, &options, &contraction));
    must(s4_contraction_describe(contraction, &info));
    check(!budget || info.peak <= budget, "[%s] peak %lld over the budget %lld", about_text(), (long long)info.peak,
          (long long)budget);
    check(info.minimum <= info.peak && info.result_count == s->count[OPERANDS], "[%s] the report is wrong",
          about_text());
    spoil(t);
    must(s4_contraction_run(contraction, context, t->operand, t->result, NULL));
    check(log.peak == info.peak && log.current == 0 && log.calls == (info.peak > 0),
          "[%s] planned %lld bytes, hooks saw %lld in %ld calls", about_text(), (long long)info.peak,
          (long long)log.peak, log.calls);
    check(progress.calls == info.chunks && progress.total == info.chunks, "[%s] %lld products planned, %lld done",
          about_text(), (long long)info.chunks, (long long)progress.calls);
    double *first = result_of(t);

    const long calls = log.calls;
    char *scratch = aligned_alloc(64, (size_t)(info.peak + 127) / 64 * 64);
    cr_assert(scratch != NULL);
    memset(scratch, 0xff, (size_t)info.peak);
    memset(scratch + info.peak, 0x5a, 64);
    spoil(t);
    progress.calls = 0;
    must(s4_contraction_run(contraction, context, t->operand, t->result, scratch));
    check(log.calls == calls, "[%s] memory was taken though there was scratch", about_text());
    for (int i = 0; i < 64; i++)
        check(scratch[info.peak + i] == 0x5a, "[%s] byte %d after the scratch was written", about_text(), i);
    free(scratch);
    if (t->count)
        expect_same_bits("with scratch", t->count, result_of(t), first);
    s4_contraction_destroy(contraction);
    s4_context_destroy(context);
    return first;
}

/* Budgets from the smallest up, with 1 .. 3 threads; all give `expected`. */
static void run_budgets(const subject *s, const tensors *t, const double *expected)
{
    char needed[32], given[32];
    const s4_contraction_options none = options_of(t->kind, 1, 0);
    const s4_contraction_info info = info_of(s, &none);
    const int steps = 7;
    for (int step = -1; step <= steps; step++) {
        const int64_t budget = step < 0 ? 0 : info.minimum + (info.peak - info.minimum) * step / steps;
        const int threads = 1 + (step + 1) % 3;
        const double *got = run_budget(s, t, threads, budget);
        if (t->count)
            expect_same_bits(step < 0 ? "without a budget" : "within a budget", t->count, got, expected);
    }
    if (info.minimum < 2)
        return;
    const s4_contraction_options less = options_of(t->kind, 1, info.minimum - 1);
    s4_contraction *contraction = (s4_contraction *)(uintptr_t)&less;
    snprintf(needed, sizeof needed, "%lld", (long long)info.minimum);
    snprintf(given, sizeof given, "%lld", (long long)info.minimum - 1);
    must_refuse(s4_contraction_create(s->expression, s->shapes, &less, &contraction), S4_ERROR_OUT_OF_BUDGET, needed);
    check(strstr(s4_last_error(), given) != NULL, "[%s] \"%s\" does not say %s", about_text(), s4_last_error(), given);
    check(contraction == NULL, "[%s] a contraction after a failure", about_text());
}

/* All kinds of number of one subject, exactly. */
static void check_subject(subject *s, random_source *random)
{
    subject_measure(s);
    for (int kind = 0; kind < KINDS; kind++) {
        about("%s, %s, %s", s->expression, kind & 1 ? "f64" : "f32", kind >> 1 ? "complex" : "real");
        const tensors t = tensors_of(s, kind, random, whole_numbers);
        run_budgets(s, &t, naive(s, kind >> 1, t.values));
    }
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *expression, *sizes;
} rows[] = {
    {"hmn,chn->chm", "h=5 m=3 n=4 c=2"},
    {"ab,bc->ac", "a=9 b=7 c=11"},
    {"ba,cb->ca", "a=9 b=7 c=11"},
    {"bac,dcb->bda", "a=6 b=3 c=5 d=7"},
    {"acb,bdc->dba", "a=6 b=3 c=5 d=7"},
    {"ab,ab->ab", "a=5 b=6"},
    {"ab,ba->ba", "a=5 b=6"},
    {"ab,ba->", "a=5 b=6"},
    {"n,n->", "n=700"}, /* longer than what is packed at a time */
    {"kab,bkc->cba", "k=300 a=5 b=2 c=6"},
    {"ab,b->a", "a=30 b=9"},
    {"b,ab->a", "a=30 b=9"},
    {"a,b->ab", "a=7 b=9"},
    {"a,b->ba", "a=7 b=9"},
    {"a,b->", "a=7 b=9"},        /* both summed alone */
    {"pab,bqc->ca", "p=3 a=4 b=5 q=2 c=6"},
    {"apbq,bc->ac", "p=3 q=2 a=4 b=5 c=6"},
    {"aAbB,BbCc->cCaA", "a=2 A=3 b=4 B=2 c=3 C=5"},
    {",a->a", "a=5"},
    {",->", ""},
    {"ab,->ba", "a=3 b=4"},
    {"ab,bc->ac", "a=1 b=1 c=1"},
    {"hmn,chn->chm", "h=1 m=3 n=1 c=2"},
    {"hmn,chn->chm", "h=0 m=3 n=4 c=2"}, /* empty */
    {"hmn,chn->chm", "h=5 m=3 n=0 c=2"}, /* nothing to sum: zeros */
    {"pab,bc->ac", "p=0 a=3 b=2 c=2"},
    {"n,n->", "n=0"},
    {"rhn,rhm,bhm->bhn", "r=2 h=5 n=7 m=6 b=3"},
    {"ab,bc,cd->ad", "a=5 b=6 c=4 d=7"},
    {"ab,bc,cd->da", "a=5 b=6 c=4 d=7"},
    {"a,a,a->", "a=40"},
    {"a,a,a->a", "a=40"},
    {"a,b,c->cab", "a=4 b=5 c=6"},
    {"ab,cd,ef->", "a=2 b=3 c=4 d=2 e=3 f=2"},
    {"ab,bc,ca->", "a=5 b=6 c=4"},
    {"ak,bk,ck->abc", "a=5 b=6 c=4 k=300"},
    {"pab,bqc,cdr->ad", "p=2 q=3 r=2 a=5 b=6 c=4 d=3"},
    {"ab,,bc->ac", "a=5 b=6 c=4"},
    {"ab,bc,cd->ad", "a=5 b=0 c=4 d=7"},
    {"ab,bc,cd->ad", "a=5 b=6 c=4 d=0"},
    {"ab,bc,cd->ad", "a=1 b=1 c=1 d=1"},
    {"abcdefghijklmnop,ponmlkjihgfedcba->ponm", "a=1 b=2 c=1 d=1 e=2 f=1 g=1 h=1 i=2 j=1 k=1 l=1 m=2 n=1 o=3 p=2"},
};

Test(contract, against_the_loop)
{
    random_source random = {1};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        subject s = subject_of(rows[i].expression, rows[i].sizes);
        check_subject(&s, &random);
    }
}

static int pick(random_source *random, int count) { return (int)random_uniform(random, 0, count); }

/* Puts a letter at a random place of a term. */
static void insert(random_source *random, char *term, char letter)
{
    const int length = (int)strlen(term), at = pick(random, length + 1);
    memmove(term + at + 1, term + at, (size_t)(length - at + 1));
    term[at] = letter;
}

/* Every index in a random set of operands, in the result or not. */
static subject random_subject(random_source *random, int operands)
{
    static const char letters[] = "aBcDeFgH";
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 6};
    subject s = {.operands = operands};
    const int indices = 1 + pick(random, 6);
    for (int i = 0; i < indices; i++) {
        const char letter = letters[i];
        s.size[(int)letter] = sizes[pick(random, indices > 4 ? 4 : 6)];
        const int where = 1 + pick(random, (1 << operands) - 1);
        for (int k = 0; k < operands; k++)
            if (where >> k & 1)
                insert(random, s.term[k], letter);
        if (pick(random, 2))
            insert(random, s.term[OPERANDS], letter);
    }
    snprintf(s.expression, sizeof s.expression, "%s,%s%s%s->%s", s.term[0], s.term[1], operands > 2 ? "," : "",
             s.term[2], s.term[OPERANDS]);
    return s;
}

Test(contract, random_expressions)
{
    random_source random = {2};
    for (int i = 0; i < 60; i++) {
        subject s = random_subject(&random, 2 + i % 2);
        check_subject(&s, &random);
    }
}

/* Sums that are not exact: right to rounding, and the same bits whatever the budget and the threads. */
Test(contract, rounding)
{
    static const struct {
        const char *expression, *sizes;
    } cases[] = {
        {"hmn,chn->chm", "h=6 m=17 n=300 c=5"},
        {"pam,bmq->ba", "p=3 a=21 m=37 b=18 q=2"},
        {"rhn,rhm,bhm->bhn", "r=2 h=6 n=9 m=11 b=5"},
    };
    random_source random = {3};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        subject s = subject_of(cases[i].expression, cases[i].sizes);
        subject_measure(&s);
        for (int kind = 0; kind < KINDS; kind++) {
            about("%s, %s, %s", s.expression, kind & 1 ? "f64" : "f32", kind >> 1 ? "complex" : "real");
            const tensors t = tensors_of(&s, kind, &random, random_samples);
            const double *first = run_budget(&s, &t, 1, 0);
            expect_close("result", t.count, first, naive(&s, kind >> 1, t.values),
                         kind & 1 ? TOLERANCE_ROUNDING : ROUNDING_F32, 0);
            run_budgets(&s, &t, first);
        }
    }
}

/* In single precision the 1 is lost in the first sum. */
Test(contract, sums_are_in_double)
{
    const float x[] = {1e8f, 1, -1e8f}, ones[] = {1, 1, 1};
    const int64_t shape[] = {3};
    const int64_t *const shapes[] = {shape, shape, shape};
    const void *const operands[] = {x, ones, ones};
    s4_context *context = context_of(NULL, NULL);
    const s4_contraction_options options = options_of(0, 1, 0);
    float sum[3] = {0};
    must(s4_contract(context, "a,a->", &options, shapes, operands, sum));
    cr_assert_eq(sum[0], 1);
    must(s4_contract(context, "a,b->", &options, shapes, operands, sum));
    cr_assert_eq(sum[0], 3);

    /* The intermediate result, too: 2^24 + 1 and -2^24. */
    const float matrix[] = {0x1p24f, 1, -0x1p24f, 0};
    const int64_t square[] = {2, 2}, *const three[] = {square, square, square};
    const void *const others[] = {matrix, ones, ones};
    must(s4_contract(context, "ab,b,a->", &options, three, others, sum));
    cr_assert_eq(sum[0], 1);
    s4_context_destroy(context);
}

/* What is not finite goes where the loop takes it, and no further. */
Test(contract, not_finite)
{
    static const char *const expressions[] = {"hmn,chn->chm", "nab,bcn->ca", "ab,bc,bd->adb"};
    const double bad[] = {NAN, INFINITY, -INFINITY};
    random_source random = {4};
    for (int i = 0; i < 3 * 3 * KINDS; i++) {
        const int kind = i / 9;
        subject s = subject_of(expressions[i / 3 % 3], "h=3 m=5 n=6 c=2 a=5 b=4 d=3");
        subject_measure(&s);
        about("%s with %g, kind %d", s.expression, bad[i % 3], kind);
        tensors t = tensors_of(&s, kind, &random, whole_numbers);
        t.values[1][3] = bad[i % 3];
        t.operand[1] = tensor_of(kind & 1 ? S4_F64 : S4_F32, (1 + (kind >> 1)) * s.count[1], t.values[1]);
        const double *got = run_budget(&s, &t, 1, 0), *expected = naive(&s, kind >> 1, t.values);
        int64_t others = 0;
        for (int64_t n = 0; n < t.count; n++) {
            check(isnan(got[n]) ? isnan(expected[n]) : got[n] == expected[n], "[%s] [%lld] is %g, not %g",
                  about_text(), (long long)n, got[n], expected[n]);
            others += !isfinite(expected[n]);
        }
        check(others > 0 && others < t.count, "[%s] the case says nothing", about_text());
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static const char *const orders[] = {"rhn,rhm,bhm->bhn", "rhn,bhm,rhm->bhn", "rhm,rhn,bhm->bhn",
                                     "rhm,bhm,rhn->bhn", "bhm,rhn,rhm->bhn", "bhm,rhm,rhn->bhn"};

/* sum over r and m, by the order that a person would take. */
static double *low_rank(const subject *s, double *const *values)
{
    const double *rhn = NULL, *rhm = NULL, *bhm = NULL;
    for (int k = 0; k < 3; k++) {
        if (!strcmp(s->term[k], "rhn"))
            rhn = values[k];
        else if (!strcmp(s->term[k], "rhm"))
            rhm = values[k];
        else
            bhm = values[k];
    }
    const int64_t R = s->size['r'], H = s->size['h'], N = s->size['n'], M = s->size['m'], B = s->size['b'];
    double *result = numbers(2 * B * H * N);
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < H; h++)
            for (int64_t r = 0; r < R; r++) {
                double re = 0, im = 0;
                for (int64_t m = 0; m < M; m++) {
                    const double *x = rhm + 2 * ((r * H + h) * M + m), *y = bhm + 2 * ((b * H + h) * M + m);
                    re += x[0] * y[0] - x[1] * y[1];
                    im += x[0] * y[1] + x[1] * y[0];
                }
                for (int64_t n = 0; n < N; n++) {
                    const double *x = rhn + 2 * ((r * H + h) * N + n);
                    double *z = result + 2 * ((b * H + h) * N + n);
                    z[0] += x[0] * re - x[1] * im;
                    z[1] += x[0] * im + x[1] * re;
                }
            }
    return result;
}

/* The wrong order needs (r,b,h,n,m) or (h,n,m); the right one (r,b,h), in all orders of the operands. */
Test(contract, three_in_the_order_that_needs_least)
{
    const int64_t limit = 8 << 20;
    random_source random = {5};
    for (int i = 0; i < 6; i++) {
        subject s = subject_of(orders[i], "h=256 n=64 m=64 r=2 b=16");
        subject_measure(&s);
        for (int kind = 2; kind < KINDS; kind++) {
            about("%s, %s", s.expression, kind & 1 ? "f64" : "f32");
            const tensors t = tensors_of(&s, kind, &random, whole_numbers);
            const double *expected = low_rank(&s, t.values);
            const s4_contraction_options options = options_of(kind, 2, limit), none = options_of(kind, 2, 0);
            const s4_contraction_info info = info_of(&s, &options);
            check(info_of(&s, &none).peak <= limit, "[%s] more than 8 MiB without a budget", about_text());
            check(!strchr(s.term[info.first], 'n') && !strchr(s.term[info.second], 'n'), "[%s] %d and %d come first",
                  about_text(), info.first, info.second);
            check(info.intermediate_count <= 2 * 16 * 256 && info.multiplications == 2 * 2 * 16 * 256 * 64,
                  "[%s] %lld elements between, %lld multiplications", about_text(),
                  (long long)info.intermediate_count, (long long)info.multiplications);
            expect_same_bits("within 8 MiB", t.count, run_budget(&s, &t, 2, limit), expected);
            expect_same_bits("in the least", t.count, run_budget(&s, &t, 2, info.minimum), expected);
        }
    }
}

/* Of intermediate results of one size, the one with less work. */
Test(contract, three_of_equal_size)
{
    static const struct {
        const char *expression;
        int first, second;
    } cases[] = {{"ab,bc,c->a", 1, 2}, {"ab,c,bc->a", 1, 2}, {"c,bc,ab->a", 0, 1}, {"c,ab,bc->a", 0, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        subject s = subject_of(cases[i].expression, "a=2 b=6 c=3");
        subject_measure(&s);
        about("%s", s.expression);
        const s4_contraction_options options = options_of(1, 1, 0);
        const s4_contraction_info info = info_of(&s, &options);
        check(info.intermediate_count == 6 && info.multiplications == 6 * 3 + 2 * 6,
              "[%s] %lld elements between, %lld multiplications", about_text(), (long long)info.intermediate_count,
              (long long)info.multiplications);
        check(info.first == cases[i].first && info.second == cases[i].second, "[%s] %d and %d come first",
              about_text(), info.first, info.second);
    }
}

/* The intermediate result of three is cut where a budget asks for it: over the batch index first. */
Test(contract, intermediate_in_chunks)
{
    subject s = subject_of("rhn,rhm,bhm->bnh", "h=64 n=20 m=20 r=7 b=5");
    subject_measure(&s);
    about("%s", s.expression);
    const s4_contraction_options none = options_of(1, 1, 0);
    s4_contraction_info info = info_of(&s, &none), cut;
    cr_assert_eq(info.intermediate_count, 7 * 5 * 64);
    cr_assert_eq(info.chunks, 2);
    const s4_contraction_options less = options_of(1, 1, info.peak / 16);
    cut = info_of(&s, &less);
    cr_assert(cut.intermediate_count < info.intermediate_count && cut.intermediate_count % (7 * 5) == 0);
    cr_assert(2 * 8 * cut.intermediate_count <= info.peak / 16, "no room for the products");
    cr_assert(cut.chunks > 2 && cut.peak <= info.peak / 16 && cut.minimum == info.minimum);
    cr_assert_eq(cut.multiplications, info.multiplications);
}

/* A plan is arithmetic: nothing of this size is touched, and what cannot be is refused at once. */
Test(contract, plans_take_no_memory)
{
    subject s = subject_of("ab,bc,ca->", "a=1048576 b=1048576 c=1048576");
    subject_measure(&s);
    about("%s", s.expression);
    const s4_contraction_options none = options_of(0, 1, 0), little = options_of(0, 1, 8 << 20);
    const s4_contraction_info info = info_of(&s, &none);
    cr_assert_eq(info.intermediate_count, (int64_t)1 << 40);
    cr_assert(info.minimum >= (int64_t)8 << 40);
    s4_contraction *contraction;
    must_refuse(s4_contraction_create(s.expression, s.shapes, &little, &contraction), S4_ERROR_OUT_OF_BUDGET,
                "8388608 were given");
    /* A batch or free index of the same size costs nothing beyond its blocks. */
    s = subject_of("ab,ab->ab", "a=1048576 b=1048576");
    subject_measure(&s);
    cr_assert(info_of(&s, &little).peak <= 8 << 20);
    s = subject_of("ab,bc->ac", "a=1048576 b=1048576 c=1048576");
    subject_measure(&s);
    cr_assert(info_of(&s, &little).peak <= 8 << 20);
    cr_assert_eq(info_of(&s, &little).multiplications, (int64_t)1 << 57); /* counted to there */
}

Test(contract, scratch_and_failing_memory)
{
    subject s = subject_of("rhn,rhm,bhm->bhn", "r=2 h=5 n=7 m=6 b=3");
    subject_measure(&s);
    about("%s", s.expression);
    random_source random = {6};
    const tensors t = tensors_of(&s, 3, &random, whole_numbers);
    hook_log log = {0};
    s4_context *context = context_of(&log, NULL);
    const s4_contraction_options options = options_of(3, 3, 0);
    s4_contraction *contraction;
    s4_contraction_info info;
    must(s4_contraction_create(s.expression, s.shapes, &options, &contraction));
    must(s4_contraction_describe(contraction, &info));
    must(s4_contraction_run(contraction, context, t.operand, t.result, NULL));
    s4_memory_use use;
    must(s4_context_memory(context, S4_PLACE_CPU, &use));
    cr_assert(use.current == 0 && use.peak == info.peak);

    log.fails = 1;
    must_refuse(s4_contraction_run(contraction, context, t.operand, t.result, NULL), S4_ERROR_MEMORY, "memory");
    must_refuse(s4_contract(context, s.expression, &options, s.shapes, t.operand, t.result), S4_ERROR_MEMORY, "memory");
    char *scratch = aligned_alloc(64, (size_t)(info.peak + 127) / 64 * 64);
    cr_assert(scratch != NULL);
    must_refuse(s4_contraction_run(contraction, context, t.operand, t.result, scratch + 8), S4_ERROR_ARGUMENT,
                "scratch");
    allocations_begin();
    const s4_status status = s4_contraction_run(contraction, context, t.operand, t.result, scratch);
    const long count = allocations_end();
    must(status);
    cr_assert_eq(count, 0, "%ld allocations", count);
    free(scratch);
    if (allocations_supported()) {
        s4_contraction *none = contraction;
        allocations_fail(1);
        const s4_status failed = s4_contraction_create(s.expression, s.shapes, &options, &none);
        cr_assert(allocations_failed());
        cr_assert(failed == S4_ERROR_MEMORY && none == NULL);
    }
    s4_contraction_destroy(contraction);
    s4_context_destroy(context);
}

Test(contract, progress_and_cancel)
{
    subject s = subject_of("hmn,chn->chm", "h=9 m=5 n=6 c=4");
    subject_measure(&s);
    about("%s", s.expression);
    random_source random = {7};
    const tensors t = tensors_of(&s, 1, &random, whole_numbers);
    progress_log progress = {.cancel_at = 2};
    hook_log log = {0};
    s4_context *context = context_of(&log, &progress);
    s4_contraction_options options = options_of(1, 1, 0);
    cr_assert_eq(info_of(&s, &options).chunks, 1);
    options.budget = info_of(&s, &options).peak / 3;
    const s4_contraction_info info = info_of(&s, &options);
    cr_assert(info.chunks > 2 && info.chunks <= 9, "the batch index is cut first");
    must_refuse(s4_contract(context, s.expression, &options, s.shapes, t.operand, t.result), S4_ERROR_CANCELLED,
                "cancelled");
    cr_assert(progress.calls == 2 && log.current == 0);
    s4_context_destroy(context);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

Test(contract, spaces)
{
    const int64_t two[] = {2, 2};
    const int64_t *const shapes[] = {two, two};
    const double x[] = {1, 2, 3, 4}, y[] = {5, 6, 7, 8};
    const void *const operands[] = {x, y};
    double z[4];
    s4_context *context = context_of(NULL, NULL);
    const s4_contraction_options options = options_of(1, 0, 0);
    must(s4_contract(context, " a b , b c -> a  c ", &options, shapes, operands, z));
    cr_assert(z[0] == 19 && z[1] == 22 && z[2] == 43 && z[3] == 50);
    s4_context_destroy(context);
}

#define BIG ((int64_t)1 << 40)

static const struct {
    const char *expression;
    int64_t shape[OPERANDS][3];
    const char *word;
} wrong[] = {
    {"ab,bc->ac", {{2, 3}, {4, 5}}, "index 'b' is 3 in operand 0 and 4 in operand 1"},
    {"ab,bc,cb->a", {{2, 3}, {3, 4}, {4, 2}}, "index 'b' is 3 in operand 0 and 2 in operand 2"},
    {"ab,bc->ax", {{2, 3}, {3, 5}}, "index 'x' of the result is in no operand"},
    {"aab,bc->ac", {{2, 2, 3}, {3, 5}}, "index 'a' is twice in operand 0"},
    {"ab,bcb->ac", {{2, 3}, {3, 5, 3}}, "index 'b' is twice in operand 1"},
    {"ab,bc->aca", {{2, 3}, {3, 5}}, "index 'a' is twice in the result"},
    {"ab,bc->aC", {{2, 3}, {3, 5}}, "'C'"},
    {"ab,bc->ac", {{2, 3}, {3, -5}}, "operand 1: size of index 'c' is -5"},
    {"ab->a", {{2, 3}}, "1 operand"},
    {"a,b,c,d->a", {{1}, {1}, {1}}, "more than 3 operands"},
    {"ab,bc", {{2, 3}, {3, 5}}, "no \"->\""},
    {"", {{0}}, "no \"->\""},
    {"ab,bc->ac->a", {{2, 3}, {3, 5}}, "position 9"},
    {"ab,bc->a,c", {{2, 3}, {3, 5}}, "','"},
    {"ab,bc-ac", {{2, 3}, {3, 5}}, "'-'"},
    {"ab,bc- >ac", {{2, 3}, {3, 5}}, "'-'"},
    {"ab,b1->a", {{2, 3}, {3, 5}}, "'1'"},
    {"ab,b\xc3\xa9->a", {{2, 3}, {3, 5}}, "byte 195"},
    {"ab,b...->a", {{2, 3}, {3, 5}}, "'.'"},
    {"abcdefghi,jklmnopq->a", {{0}}, "'q' is one too many"},
    {"ab,b->a", {{BIG, BIG}, {BIG}}, "operand 0 has more than"},
    {"a,b->ab", {{BIG}, {BIG}}, "the result has more than"},
    {"ab,bc,ca->", {{1 << 27, 1 << 27}, {1 << 27, 1 << 27}, {1 << 27, 1 << 27}}, "intermediate result of operands"},
};

Test(contract, errors_are_named)
{
    s4_contraction_options options = options_of(0, 1, 0);
    s4_contraction *contraction;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        about("%s", wrong[i].expression);
        const int64_t *const shapes[] = {wrong[i].shape[0], wrong[i].shape[1], wrong[i].shape[2]};
        contraction = (s4_contraction *)(uintptr_t)&options;
        must_refuse(s4_contraction_create(wrong[i].expression, shapes, &options, &contraction), S4_ERROR_ARGUMENT,
                    wrong[i].word);
        check(contraction == NULL, "[%s] a contraction after a failure", about_text());
    }
    about("arguments");
    const int64_t shape[] = {2, 2};
    const int64_t *shapes[] = {shape, shape};
    const s4_contraction_options fine = options;
#define refuse_option(field, value, word)                                                                            \
    do {                                                                                                             \
        options = fine;                                                                                              \
        options.field = (value);                                                                                     \
        must_refuse(s4_contraction_create("ab,bc->ac", shapes, &options, &contraction), S4_ERROR_ARGUMENT, word);    \
    } while (0)
    refuse_option(dtype, S4_I64, "dtype");
    refuse_option(is_complex, 2, "is_complex");
    refuse_option(threads, -1, "threads");
    refuse_option(threads, 1 << 20, "threads");
    refuse_option(budget, -1, "budget");
    refuse_option(struct_size, 0, "struct_size");
    must_refuse(s4_contraction_create("ab,bc->ac", shapes, NULL, &contraction), S4_ERROR_ARGUMENT, "options");
    must_refuse(s4_contraction_create("ab,bc->ac", NULL, &fine, &contraction), S4_ERROR_ARGUMENT, "shapes");
    must_refuse(s4_contraction_create(NULL, shapes, &fine, &contraction), S4_ERROR_ARGUMENT, "expression");
    must_refuse(s4_contraction_create("ab,bc->ac", shapes, &fine, NULL), S4_ERROR_ARGUMENT, "contraction");
    shapes[1] = NULL;
    must_refuse(s4_contraction_create("ab,bc->ac", shapes, &fine, &contraction), S4_ERROR_ARGUMENT, "shapes[1]");
    shapes[1] = shape;

    float memory[16] = {0};
    const void *operands[] = {memory, memory + 4};
    s4_context *context = context_of(NULL, NULL);
    s4_contraction_info info;
    must(s4_contraction_create("ab,bc->ac", shapes, &fine, &contraction));
    must_refuse(s4_contraction_run(NULL, context, operands, memory + 8, NULL), S4_ERROR_ARGUMENT, "contraction");
    must_refuse(s4_contraction_run(contraction, NULL, operands, memory + 8, NULL), S4_ERROR_ARGUMENT, "context");
    must_refuse(s4_contraction_run(contraction, context, NULL, memory + 8, NULL), S4_ERROR_ARGUMENT, "operands");
    must_refuse(s4_contraction_run(contraction, context, operands, NULL, NULL), S4_ERROR_ARGUMENT, "result");
    must_refuse(s4_contraction_run(contraction, context, operands, memory, NULL), S4_ERROR_ARGUMENT, "operands[0]");
    must_refuse(s4_contraction_run(contraction, context, operands, memory + 7, NULL), S4_ERROR_ARGUMENT, "operands[1]");
    must(s4_contraction_run(contraction, context, operands, memory + 8, NULL));
    operands[1] = NULL;
    must_refuse(s4_contraction_run(contraction, context, operands, memory + 8, NULL), S4_ERROR_ARGUMENT, "operands[1]");
    must_refuse(s4_contraction_describe(contraction, NULL), S4_ERROR_ARGUMENT, "info");
    must_refuse(s4_contraction_describe(NULL, &info), S4_ERROR_ARGUMENT, "contraction");
    s4_contraction_destroy(contraction);
    s4_contraction_destroy(NULL);
    s4_context_destroy(context);
}
