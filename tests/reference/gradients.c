/* Gradients of the loss by a route that shares no derivative formula with the library: finite
 * differences of loss.c in long double for the kernel's parameters, direct sums for u and D. */
#include <math.h>
#include <stdlib.h>

#include "reference_internal.h"

/* Steps, relative to the scale of the parameter. Long double leaves room to take them small: the
 * sixth-order error is below 1e-11 and so is 1e-19 / step. */
static const ref_real dt_step = 0x1p-16L, lambda_step = 0x1p-9L, p_step = 0x1p-14L;

/* A direction in parameter space: `count` entries of x and their mirrors move by direction and its
 * conjugate, or `count` entries of dt and their mirrors by 1. */
struct move {
    ref_complex *x;
    ref_complex direction;
    ref_real *dt;
    int count, n;
};

static void shift(const struct move *move, ref_real amount)
{
    for (int i = 0; i < move->count; ++i)
        if (move->dt) {
            move->dt[i] += amount;
            move->dt[move->n + i] += amount;
        } else {
            move->x[i] += amount * move->direction;
            move->x[move->n + i] += amount * conjl(move->direction);
        }
}

/* (f(x + amount) - f(x - amount)) / (2 amount). */
static ref_real central_difference(const struct ref_channel_loss *cl,
                                   const struct ref_channel *channel, const struct move *move,
                                   ref_real amount)
{
    shift(move, amount);
    ref_real above = ref_channel_loss_value(cl, channel);
    shift(move, -2 * amount);
    ref_real below = ref_channel_loss_value(cl, channel);
    shift(move, amount);
    return (above - below) / (2 * amount);
}

/* Richardson extrapolation of steps h, 2h, 3h: h^2 and h^4 cancel. */
struct extrapolated {
    ref_real value, gap;
};

static struct extrapolated extrapolate(const struct ref_channel_loss *cl,
                                       const struct ref_channel *channel, const struct move *move,
                                       ref_real amount)
{
    ref_real d1 = central_difference(cl, channel, move, amount);
    ref_real d2 = central_difference(cl, channel, move, 2 * amount);
    ref_real d3 = central_difference(cl, channel, move, 3 * amount);
    ref_real fourth = (4 * d1 - d2) / 3;
    struct extrapolated result = {.value = (15 * d1 - 6 * d2 + d3) / 10};
    result.gap = fabsl(result.value - fourth);
    return result;
}

/* The largest gap against the largest derivative of a kind. A derivative that would change the
 * loss by less than 1e-6 of itself over the whole scale of its parameter counts as 0 (length 1:
 * nothing depends on dt), and gaps are then measured against that. */
struct quality {
    ref_real gap, size;
};

static void note(struct quality *quality, struct extrapolated d, ref_real loss, ref_real scale)
{
    ref_real floor = 1e-6L * fabsl(loss) / scale;
    quality->gap = fmaxl(quality->gap, d.gap);
    quality->size = fmaxl(quality->size, fmaxl(fabsl(d.value), floor));
}

static double relative_gap(const struct quality *quality)
{
    return quality->size > 0 ? (double)(quality->gap / quality->size) : 0;
}

/* Parameters in which the loss is linear: x (n stored entries of a closed vector) -> g (n,2). */
static void difference_linear(const struct ref_channel_loss *cl, const struct ref_channel *channel,
                              ref_complex *x, double *g)
{
    for (int i = 0; i < channel->n; ++i)
        for (int part = 0; part < 2; ++part) {
            struct move move = {.x = x + i, .direction = part ? I : 1, .count = 1, .n = channel->n};
            g[2 * i + part] += (double)central_difference(cl, channel, &move, 1);
        }
}

static double difference_dt(const struct ref_layer *layer, const struct ref_channel_loss *cl,
                            const struct ref_channel *channel, double *g_inv_dt)
{
    struct quality quality = {0, 0};
    ref_real loss = ref_channel_loss_value(cl, channel);
    int n = channel->n, groups = layer->dt_per_mode ? n : 1;
    for (int i = 0; i < groups; ++i) {
        int at = layer->dt_per_mode ? cl->h * n + i : cl->h;
        struct move move = {.dt = channel->dt + i, .count = n / groups, .n = n};
        struct extrapolated d = extrapolate(cl, channel, &move, dt_step * channel->dt[i]);
        note(&quality, d, loss, channel->dt[i]);
        g_inv_dt[at] += (double)(d.value * layer->rate *
                                 ref_transform_derivative(layer->dt_transform, layer->inv_dt[at]));
    }
    return relative_gap(&quality);
}

