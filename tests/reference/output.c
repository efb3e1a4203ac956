/* The layer's output by direct causal convolution and by plain recurrence (maths: "Convolution",
 * "State"). */
#include <stdlib.h>

#include "reference_internal.h"

void ref_convolve(int batch, int d_model, int input_length, int kernel_length, const double *kernel,
                  const double *u, const double *skip, double *y)
{
    for (int b = 0; b < batch; ++b)
        for (int h = 0; h < d_model; ++h) {
            size_t row = (size_t)(b * d_model + h) * (size_t)input_length;
            const double *k = kernel + (size_t)h * (size_t)kernel_length;
            for (int t = 0; t < input_length; ++t) {
                ref_real sum = skip ? (ref_real)skip[h] * u[row + (size_t)t] : 0;
                for (int s = 0; s <= t; ++s)
                    if (t - s < kernel_length)
                        sum += (ref_real)k[t - s] * u[row + (size_t)s];
                y[row + (size_t)t] = (double)sum;
            }
        }
}

void ref_recurrence(const struct ref_layer *layer, int batch, int input_length, const double *u,
                    const double *state_in, double *y, double *state_out)
{
    int n = layer->d_state / 2, size = layer->d_state;
    ref_complex *x = ref_allocate((size_t)size, sizeof *x);
    for (int h = 0; h < layer->d_model; ++h) {
        struct ref_channel channel = ref_channel_read(layer, h, layer->C);
        struct ref_dense dense = ref_dense_create(&channel);
        ref_real skip = layer->D ? layer->D[h] : 0;
        for (int b = 0; b < batch; ++b) {
            size_t series = (size_t)(b * layer->d_model + h);
            size_t row = series * (size_t)input_length, state = 2 * series * (size_t)n;
            for (int i = 0; i < size; ++i)
                x[i] = 0;
            if (state_in)
                ref_read_closed(n, state_in + state, x);
            for (int t = 0; t < input_length; ++t) {
                ref_real input = u[row + (size_t)t];
                ref_dense_step(size, &dense, input, x);
                y[row + (size_t)t] = (double)(creall(ref_dot(size, channel.c, x)) + skip * input);
            }
            if (state_out)
                ref_write_complex((size_t)n, x, state_out + state);
        }
        ref_dense_destroy(&dense);
        ref_channel_destroy(&channel);
    }
    free(x);
}
