/* The two small matrices of powers, and the sums over modes and over samples: formulas in vandermonde.h. */
#include "cpu/vandermonde.h"

#include <math.h>
#include <string.h>

#define LANES 8 /* partial sums over samples: a constant, so that values do not depend on how a loop is compiled */

static cpu_complex power(const cpu_pole *pole, int64_t exponent)
{
    if (exponent == 0) return (cpu_complex){1.0, 0.0}; /* of p = 0, too */
    double modulus = exp((double)exponent * pole->log_modulus), angle = (double)exponent * pole->angle;
    return (cpu_complex){modulus * cos(angle), modulus * sin(angle)};
}

cpu_vandermonde cpu_vandermonde_make(int64_t modes, int64_t length, cpu_pole *pole, double *base)
{
    cpu_vandermonde v = {.modes = modes, .length = length, .pole = pole};
    v.width = s4_vandermonde_width(length);
    v.rows = cpu_vandermonde_rows(length);
    v.fine_re = base;
    v.fine_im = v.fine_re + modes * v.width;
    v.coarse = v.fine_im + modes * v.width;
    for (int64_t n = 0; n < modes; n++) {
        if (pole[n].reversed) v.reversed++;
        for (int64_t i = 0; i < v.width; i++) {
            cpu_complex p = power(&pole[n], i);
            v.fine_re[n * v.width + i] = p.re;
            v.fine_im[n * v.width + i] = p.im;
        }
        for (int64_t j = 0; j < v.rows; j++) {
            cpu_complex p = power(&pole[n], j * v.width);
            v.coarse[2 * (n * v.rows + j)] = p.re;
            v.coarse[2 * (n * v.rows + j) + 1] = p.im;
        }
    }
    return v;
}

static int is_zero(cpu_complex x) { return x.re == 0.0 && x.im == 0.0; }

static int64_t samples_of_row(const cpu_vandermonde *v, int64_t j)
{
    int64_t left = v->length - j * v->width;
    return left < v->width ? left : v->width;
}

static cpu_complex coarse_power(const cpu_vandermonde *v, int64_t n, int64_t j)
{
    const double *power_of_row = v->coarse + 2 * (n * v->rows + j);
    return (cpu_complex){power_of_row[0], power_of_row[1]};
}

/* row[l] += Re sum over the modes of one order. */
static void add_product(const cpu_vandermonde *v, int reversed, const cpu_complex *c, double *row)
{
    for (int64_t j = 0; j < v->rows; j++) {
        double *samples = row + j * v->width;
        int64_t count = samples_of_row(v, j);
        for (int64_t n = 0; n < v->modes; n++) {
            if (v->pole[n].reversed != reversed || is_zero(c[n])) continue;
            const double *fine_re = v->fine_re + n * v->width, *fine_im = v->fine_im + n * v->width;
            cpu_complex factor = cpu_times(c[n], coarse_power(v, n, j));
            if (is_zero(factor)) continue; /* decayed */
#pragma omp simd
            for (int64_t i = 0; i < count; i++) samples[i] += factor.re * fine_re[i] - factor.im * fine_im[i];
        }
    }
}

static void reverse(int64_t length, double *row)
{
    for (int64_t l = 0; l < length / 2; l++) {
        double swapped = row[l];
        row[l] = row[length - 1 - l];
        row[length - 1 - l] = swapped;
    }
}

void cpu_vandermonde_product(const cpu_vandermonde *v, const cpu_complex *c, double *row)
{
    memset(row, 0, sizeof *row * v->length);
    if (v->reversed) {
        add_product(v, 1, c, row);
        reverse(v->length, row);
    }
    if (v->reversed < v->modes) add_product(v, 0, c, row);
}

static double sum_of_lanes(const double *lane)
{
    double sum = 0.0;
    for (int q = 0; q < LANES; q++) sum += lane[q];
    return sum;
}

/* sum over i of samples[i] conj(fine[i]) */
static cpu_complex moment(int64_t count, const double *samples, const double *fine_re, const double *fine_im)
{
    double re[LANES] = {0}, im[LANES] = {0};
    int64_t whole = count / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int q = 0; q < LANES; q++) {
            re[q] += samples[i + q] * fine_re[i + q];
            im[q] -= samples[i + q] * fine_im[i + q];
        }
    for (int64_t i = whole; i < count; i++) {
        re[i - whole] += samples[i] * fine_re[i];
        im[i - whole] -= samples[i] * fine_im[i];
    }
    return (cpu_complex){sum_of_lanes(re), sum_of_lanes(im)};
}

void cpu_vandermonde_moments(const cpu_vandermonde *v, int reversed, const double *row, cpu_complex *s)
{
    for (int64_t n = 0; n < v->modes; n++)
        if (v->pole[n].reversed == reversed) s[n] = (cpu_complex){0.0, 0.0};
    for (int64_t j = 0; j < v->rows; j++) {
        int64_t count = samples_of_row(v, j);
        for (int64_t n = 0; n < v->modes; n++) {
            cpu_complex coarse = coarse_power(v, n, j);
            if (v->pole[n].reversed != reversed || is_zero(coarse)) continue;
            cpu_complex of_row =
                moment(count, row + j * v->width, v->fine_re + n * v->width, v->fine_im + n * v->width);
            cpu_complex term = cpu_times((cpu_complex){coarse.re, -coarse.im}, of_row);
            s[n].re += term.re;
            s[n].im += term.im;
        }
    }
}
