/* The loss of one channel as a function of its effective parameters, straight from the definitions:
 *   sum_l gK[l] K[l] + sum_b sum_l G[b][l] K_state[b][l] + Re sum conj(g_state_out) x_T,
 * gK[l] = sum_b sum_t G[b][t] u[b][t-l]. K and K_state come from a recurrence with C, or, for the
 * leaf C~, from C = C~ (I - dA^L)^-1 (dense) or from the generating function (structured), where
 *   sum_l g[l] K[l] = 1/L sum_k Re(K^_k g^_k),  g^_k = sum_l g[l] omega_k^-l. */
#include <stdlib.h>

#include "reference_internal.h"

/* out[k] = sum_l g[l] omega^(-k l), k = 0 ... L/2, directly. */
static void correlate_with_roots(int length, const ref_real *g, const ref_complex *omega,
                                 ref_complex *out)
{
    for (int k = 0; 2 * k <= length; ++k) {
        out[k] = 0;
        for (int l = 0; l < length; ++l)
            out[k] += g[l] * conjl(omega[(long long)k * l % length]);
    }
}

static const double *series(const double *x, int d_model, int length, int b, int h)
{
    return x + (size_t)(b * d_model + h) * (size_t)length;
}

static void transform_weights(struct ref_channel_loss *cl)
{
    const struct ref_loss *loss = cl->loss;
    int length = loss->kernel_length, bins = length / 2 + 1;
    ref_complex *omega = ref_allocate((size_t)length, sizeof *omega);
    ref_real *weight = ref_allocate((size_t)length, sizeof *weight);
    for (int k = 0; k < length; ++k)
        omega[k] = ref_root_of_unity(k, length);
    correlate_with_roots(length, cl->g_kernel, omega, cl->g_kernel_dft);
    for (int b = 0; cl->state_in && b < loss->batch; ++b) {
        const double *g = series(loss->G, cl->d_model, loss->input_length, b, cl->h);
        for (int l = 0; l < length; ++l)
            weight[l] = l < loss->input_length ? g[l] : 0;
        correlate_with_roots(length, weight, omega, cl->g_state_dft + b * bins);
    }
    free(weight);
    free(omega);
}

struct ref_channel_loss ref_channel_loss_create(const struct ref_loss *loss, int d_model, int n,
                                                int h)
{
    int length = loss->kernel_length, bins = length / 2 + 1;
    struct ref_channel_loss cl = {.loss = loss, .d_model = d_model, .h = h};
    ref_check(length >= 1 && loss->batch >= 0 && loss->input_length >= 0, "sizes of the loss");
    ref_check(loss->leaf == REF_LEAF_C || loss->c_tilde, "the leaf C~ is missing");
    cl.g_kernel = ref_allocate((size_t)length, sizeof *cl.g_kernel);
    cl.g_kernel_dft = ref_allocate((size_t)bins, sizeof *cl.g_kernel_dft);
    cl.g_state_dft = ref_allocate((size_t)(loss->batch * bins), sizeof *cl.g_state_dft);
    if (loss->state_in)
        cl.state_in = ref_allocate((size_t)(loss->batch * 2 * n), sizeof *cl.state_in);
    if (loss->g_state_out)
        cl.g_state_out = ref_allocate((size_t)(loss->batch * n), sizeof *cl.g_state_out);
    for (int b = 0; b < loss->batch; ++b) {
        const double *u = series(loss->u, d_model, loss->input_length, b, h);
        const double *g = series(loss->G, d_model, loss->input_length, b, h);
        for (int l = 0; l < length; ++l)
            for (int t = l; t < loss->input_length; ++t)
                cl.g_kernel[l] += (ref_real)g[t] * u[t - l];
        if (cl.state_in)
            ref_read_closed(n, series(loss->state_in, d_model, 2 * n, b, h),
                            cl.state_in + b * 2 * n);
        for (int i = 0; cl.g_state_out && i < n; ++i) {
            const double *out = series(loss->g_state_out, d_model, 2 * n, b, h);
            cl.g_state_out[b * n + i] = (ref_real)out[2 * i] + I * (ref_real)out[2 * i + 1];
        }
    }
    if (loss->leaf == REF_LEAF_C_TILDE && loss->route == REF_ROUTE_STRUCTURED)
        transform_weights(&cl);
    return cl;
}

void ref_channel_loss_destroy(struct ref_channel_loss *cl)
{
    free(cl->g_kernel);
    free(cl->g_kernel_dft);
    free(cl->g_state_dft);
    free(cl->state_in);
    free(cl->g_state_out);
}

/* dA by either route; exactly one of the two is filled. */
struct stepper {
    const struct ref_channel *channel;
    struct ref_dense *dense;
    struct ref_structured *structured;
};

static void step(const struct stepper *stepper, ref_real u, ref_complex *x)
{
    if (stepper->dense)
        ref_dense_step(stepper->channel->size, stepper->dense, u, x);
    else
        ref_structured_step(stepper->channel, stepper->structured, u, x);
}

