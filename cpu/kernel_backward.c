/*
 * Gradients of the effective parameters from the gradients G of a channel's kernels. Those of a diagonal system are in
 * diagonal_backward.c. DPLR: the way of kernel.c backwards, with everything that is per mode and frequency computed
 * again instead of kept. A gradient g stands for dL/dRe + i dL/dIm, and dL = Re(conj(g) dX).
 *
 *   K = irfft(K^):  gK^_k = (m_k / L) rfft(G)_k, m = 1 at frequency 0 and Nyquist, else 2;  g = e^(-i theta) gK^
 *   kappa = sigma_00 - c sigma_01 M sigma_10, M = (I + c sigma_11)^-1, with x = M sigma_10 and z = sigma_01 M:
 *     conj g_00 = conj g;  conj g_01 = -c conj(g) x;  conj g_10 = -c conj(g) z;  conj g_11 = c^2 conj(g) z x
 *   sigma_bc = sum of t, t = num / den:  dL = Re(a dnum) - Re(a t dden), a = conj(g_bc) / den, in the real variables
 *     num = 4 i S Re v - 2 c (Re v Re w + Im v Im w);  den = c^2 |w|^2 - 4 S^2 - 4 i S c Re w
 *   v = dt b c, w = dt Lambda.
 *
 * What of dL depends on the frequency is summed over the frequencies first, per mode, with e = sum over bc of a t:
 *   X_bc = sum of c Re a_bc;  Y_bc = sum of S Im a_bc;  U = sum of c^2 Re e;  V = sum of S c Im e
 * Each row of C~ has kernels, sums and a gradient of its own; what it adds to the rest is added row by row.
 */
#include <omp.h>

#include "cpu/cauchy.h"
#include "cpu/kernel.h"

/* conj g_bc of one frequency j into the tile, from conj_g = conj g; 0 for frequencies beyond the last. */
static void woodbury_adjoint(const cpu_channel *channel, const cpu_pair_tile *sigma, double cosine, int j,
                             double complex conj_g, cpu_pair_tile *adjoint)
{
    int64_t side = channel->side, rank = side - 1;
    double complex x[S4_RANK_MAX], z[S4_RANK_MAX], of_pair[CPU_PAIRS_MAX];
    cpu_woodbury(channel, sigma, cosine, j, x, z);
    of_pair[0] = conj_g;
    for (int64_t r = 0; r < rank; r++) {
        of_pair[1 + r] = -cosine * conj_g * x[r];
        of_pair[(1 + r) * side] = -cosine * conj_g * z[r];
        for (int64_t s = 0; s < rank; s++) of_pair[(1 + r) * side + 1 + s] = cosine * cosine * conj_g * z[r] * x[s];
    }
    for (int64_t pair = 0; pair < channel->pairs; pair++) {
        adjoint->re[pair][j] = creal(of_pair[pair]);
        adjoint->im[pair][j] = cimag(of_pair[pair]);
    }
}

static double sum_of_tile(const double *values)
{
    double sum = 0.0;
    for (int j = 0; j < CPU_TILE; j++) sum += values[j];
    return sum;
}

