/*
 * From the gradients of a channel's chunk matrices to sums as steps give them (sample_sums.h), in double. With
 *   v_t = dA v_t-1, v_0 = dB;   w_t = w_t-1 dA, w_-1 = c;   K[t] = c v_t;   row tau-1-t of M_B is v_t, column t of M_C
 * is w_t, adjoints of v go back in time, those of w forward, and every step adds to the sums. X = dA^tau: its gradient,
 * transposed, back through the squares, E <- X_i E + E X_i for X_i = dA^(2^i), i descending, ends as the transpose of
 * dA's; of a diagonal channel g dA = tau conj(dA^(tau-1)) gX.
 *
 * One block per channel; its first warp takes the steps.
 */
#include "gpu/kernels/chunk_lane.h"
#include "gpu/kernels/diagonal_rules.h"
#include "gpu/kernels/power_gradient.h"

namespace
{

/* One channel at work. */
struct gradient_channel {
    int64_t h, state; /* of all channels; N^ */
    linear_rows linear;
    double *kernel;
    const double *out, *into, *power;
    sample_sums sums;
};

/* Adds a padded row whose elements are `step` apart to a split one. By one warp. */
__device__ void add_padded(const s4_shape &s, int64_t half, const double *padded, int64_t step, double *sum)
{
    for (int64_t n = lane_of_thread(); n < s.modes; n += 32) {
        sum[n] += padded[n * step];
        sum[s.modes + n] += padded[(half + n) * step];
    }
}

__device__ void clear_row(const s4_shape &s, double *row)
{
    for (int64_t n = lane_of_thread(); n < s.modes; n += 32) put_split(row, s.modes, n, {0, 0});
}

__device__ void exchange_row(double *&a, double *&b)
{
    double *const was = a;
    a = b;
    b = was;
}

/* The gradients of K, from the sums U^T G, into their first rows; and what they give to the read-outs. v is
 * read behind a barrier. */
__device__ void collect_kernel(const s4_shape &s, const gradient_channel &c, const double *v)
{
    const int64_t state = 2 * s.modes, chunk = s.chunk;
    for (int64_t i = threadIdx.x; i < s.channels * chunk; i += gpu_threads) {
        const int64_t output = i / chunk, t = i - output * chunk;
        double *of_output = c.kernel + output * chunk * chunk, sum = of_output[t];
        for (int64_t row = 1; row < chunk - t; row++) sum += of_output[row * chunk + row + t];
        of_output[t] = sum;
    }
    __syncthreads(); /* the gradients of K, and v */
    for (int64_t i = threadIdx.x; i < s.channels * state; i += gpu_threads) {
        const int64_t output = i / state, n = i - output * state;
        double sum = 0;
        for (int64_t t = 0; t < chunk; t++) sum += c.kernel[output * chunk * chunk + t] * v[t * state + n];
        c.sums.read_out[i] += sum;
    }
    __syncthreads(); /* the sums */
}

/* What M_B and K give to v and so to dA and dB. By one warp. */
__device__ void go_back_through_v(const gpu_model &m, const gradient_channel &c, const chunk_lane &lane)
{
    const s4_shape &s = m.shape;
    const int64_t modes = s.modes, state = 2 * modes, chunk = s.chunk;
    double *adjoint = lane.row[0], *before = lane.row[1], *zero = lane.row[2];
    clear_row(s, adjoint);
    clear_row(s, zero);
    for (int64_t t = chunk - 1; t >= 0; t--) {
        add_padded(s, c.state / 2, c.into + (chunk - 1 - t) * c.state, 1, adjoint);
        for (int64_t output = 0; output < s.channels; output++) {
            const double g = c.kernel[output * chunk * chunk + t];
            for (int64_t n = lane_of_thread(); n < modes; n += 32) {
                const complex_d read_out = load_complex(m.system.c, (output * s.d_model + c.h) * modes + n);
                adjoint[n] += g * 2 * read_out.re;
                adjoint[modes + n] -= g * 2 * read_out.im;
            }
        }
        step_back(s, c.linear, adjoint, before);
        const double *v = lane.v + t * state;
        const sample_step step = {adjoint, before, t > 0 ? v - state : zero, v};
        add_sample(s, m.system, c.h, c.sums, step, t == 0);
        exchange_row(adjoint, before);
    }
}

/* What M_C of an output gives to w and so to dA and c. By one warp. */
__device__ void go_on_through_w(const gpu_model &m, const gradient_channel &c, const chunk_lane &lane, int64_t output)
{
    const s4_shape &s = m.shape;
    const int64_t modes = s.modes, state = 2 * modes, chunk = s.chunk;
    double *adjoint = lane.row[0], *next = lane.row[1], *read_out = lane.row[3];
    const double *gradient = c.out + output * c.state * chunk;
    load_read_out(m, c.h, output, read_out);
    for (int64_t t = 0; t < chunk; t++)
        step_back(s, c.linear, t > 0 ? lane.w + (t - 1) * state : read_out, lane.w + t * state);
    clear_row(s, adjoint);
    for (int64_t t = chunk - 1; t >= 0; t--) {
        add_padded(s, c.state / 2, gradient + t, chunk, adjoint);
        advance(s, c.linear, 0, adjoint, next);
        const double *w = lane.w + t * state;
        const sample_step step = {t > 0 ? w - state : read_out, w, adjoint, next};
        add_sample(s, m.system, c.h, c.sums, step, 0);
        exchange_row(adjoint, next);
    }
    double *sum = c.sums.read_out + output * state;
    for (int64_t n = lane_of_thread(); n < modes; n += 32) {
        sum[n] += adjoint[n];
        sum[modes + n] += adjoint[modes + n];
    }
}

/* What a dense X gives to dA. */
__device__ void go_back_through_squares(const gpu_model &m, const gradient_channel &c, const chunk_lane &lane)
{
    const s4_shape &s = m.shape;
    const int64_t state = 2 * s.modes, square = state * state;
    double *shared = reinterpret_cast<double *>(s4_shared);
    double *of_power = lane.matrices, *next = of_power + square, *powers = next + square;
    int squares = 0;
    while (s.chunk >> (squares + 1)) squares++;
    dense_linear(s, c.linear, powers, 0);
    GPU_ROLLED
    for (int i = 1; i < squares; i++) {
        const double *power = powers + (i - 1) * square;
        matrix_product(int(state), power, power, powers + i * square, false, shared);
    }
    for (int64_t i = threadIdx.x; i < square; i += gpu_threads)
        of_power[i] = c.power[padded_of_split(s.modes, c.state, i % state) * c.state +
                              padded_of_split(s.modes, c.state, i / state)];
    GPU_ROLLED
    for (int i = squares - 1; i >= 0; i--) {
        const double *power = powers + i * square;
        matrix_product(int(state), power, of_power, next, false, shared);
        matrix_product(int(state), of_power, power, next, true, shared);
        exchange_row(of_power, next);
    }
    add_gradient_of_dA(m, c.h, powers, of_power, next, powers + square, lane.row, c.sums);
}

/* What poles^tau give to the poles. */
__device__ void go_back_through_poles(const gpu_model &m, const gradient_channel &c)
{
    const s4_shape &s = m.shape;
    const int64_t half = c.state / 2;
    for (int64_t n = threadIdx.x; n < s.modes; n += gpu_threads) {
        const diagonal_mode mode = {double(s.kernel_length), dt_at(s, m.system, c.h, n),
                                    load_complex(m.system.lambda, c.h % s.n_ssm * s.modes + n)};
        const complex_d slope = double(s.chunk) * power(pole_of(s.discretisation, mode), s.chunk - 1);
        const complex_d of_pole = complex_d{c.power[n], c.power[half + n]} * conj(slope);
        c.sums.mode[n] += of_pole.re;
        c.sums.mode[s.modes + n] += of_pole.im;
    }
}

__global__ void __launch_bounds__(gpu_threads, 2)
    k_chunk_gradient(gpu_model m, gpu_chunk_channels channels, gpu_chunk_gradients of)
{
    const s4_shape &s = m.shape;
    const int64_t of_block = channels.first + blockIdx.x, offset = of_block * of.channel;
    const chunk_lane lane = chunk_lane_view(s, channels);
    gradient_channel c;
    c.h = channels.channel + of_block;
    c.state = channels.state;
    c.linear = discretise(m, c.h, 1, lane.linear, reinterpret_cast<double *>(s4_shared));
    c.kernel = of.kernel + offset;
    c.out = of.out + offset;
    c.into = of.into + offset;
    c.power = of.power + offset;
    c.sums = sample_sums_view(s, of.ends + offset);
    if (threadIdx.x < 32) step_inputs(s, c.linear, lane.v);
    collect_kernel(s, c, lane.v);
    if (threadIdx.x < 32) {
        go_back_through_v(m, c, lane);
        for (int64_t output = 0; output < s.channels; output++) go_on_through_w(m, c, lane, output);
    }
    __syncthreads(); /* the sums */
    if (!of.wants_system) return;
    if (s.mode == S4_MODE_DPLR)
        go_back_through_squares(m, c, lane);
    else
        go_back_through_poles(m, c);
}

} // namespace

extern "C" cudaError_t gpu_launch_chunk_gradient(const gpu_model *model, const gpu_chunk_channels *channels,
                                                 const gpu_chunk_gradients *sums, cudaStream_t stream)
{
    constexpr int shared = discretise_shared > matrix_shared ? discretise_shared : matrix_shared;
    const cudaLaunchConfig_t config = grid_config(channels->count, 1, shared * sizeof(double), stream);
    return cudaLaunchKernelEx(&config, k_chunk_gradient, *model, *channels, *sums);
}
