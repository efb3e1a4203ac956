/* The plan: what it refuses and by which name, what it reports, and that its memory map is sound. */
#define _GNU_SOURCE
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "expect.h"
#include "place.h"
#include "plan_cases.h"

/* ---- what is refused ----------------------------------------------------------------------------------------- */

#define TOO_LARGE ((int64_t)1 << 62)

typedef enum field {
    BATCH, LENGTH, KERNEL_LENGTH, D_MODEL, D_STATE, RANK, N_SSM, CHANNELS, THREADS, HOST_BUDGET, DEVICE_BUDGET,
    DIRECTION, MODE, DTYPE, ALGORITHM, STEP_MODE, PLACEMENT, DISCRETISATION, LAYOUT
} field;

static void set_field(s4_problem *p, field which, int64_t value)
{
    switch (which) {
    case BATCH: p->batch = value; break;
    case LENGTH: p->length = value; break;
    case KERNEL_LENGTH: p->kernel_length = value; break;
    case D_MODEL: p->d_model = value; break;
    case D_STATE: p->d_state = value; break;
    case RANK: p->rank = value; break;
    case N_SSM: p->n_ssm = value; break;
    case CHANNELS: p->channels = value; break;
    case THREADS: p->threads = (int)value; break;
    case HOST_BUDGET: p->host_budget = value; break;
    case DEVICE_BUDGET: p->device_budget = value; break;
    case DIRECTION: p->direction = (s4_direction)value; break;
    case MODE: p->mode = (s4_mode)value; break;
    case DTYPE: p->dtype = (s4_dtype)value; break;
    case ALGORITHM: p->algorithm = (s4_algorithm)value; break;
    case STEP_MODE: p->step_mode = (s4_step_mode)value; break;
    case DISCRETISATION: p->discretisation = (s4_discretisation)value; break;
    case LAYOUT: p->layout = (s4_layout)value; break;
    case PLACEMENT: p->placement.stage[S4_STAGE_CONVOLVE] = (s4_place)value; break;
    }
}