/* The terms in y, by recurrence with plain C; x: (N) work. */
static ref_real output_terms(const struct ref_channel_loss *cl, const struct stepper *stepper,
                             ref_complex *x)
{
    const struct ref_loss *loss = cl->loss;
    const struct ref_channel *channel = stepper->channel;
    int length = loss->kernel_length, size = channel->size;
    ref_real sum = 0;
    for (int i = 0; i < size; ++i)
        x[i] = 0;
    for (int l = 0; l < length; ++l) {
        step(stepper, l == 0, x);
        sum += cl->g_kernel[l] * creall(ref_dot(size, channel->c, x));
    }
    for (int b = 0; cl->state_in && b < loss->batch; ++b) {
        const double *g = series(loss->G, cl->d_model, loss->input_length, b, cl->h);
        for (int i = 0; i < size; ++i)
            x[i] = cl->state_in[b * size + i];
        for (int l = 0; l < length && l < loss->input_length; ++l) {
            step(stepper, 0, x);
            sum += g[l] * creall(ref_dot(size, channel->c, x));
        }
    }
    return sum;
}

/* The same terms from C~, frequency by frequency. */
static ref_real output_terms_frequency(const struct ref_channel_loss *cl,
                                       const struct ref_channel *channel, ref_complex *x)
{
    const struct ref_loss *loss = cl->loss;
    int length = loss->kernel_length, bins = length / 2 + 1, size = channel->size;
    int batch = cl->state_in ? loss->batch : 0;
    ref_complex *rhs = ref_allocate((size_t)((batch + 1) * size), sizeof *rhs);
    ref_real sum = 0;
    for (int i = 0; i < size; ++i)
        rhs[i] = channel->dt[i] * channel->b[i];
    for (int b = 0; b < batch; ++b) {
        const ref_complex *x0 = cl->state_in + b * size;
        ref_complex *row = rhs + (b + 1) * size;
        ref_apply_dt_a(channel, x0, row);
        for (int i = 0; i < size; ++i)
            row[i] = x0[i] + row[i] / 2;
    }
    for (int k = 0; k < bins; ++k) {
        int times = k == 0 || 2 * k == length ? 1 : 2;
        ref_complex omega = ref_root_of_unity(k, length);
        for (int b = 0; b <= batch; ++b) {
            ref_complex g = b == 0 ? cl->g_kernel_dft[k] : cl->g_state_dft[(b - 1) * bins + k];
            ref_resolvent(channel, omega, rhs + b * size, x);
            sum += times * creall(ref_dot(size, channel->c, x) * g);
        }
    }
    free(rhs);
    return sum / length;
}

static ref_real final_state_terms(const struct ref_channel_loss *cl, const struct stepper *stepper,
                                  ref_complex *x)
{
    const struct ref_loss *loss = cl->loss;
    int n = stepper->channel->n, size = stepper->channel->size;
    ref_real sum = 0;
    for (int b = 0; cl->g_state_out && b < loss->batch; ++b) {
        const double *u = series(loss->u, cl->d_model, loss->input_length, b, cl->h);
        for (int i = 0; i < size; ++i)
            x[i] = cl->state_in ? cl->state_in[b * size + i] : 0;
        for (int t = 0; t < loss->input_length; ++t)
            step(stepper, u[t], x);
        for (int i = 0; i < n; ++i)
            sum += creall(conjl(cl->g_state_out[b * n + i]) * x[i]);
    }
    return sum;
}

ref_real ref_channel_loss_value(const struct ref_channel_loss *cl,
                                const struct ref_channel *channel)
{
    int size = channel->size, tilde = cl->loss->leaf == REF_LEAF_C_TILDE;
    ref_complex *x = ref_allocate((size_t)size, sizeof *x);
    ref_real sum;
    if (cl->loss->route == REF_ROUTE_DENSE) {
        struct ref_dense dense = ref_dense_create(channel);
        struct ref_channel plain = *channel;
        ref_complex *row = ref_allocate((size_t)size, sizeof *row);
        for (int i = 0; i < size; ++i)
            row[i] = channel->c[i];
        plain.c = row;
        if (tilde)
            ref_row_to_c(&plain, &dense, cl->loss->kernel_length, REF_POWER_BINARY);
        struct stepper stepper = {.channel = &plain, .dense = &dense};
        sum = output_terms(cl, &stepper, x) + final_state_terms(cl, &stepper, x);
        free(row);
        ref_dense_destroy(&dense);
    } else {
        struct ref_structured structured = ref_structured_create(channel);
        struct stepper stepper = {.channel = channel, .structured = &structured};
        sum = tilde ? output_terms_frequency(cl, channel, x) : output_terms(cl, &stepper, x);
        sum += final_state_terms(cl, &stepper, x);
        ref_structured_destroy(&structured);
    }
    free(x);
    return sum;
}
