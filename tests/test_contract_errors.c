/* Contractions: what is refused, by name. */
#include "contractions.h"
#include "expect.h"

Test(contract_errors, spaces)
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

Test(contract_errors, errors_are_named)
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
