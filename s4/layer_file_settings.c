/*
 * Settings of a layer that are no tensors: from the metadata of its file, and from overrides "key=value,key=value",
 * which win. One table tells how each is read and written.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "s4/decimal.h"
#include "s4/errors.h"
#include "s4/layer_file.h"

#define VALUE_MAX 64

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* One kind of value: from its text (S4_ERROR_ARGUMENT names the choices) and back, `field` in s4_layer_options. */
typedef struct kind {
    s4_status (*take)(const char *text, void *field);
    const char *(*show)(const void *field, char *text);
} kind;

static s4_status take_mode(const char *text, void *field) { return s4_mode_parse(text, field); }
static s4_status take_disc(const char *text, void *field) { return s4_discretisation_parse(text, field); }
static s4_status take_transform(const char *text, void *field) { return s4_transform_parse(text, field); }

static s4_status take_flag(const char *text, void *field)
{
    static const struct {
        const char *text;
        int value;
    } flags[] = {{"0", 0}, {"1", 1}, {"false", 0}, {"true", 1}, {"False", 0}, {"True", 1}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(text, flags[i].text) == 0) {
            *(int *)field = flags[i].value;
            return S4_OK;
        }
    return s4_fail(S4_ERROR_ARGUMENT, "'%.64s' is none of 0, 1, false, true", text);
}

static s4_status take_number(const char *text, void *field)
{
    const char *end = text + strlen(text);
    double number = 0;
    if (s4_decimal_parse(text, end, &number) != end || !isfinite(number) || number < 0)
        return s4_fail(S4_ERROR_ARGUMENT, "'%.64s' is no number >= 0 (0 is off)", text);
    *(double *)field = number;
    return S4_OK;
}

static const char *show_mode(const void *field, char *text)
{
    (void)text;
    return s4_mode_name(*(const s4_mode *)field);
}

static const char *show_disc(const void *field, char *text)
{
    (void)text;
    return s4_discretisation_name(*(const s4_discretisation *)field);
}

static const char *show_transform(const void *field, char *text)
{
    (void)text;
    return s4_transform_name(*(const s4_transform *)field);
}

static const char *show_flag(const void *field, char *text)
{
    (void)text;
    return *(const int *)field ? "1" : "0";
}

static const char *show_number(const void *field, char *text)
{
    if (*(const double *)field == 0) return ""; /* off, as published files say it */
    (void)s4_decimal_format(*(const double *)field, 17, text);
    return text;
}

static const kind mode_kind = {take_mode, show_mode}, disc_kind = {take_disc, show_disc},
                  transform_kind = {take_transform, show_transform}, flag_kind = {take_flag, show_flag},
                  number_kind = {take_number, show_number};

/* In the order of s4_setting. */
static const struct {
    const char *key;
    const kind *kind;
    size_t field; /* in s4_layer_options */
    int overridable;
} settings[S4_SETTING_COUNT] = {
    {"mode", &mode_kind, offsetof(s4_layer_options, mode), 1},
    {"disc", &disc_kind, offsetof(s4_layer_options, discretisation), 1},
    {"bidirectional", &flag_kind, offsetof(s4_layer_options, bidirectional), 1},
    {"bandlimit", &number_kind, offsetof(s4_layer_options, bandlimit), 1},
    {"dt_transform", &transform_kind, offsetof(s4_layer_options, dt_transform), 1},
    {"real_transform", &transform_kind, offsetof(s4_layer_options, real_transform), 1},
    {"imag_transform", &transform_kind, offsetof(s4_layer_options, imag_transform), 1},
    {"dt_untied", &flag_kind, offsetof(s4_layer_options, dt_untied), 0},
};

_Static_assert(S4_SETTING_COUNT <= 32, "settings are bits");

const char *s4_setting_key(s4_setting setting) { return settings[setting].key; }

