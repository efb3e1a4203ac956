/*
 * Fresh layers, seeded: Lambda, P and B of a family, each copy alike (a mix: in turn), through the inverse transforms;
 * dt = exp(U(log dt_min, log dt_max)) or log-spaced over the channels; C complex normal of variance 1 (its parts 1/2);
 * D normal. Everything that can fail is done before the layer is written.
 */
#include <math.h>
#include <string.h>

#include "s4/context_object.h"
#include "s4/errors.h"
#include "s4/init_families.h"
#include "s4/layer_object.h"
#include "s4/options.h"
#include "s4/random.h"
#include "s4/transform_inverse.h"

#define DT_MIN 1e-3
#define DT_MAX 1e-1

/* Raw parameters of one copy. */
typedef struct raw_copy {
    double *real, *imag; /* (n) */
    s4_family_start start;
} raw_copy;
#define RAW_COPY_ROWS (2 + 2 + 2 * S4_FAMILY_RANK_MAX + 2)

static raw_copy raw_copy_view(int64_t modes, double *base)
{
    raw_copy v;
    v.real = base;
    v.imag = v.real + modes;
    v.start.lambda = v.imag + modes;
    v.start.p = v.start.lambda + 2 * modes;
    v.start.b = v.start.p + 2 * S4_FAMILY_RANK_MAX * modes;
    return v;
}

static s4_status check_dt(const s4_layer *layer, const char *name, double dt)
{
    double raw;
    s4_transform transform = layer->options.dt_transform;
    if (s4_transform_inverse(transform, dt, 0, &raw)) return S4_OK;
    return s4_fail(S4_ERROR_ARGUMENT, "%s is %g, which transform %s cannot give: it is %s", name, dt,
                   s4_transform_name(transform), transform == S4_TRANSFORM_RELU ? "above 1e-4" : "in 0 .. 1");
}

static s4_status check(const s4_layer *layer, s4_init_options *o)
{
    const s4_layer_options *l = &layer->options;
    if (!s4_family_known(o->init)) return s4_fail(S4_ERROR_ARGUMENT, "init is %d, which names no family", (int)o->init);
    if (s4_family_mode(o->init) != l->mode)
        return s4_fail(S4_ERROR_ARGUMENT, "init is %s, a family of %s layers; this layer is %s", s4_init_name(o->init),
                       s4_mode_name(s4_family_mode(o->init)), s4_mode_name(l->mode));
    if (l->rank < s4_family_rank(o->init))
        return s4_fail(S4_ERROR_ARGUMENT, "rank is %lld, init %s needs at least %lld", (long long)l->rank,
                       s4_init_name(o->init), (long long)s4_family_rank(o->init));
    if (o->dt_min == 0) o->dt_min = DT_MIN;
    if (o->dt_max == 0) o->dt_max = DT_MAX;
    if (!(o->dt_min > 0) || !isfinite(o->dt_min))
        return s4_fail(S4_ERROR_ARGUMENT, "dt_min is %g, must be positive and finite", o->dt_min);
    if (!(o->dt_max >= o->dt_min) || !isfinite(o->dt_max))
        return s4_fail(S4_ERROR_ARGUMENT, "dt_max is %g, must be finite and >= dt_min %g", o->dt_max, o->dt_min);
    S4_TRY(check_dt(layer, "dt_min", o->dt_min));
    return check_dt(layer, "dt_max", o->dt_max);
}

static s4_status invert(const char *name, s4_init init, s4_transform transform, int64_t j, double value, double *raw)
{
    if (s4_transform_inverse(transform, value, S4_TRANSFORM_FLOOR, raw)) return S4_OK;
    return s4_fail(S4_ERROR_ARGUMENT,
                   "%s of mode %lld: init %s wants %g, which transform %s cannot give: it is in 0 .. 1", name,
                   (long long)j, s4_init_name(init), value, s4_transform_name(transform));
}

static s4_status begin_copy(const s4_backend *backend, const s4_layer *layer, s4_init init, int clamps, double *scratch,
                            const raw_copy *copy)
{
    int64_t modes = layer->options.d_state / 2;
    S4_TRY(s4_family_begin(backend, init, modes, scratch, &copy->start));
    if (clamps) s4_family_clamp(init, modes, &copy->start);
    for (int64_t j = 0; j < modes; j++) {
        double decay = -copy->start.lambda[2 * j], frequency = -copy->start.lambda[2 * j + 1];
        S4_TRY(invert("A_real", init, layer->options.real_transform, j, decay, &copy->real[j]));
        S4_TRY(invert("A_imag", init, layer->options.imag_transform, j, frequency, &copy->imag[j]));
    }
    return S4_OK;
}

