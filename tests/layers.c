/* Layers for tests: see layers.h. */
#include "layers.h"

#include <math.h>

#include "expect.h"

static const double pi = 3.14159265358979323846;

/* Raw value whose transform is `effective` > 1e-4. */
static double raw_of(s4_transform transform, double effective)
{
    switch (transform) {
    case S4_TRANSFORM_EXP:
        return log(effective);
    case S4_TRANSFORM_RELU:
        return effective - 1e-4;
    case S4_TRANSFORM_SIGMOID:
        return log(effective / (1 - effective));
    case S4_TRANSFORM_SOFTPLUS:
        return log(expm1(effective));
    case S4_TRANSFORM_NONE:
    default:
        return effective;
    }
}

static void fill(double *data, int64_t count, random_source *random, double low, double high)
{
    for (int64_t i = 0; i < count; i++)
        data[i] = random_uniform(random, low, high);
}

s4_layer *layer_random(const layer_shape *shape, uint64_t seed)
{
    s4_layer_options options;
    S4_INIT(&options);
    options.mode = shape->mode;
    options.d_model = shape->d_model;
    options.d_state = shape->d_state;
    options.rank = shape->rank;
    options.n_ssm = shape->n_ssm;
    options.channels = shape->channels;
    options.discretisation = shape->discretisation;
    options.bidirectional = shape->bidirectional;
    options.dt_untied = shape->dt_untied;
    options.bandlimit = shape->bandlimit;
    options.transforms_given = 1;
    options.dt_transform = shape->plain_transforms ? S4_TRANSFORM_EXP : shape->dt_transform;
    options.real_transform = shape->plain_transforms ? S4_TRANSFORM_EXP : shape->real_transform;
    options.imag_transform = shape->plain_transforms ? S4_TRANSFORM_NONE : shape->imag_transform;
    s4_layer *layer;
    must(s4_layer_create(&options, &layer));

    random_source random = {seed};
    const int64_t modes = shape->d_state / 2;
    double *inv_dt = layer_data(layer, S4_PARAMETER_INV_DT);
    for (int64_t h = 0; h < layer_count(layer, S4_PARAMETER_INV_DT); h++)
        inv_dt[h] = raw_of(options.dt_transform, exp(random_uniform(&random, log(0.02), log(0.2))));
    double *A_real = layer_data(layer, S4_PARAMETER_A_REAL);
    double *A_imag = layer_data(layer, S4_PARAMETER_A_IMAG);
    const int64_t count = layer_count(layer, S4_PARAMETER_A_REAL);
    for (int64_t i = 0; i < count; i++) {
        A_real[i] = raw_of(options.real_transform, random_uniform(&random, 0.3, 0.9));
        /* A sigmoid cannot leave (0, 1): then the frequencies crowd there. */
        const double wide = pi * ((double)(i % modes) + random_uniform(&random, 0.3, 0.8));
        A_imag[i] = options.imag_transform == S4_TRANSFORM_SIGMOID
                        ? raw_of(options.imag_transform, random_uniform(&random, 0.1, 0.9))
                        : raw_of(options.imag_transform, wide);
    }
    fill(layer_data(layer, S4_PARAMETER_B), layer_count(layer, S4_PARAMETER_B), &random, -1.2, 1.2);
    fill(layer_data(layer, S4_PARAMETER_P), layer_count(layer, S4_PARAMETER_P), &random, -0.7, 0.7);
    fill(layer_data(layer, S4_PARAMETER_C), layer_count(layer, S4_PARAMETER_C), &random, -1.2, 1.2);
    fill(layer_data(layer, S4_PARAMETER_D), layer_count(layer, S4_PARAMETER_D), &random, -1, 1);
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
    must(s4_layer_set_length(layer, 0));
    return layer;
}

s4_layer *layer_legs(s4_context *context, int64_t d_model, int64_t d_state, uint64_t seed)
{
    s4_layer_options options;
    S4_INIT(&options);
    options.d_model = d_model;
    options.d_state = d_state;
    s4_layer *layer;
    must(s4_layer_create(&options, &layer));
    s4_init_options init;
    S4_INIT(&init);
    init.seed = seed;
    must(s4_layer_init(context, layer, &init));
    return layer;
}

