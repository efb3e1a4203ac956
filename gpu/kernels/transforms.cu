/*
 * Raw parameters -> effective parameters (raw.h has the formulas); B, P, D and, but for a bandlimit, C as they are. What
 * is not finite is flagged, and so is a step that is not positive and, in DPLR layers, a Lambda of exactly 0.
 *
 * One thread per raw number, all parameters in one row of threads, in the order of s4_parameter.
 */
#include <float.h>

#include "gpu/kernels/raw.h"

namespace
{

struct counts {
    int64_t of[S4_PARAMETER_COUNT];
};

__device__ void make_dt(const gpu_model &m, int64_t index, double given)
{
    const double dt = transform_value(m.raw.dt_transform, given) * m.shape.rate;
    m.system.dt[index] = dt;
    if (!is_finite(dt))
        raise_flag(m.flags, GPU_FLAG_DT, index, given);
    else if (dt < DBL_MIN)
        raise_flag(m.flags, GPU_FLAG_DT_SMALL, index, given);
}

__device__ void make_lambda(const gpu_model &m, int64_t index, int imaginary, double given)
{
    const double value = transform_value(imaginary ? m.raw.imag_transform : m.raw.real_transform, given);
    m.system.lambda[2 * index + imaginary] = -value;
    if (!is_finite(value)) raise_flag(m.flags, imaginary ? GPU_FLAG_FREQUENCY : GPU_FLAG_DECAY, index, given);
    if (imaginary || m.shape.mode != S4_MODE_DPLR || value != 0) return;
    if (transform_value(m.raw.imag_transform, m.raw.parameter[S4_PARAMETER_A_IMAG][index]) == 0)
        raise_flag(m.flags, GPU_FLAG_LAMBDA, index, given);
}

__device__ void make_c(const gpu_model &m, int64_t index, double given)
{
    const int64_t pair = index / 2, row = pair / m.shape.modes;
    m.system.c[index] = is_bandlimited(m, row % m.shape.d_model, pair % m.shape.modes) ? 0 : given;
}

__global__ void __launch_bounds__(gpu_threads) k_transform(gpu_model m, counts count)
{
    int64_t index = grid_element(gridDim.x);
    int which = 0;
    while (which < S4_PARAMETER_COUNT && index >= count.of[which]) index -= count.of[which++];
    if (which == S4_PARAMETER_COUNT) return;
    const double given = m.raw.parameter[which][index];
    if (!is_finite(given)) raise_flag(m.flags, GPU_FLAG_RAW + which, index, given);
    switch (which) {
    case S4_PARAMETER_INV_DT:
        make_dt(m, index, given);
        break;
    case S4_PARAMETER_A_REAL:
        make_lambda(m, index, 0, given);
        break;
    case S4_PARAMETER_A_IMAG:
        make_lambda(m, index, 1, given);
        break;
    case S4_PARAMETER_B:
        m.system.b[index] = given;
        break;
    case S4_PARAMETER_P:
        m.system.p[index] = given;
        break;
    case S4_PARAMETER_C:
        make_c(m, index, given);
        break;
    default:
        m.system.d[index] = given;
    }
}

} // namespace

extern "C" cudaError_t gpu_launch_transform(const gpu_model *model, cudaStream_t stream)
{
    const s4_shape &s = model->shape;
    const int64_t modes = s.n_ssm * s.modes;
    counts count = {};
    count.of[S4_PARAMETER_INV_DT] = s.d_model * s.dt_modes;
    count.of[S4_PARAMETER_A_REAL] = count.of[S4_PARAMETER_A_IMAG] = modes;
    count.of[S4_PARAMETER_B] = 2 * modes;
    count.of[S4_PARAMETER_P] = 2 * s.rank * modes;
    count.of[S4_PARAMETER_C] = 2 * s.kernels * s.d_model * s.modes;
    count.of[S4_PARAMETER_D] = s.channels * s.d_model;
    int64_t all = 0;
    for (int which = 0; which < S4_PARAMETER_COUNT; which++) all += count.of[which];
    const cudaLaunchConfig_t config = grid_config(1, grid_parts(all), 0, stream);
    return cudaLaunchKernelEx(&config, k_transform, *model, count);
}
