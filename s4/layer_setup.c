/* What the set-up does to a layer: the leaf from plain C to C~ and back, the discrete system. Host, double. */
#include <math.h>
#include <string.h>

#include "s4/context_object.h"
#include "s4/errors.h"
#include "s4/layer_object.h"

/* Memory of one set-up: effective parameters, matrices, and a new C. */
typedef struct scratch {
    s4_context *context;
    void *block;
    size_t bytes;
    s4_setup setup;
    double *new_c;
    const s4_backend *backend;
} scratch;

static void release(scratch *s) { s4_context_release(s->context, S4_PLACE_CPU, s->block, s->bytes); }

/* Takes scratch for the layer and computes its effective parameters. */
static s4_status take(s4_context *context, const s4_layer *layer, const s4_shape *shape, scratch *s)
{
    int64_t c_count = layer->parameter[S4_PARAMETER_C].count;
    int64_t system = s4_system_count(shape);
    int64_t count = system + shape->threads * s4_setup_lane(shape->modes) + c_count;
    memset(s, 0, sizeof *s);
    s->context = context;
    S4_TRY(s4_context_open(context, S4_PLACE_CPU, &s->backend, &s->setup.device));
    if (!s->backend->effective || !s->backend->convert_c || !s->backend->discrete)
        return s4_fail(S4_ERROR_UNSUPPORTED, "place cpu offers no set-up");
    s->bytes = (size_t)count * sizeof(double);
    S4_TRY(s4_context_allocate(context, S4_PLACE_CPU, s->bytes, &s->block));
    double *base = s->block;
    s->new_c = base;
    s->setup.shape = shape;
    s->setup.system = s4_system_view(shape, base + c_count);
    s->setup.matrices = base + c_count + system;
    s4_raw raw = s4_layer_raw(layer);
    raw.bandlimit = 0; /* the stored C keeps all its modes */
    s4_status status = s->backend->effective(shape, &raw, &s->setup.system);
    if (status) release(s);
    return status;
}

s4_status s4_layer_setup(s4_context *context, s4_layer *layer, int64_t length)
{
    if (!context || !layer) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", context ? "layer" : "context");
    if (length < 0 || length > (int64_t)1 << 28)
        return s4_fail(S4_ERROR_ARGUMENT, "length is %lld, must be in 0 .. %lld", (long long)length,
                       (long long)1 << 28);
    if (layer->options.mode == S4_MODE_DIAG)
        return s4_fail(S4_ERROR_UNSUPPORTED, "a diagonal layer stores plain C and needs no set-up");
    if (length == layer->c_length) return S4_OK;
    s4_shape shape = s4_layer_shape(layer, context->options.threads, 1);
    scratch s;
    S4_TRY(take(context, layer, &shape, &s));
    double *C = layer->parameter[S4_PARAMETER_C].data;
    size_t c_bytes = (size_t)layer->parameter[S4_PARAMETER_C].count * sizeof(double);
    int kept = layer->c_length && layer->keeps_plain;
    memcpy(s.new_c, kept ? layer->plain_c : C, c_bytes);
    s4_status status = s.backend->convert_c(&s.setup, kept ? 0 : layer->c_length, length, s.new_c);
    if (!status) {
        if (!layer->c_length) {
            memcpy(layer->plain_c, C, c_bytes);
            layer->keeps_plain = 1;
        }
        memcpy(C, s.new_c, c_bytes);
        layer->c_length = length;
        if (!length) layer->keeps_plain = 0;
        s4_layer_touch(layer, 1u << S4_PARAMETER_C);
    }
    release(&s);
    return status;
}

s4_status s4_layer_discrete(s4_context *context, const s4_layer *layer, double rate, double *dA, double *dB,
                            int64_t power, double *dA_power)
{
    if (!context || !layer) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", context ? "layer" : "context");
    if (!(rate > 0) || !isfinite(rate))
        return s4_fail(S4_ERROR_ARGUMENT, "rate is %g, must be positive and finite", rate);
    if (power < 0) return s4_fail(S4_ERROR_ARGUMENT, "power is %lld, must be >= 0", (long long)power);
    if (layer->options.discretisation == S4_DSS)
        return s4_fail(S4_ERROR_UNSUPPORTED, "dss layers are kernels only: they have no discrete system");
    s4_shape shape = s4_layer_shape(layer, context->options.threads, rate);
    scratch s;
    S4_TRY(take(context, layer, &shape, &s));
    s4_status status = s.backend->discrete(&s.setup, dA, dB, power, dA_power);
    release(&s);
    return status;
}
