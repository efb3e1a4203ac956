/* Reads the expression of a contraction, and the sizes of its indices from the shapes of the operands. */
#include "s4/contract_expression.h"

#include <string.h>

#include "s4/backend.h"
#include "s4/errors.h"

static int is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static int find(const s4_expression *e, char letter)
{
    int i = 0;
    while (i < e->indices && e->letter[i] != letter) i++;
    return i;
}

/* Appends an index to a term; where: "operand 1", "the result". */
static s4_status append(s4_expression *e, s4_term *term, char letter, const char *where)
{
    int i = find(e, letter);
    if (i == e->indices) {
        if (term == &e->result)
            return s4_fail(S4_ERROR_ARGUMENT, "expression: index '%c' of the result is in no operand", letter);
        if (e->indices == S4_CONTRACT_INDICES_MAX)
            return s4_fail(S4_ERROR_ARGUMENT, "expression: index '%c' is one too many, at most %d", letter,
                           S4_CONTRACT_INDICES_MAX);
        e->letter[e->indices++] = letter;
    }
    if (term->set >> i & 1) return s4_fail(S4_ERROR_ARGUMENT, "expression: index '%c' is twice in %s", letter, where);
    term->set |= 1u << i;
    term->index[term->rank++] = i;
    return S4_OK;
}

static s4_status read_text(const char *text, s4_expression *e)
{
    static const char *const names[] = {"operand 0", "operand 1", "operand 2", "the result"};
    const int in_result = S4_CONTRACT_OPERANDS_MAX;
    s4_term *term = &e->operand[0];
    int where = 0;
    e->operands = 1;
    for (const char *at = text; *at; at++) {
        if (*at == ' ') continue;
        if (is_letter(*at)) {
            S4_TRY(append(e, term, *at, names[where]));
        } else if (*at == ',' && where != in_result) {
            if (e->operands == S4_CONTRACT_OPERANDS_MAX)
                return s4_fail(S4_ERROR_ARGUMENT, "expression: more than %d operands", S4_CONTRACT_OPERANDS_MAX);
            where = e->operands++;
            term = &e->operand[where];
        } else if (*at == '-' && at[1] == '>' && where != in_result) {
            at++;
            where = in_result;
            term = &e->result;
        } else {
            return s4_fail(S4_ERROR_ARGUMENT,
                           "expression: '%c' (byte %d) at position %d: letters, commas and one "
                           "\"->\" are expected",
                           *at > ' ' && *at < 0x7f ? *at : '?', (unsigned char)*at, (int)(at - text));
        }
    }
    if (where != in_result) return s4_fail(S4_ERROR_ARGUMENT, "expression: no \"->\" in '%.64s'", text);
    if (e->operands < 2)
        return s4_fail(S4_ERROR_ARGUMENT, "expression: 1 operand in '%.64s', must be 2 or %d", text,
                       S4_CONTRACT_OPERANDS_MAX);
    return S4_OK;
}

static s4_status read_sizes(const int64_t *const *shapes, s4_expression *e)
{
    int owner[S4_CONTRACT_INDICES_MAX]; /* the operand that told the size */
    unsigned known = 0;
    for (int k = 0; k < e->operands; k++) {
        const s4_term *term = &e->operand[k];
        if (term->rank && !shapes[k]) return s4_fail(S4_ERROR_ARGUMENT, "shapes[%d] is NULL", k);
        for (int d = 0; d < term->rank; d++) {
            int i = term->index[d];
            if (shapes[k][d] < 0)
                return s4_fail(S4_ERROR_ARGUMENT, "operand %d: size of index '%c' is %lld, must be >= 0", k,
                               e->letter[i], (long long)shapes[k][d]);
            if ((known >> i & 1) && e->size[i] != shapes[k][d])
                return s4_fail(S4_ERROR_ARGUMENT, "index '%c' is %lld in operand %d and %lld in operand %d",
                               e->letter[i], (long long)e->size[i], owner[i], (long long)shapes[k][d], k);
            if (known >> i & 1) continue;
            known |= 1u << i;
            e->size[i] = shapes[k][d];
            owner[i] = k;
        }
    }
    return S4_OK;
}

s4_status s4_expression_read(const char *text, const int64_t *const *shapes, s4_expression *expression)
{
    if (!text || !shapes) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", text ? "shapes" : "expression");
    memset(expression, 0, sizeof *expression);
    S4_TRY(read_text(text, expression));
    return read_sizes(shapes, expression);
}

int64_t s4_expression_count(const s4_expression *expression, unsigned set)
{
    int64_t count = 1;
    for (int i = 0; i < expression->indices; i++) /* a 0 first: what is empty is not too large */
        if ((set >> i & 1) && !expression->size[i]) return 0;
    for (int i = 0; i < expression->indices; i++)
        if (set >> i & 1) count = s4_product_times(count, expression->size[i]);
    return count;
}
