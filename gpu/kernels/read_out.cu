/*
 * The read-out C and its set-up form C~, which belongs to a length L and a step dt:
 *   C~_L = C (I - dA^L);   C~_2L = C~_L (I + dA^L);   back: solve C (I - dA^L) = C~_L.
 * Read-outs are rows [Re C, -Im C] of the real basis, in which y = C x is a product of reals; one power of a channel
 * serves the rows of all its kernels. A solve is refused where I - dA^L is singular to working precision:
 *   1 / (max(1, |I - dA^L|) |(I - dA^L)^-1|) < N epsilon in the 1-norm (not under 1: dA^L has errors relative to I).
 *
 * A power of dA is one by displacement (structured_power.h), in rows of scratch. What needs matrices, of which there
 * are few lanes, is done by a second kernel: a solve, and channels too many of whose eigenvalues nearly coincide.
 */
#include "gpu/kernels/set_up_lane.h"

namespace
{

/* C as it is stored, without what a bandlimit takes out, into [Re C, -Im C]. A thread has own modes of the rows until
 * others may read them, after a barrier. */
__device__ void load_read_outs(const gpu_model &m, const gpu_conversion &cv, int64_t h, double *rows)
{
    const int64_t modes = m.shape.modes;
    GPU_ROLLED
    for (int64_t r = 0; r < cv.rows; r++) GPU_ROLLED
    for (int64_t n = threadIdx.x; n < modes; n += gpu_threads) {
        complex_d c = load_pair(cv.c, (r * m.shape.d_model + h) * modes + n);
        if (is_bandlimited(m, h, n)) c = {0, 0};
        put_split(rows + r * cv.out_row, modes, n, conj(c));
    }
}

/* [Re C, -Im C] into what is asked for, in place; scratch (N). */
__device__ void store_read_outs(const gpu_model &m, const gpu_conversion &cv, int64_t h, double *rows, double *scratch)
{
    const int64_t modes = m.shape.modes;
    GPU_ROLLED
    for (int64_t r = 0; r < cv.rows; r++) {
        double *row = rows + r * cv.out_row;
        GPU_ROLLED
        for (int64_t n = threadIdx.x; n < modes; n += gpu_threads) {
            if (!is_finite(row[n])) raise_flag(m.flags, GPU_FLAG_OVERFLOW, h, row[n]);
            if (!is_finite(row[modes + n])) raise_flag(m.flags, GPU_FLAG_OVERFLOW, h, row[modes + n]);
            put_split(scratch, modes, n, {row[n], row[modes + n]});
        }
        __syncthreads(); /* the row has been read */
        GPU_ROLLED
        for (int64_t n = threadIdx.x; n < modes; n += gpu_threads) {
            if (cv.as_rows)
                put_split(row, modes, n, {2 * scratch[n], 2 * scratch[modes + n]});
            else
                store_complex(row, n, {scratch[n], -scratch[modes + n]});
        }
    }
}

enum { undo, twice, set_up, moves };

/* The length of dA's power that a move takes, 0: it is not made; and the step that it belongs to. */
__device__ int64_t length_of_move(const gpu_conversion &cv, int move)
{
    return move == undo ? cv.undo : move == set_up ? cv.set_up : cv.doublings ? cv.from : 0;
}
__device__ double scale_of_move(const gpu_conversion &cv, int move)
{
    return move == set_up ? cv.scale_to : cv.scale_from;
}
__device__ double sign_of_move(int move) { return move == set_up ? -1 : 1; }
__device__ int products_of_move(const gpu_conversion &cv, int move) { return move == set_up ? 1 : cv.doublings; }

/* ---- by displacement --------------------------------------------------------------------------------------------- */

/* Doubling or set-up, of a power that has been raised. */
template <int R>
__device__ void add_products(const gpu_conversion &cv, int move, structured_power &power, double *rows)
{
    const int products = products_of_move(cv, move);
    GPU_ROLLED
    for (int i = 0; i < products; i++) {
        if (i > 0) square<R>(power);
        GPU_ROLLED
        for (int64_t r = 0; r < cv.rows; r++) add_row_times<R>(power, sign_of_move(move), rows + r * cv.out_row);
    }
}

/* Channels that need matrices are marked, and left. */
template <int R>
__global__ void __launch_bounds__(gpu_threads, 2) k_read_out(gpu_model m, gpu_setup_tile t, gpu_conversion cv)
{
    double *shared = reinterpret_cast<double *>(s4_shared);
    const int64_t h = t.first + blockIdx.x;
    const setup_lane lane = setup_lane_view(m.shape, t, blockIdx.x);
    double *rows = cv.out + h * cv.out_channel;
    load_read_outs(m, cv, h, rows);
    if (cv.doublings || cv.set_up) {
        structured_power power = structured_power_view(m.shape, lane);
        const bool is_marked = !open_displacement<R>(m, power, h);
        if (threadIdx.x == 0) t.marks[h] = is_marked;
        if (is_marked) return;
        GPU_ROLLED
        for (int move = twice; move < moves; move++) {
            const int64_t length = length_of_move(cv, move);
            if (!length) continue;
            const linear_rows linear = discretise(m, h, scale_of_move(cv, move), lane.linear, shared);
            raise_power<R>(power, linear, length, shared);
            add_products<R>(cv, move, power, rows);
        }
    }
    store_read_outs(m, cv, h, rows, lane.row);
}

/* ---- by matrices ------------------------------------------------------------------------------------------------- */

/* row <- row + sign * row * matrix, for the rows of all kernels. */
__device__ void add_dense_products(const gpu_model &m, const gpu_conversion &cv, double sign, const double *matrix,
                                   double *rows, double *product)
{
    const int64_t state = 2 * m.shape.modes;
    GPU_ROLLED
    for (int64_t r = 0; r < cv.rows; r++) {
        double *row = rows + r * cv.out_row;
        row_times_matrix(state, row, matrix, product);
        GPU_ROLLED
        for (int64_t i = threadIdx.x; i < state; i += gpu_threads) row[i] += sign * product[i];
    }
    __syncthreads(); /* the rows */
}

/* Doubling or set-up by a dense power, which is in one of the lane's matrices. */
__device__ void add_products_of_matrix(const gpu_model &m, const gpu_conversion &cv, int move, const setup_lane &lane,
                                       double *power, double *rows)
{
    double *next = power == lane.matrix[1] ? lane.matrix[2] : lane.matrix[1];
    const int products = products_of_move(cv, move);
    GPU_ROLLED
    for (int i = 0; i < products; i++) {
        if (i > 0) {
            matrix_product(int(2 * m.shape.modes), power, power, next, false, reinterpret_cast<double *>(s4_shared));
            double *squared = next;
            next = power;
            power = squared;
        }
        add_dense_products(m, cv, sign_of_move(move), power, rows, lane.row);
    }
}

template <int R>
__device__ void convert_by_matrices(const gpu_model &m, const gpu_conversion &cv, const setup_lane &lane, int64_t h)
{
    double *shared = reinterpret_cast<double *>(s4_shared), *rows = cv.out + h * cv.out_channel;
    const int64_t state = 2 * m.shape.modes;
    structured_power power = structured_power_view(m.shape, lane);
    load_read_outs(m, cv, h, rows);
    const bool is_dense = !open_displacement<R>(m, power, h);
    GPU_ROLLED
    for (int move = undo; move < moves; move++) {
        const int64_t length = length_of_move(cv, move);
        if (!length) continue;
        double *matrix = lane.matrix[0];
        const linear_rows linear = discretise(m, h, scale_of_move(cv, move), lane.linear, shared);
        if (is_dense) {
            dense_linear(m.shape, linear, matrix, 0);
            matrix = matrix_power(int(state), matrix, length, lane.matrix[1], lane.matrix[2], shared);
        } else
            raise_power<R>(power, linear, length, shared);
        if (move == undo) {
            if (!is_dense) put_matrix<R>(power, matrix);
            __syncthreads(); /* the matrix */
            undo_factor(m, lane, h, matrix);
            GPU_ROLLED
            for (int64_t r = 0; r < cv.rows; r++) solve(state, matrix, lane.pivots, false, rows + r * cv.out_row);
        } else if (is_dense)
            add_products_of_matrix(m, cv, move, lane, matrix, rows);
        else
            add_products<R>(cv, move, power, rows);
    }
    store_read_outs(m, cv, h, rows, lane.row);
}

/* Channels that are marked, or all where there is something to undo, block by block in turn. */
template <int R>
__global__ void __launch_bounds__(gpu_threads, 2)
    k_read_out_by_matrices(gpu_model m, gpu_setup_tile t, gpu_conversion cv)
{
    const setup_lane lane = setup_lane_view(m.shape, t, blockIdx.x);
    unsigned turn = 0;
    GPU_ROLLED
    for (int64_t h = 0; h < m.shape.d_model; h++) {
        if (!cv.undo && t.marks[h] != 1) continue;
        if (turn == blockIdx.x) convert_by_matrices<R>(m, cv, lane, h);
        turn = turn + 1 < gridDim.x ? turn + 1 : 0;
    }
}

constexpr int structured_or_linear = discretise_shared > structured_shared ? discretise_shared : structured_shared;
static_assert(matrix_shared >= structured_or_linear, "matrices need most");

} // namespace

