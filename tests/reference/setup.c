/* C~ = C (I - dA^L) and back (maths: "Set-up"). */
#include <stdlib.h>

#include "reference_internal.h"

static ref_complex *one_minus_power(const struct ref_channel *channel,
                                    const struct ref_dense *dense, int length,
                                    enum ref_power_method method)
{
    int size = channel->size;
    ref_complex *m = ref_allocate((size_t)(size * size), sizeof *m);
    ref_matrix_power(size, dense->da, length, method, m);
    for (int i = 0; i < size; ++i)
        for (int j = 0; j < size; ++j)
            m[i * size + j] = (i == j) - m[i * size + j];
    return m;
}

void ref_row_to_c_tilde(struct ref_channel *channel, const struct ref_dense *dense, int length,
                        enum ref_power_method method)
{
    int size = channel->size;
    ref_complex *m = one_minus_power(channel, dense, length, method);
    ref_complex *row = ref_allocate((size_t)size, sizeof *row);
    for (int j = 0; j < size; ++j)
        for (int i = 0; i < size; ++i)
            row[j] += channel->c[i] * m[i * size + j];
    for (int j = 0; j < size; ++j)
        channel->c[j] = row[j];
    free(row);
    free(m);
}

void ref_row_to_c(struct ref_channel *channel, const struct ref_dense *dense, int length,
                  enum ref_power_method method)
{
    int size = channel->size;
    ref_complex *m = one_minus_power(channel, dense, length, method);
    for (int i = 0; i < size; ++i) /* the row equation is a column equation in the transpose */
        for (int j = 0; j < i; ++j) {
            ref_complex swap = m[i * size + j];
            m[i * size + j] = m[j * size + i];
            m[j * size + i] = swap;
        }
    ref_gauss_solve(size, 1, m, channel->c);
    free(m);
}

typedef void row_map(struct ref_channel *, const struct ref_dense *, int, enum ref_power_method);

static void map_rows(const struct ref_layer *layer, int length, row_map *map, const double *in,
                     double *out)
{
    int n = layer->d_state / 2;
    ref_check(length >= 1, "kernel length < 1");
    for (int h = 0; h < layer->d_model; ++h) {
        struct ref_channel channel = ref_channel_read(layer, h, in);
        struct ref_dense dense = ref_dense_create(&channel);
        map(&channel, &dense, length, REF_POWER_BINARY);
        ref_write_complex((size_t)n, channel.c, out + 2 * (size_t)h * (size_t)n);
        ref_dense_destroy(&dense);
        ref_channel_destroy(&channel);
    }
}

void ref_c_tilde(const struct ref_layer *layer, int length, double *c_tilde)
{
    map_rows(layer, length, ref_row_to_c_tilde, layer->C, c_tilde);
}

void ref_c_from_c_tilde(const struct ref_layer *layer, int length, const double *c_tilde, double *c)
{
    map_rows(layer, length, ref_row_to_c, c_tilde, c);
}
