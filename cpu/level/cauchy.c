/*
 * Sums of the generating function with the frequencies of a tile in the lanes of vectors: over the modes, to K^; and,
 * of the gradient, over the frequencies. Per mode and frequency there is one division, 1 / den, which all pairs share
 * and the gradient finds in the scratch of its tile. Formulas in cpu/cauchy.h and cpu/kernel_backward.c.
 *
 * The sums of a group of pairs stay in registers; a group is as many pairs as these have room for.
 */
#include "cpu/level/cauchy.h"

#include <string.h>

#include "cpu/level/woodbury.h"

#define PI 3.14159265358979323846
#define INLINE static inline __attribute__((always_inline))

#if CPU_VECTOR_BYTES == 64
#define GROUP 4
#else
#define GROUP 2
#endif
#define VECTORS (CPU_TILE / CPU_DOUBLES) /* of a tile */

typedef struct angles {
    cpu_doubles sine, cosine, sine_squared, cosine_squared, product;
} angles;

static angles load_angles(const cpu_cauchy *work, int64_t vector)
{
    const double *at = work->angle + vector * CPU_DOUBLES;
    return (angles){cpu_load_doubles(at), cpu_load_doubles(at + CPU_TILE), cpu_load_doubles(at + 2 * CPU_TILE),
                    cpu_load_doubles(at + 3 * CPU_TILE), cpu_load_doubles(at + 4 * CPU_TILE)};
}

/* Angles pi k / L of the frequencies from `first` on; beyond the last, L/2, the last is repeated. An angle is measured
 * from the nearer end of [0, pi/2], so that both functions have full relative precision and the cosine at Nyquist (k =
 * L/2) is 0, the sine 1, exactly. */
static void make_angles(const cpu_cauchy *work, int64_t first, int64_t vectors)
{
    cpu_doubles length = cpu_all_doubles((double)work->length), last = cpu_all_doubles((double)(work->length / 2));
    for (int64_t vector = 0; vector < vectors; vector++) {
        cpu_doubles k = cpu_counting_doubles((double)(first + vector * CPU_DOUBLES));
        k = cpu_select_doubles((cpu_masks)(k < last), k, last);
        cpu_doubles from_zero = 2.0 * k, from_nyquist = length - from_zero;
        cpu_masks low = (cpu_masks)(from_zero <= from_nyquist);
        cpu_doubles s, c;
        cpu_sine_cosine(PI * cpu_select_doubles(low, from_zero, from_nyquist) / (2.0 * length), &s, &c);
        cpu_doubles sine = cpu_select_doubles(low, s, c), cosine = cpu_select_doubles(low, c, s);
        double *at = work->angle + vector * CPU_DOUBLES;
        cpu_store_doubles(at, sine);
        cpu_store_doubles(at + CPU_TILE, cosine);
        cpu_store_doubles(at + 2 * CPU_TILE, sine * sine);
        cpu_store_doubles(at + 3 * CPU_TILE, cosine * cosine);
        cpu_store_doubles(at + 4 * CPU_TILE, sine * cosine);
    }
}

/* ---- sums over modes ------------------------------------------------------------------------------------------- */

/* sigma of `count` pairs from `pair` on at one vector of frequencies. `make`: 1 / den, too. */
INLINE void sum_group(const cpu_cauchy *work, int64_t vector, int64_t pair, int count, int make)
{
    const int64_t modes = work->channel->modes, per_mode = cpu_cauchy_terms(work->channel);
    const angles a = load_angles(work, vector);
    cpu_doubles p_re[GROUP], p_im[GROUP], q_re[GROUP], q_im[GROUP];
    for (int i = 0; i < count; i++) p_re[i] = p_im[i] = q_re[i] = q_im[i] = cpu_all_doubles(0.0);
    for (int64_t n = 0; n < modes; n++) {
        const double *term = work->terms + n * per_mode, *of_pair = term + 2 + 2 * pair;
        double *stored = work->inverse + n * 2 * CPU_TILE + vector * CPU_DOUBLES;
        cpu_doubles inverse_re, inverse_im;
        if (make) {
            cpu_doubles den_re = a.cosine_squared * term[1] - a.sine_squared;
            cpu_doubles minus_den_im = a.product * term[0];
            cpu_doubles scale = 1.0 / (den_re * den_re + minus_den_im * minus_den_im);
            inverse_re = den_re * scale;
            inverse_im = minus_den_im * scale;
            cpu_store_doubles(stored, inverse_re);
            cpu_store_doubles(stored + CPU_TILE, inverse_im);
        } else {
            inverse_re = cpu_load_doubles(stored);
            inverse_im = cpu_load_doubles(stored + CPU_TILE);
        }
        for (int i = 0; i < count; i++) {
            p_re[i] += of_pair[2 * i] * inverse_re;
            p_im[i] += of_pair[2 * i] * inverse_im;
            q_re[i] += of_pair[2 * i + 1] * inverse_re;
            q_im[i] += of_pair[2 * i + 1] * inverse_im;
        }
    }
    for (int i = 0; i < count; i++) {
        double *sigma = work->sigma + (pair + i) * 2 * CPU_TILE + vector * CPU_DOUBLES;
        cpu_store_doubles(sigma, a.cosine * q_re[i] - a.sine * p_im[i]);
        cpu_store_doubles(sigma + CPU_TILE, a.cosine * q_im[i] + a.sine * p_re[i]);
    }
}