Test(plan, bad_fields_are_named)
{
    static const struct {
        field which;
        int64_t value;
        s4_status status;
        char word[16];
    } cases[] = {
        {BATCH, 0, S4_ERROR_ARGUMENT, "batch"},
        {BATCH, -1, S4_ERROR_ARGUMENT, "batch"},
        {BATCH, TOO_LARGE, S4_ERROR_ARGUMENT, "batch"},
        {LENGTH, 0, S4_ERROR_ARGUMENT, "length"},
        {LENGTH, -5, S4_ERROR_ARGUMENT, "length"},
        {LENGTH, TOO_LARGE, S4_ERROR_ARGUMENT, "length"},
        {KERNEL_LENGTH, -1, S4_ERROR_ARGUMENT, "kernel_length"},
        {KERNEL_LENGTH, TOO_LARGE, S4_ERROR_ARGUMENT, "kernel_length"},
        {KERNEL_LENGTH, INT64_MAX, S4_ERROR_ARGUMENT, "kernel_length"},
        {D_MODEL, 0, S4_ERROR_ARGUMENT, "d_model"},
        {D_MODEL, -3, S4_ERROR_ARGUMENT, "d_model"},
        {D_MODEL, TOO_LARGE, S4_ERROR_ARGUMENT, "d_model"},
        {D_STATE, 0, S4_ERROR_ARGUMENT, "d_state"},
        {D_STATE, 7, S4_ERROR_ARGUMENT, "d_state"},
        {D_STATE, -2, S4_ERROR_ARGUMENT, "d_state"},
        {D_STATE, TOO_LARGE, S4_ERROR_ARGUMENT, "d_state"},
        {RANK, S4_RANK_MAX + 1, S4_ERROR_ARGUMENT, "rank"},
        {RANK, -1, S4_ERROR_ARGUMENT, "rank"},
        {N_SSM, 4, S4_ERROR_ARGUMENT, "n_ssm"},
        {N_SSM, 12, S4_ERROR_ARGUMENT, "n_ssm"},
        {N_SSM, -1, S4_ERROR_ARGUMENT, "n_ssm"},
        {CHANNELS, -1, S4_ERROR_ARGUMENT, "channels"},
        {CHANNELS, S4_CHANNELS_MAX + 1, S4_ERROR_ARGUMENT, "channels"},
        {CHANNELS, TOO_LARGE, S4_ERROR_ARGUMENT, "channels"},
        {THREADS, -1, S4_ERROR_ARGUMENT, "threads"},
        {HOST_BUDGET, -1, S4_ERROR_ARGUMENT, "host_budget"},
        {DEVICE_BUDGET, -1, S4_ERROR_ARGUMENT, "device_budget"},
        {DIRECTION, 4, S4_ERROR_ARGUMENT, "direction"},
        {DIRECTION, -1, S4_ERROR_ARGUMENT, "direction"},
        {MODE, 2, S4_ERROR_ARGUMENT, "mode"},
        {MODE, -1, S4_ERROR_ARGUMENT, "mode"},
        {DISCRETISATION, S4_ZOH, S4_ERROR_UNSUPPORTED, "zoh"}, /* of a dplr layer */
        {DISCRETISATION, S4_DSS, S4_ERROR_UNSUPPORTED, "dss"},
        {DISCRETISATION, 3, S4_ERROR_ARGUMENT, "discretisation"},
        {LAYOUT, 2, S4_ERROR_ARGUMENT, "layout"},
        {DTYPE, S4_I64, S4_ERROR_ARGUMENT, "dtype"},
        {DTYPE, 9, S4_ERROR_ARGUMENT, "dtype"},
        {ALGORITHM, 3, S4_ERROR_ARGUMENT, "algorithm"},
        {STEP_MODE, 3, S4_ERROR_ARGUMENT, "step_mode"},
        {PLACEMENT, 3, S4_ERROR_ARGUMENT, "placement"},
    };
    for (int direction = S4_DIRECTION_FORWARD; direction <= S4_DIRECTION_TRAINING; direction++)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            about("%s is %lld", cases[i].word, (long long)cases[i].value);
            s4_problem problem = plan_problem((s4_direction)direction);
            set_field(&problem, cases[i].which, cases[i].value);
            s4_plan *plan = (s4_plan *)(void *)&problem;
            must_refuse(s4_plan_create(&problem, &plan), cases[i].status, cases[i].word);
            check(plan == NULL, "[%s] the pointer is not NULL", about_text());
        }
    static const double rates[] = {-1, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        about("rate is %g", rates[i]);
        s4_problem problem = plan_problem(S4_DIRECTION_FORWARD);
        problem.rate = rates[i];
        s4_plan *plan;
        must_refuse(s4_plan_create(&problem, &plan), S4_ERROR_ARGUMENT, "rate");
    }
    s4_plan *plan;
    must_refuse(s4_plan_create(NULL, &plan), S4_ERROR_ARGUMENT, "s4_problem");
    s4_problem problem = plan_problem(S4_DIRECTION_FORWARD);
    must_refuse(s4_plan_create(&problem, NULL), S4_ERROR_ARGUMENT, "plan");
}

