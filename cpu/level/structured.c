/*
 * Squares of matrices that commute with A, and their rows, O(R N^2): see structured.h. With X' = X X,
 *   u' = X u,   v' = X* v,   own'_i = sum over k of X_ik X_ki,   mirror'_i = sum over k of X_ik X_k,n+i.
 * Lanes are successive i. Strips of rows hold X_i,j and X_i,n+j; strips of columns X_j,i and X_n+j,i, and column n+i is the
 * conjugate of column i with its halves exchanged. Of a symmetric matrix a strip of rows is one of columns.
 */
#include "cpu/level/structured.h"

#include <math.h>

#include "cpu/level/vector.h"

#define LANES CPU_DOUBLES
#define PART (4 * LANES) /* of a strip, for one j */

typedef cpu_doubles lanes;
typedef int64_t lanes_mask __attribute__((vector_size(CPU_VECTOR_BYTES)));

static lanes load(const double *from) { return cpu_load_doubles(from); }

/* ---- eigenvalues ------------------------------------------------------------------------------------------------- */

static double *strip_entry(double *strip, int64_t i, int64_t j, int half)
{
    return strip + j * PART + half * 2 * LANES + i % LANES;
}

static void put_entry(double *entry, double re, double im)
{
    entry[0] = re;
    entry[LANES] = im;
}

static double *inverse_of(const cpu_displacement *d, int64_t first)
{
    return d->inverse + first / LANES * d->modes * PART;
}

static int invert(const cpu_displacement *d, const double *lambda, const double *sizes)
{
    const double *re = lambda, *im = lambda + d->padded;
    lanes_mask near = {0};
    for (int64_t first = 0; first < d->padded; first += LANES) {
        lanes re_i = load(re + first), im_i = load(im + first);
        lanes left_i = load(sizes + first), right_i = load(sizes + d->padded + first);
        double *strip = inverse_of(d, first);
        for (int64_t j = 0; j < d->modes; j++) {
            lanes gap = re_i - re[j], apart = im_i - im[j], across = im_i + im[j];
            lanes square_apart = gap * gap + apart * apart, square_across = gap * gap + across * across;
            if (j >= first && j < first + LANES) square_apart[j - first] = square_across[j - first] = INFINITY;
            lanes bound = left_i * sizes[d->padded + j] + right_i * sizes[j];
            bound = bound * (1 / (CPU_NEAR * CPU_NEAR)) + CPU_NEAR_LEAST;
            near |= (square_apart < bound) | (square_across < bound);
            lanes of_apart = 1 / square_apart, of_across = 1 / square_across;
            double *to = strip + j * PART;
            cpu_store_doubles(to, gap * of_apart);
            cpu_store_doubles(to + LANES, -apart * of_apart);
            cpu_store_doubles(to + 2 * LANES, gap * of_across);
            cpu_store_doubles(to + 3 * LANES, -across * of_across);
        }
    }
    for (int64_t i = 0; i < d->modes; i++)
        for (int half = 0; half < 2; half++) put_entry(strip_entry(inverse_of(d, i), i, i, half), 0, 0);
    for (int64_t e = 0; e < d->carried_count; e++) {
        cpu_carried at = d->carried[e];
        put_entry(strip_entry(inverse_of(d, at.i), at.i, at.j, at.half), 0, 0);
    }
    int any = 0;
    for (int lane = 0; lane < LANES; lane++) any |= near[lane] != 0;
    return any;
}

/* ---- strips ------------------------------------------------------------------------------------------------------ */

/* What is kept, into a strip of rows (columns: of X_j,i and X_n+j,i = conj(X_j,n+i)). */
static void put_kept(const cpu_displacement *d, const cpu_commuting *x, int64_t first, int columns, double *strip)
{
    int64_t padded = d->padded, end = first + LANES < d->modes ? first + LANES : d->modes;
    for (int64_t i = first; i < end; i++) {
        double mirror_im = x->mirror[padded + i];
        put_entry(strip_entry(strip, i, i, 0), x->own[i], x->own[padded + i]);
        put_entry(strip_entry(strip, i, i, 1), x->mirror[i], columns ? -mirror_im : mirror_im);
    }
    for (int64_t e = 0; e < d->carried_count; e++) {
        cpu_carried at = d->carried[e];
        int64_t i = columns ? at.j : at.i, j = columns ? at.i : at.j;
        if (i < first || i >= end) continue;
        double im = x->carried[e].im;
        put_entry(strip_entry(strip, i, j, at.half), x->carried[e].re, columns && at.half ? -im : im);
    }
}

