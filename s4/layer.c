/* s4_layer: makes, describes and versions a layer. */
#include "s4/layer_object.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "s4/errors.h"
#include "s4/options.h"

#define D_MODEL_MAX ((int64_t)1 << 24)
#define D_STATE_MAX ((int64_t)1 << 12)

/* learning_rate_max, weight_decay; no gradient */
#define SLOW 0.001, 0.0, NULL
#define FREE 0.0, -1.0, NULL

static s4_status check_options(s4_layer_options *o)
{
    S4_TRY(s4_check_range("mode", o->mode, S4_MODE_DPLR, S4_MODE_DIAG));
    S4_TRY(s4_check_range("discretisation", o->discretisation, S4_BILINEAR, S4_DSS));
    if (o->mode == S4_MODE_DPLR && o->discretisation != S4_BILINEAR)
        return s4_fail(S4_ERROR_UNSUPPORTED, "discretisation is %s; dplr layers are bilinear",
                       s4_discretisation_name(o->discretisation));
    S4_TRY(s4_check_range("channels", o->channels, 0, S4_CHANNELS_MAX));
    if (!(o->bandlimit >= 0) || !isfinite(o->bandlimit))
        return s4_fail(S4_ERROR_ARGUMENT, "bandlimit is %g, must be >= 0 (0 = off) and finite", o->bandlimit);
    S4_TRY(s4_check_range("d_model", o->d_model, 1, D_MODEL_MAX));
    S4_TRY(s4_check_range("d_state", o->d_state, 2, D_STATE_MAX));
    if (o->d_state % 2)
        return s4_fail(S4_ERROR_ARGUMENT,
                       "d_state is %lld, must be even: half of it is stored, one of each conjugate "
                       "pair",
                       (long long)o->d_state);
    S4_TRY(s4_check_range("rank", o->rank, 0, o->mode == S4_MODE_DPLR ? S4_RANK_MAX : 0));
    S4_TRY(s4_check_range("n_ssm", o->n_ssm, 0, o->d_model));
    if (!o->rank && o->mode == S4_MODE_DPLR) o->rank = 1;
    o->bidirectional = !!o->bidirectional;
    o->dt_untied = !!o->dt_untied;
    if (!o->n_ssm) o->n_ssm = o->d_model;
    if (!o->channels) o->channels = 1;
    if (o->d_model % o->n_ssm)
        return s4_fail(S4_ERROR_ARGUMENT, "n_ssm is %lld, must divide d_model %lld", (long long)o->n_ssm,
                       (long long)o->d_model);
    if (!o->transforms_given) {
        o->transforms_given = 1;
        o->dt_transform = o->real_transform = S4_TRANSFORM_EXP;
        o->imag_transform = S4_TRANSFORM_NONE;
    }
    S4_TRY(s4_check_range("dt_transform", o->dt_transform, S4_TRANSFORM_NONE, S4_TRANSFORM_SOFTPLUS));
    S4_TRY(s4_check_range("real_transform", o->real_transform, S4_TRANSFORM_NONE, S4_TRANSFORM_SOFTPLUS));
    return s4_check_range("imag_transform", o->imag_transform, S4_TRANSFORM_NONE, S4_TRANSFORM_SOFTPLUS);
}

s4_status s4_layer_create(const s4_layer_options *options, s4_layer **layer)
{
    static atomic_ullong next_id = 1;
    if (!layer) return s4_fail(S4_ERROR_ARGUMENT, "layer is NULL");
    *layer = NULL;
    s4_layer_options o = {.struct_size = sizeof o};
    S4_TRY(s4_options_read("s4_layer_options", options, &o, sizeof o));
    S4_TRY(check_options(&o));
    int64_t H = o.d_model, n = o.d_state / 2, S = o.n_ssm, R = o.rank, M = o.channels;
    int64_t K = o.bidirectional ? 2 * M : M, steps = o.dt_untied ? n : 1;
    const s4_parameter_view views[S4_PARAMETER_COUNT] = {
        [S4_PARAMETER_INV_DT] = {"kernel.inv_dt", 2, {H, steps}, H * steps, NULL, 0, SLOW},
        [S4_PARAMETER_A_REAL] = {"kernel.A_real", 2, {S, n}, S * n, NULL, 0, SLOW},
        [S4_PARAMETER_A_IMAG] = {"kernel.A_imag", 2, {S, n}, S * n, NULL, 0, SLOW},
        [S4_PARAMETER_B] = {"kernel.B", 4, {1, S, n, 2}, S * n * 2, NULL, 1, SLOW},
        [S4_PARAMETER_P] = {"kernel.P", 4, {R, S, n, 2}, R * S * n * 2, NULL, 1, SLOW},
        [S4_PARAMETER_C] = {"kernel.C", 4, {K, H, n, 2}, K * H * n * 2, NULL, 1, FREE},
        [S4_PARAMETER_D] = {"D", 2, {M, H}, M * H, NULL, 0, FREE},
    };
    int64_t count = views[S4_PARAMETER_C].count; /* a plain C beside C~ */
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) count += views[p].count;
    s4_layer *made = calloc(1, sizeof *made);
    double *block = calloc((size_t)count, sizeof *block);
    if (!made || !block) {
        free(made);
        free(block);
        return s4_fail(S4_ERROR_MEMORY, "no memory for a layer of %lld numbers", (long long)count);
    }
    made->options = o;
    made->block = block;
    double *at = block;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        made->parameter[p] = views[p];
        made->parameter[p].data = views[p].count ? at : NULL;
        at += views[p].count;
    }
    made->plain_c = at;
    made->id = atomic_fetch_add(&next_id, 1);
    s4_layer_touch(made, S4_PARAMETER_ALL);
    *layer = made;
    return S4_OK;
}

