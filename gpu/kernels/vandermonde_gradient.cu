/*
 * Gradients of a diagonal system from the gradients G of its kernels, K[l] = 2 Re sum over n of c_n p_n^l, c = C B w.
 *
 * 1. Sums over the samples, l = m j + i:
 *      moment_n = sum over l of G_l conj(p_n^l) = sum over i of conj(p_n^i) (sum over j of G_(m j + i) conj(p_n^(m j)))
 *      slope_n  = sum over l of l G_l conj(p_n^(l-1)): the same of (l+1) G_(l+1). Log p appears nowhere: p may be 0.
 *    Modes that grow count l from the last sample.
 * 2. Modes: gc = 2 moment, gp = 2 conj(c) slope, gC = conj(B w) gc, gB = conj(C w) gc, gw = conj(C B) gc, then from p
 * and w to Lambda and dt. B, p and w belong to all kernels of the channel: theirs are summed, k rising.
 */
#include "gpu/kernels/vandermonde.h"

namespace
{

constexpr int group = 4;       /* modes that one block sums for, so that G is read once for several */
constexpr int mode_values = 4; /* re, im of moment, then of slope */

/* One block per kernel and group of modes; its threads share the samples. */
__global__ void __launch_bounds__(gpu_threads, 4)
    k_moments(gpu_diagonal_tile t, int64_t groups, const double *__restrict__ gradient)
{
    constexpr int values = group * mode_values;
    double *of_warp = reinterpret_cast<double *>(s4_shared); /* (warps, values) */
    const int64_t row = grid_row(groups), lane = row / t.kernels, k = row % t.kernels, modes = t.system.modes;
    const int64_t first = int64_t(blockIdx.x) % groups * group, of_lane = lane * modes;
    const int present = int(modes - first < group ? modes - first : group);
    const int64_t columns = columns_of_block(t), last = t.length - 1;
    const double *of_row = gradient + row_in_block(t, lane, k) * t.length;
    const bool reversible = t.discretisation == S4_DSS;

    int64_t mode[group]; /* beyond the last, the last once more: summed, never stored */
    bool growing[group];
    double total[values];
    GPU_UNROLL
    for (int g = 0; g < group; g++) {
        const int64_t n = first + (g < present ? g : present - 1);
        mode[g] = of_lane + n;
        growing[g] = is_growing(t.discretisation, system_lambda(t.system, channel_of_lane(t, lane), n));
    }
    GPU_UNROLL
    for (int value = 0; value < values; value++) total[value] = 0;

    for (int64_t i = int64_t(threadIdx.x) % columns; i < t.width; i += columns) {
        double sum[values];
        GPU_UNROLL
        for (int value = 0; value < values; value++) sum[value] = 0;
        GPU_ROLLED
        for (int64_t j = int64_t(threadIdx.x) / columns; j < t.rows; j += gpu_threads / columns) {
            const int64_t l = t.width * j + i;
            if (l > last) break;
            const double weight = double(l + 1);
            const double G = of_row[l], next = l < last ? weight * of_row[l + 1] : 0;
            const double from_end = reversible ? of_row[last - l] : 0;
            const double before = reversible && l < last ? weight * of_row[last - l - 1] : 0;
            GPU_UNROLL
            for (int g = 0; g < group; g++) {
                const complex_d p = load_complex(t.coarse, mode[g] * t.rows + j);
                const double of_moment = growing[g] ? from_end : G, of_slope = growing[g] ? before : next;
                double *of_mode = sum + g * mode_values;
                of_mode[0] += of_moment * p.re;
                of_mode[1] -= of_moment * p.im;
                of_mode[2] += of_slope * p.re;
                of_mode[3] -= of_slope * p.im;
            }
        }
        GPU_UNROLL
        for (int g = 0; g < group; g++) {
            const complex_d p = conj(load_complex(t.fine, mode[g] * t.width + i));
            double *of_mode = total + g * mode_values;
            const double *part = sum + g * mode_values;
            of_mode[0] += part[0] * p.re - part[1] * p.im;
            of_mode[1] += part[0] * p.im + part[1] * p.re;
            of_mode[2] += part[2] * p.re - part[3] * p.im;
            of_mode[3] += part[2] * p.im + part[3] * p.re;
        }
    }

    GPU_UNROLL
    for (int value = 0; value < values; value++) {
        const double of_lanes = warp_sum(total[value]);
        if (threadIdx.x % 32 == 0) of_warp[int(threadIdx.x) / 32 * values + value] = of_lanes;
    }
    __syncthreads();
    for (int i = int(threadIdx.x); i < present * mode_values; i += gpu_threads) {
        double sum = 0;
        for (int warp = 0; warp < gpu_warps; warp++) sum += of_warp[warp * values + i];
        t.moments[(row * modes + first) * mode_values + i] = sum;
    }
}

/* One block per channel; its threads share the modes. */
__global__ void __launch_bounds__(gpu_threads, 4) k_diagonal_gradients(gpu_diagonal_tile t, s4_system_gradient out)
{
    const gpu_system &s = t.system;
    const int64_t lane = int64_t(blockIdx.x), h = channel_of_lane(t, lane);
    double sum_dt = 0;
    for (int64_t n = int64_t(threadIdx.x); n < s.modes; n += gpu_threads) {
        const complex_d b = system_b(s, h, n), weight = load_complex(t.weight, lane * s.modes + n);
        complex_d g_b = {0, 0}, g_pole = {0, 0}, g_weight = {0, 0};
        for (int64_t k = 0; k < t.kernels; k++) {
            const int64_t at = 2 * ((lane * t.kernels + k) * s.modes + n);
            const complex_d c = system_c(s, h, k, n);
            const complex_d g_coefficient = 2.0 * load_complex(t.moments, at);
            const complex_d slope = 2.0 * load_complex(t.moments, at + 1);
            store_complex(out.c, (k * s.d_model + h) * s.modes + n, g_coefficient * conj(b * weight));
            add(g_b, g_coefficient * conj(c * weight));
            add(g_weight, g_coefficient * conj(c * b));
            add(g_pole, slope * conj(c * b * weight));
        }
        const mode_gradient g = chain_of(t.discretisation, mode_of(t, h, n), g_pole, g_weight);
        store_complex(out.b, h * s.modes + n, g_b);
        store_complex(out.lambda, h * s.modes + n, g.lambda);
        if (s.dt_modes == 1)
            sum_dt += g.dt;
        else
            out.dt[h * s.modes + n] = g.dt;
    }
    if (s.dt_modes > 1) return;
    sum_dt = block_sum(sum_dt, reinterpret_cast<double *>(s4_shared));
    if (threadIdx.x == 0) out.dt[h] = sum_dt;
}

} // namespace

extern "C" cudaError_t gpu_launch_moments(const gpu_diagonal_tile *tile, const double *gradient, cudaStream_t stream)
{
    const int64_t groups = (tile->system.modes + group - 1) / group;
    const size_t shared = gpu_warps * group * mode_values * sizeof(double);
    const cudaLaunchConfig_t config = grid_config(tile->count * tile->kernels, groups, shared, stream);
    return cudaLaunchKernelEx(&config, k_moments, *tile, groups, gradient);
}

extern "C" cudaError_t gpu_launch_diagonal_gradients(const gpu_diagonal_tile *tile, const s4_system_gradient *gradient,
                                                     cudaStream_t stream)
{
    const cudaLaunchConfig_t config = grid_config(tile->count, 1, gpu_warps * sizeof(double), stream);
    return cudaLaunchKernelEx(&config, k_diagonal_gradients, *tile, *gradient);
}
