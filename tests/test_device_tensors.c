/* Tensors in device memory: the bits of tensors on the host, however the caller's lie. */
#include <math.h>
#include <stdlib.h>

#include "cuda_calls.h"
#include "expect.h"
#include "host_tensors.h"
#include "place.h"
#include "tolerances.h"

/* ---- tensors on the device ------------------------------------------------------------------------------------------ */

/* Strides (batch, channel, time), the first element's distance from the begin, and the span of it all. */
typedef struct lie {
    int64_t strides[3], first, span;
} lie;

enum { CHUNKED = 1 };
enum { DENSE, TIME_FIRST, GAPS, CHANNELS_FALLING, WAYS };
static const char *const way_name[WAYS] = {"dense", "time first", "with gaps", "time first, channels falling"};

static lie lie_of(int way, const sizes *s, int64_t channels)
{
    const int64_t B = s->B, T = s->T, count = B * channels * T;
    switch (way) {
    case TIME_FIRST: return (lie){{channels * T, 1, channels}, 0, count};
    case GAPS: return (lie){{3 * T + 5, B * (3 * T + 5), 3}, 2, channels * B * (3 * T + 5) + 2};
    case CHANNELS_FALLING: return (lie){{channels * T, -1, channels}, channels - 1, count};
    default: return (lie){{channels * T, T, 1}, 0, count};
    }
}

static int64_t at(const lie *l, int64_t channels, int64_t T, int64_t i)
{
    return l->first + i / (channels * T) * l->strides[0] + i / T % channels * l->strides[1] + i % T * l->strides[2];
}

/* Values (B,channels,T) put on the device into a tensor full of 7, and back; gaps must hold their 7. */
typedef struct tensor {
    const cuda_calls *cuda;
    s4_dtype dtype;
    lie l;
    int64_t channels, T, count;
    char *base, *first;
} tensor;

static size_t size_of(s4_dtype dtype)
{
    return dtype == S4_F64 ? 8 : 4;
}

static tensor put(const cuda_calls *cuda, int way, const sizes *s, int64_t channels, const double *values)
{
    tensor t = {cuda, s->dtype, lie_of(way, s, channels), channels, s->T, s->B * channels * s->T, NULL, NULL};
    double *all = numbers(t.l.span);
    for (int64_t i = 0; i < t.l.span; i++)
        all[i] = 7;
    for (int64_t i = 0; values && i < t.count; i++)
        all[at(&t.l, channels, s->T, i)] = values[i];
    t.base = cuda_put(cuda, (size_t)t.l.span * size_of(s->dtype), tensor_of(s->dtype, t.l.span, all));
    t.first = t.base + t.l.first * (int64_t)size_of(s->dtype);
    return t;
}

static double *take(tensor *t)
{
    void *raw = tensor_zero(t->dtype, t->l.span);
    cuda_get(t->cuda, (size_t)t->l.span * size_of(t->dtype), t->base, raw);
    double *all = values_of(t->dtype, t->l.span, raw), *values = numbers(t->count);
    for (int64_t i = 0; i < t->count; i++) {
        double *from = &all[at(&t->l, t->channels, t->T, i)];
        values[i] = *from;
        *from = 7;
    }
    for (int64_t i = 0; i < t->l.span; i++)
        check(all[i] == 7, "[%s] the gap at %d was written", about_text(), (int)i);
    return values;
}

static void drop(tensor *t)
{
    check(t->cuda->free(t->base) == 0, "[%s] memory of the caller cannot be freed", about_text());
    t->base = NULL;
}

/* Gradients where the set-up has them. */
static void give_gradients(const cuda_calls *cuda, const gradients *g, s4_gradients *to)
{
    const int on_device = place_placement().stage[S4_STAGE_SETUP] == S4_PLACE_GPU;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        to->parameter[p] = on_device && g->count[p]
                               ? cuda_put(cuda, (size_t)g->count[p] * sizeof(double), g->parameter[p])
                               : g->parameter[p];
}
static void take_gradients(const cuda_calls *cuda, gradients *g, const s4_gradients *from)
{
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        if (g->count[p] && from->parameter[p] != g->parameter[p]) {
            cuda_get(cuda, (size_t)g->count[p] * sizeof(double), from->parameter[p], g->parameter[p]);
            check(cuda->free(from->parameter[p]) == 0, "[%s] a gradient cannot be freed", about_text());
        }
}