void s4_layer_destroy(s4_layer *layer)
{
    if (!layer) return;
    free(layer->block);
    free(layer);
}

s4_status s4_layer_describe(const s4_layer *layer, s4_layer_options *options)
{
    if (!layer || !options) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", layer ? "options" : "layer");
    size_t size = options->struct_size;
    if (size < sizeof size || size > sizeof *options)
        return s4_fail(S4_ERROR_ARGUMENT, "s4_layer_options: struct_size is %zu, must be in %zu .. %zu (use S4_INIT)",
                       size, sizeof size, sizeof *options);
    memcpy(options, &layer->options, size);
    options->struct_size = size;
    return S4_OK;
}

s4_status s4_layer_parameter(s4_layer *layer, s4_parameter which, s4_parameter_view *view)
{
    if (!layer || !view) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", layer ? "view" : "layer");
    S4_TRY(s4_check_range("which", which, 0, S4_PARAMETER_COUNT - 1));
    *view = layer->parameter[which];
    return S4_OK;
}

s4_status s4_layer_parameter_gradient(s4_layer *layer, s4_parameter which, const s4_gradients *gradients,
                                      s4_parameter_view *view)
{
    if (!gradients) return s4_fail(S4_ERROR_ARGUMENT, "gradients is NULL");
    S4_TRY(s4_layer_parameter(layer, which, view));
    view->gradient = view->count ? gradients->parameter[which] : NULL;
    return S4_OK;
}

void s4_layer_touch(s4_layer *layer, unsigned mask)
{
    layer->version++;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        if (mask >> p & 1) layer->changed_at[p] = layer->version;
}

s4_status s4_layer_changed(s4_layer *layer, unsigned mask)
{
    const unsigned not_in_c = (1u << S4_PARAMETER_B) | (1u << S4_PARAMETER_D); /* C~ does not depend on these */
    if (!layer) return s4_fail(S4_ERROR_ARGUMENT, "layer is NULL");
    if (mask & ~S4_PARAMETER_ALL)
        return s4_fail(S4_ERROR_ARGUMENT, "mask is 0x%x, must be within 0x%x", mask, S4_PARAMETER_ALL);
    if (mask) s4_layer_touch(layer, mask);
    if (mask & ~not_in_c) layer->keeps_plain = 0;
    return S4_OK;
}

int64_t s4_layer_length(const s4_layer *layer) { return layer ? layer->c_length : 0; }

s4_status s4_layer_set_length(s4_layer *layer, int64_t length)
{
    if (!layer) return s4_fail(S4_ERROR_ARGUMENT, "layer is NULL");
    if (length && layer->options.mode == S4_MODE_DIAG)
        return s4_fail(S4_ERROR_ARGUMENT, "length is %lld, must be 0: a diagonal layer stores plain C",
                       (long long)length);
    if (length < 0) return s4_fail(S4_ERROR_ARGUMENT, "length is %lld, must be >= 0", (long long)length);
    layer->c_length = length;
    layer->keeps_plain = 0;
    s4_layer_touch(layer, 1u << S4_PARAMETER_C);
    return S4_OK;
}

s4_raw s4_layer_raw(const s4_layer *layer)
{
    s4_raw raw = {
        .dt_transform = layer->options.dt_transform,
        .real_transform = layer->options.real_transform,
        .imag_transform = layer->options.imag_transform,
        .bandlimit = layer->options.bandlimit,
        .c_length = layer->c_length,
        .plain_c = layer->c_length && layer->keeps_plain && layer->options.bandlimit == 0 ? layer->plain_c : NULL,
    };
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) raw.parameter[p] = layer->parameter[p].data;
    return raw;
}

s4_shape s4_layer_shape(const s4_layer *layer, int threads, double rate)
{
    return (s4_shape){
        .direction = S4_DIRECTION_STEP,
        .dtype = S4_F64,
        .batch = 1,
        .length = 1,
        .d_model = layer->options.d_model,
        .modes = layer->options.d_state / 2,
        .rank = layer->options.rank,
        .n_ssm = layer->options.n_ssm,
        .mode = layer->options.mode,
        .discretisation = layer->options.discretisation,
        .channels = layer->options.channels,
        .kernels = layer->options.bidirectional ? 2 * layer->options.channels : layer->options.channels,
        .bidirectional = layer->options.bidirectional,
        .dt_modes = layer->options.dt_untied ? layer->options.d_state / 2 : 1,
        .threads = threads,
        .block_channels = layer->options.d_model,
        .block_batch = 1,
        .rate = rate,
    };
}