/* Adds one tile of frequencies to U, V and the X, Y of all pairs, which follow the terms of the sums. */
static void sum_over_frequencies(const cpu_channel *channel, double *terms, const cpu_angles *angles,
                                 const cpu_pair_tile *adjoint)
{
    const double *sine = angles->sine, *cosine = angles->cosine;
    for (int64_t n = 0; n < channel->modes; n++) {
        double *term = terms + n * cpu_cauchy_stride(channel), *sums = term + CPU_TERMS_OF_SUMS(channel->pairs);
        double inverse_re[CPU_TILE], inverse_im[CPU_TILE];
        double a_num_re[CPU_TILE] = {0}, a_num_im[CPU_TILE] = {0}; /* sum over bc of a num = e den */
        double u[CPU_TILE], v[CPU_TILE], x[CPU_TILE], y[CPU_TILE];
        cpu_cauchy_inverse(term, angles, inverse_re, inverse_im);
        for (int64_t pair = 0; pair < channel->pairs; pair++) {
            double v_re = term[2 + 2 * pair], v_conj_w = term[3 + 2 * pair];
            const double *g_re = adjoint->re[pair], *g_im = adjoint->im[pair];
            for (int j = 0; j < CPU_TILE; j++) {
                double a_re = g_re[j] * inverse_re[j] - g_im[j] * inverse_im[j];
                double a_im = g_re[j] * inverse_im[j] + g_im[j] * inverse_re[j];
                double numerator_re = -2.0 * cosine[j] * v_conj_w;
                double numerator_im = 4.0 * sine[j] * v_re;
                a_num_re[j] += a_re * numerator_re - a_im * numerator_im;
                a_num_im[j] += a_re * numerator_im + a_im * numerator_re;
                x[j] = cosine[j] * a_re;
                y[j] = sine[j] * a_im;
            }
            sums[2 + 2 * pair] += sum_of_tile(x);
            sums[3 + 2 * pair] += sum_of_tile(y);
        }
        for (int j = 0; j < CPU_TILE; j++) {
            double e_re = a_num_re[j] * inverse_re[j] - a_num_im[j] * inverse_im[j];
            double e_im = a_num_re[j] * inverse_im[j] + a_num_im[j] * inverse_re[j];
            u[j] = cosine[j] * cosine[j] * e_re;
            v[j] = sine[j] * cosine[j] * e_im;
        }
        sums[0] += sum_of_tile(u);
        sums[1] += sum_of_tile(v);
    }
}

/* All frequencies; `row` holds rfft(G). */
static void through_frequencies(const cpu_channel *channel, int64_t length, double *terms, const double *row)
{
    int64_t frequencies = length / 2 + 1;
    for (int64_t first = 0; first < frequencies; first += CPU_TILE) {
        cpu_angles angles;
        cpu_pair_tile sigma, adjoint;
        memset(&adjoint, 0, sizeof adjoint);
        cpu_cauchy_angles(length, first, &angles);
        cpu_cauchy_sums(channel, terms, &angles, &sigma);
        for (int j = 0; j < CPU_TILE && first + j < frequencies; j++) {
            int64_t k = first + j;
            double multiplicity = k == 0 || 2 * k == length ? 1.0 : 2.0;
            double weight = multiplicity / (double)length;
            double sine = angles.sine[j], cosine = angles.cosine[j];
            double g_re = weight * (cosine * row[2 * k] + sine * row[2 * k + 1]);
            double g_im = weight * (cosine * row[2 * k + 1] - sine * row[2 * k]);
            woodbury_adjoint(channel, &sigma, cosine, j, cpu_c99(g_re, -g_im), &adjoint);
        }
        sum_over_frequencies(channel, terms, &angles, &adjoint);
    }
}

/* Where the gradients of one channel with one row of C~ go, like cpu_channel: (n,2) each. */
typedef struct channel_gradient {
    double *dt, *lambda;
    double *row[CPU_SIDE_MAX], *column[CPU_SIDE_MAX];
} channel_gradient;

static channel_gradient gradient_view(const s4_shape *shape, const s4_system_gradient *gradient, int64_t h, int64_t k)
{
    int64_t modes = shape->modes;
    channel_gradient view = {.dt = gradient->dt + h * shape->dt_modes, .lambda = gradient->lambda + h * modes * 2};
    view.row[0] = gradient->b + h * modes * 2;
    view.column[0] = gradient->c + (k * shape->d_model + h) * modes * 2;
    for (int64_t r = 0; r < shape->rank; r++) {
        view.row[1 + r] = gradient->p + (r * shape->d_model + h) * modes * 2;
        view.column[1 + r] = view.row[1 + r]; /* P collects its own row and the conjugate of Q's */
    }
    return view;
}

