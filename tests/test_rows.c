/*
 * Rows of the convolution, forward and backward, at every way that a transform is split in: lengths with factors 2, 3 and 5,
 * below one block and of several levels, inputs and kernels longer than one another; rows so long that their twiddles
 * are made on the way; and many channels side by side.
 */
#include <math.h>

#include "expect.h"
#include "layers.h"
#include "naive.h"
#include "place.h"
#include "session.h"
#include "tolerances.h"

enum { B = 2 };

typedef struct sizes {
    int64_t length, kernel_length;
} sizes;

/* FFT lengths 128 to 8192: powers of two, with a factor 3, with a factor 5; the last ones have one long operand. */
static const sizes size_list[] = {
    {60, 60},     {120, 120},   {180, 180},   {250, 250}, {300, 300},  {500, 500},  {640, 600}, {750, 750},
    {1000, 1000}, {1250, 1250}, {1500, 1500}, {2000, 2000}, {2500, 2500}, {3000, 3000}, {4096, 4096}, {5000, 5000},
    {300, 5},     {700, 7},     {1000, 20},   {2500, 40}, {20, 1000},  {5, 2500},
};
#define SIZES (int)(sizeof size_list / sizeof size_list[0])

static const struct {
    int channels, bidirectional;
    int64_t longest;
} kinds[] = {{1, 0, 5000}, {3, 0, 1500}, {1, 1, 2500}, {2, 1, 1500}};
#define KINDS (int)(sizeof kinds / sizeof kinds[0])

static const double tolerance_of[] = {[S4_F32] = TOLERANCE_F32_OUTPUT, [S4_F64] = TOLERANCE_FORWARD};

typedef struct row_case {
    s4_layer *layer;
    int64_t channels, T, L;
    int bidirectional;
    const double *K, *u, *dy; /* (kernels,L), (B,T), (B,channels,T); one channel */
    const double *D;
    const double *y, *du;            /* what is expected */
    double product[4], size[4];      /* of each kernel: naive_product */
} row_case;

static void say(const row_case *c, s4_dtype dtype)
{
    about("%d outputs%s, length %d, kernel length %d, %s", (int)c->channels, c->bidirectional ? ", bidirectional" : "",
          (int)c->T, (int)c->L, s4_dtype_name(dtype));
}

static double *naive_du(const row_case *c)
{
    double *du = numbers(B * c->T);
    for (int64_t b = 0; b < B; b++)
        for (int64_t o = 0; o < c->channels; o++) {
            const double *dy = c->dy + (b * c->channels + o) * c->T, *K = c->K + o * c->L,
                         *K1 = c->K + (c->channels + o) * c->L;
            for (int64_t s = 0; s < c->T; s++) {
                double sum = c->D[o] * dy[s];
                for (int64_t t = s; t < c->T && t - s < c->L; t++)
                    sum += K[t - s] * dy[t];
                for (int64_t t = s - 1; c->bidirectional && t >= 0 && s - t - 1 < c->L; t--)
                    sum += K1[s - t - 1] * dy[t];
                du[b * c->T + s] += sum;
            }
        }
    return du;
}

/* Sum over l of K_k[l] dL/dK_k[l], of kernel k, and of the sizes of its terms. */
static double naive_product(const row_case *c, int64_t k, double *size)
{
    const int64_t o = k % c->channels, lag = k < c->channels ? 0 : 1;
    double sum = 0;
    *size = 0;
    for (int64_t l = 0; l < c->L && l + lag < c->T; l++) {
        double gradient = 0;
        for (int64_t b = 0; b < B; b++) {
            const double *u = c->u + b * c->T, *dy = c->dy + (b * c->channels + o) * c->T;
            for (int64_t t = 0; t + l + lag < c->T; t++)
                gradient += lag ? u[t + l + 1] * dy[t] : u[t] * dy[t + l];
        }
        sum += c->K[k * c->L + l] * gradient;
        *size += fabs(c->K[k * c->L + l] * gradient);
    }
    return sum;
}

