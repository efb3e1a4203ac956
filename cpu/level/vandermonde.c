/*
 * Powers of poles, and the two products of their small matrices (cpu/vandermonde.h), in tiles that stay in registers:
 * four rows of a matrix by as many vectors of columns as there is room for.
 */
#include "cpu/level/vandermonde.h"

#include <string.h>

#include "cpu/level/elementary.h"

#if CPU_VECTOR_BYTES == 64
#define VECTORS 4
#else
#define VECTORS 2
#endif
#define COLUMNS (VECTORS * CPU_DOUBLES) /* of a tile */

static cpu_doubles without_whole_turns(cpu_doubles turns) { return turns - ((turns + CPU_ROUNDER) - CPU_ROUNDER); }

/* p^e, 1 where e is 0; e >= 0, one in every lane. */
static void power_of(double log_modulus, cpu_turns turns, cpu_doubles e, cpu_doubles *re, cpu_doubles *im)
{
    cpu_doubles angle = without_whole_turns(e * turns.coarse), sine, cosine;
    angle = without_whole_turns(angle + e * turns.rest);
    cpu_sine_cosine_of_turns(angle, &sine, &cosine);
    cpu_doubles modulus = cpu_exponential(e * log_modulus);
    cpu_masks some = (cpu_masks)(e > 0.0); /* of p = 0, too */
    *re = cpu_select_doubles(some, modulus * cosine, cpu_all_doubles(1.0));
    *im = cpu_select_doubles(some, modulus * sine, cpu_all_doubles(0.0));
}

/* p^(first + step i): of a vector of powers, each is the product of the first one and p^(step lane). Below
 * CPU_LEAST_EXPONENT it is 0, as there. */
static void powers(double log_modulus, cpu_turns turns, int64_t first, int64_t step, int64_t count, double *re,
                   double *im)
{
    const double stride = (double)(step * CPU_DOUBLES);
    cpu_doubles lane = (double)step * cpu_counting_doubles(0.0), lane_re, lane_im, first_re, first_im;
    power_of(log_modulus, turns, lane, &lane_re, &lane_im);
    for (int64_t i = 0; i < count; i += CPU_DOUBLES) {
        const int64_t k = i / CPU_DOUBLES % CPU_DOUBLES;
        if (k == 0)
            power_of(log_modulus, turns,
                     (double)(first + step * i) + stride * cpu_counting_doubles(0.0), &first_re, &first_im);
        cpu_doubles exponent = (double)(first + step * i) + lane;
        cpu_masks seen = ~(cpu_masks)(exponent * log_modulus < CPU_LEAST_EXPONENT);
        cpu_doubles product_re = first_re[k] * lane_re - first_im[k] * lane_im;
        cpu_doubles product_im = first_re[k] * lane_im + first_im[k] * lane_re;
        cpu_store_doubles(re + i, cpu_select_doubles(seen, product_re, cpu_all_doubles(0.0)));
        cpu_store_doubles(im + i, cpu_select_doubles(seen, product_im, cpu_all_doubles(0.0)));
    }
}

/* ---- product --------------------------------------------------------------------------------------------------- */

/* The modes of one order that have not decayed before rows [j, j + ROW_BLOCK), with their factors; how many. */
static int64_t pack_factors(const cpu_vandermonde *v, int reversed, const cpu_complex *c, int64_t j)
{
    int64_t count = 0;
    for (int64_t n = 0; n < v->modes; n++) {
        const int nothing = c[n].re == 0.0 && c[n].im == 0.0; /* whatever its powers are */
        if (v->pole[n].reversed != reversed || v->reach[n] <= j || nothing) continue;
        const double *re = v->coarse + 2 * n * v->padded_rows + j, *im = re + v->padded_rows;
        double *factor = v->factor + 2 * CPU_ROW_BLOCK * count;
        for (int64_t q = 0; q < CPU_ROW_BLOCK; q++) {
            factor[2 * q] = c[n].re * re[q] - c[n].im * im[q];
            factor[2 * q + 1] = -(c[n].re * im[q] + c[n].im * re[q]);
        }
        v->active[count++] = n;
    }
    return count;
}

