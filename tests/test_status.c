/* Codes and texts; the last error of a thread; options structs of other sizes. */
#include <pthread.h>

#include "expect.h"

Test(status, names_and_texts)
{
#define CHECK(name, value, text)                                                                                     \
    cr_assert_str_eq(s4_status_name(name), #name);                                                                   \
    cr_assert_str_eq(s4_status_text(name), text);                                                                    \
    cr_assert_eq((int)(name), value);
    S4_STATUS_LIST(CHECK)
#undef CHECK
    cr_assert_str_eq(s4_status_text((s4_status)999), "unknown status");
    cr_assert_str_eq(s4_status_text((s4_status)-1), "unknown status");
    cr_assert(strlen(s4_status_name((s4_status)999)) > 0);
}

static void *fail_elsewhere(void *fresh)
{
    s4_dtype dtype;
    *(int *)fresh = s4_last_error()[0] == 0; /* nothing has failed in this thread yet */
    s4_dtype_parse("elsewhere", &dtype);
    return NULL;
}

Test(status, last_error_belongs_to_the_thread)
{
    s4_dtype dtype;
    cr_assert_str_eq(s4_last_error(), "");
    must_refuse(s4_dtype_parse("here", &dtype), S4_ERROR_ARGUMENT, "here");
    pthread_t thread;
    int fresh = 0;
    cr_assert_eq(pthread_create(&thread, NULL, fail_elsewhere, &fresh), 0);
    pthread_join(thread, NULL);
    cr_assert(fresh);
    cr_assert(strstr(s4_last_error(), "here") && !strstr(s4_last_error(), "elsewhere"), "%s", s4_last_error());
}

/* A text longer than any buffer is cut, not written past. */
Test(status, long_texts)
{
    static char text[100000];
    memset(text, 'x', sizeof text - 1);
    s4_dtype dtype;
    must_refuse(s4_dtype_parse(text, &dtype), S4_ERROR_ARGUMENT, "x");
    s4_placement placement;
    must_refuse(s4_placement_parse(text, &placement), S4_ERROR_ARGUMENT, "x");
    s4_layer *layer;
    cr_assert_neq(s4_layer_load(text, NULL, NULL, &layer), S4_OK);
}

/* A struct of an older caller ends early: what is missing is 0. One that was never initialised, or is of a newer
 * library, is refused. */
Test(status, struct_sizes)
{
    s4_problem problem;
    S4_INIT(&problem);
    problem.direction = S4_DIRECTION_FORWARD;
    problem.batch = problem.length = problem.d_model = 2;
    problem.d_state = 4;
    problem.host_budget = 1; /* far too small, if it were read */
    s4_plan *plan;
    must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_OUT_OF_BUDGET, "");
    problem.struct_size = offsetof(s4_problem, host_budget);
    must(s4_plan_create(&problem, &plan));
    s4_plan_destroy(plan);
    static const size_t sizes[] = {0, 4, sizeof problem + 8, (size_t)-1};
    for (int i = 0; i < 4; i++) {
        problem.struct_size = sizes[i];
        must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_ARGUMENT, "struct_size");
    }
    s4_layer_options options;
    memset(&options, 0, sizeof options);
    s4_layer *layer;
    must_refuse(s4_layer_create(&options, &layer), S4_ERROR_ARGUMENT, "struct_size");
}

Test(status, nothing_happens_to_null)
{
    s4_layer_destroy(NULL);
    s4_plan_destroy(NULL);
    s4_workspace_destroy(NULL);
    s4_context_destroy(NULL);
    s4_tensors_close(NULL);
    s4_array_destroy(NULL);
}
