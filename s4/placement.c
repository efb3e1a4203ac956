/* Placement from text: presets, and maps stage=place,stage=place. */
#include <stdio.h>
#include <string.h>

#include "s4/errors.h"
#include "s4/plan.h"

#define CPU S4_PLACE_CPU
#define GPU S4_PLACE_GPU
#define AUTO S4_PLACE_AUTO

static const struct {
    const char *name;
    s4_placement placement; /* init, setup, kernel, convolve, step, embed */
} presets[] = {
    {"cpu", {{CPU, CPU, CPU, CPU, CPU, CPU}}},
    {"gpu", {{GPU, GPU, GPU, GPU, GPU, GPU}}},
    {"split", {{CPU, CPU, GPU, GPU, CPU, CPU}}},
    {"auto", {{AUTO, AUTO, AUTO, AUTO, AUTO, AUTO}}},
};

#define CHOICES                                                                                                        \
    "cpu, gpu, split, auto, or stage=place,... with stages init, setup, kernel, convolve, step, embed and places "     \
    "cpu, "                                                                                                            \
    "gpu, auto"

static int equals(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && !memcmp(text, word, length);
}

static s4_status parse_pair(const char *text, size_t length, s4_placement *placement)
{
    const char *equal = memchr(text, '=', length);
    if (!equal) return s4_fail(S4_ERROR_ARGUMENT, "placement '%.*s' is none of " CHOICES, (int)length, text);
    size_t stage_length = (size_t)(equal - text), place_length = length - stage_length - 1;
    int stage = 0, place = 0;
    while (stage < S4_STAGE_COUNT && !equals(text, stage_length, s4_stage_name((s4_stage)stage))) stage++;
    if (stage == S4_STAGE_COUNT)
        return s4_fail(S4_ERROR_ARGUMENT, "placement: stage '%.*s' in '%.*s' is none of " CHOICES, (int)stage_length,
                       text, (int)length, text);
    while (place <= S4_PLACE_AUTO && !equals(equal + 1, place_length, s4_place_name((s4_place)place))) place++;
    if (place > S4_PLACE_AUTO)
        return s4_fail(S4_ERROR_ARGUMENT, "placement: place '%.*s' in '%.*s' is none of " CHOICES, (int)place_length,
                       equal + 1, (int)length, text);
    placement->stage[stage] = (s4_place)place;
    return S4_OK;
}

s4_status s4_placement_parse(const char *text, s4_placement *placement)
{
    if (!text || !placement) return s4_fail(S4_ERROR_ARGUMENT, "%s is NULL", text ? "placement" : "text");
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        if (!strcmp(text, presets[i].name)) {
            *placement = presets[i].placement;
            return S4_OK;
        }
    }
    s4_placement result = {{CPU, CPU, CPU, CPU, CPU, CPU}};
    for (const char *at = text;;) {
        const char *comma = strchr(at, ',');
        size_t length = comma ? (size_t)(comma - at) : strlen(at);
        if (length > 64) length = 64;
        S4_TRY(parse_pair(at, length, &result));
        if (!comma) break;
        at = comma + 1;
    }
    *placement = result;
    return S4_OK;
}