static void product(const cpu_vandermonde *v, int reversed, const cpu_complex *c, double *row)
{
    for (int64_t j = 0; j < v->rows; j += CPU_ROW_BLOCK) {
        const int64_t count = pack_factors(v, reversed, c, j);
        for (int64_t i = 0; count && i < v->width; i += COLUMNS) {
            const double *fine = v->fine + 2 * (i / CPU_PANEL * CPU_PANEL) * v->modes + i % CPU_PANEL;
            cpu_doubles sum[CPU_ROW_BLOCK][VECTORS];
            for (int q = 0; q < CPU_ROW_BLOCK; q++)
                for (int t = 0; t < VECTORS; t++) sum[q][t] = cpu_all_doubles(0.0);
            for (int64_t a = 0; a < count; a++) {
                const double *fine_re = fine + 2 * CPU_PANEL * v->active[a], *fine_im = fine_re + CPU_PANEL;
                const double *factor = v->factor + 2 * CPU_ROW_BLOCK * a;
                for (int q = 0; q < CPU_ROW_BLOCK; q++)
                    for (int t = 0; t < VECTORS; t++) {
                        sum[q][t] += factor[2 * q] * cpu_load_doubles(fine_re + t * CPU_DOUBLES);
                        sum[q][t] += factor[2 * q + 1] * cpu_load_doubles(fine_im + t * CPU_DOUBLES);
                    }
            }
            for (int q = 0; q < CPU_ROW_BLOCK; q++) {
                const int64_t l = (j + q) * v->width + i;
                if (l + COLUMNS <= v->length) {
                    for (int t = 0; t < VECTORS; t++)
                        cpu_store_doubles(row + l + t * CPU_DOUBLES,
                                          cpu_load_doubles(row + l + t * CPU_DOUBLES) + sum[q][t]);
                } else {
                    double last[COLUMNS];
                    for (int t = 0; t < VECTORS; t++) cpu_store_doubles(last + t * CPU_DOUBLES, sum[q][t]);
                    for (int64_t x = 0; l + x < v->length; x++) row[l + x] += last[x];
                }
            }
        }
    }
}

/* ---- moments --------------------------------------------------------------------------------------------------- */

/* x[i] <- row[l + i], of a row in its own or in reverse order; 0 beyond the last sample. */
static void pack(const cpu_vandermonde *v, int reversed, const double *row, int64_t l, double *x)
{
    const int64_t left = v->length - l, count = left < 0 ? 0 : left < CPU_PANEL ? left : CPU_PANEL;
    if (reversed) {
        for (int64_t i = 0; i < count; i++) x[i] = row[v->length - 1 - l - i];
    } else {
        for (int64_t i = 0; i < count; i++) x[i] = row[l + i];
    }
    for (int64_t i = count; i < CPU_PANEL; i++) x[i] = 0.0;
}

/* Columns [i, i + PANEL) of the row, and of (l + 1) row[l + 1], as matrices (rows, PANEL). */
static void pack_samples(const cpu_vandermonde *v, int reversed, int slopes, const double *row, int64_t i)
{
    double *of_moment = v->samples, *of_slope = of_moment + v->padded_rows * CPU_PANEL;
    for (int64_t j = 0; j < v->rows; j++, of_moment += CPU_PANEL, of_slope += CPU_PANEL) {
        const int64_t l = j * v->width + i;
        pack(v, reversed, row, l, of_moment);
        if (!slopes) continue;
        pack(v, reversed, row, l + 1, of_slope);
        for (int64_t x = 0; x < CPU_PANEL; x += CPU_DOUBLES) {
            cpu_doubles factor = cpu_counting_doubles((double)(l + 1 + x));
            cpu_store_doubles(of_slope + x, factor * cpu_load_doubles(of_slope + x));
        }
    }
}

