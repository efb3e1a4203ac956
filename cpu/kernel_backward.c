/*
 * Gradients of the effective parameters from the gradients G of a channel's kernels. Those of a diagonal system are in
 * diagonal_backward.c. DPLR: the way of kernel.c backwards, with everything that is per mode and frequency computed
 * again instead of kept. A gradient g stands for dL/dRe + i dL/dIm, and dL = Re(conj(g) dX).
 *
 *   K_k = irfft(K^_k):  gK^_f = (m_f / L) rfft(G)_f, m = 1 at frequency 0 and Nyquist, else 2;  g_k = e^(-i theta) gK^
 *   kappa_k = sigma_0k - c sigma_01 M sigma_1k, M = (I + c sigma_11)^-1, with z = sigma_01 M and y = M sum_k conj(g_k)
 *   sigma_1k:
 *     conj g_0k = conj g_k;  conj g_1k = -c conj(g_k) z;  conj g_01 = -c y;  conj g_11 = c^2 z y
 *   sigma_bc = sum of t, t = num / den:  dL = Re(a dnum) - Re(a t dden), a = conj(g_bc) / den, in the real variables
 *     num = i S p + c q;  p = Re v;  q = -(Re v Re w + Im v Im w) / 2;  den = c^2 |w|^2 / 4 - S^2 - i S c Re w
 *   v = dt b c, w = dt Lambda.
 *
 * What of dL depends on the frequency is summed over the frequencies first (level/cauchy.c), per mode, with
 * e = sum over bc of a t:
 *   X_bc = sum of c Re a_bc;  Y_bc = sum of S Im a_bc;  U = sum of c^2 Re e;  V = sum of S c Im e
 *   dL = X dq - Y dp - U d|w|^2 / 4 - V dRe w
 */
#include <omp.h>

#include <string.h>

#include "cpu/kernel.h"
#include "cpu/level/cauchy.h"

/* Where the gradients of one channel go, like cpu_channel: (n,2) each. */
typedef struct channel_gradient {
    double *dt, *lambda, *c_tilde;
    double *row[CPU_SIDE_MAX];
    int64_t kernel_stride;
} channel_gradient;

static channel_gradient gradient_view(const s4_shape *shape, const s4_system_gradient *gradient, int64_t h)
{
    int64_t modes = shape->modes;
    channel_gradient view = {.dt = gradient->dt + h * shape->dt_modes, .lambda = gradient->lambda + h * modes * 2};
    view.row[0] = gradient->b + h * modes * 2;
    for (int64_t r = 0; r < shape->rank; r++)
        view.row[1 + r] = gradient->p + (r * shape->d_model + h) * modes * 2;
    view.c_tilde = gradient->c + h * modes * 2;
    view.kernel_stride = shape->d_model * modes * 2;
    return view;
}

/* gC~ of one kernel. */
static void through_read_out(const cpu_cauchy *work, int64_t k, double *g_c)
{
    const cpu_channel *channel = work->channel;
    for (int64_t n = 0; n < channel->modes; n++) {
        const double *sums = work->totals + n * cpu_cauchy_terms(channel);
        double dt = channel->dt[n * channel->dt_stride];
        double w_re = dt * channel->lambda[2 * n], w_im = dt * channel->lambda[2 * n + 1];
        double g_re = 0.0, g_im = 0.0;
        for (int64_t b = 0; b < channel->side; b++) {
            double row_re = channel->row[b][2 * n], row_im = channel->row[b][2 * n + 1];
            const double *of_pair = sums + 2 + 2 * cpu_pair(channel, b, k);
            double gv_re = -of_pair[1] - 0.5 * w_re * of_pair[0], gv_im = -0.5 * w_im * of_pair[0];
            g_re += dt * row_re * gv_re;
            g_re += dt * row_im * gv_im;
            g_im += dt * row_re * gv_im;
            g_im -= dt * row_im * gv_re;
        }
        g_c[2 * n] = g_re;
        g_c[2 * n + 1] = g_im;
    }
}