const char *s4_setting_value(s4_setting setting, const s4_layer_options *options, char text[S4_SETTING_TEXT])
{
    return settings[setting].kind->show((const char *)options + settings[setting].field, text);
}

static s4_status take(int setting, const char *text, s4_layer_options *options)
{
    return settings[setting].kind->take(text, (char *)options + settings[setting].field);
}

/* ---- overrides --------------------------------------------------------------------------------------------------- */

static s4_status unknown_key(const char *pair, int length)
{
    char keys[128] = "";
    for (int s = 0; s < S4_SETTING_COUNT; s++) {
        size_t used = strlen(keys);
        if (settings[s].overridable)
            (void)snprintf(keys + used, sizeof keys - used, "%s%s", used ? ", " : "", settings[s].key);
    }
    return s4_fail(S4_ERROR_ARGUMENT, "override '%.*s': the key is none of %s", length < 64 ? length : 64, pair, keys);
}

static s4_status take_pair(const char *pair, int length, s4_layer_settings *result)
{
    const char *equals = memchr(pair, '=', (size_t)length);
    if (!equals) return s4_fail(S4_ERROR_ARGUMENT, "override '%.*s' is not key=value", length < 64 ? length : 64, pair);
    size_t key_length = (size_t)(equals - pair), value_length = (size_t)length - key_length - 1;
    for (int s = 0; s < S4_SETTING_COUNT; s++) {
        const char *key = settings[s].key;
        if (!settings[s].overridable || strlen(key) != key_length || memcmp(key, pair, key_length) != 0) continue;
        if (result->in_overrides >> s & 1) return s4_fail(S4_ERROR_ARGUMENT, "override %s is given twice", key);
        char value[VALUE_MAX];
        if (value_length >= sizeof value)
            return s4_fail(S4_ERROR_ARGUMENT, "override %s: '%.64s...' has more than %d characters", key, equals + 1,
                           VALUE_MAX - 1);
        memcpy(value, equals + 1, value_length);
        value[value_length] = 0;
        if (take(s, value, &result->options))
            return s4_fail(S4_ERROR_ARGUMENT, "override %s: %s", key, s4_last_error());
        result->in_overrides |= 1u << s;
        return S4_OK;
    }
    return unknown_key(pair, length);
}

static void set_defaults(s4_layer_options *o)
{
    S4_INIT(o);
    o->transforms_given = 1;
    o->dt_transform = o->real_transform = S4_TRANSFORM_EXP;
    o->imag_transform = S4_TRANSFORM_NONE;
}

s4_status s4_layer_settings_override(const char *overrides, s4_layer_settings *result)
{
    set_defaults(&result->options);
    result->in_file = result->in_overrides = 0;
    if (!overrides || !overrides[0]) return S4_OK;
    for (const char *pair = overrides;; pair++) {
        size_t length = strcspn(pair, ",");
        if (length > 1 << 16) return s4_fail(S4_ERROR_ARGUMENT, "override '%.64s...' is not key=value", pair);
        S4_TRY(take_pair(pair, (int)length, result));
        pair += length;
        if (!*pair) return S4_OK;
    }
}

/* ---- metadata ---------------------------------------------------------------------------------------------------- */

/* "" and what Python makes of a value that is not set are as if the key were not there. */
static int is_set(const char *value) { return value && value[0] && strcmp(value, "None") != 0; }

s4_status s4_layer_settings_read(const char *path, const s4_tensors *file, s4_layer_settings *result)
{
    for (int s = 0; s < S4_SETTING_COUNT; s++) {
        const char *value = s4_tensors_metadata(file, settings[s].key);
        if (!is_set(value) || result->in_overrides >> s & 1) continue;
        if (take(s, value, &result->options))
            return s4_fail(S4_ERROR_FORMAT, "%s: metadata %s: %s", path, settings[s].key, s4_last_error());
        result->in_file |= 1u << s;
    }
    return S4_OK;
}