INLINE void sum_group_of(const cpu_cauchy *work, int64_t vector, int64_t pair, int64_t count, int make)
{
    switch (count) {
    case 1:
        sum_group(work, vector, pair, 1, make);
        break;
    case 2:
        sum_group(work, vector, pair, 2, make);
        break;
    case 3:
        sum_group(work, vector, pair, GROUP < 3 ? GROUP : 3, make);
        break;
    default:
        sum_group(work, vector, pair, GROUP, make);
        break;
    }
}

/* sigma of the pairs from `pair` on, and 1 / den, at the first `vectors` vectors of a tile. */
static void sum_over_modes(const cpu_cauchy *work, int64_t pair, int64_t vectors)
{
    const int64_t pairs = work->channel->pairs;
    for (int64_t vector = 0; vector < vectors; vector++) {
        sum_group_of(work, vector, pair, pairs - pair, 1);
        for (int64_t next = pair + GROUP; next < pairs; next += GROUP)
            sum_group_of(work, vector, next, pairs - next, 0);
    }
}

/* ---- low rank -------------------------------------------------------------------------------------------------- */

INLINE cpu_complexes load_sigma(const cpu_cauchy *work, int64_t vector, int64_t b, int64_t c)
{
    const double *sigma = work->sigma + cpu_pair(work->channel, b, c) * 2 * CPU_TILE + vector * CPU_DOUBLES;
    return (cpu_complexes){cpu_load_doubles(sigma), cpu_load_doubles(sigma + CPU_TILE)};
}

/* I + c sigma_11, or its transpose. */
INLINE void load_matrix(const cpu_cauchy *work, int64_t vector, int rank, int transposed, cpu_doubles cosine,
                        cpu_complexes (*matrix)[S4_RANK_MAX])
{
    for (int r = 0; r < rank; r++)
        for (int s = 0; s < rank; s++) {
            cpu_complexes entry = load_sigma(work, vector, 1 + r, cpu_column_of_q(work->channel, s));
            entry = cpu_scaled_complexes(cosine, entry);
            if (r == s) entry.re += 1.0;
            *(transposed ? &matrix[s][r] : &matrix[r][s]) = entry;
        }
}

/* z = sigma_01 (I + c sigma_11)^-1 */
INLINE void make_z(const cpu_cauchy *work, int64_t vector, int rank, cpu_doubles cosine, cpu_complexes *z)
{
    cpu_complexes matrix[S4_RANK_MAX][S4_RANK_MAX];
    load_matrix(work, vector, rank, 1, cosine, matrix);
    for (int r = 0; r < rank; r++) z[r] = load_sigma(work, vector, 0, cpu_column_of_q(work->channel, r));
    cpu_solve(rank, matrix, z);
}

/* Interleaved complex numbers of one vector of frequencies, of which `count` are in the row. */
static void store_row(double *row, int64_t count, cpu_doubles re, cpu_doubles im)
{
    double parts[2 * CPU_DOUBLES];
    for (int j = 0; j < CPU_DOUBLES; j++) {
        parts[2 * j] = re[j];
        parts[2 * j + 1] = im[j];
    }
    if (count >= CPU_DOUBLES)
        memcpy(row, parts, sizeof parts);
    else
        memcpy(row, parts, sizeof *parts * 2 * (size_t)count);
}

/* K^ of all kernels at one vector of frequencies, of which `count` are in the rows, the first of these at `at`. Returns
 * zeros, or NaN where it is not finite. */
