/* Fresh layers: HiPPO-LegS in diagonal plus low-rank form, seeded. */
#include <math.h>
#include <string.h>

#include "s4/context_object.h"
#include "s4/errors.h"
#include "s4/layer_object.h"
#include "s4/options.h"
#include "s4/random.h"

#define DT_MIN 1e-3
#define DT_MAX 1e-1

static s4_status check(const s4_layer *layer, s4_init_options *o)
{
    const s4_layer_options *l = &layer->options;
    if (o->dt_min == 0) o->dt_min = DT_MIN;
    if (o->dt_max == 0) o->dt_max = DT_MAX;
    if (!(o->dt_min > 0) || !isfinite(o->dt_min))
        return s4_fail(S4_ERROR_ARGUMENT, "dt_min is %g, must be positive and finite", o->dt_min);
    if (!(o->dt_max >= o->dt_min) || !isfinite(o->dt_max))
        return s4_fail(S4_ERROR_ARGUMENT, "dt_max is %g, must be finite and >= dt_min %g", o->dt_max, o->dt_min);
    if (l->rank != 1)
        return s4_fail(S4_ERROR_UNSUPPORTED, "rank is %lld; initialisation has rank 1 in this version",
                       (long long)l->rank);
    if (l->dt_transform != S4_TRANSFORM_EXP || l->real_transform != S4_TRANSFORM_EXP ||
        l->imag_transform != S4_TRANSFORM_NONE)
        return s4_fail(S4_ERROR_UNSUPPORTED, "transforms are %s, %s, %s; initialisation has exp, exp, none in this "
                       "version", s4_transform_name(l->dt_transform), s4_transform_name(l->real_transform),
                       s4_transform_name(l->imag_transform));
    return S4_OK;
}

static void fill(s4_layer *layer, const s4_init_options *o, const double *lambda, const double *p, const double *b)
{
    int64_t n = layer->options.d_state / 2, S = layer->options.n_ssm, H = layer->options.d_model;
    double *const *data = (double *const[]){
        layer->parameter[S4_PARAMETER_INV_DT].data, layer->parameter[S4_PARAMETER_A_REAL].data,
        layer->parameter[S4_PARAMETER_A_IMAG].data, layer->parameter[S4_PARAMETER_B].data,
        layer->parameter[S4_PARAMETER_P].data,      layer->parameter[S4_PARAMETER_C].data,
        layer->parameter[S4_PARAMETER_D].data};
    for (int64_t s = 0; s < S; s++) {
        for (int64_t i = 0; i < n; i++) {
            data[S4_PARAMETER_A_REAL][s * n + i] = log(-lambda[2 * i]);
            data[S4_PARAMETER_A_IMAG][s * n + i] = -lambda[2 * i + 1];
        }
        memcpy(data[S4_PARAMETER_B] + s * n * 2, b, (size_t)n * 2 * sizeof *b);
        memcpy(data[S4_PARAMETER_P] + s * n * 2, p, (size_t)n * 2 * sizeof *p);
    }
    s4_random random;
    s4_random_seed(&random, o->seed);
    double low = log(o->dt_min), high = log(o->dt_max);
    for (int64_t h = 0; h < H; h++)
        data[S4_PARAMETER_INV_DT][h] = low + (high - low) * s4_random_uniform(&random);
    for (int64_t i = 0; i < H * n * 2; i++) data[S4_PARAMETER_C][i] = sqrt(0.5) * s4_random_normal(&random);
    for (int64_t h = 0; h < H; h++) data[S4_PARAMETER_D][h] = s4_random_normal(&random);
}

s4_status s4_layer_init_legs(s4_context *context, s4_layer *layer, const s4_init_options *options)
{
    if (!context || !layer) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", context ? "layer" : "context");
    s4_init_options o = {.struct_size = sizeof o};
    if (options) S4_TRY(s4_options_read("s4_init_options", options, &o, sizeof o));
    S4_TRY(check(layer, &o));
    const s4_backend *backend;
    S4_TRY(s4_context_open(context, S4_PLACE_CPU, &backend, NULL));
    if (!backend->legs) return s4_fail(S4_ERROR_UNSUPPORTED, "place cpu offers no initialisation");
    int64_t n = layer->options.d_state / 2;
    int64_t scratch = 2 * (2 * n) * (2 * n) + 2 * n;
    size_t bytes = (size_t)(3 * 2 * n + scratch) * sizeof(double);
    void *block;
    S4_TRY(s4_context_allocate(context, S4_PLACE_CPU, bytes, &block));
    double *lambda = block, *p = lambda + 2 * n, *b = p + 2 * n;
    s4_status status = backend->legs(n, b + 2 * n, lambda, p, b);
    if (!status) {
        fill(layer, &o, lambda, p, b);
        status = s4_layer_set_length(layer, 0);
    }
    s4_context_release(context, S4_PLACE_CPU, block, bytes);
    return status;
}
