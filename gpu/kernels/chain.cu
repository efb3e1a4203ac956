/*
 * Gradients of the effective parameters, per channel -> gradients of the raw parameters:
 *   gA_real = -Re gLambda f'(A_real),   gA_imag = -Im gLambda f'(A_imag),   g inv_dt = rate gdt f'(inv_dt).
 * Lambda, B and P of a copy are shared by the channels h = copy, copy + S, ...: their gradients are summed, h
 * ascending. C (0 in the modes that a bandlimit takes out), dt and D belong to one channel each.
 *
 * One thread per raw number of one parameter.
 */
#include "gpu/kernels/raw.h"

namespace
{

/* Element `index` of rows (H,width), summed over the channels of a copy. */
__device__ double sum_of_copy(const s4_shape &s, const double *rows, int64_t copy, int64_t width, int64_t index)
{
    double sum = 0;
    for (int64_t h = copy; h < s.d_model; h += s.n_ssm) sum += rows[h * width + index];
    return sum;
}

__device__ double slope_at(const gpu_model &m, s4_parameter which, s4_transform transform, int64_t index)
{
    return transform_slope(transform, m.raw.parameter[which][index]);
}

__device__ double gradient_at(const gpu_model &m, const s4_system_gradient &from, s4_parameter which, int64_t index)
{
    const s4_shape &s = m.shape;
    const int64_t state = 2 * s.modes;
    switch (which) {
    case S4_PARAMETER_INV_DT:
        return s.rate * from.dt[index] * slope_at(m, which, m.raw.dt_transform, index);
    case S4_PARAMETER_A_REAL:
        return -sum_of_copy(s, from.lambda, index / s.modes, state, 2 * (index % s.modes)) *
               slope_at(m, which, m.raw.real_transform, index);
    case S4_PARAMETER_A_IMAG:
        return -sum_of_copy(s, from.lambda, index / s.modes, state, 2 * (index % s.modes) + 1) *
               slope_at(m, which, m.raw.imag_transform, index);
    case S4_PARAMETER_B:
        return sum_of_copy(s, from.b, index / state, state, index % state);
    case S4_PARAMETER_P: {
        const int64_t row = index / state, r = row / s.n_ssm;
        return sum_of_copy(s, from.p + r * s.d_model * state, row % s.n_ssm, state, index % state);
    }
    case S4_PARAMETER_C:
        return is_bandlimited(m, index / state % s.d_model, index % state / 2) ? 0 : from.c[index];
    default:
        return from.d[index];
    }
}

__global__ void __launch_bounds__(gpu_threads)
    k_chain(gpu_model m, s4_system_gradient from, s4_parameter which, int64_t count, int accumulate, double *gradient)
{
    const int64_t index = grid_element(gridDim.x);
    if (index >= count) return;
    const double value = gradient_at(m, from, which, index);
    gradient[index] = accumulate ? gradient[index] + value : value;
}

} // namespace

extern "C" cudaError_t gpu_launch_chain(const gpu_model *model, s4_parameter which, int64_t count,
                                        const s4_system_gradient *from, int accumulate, double *gradient,
                                        cudaStream_t stream)
{
    const cudaLaunchConfig_t config = grid_config(1, grid_parts(count), 0, stream);
    return cudaLaunchKernelEx(&config, k_chain, *model, *from, which, count, accumulate, gradient);
}
