/*
 * Kernels, outputs and gradients by definition: see naive.h. Diagonal layers, a = dt Lambda of one mode:
 *   zoh       K[l] = 2 Re C B (e^a - 1)/Lambda e^(a l)
 *   bilinear  K[l] = 2 Re C B dt/(1 - a/2) p^l,  p = (1 + a/2)/(1 - a/2)
 *   dss       K[l] = Re C B (e^a' - 1) r e^(a l),  r = conj(x)/(|x|^2 + 1e-7), x = (e^(a' L) - 1) Lambda, a' = a; where
 *             Re Lambda > 0, a' = -a and e^(a l) becomes e^(a (l - (L-1)))
 */
#include "naive.h"

#include <complex.h>
#include <math.h>

#include "expect.h"
#include "layers.h"

typedef long double real;
typedef long double complex cplx;

static const real two_pi = 6.283185307179586476925286766559005768L;

/* ---- effective parameters ---------------------------------------------------------------------------------------- */

static real transformed(s4_transform transform, real raw)
{
    switch (transform) {
    case S4_TRANSFORM_EXP:
        return expl(raw);
    case S4_TRANSFORM_RELU:
        return (raw > 0 ? raw : 0) + 1e-4L;
    case S4_TRANSFORM_SIGMOID:
        return 1 / (1 + expl(-raw));
    case S4_TRANSFORM_SOFTPLUS:
        return log1pl(expl(raw));
    case S4_TRANSFORM_NONE:
    default:
        return raw;
    }
}

/* Raw parameters in long double, so that differences of them are exact, and the layer's description. */
typedef struct raw_layer {
    s4_layer_options options;
    int64_t modes, kernels;
    real *parameter[S4_PARAMETER_COUNT];
} raw_layer;

static raw_layer read_layer(s4_layer *layer)
{
    raw_layer raw = {.options = layer_options(layer), .kernels = layer_kernels(layer)};
    raw.modes = raw.options.d_state / 2;
    for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
        const int64_t count = layer_count(layer, (s4_parameter)p);
        raw.parameter[p] = (real *)(void *)numbers(2 * count);
        for (int64_t i = 0; i < count; i++)
            raw.parameter[p][i] = layer_data(layer, (s4_parameter)p)[i];
    }
    return raw;
}

static cplx complex_at(const raw_layer *raw, s4_parameter which, int64_t index)
{
    return raw->parameter[which][2 * index] + I * raw->parameter[which][2 * index + 1];
}

static real dt_of(const raw_layer *raw, int64_t h, int64_t n)
{
    const int64_t index = raw->options.dt_untied ? h * raw->modes + n : h;
    return transformed(raw->options.dt_transform, raw->parameter[S4_PARAMETER_INV_DT][index]);
}

static cplx lambda_of(const raw_layer *raw, int64_t h, int64_t n)
{
    const int64_t index = h % raw->options.n_ssm * raw->modes + n;
    return -transformed(raw->options.real_transform, raw->parameter[S4_PARAMETER_A_REAL][index]) -
           I * transformed(raw->options.imag_transform, raw->parameter[S4_PARAMETER_A_IMAG][index]);
}

static int is_limited(const raw_layer *raw, int64_t h, int64_t n)
{
    const double alpha = raw->options.bandlimit;
    return alpha > 0 && dt_of(raw, h, n) * fabsl(cimagl(lambda_of(raw, h, n))) / two_pi >= alpha / 2;
}

/* ---- kernels ------------------------------------------------------------------------------------------------------ */

