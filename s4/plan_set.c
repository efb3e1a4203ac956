/*
 * The memory of a whole model:
 *   sum over layers (parameters + gradients + input kept) + max over plans (workspace).
 */
#include "s4/errors.h"
#include "s4/plan_object.h"
#include "s4/plan_set.h"

/* *total += a * b; 0 where the range ends. */
static int add_product(int64_t *total, int64_t a, int64_t b)
{
    int64_t product;
    return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(*total, product, total);
}

/* Doubles of all raw parameters: inv_dt, A_real and A_imag, B, P, C, D, as s4_layer_create shapes them. */
static int64_t parameter_count(const s4_shape *s)
{
    int64_t H = s->d_model, pairs = s->n_ssm * (1 + s->rank) + s->kernels * H;
    return H * s->dt_modes + 2 * s->n_ssm * s->modes + 2 * pairs * s->modes + H * s->channels;
}

/* Bytes of what backward reads again. The check of a problem has bounded the products. */
static int64_t input_bytes(const s4_plan *plan)
{
    const s4_shape *s = &plan->shape;
    int64_t rows = s->batch * s->d_model;
    int64_t states = plan->problem.states ? rows * 2 * s->modes * (int64_t)sizeof(double) : 0;
    return rows * s->length * (int64_t)s4_dtype_size(s->dtype) + states;
}

static s4_status add_entry(const s4_plan_set_entry *entry, int64_t index, s4_plan_set_info *info)
{
    const s4_plan *plan = entry->plan;
    if (!plan) return s4_fail(S4_ERROR_ARGUMENT, "plan of entry %lld is NULL", (long long)index);
    if (entry->layers < 0)
        return s4_fail(S4_ERROR_ARGUMENT, "layers of entry %lld is %lld, must be >= 0", (long long)index,
                       (long long)entry->layers);
    int64_t copies = plan->problem.direction == S4_DIRECTION_TRAINING ? 2 : 1; /* values, gradients */
    int64_t bytes = copies * (int64_t)sizeof(double) * parameter_count(&plan->shape);
    if (!add_product(&info->parameters[S4_PLACE_CPU], entry->layers, bytes) ||
        !add_product(&info->kept[S4_PLACE_CPU], entry->layers, entry->keeps_input ? input_bytes(plan) : 0))
        return s4_fail(S4_ERROR_ARGUMENT, "layers of entry %lld is %lld: bytes of the model leave the range of 64 bits",
                       (long long)index, (long long)entry->layers);
    for (int place = 0; place < S4_PLACE_COUNT; place++)
        if (plan->map.peak[place] > info->workspace[place]) info->workspace[place] = plan->map.peak[place];
    return S4_OK;
}

s4_status s4_plan_set_describe(const s4_plan_set_entry *entries, int64_t count, s4_plan_set_info *info)
{
    s4_plan_set_info sum = {{0}, {0}, {0}, {0}};
    if (!info || (!entries && count)) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", info ? "entries" : "info");
    if (count < 0) return s4_fail(S4_ERROR_ARGUMENT, "count is %lld, must be >= 0", (long long)count);
    for (int64_t i = 0; i < count; i++) S4_TRY(add_entry(&entries[i], i, &sum));
    for (int place = 0; place < S4_PLACE_COUNT; place++)
        if (!add_product(&sum.peak[place], 1, sum.parameters[place]) ||
            !add_product(&sum.peak[place], 1, sum.kept[place]) ||
            !add_product(&sum.peak[place], 1, sum.workspace[place]))
            return s4_fail(S4_ERROR_ARGUMENT, "bytes of the model leave the range of 64 bits");
    *info = sum;
    return S4_OK;
}