/* Gradients of dt, Lambda, B and P, which all kernels share. */
static void through_modes(const cpu_cauchy *work, const channel_gradient *gradient)
{
    const cpu_channel *channel = work->channel;
    for (int64_t n = 0; n < channel->modes; n++) {
        const double *sums = work->totals + n * cpu_cauchy_terms(channel);
        double dt = channel->dt[n * channel->dt_stride], *g_dt = gradient->dt + n * channel->dt_stride;
        double lambda_re = channel->lambda[2 * n], lambda_im = channel->lambda[2 * n + 1];
        double w_re = dt * lambda_re, w_im = dt * lambda_im;
        double gw_re = 0.0, gw_im = 0.0;
        gw_re -= 0.5 * w_re * sums[0];
        gw_re -= sums[1];
        gw_im -= 0.5 * w_im * sums[0];
        for (int64_t c = 0; c < channel->kernels + channel->rank; c++) {
            double column_re, column_im;
            cpu_column(channel, c, n, &column_re, &column_im);
            for (int64_t b = 0; b < channel->side; b++) {
                double row_re = channel->row[b][2 * n], row_im = channel->row[b][2 * n + 1];
                double *g_row = gradient->row[b] + 2 * n;
                double product_re = row_re * column_re - row_im * column_im;
                double product_im = row_re * column_im + row_im * column_re;
                const double *of_pair = sums + 2 + 2 * cpu_pair(channel, b, c);
                double x = of_pair[0], y = of_pair[1];

                double gv_re = 0.0, gv_im = 0.0;
                gv_re -= y;
                gv_re -= 0.5 * w_re * x;
                gv_im -= 0.5 * w_im * x;
                gw_re -= 0.5 * dt * product_re * x;
                gw_im -= 0.5 * dt * product_im * x;

                g_row[0] += dt * column_re * gv_re;
                g_row[0] += dt * column_im * gv_im;
                g_row[1] += dt * column_re * gv_im;
                g_row[1] -= dt * column_im * gv_re;
                *g_dt += product_re * gv_re;
                *g_dt += product_im * gv_im;
                if (c < channel->kernels) continue;
                double *g_p = gradient->row[1 + c - channel->kernels] + 2 * n; /* the conjugate of Q's */
                g_p[0] += dt * row_re * gv_re;
                g_p[0] += dt * row_im * gv_im;
                g_p[1] -= dt * row_re * gv_im;
                g_p[1] += dt * row_im * gv_re;
            }
        }
        gradient->lambda[2 * n] = dt * gw_re;
        gradient->lambda[2 * n + 1] = dt * gw_im;
        *g_dt += lambda_re * gw_re;
        *g_dt += lambda_im * gw_im;
    }
}

/* The gradients of a channel that are wanted. */
static void dplr_backward(const cpu_kernel_lane *lane, const s4_system_gradient *gradient)
{
    const s4_shape *shape = lane->shape;
    const int system = (lane->task->wanted & S4_WANTED_SYSTEM) != 0;
    int64_t length = shape->kernel_length, frequencies = length / 2 + 1;
    cpu_channel channel = cpu_channel_view(shape, &lane->system, lane->h);
    channel_gradient into = gradient_view(shape, gradient, lane->h);
    cpu_cauchy work = cpu_cauchy_open(&channel, length, lane->row, lane->scratch);

    for (int64_t k = 0; k < channel.kernels; k++) {
        double *row = work.rows + k * work.row_stride;
        memcpy(row, cpu_kernel_gradient(lane, k), sizeof(double) * length);
        cpu_fft_forward_f64(lane->fft, row);
    }
    memset(work.totals, 0, sizeof(double) * channel.modes * cpu_cauchy_terms(&channel));
    for (int64_t first = 0; first < frequencies; first += CPU_SPAN) {
        int64_t count = frequencies - first < CPU_SPAN ? frequencies - first : CPU_SPAN;
        cpu_cauchy_at(lane->task->device)->gradient(&work, system, first, count);
    }
    for (int64_t k = 0; k < channel.kernels; k++) through_read_out(&work, k, into.c_tilde + k * into.kernel_stride);
    if (!system) return;
    memset(into.dt, 0, sizeof(double) * shape->dt_modes);
    for (int64_t b = 0; b < channel.side; b++) memset(into.row[b], 0, sizeof(double[2]) * channel.modes);
    through_modes(&work, &into);
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
