/*
 * The matrices of the chunked state form, channel by channel, made in double and rounded once:
 *   v_t = dA^t dB,  w_c,t = c_c dA^(t+1),  K_c[t] = c_c v_t,  t < tau: by tau steps of O(nR);  X = dA^tau by squares.
 * X is stored less I. Of a diagonal channel X is its poles to the power tau, in double.
 *
 * One block per channel: the first warp steps v, and then all warps take outputs, or samples, by turns.
 */
#include "gpu/kernels/chunk_lane.h"
#include "gpu/kernels/diagonal_rules.h"

namespace
{

/* One channel at work. */
template <typename T> struct chunk_channel {
    int64_t h, state; /* h of all channels; N^ */
    linear_rows linear;
    T *power, *into, *out, *kernel, *power_back, *into_back, *out_back, *kernel_back;
};
template <typename T> __device__ T *part_of(void *part, int64_t offset)
{
    return part ? static_cast<T *>(part) + offset : nullptr;
}

template <typename T>
__device__ chunk_channel<T> open_channel(const gpu_model &m, const gpu_chunk_channels &c, const gpu_chunk_system &s,
                                         const chunk_lane &lane)
{
    const int64_t of_block = c.first + blockIdx.x, offset = of_block * s.channel;
    chunk_channel<T> channel;
    channel.h = c.channel + of_block;
    channel.state = c.state;
    channel.linear = discretise(m, channel.h, 1, lane.linear, reinterpret_cast<double *>(s4_shared));
    channel.power = part_of<T>(s.power, offset);
    channel.into = part_of<T>(s.into, offset);
    channel.out = part_of<T>(s.out, offset);
    channel.kernel = part_of<T>(s.kernel, offset);
    channel.power_back = part_of<T>(s.power_back, offset);
    channel.into_back = part_of<T>(s.into_back, offset);
    channel.out_back = part_of<T>(s.out_back, offset);
    channel.kernel_back = part_of<T>(s.kernel_back, offset);
    return channel;
}

__device__ void check(const gpu_model &m, int64_t h, double value)
{
    if (!is_finite(value)) raise_flag(m.flags, GPU_FLAG_OVERFLOW, h, value);
}

/* M_B from v. What is not finite in it is not in K, either, which is checked. */
template <typename T> __device__ void store_into(const gpu_model &m, const chunk_channel<T> &c, const double *v)
{
    const s4_shape &s = m.shape;
    for (int64_t i = threadIdx.x; i < s.chunk * c.state; i += gpu_threads) {
        const int64_t t = i / c.state, padded = i - t * c.state, row = s.chunk - 1 - t;
        const int64_t at = split_of_padded(s.modes, c.state, padded);
        const double value = at < 0 ? 0 : v[t * 2 * s.modes + at];
        c.into[row * c.state + padded] = T(value);
        if (c.into_back) c.into_back[padded * s.chunk + row] = T(value);
    }
}

/* The kernel of an output, from its read-out and v. By one warp. */
template <typename T>
__device__ void store_kernel(const gpu_model &m, const chunk_channel<T> &c, const double *read_out, const double *v,
                             int64_t output)
{
    const s4_shape &s = m.shape;
    const int64_t at = output * 2 * s.chunk;
    for (int64_t t = 0; t < s.chunk; t++) {
        double k = inner_product(s.modes, read_out, v + t * 2 * s.modes);
        if (t == 0) k += m.system.d[output * s.d_model + c.h];
        if (lane_of_thread() > 0) continue;
        check(m, c.h, k);
        c.kernel[at + t] = 0;
        c.kernel[at + s.chunk + t] = T(k);
        if (!c.kernel_back) continue;
        c.kernel_back[at + s.chunk - 1 - t] = T(k);
        c.kernel_back[at + s.chunk + t] = 0;
    }
}

/* M_C of an output, from its read-out x, which is overwritten. By one warp. */
template <typename T>
__device__ void store_out(const gpu_model &m, const chunk_channel<T> &c, double *x, double *next, int64_t output)
{
    const s4_shape &s = m.shape;
    for (int64_t t = 0; t < s.chunk; t++) {
        step_back(s, c.linear, x, next);
        double *const made = next;
        next = x;
        x = made;
        __syncwarp(); /* the row */
        for (int64_t i = lane_of_thread(); i < c.state; i += 32) {
            const int64_t at = split_of_padded(s.modes, c.state, i);
            const double value = at < 0 ? 0 : x[at];
            check(m, c.h, value);
            c.out[(output * c.state + i) * s.chunk + t] = T(value);
            if (c.out_back) c.out_back[(output * s.chunk + t) * c.state + i] = T(value);
        }
    }
    __syncwarp(); /* the last row has been read; others are overwritten a step later */
}

/* X - I, by columns and by rows, of a DPLR channel. */
template <typename T>
__device__ void store_matrix(const gpu_model &m, const chunk_channel<T> &c, const chunk_lane &lane)
{
    const s4_shape &s = m.shape;
    const int64_t state = 2 * s.modes, square = state * state;
    double *dA = lane.matrices;
    dense_linear(s, c.linear, dA, 0);
    const double *power = matrix_power(int(state), dA, s.chunk, dA + square, dA + 2 * square,
                                       reinterpret_cast<double *>(s4_shared));
    for (int64_t i = threadIdx.x; i < c.state * c.state; i += gpu_threads) {
        const int64_t row = i / c.state, column = i - row * c.state;
        const int64_t of_row = split_of_padded(s.modes, c.state, row);
        const int64_t of_column = split_of_padded(s.modes, c.state, column);
        double value = of_row < 0 || of_column < 0 ? 0 : power[of_row * state + of_column];
        if (row == column && of_row >= 0) value -= 1;
        check(m, c.h, value);
        c.power[column * c.state + row] = T(value);
        if (c.power_back) c.power_back[row * c.state + column] = T(value);
    }
}

/* The same of a diagonal channel: poles^tau; back, their conjugates. */
template <typename T> __device__ void store_poles(const gpu_model &m, const chunk_channel<T> &c)
{
    const s4_shape &s = m.shape;
    const int64_t half = c.state / 2;
    double *to = reinterpret_cast<double *>(c.power), *back = reinterpret_cast<double *>(c.power_back);
    for (int64_t n = threadIdx.x; n < half; n += gpu_threads) {
        complex_d pole = {0, 0};
        if (n < s.modes) {
            const diagonal_mode mode = {double(s.kernel_length), dt_at(s, m.system, c.h, n),
                                        load_complex(m.system.lambda, c.h % s.n_ssm * s.modes + n)};
            pole = power(pole_of(s.discretisation, mode), s.chunk);
        }
        check(m, c.h, pole.re + pole.im); /* finite only where both are */
        put_split(to, half, n, pole);
        if (back) put_split(back, half, n, conj(pole));
    }
}

template <typename T>
__global__ void __launch_bounds__(gpu_threads, 2)
    k_chunk_matrices(gpu_model m, gpu_chunk_channels channels, gpu_chunk_system system)
{
    const s4_shape &s = m.shape;
    const int warp = int(threadIdx.x) / 32;
    const chunk_lane lane = chunk_lane_view(s, channels);
    const chunk_channel<T> c = open_channel<T>(m, channels, system, lane);
    if (warp == 0) step_inputs(s, c.linear, lane.v);
    __syncthreads(); /* v */
    store_into(m, c, lane.v);
    double *x = lane.w + warp * 2 * c.state; /* each warp its own */
    for (int64_t output = warp; output < s.channels; output += gpu_warps) {
        load_read_out(m, c.h, output, x);
        store_kernel(m, c, x, lane.v, output);
        store_out(m, c, x, x + c.state, output);
    }
    if (s.mode == S4_MODE_DPLR)
        store_matrix(m, c, lane);
    else
        store_poles(m, c);
}

} // namespace

extern "C" cudaError_t gpu_launch_chunk_matrices(const gpu_model *model, const gpu_chunk_channels *channels,
                                                 const gpu_chunk_system *system, cudaStream_t stream)
{
    constexpr int shared = discretise_shared > matrix_shared ? discretise_shared : matrix_shared;
    const cudaLaunchConfig_t config = grid_config(channels->count, 1, shared * sizeof(double), stream);
    return model->shape.dtype == S4_F64 ? cudaLaunchKernelEx(&config, k_chunk_matrices<double>, *model, *channels, *system)
                                        : cudaLaunchKernelEx(&config, k_chunk_matrices<float>, *model, *channels, *system);
}
