/* Results of checks: a line each, or a JSON array. */
#include "check.h"

#include "exit_code.h"
#include "progress.h"

static const char *const state_name[] = {"pass", "fail", "skip"};
static const char *const state_mark[] = {"PASS", "FAIL", "SKIP"};

static void add(struct checker *checker, enum check_state state, const char *name, const double *value,
                const double *bound, const char *reason)
{
    struct check_list *list = checker->list;
    list->count[state]++;
    progress_clear();
    if (!list->json) {
        printf("%s  %s  %s: %s", state_mark[state], checker->place, checker->subject, name);
        if (value) printf("  %.2e (bound %.0e)", *value, *bound);
        if (reason) printf("  %s", reason);
        putchar('\n');
        return;
    }
    cJSON *result = cJSON_CreateObject();
    cJSON_AddStringToObject(result, "placement", checker->place);
    cJSON_AddStringToObject(result, "subject", checker->subject);
    cJSON_AddStringToObject(result, "name", name);
    cJSON_AddStringToObject(result, "state", state_name[state]);
    cJSON_AddItemToObject(result, "value", value ? cJSON_CreateNumber(*value) : cJSON_CreateNull());
    cJSON_AddItemToObject(result, "bound", bound ? cJSON_CreateNumber(*bound) : cJSON_CreateNull());
    cJSON_AddItemToObject(result, "reason", reason ? cJSON_CreateString(reason) : cJSON_CreateNull());
    cJSON_AddItemToArray(list->array, result);
}

void check_value(struct checker *checker, const char *name, double value, double bound)
{
    add(checker, !(value <= bound) ? CHECK_FAILED : CHECK_PASSED, name, &value, &bound, NULL);
}

void check_status(struct checker *checker, const char *name, s4_status status)
{
    if (status == S4_ERROR_CANCELLED) return; /* verb_check.c says so, once */
    const char *text = s4_last_error();
    add(checker, status == S4_ERROR_UNSUPPORTED ? CHECK_SKIPPED : CHECK_FAILED, name, NULL, NULL,
        *text ? text : s4_status_text(status));
}

void check_fail(struct checker *checker, const char *name, const char *reason)
{
    add(checker, CHECK_FAILED, name, NULL, NULL, reason);
}

void check_skip(struct checker *checker, const char *name, const char *reason)
{
    add(checker, CHECK_SKIPPED, name, NULL, NULL, reason);
}

int check_end(struct check_list *list)
{
    int64_t passed = list->count[CHECK_PASSED], failed = list->count[CHECK_FAILED];
    if (list->json) {
        char *text = cJSON_Print(list->array);
        puts(text);
        cJSON_free(text);
        cJSON_Delete(list->array);
    } else {
        printf("%lld passed, %lld failed, %lld skipped\n", (long long)passed, (long long)failed,
               (long long)list->count[CHECK_SKIPPED]);
    }
    return failed || !passed ? CODE_FAILED : CODE_FINE;
}
