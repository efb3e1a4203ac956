/* Contractions: the order of three operands and the memory that it needs, scratch of the caller, progress. */
#include <stdlib.h>

#include "allocations.h"
#include "contractions.h"
#include "expect.h"

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
Test(contract_memory, three_in_the_order_that_needs_least)
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
Test(contract_memory, three_of_equal_size)
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
Test(contract_memory, intermediate_in_chunks)
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
Test(contract_memory, plans_take_no_memory)
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

Test(contract_memory, scratch_and_failing_memory)
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

Test(contract_memory, progress_and_cancel)
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