static void compare(s4_context *context, const row_case *c, s4_dtype dtype)
{
    const double tolerance = tolerance_of[dtype];
    say(c, dtype);
    s4_problem problem = problem_of(c->layer, S4_DIRECTION_TRAINING, dtype, B, c->T, c->L);
    if (!session_offered(context, &problem))
        return;
    session s = session_open(context, &problem);
    expect_close("y", B * c->channels * c->T, session_forward(&s, c->layer, 0, 0, c->u, NULL, NULL), c->y, tolerance,
                 0);
    const gradients g = session_backward(&s, c->layer, 0, 0, c->u, c->dy);
    expect_close("du", B * c->T, g.du, c->du, tolerance, 0);
    for (int64_t o = 0; o < c->channels; o++) {
        double sum = 0;
        for (int64_t b = 0; b < B; b++)
            for (int64_t t = 0; t < c->T; t++)
                sum += c->u[b * c->T + t] * c->dy[(b * c->channels + o) * c->T + t];
        expect_close("D", 1, &g.parameter[S4_PARAMETER_D][o], &sum, tolerance, (double)c->T);
    }
    /* K is linear in C: sum of C dL/dC = sum of K dL/dK. */
    const int64_t kernels = layer_kernels(c->layer), numbers_of_c = layer_count(c->layer, S4_PARAMETER_C) / kernels;
    for (int64_t k = 0; k < kernels; k++) {
        double sum = 0;
        for (int64_t i = k * numbers_of_c; i < (k + 1) * numbers_of_c; i++)
            sum += layer_data(c->layer, S4_PARAMETER_C)[i] * g.parameter[S4_PARAMETER_C][i];
        expect_close("C", 1, &sum, &c->product[k], tolerance, c->size[k]);
    }
    session_close(&s);
}

Test(rows, every_length)
{
    s4_context *context = context_open();
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < SIZES; i++) {
            if (size_list[i].length > kinds[k].longest)
                continue;
            const layer_shape shape = {.mode = S4_MODE_DIAG, .d_model = 1, .d_state = 4, .plain_transforms = 1,
                                       .channels = kinds[k].channels, .bidirectional = kinds[k].bidirectional,
                                       .discretisation = S4_ZOH};
            row_case c = {.layer = layer_random(&shape, (uint64_t)(SIZES * k + i)), .channels = kinds[k].channels,
                          .T = size_list[i].length, .L = size_list[i].kernel_length,
                          .bidirectional = kinds[k].bidirectional};
            random_source random = {(uint64_t)i};
            c.K = naive_kernels(c.layer, 1, c.L);
            c.u = random_samples(&random, B * c.T);
            c.dy = random_samples(&random, B * c.channels * c.T);
            c.D = layer_data(c.layer, S4_PARAMETER_D);
            c.y = naive_output(c.layer, c.L, c.K, B, c.T, c.u, NULL);
            c.du = naive_du(&c);
            for (int64_t n = 0; n < layer_kernels(c.layer); n++)
                c.product[n] = naive_product(&c, n, &c.size[n]);
            for (int d = 0; d < 2; d++)
                compare(context, &c, d == 0 ? S4_F64 : S4_F32);
            s4_layer_destroy(c.layer);
        }
    s4_context_destroy(context);
}

/* (from H rows of T) or (from T rows of H) to the other. */
static double *turned(int64_t rows, int64_t columns, const double *from)
{
    double *to = numbers(B * rows * columns);
    for (int64_t b = 0; b < B; b++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++)
                to[(b * columns + c) * rows + r] = from[(b * rows + r) * columns + c];
    return to;
}

/* Channels side by side, as many as no vector divides: the bits of rows. */
Test(rows, channels_side_by_side)
{
    enum { H = 37, T = 143 };
    s4_context *context = context_open();
    if (place_has_gpu())
        cr_skip_test("placement %s has dense rows", place_text());
    const layer_shape shape = {.mode = S4_MODE_DIAG, .d_model = H, .d_state = 4, .plain_transforms = 1,
                               .discretisation = S4_ZOH};
    s4_layer *layer = layer_random(&shape, 1);
    random_source random = {1};
    const double *u = random_samples(&random, B * H * T), *dy = random_samples(&random, B * H * T);
    for (int d = 0; d < 2; d++) {
        const s4_dtype dtype = d == 0 ? S4_F64 : S4_F32;
        about("%s", s4_dtype_name(dtype));
        s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, dtype, B, T, T);
        session rows = session_open(context, &problem);
        problem.layout = S4_LAYOUT_BLH;
        session side_by_side = session_open(context, &problem);
        for (int64_t length = T; length > 0; length -= T - 31) {
            const double *y = session_forward(&rows, layer, 0, length, u, NULL, NULL),
                         *beside = session_forward(&side_by_side, layer, 0, length, turned(H, length, u), NULL, NULL);
            expect_same_bits("y", B * H * length, turned(length, H, beside), y);
            const gradients g = session_backward(&rows, layer, 0, length, u, dy);
            gradients g_beside = session_backward(&side_by_side, layer, 0, length, turned(H, length, u),
                                                  turned(H, length, dy));
            g_beside.du = turned(length, H, g_beside.du);
            expect_same_gradients(&g_beside, &g);
        }
        session_close(&rows);
        session_close(&side_by_side);
    }
    s4_layer_destroy(layer);
    s4_context_destroy(context);
}

