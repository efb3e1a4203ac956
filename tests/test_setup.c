/*
 * Set-up: C~ of length L is C (I - dA^L), from any length to any other, and back; powers of dA; and that a set-up that
 * is refused leaves every bit as it was.
 */
#include <math.h>

#include "expect.h"
#include "layers.h"
#include "session.h"
#include "tolerances.h"

static const layer_shape small = {.d_model = 4, .d_state = 8, .rank = 2, .n_ssm = 2, .plain_transforms = 1};

static int64_t c_count(s4_layer *layer)
{
    return layer_count(layer, S4_PARAMETER_C);
}

/* C~ of this length by the reference; the layer holds plain C. */
static double *reference_c_tilde(s4_layer *layer, int64_t length)
{
    const struct ref_layer reference = layer_reference(layer);
    double *c_tilde = numbers(c_count(layer));
    ref_c_tilde(&reference, (int)length, c_tilde);
    return c_tilde;
}

/* Modes of A that neither move nor are coupled: Lambda = -damping (with transforms none), P = 0. */
static void hold_modes(s4_layer *layer, int64_t first, int64_t count, double damping)
{
    for (int64_t n = first; n < first + count; n++) {
        layer_data(layer, S4_PARAMETER_A_REAL)[n] = damping;
        layer_data(layer, S4_PARAMETER_A_IMAG)[n] = 0;
        memset(&layer_data(layer, S4_PARAMETER_P)[2 * n], 0, 2 * sizeof(double));
    }
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
}

/* Neither C nor a C~ that is no doubling can be had; nothing has changed then. */
static void expect_singular(s4_context *context, s4_layer *layer, int64_t length, const char *word)
{
    int64_t count;
    const double *before = layer_bits(layer, &count);
    must_refuse(s4_layer_setup(context, layer, 0), S4_ERROR_SINGULAR, word);
    must_refuse(s4_layer_setup(context, layer, 13), S4_ERROR_SINGULAR, word);
    expect_same_bits("parameters", count, layer_bits(layer, &count), before);
    cr_assert_eq(s4_layer_length(layer), length);
}

