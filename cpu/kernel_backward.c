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
    for (int64_t r = 0; r < shape->rank; r++) view.row[1 + r] = gradient->p + (r * shape->d_model + h) * modes * 2;
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

/* ---- all of it ------------------------------------------------------------------------------------------------- */

static int wants_system(const s4_task *task) { return (task->wanted & S4_WANTED_SYSTEM) != 0; }

static void load_kernel_gradient(const cpu_kernel_lane *lane, const cpu_cauchy *work, int64_t k)
{
    double *row = work->rows + k * work->row_stride;
    memcpy(row, cpu_kernel_gradient(lane, k), sizeof(double) * work->length);
    cpu_fft_forward(lane->fft, row);
}

static void clear_totals(const cpu_cauchy *work)
{
    memset(work->totals, 0, sizeof(double) * work->channel->modes * cpu_cauchy_terms(work->channel));
}

static void add_span(const s4_task *task, const cpu_cauchy *work, int64_t span)
{
    int64_t first = span * CPU_SPAN, left = work->length / 2 + 1 - first;
    cpu_cauchy_at(task->device)->of[task->shape->kernel_dtype].gradient(work, wants_system(task), first, left < CPU_SPAN ? left : CPU_SPAN);
}

/* From the totals to the gradients that are wanted. */
static void finish(const cpu_kernel_lane *lane, const cpu_cauchy *work, const s4_system_gradient *gradient)
{
    const cpu_channel *channel = work->channel;
    channel_gradient into = gradient_view(lane->shape, gradient, lane->h);
    for (int64_t k = 0; k < channel->kernels; k++) through_read_out(work, k, into.c_tilde + k * into.kernel_stride);
    if (!wants_system(lane->task)) return;
    memset(into.dt, 0, sizeof(double) * lane->shape->dt_modes);
    for (int64_t b = 0; b < channel->side; b++) memset(into.row[b], 0, sizeof(double[2]) * channel->modes);
    through_modes(work, &into);
}

void cpu_dplr_backward(const cpu_kernel_lane *lane, const s4_system_gradient *gradient)
{
    int64_t length = lane->shape->kernel_length, spans = cpu_spans(length / 2 + 1);
    cpu_channel channel = cpu_channel_view(lane->shape, &lane->system, lane->h);
    cpu_cauchy work = cpu_cauchy_open(&channel, lane->shape, lane->row, lane->scratch);
    for (int64_t k = 0; k < channel.kernels; k++) load_kernel_gradient(lane, &work, k);
    clear_totals(&work);
    for (int64_t span = 0; span < spans; span++) add_span(lane->task, &work, span);
    finish(lane, &work, gradient);
}

/* The rows are those of the first lane; each thread has its own scratch. In rounds, every thread sums over a span, then
 * the spans of the round are added in ascending order to the totals of the first lane, which has the first of them. */
void cpu_dplr_backward_shared(const s4_task *task, int threads, int64_t h, const s4_system_gradient *gradient)
{
    const int64_t length = task->shape->kernel_length, spans = cpu_spans(length / 2 + 1);
    const cpu_kernel_lane first = cpu_kernel_lane_view(task, 0, h);
    const cpu_channel channel = cpu_channel_view(task->shape, &first.system, h);
    const int64_t sums = channel.modes * cpu_cauchy_terms(&channel);
    const cpu_cauchy all = cpu_cauchy_open(&channel, task->shape, first.row, first.scratch);
#pragma omp parallel num_threads(threads)
    {
        const int64_t thread = omp_get_thread_num(), team = omp_get_num_threads();
        const cpu_kernel_lane lane = cpu_kernel_lane_view(task, thread, h);
        const cpu_cauchy work = cpu_cauchy_open(&channel, task->shape, first.row, lane.scratch);
        clear_totals(&work);
#pragma omp for schedule(static)
        for (int64_t k = 0; k < channel.kernels; k++) load_kernel_gradient(&lane, &work, k);
        for (int64_t round = 0; round < spans; round += team) {
            if (round + thread < spans) add_span(task, &work, round + thread);
#pragma omp barrier
#pragma omp for schedule(static)
            for (int64_t i = 0; i < sums; i++)
                for (int64_t other = 1; other < team; other++) {
                    double *totals = all.totals + other * s4_cpu_kernel_scratch(task->shape);
                    all.totals[i] += totals[i];
                    totals[i] = 0.0;
                }
        }
    }
    finish(&first, &all, gradient);
}

/* SYSTEM, KERNEL_GRADIENT -> SYSTEM_GRADIENT (what is wanted of it, but d) of the block's channels. */
s4_status cpu_kernel_backward(const s4_task *task)
{
    static void (*const backward[])(const cpu_kernel_lane *lane, const s4_system_gradient *gradient) = {
        [S4_MODE_DPLR] = cpu_dplr_backward,
        [S4_MODE_DIAG] = cpu_diagonal_backward,
    };
    const s4_shape *shape = task->shape;
    const s4_system_gradient gradient = s4_system_gradient_view(shape, task->buffer[S4_BUFFER_SYSTEM_GRADIENT]);
    const int threads = cpu_lanes(shape->threads);

    if (cpu_kernel_is_shared(task, threads)) {
        for (int64_t h = task->channel; h < task->channel + task->channels; h++)
            cpu_dplr_backward_shared(task, threads, h, &gradient);
        return S4_OK;
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < task->channels; i++) {
        cpu_kernel_lane lane = cpu_kernel_lane_view(task, omp_get_thread_num(), task->channel + i);
        backward[shape->mode](&lane, &gradient);
    }
    return S4_OK;
}