INLINE cpu_doubles make_spectrum(const cpu_cauchy *work, int64_t vector, int rank, int64_t at, int64_t count)
{
    const angles a = load_angles(work, vector);
    cpu_complexes z[S4_RANK_MAX];
    cpu_doubles poison = {0};
    make_z(work, vector, rank, a.cosine, z);
    for (int64_t k = 0; k < work->channel->kernels; k++) {
        cpu_complexes correction = {{0}, {0}};
        for (int r = 0; r < rank; r++)
            correction = cpu_plus_product(correction, z[r], load_sigma(work, vector, 1 + r, k));
        cpu_complexes kappa = load_sigma(work, vector, 0, k);
        kappa.re -= a.cosine * correction.re;
        kappa.im -= a.cosine * correction.im;
        cpu_doubles re = a.cosine * kappa.re - a.sine * kappa.im, im = a.cosine * kappa.im + a.sine * kappa.re;
        poison += 0.0 * re + 0.0 * im;
        store_row(work->rows + k * work->row_stride + 2 * at, count, re, im);
    }
    return poison;
}

static int64_t vectors_of(int64_t frequencies)
{
    return frequencies >= CPU_TILE ? VECTORS : (frequencies + CPU_DOUBLES - 1) / CPU_DOUBLES;
}

static int spectrum(const cpu_cauchy *work, int64_t first, int64_t count)
{
    cpu_doubles poison = {0};
    for (int64_t done = 0; done < count; done += CPU_TILE) {
        const int64_t vectors = vectors_of(count - done);
        make_angles(work, first + done, vectors);
        sum_over_modes(work, 0, vectors);
        for (int64_t vector = 0; vector < vectors; vector++) {
            const int64_t ahead = done + vector * CPU_DOUBLES, at = first + ahead, left = count - ahead;
            switch (work->channel->rank) {
            case 1:
                poison += make_spectrum(work, vector, 1, at, left);
                break;
            case 2:
                poison += make_spectrum(work, vector, 2, at, left);
                break;
            default:
                poison += make_spectrum(work, vector, (int)work->channel->rank, at, left);
                break;
            }
        }
    }
    int finite = 1;
    for (int j = 0; j < CPU_DOUBLES; j++) finite &= poison[j] == 0.0;
    return finite;
}

/* ---- gradient: adjoints of sigma ------------------------------------------------------------------------------- */

/* Of one pair: its conj g_bc, times c and times S. */
INLINE void store_adjoint(const cpu_cauchy *work, int64_t vector, const angles *a, int64_t b, int64_t c,
                          cpu_complexes conj_g)
{
    double *adjoint = work->adjoint + cpu_pair(work->channel, b, c) * 4 * CPU_TILE + vector * CPU_DOUBLES;
    cpu_store_doubles(adjoint, a->cosine * conj_g.re);
    cpu_store_doubles(adjoint + CPU_TILE, a->cosine * conj_g.im);
    cpu_store_doubles(adjoint + 2 * CPU_TILE, a->sine * conj_g.re);
    cpu_store_doubles(adjoint + 3 * CPU_TILE, a->sine * conj_g.im);
}

/* conj g of a kernel, g = e^(-i theta) gK^; 0 for frequencies beyond the last. */
static cpu_complexes load_gradient(const cpu_cauchy *work, const angles *a, int64_t k, int64_t at, int64_t count)
{
    const double *row = work->rows + k * work->row_stride + 2 * at;
    cpu_complexes g_row = {{0}, {0}};
    for (int64_t j = 0; j < CPU_DOUBLES && j < count; j++) {
        double multiplicity = at + j == 0 || 2 * (at + j) == work->length ? 1.0 : 2.0;
        double weight = multiplicity / (double)work->length;
        g_row.re[j] = weight * row[2 * j];
        g_row.im[j] = weight * row[2 * j + 1];
    }
    cpu_complexes conj_g;
    conj_g.re = a->cosine * g_row.re + a->sine * g_row.im;
    conj_g.im = a->sine * g_row.re - a->cosine * g_row.im;
    return conj_g;
}

