/*
 * Gradients of the effective parameters from dL/dK, in double; steps 2 and 3 in the type T of the sums.
 *
 * 1. irfft:     gK^_k = (c_k / L) rfft(dL/dK)_k,  c_k = 1 at k = 0 and at Nyquist of an even L, else 2.
 * 2. Woodbury:  g = e^{-i theta} gK^,  M = (I + c sigma_11)^-1,  x = M sigma_10,  y = sigma_01 M:
 *                 g_00 = g,  g_01 = -c g conj(x),  g_10 = -c conj(y) g,  g_11 = c^2 conj(y) g conj(x).
 * 3. Cauchy:    with 1/den = r, num = 4iS p - 2c q and a = conj(g_bc) r, the differential of a sum is
 *                 Re(a dnum) - Re(a num r dden),
 *               whose dependence on the mode leaves four kinds of sums over the frequencies:
 *                 X_bc = sum c Re a,  Y_bc = sum S Im a,  U = sum c^2 Re z,  V = sum S c Im z,
 *                 z = r^2 sum over (b,c) of conj(g_bc) num_bc.
 * 4. Mode:      g_Re v = -2 Re w X - 4 Y,  g_Im v = -2 Im w X,
 *               g_Re w = -2 sum Re v X - 2 Re w U - 4 V,  g_Im w = -2 sum Im v X - 2 Im w U,
 *               gb = dt sum_c conj(c) gv,  gc = dt sum_b conj(b) gv,  gLambda = dt gw,
 *               gdt = Re sum (conj(Lambda) gw + sum_bc conj(b c) gv);  P takes its own row and conj of Q's.
 */
#include "gpu/kernels/cauchy.h"