/* C B of a mode becomes the kernel's first coefficient, and a factor from one sample to the next. */
static void mode_of(const raw_layer *raw, int64_t h, int64_t n, real rate, int64_t L, cplx *coefficient, cplx *factor)
{
    const cplx lambda = lambda_of(raw, h, n);
    const real dt = rate * dt_of(raw, h, n);
    const cplx a = dt * lambda;
    switch (raw->options.discretisation) {
    case S4_ZOH:
        *coefficient *= 2 * (lambda == 0 ? dt : (cexpl(a) - 1) / lambda);
        *factor = cexpl(a);
        return;
    case S4_BILINEAR:
        *coefficient *= 2 * dt / (1 - a / 2);
        *factor = (1 + a / 2) / (1 - a / 2);
        return;
    case S4_DSS:
    default: {
        const int grows = creall(lambda) > 0;
        const cplx of_shift = grows ? -a : a, x = (cexpl(of_shift * L) - 1) * lambda;
        const real size = creall(x) * creall(x) + cimagl(x) * cimagl(x);
        *coefficient *= (cexpl(of_shift) - 1) * conjl(x) / (size + 1e-7L);
        if (grows)
            *coefficient *= cexpl(-a * (L - 1));
        *factor = cexpl(a);
        return;
    }
    }
}

static void diagonal_kernels(const raw_layer *raw, real rate, int64_t L, real *K)
{
    const int64_t H = raw->options.d_model, n_modes = raw->modes;
    for (int64_t c = 0; c < raw->kernels; c++)
        for (int64_t h = 0; h < H; h++) {
            real *row = &K[(c * H + h) * L];
            for (int64_t l = 0; l < L; l++)
                row[l] = 0;
            for (int64_t n = 0; n < n_modes; n++) {
                if (is_limited(raw, h, n))
                    continue;
                cplx factor, term = complex_at(raw, S4_PARAMETER_C, (c * H + h) * n_modes + n) *
                                    complex_at(raw, S4_PARAMETER_B, h % raw->options.n_ssm * n_modes + n);
                mode_of(raw, h, n, rate, L, &term, &factor);
                for (int64_t l = 0; l < L; l++, term *= factor)
                    row[l] += creall(term);
            }
        }
}

/* C of kernel c as it is, or with zeros where the bandlimit takes it out. */
static double *limited_c(s4_layer *layer, const raw_layer *raw)
{
    double *C = numbers_copy(layer_count(layer, S4_PARAMETER_C), layer_data(layer, S4_PARAMETER_C));
    for (int64_t row = 0; row < raw->kernels * raw->options.d_model; row++)
        for (int64_t n = 0; n < raw->modes; n++)
            if (is_limited(raw, row % raw->options.d_model, n))
                C[2 * (row * raw->modes + n)] = C[2 * (row * raw->modes + n) + 1] = 0;
    return C;
}

double *naive_kernels(s4_layer *layer, double rate, int64_t L)
{
    const raw_layer raw = read_layer(layer);
    const int64_t H = raw.options.d_model, count = raw.kernels * H * L;
    double *K = numbers(count);
    if (raw.options.mode == S4_MODE_DIAG) {
        real *exact = (real *)(void *)numbers(2 * count);
        diagonal_kernels(&raw, rate, L, exact);
        for (int64_t i = 0; i < count; i++)
            K[i] = (double)exact[i];
        return K;
    }
    const double *C = limited_c(layer, &raw);
    for (int64_t c = 0; c < raw.kernels; c++) {
        struct ref_layer reference = layer_reference_kernel(layer, c);
        reference.C = &C[c * H * raw.options.d_state];
        reference.rate = rate;
        ref_kernel(&reference, (int)L, &K[c * H * L]);
    }
    return K;
}

/* ---- output ------------------------------------------------------------------------------------------------------- */

/* One output row of `count` samples. K: forward kernel; back: backward one or NULL. */
static void convolve_row(int64_t L, const real *K, const real *back, real D, int64_t count, const double *u, real *y)
{
    for (int64_t t = 0; t < count; t++) {
        y[t] = D * u[t];
        for (int64_t s = t - L + 1 > 0 ? t - L + 1 : 0; s <= t; s++)
            y[t] += K[t - s] * u[s];
        for (int64_t s = t + 1; back && s < count && s - t - 1 < L; s++)
            y[t] += back[s - t - 1] * u[s];
    }
}