static double difference_lambda(const struct ref_layer *layer, const struct ref_channel_loss *cl,
                                const struct ref_channel *channel, double *g_real, double *g_imag)
{
    struct quality quality = {0, 0};
    ref_real loss = ref_channel_loss_value(cl, channel);
    int n = channel->n, copy = cl->h % layer->n_ssm;
    for (int i = 0; i < n; ++i) {
        int at = copy * n + i;
        ref_complex lambda = channel->lambda[i];
        ref_real scale = fmaxl(fabsl(creall(lambda)), 1e-3L * (cabsl(lambda) + 1));
        for (int part = 0; part < 2; ++part) {
            struct move move = {
                .x = channel->lambda + i, .direction = part ? I : 1, .count = 1, .n = n};
            double *g = part ? g_imag : g_real;
            if (!g)
                continue;
            struct extrapolated d = extrapolate(cl, channel, &move, lambda_step * scale);
            note(&quality, d, loss, scale);
            g[at] -= (double)(d.value * (part ? ref_transform_derivative(layer->imag_transform,
                                                                         layer->A_imag[at])
                                              : ref_transform_derivative(layer->real_transform,
                                                                         layer->A_real[at])));
        }
    }
    return relative_gap(&quality);
}

static double difference_p(const struct ref_layer *layer, const struct ref_channel_loss *cl,
                           const struct ref_channel *channel, double *g_p)
{
    struct quality quality = {0, 0};
    ref_real loss = ref_channel_loss_value(cl, channel);
    int n = channel->n, copy = cl->h % layer->n_ssm;
    for (int r = 0; r < channel->rank; ++r) {
        ref_complex *p = channel->p + r * channel->size;
        ref_real scale = 0;
        for (int i = 0; i < n; ++i)
            scale = fmaxl(scale, cabsl(p[i]));
        scale = scale > 0 ? scale : 1;
        for (int i = 0; i < n; ++i)
            for (int part = 0; part < 2; ++part) {
                struct move move = {.x = p + i, .direction = part ? I : 1, .count = 1, .n = n};
                struct extrapolated d = extrapolate(cl, channel, &move, p_step * scale);
                note(&quality, d, loss, scale);
                g_p[2 * ((r * layer->n_ssm + copy) * n + i) + part] += (double)d.value;
            }
    }
    return relative_gap(&quality);
}

/* g_u[s] = D G[s] + sum_t G[t] K[t-s] + Re sum conj(g_state_out) dA^(T-1-s) dB, g_D = sum u G. */
static void direct_sums(const struct ref_layer *layer, const struct ref_loss *loss,
                        const struct ref_gradients *out)
{
    int d_model = layer->d_model, n = layer->d_state / 2, length = loss->kernel_length;
    double *kernel = ref_allocate((size_t)(d_model * length), sizeof *kernel);
    if (out->u && loss->leaf == REF_LEAF_C)
        ref_kernel(layer, length, kernel);
    else if (out->u && loss->route == REF_ROUTE_DENSE)
        ref_kernel_from_c_tilde(layer, length, loss->c_tilde, kernel);
    else if (out->u)
        ref_kernel_frequency(layer, length, loss->c_tilde, kernel);
    for (int h = 0; h < d_model; ++h) {
        struct ref_channel channel = ref_channel_read(layer, h, NULL);
        struct ref_dense dense = ref_dense_create(&channel);
        ref_real g_skip = 0, skip = layer->D ? layer->D[h] : 0;
        for (int b = 0; b < loss->batch; ++b) {
            size_t at = (size_t)(b * d_model + h);
            const double *u = loss->u + at * (size_t)loss->input_length;
            const double *g = loss->G + at * (size_t)loss->input_length;
            double *g_u = out->u ? out->u + at * (size_t)loss->input_length : NULL;
            for (int s = 0; s < loss->input_length; ++s) {
                ref_real sum = skip * g[s];
                for (int t = s; t < loss->input_length && t - s < length; ++t)
                    sum += (ref_real)g[t] * kernel[h * length + t - s];
                g_skip += (ref_real)g[s] * u[s];
                if (g_u)
                    g_u[s] = (double)sum;
            }
            if (!g_u || !loss->g_state_out)
                continue;
            const double *g_state = loss->g_state_out + 2 * at * (size_t)n;
            ref_complex *v = ref_allocate((size_t)channel.size, sizeof *v);
            for (int s = loss->input_length - 1; s >= 0; --s) {
                ref_dense_step(channel.size, &dense, s == loss->input_length - 1, v);
                for (int i = 0; i < n; ++i)
                    g_u[s] +=
                        (double)(g_state[2 * i] * creall(v[i]) + g_state[2 * i + 1] * cimagl(v[i]));
            }
            free(v);
        }
        if (out->D)
            out->D[h] = (double)g_skip;
        ref_dense_destroy(&dense);
        ref_channel_destroy(&channel);
    }
    free(kernel);
}