/* Sizes that are fine one by one and overflow together. */
Test(plan, products_that_overflow)
{
    static const int64_t sizes[][3] = {/* batch, d_model, length */
                                       {(int64_t)1 << 31, 1 << 24, 1 << 20},
                                       {(int64_t)1 << 31, 1 << 24, 1 << 28},
                                       {(int64_t)1 << 30, 1 << 22, 1 << 14}};
    for (int i = 0; i < 3; i++)
        for (int direction = S4_DIRECTION_KERNEL; direction <= S4_DIRECTION_STEP; direction++) {
            about("case %d, %s", i, s4_direction_name((s4_direction)direction));
            s4_problem problem = plan_problem((s4_direction)direction);
            problem.batch = sizes[i][0];
            problem.d_model = sizes[i][1];
            problem.length = sizes[i][2];
            s4_plan *plan;
            const s4_status status = s4_plan_create(&problem, &plan);
            if (status == S4_OK) { /* then nothing may have wrapped around */
                s4_plan_info info;
                must(s4_plan_describe(plan, &info));
                check(info.host_peak >= 0 && info.device_peak >= 0 && info.host_reserve >= 0 && info.to_device >= 0 &&
                          info.to_host >= 0 && info.host_minimum >= 0 && info.device_minimum >= 0,
                      "[%s] a negative size in the plan", about_text());
                s4_plan_destroy(plan);
            } else {
                check(status == S4_ERROR_ARGUMENT, "[%s] %s", about_text(), s4_last_error());
            }
            check(i != 1 || direction == S4_DIRECTION_STEP || direction == S4_DIRECTION_KERNEL ||
                      status == S4_ERROR_ARGUMENT,
                  "[%s] 2^83 samples were accepted", about_text());
        }
}

/* ---- what a plan is ------------------------------------------------------------------------------------------ */

