/* Contractions for tests: see contractions.h. */
#define _GNU_SOURCE
#include "contractions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "expect.h"

subject subject_of(const char *expression, const char *sizes)
{
    subject s = {.operands = 1};
    snprintf(s.expression, sizeof s.expression, "%s", expression);
    for (const char *at = sizes; *at; at++)
        if (at[1] == '=')
            s.size[(int)*at] = atoll(at + 2);
    int term = 0, used = 0;
    for (const char *at = expression; *at; at++) {
        if (*at == ',') {
            term = s.operands++;
            used = 0;
        } else if (*at == '-') {
            at++;
            term = OPERANDS;
            used = 0;
        } else {
            s.term[term][used++] = *at;
        }
    }
    return s;
}

void subject_measure(subject *s)
{
    for (int k = 0; k <= OPERANDS; k++) {
        s->count[k] = 1;
        for (int d = 0; s->term[k][d]; d++) {
            const int64_t size = s->size[(int)s->term[k][d]];
            s->count[k] *= size;
            if (k < OPERANDS)
                s->shape[k][d] = size;
        }
        if (k < OPERANDS)
            s->shapes[k] = s->shape[k];
    }
}

static int64_t offset_of(const subject *s, int term, const int64_t *position)
{
    int64_t offset = 0;
    for (const char *at = s->term[term]; *at; at++)
        offset = offset * s->size[(int)*at] + position[(int)*at];
    return offset;
}

double *naive(const subject *s, int is_complex, double *const *operands)
{
    char letters[INDICES + 1] = "";
    for (int k = 0; k < s->operands; k++)
        for (const char *at = s->term[k]; *at; at++)
            if (!strchr(letters, *at))
                letters[strlen(letters)] = *at;
    const int parts = is_complex ? 2 : 1, indices = (int)strlen(letters);
    const int64_t count = parts * s->count[OPERANDS];
    long double *sum = calloc((size_t)count + 1, sizeof *sum);
    int64_t position[128] = {0}, all = 1;
    for (int i = 0; i < indices; i++)
        all *= s->size[(int)letters[i]];
    for (int64_t n = 0; n < all; n++) {
        long double re = 1, im = 0;
        for (int k = 0; k < s->operands; k++) {
            const double *value = operands[k] + parts * offset_of(s, k, position);
            const long double x = value[0], y = is_complex ? value[1] : 0, old = re;
            re = is_complex ? re * x - im * y : re * x;
            im = is_complex ? old * y + im * x : 0;
        }
        const int64_t at = parts * offset_of(s, OPERANDS, position);
        sum[at] += re;
        if (is_complex)
            sum[at + 1] += im;
        for (int i = indices - 1; i >= 0; i--) {
            const int letter = letters[i];
            if (++position[letter] < s->size[letter])
                break;
            position[letter] = 0;
        }
    }
    double *result = numbers(count);
    for (int64_t i = 0; i < count; i++)
        result[i] = (double)sum[i];
    free(sum);
    return result;
}

double *whole_numbers(random_source *random, int64_t count)
{
    double *values = numbers(count);
    for (int64_t i = 0; i < count; i++)
        values[i] = floor(random_uniform(random, -3, 4));
    return values;
}

static void *hook_allocate(void *user, size_t bytes, size_t alignment)
{
    hook_log *log = user;
    log->calls++;
    void *pointer = log->fails ? NULL : aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (!pointer)
        return NULL;
    memset(pointer, 0xff, bytes); /* NaN where it is read before it is written */
    log->last = (int64_t)bytes;
    log->current += (int64_t)bytes;
    if (log->current > log->peak)
        log->peak = log->current;
    return pointer;
}

static void hook_release(void *user, void *pointer)
{
    hook_log *log = user;
    log->current -= log->last; /* one block at a time */
    free(pointer);
}

static int on_progress(void *user, const char *operation, int64_t done, int64_t total)
{
    progress_log *log = user;
    log->calls++;
    check(!strcmp(operation, "contract") && done == log->calls && done <= total, "progress: %s %lld of %lld", operation,
          (long long)done, (long long)total);
    log->total = total;
    return log->calls == log->cancel_at;
}

s4_context *context_of(hook_log *log, progress_log *progress)
{
    s4_context_options options;
    S4_INIT(&options);
    options.threads = 3;
    if (log) {
        options.allocate = hook_allocate;
        options.release = hook_release;
        options.allocator_user = log;
    }
    if (progress) {
        options.progress = on_progress;
        options.progress_user = progress;
    }
    s4_context *context;
    must(s4_context_create(&options, &context));
    return context;
}

s4_contraction_options options_of(int kind, int threads, int64_t budget)
{
    s4_contraction_options options;
    S4_INIT(&options);
    options.dtype = kind & 1 ? S4_F64 : S4_F32;
    options.is_complex = kind >> 1;
    options.threads = threads;
    options.budget = budget;
    return options;
}