static void convolve(const raw_layer *raw, int64_t L, const real *K, int64_t B, int64_t T, const double *u,
                     const int64_t *lengths, real *y)
{
    const int64_t H = raw->options.d_model, M = raw->options.channels;
    for (int64_t b = 0; b < B; b++)
        for (int64_t row = 0; row < M * H; row++) {
            const int64_t count = lengths ? lengths[b] : T;
            real *to = &y[(b * M * H + row) * T];
            for (int64_t t = count; t < T; t++)
                to[t] = 0;
            convolve_row(L, &K[row * L], raw->options.bidirectional ? &K[(M * H + row) * L] : NULL,
                         raw->parameter[S4_PARAMETER_D][row], count, &u[(b * H + row % H) * T], to);
        }
}

double *naive_output(s4_layer *layer, int64_t L, const double *K, int64_t B, int64_t T, const double *u,
                     const int64_t *lengths)
{
    const raw_layer raw = read_layer(layer);
    const int64_t kernels = raw.kernels * raw.options.d_model * L,
                  count = B * raw.options.channels * raw.options.d_model * T;
    real *wide = (real *)(void *)numbers(2 * kernels), *exact = (real *)(void *)numbers(2 * count);
    for (int64_t i = 0; i < kernels; i++)
        wide[i] = K[i];
    convolve(&raw, L, wide, B, T, u, lengths, exact);
    double *y = numbers(count);
    for (int64_t i = 0; i < count; i++)
        y[i] = (double)exact[i];
    return y;
}

/* ---- gradients of diagonal layers ---------------------------------------------------------------------------------- */

typedef struct loss {
    int64_t L, B, T;
    const double *u, *G;
    real *K, *y; /* scratch */
} loss;

static real loss_of(const raw_layer *raw, const loss *l)
{
    diagonal_kernels(raw, 1, l->L, l->K);
    convolve(raw, l->L, l->K, l->B, l->T, l->u, NULL, l->y);
    real sum = 0;
    for (int64_t i = 0; i < l->B * raw->options.channels * raw->options.d_model * l->T; i++)
        sum += l->y[i] * l->G[i];
    return sum;
}

/* Central differences at three steps, extrapolated to sixth order. */
static double derivative(const raw_layer *raw, const loss *l, real *value)
{
    const real at = *value, step = 2e-4L;
    real difference[3];
    for (int i = 0; i < 3; i++) {
        const real h = step * (i + 1);
        *value = at + h;
        const real up = loss_of(raw, l);
        *value = at - h;
        difference[i] = (up - loss_of(raw, l)) / (2 * h);
    }
    *value = at;
    return (double)(1.5L * difference[0] - 0.6L * difference[1] + 0.1L * difference[2]);
}

/* Adds the gradient of u: it passes the convolution the other way, so samples and kernels change places with those in
 * reverse. */
static void add_input_gradient(const raw_layer *raw, const loss *l, double *du)
{
    const int64_t H = raw->options.d_model, M = raw->options.channels, L = l->L, T = l->T;
    diagonal_kernels(raw, 1, L, l->K);
    for (int64_t b = 0; b < l->B; b++)
        for (int64_t row = 0; row < M * H; row++) {
            const double *G = &l->G[(b * M * H + row) * T];
            const real *K = &l->K[row * L], *back = raw->options.bidirectional ? &l->K[(M * H + row) * L] : NULL;
            for (int64_t s = 0; s < T; s++) {
                real sum = raw->parameter[S4_PARAMETER_D][row] * G[s];
                for (int64_t t = s; t < T && t - s < L; t++)
                    sum += K[t - s] * G[t];
                for (int64_t t = 0; back && t < s; t++)
                    if (s - t - 1 < L)
                        sum += back[s - t - 1] * G[t];
                du[(b * H + row % H) * T + s] += (double)sum;
            }
        }
}