/* numerators times inverses, of one j */
static inline void put_quotients(const double *inverse, lanes re0, lanes im0, lanes re1, lanes im1, double *to)
{
    lanes d_re = load(inverse), d_im = load(inverse + LANES);
    cpu_store_doubles(to, re0 * d_re - im0 * d_im);
    cpu_store_doubles(to + LANES, re0 * d_im + im0 * d_re);
    d_re = load(inverse + 2 * LANES), d_im = load(inverse + 3 * LANES);
    cpu_store_doubles(to + 2 * LANES, re1 * d_re - im1 * d_im);
    cpu_store_doubles(to + 3 * LANES, re1 * d_im + im1 * d_re);
}

/* Rank 1: p_i u_j - u_i p_j, and the same with conj(u_j). */
static void symmetric_rows(const cpu_displacement *d, const cpu_commuting *x, int64_t first, double *strip)
{
    const double *p = d->left, *u_re = x->u, *u_im = x->u + d->padded, *inverse = inverse_of(d, first);
    lanes p_i = load(p + first), re_i = load(u_re + first), im_i = load(u_im + first);
    for (int64_t j = 0; j < d->modes; j++) {
        lanes re = p_i * u_re[j] - re_i * p[j], across = im_i * p[j], along = p_i * u_im[j];
        put_quotients(inverse + j * PART, re, along - across, re, -along - across, strip + j * PART);
    }
    put_kept(d, x, first, 0, strip);
}

/* Sums over r of +-(a conj(b_j)) and +-(a b_j); a: lanes i. */
typedef struct numerators {
    lanes conj_re, conj_im, plain_re, plain_im;
} numerators;

static inline void add_pair(numerators *sum, lanes a_re, lanes a_im, double b_re, double b_im)
{
    sum->conj_re += a_re * b_re + a_im * b_im;
    sum->conj_im += a_im * b_re - a_re * b_im;
    sum->plain_re += a_re * b_re - a_im * b_im;
    sum->plain_im += a_im * b_re + a_re * b_im;
}

/* X* has L and R, u and v exchanged: a strip of columns of X is, but for what it is divided by, the conjugate of its rows. */
static inline __attribute__((always_inline)) void general_strip(const cpu_displacement *d, const cpu_commuting *x,
                                                                int64_t first, double *strip, int64_t rank, int columns)
{
    int64_t padded = d->padded;
    const double *inverse = inverse_of(d, first);
    const double *left = columns ? d->right : d->left, *v = columns ? x->u : x->v;
    const double *right = columns ? d->left : d->right, *u = columns ? x->v : x->u;
    for (int64_t j = 0; j < d->modes; j++) {
        numerators sum = {{0}, {0}, {0}, {0}};
        for (int64_t r = 0; r < rank; r++) {
            int64_t re = r * 2 * padded, im = re + padded;
            add_pair(&sum, load(left + re + first), load(left + im + first), v[re + j], v[im + j]);
            add_pair(&sum, -load(u + re + first), -load(u + im + first), right[re + j], right[im + j]);
        }
        lanes conj_im = columns ? -sum.conj_im : sum.conj_im, plain_im = columns ? -sum.plain_im : sum.plain_im;
        put_quotients(inverse + j * PART, sum.conj_re, conj_im, sum.plain_re, plain_im, strip + j * PART);
    }
    put_kept(d, x, first, columns, strip);
}

static inline __attribute__((always_inline)) void strip_of(const cpu_displacement *d, const cpu_commuting *x,
                                                           int64_t first, double *strip, int columns)
{
    switch (d->rank) {
    case 1: symmetric_rows(d, x, first, strip); return;
    case 2: general_strip(d, x, first, strip, 2, columns); return;
    case 3: general_strip(d, x, first, strip, 3, columns); return;
    default: general_strip(d, x, first, strip, d->rank, columns);
    }
}

static void rows(const cpu_displacement *d, const cpu_commuting *x, int64_t first, double *strip)
{
    strip_of(d, x, first, strip, 0);
}

