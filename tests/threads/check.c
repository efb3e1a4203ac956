/* See check.h. */
#include "check.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_int failures;
s4_placement work_placement;

void check_that(int holds, const char *format, ...)
{
    char text[1024];
    if (holds)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "FAILED: %s\n", text);
    atomic_fetch_add(&failures, 1);
}

int check_failures(void)
{
    return atomic_load(&failures);
}

s4_layer *work_layer(s4_context *context, int64_t length, uint64_t seed)
{
    s4_layer_options options;
    s4_init_options init;
    s4_layer *layer = NULL;
    S4_INIT(&options);
    options.d_model = CHANNELS;
    options.d_state = STATE;
    S4_INIT(&init);
    init.seed = seed;
    must(s4_layer_create(&options, &layer));
    must(s4_layer_init(context, layer, &init));
    must(s4_layer_setup(context, layer, length));
    return layer;
}

s4_plan *work_plan(int64_t length)
{
    s4_problem problem;
    s4_plan *plan = NULL;
    S4_INIT(&problem);
    problem.direction = S4_DIRECTION_TRAINING;
    problem.batch = BATCH;
    problem.length = length;
    problem.d_model = CHANNELS;
    problem.d_state = STATE;
    problem.placement = work_placement;
    problem.threads = WORK_LANES;
    must(s4_plan_create(&problem, &plan));
    return plan;
}

/* FNV over the bytes. */
static uint64_t add_bits(uint64_t sum, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ at[i]) * 1099511628211u;
    return sum;
}

uint64_t work_bits(const s4_plan *plan, const s4_layer *layer, s4_workspace *workspace, int64_t length, uint64_t seed)
{
    const size_t count = (size_t)(BATCH * CHANNELS * length), c_count = CHANNELS * STATE;
    float *memory = calloc(4 * count, sizeof *memory), *u = memory, *dy = u + count, *y = dy + count, *du = y + count;
    double c[CHANNELS * STATE] = {0};
    s4_forward_io forward;
    s4_backward_io backward;
    uint64_t bits = 0;
    for (size_t i = 0; i < count; i++) {
        u[i] = (float)((i * 2654435761u + seed * 97) % 1000) / 500 - 1;
        dy[i] = (float)((i * 40503u + seed * 31) % 1000) / 500 - 1;
    }
    S4_INIT(&forward);
    forward.u = u;
    forward.y = y;
    S4_INIT(&backward);
    backward.u = u;
    backward.dy = dy;
    backward.du = du;
    backward.gradients.parameter[S4_PARAMETER_C] = c;
    s4_status status = s4_plan_refresh(plan, layer, workspace);
    if (!status)
        status = s4_plan_forward(plan, layer, workspace, &forward);
    if (!status)
        status = s4_plan_backward(plan, layer, workspace, &backward);
    check_that(status == S4_OK, "length %lld: %s", (long long)length, s4_last_error());
    if (!status) {
        bits = add_bits(14695981039346656037u, y, count * sizeof *y);
        bits = add_bits(bits, du, count * sizeof *du);
        bits = add_bits(bits, c, c_count * sizeof *c);
    }
    free(memory);
    return bits;
}
