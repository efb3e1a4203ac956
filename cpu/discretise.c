/*
 * Bilinear discretisation of one channel of A = Lambda - P P*:
 *   dA = (I - dt/2 A)^-1 (I + dt/2 A),   dB = dt (I - dt/2 A)^-1 B.
 *
 * With the half step a = dt/2 Lambda and p = sqrt(dt/2) P, dt/2 A = a - p p*, and by Woodbury, with
 *   d = 1/(1 - a),  e = 1 + a,  q = conj p,  g = (I_R + 2 Re sum_n q d p^T)^-1 (q o d),
 * one step is O(nR):
 *   v = e o x - p (q^T x),   dA x = d o (v - p (g^T v)),
 * where q^T x and g^T v sum over the closed vector (n modes and their conjugates): twice the real part of the sum
 * over the stored ones, so all coefficients of the low-rank terms are real.
 *
 * The dense dA in the real basis [Re x; Im x] has as columns the step of unit vectors in Re and in Im. If the closed
 * dA is [[X1, X2], [conj X2, conj X1]], the step is x -> X1 x + X2 conj x; its columns for 1 and i in mode k are
 * X1 + X2 and i (X1 - X2).
 */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "cpu/place.h"

void cpu_split(int64_t modes, const double *interleaved, double *split)
{
    for (int64_t n = 0; n < modes; n++) {
        split[n] = interleaved[2 * n];
        split[modes + n] = interleaved[2 * n + 1];
    }
}

void cpu_interleave(int64_t modes, const double *split, double *interleaved)
{
    for (int64_t n = 0; n < modes; n++) {
        interleaved[2 * n] = split[n];
        interleaved[2 * n + 1] = split[modes + n];
    }
}

cpu_linear cpu_linear_view(int64_t modes, int64_t rank, double *base)
{
    int64_t state = 2 * modes;
    cpu_linear linear = {.modes = modes, .rank = rank};
    linear.d = base;
    linear.e = linear.d + state;
    linear.b = linear.e + state;
    linear.p = linear.b + state;
    linear.g = linear.p + rank * state;
    return linear;
}

/* 2 Re sum_n conj(a) b. */
static double closed_inner(int64_t modes, const double *a, const double *b)
{
    double sum = 0;
    for (int64_t n = 0; n < 2 * modes; n++) sum += a[n] * b[n];
    return 2 * sum;
}

/* 2 Re sum_n a b. */
static double closed_product(int64_t modes, const double *a, const double *b)
{
    double re = 0, im = 0;
    for (int64_t n = 0; n < modes; n++) {
        re += a[n] * b[n];
        im += a[modes + n] * b[modes + n];
    }
    return 2 * (re - im);
}

/* x <- d o (x - p (g^T x)), the action of (I - dt/2 A)^-1. */
static void apply_inverse(const cpu_linear *linear, double *x)
{
    int64_t modes = linear->modes, state = 2 * modes;
    double inner[S4_RANK_MAX];
    for (int64_t r = 0; r < linear->rank; r++) inner[r] = closed_product(modes, linear->g + r * state, x);
    for (int64_t r = 0; r < linear->rank; r++) {
        const double *p = linear->p + r * state;
#pragma omp simd
        for (int64_t n = 0; n < state; n++) x[n] -= p[n] * inner[r];
    }
    const double *d_re = linear->d, *d_im = linear->d + modes;
#pragma omp simd
    for (int64_t n = 0; n < modes; n++) {
        double re = x[n], im = x[modes + n];
        x[n] = d_re[n] * re - d_im[n] * im;
        x[modes + n] = d_re[n] * im + d_im[n] * re;
    }
}

