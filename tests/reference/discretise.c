/* Dense A and the bilinear dA, dB, dA^L in the closed basis (maths: "Discretisation"). */
#include <stdlib.h>

#include "reference_internal.h"

static ref_complex dense_a_entry(const struct ref_channel *channel, int i, int j)
{
    ref_complex a = i == j ? channel->lambda[i] : 0;
    for (int r = 0; r < channel->rank; ++r)
        a -= channel->p[r * channel->size + i] * conjl(channel->p[r * channel->size + j]);
    return a;
}

/* out = diag(dt) A x; out is not x. */
void ref_apply_dt_a(const struct ref_channel *channel, const ref_complex *x, ref_complex *out)
{
    int size = channel->size;
    for (int i = 0; i < size; ++i)
        out[i] = channel->lambda[i] * x[i];
    for (int r = 0; r < channel->rank; ++r) {
        const ref_complex *p = channel->p + r * size;
        ref_complex sum = 0;
        for (int j = 0; j < size; ++j)
            sum += conjl(p[j]) * x[j];
        for (int i = 0; i < size; ++i)
            out[i] -= p[i] * sum;
    }
    for (int i = 0; i < size; ++i)
        out[i] *= channel->dt[i];
}

/* One elimination of I - dt/2 A with the N + 1 right sides [I + dt/2 A, dt B]. */
struct ref_dense ref_dense_create(const struct ref_channel *channel)
{
    int size = channel->size, columns = size + 1;
    ref_complex *m = ref_allocate((size_t)(size * size), sizeof *m);
    ref_complex *rhs = ref_allocate((size_t)(size * columns), sizeof *rhs);
    struct ref_dense dense = {.da = ref_allocate((size_t)(size * size), sizeof *dense.da),
                              .db = ref_allocate((size_t)size, sizeof *dense.db)};
    for (int i = 0; i < size; ++i) {
        for (int j = 0; j < size; ++j) {
            ref_complex half = channel->dt[i] / 2 * dense_a_entry(channel, i, j);
            m[i * size + j] = (i == j) - half;
            rhs[i * columns + j] = (i == j) + half;
        }
        rhs[i * columns + size] = channel->dt[i] * channel->b[i];
    }
    ref_gauss_solve(size, columns, m, rhs);
    for (int i = 0; i < size; ++i) {
        for (int j = 0; j < size; ++j)
            dense.da[i * size + j] = rhs[i * columns + j];
        dense.db[i] = rhs[i * columns + size];
    }
    free(m);
    free(rhs);
    return dense;
}

void ref_dense_destroy(struct ref_dense *dense)
{
    free(dense->da);
    free(dense->db);
    dense->da = dense->db = NULL;
}

/* x <- dA x + dB u; x: (N) closed. */
void ref_dense_step(int size, const struct ref_dense *dense, ref_real u, ref_complex *x)
{
    ref_complex *next = ref_allocate((size_t)size, sizeof *next);
    for (int i = 0; i < size; ++i)
        next[i] = ref_dot(size, dense->da + i * size, x) + dense->db[i] * u;
    for (int i = 0; i < size; ++i)
        x[i] = next[i];
    free(next);
}

void ref_dense_a(const struct ref_layer *layer, int h, double *a)
{
    struct ref_channel channel = ref_channel_read(layer, h, NULL);
    for (int i = 0; i < channel.size; ++i)
        for (int j = 0; j < channel.size; ++j) {
            ref_complex entry = dense_a_entry(&channel, i, j);
            ref_write_complex(1, &entry, a + 2 * (i * channel.size + j));
        }
    ref_channel_destroy(&channel);
}

void ref_discretise(const struct ref_layer *layer, int h, double *da, double *db)
{
    struct ref_channel channel = ref_channel_read(layer, h, NULL);
    struct ref_dense dense = ref_dense_create(&channel);
    ref_write_complex((size_t)(channel.size * channel.size), dense.da, da);
    ref_write_complex((size_t)channel.size, dense.db, db);
    ref_dense_destroy(&dense);
    ref_channel_destroy(&channel);
}

void ref_power(const struct ref_layer *layer, int h, int exponent, enum ref_power_method method,
               double *da_power)
{
    struct ref_channel channel = ref_channel_read(layer, h, NULL);
    struct ref_dense dense = ref_dense_create(&channel);
    size_t count = (size_t)(channel.size * channel.size);
    ref_complex *power = ref_allocate(count, sizeof *power);
    ref_matrix_power(channel.size, dense.da, exponent, method, power);
    ref_write_complex(count, power, da_power);
    free(power);
    ref_dense_destroy(&dense);
    ref_channel_destroy(&channel);
}