/* Adjoints of the pairs that are wanted, at one vector of frequencies. */
INLINE void make_adjoints(const cpu_cauchy *work, int system, int64_t vector, int rank, int64_t at, int64_t count)
{
    const cpu_channel *channel = work->channel;
    const angles a = load_angles(work, vector);
    cpu_complexes matrix[S4_RANK_MAX][S4_RANK_MAX], z[S4_RANK_MAX], y[S4_RANK_MAX] = {0};
    make_z(work, vector, rank, a.cosine, z);
    for (int64_t k = 0; k < channel->kernels; k++) {
        cpu_complexes conj_g = load_gradient(work, &a, k, at, count);
        store_adjoint(work, vector, &a, 0, k, conj_g);
        for (int r = 0; r < rank; r++) {
            cpu_complexes conj_g_10 = cpu_scaled_complexes(-a.cosine, cpu_product(conj_g, z[r]));
            store_adjoint(work, vector, &a, 1 + r, k, conj_g_10);
            if (system) y[r] = cpu_plus_product(y[r], conj_g, load_sigma(work, vector, 1 + r, k));
        }
    }
    if (!system) return;
    load_matrix(work, vector, rank, 0, a.cosine, matrix);
    cpu_solve(rank, matrix, y);
    for (int s = 0; s < rank; s++) {
        const int64_t column = cpu_column_of_q(channel, s);
        cpu_complexes conj_g_01 = cpu_scaled_complexes(-a.cosine, y[s]);
        store_adjoint(work, vector, &a, 0, column, conj_g_01);
        for (int r = 0; r < rank; r++) {
            cpu_complexes conj_g_11 = cpu_scaled_complexes(a.cosine_squared, cpu_product(z[r], y[s]));
            store_adjoint(work, vector, &a, 1 + r, column, conj_g_11);
        }
    }
}

/* ---- gradient: sums over frequencies --------------------------------------------------------------------------- */

typedef struct mode {
    const double *term, *inverse;
    double *lanes;
} mode;

INLINE cpu_doubles load_lanes(const mode *of, int64_t sum) { return cpu_load_doubles(of->lanes + sum * CPU_DOUBLES); }
INLINE void store_lanes(const mode *of, int64_t sum, cpu_doubles v)
{
    cpu_store_doubles(of->lanes + sum * CPU_DOUBLES, v);
}

/* Adds a tile of frequencies to X and Y of `count` pairs of a mode. `poles`: adds conj g num to `moment`, which begins
 * from 0 if `first`; U and V are made of it if `last`. */
INLINE void add_group(const cpu_cauchy *work, const mode *of, int64_t vectors, int64_t pair, int count, int poles,
                      int first, int last, cpu_complexes *moment)
{
    const double *of_pair = of->term + 2 + 2 * pair;
    cpu_doubles x[GROUP], y[GROUP], u = {0}, v = {0};
    for (int i = 0; i < count; i++) {
        x[i] = load_lanes(of, 2 + 2 * (pair + i));
        y[i] = load_lanes(of, 3 + 2 * (pair + i));
    }
    if (last) {
        u = load_lanes(of, 0);
        v = load_lanes(of, 1);
    }
    for (int64_t vector = 0; vector < vectors; vector++) {
        const double *adjoint = work->adjoint + pair * 4 * CPU_TILE + vector * CPU_DOUBLES;
        cpu_doubles inverse_re = cpu_load_doubles(of->inverse + vector * CPU_DOUBLES);
        cpu_doubles inverse_im = cpu_load_doubles(of->inverse + vector * CPU_DOUBLES + CPU_TILE);
        cpu_complexes sum = {{0}, {0}};
        if (poles && !first) sum = moment[vector];
        for (int i = 0; i < count; i++) {
            double p = of_pair[2 * i], q = of_pair[2 * i + 1];
            cpu_doubles c_re = cpu_load_doubles(adjoint + i * 4 * CPU_TILE);
            cpu_doubles c_im = cpu_load_doubles(adjoint + i * 4 * CPU_TILE + CPU_TILE);
            cpu_doubles s_re = cpu_load_doubles(adjoint + i * 4 * CPU_TILE + 2 * CPU_TILE);
            cpu_doubles s_im = cpu_load_doubles(adjoint + i * 4 * CPU_TILE + 3 * CPU_TILE);
            x[i] += c_re * inverse_re;
            x[i] -= c_im * inverse_im;
            y[i] += s_re * inverse_im;
            y[i] += s_im * inverse_re;
            if (!poles) continue;
            sum.re += q * c_re;
            sum.re -= p * s_im;
            sum.im += q * c_im;
            sum.im += p * s_re;
        }
        if (poles && !last) moment[vector] = sum;
        if (!last) continue;
        const double *angle = work->angle + vector * CPU_DOUBLES;
        cpu_doubles a_num_re = sum.re * inverse_re - sum.im * inverse_im;
        cpu_doubles a_num_im = sum.re * inverse_im + sum.im * inverse_re;
        cpu_doubles e_re = a_num_re * inverse_re - a_num_im * inverse_im;
        cpu_doubles e_im = a_num_re * inverse_im + a_num_im * inverse_re;
        u += cpu_load_doubles(angle + 3 * CPU_TILE) * e_re;
        v += cpu_load_doubles(angle + 4 * CPU_TILE) * e_im;
    }
    for (int i = 0; i < count; i++) {
        store_lanes(of, 2 + 2 * (pair + i), x[i]);
        store_lanes(of, 3 + 2 * (pair + i), y[i]);
    }
    if (last) {
        store_lanes(of, 0, u);
        store_lanes(of, 1, v);
    }
}