tensors tensors_of(const subject *s, int kind, random_source *random,
                   double *(*values)(random_source *, int64_t))
{
    const s4_dtype dtype = kind & 1 ? S4_F64 : S4_F32;
    const int parts = 1 + (kind >> 1);
    tensors t = {.kind = kind, .count = parts * s->count[OPERANDS]};
    for (int k = 0; k < s->operands; k++) {
        t.values[k] = values(random, parts * s->count[k]);
        t.operand[k] = tensor_of(dtype, parts * s->count[k], t.values[k]);
    }
    t.result = tensor_zero(dtype, t.count);
    return t;
}

static double *result_of(const tensors *t)
{
    return values_of(t->kind & 1 ? S4_F64 : S4_F32, t->count, t->result);
}

static void spoil(const tensors *t)
{
    memset(t->result, 0xff, (size_t)t->count * (t->kind & 1 ? 8 : 4));
}

s4_contraction_info info_of(const subject *s, const s4_contraction_options *options)
{
    s4_contraction *contraction;
    s4_contraction_info info;
    must(s4_contraction_create(s->expression, s->shapes, options, &contraction));
    must(s4_contraction_describe(contraction, &info));
    s4_contraction_destroy(contraction);
    return info;
}

double *run_budget(const subject *s, const tensors *t, int threads, int64_t budget)
{
    hook_log log = {0};
    progress_log progress = {0};
    s4_context *context = context_of(&log, &progress);
    const s4_contraction_options options = options_of(t->kind, threads, budget);
    s4_contraction *contraction;
    s4_contraction_info info;
    must(s4_contraction_create(s->expression, s->shapes, &options, &contraction));
    must(s4_contraction_describe(contraction, &info));
    check(!budget || info.peak <= budget, "[%s] peak %lld over the budget %lld", about_text(), (long long)info.peak,
          (long long)budget);
    check(info.minimum <= info.peak && info.result_count == s->count[OPERANDS], "[%s] the report is wrong",
          about_text());
    spoil(t);
    must(s4_contraction_run(contraction, context, t->operand, t->result, NULL));
    check(log.peak == info.peak && log.current == 0 && log.calls == (info.peak > 0),
          "[%s] planned %lld bytes, hooks saw %lld in %ld calls", about_text(), (long long)info.peak,
          (long long)log.peak, log.calls);
    check(progress.calls == info.chunks && progress.total == info.chunks, "[%s] %lld products planned, %lld done",
          about_text(), (long long)info.chunks, (long long)progress.calls);
    double *first = result_of(t);

    const long calls = log.calls;
    char *scratch = aligned_alloc(64, (size_t)(info.peak + 127) / 64 * 64);
    cr_assert(scratch != NULL);
    memset(scratch, 0xff, (size_t)info.peak);
    memset(scratch + info.peak, 0x5a, 64);
    spoil(t);
    progress.calls = 0;
    must(s4_contraction_run(contraction, context, t->operand, t->result, scratch));
    check(log.calls == calls, "[%s] memory was taken though there was scratch", about_text());
    for (int i = 0; i < 64; i++)
        check(scratch[info.peak + i] == 0x5a, "[%s] byte %d after the scratch was written", about_text(), i);
    free(scratch);
    if (t->count)
        expect_same_bits("with scratch", t->count, result_of(t), first);
    s4_contraction_destroy(contraction);
    s4_context_destroy(context);
    return first;
}

void run_budgets(const subject *s, const tensors *t, const double *expected)
{
    char needed[32], given[32];
    const s4_contraction_options none = options_of(t->kind, 1, 0);
    const s4_contraction_info info = info_of(s, &none);
    const int steps = 7;
    for (int step = -1; step <= steps; step++) {
        const int64_t budget = step < 0 ? 0 : info.minimum + (info.peak - info.minimum) * step / steps;
        const int threads = 1 + (step + 1) % 3;
        const double *got = run_budget(s, t, threads, budget);
        if (t->count)
            expect_same_bits(step < 0 ? "without a budget" : "within a budget", t->count, got, expected);
    }
    if (info.minimum < 2)
        return;
    const s4_contraction_options less = options_of(t->kind, 1, info.minimum - 1);
    s4_contraction *contraction = (s4_contraction *)(uintptr_t)&less;
    snprintf(needed, sizeof needed, "%lld", (long long)info.minimum);
    snprintf(given, sizeof given, "%lld", (long long)info.minimum - 1);
    must_refuse(s4_contraction_create(s->expression, s->shapes, &less, &contraction), S4_ERROR_OUT_OF_BUDGET, needed);
    check(strstr(s4_last_error(), given) != NULL, "[%s] \"%s\" does not say %s", about_text(), s4_last_error(), given);
    check(contraction == NULL, "[%s] a contraction after a failure", about_text());
}

void check_subject(subject *s, random_source *random)
{
    subject_measure(s);
    for (int kind = 0; kind < KINDS; kind++) {
        about("%s, %s, %s", s->expression, kind & 1 ? "f64" : "f32", kind >> 1 ? "complex" : "real");
        const tensors t = tensors_of(s, kind, random, whole_numbers);
        run_budgets(s, &t, naive(s, kind >> 1, t.values));
    }
}