/* Columns of P beyond those of the family are 0. */
static void write_copy(s4_layer *layer, int64_t s, const raw_copy *copy, int64_t rows)
{
    int64_t n = layer->options.d_state / 2, S = layer->options.n_ssm;
    size_t bytes = (size_t)n * sizeof(double);
    memcpy(layer->parameter[S4_PARAMETER_A_REAL].data + s * n, copy->real, bytes);
    memcpy(layer->parameter[S4_PARAMETER_A_IMAG].data + s * n, copy->imag, bytes);
    memcpy(layer->parameter[S4_PARAMETER_B].data + s * n * 2, copy->start.b, 2 * bytes);
    for (int64_t r = 0; r < layer->options.rank; r++) {
        double *p = layer->parameter[S4_PARAMETER_P].data + (r * S + s) * n * 2;
        if (r < rows)
            memcpy(p, copy->start.p + r * n * 2, 2 * bytes);
        else
            memset(p, 0, 2 * bytes);
    }
}

/* inv_dt (H,1) or (H,n). The transform of dt is known to reach dt_min and dt_max, so what is between too. */
static void write_dt(s4_layer *layer, const s4_init_options *o, s4_random *random)
{
    const s4_parameter_view *view = &layer->parameter[S4_PARAMETER_INV_DT];
    int64_t H = view->shape[0], steps = view->shape[1];
    double low = log(o->dt_min), high = log(o->dt_max);
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; i < steps; i++) {
            double spaced = H > 1 ? (double)h / (double)(H - 1) : 0;
            double at = o->dt_spaced ? spaced : s4_random_uniform(random);
            double dt = fmin(fmax(exp(low + (high - low) * at), o->dt_min), o->dt_max);
            s4_transform_inverse(layer->options.dt_transform, dt, 0, &view->data[h * steps + i]);
        }
}

static void write_normal(const s4_parameter_view *view, double deviation, s4_random *random)
{
    for (int64_t i = 0; i < view->count; i++) view->data[i] = deviation * s4_random_normal(random);
}

static void write_layer(s4_layer *layer, const s4_init_options *o, const raw_copy *copies, int64_t members)
{
    for (int64_t s = 0; s < layer->options.n_ssm; s++)
        write_copy(layer, s, &copies[s % members], s4_family_rank(s4_family_member(o->init, s)));
    s4_random random;
    s4_random_seed(&random, o->seed);
    write_dt(layer, o, &random);
    write_normal(&layer->parameter[S4_PARAMETER_C], sqrt(0.5), &random);
    write_normal(&layer->parameter[S4_PARAMETER_D], 1, &random);
}

s4_status s4_layer_init(s4_context *context, s4_layer *layer, const s4_init_options *options)
{
    enum { MEMBERS_MAX = 2 };
    if (!context || !layer) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", context ? "layer" : "context");
    s4_init_options o = {.struct_size = sizeof o};
    if (options)
        S4_TRY(s4_options_read("s4_init_options", options, &o, sizeof o));
    else
        o.init = layer->options.mode == S4_MODE_DIAG ? S4_INIT_DIAG_LIN : S4_INIT_LEGS;
    S4_TRY(check(layer, &o));
    const s4_backend *backend;
    S4_TRY(s4_context_open(context, S4_PLACE_CPU, &backend, NULL));
    int64_t n = layer->options.d_state / 2, members = s4_family_members(o.init);
    size_t bytes = (size_t)(members * RAW_COPY_ROWS * n + s4_family_scratch(o.init, n)) * sizeof(double);
    void *block;
    S4_TRY(s4_context_allocate(context, S4_PLACE_CPU, bytes, &block));
    double *scratch = (double *)block + members * RAW_COPY_ROWS * n;
    raw_copy copies[MEMBERS_MAX];
    s4_status status = S4_OK;
    for (int64_t m = 0; m < members && !status; m++) {
        copies[m] = raw_copy_view(n, (double *)block + m * RAW_COPY_ROWS * n);
        status = begin_copy(backend, layer, s4_family_member(o.init, m), o.published_clamps, scratch, &copies[m]);
    }
    if (!status) {
        write_layer(layer, &o, copies, members);
        status = s4_layer_set_length(layer, 0);
    }
    s4_context_release(context, S4_PLACE_CPU, block, bytes);
    return status;
}