/* ---- rows with a short table of twiddles -------------------------------------------------------------------------- */

enum { IMPULSES = 5 };

/* A few samples of 1, -1/2, 1/3 ..., the first and the last of a row among them; the other rows are zero. */
typedef struct impulses {
    int64_t at[IMPULSES];
} impulses;
static double height(int i) { return (i % 2 ? -1.0 : 1.0) / (i + 1); }
static double *row_of(const impulses *x, int64_t T)
{
    double *row = numbers(T);
    for (int i = 0; i < IMPULSES; i++)
        row[x->at[i]] += height(i);
    return row;
}

/* One row of one channel of length T = kernel length, of FFT length 2 T or a little more. */
static void long_row(s4_context *context, s4_layer *layer, s4_dtype dtype, int64_t T, const char *level)
{
    const double tolerance = tolerance_of[dtype], D = layer_data(layer, S4_PARAMETER_D)[0];
    about("level %s, length %d, %s", level ? level : "default", (int)T, s4_dtype_name(dtype));
    const impulses u_at = {{0, 1, T / 3, T / 2 + 7, T - 1}}, dy_at = {{0, 5, T / 3 + 100, T - 2, T - 1}};
    const double *K = naive_kernels(layer, 1, T), *u = row_of(&u_at, T), *dy = row_of(&dy_at, T);
    double *y = numbers(T), *du = numbers(T), product = 0, size = 0;
    for (int i = 0; i < IMPULSES; i++) {
        const int64_t s = u_at.at[i], t = dy_at.at[i];
        for (int64_t l = 0; s + l < T; l++)
            y[s + l] += height(i) * K[l];
        y[s] += D * height(i);
        for (int64_t l = 0; l <= t; l++)
            du[t - l] += height(i) * K[l];
        du[t] += D * height(i);
        for (int j = 0; j < IMPULSES; j++)
            if (t >= u_at.at[j]) {
                const double term = K[t - u_at.at[j]] * height(i) * height(j);
                product += term;
                size += fabs(term);
            }
    }
    s4_problem problem = problem_of(layer, S4_DIRECTION_TRAINING, dtype, 1, T, T);
    session s = session_open(context, &problem);
    expect_close("y", T, session_forward(&s, layer, 0, 0, u, NULL, NULL), y, tolerance, 0);
    const gradients g = session_backward(&s, layer, 0, 0, u, dy);
    expect_close("du", T, g.du, du, tolerance, 0);
    double sum = 0;
    for (int64_t i = 0; i < g.count[S4_PARAMETER_C]; i++)
        sum += layer_data(layer, S4_PARAMETER_C)[i] * g.parameter[S4_PARAMETER_C][i];
    expect_close("C", 1, &sum, &product, tolerance, size);
    session_close(&s);
}

/* Of 2^k, 3 2^k and 5 2^k points, at every level there is. */
Test(rows, longer_than_a_cache)
{
    static const char *const levels[] = {NULL, "x86-64", "x86-64-v3"};
    static const struct {
        s4_dtype dtype;
        int64_t length;
    } rows[] = {{S4_F64, 262144}, {S4_F64, 300000}, {S4_F32, 520000}, {S4_F32, 700000}};
    s4_context_destroy(context_open());
    if (place_has_gpu())
        cr_skip_test("placement %s has transforms of its own", place_text());
    const layer_shape shape = {.mode = S4_MODE_DIAG, .d_model = 1, .d_state = 4, .plain_transforms = 1,
                               .discretisation = S4_ZOH};
    s4_layer *layer = layer_random(&shape, 3);
    for (int l = 0; l < 3; l++) {
        s4_context_options options;
        S4_INIT(&options);
        options.threads = 1;
        options.cpu_level = levels[l];
        s4_context *context;
        cr_assert_eq(s4_context_create(&options, &context), S4_OK);
        s4_place_info info = {0};
        const s4_status status = s4_context_place(context, S4_PLACE_CPU, &info);
        cr_assert(!status || levels[l], "%s", s4_last_error());
        for (size_t i = 0; !status && i < sizeof rows / sizeof rows[0]; i++)
            long_row(context, layer, rows[i].dtype, rows[i].length, levels[l]);
        s4_context_destroy(context);
    }
    s4_layer_destroy(layer);
}
