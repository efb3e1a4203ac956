/*
 * Discretisation of one channel of A = Lambda - P P* (P absent in diagonal layers), by mode with the step sizes dt:
 *   bilinear  dA = (I - dt/2 A)^-1 (I + dt/2 A),   dB = (I - dt/2 A)^-1 dt B
 *   zoh       dA = e^a,   dB = dt phi1(a) B,   a = dt Lambda; diagonal layers only.
 *
 * Bilinear, with the half step a = dt/2 Lambda, d = 1/(1 - a), and by Woodbury:
 *   (I - dt/2 A)^-1 x = d o (x - dt/2 P (g^T x)),   g = (I_R + 2 Re sum_n conj(P) d dt/2 P^T)^-1 (conj(P) o d);
 * and since dA is twice that less I, one step is O(nR):
 *   dA x = f o x - p (g^T x),   f = (1 + a)/(1 - a),   p = d o dt P.
 * g^T x sums over the closed vector (n modes and their conjugates): twice the real part of the sum over the stored
 * ones. So the coefficients of the low-rank term are real, and a product of the rows [2 Re g, -2 Im g] and [Re x, Im
 * x].
 *
 * If the closed dA is [[X1, X2], [conj X2, conj X1]], the step is x -> X1 x + X2 conj x; in the real basis [Re x; Im x]
 * its columns for 1 and i in mode k are X1 + X2 and i (X1 - X2).
 */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "cpu/phi.h"
#include "cpu/place.h"

void cpu_split(int64_t modes, const double *interleaved, double *split)
{
    double *re = split, *im = split + modes;
#pragma omp simd
    for (int64_t n = 0; n < modes; n++) {
        re[n] = interleaved[2 * n];
        im[n] = interleaved[2 * n + 1];
    }
}

void cpu_interleave(int64_t modes, const double *split, double *interleaved)
{
    const double *re = split, *im = split + modes;
#pragma omp simd
    for (int64_t n = 0; n < modes; n++) {
        interleaved[2 * n] = re[n];
        interleaved[2 * n + 1] = im[n];
    }
}

/* ---- one step ---------------------------------------------------------------------------------------------------- */

cpu_linear cpu_linear_view(int64_t modes, int64_t rank, double *base)
{
    int64_t state = 2 * modes;
    cpu_linear linear = {.modes = modes, .rank = rank};
    linear.f = base;
    linear.b = linear.f + state;
    linear.p = linear.b + state;
    linear.g = linear.p + rank * state;
    return linear;
}