/* Adds a panel of columns to the sums of two modes (or twice the same one). */
static inline __attribute__((always_inline)) void add_panel(const cpu_vandermonde *v, const double *samples,
                                                            const int64_t *mode, int64_t panel, cpu_doubles (*sums)[2])
{
    const int64_t reach[] = {v->reach[mode[0]], v->reach[mode[1]]}, rows = reach[0] > reach[1] ? reach[0] : reach[1];
    const double *coarse[] = {v->coarse + 2 * mode[0] * v->padded_rows, v->coarse + 2 * mode[1] * v->padded_rows};
    for (int64_t i = 0; i < CPU_PANEL; i += COLUMNS) {
        cpu_doubles re[2][VECTORS], im[2][VECTORS];
        for (int q = 0; q < 2; q++)
            for (int t = 0; t < VECTORS; t++) re[q][t] = im[q][t] = cpu_all_doubles(0.0);
        for (int64_t j = 0; j < rows; j++)
            for (int q = 0; q < 2; q++)
                for (int t = 0; t < VECTORS; t++) {
                    cpu_doubles x = cpu_load_doubles(samples + j * CPU_PANEL + i + t * CPU_DOUBLES);
                    re[q][t] += coarse[q][j] * x;
                    im[q][t] += coarse[q][j + v->padded_rows] * x;
                }
        for (int q = 0; q < 2; q++) {
            const double *fine = v->fine + 2 * CPU_PANEL * (panel * v->modes + mode[q]) + i;
            for (int t = 0; t < VECTORS; t++) {
                cpu_doubles fine_re = cpu_load_doubles(fine + t * CPU_DOUBLES);
                cpu_doubles fine_im = cpu_load_doubles(fine + t * CPU_DOUBLES + CPU_PANEL);
                sums[q][0] += re[q][t] * fine_re;
                sums[q][0] -= im[q][t] * fine_im;
                sums[q][1] -= re[q][t] * fine_im;
                sums[q][1] -= im[q][t] * fine_re;
            }
        }
    }
}

static double sum_of_lanes(cpu_doubles lanes)
{
    double sum = 0.0;
    for (int j = 0; j < CPU_DOUBLES; j++) sum += lanes[j];
    return sum;
}

/* The modes of one order; how many. */
static int64_t pack_modes(const cpu_vandermonde *v, int reversed)
{
    int64_t count = 0;
    for (int64_t n = 0; n < v->modes; n++)
        if (v->pole[n].reversed == reversed) v->active[count++] = n;
    return count;
}

/* What lanes[of] holds of a mode: (re, im) of the moment, of the slope. */
static double *lanes_of(const cpu_vandermonde *v, int64_t n, int of)
{
    return v->lanes + (4 * n + 2 * of) * CPU_DOUBLES;
}

static void moments(const cpu_vandermonde *v, int reversed, const double *row, cpu_complex *moment, cpu_complex *slope)
{
    const int64_t count = pack_modes(v, reversed), sums = slope ? 2 : 1;
    memset(v->lanes, 0, sizeof *v->lanes * (size_t)(4 * S4_VECTOR_LANES * v->modes));
    for (int64_t panel = 0; panel * CPU_PANEL < v->width; panel++) {
        pack_samples(v, reversed, slope != NULL, row, panel * CPU_PANEL);
        for (int64_t a = 0; a < count; a += 2) {
            const int64_t mode[] = {v->active[a], v->active[a + 1 < count ? a + 1 : a]};
            for (int of = 0; of < sums; of++) {
                cpu_doubles sum[2][2];
                for (int q = 0; q < 2; q++) {
                    sum[q][0] = cpu_load_doubles(lanes_of(v, mode[q], of));
                    sum[q][1] = cpu_load_doubles(lanes_of(v, mode[q], of) + CPU_DOUBLES);
                }
                add_panel(v, v->samples + of * v->padded_rows * CPU_PANEL, mode, panel, sum);
                for (int q = 0; q < 2; q++) {
                    cpu_store_doubles(lanes_of(v, mode[q], of), sum[q][0]);
                    cpu_store_doubles(lanes_of(v, mode[q], of) + CPU_DOUBLES, sum[q][1]);
                }
            }
        }
    }
    for (int64_t a = 0; a < count; a++)
        for (int of = 0; of < sums; of++) {
            const double *lanes = lanes_of(v, v->active[a], of);
            cpu_complex *s = (of ? slope : moment) + v->active[a];
            s->re = sum_of_lanes(cpu_load_doubles(lanes));
            s->im = sum_of_lanes(cpu_load_doubles(lanes + CPU_DOUBLES));
        }
}

const cpu_vandermonde_level CPU_AT_LEVEL(cpu_vandermonde_at) = {
    .powers = powers, .product = product, .moments = moments};
