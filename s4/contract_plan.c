/*
 * Plans a contraction: which two of three operands come first, what the groups of indices of each product are, and how
 * large its blocks are. What is chosen before the blocks depends on the sizes only, so that values do not depend on the
 * budget.
 */
#include "s4/contract_plan.h"

#include <string.h>

#include "s4/errors.h"

/* With and without a budget: packed blocks stay about as large as a cache. */
#define COMFORTABLE_BYTES ((int64_t)1 << 22)

#define ALIGNMENT 64

_Static_assert(S4_CONTRACT_INDICES_MAX <= S4_PRODUCT_AXES, "a group may hold all indices");

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Sum of two, at most S4_PRODUCT_HUGE. */
static int64_t plus(int64_t a, int64_t b) { return smaller(a + b, S4_PRODUCT_HUGE); }

/* ---- sizes ----------------------------------------------------------------------------------------------------- */

static int64_t element_bytes(const s4_contraction *c)
{
    return (int64_t)s4_dtype_size(c->options.dtype) * (c->options.is_complex ? 2 : 1);
}

static s4_status check_counts(s4_contraction *c)
{
    const s4_expression *e = &c->expression;
    const int64_t most = (S4_PRODUCT_HUGE - 1) / element_bytes(c);
    unsigned all = 0;
    for (int k = 0; k < e->operands; k++) {
        all |= e->operand[k].set;
        c->count[k] = s4_expression_count(e, e->operand[k].set);
        if (c->count[k] > most)
            return s4_fail(S4_ERROR_ARGUMENT, "operand %d has more than %lld elements", k, (long long)most);
    }
    int64_t count = s4_expression_count(e, e->result.set);
    if (count > most) return s4_fail(S4_ERROR_ARGUMENT, "the result has more than %lld elements", (long long)most);
    c->count[S4_CONTRACT_RESULT] = c->info.result_count = count;
    c->is_empty = s4_expression_count(e, all) == 0;
    return S4_OK;
}

/* Strides of a dense row-major tensor whose index i has the size size[i]. */
static void set_strides(const s4_term *term, const int64_t *size, int64_t *stride)
{
    int64_t step = 1;
    for (int d = term->rank - 1; d >= 0; d--) {
        stride[term->index[d]] = step;
        step = s4_product_times(step, size[term->index[d]]);
    }
}

/* ---- the order of three ---------------------------------------------------------------------------------------- */

typedef struct order {
    int first, second, third;
    unsigned intermediate; /* indices of the intermediate result: those of the two that somebody still asks for */
    int64_t elements;      /* of it */
    int64_t multiplications;
} order;

static order order_of(const s4_expression *e, int first, int second)
{
    order o = {.first = first, .second = second, .third = 3 - first - second};
    unsigned x = e->operand[first].set, y = e->operand[second].set, third = e->operand[o.third].set;
    unsigned result = e->result.set;
    o.intermediate = (x | y) & (third | result);
    o.elements = s4_expression_count(e, o.intermediate);
    o.multiplications = plus(s4_expression_count(e, o.intermediate | (x & y)),
                             s4_expression_count(e, result | (o.intermediate & third)));
    return o;
}

static order best_order(const s4_expression *e)
{
    static const int pairs[][2] = {{0, 1}, {0, 2}, {1, 2}};
    order best = order_of(e, pairs[0][0], pairs[0][1]);
    for (int i = 1; i < 3; i++) {
        order o = order_of(e, pairs[i][0], pairs[i][1]);
        if (o.elements < best.elements || (o.elements == best.elements && o.multiplications < best.multiplications))
            best = o;
    }
    return best;
}

/* ---- groups of a product ---------------------------------------------------------------------------------------- */

static void add_axis(s4_contract_step *step, s4_product_group group, int index)
{
    step->index[group][step->axes[group]++] = index;
}

/* The operand that owns the last free index of z gives the columns: they are written one after the other. */
static void make_step(s4_contract_step *step, const s4_term *x, const s4_term *y, const s4_term *z)
{
    for (int d = z->rank - 1; d >= 0; d--) {
        unsigned bit = 1u << z->index[d];
        if ((x->set & bit) && (y->set & bit)) continue;
        if (x->set & bit) {
            const s4_term *term = x;
            int tensor = step->tensor[S4_PRODUCT_X];
            x = y;
            y = term;
            step->tensor[S4_PRODUCT_X] = step->tensor[S4_PRODUCT_Y];
            step->tensor[S4_PRODUCT_Y] = tensor;
        }
        break;
    }
    step->output = z->set;
    for (int d = 0; d < z->rank; d++) {
        int in_x = x->set >> z->index[d] & 1, in_y = y->set >> z->index[d] & 1;
        add_axis(step, in_x && in_y ? S4_PRODUCT_BATCH : in_x ? S4_PRODUCT_ROWS : S4_PRODUCT_COLUMNS, z->index[d]);
    }
    for (int d = 0; d < x->rank; d++) {
        if (z->set >> x->index[d] & 1) continue;
        add_axis(step, y->set >> x->index[d] & 1 ? S4_PRODUCT_DEPTH : S4_PRODUCT_X_ALONE, x->index[d]);
    }
    for (int d = 0; d < y->rank; d++)
        if (!((z->set | x->set) >> y->index[d] & 1)) add_axis(step, S4_PRODUCT_Y_ALONE, y->index[d]);
}