void cpu_linear_advance(const cpu_linear *linear, double *x, double *scratch)
{
    int64_t modes = linear->modes, state = 2 * modes;
    const double *e_re = linear->e, *e_im = linear->e + modes;
#pragma omp simd
    for (int64_t n = 0; n < modes; n++) {
        double re = x[n], im = x[modes + n];
        scratch[n] = e_re[n] * re - e_im[n] * im;
        scratch[modes + n] = e_re[n] * im + e_im[n] * re;
    }
    for (int64_t r = 0; r < linear->rank; r++) {
        const double *p = linear->p + r * state;
        double inner = closed_inner(modes, p, x);
#pragma omp simd
        for (int64_t n = 0; n < state; n++) scratch[n] -= p[n] * inner;
    }
    apply_inverse(linear, scratch);
    memcpy(x, scratch, (size_t)state * sizeof *x);
}

/* Rows of g <- capacitance^-1 rows of g, by elimination with row exchange; a zero pivot leaves what is not finite. */
static void solve_capacitance(double capacitance[S4_RANK_MAX][S4_RANK_MAX], int64_t rank, int64_t state, double *g)
{
    for (int64_t k = 0; k < rank; k++) {
        int64_t pivot = k;
        for (int64_t r = k + 1; r < rank; r++)
            if (fabs(capacitance[r][k]) > fabs(capacitance[pivot][k])) pivot = r;
        if (pivot != k) {
            for (int64_t s = 0; s < rank; s++) {
                double swapped = capacitance[k][s];
                capacitance[k][s] = capacitance[pivot][s];
                capacitance[pivot][s] = swapped;
            }
            for (int64_t n = 0; n < state; n++) {
                double swapped = g[k * state + n];
                g[k * state + n] = g[pivot * state + n];
                g[pivot * state + n] = swapped;
            }
        }
        for (int64_t r = k + 1; r < rank; r++) {
            double factor = capacitance[r][k] / capacitance[k][k];
            for (int64_t s = k; s < rank; s++) capacitance[r][s] -= factor * capacitance[k][s];
            for (int64_t n = 0; n < state; n++) g[r * state + n] -= factor * g[k * state + n];
        }
    }
    for (int64_t k = rank - 1; k >= 0; k--) {
        for (int64_t s = k + 1; s < rank; s++)
            for (int64_t n = 0; n < state; n++) g[k * state + n] -= capacitance[k][s] * g[s * state + n];
        for (int64_t n = 0; n < state; n++) g[k * state + n] /= capacitance[k][k];
    }
}

int cpu_linear_build(const s4_shape *shape, const s4_system *system, int64_t h, double dt, const cpu_linear *linear)
{
    int64_t modes = shape->modes, rank = shape->rank, state = 2 * modes;
    int64_t copy = h % shape->n_ssm;
    const double *lambda = system->lambda + copy * state;
    const double *b = system->b + copy * state;
    double half = dt / 2, root = sqrt(half);

    for (int64_t n = 0; n < modes; n++) {
        double a_re = half * lambda[2 * n], a_im = half * lambda[2 * n + 1];
        double norm = (1 - a_re) * (1 - a_re) + a_im * a_im;
        linear->d[n] = (1 - a_re) / norm;
        linear->d[modes + n] = a_im / norm;
        linear->e[n] = 1 + a_re;
        linear->e[modes + n] = a_im;
        linear->b[n] = dt * b[2 * n];
        linear->b[modes + n] = dt * b[2 * n + 1];
    }
    for (int64_t r = 0; r < rank; r++) {
        const double *p = system->p + (r * shape->n_ssm + copy) * state;
        double *row_p = linear->p + r * state, *row_g = linear->g + r * state;
        for (int64_t n = 0; n < modes; n++) {
            double p_re = root * p[2 * n], p_im = root * p[2 * n + 1];
            row_p[n] = p_re;
            row_p[modes + n] = p_im;
            row_g[n] = p_re * linear->d[n] + p_im * linear->d[modes + n];
            row_g[modes + n] = p_re * linear->d[modes + n] - p_im * linear->d[n];
        }
    }

    double capacitance[S4_RANK_MAX][S4_RANK_MAX];
    for (int64_t r = 0; r < rank; r++)
        for (int64_t s = 0; s < rank; s++)
            capacitance[r][s] = (r == s) + closed_product(modes, linear->g + r * state, linear->p + s * state);
    solve_capacitance(capacitance, rank, state, linear->g);
    apply_inverse(linear, linear->b);

    /* A division by zero anywhere above shows in one of these. */
    return cpu_first_not_finite(state, linear->d) < 0 && cpu_first_not_finite(rank * state, linear->g) < 0 &&
           cpu_first_not_finite(state, linear->b) < 0;
}

