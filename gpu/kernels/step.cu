/*
 * The recurrence x <- dA x + dB u[t], y_c[t] = 2 Re C_c x + D_c u[t] (state first, then output, so K[0] = C dB), by what
 * STEP_SYSTEM holds: linear, O(nR) a sample; dense, O(N^2); or diagonal, O(N), in eigenvectors of dA. States are double
 * whatever the dtype of u and y.
 *
 * One warp per row takes all samples of a call one after another; its state is in shared memory where it fits.
 */
#include "gpu/kernels/recurrence.h"

namespace
{

/* A row at work: x and next (N) each. */
template <typename T> struct step_row {
    recurrence_row row;
    int64_t modes, state;
    const double *system, *d;
    const T *u;
    T *y;
    double *x, *next;
};

template <typename T> __device__ step_row<T> open_row(const gpu_recurrence &r)
{
    step_row<T> s;
    s.row = row_of_warp(r);
    s.modes = r.shape.modes;
    s.state = 2 * s.modes;
    s.system = system_of_row(r, s.row);
    s.d = r.d + s.row.h;
    s.u = row_of_tensor<T>(r, s.row, r.u, r.u_strides);
    s.y = row_of_tensor<T>(r, s.row, r.y, r.y_strides);
    s.x = state_of_warp(r, s.row);
    s.next = s.x + s.state;
    return s;
}

/* All outputs of sample t; y may be u, of which this sample has been read by all lanes. */
template <typename T>
__device__ void put_outputs(const gpu_recurrence &r, const step_row<T> &s, const double *read_outs, int64_t t, double u)
{
    for (int64_t c = 0; c < r.shape.channels; c++) {
        const double y = inner_product(s.modes, read_outs + c * s.state, s.x) + s.d[c * r.shape.d_model] * u;
        if (lane_of_thread() == 0) s.y[c * r.y_strides.output + t * r.y_strides.time] = T(y);
    }
}

template <typename T> __global__ void __launch_bounds__(gpu_threads) k_step_linear(gpu_recurrence r)
{
    const step_row<T> s = open_row<T>(r);
    if (!s.row.exists) return;
    const linear_rows linear = linear_of_row(r, s.row);
    const double *read_outs = s.system + (2 + 2 * r.shape.rank) * s.state;
    load_state(r, s.row, r.state_in, s.x);
    for (int64_t t = 0; t < length_of_row(r, s.row); t++) {
        const double u = double(s.u[t * r.u_strides.time]);
        advance(r.shape, linear, u, s.x, s.x);
        put_outputs(r, s, read_outs, t, u);
    }
    if (r.state_out) store_state(r, s.row, s.x, r.state_out);
}

/* next = matrix x of a matrix stored by columns. All of x is read: a barrier of the warp must stand before. */
template <typename T> __device__ void multiply(const step_row<T> &s, const double *columns)
{
    for (int64_t m = lane_of_thread(); m < s.state; m += 32) {
        double sum = 0;
        for (int64_t k = 0; k < s.state; k++) sum += columns[k * s.state + m] * s.x[k];
        s.next[m] = sum;
    }
}
template <typename T> __device__ void exchange(step_row<T> &s)
{
    double *const made = s.next;
    s.next = s.x;
    s.x = made;
    __syncwarp();
}

template <typename T> __global__ void __launch_bounds__(gpu_threads) k_step_dense(gpu_recurrence r)
{
    step_row<T> s = open_row<T>(r);
    if (!s.row.exists) return;
    const double *dB = s.system + s.state * s.state, *read_outs = dB + s.state;
    load_state(r, s.row, r.state_in, s.x);
    __syncwarp();
    for (int64_t t = 0; t < length_of_row(r, s.row); t++) {
        const double u = double(s.u[t * r.u_strides.time]);
        multiply(s, s.system);
        for (int64_t m = lane_of_thread(); m < s.state; m += 32) s.next[m] += dB[m] * u;
        exchange(s);
        put_outputs(r, s, read_outs, t, u);
    }
    if (r.state_out) store_state(r, s.row, s.x, r.state_out);
}

/* In eigenvectors: pairs (j, n + j) by the block [r s; -|s| r]. */
template <typename T> __global__ void __launch_bounds__(gpu_threads) k_step_diagonal(gpu_recurrence r)
{
    step_row<T> s = open_row<T>(r);
    if (!s.row.exists) return;
    const double *vectors = s.system, *inverse_vectors = vectors + s.state * s.state;
    const double *real = inverse_vectors + s.state * s.state, *imag = real + s.modes, *b = imag + s.modes;
    const double *read_outs = b + s.state;
    load_state(r, s.row, r.state_in, s.x);
    __syncwarp();
    multiply(s, inverse_vectors);
    exchange(s);
    for (int64_t t = 0; t < length_of_row(r, s.row); t++) {
        const double u = double(s.u[t * r.u_strides.time]);
        for (int64_t j = lane_of_thread(); j < s.modes; j += 32) {
            const double first = s.x[j], second = s.x[s.modes + j];
            s.x[j] = real[j] * first + imag[j] * second + b[j] * u;
            s.x[s.modes + j] = real[j] * second - fabs(imag[j]) * first + b[s.modes + j] * u;
        }
        put_outputs(r, s, read_outs, t, u);
    }
    if (!r.state_out) return;
    __syncwarp();
    multiply(s, vectors);
    exchange(s);
    store_state(r, s.row, s.x, r.state_out);
}

template <typename T> cudaError_t launch(const gpu_recurrence &r, cudaStream_t stream)
{
    const cudaLaunchConfig_t config = warps_config(r, stream);
    if (r.shape.mode == S4_MODE_DIAG || r.shape.step_mode == S4_STEP_LINEAR)
        return cudaLaunchKernelEx(&config, k_step_linear<T>, r);
    if (r.shape.step_mode == S4_STEP_DENSE) return cudaLaunchKernelEx(&config, k_step_dense<T>, r);
    return cudaLaunchKernelEx(&config, k_step_diagonal<T>, r);
}

} // namespace

extern "C" cudaError_t gpu_launch_step(const gpu_recurrence *recurrence, cudaStream_t stream)
{
    return recurrence->shape.dtype == S4_F64 ? launch<double>(*recurrence, stream)
                                             : launch<float>(*recurrence, stream);
}
