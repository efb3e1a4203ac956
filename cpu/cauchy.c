/* The coefficients of a channel's generating function, mode by mode. Formulas in cauchy.h. */
#include "cpu/cauchy.h"

cpu_channel cpu_channel_view(const s4_shape *shape, const s4_system *system, int64_t h)
{
    int64_t modes = shape->modes, copy = h % shape->n_ssm;
    cpu_channel channel = {.modes = modes, .rank = shape->rank, .side = 1 + shape->rank, .kernels = shape->kernels};
    channel.pairs = channel.side * (channel.kernels + channel.rank);
    channel.dt_stride = shape->dt_modes == 1 ? 0 : 1;
    channel.dt = system->dt + h * shape->dt_modes;
    channel.lambda = system->lambda + copy * modes * 2;
    channel.c_tilde = system->c + h * modes * 2;
    channel.kernel_stride = shape->d_model * modes * 2;
    channel.row[0] = system->b + copy * modes * 2;
    for (int64_t r = 0; r < shape->rank; r++) channel.row[1 + r] = system->p + (r * shape->n_ssm + copy) * modes * 2;
    return channel;
}

static void put(const cpu_cauchy *work, int64_t index, double value)
{
    if (work->dtype == S4_F32)
        ((float *)work->factors)[index] = (float)value;
    else
        ((double *)work->factors)[index] = value;
}

static void make_terms(const cpu_cauchy *work)
{
    const cpu_channel *channel = work->channel;
    for (int64_t n = 0; n < channel->modes; n++) {
        double *term = work->terms + 2 * n, dt = channel->dt[n * channel->dt_stride];
        double w_re = dt * channel->lambda[2 * n], w_im = dt * channel->lambda[2 * n + 1];
        term[0] = w_re;
        term[1] = 0.25 * (w_re * w_re + w_im * w_im);
        for (int64_t c = 0; c < channel->kernels + channel->rank; c++) {
            double column_re, column_im;
            cpu_column(channel, c, n, &column_re, &column_im);
            for (int64_t b = 0; b < channel->side; b++) {
                const double *row = channel->row[b] + 2 * n;
                double v_re = dt * (row[0] * column_re - row[1] * column_im);
                double v_im = dt * (row[0] * column_im + row[1] * column_re);
                int64_t pair = n * channel->pairs + cpu_pair(channel, b, c);
                put(work, 2 * pair, v_re);
                put(work, 2 * pair + 1, -0.5 * (v_re * w_re + v_im * w_im));
            }
        }
    }
}

cpu_cauchy cpu_cauchy_open(const cpu_channel *channel, const s4_shape *shape, double *rows, double *scratch)
{
    int64_t modes = channel->modes, per_mode = cpu_cauchy_terms(channel), length = shape->kernel_length;
    cpu_cauchy work = {.channel = channel, .length = length, .row_stride = s4_row_stride(length), .rows = rows};
    work.dtype = shape->kernel_dtype;
    /* Each part has room for doubles; of floats as many are there, and lanes twice as many. */
    double *inverse = scratch, *sigma, *adjoint, *lanes, *factors;
    work.angle = inverse + modes * 2 * CPU_TILE;
    sigma = work.angle + 5 * CPU_TILE;
    adjoint = sigma + channel->pairs * 2 * CPU_TILE;
    lanes = adjoint + channel->pairs * 4 * CPU_TILE;
    work.terms = lanes + modes * per_mode * S4_VECTOR_LANES;
    factors = work.terms + modes * 2;
    work.totals = factors + modes * 2 * channel->pairs;
    work.rounded = work.dtype == S4_F64 ? work.angle : work.totals + modes * per_mode;
    work.inverse = inverse;
    work.sigma = sigma;
    work.adjoint = adjoint;
    work.lanes = lanes;
    work.factors = factors;
    make_terms(&work);
    return work;
}