Test(setup, against_reference)
{
    static const int64_t lengths[] = {1, 2, 3, 7, 8, 100, 1801};
    s4_context *context = context_open();
    for (int rank = 1; rank <= S4_RANK_MAX; rank++)
        for (int i = 0; i < 7; i++) {
            about("rank %d, length %d", rank, (int)lengths[i]);
            layer_shape shape = small;
            shape.rank = rank;
            s4_layer *layer = layer_random(&shape, (uint64_t)(10 * rank + i));
            const double *expected = reference_c_tilde(layer, lengths[i]);
            must(s4_layer_setup(context, layer, lengths[i]));
            check(s4_layer_length(layer) == lengths[i], "[%s] length is not declared", about_text());
            expect_close("C~", c_count(layer), layer_data(layer, S4_PARAMETER_C), expected, TOLERANCE_FORWARD_RANK, 0);
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* Through a chain of lengths, from a plain C that the layer keeps and from an imported C~ that stands alone: where it
 * fits that is doubling, else through C. Both against a fresh set-up for the last length. */
static void chain(s4_context *context, const int64_t *lengths, int count)
{
    s4_layer *fresh = layer_random(&small, 21), *kept = layer_random(&small, 21), *imported = layer_random(&small, 21);
    const double *first = reference_c_tilde(imported, lengths[0]);
    must(s4_layer_setup(context, fresh, lengths[count - 1]));
    layer_write_c(imported, first, lengths[0]);
    must(s4_layer_setup(context, kept, lengths[0]));
    for (int i = 1; i < count; i++) {
        must(s4_layer_setup(context, kept, lengths[i]));
        must(s4_layer_setup(context, imported, lengths[i]));
        check(s4_layer_length(kept) == lengths[i] && s4_layer_length(imported) == lengths[i], "[%s] length",
              about_text());
    }
    const double *expected = layer_data(fresh, S4_PARAMETER_C);
    expect_same_bits("C~ from the kept C", c_count(fresh), layer_data(kept, S4_PARAMETER_C), expected);
    expect_close("C~ from an imported one", c_count(fresh), layer_data(imported, S4_PARAMETER_C), expected,
                 TOLERANCE_UNDO, 0);
    s4_layer_destroy(fresh);
    s4_layer_destroy(kept);
    s4_layer_destroy(imported);
}

Test(setup, chains_of_lengths)
{
    static const struct {
        int64_t lengths[4];
        int count;
    } chains[] = {
        {{1, 1000}, 2}, {{7, 9, 13}, 3}, {{1000, 1001}, 2}, {{8, 16}, 2}, {{5, 40, 80}, 3},
        {{64, 64}, 2},  {{100, 50}, 2},  {{32, 8, 32}, 3},  {{3, 1}, 2},
    };
    s4_context *context = context_open();
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++) {
        about("%d to %d in %d", (int)chains[i].lengths[0], (int)chains[i].lengths[chains[i].count - 1],
              chains[i].count);
        chain(context, chains[i].lengths, chains[i].count);
    }
    s4_context_destroy(context);
}

/* Doubling needs no solve: it is as good as a fresh set-up even where I - dA^L is close to singular, which is what a
 * slow layer (dt = 1e-6) makes of it: its condition is some 1e6 there, and a way through C would lose that much. */
Test(setup, doubling_of_a_slow_layer)
{
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&small, 4);
    for (int64_t h = 0; h < small.d_model; h++)
        layer_data(layer, S4_PARAMETER_INV_DT)[h] = log(1e-6);
    must(s4_layer_changed(layer, 1u << S4_PARAMETER_INV_DT));
    const double *first = reference_c_tilde(layer, 1), *expected = reference_c_tilde(layer, 4);
    layer_write_c(layer, first, 1);
    must(s4_layer_setup(context, layer, 4));
    expect_close("C~", c_count(layer), layer_data(layer, S4_PARAMETER_C), expected, TOLERANCE_FORWARD_RANK, 0);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

Test(setup, undo)
{
    static const int64_t lengths[] = {1, 7, 64, 1000};
    s4_context *context = context_open();
    for (int i = 0; i < 4; i++) {
        about("length %d", (int)lengths[i]);
        s4_layer *layer = layer_random(&small, (uint64_t)i);
        const double *c = numbers_copy(c_count(layer), layer_data(layer, S4_PARAMETER_C));
        const double *c_tilde = reference_c_tilde(layer, lengths[i]);
        must(s4_layer_setup(context, layer, lengths[i]));
        expect_other_bits("C~ against C", c_count(layer), layer_data(layer, S4_PARAMETER_C), c);
        must(s4_layer_setup(context, layer, 0));
        cr_assert_eq(s4_layer_length(layer), 0);
        expect_same_bits("the kept C", c_count(layer), layer_data(layer, S4_PARAMETER_C), c);

        layer_write_c(layer, c_tilde, lengths[i]);
        must(s4_layer_setup(context, layer, 0));
        cr_assert_eq(s4_layer_length(layer), 0);
        expect_close("C solved for", c_count(layer), layer_data(layer, S4_PARAMETER_C), c, TOLERANCE_UNDO, 0);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* A slow layer as long as it comes: N = 64 at dt = 1e-5. */
Test(setup, undo_of_a_slow_layer)
{
    static const int64_t lengths[] = {1, 16};
    s4_context *context = context_open();
    for (int i = 0; i < 2; i++) {
        about("length %d", (int)lengths[i]);
        s4_layer *layer = layer_legs(context, 2, 64, 3);
        for (int h = 0; h < 2; h++)
            layer_data(layer, S4_PARAMETER_INV_DT)[h] = log(1e-5);
        must(s4_layer_changed(layer, 1u << S4_PARAMETER_INV_DT));
        const double *c = numbers_copy(c_count(layer), layer_data(layer, S4_PARAMETER_C));
        must(s4_layer_setup(context, layer, lengths[i]));
        layer_write_c(layer, numbers_copy(c_count(layer), layer_data(layer, S4_PARAMETER_C)), lengths[i]);
        must(s4_layer_setup(context, layer, 0));
        expect_close("C solved for", c_count(layer), layer_data(layer, S4_PARAMETER_C), c, TOLERANCE_UNDO_SLOW, 0);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* A plain C kept beside C~ belongs to the parameters it was made with: a C~ that was trained on, or another dt, must
 * not bring the old C back. */
Test(setup, kept_c_is_dropped_with_its_parameters)
{
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&small, 9);
    must(s4_layer_setup(context, layer, 50));
    layer_data(layer, S4_PARAMETER_C)[3] += 0.25;
    must(s4_layer_changed(layer, 1u << S4_PARAMETER_C));
    const double *trained = numbers_copy(c_count(layer), layer_data(layer, S4_PARAMETER_C));
    const struct ref_layer reference = layer_reference(layer);
    double *expected = numbers(c_count(layer));
    ref_c_from_c_tilde(&reference, 50, trained, expected);
    must(s4_layer_setup(context, layer, 0));
    expect_close("C of a trained C~", c_count(layer), layer_data(layer, S4_PARAMETER_C), expected, TOLERANCE_UNDO, 0);

    must(s4_layer_setup(context, layer, 50));
    layer_data(layer, S4_PARAMETER_INV_DT)[1] += 0.5;
    must(s4_layer_changed(layer, 1u << S4_PARAMETER_INV_DT));
    ref_c_from_c_tilde(&reference, 50, numbers_copy(c_count(layer), layer_data(layer, S4_PARAMETER_C)), expected);
    must(s4_layer_setup(context, layer, 0));
    expect_close("C at another dt", c_count(layer), layer_data(layer, S4_PARAMETER_C), expected, TOLERANCE_UNDO, 0);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* Taking a C~ of 200 for one of 100 gives K[t] + K[t + 100]: plausible, and wrong. Every use goes by the tag. */
Test(setup, c_tilde_of_another_length)
{
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&small, 2);
    const struct ref_layer reference = layer_reference(layer);
    double *expected = numbers(small.d_model * 100);
    ref_kernel(&reference, 100, expected);
    const double *c_tilde = reference_c_tilde(layer, 200);
    for (int kept = 0; kept < 2; kept++) {
        about("%s", kept ? "C~ made here" : "imported C~");
        if (kept) {
            must(s4_layer_setup(context, layer, 0));
            must(s4_layer_setup(context, layer, 200));
        } else {
            layer_write_c(layer, c_tilde, 200);
        }
        const s4_problem problem = problem_of(layer, S4_DIRECTION_KERNEL, S4_F64, 1, 100, 100);
        session s = session_open(context, &problem);
        expect_close("K", small.d_model * 100, session_kernel(&s, layer), expected, TOLERANCE_UNDO, 0);
        session_close(&s);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* NaN and infinity in every parameter that the set-up reads. */
Test(setup, refused_not_finite)
{
    static const struct {
        s4_parameter which;
        char word[8];
    } cases[] = {
        {S4_PARAMETER_INV_DT, "inv_dt"}, {S4_PARAMETER_A_REAL, "A_real"}, {S4_PARAMETER_A_IMAG, "A_imag"},
        {S4_PARAMETER_P, "P"},           {S4_PARAMETER_C, "C"},
    };
    s4_context *context = context_open();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int kind = 0; kind < 2; kind++) {
            about("%s is %s", cases[i].word, kind ? "infinite" : "NaN");
            s4_layer *layer = layer_random(&small, 3);
            must(s4_layer_setup(context, layer, 10));
            layer_data(layer, cases[i].which)[1] = kind ? INFINITY : NAN;
            must(s4_layer_changed(layer, 1u << cases[i].which));
            int64_t count;
            const double *before = layer_bits(layer, &count);
            must_refuse(s4_layer_setup(context, layer, 20), S4_ERROR_NOT_FINITE, cases[i].word);
            must_refuse(s4_layer_setup(context, layer, 0), S4_ERROR_NOT_FINITE, cases[i].word);
            expect_same_bits("parameters", count, layer_bits(layer, &count), before);
            check(s4_layer_length(layer) == 10, "[%s] the length has changed", about_text());
            s4_layer_destroy(layer);
        }
    s4_context_destroy(context);
}

/* Lambda = 0 and P = 0: dA = I, so that I - dA^L is 0 and nothing can be solved for C. The refused channel is the last
 * one: those before it must not have been changed either. */
Test(setup, refused_singular)
{
    const layer_shape shape = {.d_model = 3, .d_state = 4, .rank = 1,
                               .dt_transform = S4_TRANSFORM_EXP, .real_transform = S4_TRANSFORM_NONE,
                               .imag_transform = S4_TRANSFORM_NONE};
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shape, 6);
    layer_write_c(layer, reference_c_tilde(layer, 10), 10);
    hold_modes(layer, 2 * 2, 2, 0);
    expect_singular(context, layer, 10, "");
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

Test(setup, refused_arguments)
{
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&small, 1);
    must_refuse(s4_layer_setup(context, layer, -1), S4_ERROR_ARGUMENT, "length");
    must_refuse(s4_layer_set_length(layer, -1), S4_ERROR_ARGUMENT, "length");
    must_refuse(s4_layer_setup(NULL, layer, 8), S4_ERROR_ARGUMENT, "context");
    must_refuse(s4_layer_setup(context, NULL, 8), S4_ERROR_ARGUMENT, "layer");
    must_refuse(s4_layer_changed(layer, S4_PARAMETER_ALL + 1), S4_ERROR_ARGUMENT, "mask");
    cr_assert_eq(s4_layer_length(layer), 0);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

Test(setup, powers)
{
    static const int64_t exponents[] = {0, 1, 2, 3, 7, 8, 31, 100, 1023};
    s4_context *context = context_open();
    for (int rank = 1; rank <= S4_RANK_MAX; rank++) {
        layer_shape shape = small;
        shape.rank = rank;
        s4_layer *layer = layer_random(&shape, (uint64_t)rank);
        const struct ref_layer reference = layer_reference(layer);
        const int64_t N = shape.d_state, matrix = N * N * 2, matrices = shape.d_model * matrix,
                      vectors = shape.d_model * N * 2;
        double *dA = numbers(matrices), *dB = numbers(vectors), *power = numbers(matrices),
               *expected_dA = numbers(matrices), *expected_dB = numbers(vectors), *expected = numbers(matrices);
        for (int i = 0; i < 9; i++) {
            about("rank %d, power %d", rank, (int)exponents[i]);
            for (int64_t h = 0; h < shape.d_model; h++) {
                ref_discretise(&reference, (int)h, &expected_dA[h * matrix], &expected_dB[h * N * 2]);
                ref_power(&reference, (int)h, (int)exponents[i], REF_POWER_REPEATED, &expected[h * matrix]);
            }
            must(s4_layer_discrete(context, layer, 1, dA, dB, exponents[i], power));
            expect_close("dA", matrices, dA, expected_dA, TOLERANCE_FORWARD_RANK, 0);
            expect_close("dB", vectors, dB, expected_dB, TOLERANCE_FORWARD_RANK, 0);
            /* A power has forgotten what it began with; its own size is no measure of error. */
            expect_close("dA to the power", matrices, power, expected, TOLERANCE_POWER, 1);
        }
        double *alone = numbers(matrices);
        must(s4_layer_discrete(context, layer, 1, NULL, NULL, 1023, alone));
        expect_same_bits("power asked for alone", matrices, alone, power);
        must(s4_layer_discrete(context, layer, 1, NULL, NULL, 1, alone));
        expect_close("first power", matrices, alone, dA, TOLERANCE_ROUNDING, 0);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

Test(setup, discrete_at_another_rate)
{
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&small, 8);
    struct ref_layer reference = layer_reference(layer);
    reference.rate = 0.5;
    const int64_t N = small.d_state, matrix = N * N * 2;
    double *dA = numbers(small.d_model * matrix), *dB = numbers(small.d_model * N * 2),
           *expected_dA = numbers(small.d_model * matrix), *expected_dB = numbers(small.d_model * N * 2);
    for (int h = 0; h < small.d_model; h++)
        ref_discretise(&reference, h, &expected_dA[h * matrix], &expected_dB[h * N * 2]);
    must(s4_layer_discrete(context, layer, 0.5, dA, dB, 0, NULL));
    expect_close("dA", small.d_model * matrix, dA, expected_dA, TOLERANCE_FORWARD_RANK, 0);
    expect_close("dB", small.d_model * N * 2, dB, expected_dB, TOLERANCE_FORWARD_RANK, 0);
    must_refuse(s4_layer_discrete(context, layer, 1, NULL, NULL, -1, dA), S4_ERROR_ARGUMENT, "power");
    must_refuse(s4_layer_discrete(context, layer, 0, dA, NULL, 0, NULL), S4_ERROR_ARGUMENT, "rate");
    must_refuse(s4_layer_discrete(context, layer, NAN, dA, NULL, 0, NULL), S4_ERROR_ARGUMENT, "rate");
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* Lambda = -1e-15 and P = 0: dA is I but for some last digits, so that C could be solved for and would be noise. */
Test(setup, refused_nearly_singular)
{
    enum { H = 3, MODES = 8 };
    const layer_shape shape = {.d_model = H, .d_state = 2 * MODES, .rank = 1,
                               .dt_transform = S4_TRANSFORM_NONE, .real_transform = S4_TRANSFORM_NONE,
                               .imag_transform = S4_TRANSFORM_NONE};
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shape, 6);
    layer_write_c(layer, reference_c_tilde(layer, 1), 1);
    layer_data(layer, S4_PARAMETER_INV_DT)[H - 1] = 1;
    hold_modes(layer, (H - 1) * MODES, MODES, 1e-15);
    expect_singular(context, layer, 1, "condition");
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* Lambda = -1e-30 and P = 0: dA = I to the bit. There is no way back to C, but C~ can be doubled: it becomes
 * C~ (I + dA) = 2 C~. */
Test(setup, doubling_without_a_way_back)
{
    const layer_shape shape = {.d_model = 2, .d_state = 4, .rank = 1,
                               .dt_transform = S4_TRANSFORM_EXP, .real_transform = S4_TRANSFORM_NONE,
                               .imag_transform = S4_TRANSFORM_NONE};
    s4_context *context = context_open();
    s4_layer *layer = layer_random(&shape, 6);
    hold_modes(layer, 0, layer_count(layer, S4_PARAMETER_A_REAL), 1e-30);
    const int64_t count = c_count(layer);
    double *expected = numbers_copy(count, layer_data(layer, S4_PARAMETER_C));
    layer_write_c(layer, expected, 10);
    must(s4_layer_setup(context, layer, 40));
    for (int64_t i = 0; i < count; i++) expected[i] *= 4;
    expect_same_bits("C~", count, layer_data(layer, S4_PARAMETER_C), expected);
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}
