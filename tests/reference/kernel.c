/* The convolution kernel by plain recurrence, and from C~ by its definition and by its generating
 * function (maths: "Kernel from C~"). */
#include <stdlib.h>

#include "reference_internal.h"

/* kernel[l] = c dA^l x, by dense recurrence; x: (N) closed, overwritten. */
static void recur(const struct ref_channel *channel, const struct ref_dense *dense, int length,
                  ref_complex *x, double *kernel)
{
    for (int l = 0; l < length; ++l) {
        kernel[l] = (double)creall(ref_dot(channel->size, channel->c, x));
        ref_dense_step(channel->size, dense, 0, x);
    }
}

void ref_kernel(const struct ref_layer *layer, int length, double *kernel)
{
    for (int h = 0; h < layer->d_model; ++h) {
        struct ref_channel channel = ref_channel_read(layer, h, layer->C);
        struct ref_dense dense = ref_dense_create(&channel);
        recur(&channel, &dense, length, dense.db, kernel + (size_t)h * (size_t)length);
        ref_dense_destroy(&dense);
        ref_channel_destroy(&channel);
    }
}

void ref_kernel_from_c_tilde(const struct ref_layer *layer, int length, const double *c_tilde,
                             double *kernel)
{
    for (int h = 0; h < layer->d_model; ++h) {
        struct ref_channel channel = ref_channel_read(layer, h, c_tilde);
        struct ref_dense dense = ref_dense_create(&channel);
        ref_row_to_c(&channel, &dense, length, REF_POWER_BINARY);
        recur(&channel, &dense, length, dense.db, kernel + (size_t)h * (size_t)length);
        ref_dense_destroy(&dense);
        ref_channel_destroy(&channel);
    }
}

void ref_kernel_state(const struct ref_layer *layer, int length, const double *x0,
                      double *kernel_state)
{
    int n = layer->d_state / 2;
    ref_complex *x = ref_allocate((size_t)layer->d_state, sizeof *x);
    for (int h = 0; h < layer->d_model; ++h) {
        struct ref_channel channel = ref_channel_read(layer, h, layer->C);
        struct ref_dense dense = ref_dense_create(&channel);
        ref_read_closed(n, x0 + 2 * (size_t)h * (size_t)n, x);
        ref_dense_step(channel.size, &dense, 0, x);
        recur(&channel, &dense, length, x, kernel_state + (size_t)h * (size_t)length);
        ref_dense_destroy(&dense);
        ref_channel_destroy(&channel);
    }
    free(x);
}

/* K^_k = C~ (I - omega_k dA)^-1 dB, K[l] = 1/L sum over all k of K^_k omega_k^-l. Bins above L/2
 * are conjugates of those below. */
void ref_kernel_frequency(const struct ref_layer *layer, int length, const double *c_tilde,
                          double *kernel)
{
    int size = layer->d_state;
    ref_complex *x = ref_allocate((size_t)size, sizeof *x);
    ref_complex *rhs = ref_allocate((size_t)size, sizeof *rhs);
    ref_complex *omega = ref_allocate((size_t)length, sizeof *omega);
    ref_real *sum = ref_allocate((size_t)length, sizeof *sum);
    ref_check(length >= 1, "kernel length < 1");
    for (int k = 0; k < length; ++k)
        omega[k] = ref_root_of_unity(k, length);
    for (int h = 0; h < layer->d_model; ++h) {
        struct ref_channel channel = ref_channel_read(layer, h, c_tilde);
        for (int i = 0; i < size; ++i)
            rhs[i] = channel.dt[i] * channel.b[i];
        for (int l = 0; l < length; ++l)
            sum[l] = 0;
        for (int k = 0; 2 * k <= length; ++k) {
            int alone = k == 0 || 2 * k == length;
            ref_resolvent(&channel, omega[k], rhs, x);
            ref_complex bin = ref_dot(size, channel.c, x);
            for (int l = 0; l < length; ++l) {
                ref_complex root = omega[(long long)k * l % length];
                sum[l] += (alone ? 1 : 2) * creall(bin * conjl(root));
            }
        }
        for (int l = 0; l < length; ++l)
            kernel[(size_t)h * (size_t)length + (size_t)l] = (double)(sum[l] / length);
        ref_channel_destroy(&channel);
    }
    free(x);
    free(rhs);
    free(omega);
    free(sum);
}

void ref_kernel_long_double(const struct ref_layer *layer, int h, int length, long double *kernel)
{
    struct ref_channel channel = ref_channel_read(layer, h, layer->C);
    struct ref_structured structured = ref_structured_create(&channel);
    ref_complex *x = ref_allocate((size_t)channel.size, sizeof *x);
    for (int l = 0; l < length; ++l) {
        ref_structured_step(&channel, &structured, l == 0, x); /* an impulse at l = 0 */
        kernel[l] = creall(ref_dot(channel.size, channel.c, x));
    }
    free(x);
    ref_structured_destroy(&structured);
    ref_channel_destroy(&channel);
}
