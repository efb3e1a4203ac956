/*
 * From the sums over samples of a channel (sample_sums.h) to the gradients of its effective parameters, added to what the
 * kernel gave, or made of them alone.
 *   Diagonal: dA = p, dB = w B by mode, and their discretisation back to Lambda and dt (diagonal_rules.h).
 *   DPLR: x_t+1 - x_t = dt (A (x_t + x_t+1) / 2 + B u) with Y = sum of left right^T:
 *     gA = dt/2 Y,  gB = dt sum of left u,  g dt_i = (Y A^T / 2 + sum of left u B^T)_ii,  A = Lambda - 2 sum of p p^T.
 *
 * One block per channel; its threads share the modes.
 */
#include "gpu/kernels/diagonal_rules.h"
#include "gpu/kernels/discretise.h"

namespace
{

/* Rows (N), split: as in STATE_SUMS. */
struct channel_sums {
    const double *mode, *input, *along_p, *onto_p, *read_out;
};

__device__ complex_d split_at(const double *split, int64_t modes, int64_t n) { return {split[n], split[modes + n]}; }

__device__ void add_pair(double *pairs, int64_t index, complex_d term)
{
    pairs[2 * index] += term.re;
    pairs[2 * index + 1] += term.im;
}

/* Mode n of a diagonal channel; gives g dt. */
__device__ double finish_diagonal(const gpu_model &m, int64_t h, int64_t n, const channel_sums &sums,
                                  const s4_system_gradient &gradient)
{
    const int64_t modes = m.shape.modes, of_copy = h % m.shape.n_ssm * modes + n;
    const diagonal_mode mode = {double(m.shape.kernel_length), dt_at(m.shape, m.system, h, n),
                                load_complex(m.system.lambda, of_copy)};
    const complex_d g_pole = split_at(sums.mode, modes, n), g_input = split_at(sums.input, modes, n);
    const complex_d g_weight = g_input * conj(load_complex(m.system.b, of_copy));
    const mode_gradient g = chain_of(m.shape.discretisation, mode, g_pole, g_weight);
    add_pair(gradient.b, h * modes + n, g_input * conj(weight_of(m.shape.discretisation, mode)));
    add_pair(gradient.lambda, h * modes + n, g.lambda);
    return g.dt;
}

/* Mode n of a DPLR channel, with its entries of the columns of P: gP = -2 (gA + gA^T) p; gives g dt. */
__device__ double finish_dplr(const gpu_model &m, int64_t h, int64_t n, const channel_sums &sums,
                              const s4_system_gradient &gradient)
{
    const int64_t modes = m.shape.modes, state = 2 * modes, of_copy = h % m.shape.n_ssm * modes + n;
    const double dt = dt_at(m.shape, m.system, h, n);
    const complex_d lambda = load_complex(m.system.lambda, of_copy), b = load_complex(m.system.b, of_copy);
    const complex_d of_mode = split_at(sums.mode, modes, n), of_input = split_at(sums.input, modes, n);
    add_pair(gradient.lambda, h * modes + n, dt / 2 * of_mode);
    add_pair(gradient.b, h * modes + n, dt * of_input);
    double g_dt = 0;
    g_dt += lambda.re * of_mode.re / 2;
    g_dt += lambda.im * of_mode.im / 2;
    g_dt += b.re * of_input.re;
    g_dt += b.im * of_input.im;
    for (int64_t r = 0; r < m.shape.rank; r++) {
        const int64_t at = (r * m.shape.d_model + h) * modes + n;
        const complex_d p = p_at(m.shape, m.system, h, r, n);
        const complex_d along = split_at(sums.along_p + r * state, modes, n);
        const complex_d onto = split_at(sums.onto_p + r * state, modes, n);
        add_pair(gradient.p, at, -dt * along);
        add_pair(gradient.p, at, -1.0 * onto);
        g_dt -= p.re * along.re;
        g_dt -= p.im * along.im;
    }
    return g_dt;
}

__device__ void clear_mode(const s4_shape &s, int64_t h, int64_t n, const s4_system_gradient &gradient)
{
    store_pair(gradient.lambda, h * s.modes + n, {0, 0});
    store_pair(gradient.b, h * s.modes + n, {0, 0});
    for (int64_t r = 0; r < s.rank; r++) store_pair(gradient.p, (r * s.d_model + h) * s.modes + n, {0, 0});
    for (int64_t c = 0; c < s.channels; c++) store_pair(gradient.c, (c * s.d_model + h) * s.modes + n, {0, 0});
    if (s.dt_modes > 1) gradient.dt[h * s.dt_modes + n] = 0;
}

__global__ void __launch_bounds__(gpu_threads, 2)
    k_state_gradients(gpu_model m, gpu_channel_sums of, int anew, s4_system_gradient gradient)
{
    double *shared = reinterpret_cast<double *>(s4_shared);
    const s4_shape &s = m.shape;
    const int64_t modes = s.modes, state = 2 * modes, h = of.channel + blockIdx.x;
    channel_sums sums;
    sums.mode = of.sums + blockIdx.x * of.size;
    sums.input = sums.mode + state;
    sums.along_p = sums.input + state;
    sums.onto_p = sums.along_p + s.rank * state;
    sums.read_out = sums.onto_p + s.rank * state;
    double g_dt = 0;
    for (int64_t n = threadIdx.x; n < modes; n += gpu_threads) {
        if (anew) clear_mode(s, h, n, gradient);
        const double of_mode = s.mode == S4_MODE_DPLR ? finish_dplr(m, h, n, sums, gradient)
                                                      : finish_diagonal(m, h, n, sums, gradient);
        if (s.dt_modes > 1) gradient.dt[h * s.dt_modes + n] += of_mode;
        g_dt += of_mode;
        for (int64_t c = 0; c < s.channels; c++) { /* rows [2 Re C, -2 Im C] -> C */
            const complex_d of_row = split_at(sums.read_out + c * state, modes, n);
            add_pair(gradient.c, (c * s.d_model + h) * modes + n, {2 * of_row.re, -2 * of_row.im});
        }
    }
    g_dt = block_sum(g_dt, shared);
    if (threadIdx.x == 0 && s.dt_modes == 1) gradient.dt[h] = anew ? g_dt : gradient.dt[h] + g_dt;
}

} // namespace

extern "C" cudaError_t gpu_launch_state_gradients(const gpu_model *model, const gpu_channel_sums *sums, int anew,
                                                  const s4_system_gradient *gradient, cudaStream_t stream)
{
    const cudaLaunchConfig_t config = grid_config(sums->channels, 1, gpu_warps * sizeof(double), stream);
    return cudaLaunchKernelEx(&config, k_state_gradients, *model, *sums, anew, *gradient);
}
