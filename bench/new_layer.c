/* From options to a fresh layer. */
#include "new_layer.h"

#include <string.h>

int new_layer_asked(const struct options *options)
{
    return options->d_model || options->d_state || options->rank || options->n_ssm || options->channels ||
           options->bidirectional || options->dt_untied || options->dt_spaced || options->published_clamps ||
           options->layer_mode != NOT_GIVEN || options->discretisation != NOT_GIVEN || options->init != NOT_GIVEN ||
           options->dt_transform != NOT_GIVEN || options->real_transform != NOT_GIVEN ||
           options->imag_transform != NOT_GIVEN || options->bandlimit > 0 || options->dt_min > 0 || options->dt_max > 0;
}

static s4_mode mode_of(const struct options *options)
{
    if (options->layer_mode != NOT_GIVEN) return (s4_mode)options->layer_mode;
    return options->init >= (int)S4_INIT_DIAG_LIN ? S4_MODE_DIAG : S4_MODE_DPLR;
}

static int value_or(int value, int otherwise) { return value == NOT_GIVEN ? otherwise : value; }

void new_layer_sizes(const struct options *options, s4_layer_options *sizes)
{
    S4_INIT(sizes);
    sizes->mode = mode_of(options);
    sizes->d_model = options->d_model;
    sizes->d_state = options->d_state ? options->d_state : 64;
    sizes->rank = options->rank;
    if (!sizes->rank && options->init == (int)S4_INIT_LEGT) sizes->rank = 2;
    sizes->n_ssm = options->n_ssm;
    sizes->channels = options->channels;
    sizes->bidirectional = options->bidirectional;
    sizes->dt_untied = options->dt_untied;
    sizes->bandlimit = options->bandlimit;
    int usual = sizes->mode == S4_MODE_DIAG ? S4_ZOH : S4_BILINEAR;
    sizes->discretisation = (s4_discretisation)value_or(options->discretisation, usual);
    sizes->transforms_given = 1;
    sizes->dt_transform = (s4_transform)value_or(options->dt_transform, S4_TRANSFORM_EXP);
    sizes->real_transform = (s4_transform)value_or(options->real_transform, S4_TRANSFORM_EXP);
    sizes->imag_transform = (s4_transform)value_or(options->imag_transform, S4_TRANSFORM_NONE);
}

s4_status new_layer_init(const struct options *options, s4_context *context, s4_layer *layer)
{
    int usual = mode_of(options) == S4_MODE_DIAG ? S4_INIT_DIAG_LIN : S4_INIT_LEGS;
    s4_init_options init;
    S4_INIT(&init);
    init.init = (s4_init)value_or(options->init, usual);
    init.seed = (uint64_t)options->seed;
    init.dt_min = options->dt_min;
    init.dt_max = options->dt_max;
    init.dt_spaced = options->dt_spaced;
    init.published_clamps = options->published_clamps;
    return s4_layer_init(context, layer, &init);
}

s4_status copy_layer(s4_layer *from, s4_layer **to)
{
    s4_layer_options description;
    S4_INIT(&description);
    s4_status status = s4_layer_describe(from, &description);
    description.transforms_given = 1;
    if (!status) status = s4_layer_create(&description, to);
    for (int p = 0; p < S4_PARAMETER_COUNT && !status; p++) {
        s4_parameter_view source, target;
        status = s4_layer_parameter(from, (s4_parameter)p, &source);
        if (!status) status = s4_layer_parameter(*to, (s4_parameter)p, &target);
        if (!status && source.count) memcpy(target.data, source.data, (size_t)source.count * sizeof *target.data);
    }
    if (!status) status = s4_layer_changed(*to, S4_PARAMETER_ALL);
    if (!status && s4_layer_length(from)) status = s4_layer_set_length(*to, s4_layer_length(from));
    return status;
}