s4_layer *layer_by_hand(void)
{
    static const double P[] = {0.5, 0.25, 0.75, -0.1}, B[] = {1, 0, 1, 0}, C[] = {1, -1, 0.5, 2};
    s4_layer_options options;
    S4_INIT(&options);
    options.d_model = 1;
    options.d_state = 4;
    options.transforms_given = 1; /* all three none */
    s4_layer *layer;
    must(s4_layer_create(&options, &layer));
    layer_data(layer, S4_PARAMETER_INV_DT)[0] = 0.1;
    for (int n = 0; n < 2; n++) {
        layer_data(layer, S4_PARAMETER_A_REAL)[n] = 0.5;
        layer_data(layer, S4_PARAMETER_A_IMAG)[n] = n == 0 ? -pi / 2 : -3 * pi / 2;
    }
    memcpy(layer_data(layer, S4_PARAMETER_P), P, sizeof P);
    memcpy(layer_data(layer, S4_PARAMETER_B), B, sizeof B);
    memcpy(layer_data(layer, S4_PARAMETER_C), C, sizeof C);
    must(s4_layer_changed(layer, S4_PARAMETER_ALL));
    return layer;
}

void layer_make_trainable(s4_context *context, s4_layer *layer, int64_t length)
{
    if (layer_options(layer).mode == S4_MODE_DPLR)
        must(s4_layer_setup(context, layer, length));
}

double *layer_data(s4_layer *layer, s4_parameter which)
{
    s4_parameter_view view;
    must(s4_layer_parameter(layer, which, &view));
    return view.data;
}

int64_t layer_count(s4_layer *layer, s4_parameter which)
{
    s4_parameter_view view;
    must(s4_layer_parameter(layer, which, &view));
    return view.count;
}

s4_layer_options layer_options(const s4_layer *layer)
{
    s4_layer_options options;
    S4_INIT(&options);
    must(s4_layer_describe(layer, &options));
    return options;
}

double *layer_bits(s4_layer *layer, int64_t *count)
{
    *count = 0;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        *count += layer_count(layer, (s4_parameter)p);
    double *bits = numbers(*count), *to = bits;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        const int64_t part = layer_count(layer, (s4_parameter)p);
        if (part > 0) /* P of a diagonal layer is NULL */
            memcpy(to, layer_data(layer, (s4_parameter)p), sizeof *to * (size_t)part);
        to += part;
    }
    return bits;
}

void layer_write_c(s4_layer *layer, const double *c, int64_t length)
{
    memcpy(layer_data(layer, S4_PARAMETER_C), c, sizeof *c * (size_t)layer_count(layer, S4_PARAMETER_C));
    must(s4_layer_set_length(layer, length));
    must(s4_layer_changed(layer, 1u << S4_PARAMETER_C));
}

static enum ref_transform reference_transform(s4_transform transform)
{
    static const enum ref_transform table[] = {
        [S4_TRANSFORM_NONE] = REF_TRANSFORM_NONE,         [S4_TRANSFORM_EXP] = REF_TRANSFORM_EXP,
        [S4_TRANSFORM_RELU] = REF_TRANSFORM_RELU,         [S4_TRANSFORM_SIGMOID] = REF_TRANSFORM_SIGMOID,
        [S4_TRANSFORM_SOFTPLUS] = REF_TRANSFORM_SOFTPLUS,
    };
    return table[transform];
}

int64_t layer_kernels(const s4_layer *layer)
{
    const s4_layer_options options = layer_options(layer);
    return options.bidirectional ? 2 * options.channels : options.channels;
}

struct ref_layer layer_reference(s4_layer *layer)
{
    const s4_layer_options options = layer_options(layer);
    struct ref_layer reference = {
        .dt_per_mode = options.dt_untied,
        .d_model = (int)options.d_model,
        .d_state = (int)options.d_state,
        .rank = (int)options.rank,
        .n_ssm = (int)options.n_ssm,
        .inv_dt = layer_data(layer, S4_PARAMETER_INV_DT),
        .A_real = layer_data(layer, S4_PARAMETER_A_REAL),
        .A_imag = layer_data(layer, S4_PARAMETER_A_IMAG),
        .B = layer_data(layer, S4_PARAMETER_B),
        .P = layer_data(layer, S4_PARAMETER_P),
        .C = layer_data(layer, S4_PARAMETER_C),
        .D = layer_data(layer, S4_PARAMETER_D),
        .dt_transform = reference_transform(options.dt_transform),
        .real_transform = reference_transform(options.real_transform),
        .imag_transform = reference_transform(options.imag_transform),
        .rate = 1,
    };
    return reference;
}

struct ref_layer layer_reference_kernel(s4_layer *layer, int64_t c)
{
    const s4_layer_options options = layer_options(layer);
    struct ref_layer reference = layer_reference(layer);
    reference.C += c * options.d_model * options.d_state;
    reference.D = c < options.channels ? reference.D + c * options.d_model : NULL;
    return reference;
}
