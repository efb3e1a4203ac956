/*
 * Kernels of a diagonal system:  K[l] = 2 Re sum over n of c_n p_n^l,  c_n = C_n B_n w_n,  l = m j + i:
 *
 *   K[m j + i] = 2 Re sum over n of (c_n p_n^(m j)) p_n^i,
 *
 * a product of two small matrices for every kernel. Modes of dss that grow count their samples from the last: their
 * sums are made first, in reverse order, and the others are added to them.
 */
#include "gpu/kernels/vandermonde.h"

namespace
{

/* One thread per mode of a channel and power: the fine ones, then the coarse ones. */
__global__ void __launch_bounds__(gpu_threads) k_powers(gpu_diagonal_tile t, int64_t parts)
{
    const int64_t row = grid_row(parts), e = grid_element(parts), modes = t.system.modes;
    const int64_t h = channel_of_lane(t, row / modes), n = row % modes;
    if (e >= t.width + t.rows) return;
    const diagonal_mode mode = mode_of(t, h, n);
    const diagonal_pole pole = pole_of(t.discretisation, mode);
    if (e < t.width)
        store_complex(t.fine, row * t.width + e, power(pole, e));
    else
        store_complex(t.coarse, row * t.rows + e - t.width, power(pole, (e - t.width) * t.width));
    if (e == 0) store_complex(t.weight, row, weight_of(t.discretisation, mode));
}

constexpr int rows_of_thread = 8;
constexpr int rows_of_block_max = 32;
constexpr int product_chunk = 32; /* modes staged at a time */

/* Rows j of a block. Its threads are columns times groups of rows; where columns are few, not all groups work. */
static inline __host__ __device__ int rows_of_block(int64_t columns)
{
    const int64_t rows = rows_of_thread * (gpu_threads / columns);
    return int(rows < rows_of_block_max ? rows : rows_of_block_max);
}

/* Stages c_n p_n^(m j) of modes [first, first + count) and rows [first_row, first_row + rows), and for each mode
 * whether it takes part: 0 if it belongs to the other order of samples, or if its c is 0, whatever its powers are. All
 * threads take part, a barrier must follow. */
static inline __device__ void stage_factors(const gpu_diagonal_tile &t, int64_t lane, int64_t k, bool growing,
                                            int64_t first, int count, int64_t first_row, int rows, double2 *factors,
                                            double *takes_part)
{
    const int64_t h = channel_of_lane(t, lane);
    for (int i = int(threadIdx.x); i < count * rows; i += gpu_threads) {
        const int mode = i / rows, row = i % rows;
        const int64_t n = first + mode, j = first_row + row, at = lane * t.system.modes + n;
        const complex_d c = system_c(t.system, h, k, n) * system_b(t.system, h, n) * load_complex(t.weight, at);
        complex_d factor = {0, 0};
        if (j < t.rows) factor = c * load_complex(t.coarse, at * t.rows + j);
        factors[i] = make_double2(factor.re, factor.im);
        if (row > 0) continue;
        const bool in_order = is_growing(t.discretisation, system_lambda(t.system, h, n)) == growing;
        takes_part[mode] = in_order && (c.re != 0 || c.im != 0);
    }
}

/* A block: rows and columns of one kernel. A thread: one column, and rows that follow each other. `kernel` gets the
 * sums of the modes that do not grow and what is there of the others; without it, `growing` gets theirs. */
template <typename T>
__global__ void __launch_bounds__(gpu_threads, 4)
    k_product(gpu_diagonal_tile t, int64_t row_parts, int64_t column_parts, T *__restrict__ kernel)
{
    const int64_t columns = columns_of_block(t);
    const int rows = rows_of_block(columns);
    double2 *factors = reinterpret_cast<double2 *>(s4_shared); /* (modes, rows) */
    double *takes_part = reinterpret_cast<double *>(factors + product_chunk * rows);
    const int64_t part = int64_t(blockIdx.x) % (row_parts * column_parts);
    const int64_t lane = int64_t(blockIdx.x) / (row_parts * column_parts) / t.kernels;
    const int64_t k = int64_t(blockIdx.x) / (row_parts * column_parts) % t.kernels;
    const int64_t i = part % column_parts * columns + int64_t(threadIdx.x) % columns;
    const int64_t first_row = part / column_parts * rows;
    const int row = int(threadIdx.x / columns) * rows_of_thread; /* the thread's first */
    const bool works = row < rows;

    double sums[rows_of_thread];
    GPU_UNROLL
    for (int v = 0; v < rows_of_thread; v++) sums[v] = 0;
    for (int64_t first = 0; first < t.system.modes; first += product_chunk) {
        const int count = int(t.system.modes - first < product_chunk ? t.system.modes - first : product_chunk);
        if (first > 0) __syncthreads(); /* the previous modes have been read */
        stage_factors(t, lane, k, !kernel, first, count, first_row, rows, factors, takes_part);
        __syncthreads();
        for (int mode = 0; works && mode < count; mode++) {
            if (takes_part[mode] == 0) continue;
            const complex_d fine = load_complex(t.fine, (lane * t.system.modes + first + mode) * t.width + i);
            GPU_UNROLL
            for (int v = 0; v < rows_of_thread; v++) {
                const double2 factor = factors[mode * rows + row + v];
                sums[v] += factor.x * fine.re;
                sums[v] -= factor.y * fine.im;
            }
        }
    }
    if (!works) return;

    double *growing = t.growing + (lane * t.kernels + k) * t.length;
    GPU_UNROLL
    for (int v = 0; v < rows_of_thread; v++) {
        const int64_t l = (first_row + row + v) * t.width + i;
        if (l >= t.length) continue;
        if (!kernel) {
            growing[t.length - 1 - l] = sums[v];
            continue;
        }
        const double sum = t.discretisation == S4_DSS ? growing[l] + sums[v] : sums[v];
        kernel[row_in_block(t, lane, k) * t.length + l] = T(2 * sum);
        if (!is_finite(sum)) report_index(t.bad_index, (channel_of_lane(t, lane) * t.kernels + k) * t.length + l);
    }
}

template <typename T> cudaError_t launch_product(const gpu_diagonal_tile &t, T *kernel, cudaStream_t stream)
{
    const int64_t columns = t.width < gpu_threads ? t.width : gpu_threads, rows = rows_of_block(columns);
    const int64_t column_parts = t.width / columns, row_parts = (t.rows + rows - 1) / rows;
    const size_t shared = product_chunk * (rows * sizeof(double2) + sizeof(double));
    const cudaLaunchConfig_t config = grid_config(t.count * t.kernels, row_parts * column_parts, shared, stream);
    return cudaLaunchKernelEx(&config, k_product<T>, t, row_parts, column_parts, kernel);
}

} // namespace

extern "C" cudaError_t gpu_launch_powers(const gpu_diagonal_tile *tile, cudaStream_t stream)
{
    const int64_t parts = grid_parts(tile->width + tile->rows);
    const cudaLaunchConfig_t config = grid_config(tile->count * tile->system.modes, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_powers, *tile, parts);
}

extern "C" cudaError_t gpu_launch_growing_product(const gpu_diagonal_tile *tile, cudaStream_t stream)
{
    return launch_product<double>(*tile, nullptr, stream);
}

extern "C" cudaError_t gpu_launch_product(const gpu_diagonal_tile *tile, s4_dtype dtype, void *kernel,
                                          cudaStream_t stream)
{
    return dtype == S4_F64 ? launch_product(*tile, static_cast<double *>(kernel), stream)
                           : launch_product(*tile, static_cast<float *>(kernel), stream);
}
