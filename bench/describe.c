/* Words for layers. */
#include "describe.h"

#include <stdio.h>

#include "output.h"

void json_layer(cJSON *object, const s4_layer_options *sizes)
{
    cJSON_AddStringToObject(object, "mode", s4_mode_name(sizes->mode));
    json_integer(object, "d_model", sizes->d_model);
    json_integer(object, "d_state", sizes->d_state);
    json_integer(object, "rank", sizes->rank);
    json_integer(object, "n_ssm", sizes->n_ssm);
    json_integer(object, "channels", sizes->channels);
    cJSON_AddBoolToObject(object, "bidirectional", sizes->bidirectional);
    cJSON_AddBoolToObject(object, "dt_untied", sizes->dt_untied);
    cJSON_AddStringToObject(object, "disc", s4_discretisation_name(sizes->discretisation));
    cJSON_AddStringToObject(object, "dt_transform", s4_transform_name(sizes->dt_transform));
    cJSON_AddStringToObject(object, "real_transform", s4_transform_name(sizes->real_transform));
    cJSON_AddStringToObject(object, "imag_transform", s4_transform_name(sizes->imag_transform));
    if (sizes->bandlimit > 0)
        cJSON_AddNumberToObject(object, "bandlimit", sizes->bandlimit);
    else
        cJSON_AddNullToObject(object, "bandlimit");
}

const char *describe_layer(char *text, const s4_layer_options *sizes)
{
    char band[48] = "";
    if (sizes->bandlimit > 0) snprintf(band, sizeof band, ", bandlimit %g", sizes->bandlimit);
    snprintf(text, LAYER_TEXT_SIZE, "%s, %s, H = %lld, N = %lld, rank %lld, n_ssm %lld, channels %lld%s%s%s",
             s4_mode_name(sizes->mode), s4_discretisation_name(sizes->discretisation), (long long)sizes->d_model,
             (long long)sizes->d_state, (long long)sizes->rank, (long long)sizes->n_ssm, (long long)sizes->channels,
             sizes->bidirectional ? ", bidirectional" : "", sizes->dt_untied ? ", dt per mode" : "", band);
    return text;
}

const char *describe_leaf(char *text, int64_t length)
{
    if (length)
        snprintf(text, FORMAT_SIZE, "C~ of length %lld", (long long)length);
    else
        snprintf(text, FORMAT_SIZE, "plain C");
    return text;
}
