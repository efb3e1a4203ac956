/* s4 check: the self-test on every place there is, or on those named. */
#include "check.h"
#include "exit_code.h"
#include "problem.h"
#include "progress.h"
#include "verbs.h"

static const char *const every_place[] = {"cpu", "split", "gpu"};
#define EVERY_PLACE_COUNT ((int)(sizeof every_place / sizeof *every_place))

static int check_place(const struct options *options, struct checker *checker)
{
    if (options->golden) return check_golden(options, checker);
    check_properties(checker);
    return CODE_FINE;
}

/* A place that was named must be there; one that was not is skipped with the reason. */
static int check_places(const struct options *options, s4_context *context, struct check_list *list)
{
    s4_place_info gpu;
    s4_status status = s4_context_place(context, S4_PLACE_GPU, &gpu);
    if (status) return fail_status(options->verb, status);
    int named = options->placement_count, count = named ? named : EVERY_PLACE_COUNT;
    struct checker checkers[PLACEMENTS_MAX];
    for (int i = 0; i < count; i++) {
        checkers[i] = (struct checker){.list = list, .context = context, .subject = "place", .first_place = i == 0};
        checkers[i].place = named ? options->placement_text[i] : every_place[i];
        status = s4_placement_parse(checkers[i].place, &checkers[i].placement);
        if (status) return fail_status(options->verb, status);
        if (named && placement_uses_gpu(&checkers[i].placement) && !gpu.available) {
            fprintf(stderr, "s4 %s: %s: %s\n", options->verb, checkers[i].place, gpu.reason);
            return CODE_PLACE;
        }
    }
    int code = CODE_FINE;
    for (int i = 0; i < count && !code && !progress_cancelled(); i++) {
        if (placement_uses_gpu(&checkers[i].placement) && !gpu.available)
            check_skip(&checkers[i], "available", gpu.reason);
        else
            code = check_place(options, &checkers[i]);
    }
    return code || !progress_cancelled() ? code : fail_status(options->verb, S4_ERROR_CANCELLED);
}

int verb_check(const struct options *options)
{
    s4_context *context = NULL;
    int code = open_context(options, &context);
    if (code) return code;
    struct check_list list = {.json = options->json};
    if (list.json) list.array = cJSON_CreateArray();
    code = check_places(options, context, &list);
    if (!code)
        code = check_end(&list);
    else
        cJSON_Delete(list.array);
    s4_context_destroy(context);
    return code;
}