static void clear(double *g, int count)
{
    for (int i = 0; g && i < count; ++i)
        g[i] = 0;
}

static void clear_all(const struct ref_layer *layer, const struct ref_loss *loss,
                      const struct ref_gradients *out)
{
    int n = layer->d_state / 2, copies = layer->n_ssm * n, rows = layer->d_model * n;
    clear(out->inv_dt, layer->dt_per_mode ? rows : layer->d_model);
    clear(out->A_real, copies);
    clear(out->A_imag, copies);
    clear(out->B, 2 * copies);
    clear(out->P, 2 * layer->rank * copies);
    clear(out->C, 2 * rows);
    clear(out->state_in, 2 * loss->batch * rows);
}

static const double *leaf_row(const struct ref_layer *layer, const struct ref_loss *loss)
{
    return loss->leaf == REF_LEAF_C ? layer->C : loss->c_tilde;
}

double ref_gradients(const struct ref_layer *layer, const struct ref_loss *loss,
                     const struct ref_gradients *out)
{
    ref_layer_check(layer);
    ref_check(!out->state_in || loss->state_in, "a gradient of the state needs a state");
    int d_model = layer->d_model, n = layer->d_state / 2;
    double worst = 0;
    clear_all(layer, loss, out);
    if (out->u || out->D)
        direct_sums(layer, loss, out);
    for (int h = 0; h < d_model; ++h) {
        int copy = h % layer->n_ssm;
        struct ref_channel channel = ref_channel_read(layer, h, leaf_row(layer, loss));
        struct ref_channel_loss cl = ref_channel_loss_create(loss, d_model, n, h);
        if (out->B)
            difference_linear(&cl, &channel, channel.b, out->B + 2 * copy * n);
        if (out->C)
            difference_linear(&cl, &channel, channel.c, out->C + 2 * h * n);
        for (int b = 0; out->state_in && b < loss->batch; ++b)
            difference_linear(&cl, &channel, cl.state_in + b * 2 * n,
                              out->state_in + 2 * (b * d_model + h) * n);
        if (out->inv_dt)
            worst = fmax(worst, difference_dt(layer, &cl, &channel, out->inv_dt));
        if (out->A_real || out->A_imag)
            worst = fmax(worst, difference_lambda(layer, &cl, &channel, out->A_real, out->A_imag));
        if (out->P)
            worst = fmax(worst, difference_p(layer, &cl, &channel, out->P));
        ref_channel_loss_destroy(&cl);
        ref_channel_destroy(&channel);
    }
    return worst;
}

double ref_loss(const struct ref_layer *layer, const struct ref_loss *loss)
{
    ref_layer_check(layer);
    int n = layer->d_state / 2, length = loss->input_length;
    ref_real sum = 0;
    for (int h = 0; h < layer->d_model; ++h) {
        struct ref_channel channel = ref_channel_read(layer, h, leaf_row(layer, loss));
        struct ref_channel_loss cl = ref_channel_loss_create(loss, layer->d_model, n, h);
        sum += ref_channel_loss_value(&cl, &channel);
        for (int b = 0; layer->D && b < loss->batch; ++b)
            for (int t = 0; t < length; ++t) {
                int at = (b * layer->d_model + h) * length + t;
                sum += (ref_real)layer->D[h] * loss->u[at] * loss->G[at];
            }
        ref_channel_loss_destroy(&cl);
        ref_channel_destroy(&channel);
    }
    return (double)sum;
}