static void columns(const cpu_displacement *d, const cpu_commuting *x, int64_t first, double *strip)
{
    strip_of(d, x, first, strip, 1);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

typedef struct complex_lanes {
    lanes re, im;
} complex_lanes;

static inline void store_pair(double *split, int64_t padded, int64_t first, complex_lanes value)
{
    cpu_store_doubles(split + first, value.re);
    cpu_store_doubles(split + padded + first, value.im);
}

/* sum over k of row_ik x_k, x closed: entries with j times x_j, with n+j times conj(x_j). */
static inline complex_lanes apply_rows(int64_t modes, const double *strip, const double *x_re, const double *x_im)
{
    complex_lanes sum = {{0}, {0}};
    for (int64_t j = 0; j < modes; j++) {
        const double *of_j = strip + j * PART;
        lanes re = load(of_j), im = load(of_j + LANES), far_re = load(of_j + 2 * LANES), far_im = load(of_j + 3 * LANES);
        sum.re += (re + far_re) * x_re[j] - (im - far_im) * x_im[j];
        sum.im += (im + far_im) * x_re[j] + (re - far_re) * x_im[j];
    }
    return sum;
}

/* sum over k of conj(column_ki) x_k */
static inline complex_lanes apply_columns(int64_t modes, const double *strip, const double *x_re, const double *x_im)
{
    complex_lanes sum = {{0}, {0}};
    for (int64_t j = 0; j < modes; j++) {
        const double *of_j = strip + j * PART;
        lanes re = load(of_j), im = load(of_j + LANES), far_re = load(of_j + 2 * LANES), far_im = load(of_j + 3 * LANES);
        sum.re += (re + far_re) * x_re[j] + (im - far_im) * x_im[j];
        sum.im += (re - far_re) * x_im[j] - (im + far_im) * x_re[j];
    }
    return sum;
}

/* Products of rows i with columns i and n+i. */
static inline void multiply_strips(int64_t modes, const double *of_rows, const double *of_columns, complex_lanes *own,
                                   complex_lanes *mirror)
{
    for (int64_t j = 0; j < modes; j++) {
        const double *r = of_rows + j * PART, *c = of_columns + j * PART;
        lanes r_re = load(r), r_im = load(r + LANES), r_far_re = load(r + 2 * LANES), r_far_im = load(r + 3 * LANES);
        lanes c_re = load(c), c_im = load(c + LANES), c_far_re = load(c + 2 * LANES), c_far_im = load(c + 3 * LANES);
        own->re += r_re * c_re - r_im * c_im;
        own->re += r_far_re * c_far_re - r_far_im * c_far_im;
        own->im += r_re * c_im + r_im * c_re;
        own->im += r_far_re * c_far_im + r_far_im * c_far_re;
        mirror->re += r_re * c_far_re + r_im * c_far_im;
        mirror->re += r_far_re * c_re + r_far_im * c_im;
        mirror->im += r_im * c_far_re - r_re * c_far_im;
        mirror->im += r_far_im * c_re - r_far_re * c_im;
    }
}

/* The same of a symmetric matrix: mirrors are real. */
static inline void square_strip(int64_t modes, const double *strip, complex_lanes *own, complex_lanes *mirror)
{
    lanes half_im = {0}, half_mirror = {0};
    for (int64_t j = 0; j < modes; j++) {
        const double *r = strip + j * PART;
        lanes re = load(r), im = load(r + LANES), far_re = load(r + 2 * LANES), far_im = load(r + 3 * LANES);
        own->re += re * re - im * im;
        own->re += far_re * far_re - far_im * far_im;
        half_im += re * im;
        half_im += far_re * far_im;
        half_mirror += re * far_re;
        half_mirror += im * far_im;
    }
    own->im = 2 * half_im;
    mirror->re = 2 * half_mirror;
}

static void square(const cpu_displacement *d, const cpu_commuting *x, const cpu_commuting *out)
{
    int64_t modes = d->modes, padded = d->padded;
    int is_symmetric = d->rank == 1;
    for (int64_t first = 0; first < padded; first += LANES) {
        const double *of_rows = d->strip[0], *of_columns = d->strip[1];
        complex_lanes own = {{0}, {0}}, mirror = {{0}, {0}};
        rows(d, x, first, d->strip[0]);
        if (is_symmetric)
            square_strip(modes, of_rows, &own, &mirror);
        else {
            columns(d, x, first, d->strip[1]);
            multiply_strips(modes, of_rows, of_columns, &own, &mirror);
        }
        store_pair(out->own, padded, first, own);
        store_pair(out->mirror, padded, first, mirror);
        for (int64_t r = 0; r < d->rank; r++) {
            int64_t re = r * 2 * padded, im = re + padded;
            store_pair(out->u + re, padded, first, apply_rows(modes, of_rows, x->u + re, x->u + im));
            if (is_symmetric) break;
            store_pair(out->v + re, padded, first, apply_columns(modes, of_columns, x->v + re, x->v + im));
        }
    }
}

static void row_times(const cpu_displacement *d, const cpu_commuting *x, const double *row, double *out)
{
    int64_t modes = d->modes, padded = d->padded;
    for (int64_t first = 0; first < padded; first += LANES) {
        columns(d, x, first, d->strip[0]);
        store_pair(out, padded, first, apply_rows(modes, d->strip[0], row, row + padded));
    }
}

const cpu_structured CPU_AT_LEVEL(cpu_structured_at) = {
    .lanes = LANES, .invert = invert, .square = square, .row_times = row_times, .rows = rows};
