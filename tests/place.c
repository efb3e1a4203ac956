/* Where the tests of execution run: see place.h. */
#include "place.h"

#include <stdlib.h>

#include "expect.h"

const char *place_text(void)
{
    const char *text = getenv("S4_TEST_PLACEMENT");
    return text && *text ? text : "cpu";
}

s4_placement place_placement(void)
{
    s4_placement placement;
    must(s4_placement_parse(place_text(), &placement));
    return placement;
}

int place_has_gpu(void)
{
    const s4_placement placement = place_placement();
    for (int stage = 0; stage < S4_STAGE_COUNT; stage++)
        if (placement.stage[stage] == S4_PLACE_GPU)
            return 1;
    return 0;
}

int place_schedule(void)
{
    const char *seed = getenv("S4_EMULATION_SEED");
    return place_has_gpu() && seed ? (int)strtol(seed, NULL, 10) : -1;
}

void place_required(s4_context *context)
{
    if (!place_has_gpu())
        return;
    s4_place_info info;
    must(s4_context_place(context, S4_PLACE_GPU, &info));
    if (!info.available)
        cr_skip_test("placement %s: %s", place_text(), info.reason);
}
