/*
 * The read-out C and its set-up form C~, which belongs to a length L and a step dt:
 *   C~_L = C (I - dA^L);   C~_2L = C~_L (I + dA^L);   back: solve C (I - dA^L) = C~_L,
 * and the system of the recurrence. Read-outs are rows [Re C, -Im C] of the real basis, in which y = C x is a product of
 * reals; dA^L is dense. A solve is refused where I - dA^L is singular to working precision:
 *   1 / (max(1, |I - dA^L|) |(I - dA^L)^-1|) < N epsilon in the 1-norm (not under 1: the errors of dA^L are relative to I).
 *
 * One block per channel, its matrices in a lane of scratch: dA and two more, then rows.
 */
#include "gpu/kernels/discretise.h"
#include "gpu/kernels/matrices.h"
#include "gpu/kernels/set_up_lane.h"

namespace
{

/* dA^length at step scale * dt in one of the lane's matrices. */
__device__ double *channel_power(const gpu_model &m, const setup_lane &lane, int64_t h, double scale, int64_t length)
{
    double *shared = reinterpret_cast<double *>(s4_shared);
    const linear_rows linear = discretise(m, h, scale, lane.linear, shared);
    dense_linear(m.shape, linear, lane.matrix[0], 0);
    return matrix_power(int(2 * m.shape.modes), lane.matrix[0], length, lane.matrix[1], lane.matrix[2], shared);
}

/* row <- row + sign * row * matrix. Others may read row after a barrier. */
__device__ void add_product(int64_t state, double sign, const double *matrix, double *row, double *product)
{
    row_times_matrix(state, row, matrix, product);
    for (int64_t i = threadIdx.x; i < state; i += gpu_threads) row[i] += sign * product[i];
}

/* C as it is stored, without what a bandlimit takes out, into [Re C, -Im C]. */
__device__ void load_read_out(const gpu_model &m, const gpu_conversion &cv, int64_t r, int64_t h, double *row)
{
    const int64_t modes = m.shape.modes;
    for (int64_t n = threadIdx.x; n < modes; n += gpu_threads) {
        complex_d c = load_pair(cv.c, (r * m.shape.d_model + h) * modes + n);
        if (is_bandlimited(m, h, n)) c = {0, 0};
        row[n] = c.re;
        row[modes + n] = -c.im;
    }
}

/* [Re C, -Im C] into what is asked for, in place; scratch (N). */
__device__ void store_read_out(const gpu_model &m, const gpu_conversion &cv, int64_t h, double *row, double *scratch)
{
    const int64_t modes = m.shape.modes;
    for (int64_t i = threadIdx.x; i < 2 * modes; i += gpu_threads) {
        if (!is_finite(row[i])) raise_flag(m.flags, GPU_FLAG_OVERFLOW, h, row[i]);
        scratch[i] = row[i];
    }
    __syncthreads();
    for (int64_t n = threadIdx.x; n < modes; n += gpu_threads) {
        if (cv.as_rows) {
            row[n] = 2 * scratch[n];
            row[modes + n] = 2 * scratch[modes + n];
        } else
            store_complex(row, n, {scratch[n], -scratch[modes + n]});
    }
    __syncthreads();
}

enum { undo, twice, set_up, moves };

__global__ void __launch_bounds__(gpu_threads, 2) k_read_out(gpu_model m, gpu_setup_tile t, gpu_conversion cv)
{
    double *shared = reinterpret_cast<double *>(s4_shared);
    const int64_t state = 2 * m.shape.modes, h = t.first + blockIdx.x;
    const setup_lane lane = setup_lane_view(m.shape, t, blockIdx.x);
    double *out = cv.out + h * cv.out_channel;
    for (int64_t r = 0; r < cv.rows; r++) load_read_out(m, cv, r, h, out + r * cv.out_row);
    __syncthreads();
    GPU_ROLLED
    for (int move = 0; move < moves; move++) {
        const int64_t length = move == undo ? cv.undo : move == set_up ? cv.set_up : cv.doublings ? cv.from : 0;
        if (!length) continue;
        double *power = channel_power(m, lane, h, move == set_up ? cv.scale_to : cv.scale_from, length);
        if (move == undo) {
            undo_factor(m, lane, h, power);
            for (int64_t r = 0; r < cv.rows; r++) solve(state, power, lane.pivots, false, out + r * cv.out_row);
            continue;
        }
        double *next = power == lane.matrix[1] ? lane.matrix[2] : lane.matrix[1];
        const int products = move == set_up ? 1 : cv.doublings;
        GPU_ROLLED
        for (int i = 0; i < products; i++) {
            for (int64_t r = 0; r < cv.rows; r++)
                add_product(state, move == set_up ? -1 : 1, power, out + r * cv.out_row, lane.row);
            if (i + 1 == products) break;
            matrix_product(int(state), power, power, next, false, shared);
            double *squared = next;
            next = power;
            power = squared;
        }
    }
    for (int64_t r = 0; r < cv.rows; r++) store_read_out(m, cv, h, out + r * cv.out_row, lane.row);
}

__global__ void __launch_bounds__(gpu_threads, 2) k_step_linear_system(gpu_model m, gpu_setup_tile t, double *base)
{
    const int64_t h = t.first + blockIdx.x;
    discretise(m, h, 1, base + h * t.step_system_size, reinterpret_cast<double *>(s4_shared));
}

__global__ void __launch_bounds__(gpu_threads, 2) k_step_dense_system(gpu_model m, gpu_setup_tile t, double *base)
{
    const int64_t state = 2 * m.shape.modes, h = t.first + blockIdx.x;
    const setup_lane lane = setup_lane_view(m.shape, t, blockIdx.x);
    const linear_rows linear = discretise(m, h, 1, lane.linear, reinterpret_cast<double *>(s4_shared));
    double *dA = base + h * t.step_system_size, *dB = dA + state * state;
    dense_linear(m.shape, linear, dA, 1);
    for (int64_t i = threadIdx.x; i < state; i += gpu_threads) dB[i] = linear.b[i];
}

size_t shared_bytes()
{
    return size_t(matrix_shared > discretise_shared ? matrix_shared : discretise_shared) * sizeof(double);
}

} // namespace

extern "C" cudaError_t gpu_launch_read_out(const gpu_model *model, const gpu_setup_tile *tile,
                                           const gpu_conversion *conversion, cudaStream_t stream)
{
    const cudaLaunchConfig_t config = grid_config(tile->count, 1, shared_bytes(), stream);
    return cudaLaunchKernelEx(&config, k_read_out, *model, *tile, *conversion);
}

extern "C" cudaError_t gpu_launch_step_linear_system(const gpu_model *model, const gpu_setup_tile *tile, double *base,
                                                     cudaStream_t stream)
{
    const cudaLaunchConfig_t config = grid_config(tile->count, 1, shared_bytes(), stream);
    return cudaLaunchKernelEx(&config, k_step_linear_system, *model, *tile, base);
}

extern "C" cudaError_t gpu_launch_step_dense_system(const gpu_model *model, const gpu_setup_tile *tile, double *base,
                                                    cudaStream_t stream)
{
    const cudaLaunchConfig_t config = grid_config(tile->count, 1, shared_bytes(), stream);
    return cudaLaunchKernelEx(&config, k_step_dense_system, *model, *tile, base);
}