/* States, if there are any. */
static double *put_states(const cuda_calls *cuda, s4_layer *layer, const sizes *s, const double *states)
{
    return states ? cuda_put(cuda, (size_t)state_count(layer, s) * sizeof *states, states) : NULL;
}
static double *take_states(const cuda_calls *cuda, s4_layer *layer, const sizes *s, const double *states)
{
    double *values = numbers(state_count(layer, s));
    if (states)
        cuda_get(cuda, (size_t)state_count(layer, s) * sizeof *states, states, values);
    return values;
}

/* ---- the bits of host tensors ------------------------------------------------------------------------------------------ */

/* `over`: y in the place of u, du in that of dy. */
static outcome with_device_tensors(const cuda_calls *cuda, s4_context *context, s4_layer *layer, const sizes *s, int way,
                                   int over, const double *u, const double *dy, const int64_t *lengths)
{
    s4_problem problem = problem_of_sizes(layer, s, S4_DIRECTION_TRAINING);
    problem.tensors = S4_PLACE_GPU;
    const int64_t in = s->B * s->H * s->T, channels = s->H * s->channels;
    session run = session_open(context, &problem);
    must(s4_plan_refresh(run.plan, layer, run.workspace));
    outcome o;
    const state_pair states = states_of_sizes(layer, s);
    double *const x0 = put_states(cuda, layer, s, states.in), *const state = put_states(cuda, layer, s, states.in);
    double *const entering = put_states(cuda, layer, s, states.gradient);
    int64_t *device_lengths = lengths ? cuda_put(cuda, (size_t)s->B * sizeof *lengths, lengths) : NULL;
    tensor t_u = put(cuda, way, s, s->H, u), t_dy = put(cuda, way, s, channels, dy);
    tensor t_y = put(cuda, way, s, channels, NULL), t_du = put(cuda, way, s, s->H, NULL);
    tensor t_forward = over ? put(cuda, way, s, s->H, u) : t_y, t_back = over ? t_dy : t_du;
    s4_forward_io forward;
    S4_INIT(&forward);
    forward.u = over ? t_forward.first : t_u.first;
    forward.y = t_forward.first;
    forward.lengths = device_lengths;
    forward.state_in = forward.state_out = state;
    memcpy(forward.u_strides, t_u.l.strides, sizeof forward.u_strides);
    memcpy(forward.y_strides, t_forward.l.strides, sizeof forward.y_strides);
    must(s4_plan_forward(run.plan, layer, run.workspace, &forward));
    o.y = take(&t_forward);
    o.state = take_states(cuda, layer, s, state);
    s4_backward_io backward;
    S4_INIT(&backward);
    backward.u = t_u.first;
    backward.dy = t_dy.first;
    backward.du = t_back.first;
    backward.lengths = device_lengths;
    backward.state_in = x0;
    backward.dstate_out = backward.dstate_in = entering;
    memcpy(backward.u_strides, t_u.l.strides, sizeof backward.u_strides);
    memcpy(backward.dy_strides, t_dy.l.strides, sizeof backward.dy_strides);
    memcpy(backward.du_strides, t_back.l.strides, sizeof backward.du_strides);
    o.g = gradients_begun(layer, in, &backward.gradients);
    give_gradients(cuda, &o.g, &backward.gradients);
    must(s4_plan_backward(run.plan, layer, run.workspace, &backward));
    take_gradients(cuda, &o.g, &backward.gradients);
    o.g.du = take(&t_back);
    o.entering = take_states(cuda, layer, s, entering);
    drop(&t_u);
    drop(&t_dy);
    drop(&t_y);
    drop(&t_du);
    if (over)
        drop(&t_forward);
    void *const others[] = {device_lengths, x0, state, entering};
    for (int i = 0; i < 4; i++)
        check(!others[i] || cuda->free(others[i]) == 0, "[%s] lengths or states cannot be freed", about_text());
    session_close(&run);
    return o;
}