INLINE void add_last_group(const cpu_cauchy *work, const mode *of, int64_t vectors, int64_t pair, int64_t count,
                           int poles, int first, cpu_complexes *moment)
{
    switch (count) {
    case 1:
        add_group(work, of, vectors, pair, 1, poles, first, poles, moment);
        break;
    case 2:
        add_group(work, of, vectors, pair, 2, poles, first, poles, moment);
        break;
    case 3:
        add_group(work, of, vectors, pair, GROUP < 3 ? GROUP : 3, poles, first, poles, moment);
        break;
    default:
        add_group(work, of, vectors, pair, GROUP, poles, first, poles, moment);
        break;
    }
}

INLINE void sum_over_frequencies(const cpu_cauchy *work, int system, int64_t vectors)
{
    const cpu_channel *channel = work->channel;
    const int64_t pairs = system ? channel->pairs : channel->kernels * channel->side;
    const int64_t per_mode = cpu_cauchy_terms(channel);
    cpu_complexes moment[VECTORS];
    for (int64_t n = 0; n < channel->modes; n++) {
        const mode of = {work->terms + n * per_mode, work->inverse + n * 2 * CPU_TILE,
                         work->lanes + n * per_mode * CPU_DOUBLES};
        if (pairs <= GROUP) {
            add_last_group(work, &of, vectors, 0, pairs, system, 1, moment);
            continue;
        }
        add_group(work, &of, vectors, 0, GROUP, system, 1, 0, moment);
        int64_t pair = GROUP;
        for (; pair + GROUP < pairs; pair += GROUP) add_group(work, &of, vectors, pair, GROUP, system, 0, 0, moment);
        add_last_group(work, &of, vectors, pair, pairs - pair, system, 0, moment);
    }
}

/* Only z, and, of the system, y need sums over modes: sigma_01 and sigma_11, and sigma_1k. */
static void gradient(const cpu_cauchy *work, int system, int64_t first, int64_t count)
{
    const cpu_channel *channel = work->channel;
    const int64_t sums = channel->modes * cpu_cauchy_terms(channel);
    memset(work->lanes, 0, sizeof *work->lanes * (size_t)(sums * CPU_DOUBLES));
    for (int64_t done = 0; done < count; done += CPU_TILE) {
        const int64_t vectors = vectors_of(count - done);
        make_angles(work, first + done, vectors);
        sum_over_modes(work, system ? channel->kernels : channel->kernels * channel->side, vectors);
        for (int64_t vector = 0; vector < vectors; vector++) {
            const int64_t ahead = done + vector * CPU_DOUBLES, at = first + ahead, left = count - ahead;
            switch (channel->rank) {
            case 1:
                make_adjoints(work, system, vector, 1, at, left);
                break;
            case 2:
                make_adjoints(work, system, vector, 2, at, left);
                break;
            default:
                make_adjoints(work, system, vector, (int)channel->rank, at, left);
                break;
            }
        }
        if (system)
            sum_over_frequencies(work, 1, vectors);
        else
            sum_over_frequencies(work, 0, vectors);
    }
    for (int64_t i = 0; i < sums; i++) {
        double total = 0.0;
        for (int j = 0; j < CPU_DOUBLES; j++) total += work->lanes[i * CPU_DOUBLES + j];
        work->totals[i] += total;
    }
}

const cpu_cauchy_level CPU_AT_LEVEL(cpu_cauchy_at) = {.spectrum = spectrum, .gradient = gradient};