/* From the sums over frequencies to dt, Lambda, rows and columns; adds. */
static void through_modes(const cpu_channel *channel, const double *terms, const channel_gradient *gradient)
{
    for (int64_t n = 0; n < channel->modes; n++) {
        const double *term = terms + n * cpu_cauchy_stride(channel), *sums = term + CPU_TERMS_OF_SUMS(channel->pairs);
        double dt = channel->dt[n * channel->dt_stride], *g_dt = gradient->dt + n * channel->dt_stride;
        double lambda_re = channel->lambda[2 * n], lambda_im = channel->lambda[2 * n + 1];
        double w_re = dt * lambda_re, w_im = dt * lambda_im;
        double gw_re = 0.0, gw_im = 0.0;
        gw_re -= 2.0 * w_re * sums[0];
        gw_re -= 4.0 * sums[1];
        gw_im -= 2.0 * w_im * sums[0];
        for (int64_t b = 0; b < channel->side; b++) {
            double row_re = channel->row[b][2 * n], row_im = channel->row[b][2 * n + 1];
            double *g_row = gradient->row[b] + 2 * n;
            for (int64_t c = 0; c < channel->side; c++) {
                double sign = channel->column_sign[c];
                double column_re = channel->column[c][2 * n], column_im = sign * channel->column[c][2 * n + 1];
                double *g_column = gradient->column[c] + 2 * n;
                double product_re = row_re * column_re - row_im * column_im;
                double product_im = row_re * column_im + row_im * column_re;
                const double *of_pair = sums + 2 + 2 * (b * channel->side + c);
                double x = of_pair[0], y = of_pair[1];

                double gv_re = 0.0, gv_im = 0.0;
                gv_re -= 4.0 * y;
                gv_re -= 2.0 * w_re * x;
                gv_im -= 2.0 * w_im * x;
                gw_re -= 2.0 * dt * product_re * x;
                gw_im -= 2.0 * dt * product_im * x;

                g_row[0] += dt * column_re * gv_re;
                g_row[0] += dt * column_im * gv_im;
                g_row[1] += dt * column_re * gv_im;
                g_row[1] -= dt * column_im * gv_re;
                g_column[0] += dt * row_re * gv_re;
                g_column[0] += dt * row_im * gv_im;
                g_column[1] += sign * dt * row_re * gv_im;
                g_column[1] -= sign * dt * row_im * gv_re;
                *g_dt += product_re * gv_re;
                *g_dt += product_im * gv_im;
            }
        }
        gradient->lambda[2 * n] += dt * gw_re;
        gradient->lambda[2 * n + 1] += dt * gw_im;
        *g_dt += lambda_re * gw_re;
        *g_dt += lambda_im * gw_im;
    }
}

/* All gradients of a channel, kernel after kernel. */
static void dplr_backward(const cpu_kernel_lane *lane, const s4_system_gradient *gradient)
{
    const s4_shape *shape = lane->shape;
    int64_t length = shape->kernel_length;
    for (int64_t k = 0; k < shape->kernels; k++) {
        cpu_channel channel = cpu_channel_view(shape, &lane->system, lane->h, k);
        channel_gradient into = gradient_view(shape, gradient, lane->h, k);
        size_t of_modes = sizeof(double[2]) * channel.modes;
        if (k == 0) {
            memset(into.dt, 0, sizeof(double) * shape->dt_modes);
            memset(into.lambda, 0, of_modes);
            for (int64_t b = 0; b < channel.side; b++) memset(into.row[b], 0, of_modes);
        }
        memset(into.column[0], 0, of_modes);

        memset(lane->scratch, 0, sizeof(double) * channel.modes * cpu_cauchy_stride(&channel));
        cpu_cauchy_terms(&channel, lane->scratch);
        memcpy(lane->row, cpu_kernel_gradient(lane, k), sizeof(double) * length);
        cpu_fft_forward(lane->fft, lane->row);
        through_frequencies(&channel, length, lane->scratch, lane->row);
        through_modes(&channel, lane->scratch, &into);
    }
}

/* SYSTEM, KERNEL_GRADIENT -> SYSTEM_GRADIENT (all but d) of the block's channels. */
s4_status cpu_kernel_backward(const s4_task *task)
{
    static void (*const backward[])(const cpu_kernel_lane *lane, const s4_system_gradient *gradient) = {
        [S4_MODE_DPLR] = dplr_backward,
        [S4_MODE_DIAG] = cpu_diagonal_backward,
    };
    const s4_shape *shape = task->shape;
    const s4_system_gradient gradient = s4_system_gradient_view(shape, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]);

#pragma omp parallel for schedule(static) num_threads(cpu_lanes(shape->threads))
    for (int64_t i = 0; i < task->channels; i++) {
        cpu_kernel_lane lane = cpu_kernel_lane_view(task, omp_get_thread_num(), task->channel + i);
        backward[shape->mode](&lane, &gradient);
    }
    return S4_OK;
}