namespace
{

__global__ void __launch_bounds__(gpu_threads)
    k_gradient_load(gpu_kernel_tile t, int64_t parts, int64_t stride, const double *__restrict__ gradient)
{
    const int64_t lane = grid_row(parts), j = grid_element(parts);
    if (j >= stride) return;
    const bool carries_data = lane < t.count && j < t.length;
    t.rows[lane * stride + j] = carries_data ? gradient[row_in_block(t, lane) * t.length + j] : 0;
}

/* Complex numbers per kernel and frequency from step 2 to step 3. */
template <int R> constexpr int factors = 1 + 2 * R;

/* Steps 1 and 2: one thread per kernel and frequency. The gradients of the sums are products of few numbers,
 * g_bc = (g y'_b) x'_c with y' = (1, -c conj(y)) and x' = (1, -c conj(x)): what is kept. */
template <typename T, int R>
__global__ void __launch_bounds__(gpu_threads, 2)
    k_kernel_adjoint(gpu_kernel_tile t, int64_t parts, int64_t stride, complex_of<T> *__restrict__ adjoint)
{
    const int64_t lane = grid_row(parts), k = grid_element(parts), frequencies = t.length / 2 + 1;
    const rounded_angle<T> a = round_angle<T>(frequency_angle(k < frequencies ? k : 0, t.length));
    cauchy_sums<T, R> sums;
    sum_over_modes(t.system, row_of_lane(t, lane), a, sums);
    if (k >= frequencies) return;

    const double weight = (k == 0 || 2 * k == t.length ? 1 : 2) / double(t.length);
    const complex_in<T> phase = {a.cosine, -a.sine};
    const complex_in<T> g = phase * complex_cast<T>(weight * load_complex(t.rows + lane * stride, k));

    complex_in<T> x[R], y[R];
    GPU_UNROLL
    for (int r = 0; r < R; r++) {
        x[r] = sums.sigma[1 + r][0];
        y[r] = sums.sigma[0][1 + r];
    }
    solve_woodbury<false>(sums, a.cosine, x);
    solve_woodbury<true>(sums, a.cosine, y);

    const int64_t pair_stride = stride / 2;
    complex_of<T> *out = adjoint + lane * factors<R> * pair_stride + k;
    out[0] = complex_value<T>(g.re, g.im);
    GPU_UNROLL
    for (int r = 0; r < R; r++) {
        const complex_in<T> g_10 = -a.cosine * (g * conj(y[r]));
        const complex_in<T> of_x = -a.cosine * conj(x[r]);
        out[(1 + r) * pair_stride] = complex_value<T>(g_10.re, g_10.im);
        out[(1 + R + r) * pair_stride] = complex_value<T>(of_x.re, of_x.im);
    }
}

/* Modes that one block sums for, so that an adjoint is read once for several; bounded by registers. */
template <typename T, int R> constexpr int group = R == 1 ? 2 : 1;
template <> constexpr int group<float, 1> = 4;
template <> constexpr int group<float, 2> = 2;
/* Blocks that a multiprocessor can hold: so many registers are left to each. */
template <typename T, int R> constexpr int blocks = R <= 2 ? 4 : R == 3 ? 3 : 2;
template <int R> constexpr int blocks<float, R> = 4;
/* X, Y of all pairs, then U, V. */
template <int R> constexpr int mode_sums = 2 * pairs<R> + 2;

/* Frequencies of a span: what a thread has of them is added up in T, and spans in double. In double there is one. */
template <typename T> constexpr int64_t span = INT64_MAX / 2;
template <> constexpr int64_t span<float> = 128 * gpu_threads;

/* Of the frequency `step` beyond that of `a`. */
static inline __device__ angle turned(angle a, angle step)
{
    return {a.sine * step.cosine + a.cosine * step.sine, a.cosine * step.cosine - a.sine * step.sine};
}

static inline __device__ void add_span(double &total, double of_span, int64_t begin)
{
    total = begin == 0 ? of_span : total + of_span;
}

/* Step 3: one block per kernel and group of modes; its threads share the frequencies. */
template <typename T, int R>
__global__ void __launch_bounds__(gpu_threads, blocks<T, R>)
    k_mode_sums(gpu_kernel_tile t, int64_t groups, int64_t stride, const T *__restrict__ adjoint,
                double *__restrict__ terms)
{
    constexpr int modes = group<T, R>, values = modes * mode_sums<R>;
    staged_mode<T, R> *stage = reinterpret_cast<staged_mode<T, R> *>(s4_shared);
    double *of_warp = reinterpret_cast<double *>(stage + modes); /* (warps, values) */
    const int64_t lane = grid_row(groups), first = int64_t(blockIdx.x) % groups * modes;
    const int64_t frequencies = t.length / 2 + 1, pair_stride = stride / 2;
    const int present = int(t.system.modes - first < modes ? t.system.modes - first : modes);

    for (int m = present + int(threadIdx.x); m < modes; m += gpu_threads)
        stage[m] = {1, 1, {}}; /* beyond the last: summed, never stored */
    stage_modes(t.system, row_of_lane(t, lane), first, present, stage);
    __syncthreads();

    const T *adjoint_of_lane = adjoint + lane * factors<R> * stride;
    double *mine = of_warp + int(threadIdx.x) / 32 * values;
    const bool writes = threadIdx.x % 32 == 0;
    const angle step = frequency_angle(gpu_threads, t.length);
    GPU_ROLLED
    for (int64_t begin = 0; begin < frequencies; begin += span<T>) {
        T sum_x[modes][pairs<R>], sum_y[modes][pairs<R>], sum_u[modes], sum_v[modes];
        GPU_UNROLL
        for (int m = 0; m < modes; m++) {
            sum_u[m] = sum_v[m] = 0;
            GPU_UNROLL
            for (int pair = 0; pair < pairs<R>; pair++) sum_x[m][pair] = sum_y[m][pair] = 0;
        }

        const int64_t end = frequencies - begin < span<T> ? frequencies : begin + span<T>;
        angle exact = {0, 1};
        GPU_ROLLED
        for (int64_t k = begin + int64_t(threadIdx.x); k < end; k += gpu_threads) {
            /* A sine in double takes as long as sums in single precision: there the angle is turned on. */
            const bool turns = sizeof(T) < sizeof(double) && k >= begin + gpu_threads;
            exact = turns ? turned(exact, step) : frequency_angle(k, t.length);
            const rounded_angle<T> a = round_angle<T>(exact);
            /* What is staged is read at every frequency rather than held in registers, which are needed for sums. */
            asm volatile("" ::: "memory");
            complex_in<T> r[modes], z[modes];
            GPU_UNROLL
            for (int m = 0; m < modes; m++) {
                r[m] = staged_inverse(stage[m], a);
                z[m] = {0, 0};
            }
            GPU_UNROLL
            for (int pair = 0; pair < pairs<R>; pair++) {
                const int b = pair / (1 + R), c = pair % (1 + R);
                complex_in<T> g = load_complex(adjoint_of_lane, b * pair_stride + k);
                if (c > 0) g = g * load_complex(adjoint_of_lane, (R + c) * pair_stride + k);
                const complex_in<T> even = (-2 * a.cosine) * g, odd = (4 * a.sine) * g;
                GPU_UNROLL
                for (int m = 0; m < modes; m++) {
                    const T *of_pair = stage[m].factors + 2 * pair;
                    const T p = of_pair[0], q = of_pair[1];
                    sum_x[m][pair] += even.re * r[m].re + even.im * r[m].im;
                    sum_y[m][pair] += odd.re * r[m].im - odd.im * r[m].re;
                    z[m].re += even.re * q + odd.im * p;
                    z[m].im += odd.re * p - even.im * q;
                }
            }
            GPU_UNROLL
            for (int m = 0; m < modes; m++) {
                z[m] = r[m] * (r[m] * z[m]);
                sum_u[m] += a.cosine * a.cosine * z[m].re;
                sum_v[m] += a.sine * a.cosine * z[m].im;
            }
        }

        GPU_UNROLL
        for (int m = 0; m < modes; m++) {
            double *of_mode = mine + m * mode_sums<R>;
            GPU_UNROLL
            for (int pair = 0; pair < pairs<R>; pair++) {
                const double x = warp_sum(sum_x[m][pair]), y = warp_sum(sum_y[m][pair]);
                /* what the loop multiplied with is -2 c g and 4 S g */
                if (writes) add_span(of_mode[pair], -0.5 * x, begin);
                if (writes) add_span(of_mode[pairs<R> + pair], 0.25 * y, begin);
            }
            const double u = warp_sum(sum_u[m]), v = warp_sum(sum_v[m]);
            if (writes) add_span(of_mode[2 * pairs<R>], u, begin);
            if (writes) add_span(of_mode[2 * pairs<R> + 1], v, begin);
        }
    }
    __syncthreads();
    for (int i = int(threadIdx.x); i < present * mode_sums<R>; i += gpu_threads) {
        double sum = 0;
        for (int warp = 0; warp < gpu_warps; warp++) sum += of_warp[warp * values + i];
        terms[(lane * t.system.modes + first) * mode_sums<R> + i] = sum;
    }
}

/* Writes, or adds to what an earlier kernel of the channel wrote. */
static inline __device__ void deposit(double *pairs, int64_t index, complex_d z, bool adds)
{
    if (adds) add(z, load_complex(pairs, index));
    store_complex(pairs, index, z);
}
static inline __device__ void deposit(double *numbers, int64_t index, double x, bool adds)
{
    numbers[index] = adds ? numbers[index] + x : x;
}

/* Step 4: one block per channel; its threads share the modes. */
template <int R>
__global__ void __launch_bounds__(gpu_threads, R <= 2 ? 4 : 2)
    k_mode_gradients(gpu_kernel_tile t, const double *__restrict__ terms, s4_system_gradient out)
{
    const gpu_system &s = t.system;
    const int64_t place = t.first / t.kernels + int64_t(blockIdx.x), h = t.channel + place;
    const int64_t from = place * t.kernels - t.first; /* lane of kernel 0, which may belong to an earlier tile */
    const int64_t end = from + t.kernels < t.count ? from + t.kernels : t.count;
    for (int64_t lane = from > 0 ? from : 0; lane < end; lane++) {
        const kernel_row of = {h, lane - from};
        const bool adds = of.k > 0;
        double sum_dt = 0;
        for (int64_t n = int64_t(threadIdx.x); n < s.modes; n += gpu_threads) {
            const double *sum_x = terms + (lane * s.modes + n) * mode_sums<R>;
            const double *sum_y = sum_x + pairs<R>;
            const double sum_u = sum_y[pairs<R>], sum_v = sum_y[pairs<R> + 1];
            const double dt = system_dt(s, h, n);
            const complex_d lambda = system_lambda(s, h, n), w = dt * lambda;
            const complex_d c_tilde = column_entry(s, of, n, 0);
            complex_d g_c_tilde = {0, 0}, row[1 + R], g_row[1 + R];
            GPU_UNROLL
            for (int i = 0; i <= R; i++) {
                row[i] = row_entry(s, of, n, i);
                g_row[i] = {0, 0};
            }
            complex_d g_w = {0, 0};
            g_w.re -= 2 * w.re * sum_u;
            g_w.re -= 4 * sum_v;
            g_w.im -= 2 * w.im * sum_u;
            double g_dt = 0;
            GPU_UNROLL
            for (int b = 0; b <= R; b++) GPU_UNROLL
            for (int c = 0; c <= R; c++) {
                const double x = sum_x[b * (1 + R) + c], y = sum_y[b * (1 + R) + c];
                const complex_d column = c == 0 ? c_tilde : conj(row[c]), bc = row[b] * column, v = dt * bc;
                complex_d g_v = {0, 0};
                g_v.re -= 2 * w.re * x;
                g_v.re -= 4 * y;
                g_v.im -= 2 * w.im * x;
                g_w.re -= 2 * v.re * x;
                g_w.im -= 2 * v.im * x;
                const complex_d g_column = dt * (conj(row[b]) * g_v);
                add(g_row[b], dt * (conj(column) * g_v));
                if (c == 0)
                    add(g_c_tilde, g_column);
                else
                    add(g_row[c], conj(g_column));
                g_dt += (conj(bc) * g_v).re;
            }
            g_dt += (conj(lambda) * g_w).re;
            store_complex(out.c, (of.k * s.d_model + h) * s.modes + n, g_c_tilde);
            deposit(out.lambda, h * s.modes + n, dt * g_w, adds);
            deposit(out.b, h * s.modes + n, g_row[0], adds);
            GPU_UNROLL
            for (int r = 1; r <= R; r++) deposit(out.p, ((r - 1) * s.d_model + h) * s.modes + n, g_row[r], adds);
            if (s.dt_modes == 1)
                sum_dt += g_dt;
            else
                deposit(out.dt, h * s.modes + n, g_dt, adds);
        }
        if (s.dt_modes == 1) {
            sum_dt = block_sum(sum_dt, reinterpret_cast<double *>(s4_shared));
            if (threadIdx.x == 0) deposit(out.dt, h, sum_dt, adds);
        }
    }
}

template <typename T, int R> cudaError_t launch_adjoint(const gpu_kernel_tile &t, void *adjoint, cudaStream_t stream)
{
    const int64_t parts = grid_parts(t.length / 2 + 1);
    const cudaLaunchConfig_t config = grid_config(t.count, parts, staged_bytes<T, R>, stream);
    return cudaLaunchKernelEx(&config, k_kernel_adjoint<T, R>, t, parts, s4_row_stride(t.length),
                              static_cast<complex_of<T> *>(adjoint));
}
template <typename T> cudaError_t launch_adjoint_of_rank(const gpu_kernel_tile &t, void *adjoint, cudaStream_t stream)
{
    switch (t.system.rank) {
    case 1:
        return launch_adjoint<T, 1>(t, adjoint, stream);
    case 2:
        return launch_adjoint<T, 2>(t, adjoint, stream);
    case 3:
        return launch_adjoint<T, 3>(t, adjoint, stream);
    case 4:
        return launch_adjoint<T, 4>(t, adjoint, stream);
    default:
        return cudaErrorInvalidValue;
    }
}
template <typename T, int R>
cudaError_t launch_sums(const gpu_kernel_tile &t, const void *adjoint, double *terms, cudaStream_t stream)
{
    constexpr int modes = group<T, R>;
    const int64_t groups = (t.system.modes + modes - 1) / modes;
    const size_t shared = modes * (sizeof(staged_mode<T, R>) + gpu_warps * mode_sums<R> * sizeof(double));
    const cudaLaunchConfig_t config = grid_config(t.count, groups, shared, stream);
    return cudaLaunchKernelEx(&config, k_mode_sums<T, R>, t, groups, s4_row_stride(t.length),
                              static_cast<const T *>(adjoint), terms);
}
template <typename T>
cudaError_t launch_sums_of_rank(const gpu_kernel_tile &t, const void *adjoint, double *terms, cudaStream_t stream)
{
    switch (t.system.rank) {
    case 1:
        return launch_sums<T, 1>(t, adjoint, terms, stream);
    case 2:
        return launch_sums<T, 2>(t, adjoint, terms, stream);
    case 3:
        return launch_sums<T, 3>(t, adjoint, terms, stream);
    case 4:
        return launch_sums<T, 4>(t, adjoint, terms, stream);
    default:
        return cudaErrorInvalidValue;
    }
}
template <int R>
cudaError_t launch_gradients(const gpu_kernel_tile &t, const double *terms, const s4_system_gradient &gradient,
                             cudaStream_t stream)
{
    const int64_t channels = (t.first + t.count - 1) / t.kernels - t.first / t.kernels + 1;
    const cudaLaunchConfig_t config = grid_config(channels, 1, gpu_warps * sizeof(double), stream);
    return cudaLaunchKernelEx(&config, k_mode_gradients<R>, t, terms, gradient);
}

} // namespace

