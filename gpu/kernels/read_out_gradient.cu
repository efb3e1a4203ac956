/*
 * From the gradient of plain C to that of the leaf C~ = C (I - X), X = dA^L, of a DPLR channel. Rows of the real basis;
 * g is the gradient of rows c, solved for in c (I - X) = c~:
 *   gc~ = g (I - X)^-T;   gX = sum over outputs of c^T gc~;
 *   g dA = sum over i < L of (dA^i)^T gX (dA^(L-1-i))^T.
 * The last is, transposed, the derivative of the power L at dA in the direction gX^T. So it is found as dA^L is, by
 * squares and products of pairs (Q, D) of a power and its derivative:
 *   square: D <- Q D + D Q, Q <- Q Q;   times dA: D <- D dA + Q gX^T, Q <- Q dA.
 * What it gives is added to the sums over samples (power_gradient.h).
 *
 * One block per channel, its matrices in a lane of scratch.
 */
#include "gpu/kernels/power_gradient.h"

namespace
{

/* Sums of one channel, whose read_out is the gradient of the leaf, and the read-outs of its recurrence. */
struct channel_sums {
    sample_sums sums;
    const double *read_outs; /* (M,N) */
};

/* Q and D of a power of dA, and one of scratch; which is which changes on the way. */
struct power_pair {
    double *power, *derivative, *next;
};

__device__ void exchange(double *&a, double *&b)
{
    double *const was = a;
    a = b;
    b = was;
}

/* sum += Q gX^T, by outputs. The product that follows begins with a barrier; so it is with what is written below. */
__device__ void add_direction(const gpu_model &m, const channel_sums &of, const double *power, double *sum)
{
    const int64_t state = 2 * m.shape.modes;
    for (int64_t i = threadIdx.x / 32; i < state; i += gpu_warps)
        for (int64_t c = 0; c < m.shape.channels; c++) {
            double part = 0;
            for (int64_t k = threadIdx.x % 32; k < state; k += 32)
                part += power[i * state + k] * of.sums.read_out[c * state + k];
            for (int distance = 16; distance > 0; distance /= 2)
                part += __shfl_xor_sync(0xffffffffu, part, distance);
            for (int64_t j = threadIdx.x % 32; j < state; j += 32)
                sum[i * state + j] += part * of.read_outs[c * state + j];
        }
}

/* pair.derivative <- the transpose of g dA. */
__device__ void differentiate_power(const gpu_model &m, const channel_sums &of, const double *dA, power_pair &pair)
{
    double *shared = reinterpret_cast<double *>(s4_shared);
    const int64_t state = 2 * m.shape.modes, length = m.shape.kernel_length;
    for (int64_t i = threadIdx.x; i < state * state; i += gpu_threads) {
        double sum = 0;
        for (int64_t c = 0; c < m.shape.channels; c++)
            sum += of.sums.read_out[c * state + i / state] * of.read_outs[c * state + i % state];
        pair.derivative[i] = sum;
        pair.power[i] = dA[i];
    }
    int bit = 0;
    while (length >> (bit + 1)) bit++;
    while (bit-- > 0)
        for (int by_dA = 0; by_dA <= int(length >> bit & 1); by_dA++) {
            /* D Q + Q D, or D dA + Q gX^T; then Q Q, or Q dA */
            GPU_ROLLED
            for (int step = 0; step < 3; step++) {
                if (step == 1 && by_dA) {
                    add_direction(m, of, pair.power, pair.next);
                } else {
                    const double *left = step == 0 ? pair.derivative : pair.power;
                    const double *right = step == 1 ? pair.derivative : by_dA ? dA : pair.power;
                    matrix_product(int(state), left, right, pair.next, step == 1, shared);
                }
                if (step == 1) {
                    /* Q is needed as it was: the new D goes where Q's square will not */
                    exchange(pair.derivative, pair.next);
                }
            }
            exchange(pair.power, pair.next);
        }
}

__global__ void __launch_bounds__(gpu_threads, 2)
    k_read_out_gradient(gpu_model m, gpu_setup_tile t, int64_t row_count, const double *step_systems, double *sums)
{
    double *shared = reinterpret_cast<double *>(s4_shared);
    const s4_shape &s = m.shape;
    const int64_t state = 2 * s.modes, h = t.first + blockIdx.x;
    const setup_lane lane = setup_lane_view(s, t, blockIdx.x);
    const double *step_system = step_systems + h * t.step_system_size;
    channel_sums of;
    of.sums = sample_sums_view(s, sums + h * row_count * state);
    of.read_outs = step_system + (2 + 2 * s.rank) * state;
    double any = 0;
    for (int64_t i = threadIdx.x; i < s.channels * state; i += gpu_threads) any += of.sums.read_out[i] != 0;
    if (sum_for_all(any, shared) == 0) return; /* the leaf need not be plain C then */

    double *dA = lane.matrix[0];
    const linear_rows linear = linear_view(s.modes, s.rank, const_cast<double *>(step_system));
    dense_linear(s, linear, dA, 0);
    double *power = matrix_power(int(state), dA, s.kernel_length, lane.matrix[1], lane.matrix[2], shared);
    if (power == dA) {
        power = lane.matrix[1];
        dense_linear(s, linear, power, 0);
    }
    undo_factor(m, lane, h, power);
    for (int64_t c = 0; c < s.channels; c++) solve(state, power, lane.pivots, true, of.sums.read_out + c * state);

    power_pair pair = {lane.matrix[1], lane.matrix[2], lane.matrix[3]};
    differentiate_power(m, of, dA, pair);
    double *const rows[3] = {lane.row, lane.other, lane.signs};
    add_gradient_of_dA(m, h, dA, pair.derivative, pair.next, pair.power, rows, of.sums);
}

} // namespace

extern "C" cudaError_t gpu_launch_read_out_gradient(const gpu_model *model, const gpu_setup_tile *tile,
                                                    int64_t row_count, const double *step_system, double *sums,
                                                    cudaStream_t stream)
{
    const cudaLaunchConfig_t config = grid_config(tile->count, 1, matrix_shared * sizeof(double), stream);
    return cudaLaunchKernelEx(&config, k_read_out_gradient, *model, *tile, row_count, step_system, sums);
}
