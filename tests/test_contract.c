/*
 * Contractions against the loop over all indices. Inputs are small whole numbers, so that every sum is exact in both
 * dtypes and results are compared bit by bit; budgets and threads must not change a bit of any sum that is not exact.
 */
#include <math.h>
#include <stdio.h>

#include "contractions.h"
#include "expect.h"
#include "tolerances.h"

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