extern "C" cudaError_t gpu_launch_gradient_load(const gpu_kernel_tile *tile, const double *gradient,
                                                cudaStream_t stream)
{
    const int64_t stride = s4_row_stride(tile->length), parts = grid_parts(stride);
    const cudaLaunchConfig_t config = grid_config(tile->lanes, parts, 0, stream);
    return cudaLaunchKernelEx(&config, k_gradient_load, *tile, parts, stride, gradient);
}

extern "C" cudaError_t gpu_launch_kernel_adjoint(const gpu_kernel_tile *tile, void *adjoint, cudaStream_t stream)
{
    return tile->sums == S4_F32 ? launch_adjoint_of_rank<float>(*tile, adjoint, stream)
                                : launch_adjoint_of_rank<double>(*tile, adjoint, stream);
}

extern "C" cudaError_t gpu_launch_mode_sums(const gpu_kernel_tile *tile, const void *adjoint, double *terms,
                                            cudaStream_t stream)
{
    return tile->sums == S4_F32 ? launch_sums_of_rank<float>(*tile, adjoint, terms, stream)
                                : launch_sums_of_rank<double>(*tile, adjoint, terms, stream);
}

extern "C" cudaError_t gpu_launch_mode_gradients(const gpu_kernel_tile *tile, const double *terms,
                                                 const s4_system_gradient *gradient, cudaStream_t stream)
{
    switch (tile->system.rank) {
    case 1:
        return launch_gradients<1>(*tile, terms, *gradient, stream);
    case 2:
        return launch_gradients<2>(*tile, terms, *gradient, stream);
    case 3:
        return launch_gradients<3>(*tile, terms, *gradient, stream);
    case 4:
        return launch_gradients<4>(*tile, terms, *gradient, stream);
    default:
        return cudaErrorInvalidValue;
    }
}