void cpu_linear_dense(const cpu_linear *linear, double *dA, double *scratch)
{
    int64_t state = 2 * linear->modes;
    double *x = scratch;
    for (int64_t k = 0; k < state; k++) {
        memset(x, 0, (size_t)state * sizeof *x);
        x[k] = 1;
        cpu_linear_advance(linear, x, scratch + state);
        for (int64_t m = 0; m < state; m++) dA[m * state + k] = x[m];
    }
}

/* Real basis (N,N) -> closed layout (2n,2n,2). */
static void close_matrix(int64_t modes, const double *real, double *closed)
{
    int64_t state = 2 * modes;
    for (int64_t m = 0; m < modes; m++)
        for (int64_t k = 0; k < modes; k++) {
            double one_re = real[m * state + k], one_im = real[(modes + m) * state + k];
            double i_re = real[m * state + modes + k], i_im = real[(modes + m) * state + modes + k];
            double x1_re = (one_re + i_im) / 2, x1_im = (one_im - i_re) / 2;
            double x2_re = (one_re - i_im) / 2, x2_im = (one_im + i_re) / 2;
            double *upper = closed + 2 * (m * state + k), *lower = closed + 2 * ((modes + m) * state + k);
            upper[0] = x1_re;
            upper[1] = x1_im;
            upper[state] = x2_re;
            upper[state + 1] = x2_im;
            lower[0] = x2_re;
            lower[1] = -x2_im;
            lower[state] = x1_re;
            lower[state + 1] = -x1_im;
        }
}

static void discretise_channel(const s4_setup *setup, int64_t h, const cpu_lane *lane, double *dA, double *dB,
                               int64_t power, double *dA_power, cpu_failure *failure)
{
    const s4_shape *shape = setup->shape;
    int64_t modes = shape->modes, state = 2 * modes;
    double dt = shape->rate * setup->system.dt[h];
    cpu_linear linear = cpu_linear_view(modes, shape->rank, lane->linear);
    if (!cpu_linear_build(shape, &setup->system, h, dt, &linear)) {
        cpu_failure_merge(failure, &(cpu_failure){.kind = CPU_FAILURE_STEP, .channel = h, .value = dt});
        return;
    }
    if (dB) {
        double *row = dB + h * 2 * state;
        for (int64_t n = 0; n < modes; n++) {
            row[2 * n] = row[state + 2 * n] = linear.b[n];
            row[2 * n + 1] = linear.b[modes + n];
            row[state + 2 * n + 1] = -linear.b[modes + n];
        }
    }
    cpu_linear_dense(&linear, lane->matrix[0], lane->unit);
    if (dA) close_matrix(modes, lane->matrix[0], dA + h * 2 * state * state);
    if (dA_power) {
        const double *raised = cpu_matrix_power(state, lane->matrix[0], power, &lane->matrix[1]);
        close_matrix(modes, raised, dA_power + h * 2 * state * state);
    }
}

s4_status cpu_discrete(const s4_setup *setup, double *dA, double *dB, int64_t power, double *dA_power)
{
    const s4_shape *shape = setup->shape;
    cpu_failure first = {.kind = CPU_FAILURE_NONE};
#pragma omp parallel num_threads(shape->threads)
    {
        cpu_lane lane = cpu_lane_view(shape, setup->matrices, omp_get_thread_num());
        cpu_failure mine = {.kind = CPU_FAILURE_NONE};
#pragma omp for schedule(static)
        for (int64_t h = 0; h < shape->d_model; h++)
            discretise_channel(setup, h, &lane, dA, dB, power, dA_power, &mine);
#pragma omp critical(cpu_failure)
        cpu_failure_merge(&first, &mine);
    }
    return cpu_failure_raise(shape, &first);
}