void cpu_linear_advance(const cpu_linear *linear, double u, double *x)
{
    int64_t modes = linear->modes, state = 2 * modes;
    const double *f_re = linear->f, *f_im = linear->f + modes;
    const double *b_re = linear->b, *b_im = linear->b + modes;
    double *x_re = x, *x_im = x + modes;
    double inner[S4_RANK_MAX];
    for (int64_t r = 0; r < linear->rank; r++) inner[r] = cpu_inner(state, linear->g + r * state, x);
#pragma omp simd
    for (int64_t n = 0; n < modes; n++) {
        double re = x_re[n], im = x_im[n];
        x_re[n] = f_re[n] * re - f_im[n] * im + b_re[n] * u;
        x_im[n] = f_re[n] * im + f_im[n] * re + b_im[n] * u;
    }
    for (int64_t r = 0; r < linear->rank; r++) {
        const double *p = linear->p + r * state;
        double factor = inner[r];
#pragma omp simd
        for (int64_t n = 0; n < state; n++) x[n] -= p[n] * factor;
    }
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

/* The system of one channel as it is built from: rows of its copy, and its steps. */
typedef struct channel {
    const s4_shape *shape;
    const s4_system *system;
    int64_t h, copy;
    double scale;
} channel;

static cpu_complex complex_at(const double *rows, int64_t index)
{
    return (cpu_complex){rows[2 * index], rows[2 * index + 1]};
}
static double dt_of(const channel *c, int64_t n) { return c->scale * cpu_dt(c->shape, c->system, c->h, n); }
static cpu_complex lambda_of(const channel *c, int64_t n)
{
    return complex_at(c->system->lambda, c->copy * c->shape->modes + n);
}
static cpu_complex b_of(const channel *c, int64_t n) { return complex_at(c->system->b, c->copy * c->shape->modes + n); }
static cpu_complex p_of(const channel *c, int64_t r, int64_t n)
{
    return complex_at(c->system->p, (r * c->shape->n_ssm + c->copy) * c->shape->modes + n);
}

static void put_split(double *split, int64_t modes, int64_t n, cpu_complex value)
{
    split[n] = value.re;
    split[modes + n] = value.im;
}

static void build_zoh(const channel *c, const cpu_linear *linear)
{
    for (int64_t n = 0; n < linear->modes; n++) {
        double dt = dt_of(c, n);
        cpu_complex lambda = lambda_of(c, n), b = b_of(c, n);
        cpu_complex a = {dt * lambda.re, dt * lambda.im};
        put_split(linear->f, linear->modes, n, cpu_exp(a));
        put_split(linear->b, linear->modes, n, cpu_times(cpu_phi1(a), (cpu_complex){dt * b.re, dt * b.im}));
    }
}

/* The diagonal part, and what the low-rank one is made from: p, and g before the capacitance is solved. */
static void build_modes(const channel *c, const cpu_linear *linear)
{
    int64_t modes = linear->modes;
    for (int64_t n = 0; n < modes; n++) {
        double dt = dt_of(c, n);
        cpu_complex lambda = lambda_of(c, n), b = b_of(c, n);
        cpu_complex a = {dt / 2 * lambda.re, dt / 2 * lambda.im};
        cpu_complex denominator = {1 - a.re, -a.im};
        cpu_complex d = cpu_quotient((cpu_complex){1, 0}, denominator);
        put_split(linear->f, modes, n, cpu_quotient((cpu_complex){1 + a.re, a.im}, denominator));
        put_split(linear->b, modes, n, cpu_times(d, (cpu_complex){dt * b.re, dt * b.im}));
        for (int64_t r = 0; r < linear->rank; r++) {
            cpu_complex p = p_of(c, r, n), g = cpu_times((cpu_complex){p.re, -p.im}, d);
            put_split(linear->p + r * 2 * modes, modes, n, cpu_times(d, (cpu_complex){dt * p.re, dt * p.im}));
            put_split(linear->g + r * 2 * modes, modes, n, (cpu_complex){2 * g.re, -2 * g.im});
        }
    }
}

static void build_low_rank(const channel *c, const cpu_linear *linear)
{
    int64_t modes = linear->modes, rank = linear->rank, state = 2 * modes;
    double capacitance[S4_RANK_MAX][S4_RANK_MAX];
    for (int64_t r = 0; r < rank; r++)
        for (int64_t s = 0; s < rank; s++) {
            double sum = r == s;
            for (int64_t n = 0; n < modes; n++) {
                cpu_complex p = p_of(c, r, n);
                sum += p.re * linear->p[s * state + n] + p.im * linear->p[s * state + modes + n];
            }
            capacitance[r][s] = sum;
        }
    solve_capacitance(capacitance, rank, state, linear->g);

    for (int64_t r = 0; r < rank; r++) {
        const double *g = linear->g + r * state, *p = linear->p + r * state;
        double inner = 0;
        for (int64_t n = 0; n < modes; n++) {
            cpu_complex b = b_of(c, n);
            inner += dt_of(c, n) * (g[n] * b.re + g[modes + n] * b.im);
        }
        for (int64_t n = 0; n < state; n++) linear->b[n] -= p[n] * inner / 2;
    }
}

int cpu_linear_build(const s4_shape *shape, const s4_system *system, int64_t h, double scale, const cpu_linear *linear)
{
    channel c = {shape, system, h, h % shape->n_ssm, scale};
    if (shape->discretisation == S4_ZOH)
        build_zoh(&c, linear);
    else {
        build_modes(&c, linear);
        build_low_rank(&c, linear);
    }
    /* A division by zero or an overflow anywhere above shows in one of the rows. */
    return cpu_first_not_finite(cpu_linear_rows(linear->rank) * 2 * linear->modes, linear->f) < 0;
}

void cpu_linear_dense(const cpu_linear *linear, double *dA)
{
    int64_t modes = linear->modes, state = 2 * modes;
    memset(dA, 0, (size_t)(state * state) * sizeof *dA);
    for (int64_t n = 0; n < modes; n++) {
        dA[n * state + n] = linear->f[n];
        dA[n * state + modes + n] = -linear->f[modes + n];
        dA[(modes + n) * state + n] = linear->f[modes + n];
        dA[(modes + n) * state + modes + n] = linear->f[n];
    }
    for (int64_t r = 0; r < linear->rank; r++) {
        const double *p = linear->p + r * state, *g = linear->g + r * state;
        for (int64_t m = 0; m < state; m++) {
            double *row = dA + m * state;
#pragma omp simd
            for (int64_t k = 0; k < state; k++) row[k] -= p[m] * g[k];
        }
    }
}

/* ---- the discrete system ----------------------------------------------------------------------------------------- */

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

/* Where the results go; each may be NULL. */
typedef struct discrete {
    double *dA, *dB, *dA_power;
    int64_t power;
} discrete;

static void put_closed(const discrete *out, const cpu_linear *linear, const cpu_lane *lane, int64_t h)
{
    int64_t modes = linear->modes, state = 2 * modes;
    if (out->dB) {
        double *row = out->dB + h * 2 * state;
        for (int64_t n = 0; n < modes; n++) {
            row[2 * n] = row[state + 2 * n] = linear->b[n];
            row[2 * n + 1] = linear->b[modes + n];
            row[state + 2 * n + 1] = -linear->b[modes + n];
        }
    }
    if (!out->dA && !out->dA_power) return;
    cpu_linear_dense(linear, lane->matrix[0]);
    if (out->dA) close_matrix(modes, lane->matrix[0], out->dA + h * 2 * state * state);
    if (out->dA_power) {
        const double *raised = cpu_matrix_power(state, lane->matrix[0], out->power, &lane->matrix[1]);
        close_matrix(modes, raised, out->dA_power + h * 2 * state * state);
    }
}

cpu_complex cpu_complex_power(cpu_complex base, int64_t exponent)
{
    cpu_complex power = {1, 0};
    for (; exponent; exponent >>= 1) {
        if (exponent & 1) power = cpu_times(power, base);
        base = cpu_times(base, base);
    }
    return power;
}

static void put_modes(const discrete *out, const cpu_linear *linear, int64_t h)
{
    int64_t modes = linear->modes, state = 2 * modes;
    if (out->dA) cpu_interleave(modes, linear->f, out->dA + h * state);
    if (out->dB) cpu_interleave(modes, linear->b, out->dB + h * state);
    for (int64_t n = 0; out->dA_power && n < modes; n++) {
        cpu_complex raised = cpu_complex_power((cpu_complex){linear->f[n], linear->f[modes + n]}, out->power);
        out->dA_power[h * state + 2 * n] = raised.re;
        out->dA_power[h * state + 2 * n + 1] = raised.im;
    }
}

static void discretise_channel(const s4_setup *setup, int64_t h, const cpu_lane *lane, const discrete *out,
                               cpu_failure *failure)
{
    const s4_shape *shape = setup->shape;
    cpu_linear linear = cpu_linear_view(shape->modes, shape->rank, lane->linear);
    if (!cpu_linear_build(shape, &setup->system, h, shape->rate, &linear)) {
        double dt = shape->rate * cpu_dt(shape, &setup->system, h, 0);
        cpu_failure_merge(failure, &(cpu_failure){.kind = CPU_FAILURE_STEP, .channel = h, .value = dt});
    } else if (shape->mode == S4_MODE_DIAG)
        put_modes(out, &linear, h);
    else
        put_closed(out, &linear, lane, h);
}

s4_status cpu_discrete(const s4_setup *setup, double *dA, double *dB, int64_t power, double *dA_power)
{
    const s4_shape *shape = setup->shape;
    const discrete out = {dA, dB, dA_power, power};
    cpu_failure first = {.kind = CPU_FAILURE_NONE};
#pragma omp parallel num_threads(cpu_lanes(shape->threads))
    {
        cpu_lane lane = cpu_lane_view(shape, setup->matrices, omp_get_thread_num());
        cpu_failure mine = {.kind = CPU_FAILURE_NONE};
#pragma omp for schedule(static)
        for (int64_t h = 0; h < shape->d_model; h++) discretise_channel(setup, h, &lane, &out, &mine);
#pragma omp critical(cpu_failure)
        cpu_failure_merge(&first, &mine);
    }
    return cpu_failure_raise(shape, &first);
}