static void make_steps_of_two(s4_contraction *c)
{
    const s4_expression *e = &c->expression;
    c->steps = 1;
    c->info.first = 0;
    c->info.second = 1;
    c->info.multiplications = s4_expression_count(e, e->result.set | (e->operand[0].set & e->operand[1].set));
    c->step[0] = (s4_contract_step){.tensor = {0, 1, S4_CONTRACT_RESULT}};
    make_step(&c->step[0], &e->operand[0], &e->operand[1], &e->result);
}

/* Indices of `set` that are not there yet, in the order of another term. */
static void add_indices(s4_term *term, const s4_term *from, unsigned set)
{
    for (int d = 0; d < from->rank; d++) {
        int i = from->index[d];
        if (!((set & ~term->set) >> i & 1)) continue;
        term->set |= 1u << i;
        term->index[term->rank++] = i;
    }
}

static void make_steps_of_three(s4_contraction *c)
{
    const s4_expression *e = &c->expression;
    order o = best_order(e);
    c->steps = 2;
    c->info.first = o.first;
    c->info.second = o.second;
    c->info.multiplications = o.multiplications;
    c->outer = o.intermediate & e->result.set;
    add_indices(&c->intermediate, &e->result, o.intermediate);
    add_indices(&c->intermediate, &e->operand[o.third], o.intermediate);
    c->step[0] = (s4_contract_step){.tensor = {o.first, o.second, S4_CONTRACT_INTERMEDIATE}};
    c->step[1] = (s4_contract_step){.tensor = {S4_CONTRACT_INTERMEDIATE, o.third, S4_CONTRACT_RESULT}};
    make_step(&c->step[0], &e->operand[o.first], &e->operand[o.second], &c->intermediate);
    make_step(&c->step[1], &c->intermediate, &e->operand[o.third], &e->result);
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

static int64_t extent(const s4_contract_step *step, s4_product_group group)
{
    int64_t positions = 1;
    for (int a = 0; a < step->axes[group]; a++)
        positions = s4_product_times(positions, step->block[step->index[group][a]]);
    return positions;
}

static int64_t scratch_bytes(const s4_contraction *c, const s4_contract_step *step)
{
    return s4_product_scratch(c->options.is_complex, extent(step, S4_PRODUCT_BATCH), extent(step, S4_PRODUCT_ROWS),
                              extent(step, S4_PRODUCT_COLUMNS), extent(step, S4_PRODUCT_DEPTH)) *
           (int64_t)sizeof(double);
}

static int64_t intermediate_count(const s4_contraction *c)
{
    int64_t count = 1;
    for (int d = 0; d < c->intermediate.rank; d++)
        count = s4_product_times(count, c->outer_block[c->intermediate.index[d]]);
    return c->steps > 1 ? count : 0;
}

static int64_t intermediate_bytes(const s4_contraction *c)
{
    int64_t bytes = s4_product_times(intermediate_count(c), (int64_t)sizeof(double) * (c->options.is_complex ? 2 : 1));
    return plus(bytes, ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Scratch of products is used by one after the other. */
static int64_t peak_bytes(const s4_contraction *c)
{
    int64_t most = 0;
    for (int s = 0; s < c->steps; s++) most = larger(most, scratch_bytes(c, &c->step[s]));
    return plus(intermediate_bytes(c), most);
}

/* Halves the block of the first index that can be cut. */
static int halve_first(const int *index, int count, unsigned which, int64_t *block)
{
    for (int a = 0; a < count; a++) {
        if (!(which >> index[a] & 1) || block[index[a]] < 2) continue;
        block[index[a]] -= block[index[a]] / 2;
        return 1;
    }
    return 0;
}

/* Batch indices first, then free ones where there are more of them, so that blocks stay square. */
static int cut_step(s4_contract_step *step)
{
    if (halve_first(step->index[S4_PRODUCT_BATCH], step->axes[S4_PRODUCT_BATCH], step->output, step->block)) return 1;
    s4_product_group group =
        extent(step, S4_PRODUCT_ROWS) >= extent(step, S4_PRODUCT_COLUMNS) ? S4_PRODUCT_ROWS : S4_PRODUCT_COLUMNS;
    return halve_first(step->index[group], step->axes[group], step->output, step->block);
}

/* Batch indices of all three operands first, then the others. */
static int cut_outer(s4_contraction *c)
{
    const s4_expression *e = &c->expression;
    const s4_term *r = &e->result;
    unsigned batch = e->operand[0].set & e->operand[1].set & e->operand[2].set;
    return halve_first(r->index, r->rank, c->outer & batch, c->outer_block) ||
           halve_first(r->index, r->rank, c->outer, c->outer_block);
}

/* Blocks as small as can be: their peak is the smallest budget. */
static void cut_all(s4_contraction *c)
{
    for (int i = 0; i < c->expression.indices; i++) {
        c->outer_block[i] = c->outer >> i & 1 ? 1 : c->expression.size[i];
        for (int s = 0; s < c->steps; s++) c->step[s].block[i] = c->step[s].output >> i & 1 ? 1 : c->expression.size[i];
    }
}

/* From everything at once, cut until it fits into `limit`, which is at least the minimum. With three operands the
 * intermediate result gets half of the limit at most, unless its smallest part is larger. */
static void cut_to(s4_contraction *c, int64_t limit, int64_t least_scratch)
{
    memcpy(c->outer_block, c->expression.size, sizeof c->outer_block);
    while ((intermediate_bytes(c) > limit / 2 || intermediate_bytes(c) + least_scratch > limit) && cut_outer(c)) {
    }
    for (int s = 0; s < c->steps; s++) {
        memcpy(c->step[s].block, c->outer_block, sizeof c->outer_block);
        while (intermediate_bytes(c) + scratch_bytes(c, &c->step[s]) > limit && cut_step(&c->step[s])) {
        }
    }
}

/* Parts that blocks of `block` inside blocks of `outer` cut a size into. */
static int64_t parts(int64_t size, int64_t outer, int64_t block)
{
    int64_t whole = size / outer, rest = size % outer;
    return whole * ((outer + block - 1) / block) + (rest + block - 1) / block;
}

static int64_t count_products(const s4_contraction *c)
{
    int64_t sum = 0;
    for (int s = 0; s < c->steps; s++) {
        int64_t products = 1;
        for (int i = 0; i < c->expression.indices; i++)
            products = s4_product_times(products, parts(c->expression.size[i], c->outer_block[i], c->step[s].block[i]));
        sum = plus(sum, products);
    }
    return sum;
}

static s4_status choose_blocks(s4_contraction *c)
{
    int64_t budget = c->options.budget;
    cut_all(c);
    int64_t minimum = peak_bytes(c), least_scratch = minimum - intermediate_bytes(c);
    if (minimum >= S4_PRODUCT_HUGE)
        return s4_fail(S4_ERROR_ARGUMENT, "the intermediate result of operands %d and %d is larger than any memory",
                       c->info.first, c->info.second);
    if (budget && budget < minimum)
        return s4_fail(S4_ERROR_OUT_OF_BUDGET, "budget: %lld bytes are needed, %lld were given", (long long)minimum,
                       (long long)budget);
    int64_t limit = budget ? smaller(budget, COMFORTABLE_BYTES) : COMFORTABLE_BYTES;
    cut_to(c, larger(limit, minimum), least_scratch);
    c->scratch = intermediate_bytes(c);
    c->info.minimum = minimum;
    c->info.peak = peak_bytes(c);
    c->info.intermediate_count = c->count[S4_CONTRACT_INTERMEDIATE] = intermediate_count(c);
    c->info.chunks = count_products(c);
    return S4_OK;
}

s4_status s4_contract_plan(s4_contraction *c)
{
    const s4_expression *e = &c->expression;
    S4_TRY(check_counts(c));
    if (e->operands == 2)
        make_steps_of_two(c);
    else
        make_steps_of_three(c);
    if (c->is_empty) {
        c->info.multiplications = 0;
        return S4_OK;
    }
    S4_TRY(choose_blocks(c));
    for (int k = 0; k < e->operands; k++) set_strides(&e->operand[k], e->size, c->stride[k]);
    set_strides(&c->intermediate, c->outer_block, c->stride[S4_CONTRACT_INTERMEDIATE]);
    set_strides(&e->result, e->size, c->stride[S4_CONTRACT_RESULT]);
    return S4_OK;
}