extern "C" cudaError_t gpu_launch_read_out(const gpu_model *model, const gpu_setup_tile *tile,
                                           const gpu_conversion *conversion, cudaStream_t stream)
{
    const cudaLaunchConfig_t config = grid_config(tile->count, 1, structured_or_linear * sizeof(double), stream);
    switch (model->shape.rank) {
    case 0: /* diagonal: nothing is converted */
    case 1:
        return cudaLaunchKernelEx(&config, k_read_out<1>, *model, *tile, *conversion);
    case 2:
        return cudaLaunchKernelEx(&config, k_read_out<2>, *model, *tile, *conversion);
    case 3:
        return cudaLaunchKernelEx(&config, k_read_out<3>, *model, *tile, *conversion);
    case 4:
        return cudaLaunchKernelEx(&config, k_read_out<4>, *model, *tile, *conversion);
    default:
        return cudaErrorInvalidValue;
    }
}

extern "C" cudaError_t gpu_launch_read_out_by_matrices(const gpu_model *model, const gpu_setup_tile *tile,
                                                       const gpu_conversion *conversion, cudaStream_t stream)
{
    const cudaLaunchConfig_t config = grid_config(tile->count, 1, matrix_shared * sizeof(double), stream);
    switch (model->shape.rank) {
    case 1:
        return cudaLaunchKernelEx(&config, k_read_out_by_matrices<1>, *model, *tile, *conversion);
    case 2:
        return cudaLaunchKernelEx(&config, k_read_out_by_matrices<2>, *model, *tile, *conversion);
    case 3:
        return cudaLaunchKernelEx(&config, k_read_out_by_matrices<3>, *model, *tile, *conversion);
    case 4:
        return cudaLaunchKernelEx(&config, k_read_out_by_matrices<4>, *model, *tile, *conversion);
    default:
        return cudaErrorInvalidValue;
    }
}