static double *beyond(const sizes *s, int64_t channels, const int64_t *lengths, const double *from, double value)
{
    double *to = numbers_copy(s->B * channels * s->T, from);
    for (int64_t i = 0; i < s->B * channels * s->T; i++)
        if (i % s->T >= lengths[i / (channels * s->T)])
            to[i] = value;
    return to;
}

/* With each of the ways in the mask. */
static void compare(int row, const sizes *s, unsigned ways, int over, int with_lengths)
{
    const cuda_calls cuda = cuda_find();
    s4_context *context = context_open();
    s4_layer *layer = layer_of_sizes(context, s, 1);
    const s4_problem problem = problem_of_sizes(layer, s, S4_DIRECTION_TRAINING);
    about("sizes %d", row);
    if (session_offered(context, &problem)) {
        const int64_t in = s->B * s->H * s->T, out = in * s->channels;
        random_source random = {7};
        const double *u = random_samples(&random, in), *dy = random_samples(&random, out);
        int64_t *lengths = NULL;
        if (with_lengths) {
            lengths = calloc((size_t)s->B, sizeof *lengths);
            for (int64_t b = 0; b < s->B; b++)
                lengths[b] = s->T - b % (s->T + 1);
            u = beyond(s, s->H, lengths, u, NAN);
            dy = beyond(s, s->H * s->channels, lengths, dy, NAN);
        }
        const outcome expected = with_host_tensors(context, layer, s, place_placement(), u, dy, lengths);
        for (int way = 0; way < WAYS; way++) {
            if (!(ways >> way & 1))
                continue;
            about("sizes %d, %s%s", row, way_name[way], with_lengths ? ", lengths" : "");
            const outcome got = with_device_tensors(&cuda, context, layer, s, way, over, u, dy, lengths);
            expect_same_outcome(layer, s, &got, &expected);
        }
        free(lengths);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

Test(device_tensors, the_bits_of_host_tensors)
{
    static const sizes list[] = {
        {3, 2, 17, 20, 1, 0, S4_F64, 0, 0},       {2, 35, 40, 33, 1, 0, S4_F32, 0, 0},
        {3, 5, 40, 12, 3, 0, S4_F32, 0, 0},       {2, 9, 33, 33, 2, 1, S4_F64, 0, 0},
        {1, 1, 1, 1, 1, 0, S4_F32, 0, 0},         {1, 34, 2, 5, 1, 1, S4_F64, 0, 0},
        {1, 2, 530, 40, 2, 0, S4_F32, 0, 0},      {3, 2, 17, 20, 2, 0, S4_F64, 0, 1},
        {3, 2, 17, 20, 1, 0, S4_F64, CHUNKED, 0}, {2, 35, 40, 40, 2, 0, S4_F32, CHUNKED, 0},
        {3, 5, 70, 70, 1, 0, S4_F32, CHUNKED, 1}, {3, 2, 33, 40, 3, 0, S4_F64, CHUNKED, 1},
        {1, 1, 1, 1, 1, 0, S4_F32, CHUNKED, 1},
    };
    for (int i = 0; i < 13; i++)
        for (int with_lengths = 0; with_lengths < 2; with_lengths++)
            compare(i, &list[i], (1u << WAYS) - 1, 0, with_lengths);
}

Test(device_tensors, in_place)
{
    static const sizes list[] = {{3, 2, 17, 20, 1, 0, S4_F64, 0, 0}, {2, 35, 40, 33, 1, 0, S4_F32, 0, 0},
                                 {3, 2, 75, 75, 1, 0, S4_F64, CHUNKED, 0}, {2, 35, 40, 40, 1, 0, S4_F32, CHUNKED, 0}};
    for (int i = 0; i < 4; i++)
        for (int with_lengths = 0; with_lengths < 2; with_lengths++)
            compare(i, &list[i], with_lengths ? 1u << TIME_FIRST | 1u << CHANNELS_FALLING : 1u << DENSE | 1u << GAPS, 1,
                    with_lengths);
}

/* More rows than a tile has: it ends within a group of channels, and within the next one. Against the CPU. */
Test(device_tensors, several_tiles)
{
    /* The third: tiles of 46 rows, which begin inside groups of channels and reach into the next. In chunks tiles have 4096
     * rows, of which the last ends inside a channel. */
    static const sizes list[] = {{700, 3, 2, 2, 1, 0, S4_F64, 0, 0},
                                 {60, 35, 2, 3, 1, 0, S4_F64, 0, 0},
                                 {3, 34, 700, 700, 64, 0, S4_F64, 0, 0},
                                 {900, 5, 2, 2, 1, 0, S4_F64, CHUNKED, 0},
                                 {1370, 3, 33, 33, 1, 0, S4_F64, CHUNKED, 1}};
    s4_context *context = context_open();
    s4_placement on_cpu;
    must(s4_placement_parse("cpu", &on_cpu));
    for (int i = 0; i < 5; i++) {
        about("sizes %d", i);
        const sizes *s = &list[i];
        const int64_t in = s->B * s->H * s->T, out = in * s->channels;
        random_source random = {7};
        const double *u = random_samples(&random, in), *dy = random_samples(&random, out);
        s4_layer *layer = layer_of_sizes(context, s, 1);
        const outcome expected = with_host_tensors(context, layer, s, on_cpu, u, dy, NULL),
                      got = with_host_tensors(context, layer, s, place_placement(), u, dy, NULL);
        expect_close("y", out, got.y, expected.y, TOLERANCE_PLACES, 0);
        if (s->states) {
            expect_close("state", state_count(layer, s), got.state, expected.state, TOLERANCE_PLACES, 0);
            expect_close("gradient of x0", state_count(layer, s), got.entering, expected.entering, TOLERANCE_PLACES, 0);
        }
        expect_close_gradients(&got.g, &expected.g, TOLERANCE_PLACES_GRADIENT);
        s4_layer_destroy(layer);
    }
    s4_context_destroy(context);
}

/* Rows of one launch beyond 65535, what a grid may have in all directions but one. In chunks they are in many tiles. */
static void forward_many_rows(const cuda_calls *cuda, s4_context *context, const sizes *s)
{
    const int64_t in = s->B * s->H * s->T, out = in * s->channels;
    s4_layer *layer = layer_of_sizes(context, s, 2);
    s4_problem problem = problem_of_sizes(layer, s, S4_DIRECTION_FORWARD);
    problem.tensors = S4_PLACE_GPU;
    session run = session_open(context, &problem);
    random_source random = {8};
    const double *u = random_samples(&random, in);
    tensor t_u = put(cuda, DENSE, s, s->H, u), t_y = put(cuda, DENSE, s, s->channels * s->H, NULL);
    must(s4_plan_refresh(run.plan, layer, run.workspace));
    s4_forward_io io;
    S4_INIT(&io);
    io.u = t_u.first;
    io.y = t_y.first;
    must(s4_plan_forward(run.plan, layer, run.workspace, &io));
    const double *y = take(&t_y);
    problem.tensors = S4_PLACE_CPU;
    must(s4_placement_parse("cpu", &problem.placement));
    session other = session_open(context, &problem);
    expect_close("y", out, y, session_forward(&other, layer, 0, 0, u, NULL, NULL), TOLERANCE_PLACES, 0);
    drop(&t_u);
    drop(&t_y);
    session_close(&run);
    session_close(&other);
    s4_layer_destroy(layer);
}

Test(device_tensors, many_rows)
{
    static const sizes list[] = {{2, 1000, 2, 2, 34, 0, S4_F64, 0, 0}, {33000, 2, 1, 1, 1, 0, S4_F64, CHUNKED, 0}};
    const cuda_calls cuda = cuda_find();
    s4_context *context = context_open();
    for (int i = 0; i < 2; i++) {
        about("%s", list[i].chunked ? "chunked" : "fft");
        forward_many_rows(&cuda, context, &list[i]);
    }
    s4_context_destroy(context);
}
