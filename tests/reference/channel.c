/* The effective parameters of one channel, closed and in long double, read from a layer. */
#include <stdio.h>
#include <stdlib.h>

#include "reference_internal.h"

void ref_check(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "reference: %s\n", what);
    abort();
}

void *ref_allocate(size_t count, size_t size)
{
    void *block = calloc(count ? count : 1, size);
    ref_check(block != NULL, "out of memory");
    return block;
}

void ref_layer_check(const struct ref_layer *layer)
{
    ref_check(layer->d_model >= 1, "d_model < 1");
    ref_check(layer->d_state >= 2 && layer->d_state % 2 == 0, "d_state not even and positive");
    ref_check(layer->rank >= 0, "rank < 0");
    ref_check(layer->n_ssm >= 1 && layer->d_model % layer->n_ssm == 0,
              "n_ssm does not divide d_model");
}

struct ref_channel ref_channel_create(int n, int rank)
{
    struct ref_channel channel = {.n = n, .size = 2 * n, .rank = rank};
    size_t size = (size_t)channel.size;
    ref_complex *next = ref_allocate(size * (size_t)(4 + rank), sizeof *next);
    channel.block = next;
    channel.lambda = next;
    channel.b = next + size;
    channel.c = next + 2 * size;
    channel.p = next + 3 * size;
    channel.dt = (ref_real *)(next + (size_t)(3 + rank) * size);
    return channel;
}

void ref_channel_destroy(struct ref_channel *channel)
{
    free(channel->block);
    channel->block = NULL;
}

void ref_close(int n, ref_complex *x)
{
    for (int i = 0; i < n; ++i)
        x[n + i] = conjl(x[i]);
}

void ref_read_closed(int n, const double *stored, ref_complex *x)
{
    for (int i = 0; i < n; ++i)
        x[i] = (ref_real)stored[2 * i] + I * (ref_real)stored[2 * i + 1];
    ref_close(n, x);
}

void ref_write_complex(size_t count, const ref_complex *x, double *out)
{
    for (size_t i = 0; i < count; ++i) {
        out[2 * i] = (double)creall(x[i]);
        out[2 * i + 1] = (double)cimagl(x[i]);
    }
}

ref_complex ref_dot(int size, const ref_complex *row, const ref_complex *x)
{
    ref_complex sum = 0;
    for (int i = 0; i < size; ++i)
        sum += row[i] * x[i];
    return sum;
}

struct ref_channel ref_channel_read(const struct ref_layer *layer, int h, const double *output_row)
{
    ref_layer_check(layer);
    ref_check(h >= 0 && h < layer->d_model, "channel outside the layer");
    int n = layer->d_state / 2, copy = h % layer->n_ssm;
    size_t mode = (size_t)copy * (size_t)n;
    struct ref_channel channel = ref_channel_create(n, layer->rank);
    for (int i = 0; i < n; ++i) {
        double raw_dt = layer->inv_dt[layer->dt_per_mode ? h * n + i : h];
        ref_real re = ref_transform_real(layer->real_transform, layer->A_real[mode + (size_t)i]);
        ref_real im = ref_transform_real(layer->imag_transform, layer->A_imag[mode + (size_t)i]);
        channel.lambda[i] = -re - I * im;
        channel.dt[i] = layer->rate * ref_transform_real(layer->dt_transform, raw_dt);
        channel.dt[n + i] = channel.dt[i];
    }
    ref_close(n, channel.lambda);
    ref_read_closed(n, layer->B + 2 * mode, channel.b);
    for (int r = 0; r < layer->rank; ++r)
        ref_read_closed(n, layer->P + 2 * ((size_t)r * (size_t)(layer->n_ssm * n) + mode),
                        channel.p + (size_t)r * (size_t)channel.size);
    if (output_row)
        ref_read_closed(n, output_row + 2 * (size_t)h * (size_t)n, channel.c);
    return channel;
}

void ref_effective_parameters(const struct ref_layer *layer, double *dt, double *lambda)
{
    ref_layer_check(layer);
    int n = layer->d_state / 2, steps = layer->dt_per_mode ? layer->d_model * n : layer->d_model;
    for (int i = 0; i < steps; ++i)
        dt[i] = (double)(layer->rate * ref_transform_real(layer->dt_transform, layer->inv_dt[i]));
    for (int i = 0; i < layer->n_ssm * n; ++i) {
        lambda[2 * i] = (double)-ref_transform_real(layer->real_transform, layer->A_real[i]);
        lambda[2 * i + 1] = (double)-ref_transform_real(layer->imag_transform, layer->A_imag[i]);
    }
}