/* A large problem in no time and with no device: plans are arithmetic. */
Test(plan, is_arithmetic)
{
    setenv("S4_GPU_MODULE", "off", 1);
    s4_problem problem = plan_problem(S4_DIRECTION_TRAINING);
    must(s4_placement_parse("split", &problem.placement));
    problem.batch = 64;
    problem.d_model = 1024;
    problem.d_state = 256;
    problem.length = (int64_t)1 << 20;
    double best = 1e9;
    for (int repeat = 0; repeat < 3; repeat++) {
        struct timespec begin, end;
        s4_plan *plan;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        must(s4_plan_create(&problem, &plan));
        clock_gettime(CLOCK_MONOTONIC, &end);
        best = fmin(best, (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
        s4_plan_info info;
        must(s4_plan_describe(plan, &info));
        cr_assert(info.device_peak > 0);
        s4_plan_destroy(plan);
    }
    cr_assert(best < 0.1, "s4_plan_create took %g s", best);
}

/* Lengths 2^k, 3 2^k, 5 2^k, the smallest that holds L + T - 1. */
Test(plan, fft_length)
{
    for (int64_t L = 1; L < 40000; L = L * 7 / 4 + 1)
        for (int64_t T = 1; T < 40000; T = T * 9 / 5 + 1) {
            s4_problem problem = plan_problem(S4_DIRECTION_FORWARD);
            problem.length = T;
            problem.kernel_length = L;
            s4_plan *plan;
            s4_plan_info info;
            must(s4_plan_create(&problem, &plan));
            must(s4_plan_describe(plan, &info));
            int64_t odd = info.fft_length;
            while (odd > 1 && odd % 2 == 0)
                odd /= 2;
            check(info.fft_length % 2 == 0 && (odd == 1 || odd == 3 || odd == 5), "L %d, T %d: FFT length %d", (int)L,
                  (int)T, (int)info.fft_length);
            check(info.fft_length >= L + T - 1, "L %d, T %d: FFT length %d is too short", (int)L, (int)T,
                  (int)info.fft_length);
            /* Neighbours in the list are at most a factor 4/3 apart, from 2, 4, 6 on. */
            check(info.fft_length <= 4 || 3 * info.fft_length < 4 * (L + T), "L %d, T %d: FFT length %d",
                  (int)L, (int)T, (int)info.fft_length);
            s4_plan_destroy(plan);
        }
}

static void check_map(const s4_plan *plan, const s4_plan_info *info)
{
    int64_t peak[S4_PLACE_COUNT] = {0};
    check(info->buffers > 0 && info->operations > 0, "[%s] an empty plan", about_text());
    for (int64_t i = 0; i < info->buffers; i++) {
        s4_buffer_info a;
        must(s4_plan_buffer(plan, i, &a));
        check(a.name && *a.name && a.bytes > 0 && a.offset >= 0 && a.offset % 64 == 0 && a.first >= 0 &&
                  a.first <= a.last && a.last < info->operations,
              "[%s] buffer %d (%s) makes no sense", about_text(), (int)i, a.name ? a.name : "no name");
        check(a.place == S4_PLACE_CPU || a.place == S4_PLACE_GPU, "[%s] %s is nowhere", about_text(), a.name);
        if (a.offset + a.bytes > peak[a.place])
            peak[a.place] = a.offset + a.bytes;
        for (int64_t j = 0; j < i; j++) {
            s4_buffer_info b;
            must(s4_plan_buffer(plan, j, &b));
            const int share = a.place == b.place && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
            const int meet = a.first <= b.last && b.first <= a.last;
            check(!share || !meet, "[%s] %s and %s share memory at the same time", about_text(), a.name, b.name);
        }
    }
    check(peak[S4_PLACE_CPU] == info->host_peak && peak[S4_PLACE_GPU] == info->device_peak,
          "[%s] the peaks are not the ends of the buffers", about_text());
    check(info->host_minimum <= info->host_peak && info->device_minimum <= info->device_peak,
          "[%s] a minimum above the peak", about_text());
    /* Every operation runs where its stage was put, or moves bytes to or from the GPU. */
    for (int64_t i = 0; i < info->operations; i++) {
        s4_operation_info o;
        must(s4_plan_operation(plan, i, &o));
        check(o.name && *o.name && o.phase && o.loop, "[%s] operation %d makes no sense", about_text(), (int)i);
        check(o.place == info->problem.placement.stage[o.stage] || strstr(o.name, "load") || strstr(o.name, "move"),
              "[%s] %s is not where %s was put", about_text(), o.name, s4_stage_name(o.stage));
    }
    s4_buffer_info buffer;
    s4_operation_info operation;
    must_refuse(s4_plan_buffer(plan, info->buffers, &buffer), S4_ERROR_ARGUMENT, "index");
    must_refuse(s4_plan_buffer(plan, -1, &buffer), S4_ERROR_ARGUMENT, "index");
    must_refuse(s4_plan_operation(plan, info->operations, &operation), S4_ERROR_ARGUMENT, "index");
}

Test(plan, memory_map)
{
    over_plans(check_map);
}

/* What depends on parameters only is used by every later call: nothing may lie over it from the refresh on. The spectra
 * of one block of channels are made while those of another are there: nothing may lie over them in the whole loop. */
static void check_resident(const s4_plan *plan, const s4_plan_info *info)
{
    if (!info->resident)
        return;
    int found = 0, loop = 0;
    for (; loop < info->operations; loop++) {
        s4_operation_info o;
        must(s4_plan_operation(plan, loop, &o));
        if (strcmp(o.phase, "refresh") == 0 && strcmp(o.loop, "once") != 0)
            break;
    }
    for (int64_t i = 0; i < info->buffers; i++) {
        s4_buffer_info b;
        must(s4_plan_buffer(plan, i, &b));
        if ((!strstr(b.name, "spectrum") && !strstr(b.name, "chunk_system")) || strstr(b.name, "gradient"))
            continue;
        found++;
        check(b.first <= loop, "[%s] %s is there from operation %d, its loop begins at %d", about_text(), b.name, b.first,
              loop);
        check(b.last == info->operations - 1, "[%s] %s does not last to the end of the plan", about_text(), b.name);
    }
    check(found > 0, "[%s] a resident plan without spectra or chunk matrices", about_text());
}

Test(plan, spectra_outlive_the_refresh)
{
    over_plans(check_resident);
}

/* ---- the report ---------------------------------------------------------------------------------------------- */

static int64_t number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    check(cJSON_IsNumber(item), "[%s] no number %s in the report", about_text(), key);
    return (int64_t)item->valuedouble;
}

static const char *word(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    check(cJSON_IsString(item), "[%s] no text %s in the report", about_text(), key);
    return item->valuestring;
}

static char *report(const s4_plan *plan, s4_report_format format)
{
    size_t needed = 0, again = 0;
    must(s4_plan_report(plan, format, NULL, 0, &needed));
    char *text = malloc(needed);
    check(text != NULL, "no memory");
    must(s4_plan_report(plan, format, text, needed, &again));
    check(again == needed && strlen(text) + 1 == needed, "[%s] the size of the report is wrong", about_text());
    return text;
}

static int64_t bytes_of(const s4_plan *plan, const s4_plan_info *info, const char *name, s4_place place)
{
    for (int64_t i = 0; i < info->buffers; i++) {
        s4_buffer_info b;
        must(s4_plan_buffer(plan, i, &b));
        if (b.place == place && !strcmp(b.name, name)) return b.bytes;
    }
    return 0;
}

/* The operations of the refresh of steps in eigenvectors, which are found on the host, and what travels for them. */
Test(plan, steps_in_eigenvectors)
{
    static const struct {
        const char *placement, *refresh;
    } cases[] = {
        {"cpu", "transform cpu, read_out cpu, step_system cpu"},
        {"step=gpu", "transform cpu, read_out cpu, step_system cpu, move_system gpu, move_step_system gpu"},
        {"setup=gpu", "upload_raw gpu, transform gpu, read_out gpu, move_system gpu, step_system cpu"},
        {"setup=gpu,step=gpu",
         "upload_raw gpu, transform gpu, read_out gpu, move_system gpu, step_system cpu, move_step_system gpu"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        about("%s", cases[i].placement);
        s4_problem problem = plan_problem(S4_DIRECTION_STEP);
        problem.step_mode = S4_STEP_DIAGONAL;
        must(s4_placement_parse(cases[i].placement, &problem.placement));
        const int setup_there = problem.placement.stage[S4_STAGE_SETUP] == S4_PLACE_GPU;
        const int step_there = problem.placement.stage[S4_STAGE_STEP] == S4_PLACE_GPU;
        s4_plan *plan;
        s4_plan_info info;
        must(s4_plan_create(&problem, &plan));
        must(s4_plan_describe(plan, &info));
        char refresh[256] = "";
        for (int64_t j = 0; j < info.operations; j++) {
            s4_operation_info o;
            must(s4_plan_operation(plan, j, &o));
            if (strcmp(o.phase, "refresh")) continue;
            const size_t used = strlen(refresh);
            snprintf(refresh + used, sizeof refresh - used, "%s%s %s", used ? ", " : "", o.name, s4_place_name(o.place));
        }
        check(!strcmp(refresh, cases[i].refresh), "[%s] the refresh is: %s", about_text(), refresh);
        /* u and states go to steps on the device, y and states come back. */
        const int64_t samples = 4 * info.problem.batch * info.problem.d_model * info.problem.length;
        const int64_t states = 8 * info.problem.batch * info.problem.d_model * info.problem.d_state;
        const int64_t system = bytes_of(plan, &info, "system", S4_PLACE_CPU);
        int64_t up = setup_there ? bytes_of(plan, &info, "raw", S4_PLACE_GPU) : step_there ? system : 0;
        int64_t down = setup_there ? system : 0;
        if (step_there) up += bytes_of(plan, &info, "step_system", S4_PLACE_CPU) + samples + states;
        if (step_there) down += samples * info.problem.channels + states;
        check(info.to_device == up && info.to_host == down,
              "[%s] %lld bytes to the device, %lld to the host, not %lld, %lld",
              about_text(), (long long)info.to_device, (long long)info.to_host, (long long)up, (long long)down);
        s4_plan_destroy(plan);
    }
}

static void check_json(const s4_plan *plan, const s4_plan_info *info)
{
    char *text = report(plan, S4_REPORT_JSON);
    cJSON *json = cJSON_Parse(text);
    check(json != NULL, "[%s] the report is no JSON: %s", about_text(), text);
    free(text);
    check(strlen(word(json, "schema")) > 0, "no schema");
    check(strcmp(word(json, "direction"), s4_direction_name(info->problem.direction)) == 0, "direction");
    check(strcmp(word(json, "dtype"), s4_dtype_name(info->problem.dtype)) == 0, "dtype");
    check(strcmp(word(json, "algorithm"), s4_algorithm_name(info->problem.algorithm)) == 0, "algorithm");
    check(number(json, "chunk") == info->chunk, "chunk");
    check(number(json, "threads") == 2, "threads");
    check(number(json, "fft_length") == info->fft_length, "fft_length");
    const cJSON *blocks = cJSON_GetObjectItemCaseSensitive(json, "blocks");
    check(number(blocks, "channels") == info->block_channels && number(blocks, "batch") == info->block_batch,
          "[%s] blocks", about_text());
    const cJSON *placement = cJSON_GetObjectItemCaseSensitive(json, "placement");
    for (int stage = 0; stage < S4_STAGE_COUNT; stage++)
        check(strcmp(word(placement, s4_stage_name((s4_stage)stage)),
                     s4_place_name(info->problem.placement.stage[stage])) == 0,
              "[%s] placement", about_text());
    const cJSON *buffers = cJSON_GetObjectItemCaseSensitive(json, "buffers"),
                *operations = cJSON_GetObjectItemCaseSensitive(json, "operations");
    check(cJSON_GetArraySize(buffers) == info->buffers, "[%s] buffers", about_text());
    check(cJSON_GetArraySize(operations) == info->operations, "[%s] operations", about_text());
    for (int64_t i = 0; i < info->buffers; i++) {
        s4_buffer_info b;
        must(s4_plan_buffer(plan, i, &b));
        const cJSON *row = cJSON_GetArrayItem(buffers, (int)i);
        check(strcmp(word(row, "name"), b.name) == 0 && strcmp(word(row, "place"), s4_place_name(b.place)) == 0 &&
                  number(row, "bytes") == b.bytes && number(row, "first") == b.first && number(row, "last") == b.last,
              "[%s] buffer %d", about_text(), (int)i);
    }
    for (int64_t i = 0; i < info->operations; i++) {
        s4_operation_info o;
        must(s4_plan_operation(plan, i, &o));
        const cJSON *row = cJSON_GetArrayItem(operations, (int)i);
        check(strcmp(word(row, "name"), o.name) == 0 && strcmp(word(row, "place"), s4_place_name(o.place)) == 0,
              "[%s] operation %d", about_text(), (int)i);
    }
    const cJSON *transfers = cJSON_GetObjectItemCaseSensitive(json, "transfers");
    check(number(transfers, "to_device") == info->to_device && number(transfers, "to_host") == info->to_host,
          "[%s] transfers", about_text());
    check(number(json, "host_peak") == info->host_peak && number(json, "device_peak") == info->device_peak, "peaks");
    check(number(json, "host_minimum") == info->host_minimum &&
              number(json, "device_minimum") == info->device_minimum,
          "minima");
    check(number(json, "host_reserve") == info->host_reserve &&
              number(json, "device_reserve") == info->device_reserve && info->host_reserve > 0,
          "reserves");
    cJSON_Delete(json);
}

Test(plan, report_json)
{
    over_plans(check_json);
}

static void check_text(const s4_plan *plan, const s4_plan_info *info)
{
    char *text = report(plan, S4_REPORT_TEXT), peak[32];
    snprintf(peak, sizeof peak, "%lld", (long long)info->host_peak);
    check(strstr(text, peak) != NULL, "[%s] the table does not tell the peak", about_text());
    for (int64_t i = 0; i < info->buffers; i++) {
        s4_buffer_info b;
        must(s4_plan_buffer(plan, i, &b));
        check(strstr(text, b.name) != NULL, "[%s] the table does not list %s", about_text(), b.name);
    }
    /* A short buffer holds the beginning and a final 0. */
    char part[10];
    size_t needed = 0;
    memset(part, 1, sizeof part);
    must(s4_plan_report(plan, S4_REPORT_TEXT, part, sizeof part, &needed));
    check(needed == strlen(text) + 1 && part[9] == 0 && strncmp(part, text, 9) == 0, "[%s] a cut report", about_text());
    free(text);
}

Test(plan, report_text)
{
    over_plans(check_text);
}