static void diagonal_gradients(s4_layer *layer, int64_t L, int64_t B, int64_t T, const double *u, const double *G,
                               gradients *g)
{
    const raw_layer raw = read_layer(layer);
    const int64_t H = raw.options.d_model;
    const loss l = {L, B, T, u, G, (real *)(void *)numbers(2 * raw.kernels * H * L),
                    (real *)(void *)numbers(2 * B * raw.options.channels * H * T)};
    for (int p = 0; p < S4_PARAMETER_COUNT; p++)
        for (int64_t i = 0; i < g->count[p]; i++)
            g->parameter[p][i] = derivative(&raw, &l, &raw.parameter[p][i]);
    add_input_gradient(&raw, &l, g->du);
}

/* ---- gradients of DPLR layers -------------------------------------------------------------------------------------- */

/* Row b, channel h of `from` (B,rows,T), from row `first` on; reversed in time, and G one sample earlier: a backward
 * kernel gives y[t] = sum over s > t of K[s-t-1] u[s]. */
static double *rows_of(int64_t B, int64_t rows, int64_t first, int64_t H, int64_t T, const double *from, int reversed,
                       int64_t earlier)
{
    double *to = numbers(B * H * T);
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < H; h++)
            for (int64_t t = 0; t + earlier < T; t++) {
                const int64_t at = reversed ? T - 1 - (t + earlier) : t;
                to[(b * H + h) * T + t] = from[(b * rows + first + h) * T + at];
            }
    return to;
}

static void dplr_gradients(s4_layer *layer, int64_t L, int64_t B, int64_t T, const double *u, const double *G,
                           gradients *g)
{
    const raw_layer raw = read_layer(layer);
    const int64_t H = raw.options.d_model, M = raw.options.channels, C_count = H * raw.options.d_state;
    const double *C = limited_c(layer, &raw);
    for (int64_t c = 0; c < raw.kernels; c++) {
        const int back = c >= M;
        const struct ref_layer reference = layer_reference_kernel(layer, c);
        gradients part = gradients_zero(layer, B * H * T);
        const struct ref_loss of = {.leaf = REF_LEAF_C_TILDE, .route = REF_ROUTE_STRUCTURED, .c_tilde = &C[c * C_count],
                                    .kernel_length = (int)L, .batch = (int)B, .input_length = (int)T,
                                    .u = rows_of(B, H, 0, H, T, u, back, 0),
                                    .G = rows_of(B, M * H, c % M * H, H, T, G, back, back)};
        const struct ref_gradients out = {.inv_dt = part.parameter[S4_PARAMETER_INV_DT],
                                          .A_real = part.parameter[S4_PARAMETER_A_REAL],
                                          .A_imag = part.parameter[S4_PARAMETER_A_IMAG],
                                          .B = part.parameter[S4_PARAMETER_B],
                                          .P = part.parameter[S4_PARAMETER_P],
                                          .C = &part.parameter[S4_PARAMETER_C][c * C_count],
                                          .D = back ? NULL : &part.parameter[S4_PARAMETER_D][c * H],
                                          .u = part.du};
        ref_gradients(&reference, &of, &out);
        for (int p = 0; p < S4_PARAMETER_COUNT; p++)
            for (int64_t i = 0; i < g->count[p]; i++)
                g->parameter[p][i] += part.parameter[p][i];
        for (int64_t i = 0; i < B * H * T; i++) {
            const int64_t row = i / T, t = i % T;
            g->du[row * T + (back ? T - 1 - t : t)] += part.du[i];
        }
    }
    for (int64_t row = 0; row < raw.kernels * H; row++)
        for (int64_t n = 0; n < raw.modes; n++)
            if (is_limited(&raw, row % H, n))
                g->parameter[S4_PARAMETER_C][2 * (row * raw.modes + n)] =
                    g->parameter[S4_PARAMETER_C][2 * (row * raw.modes + n) + 1] = 0;
}

gradients naive_gradients(s4_layer *layer, int64_t L, int64_t B, int64_t T, const double *u, const double *G)
{
    gradients g = gradients_zero(layer, B * layer_options(layer).d_model * T);
    if (layer_options(layer).mode == S4_MODE_DIAG)
        diagonal_gradients(layer, L, B, T, u, G, &g);
    else
        dplr_gradients(layer, L, B, T, u, G, &g);
    return g;
}
