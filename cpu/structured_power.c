/*
 * Powers of dA of a DPLR channel in O(R N^2 log L): binary powers of X, which commutes with A'
 * (structured_displacement.c).
 *   X <- X X   by displacement (cpu/level/structured.c);
 *   X <- dA X, dA = diag(f) - p g^T (discretise.c):   u <- dA u,   v <- dA* v,   X_ij <- f_i X_ij - p_i (g^T X)_j.
 */
#include "cpu/structured_power.h"

#include <string.h>

_Static_assert(sizeof(cpu_carried) <= 2 * sizeof(double), "carried entries fit their part of s4_structured_power");

/* ---- layout ------------------------------------------------------------------------------------------------------ */

static int64_t commuting_rows(int64_t rank) { return 4 * rank + 4; }

static double *view_commuting(const cpu_displacement *d, double *at, cpu_commuting *x)
{
    x->u = at;
    x->v = x->u + d->rank * 2 * d->padded;
    x->own = x->v + d->rank * 2 * d->padded;
    x->mirror = x->own + 2 * d->padded;
    x->carried = (cpu_complex *)(at + commuting_rows(d->rank) * d->padded);
    return (double *)(x->carried + d->modes);
}

cpu_power cpu_power_view(const s4_device *device, const s4_shape *shape, const cpu_lane *lane)
{
    int64_t modes = shape->modes, padded = s4_padded_modes(modes), rank = shape->rank;
    cpu_power power = {.shape = shape, .level = cpu_structured_at(device), .lane = lane, .copy = -1};
    cpu_displacement *d = &power.displacement;
    *d = (cpu_displacement){.modes = modes, .padded = padded, .rank = rank};
    struct {
        double **rows;
        int64_t count;
    } parts[] = {{&d->inverse, 4 * modes * padded},
                 {&d->strip[0], 4 * 8 * modes},
                 {&d->strip[1], 4 * 8 * modes},
                 {&d->left, rank * 2 * padded},
                 {&d->right, rank * 2 * padded},
                 {&power.lambda, 2 * padded},
                 {&power.rotation, 2 * padded},
                 {&power.inverse_rotation, 2 * padded},
                 {&power.f, 2 * padded},
                 {&power.p, rank * 2 * padded},
                 {&power.g, rank * 2 * padded},
                 {&power.g_product, rank * 2 * padded},
                 {&power.row, 2 * padded},
                 {&power.product, 2 * padded}};
    double *at = lane->matrix[0];
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        *parts[i].rows = at;
        at += parts[i].count;
    }
    at = view_commuting(d, at, &power.x);
    at = view_commuting(d, at, &power.next);
    d->carried = (cpu_carried *)at;
    return power;
}

/* ---- products with dA --------------------------------------------------------------------------------------------- */

/* The rows of a cpu_linear, rotated. Its g are [2 Re g, -2 Im g]. */
static void put_linear(cpu_power *power, const cpu_linear *linear)
{
    int64_t modes = linear->modes, state = 2 * modes, padded = power->displacement.padded;
    memset(power->f, 0, (size_t)((2 + 4 * linear->rank) * padded) * sizeof *power->f);
    for (int64_t n = 0; n < modes; n++) cpu_split_put(power->f, padded, n, cpu_split_at(linear->f, modes, n));
    for (int64_t r = 0; r < linear->rank; r++)
        for (int64_t n = 0; n < modes; n++) {
            cpu_complex p = cpu_split_at(linear->p + r * state, modes, n),
                        twice_g = cpu_conjugate(cpu_split_at(linear->g + r * state, modes, n));
            cpu_complex g = {twice_g.re / 2, twice_g.im / 2};
            cpu_split_put(power->p + r * 2 * padded, padded, n,
                          cpu_times(p, cpu_split_at(power->inverse_rotation, padded, n)));
            cpu_split_put(power->g + r * 2 * padded, padded, n, cpu_times(g, cpu_split_at(power->rotation, padded, n)));
        }
}

/* x <- diag(f) x - left (right^T x), or, conjugated, diag(conj f) x - conj(left) (conj(right)^T x); of closed vectors, whose
 * products are twice a real part. */
static void apply_linear(const cpu_power *power, const double *left, const double *right, int conjugated, double *x)
{
    const cpu_displacement *d = &power->displacement;
    int64_t modes = d->modes, padded = d->padded;
    const double sign = conjugated ? -1 : 1;
    double inner[S4_RANK_MAX];
    for (int64_t r = 0; r < d->rank; r++) {
        const double *of_r = right + r * 2 * padded;
        double re = cpu_inner(modes, of_r, x), im = cpu_inner(modes, of_r + padded, x + padded);
        inner[r] = 2 * (re - sign * im);
    }
    for (int64_t n = 0; n < modes; n++) {
        cpu_complex f = cpu_split_at(power->f, padded, n),
                    sum = cpu_times((cpu_complex){f.re, sign * f.im}, cpu_split_at(x, padded, n));
        for (int64_t r = 0; r < d->rank; r++) {
            cpu_complex of_r = cpu_split_at(left + r * 2 * padded, padded, n);
            sum.re -= of_r.re * inner[r];
            sum.im -= sign * of_r.im * inner[r];
        }
        cpu_split_put(x, padded, n, sum);
    }
}

/* f_i x - sum over r of p_ir product_jr, of entry x = (i,j), or with its conjugate: (i,n+j) */
static cpu_complex advanced(const cpu_power *power, int64_t i, int64_t j, int half, cpu_complex x)
{
    int64_t padded = power->displacement.padded;
    cpu_complex sum = cpu_times(cpu_split_at(power->f, padded, i), x);
    for (int64_t r = 0; r < power->displacement.rank; r++) {
        cpu_complex product = cpu_split_at(power->g_product + r * 2 * padded, padded, j);
        cpu_complex taken =
            cpu_times(cpu_split_at(power->p + r * 2 * padded, padded, i), half ? cpu_conjugate(product) : product);
        sum.re -= taken.re;
        sum.im -= taken.im;
    }
    return sum;
}

/* X <- dA X; g_product is g^T X */
static void multiply(cpu_power *power)
{
    const cpu_displacement *d = &power->displacement;
    const cpu_commuting *x = &power->x;
    int64_t padded = d->padded;
    for (int64_t n = 0; n < d->modes; n++) {
        cpu_split_put(x->own, padded, n, advanced(power, n, n, 0, cpu_split_at(x->own, padded, n)));
        cpu_split_put(x->mirror, padded, n, advanced(power, n, n, 1, cpu_split_at(x->mirror, padded, n)));
    }
    for (int64_t e = 0; e < d->carried_count; e++)
        x->carried[e] = advanced(power, d->carried[e].i, d->carried[e].j, d->carried[e].half, x->carried[e]);
    for (int64_t r = 0; r < d->rank; r++) {
        apply_linear(power, power->p, power->g, 0, x->u + r * 2 * padded);
        if (d->rank > 1) apply_linear(power, power->g, power->p, 1, x->v + r * 2 * padded);
    }
}

static void multiply_by_dA(cpu_power *power)
{
    const cpu_displacement *d = &power->displacement;
    for (int64_t r = 0; r < d->rank; r++)
        power->level->row_times(d, &power->x, power->g + r * 2 * d->padded, power->g_product + r * 2 * d->padded);
    multiply(power);
}

/* dA I: what X = I would give for g^T X is g. */
static void begin(cpu_power *power)
{
    const cpu_displacement *d = &power->displacement;
    cpu_commuting *x = &power->x;
    size_t columns = (size_t)(d->rank * 2 * d->padded) * sizeof(double);
    memset(x->u, 0, (size_t)(commuting_rows(d->rank) * d->padded) * sizeof(double));
    memset(x->carried, 0, (size_t)d->carried_count * sizeof *x->carried);
    memcpy(x->u, d->left, columns);
    memcpy(x->v, d->right, columns);
    memcpy(power->g_product, power->g, columns);
    for (int64_t n = 0; n < d->modes; n++) x->own[n] = 1;
    multiply(power);
}

/* ---- squares ----------------------------------------------------------------------------------------------------- */

static cpu_complex entry(const cpu_power *power, const cpu_commuting *x, int64_t i, int64_t j, int half)
{
    const cpu_displacement *d = &power->displacement;
    int64_t padded = d->padded;
    if (i == j) return cpu_split_at(half ? x->mirror : x->own, padded, i);
    for (int64_t e = 0; e < d->carried_count; e++)
        if (d->carried[e].i == i && d->carried[e].j == j && d->carried[e].half == half) return x->carried[e];
    cpu_complex sum = {0, 0};
    for (int64_t r = 0; r < d->rank; r++) {
        const double *left = d->left + r * 2 * padded, *right = d->rank == 1 ? left : d->right + r * 2 * padded;
        cpu_complex u_i = cpu_split_at(x->u + r * 2 * padded, padded, i), R_j = cpu_split_at(right, padded, j);
        cpu_complex v_j = d->rank == 1 ? cpu_conjugate(cpu_split_at(x->u, padded, j))
                                       : cpu_split_at(x->v + r * 2 * padded, padded, j);
        cpu_complex of_left = cpu_times(cpu_split_at(left, padded, i), half ? v_j : cpu_conjugate(v_j));
        cpu_complex of_u = cpu_times(u_i, half ? R_j : cpu_conjugate(R_j));
        sum = (cpu_complex){sum.re + of_left.re - of_u.re, sum.im + of_left.im - of_u.im};
    }
    return cpu_quotient(sum, cpu_power_gap(power, i, j, half));
}

/* Carried entries of x x: entry (n+k, j) is the conjugate of (k, n+j). */
static void square_carried(const cpu_power *power, const cpu_commuting *x, const cpu_commuting *out)
{
    const cpu_displacement *d = &power->displacement;
    for (int64_t e = 0; e < d->carried_count; e++) {
        int64_t i = d->carried[e].i, j = d->carried[e].j;
        int half = d->carried[e].half;
        cpu_complex sum = {0, 0};
        for (int64_t k = 0; k < d->modes; k++) {
            cpu_complex near = cpu_times(entry(power, x, i, k, 0), entry(power, x, k, j, half));
            cpu_complex far = cpu_times(entry(power, x, i, k, 1), cpu_conjugate(entry(power, x, k, j, !half)));
            sum.re += near.re + far.re;
            sum.im += near.im + far.im;
        }
        out->carried[e] = sum;
    }
}

static void square(cpu_power *power)
{
    power->level->square(&power->displacement, &power->x, &power->next);
    square_carried(power, &power->x, &power->next);
    cpu_commuting squared = power->next;
    power->next = power->x;
    power->x = squared;
}

static void raise(cpu_power *power, int64_t length)
{
    int bit = 0;
    while (length >> (bit + 1)) bit++;
    begin(power);
    while (bit-- > 0) {
        square(power);
        if (length >> bit & 1) multiply_by_dA(power);
    }
}

/* ---- X ----------------------------------------------------------------------------------------------------------- */

static void raise_dense(cpu_power *power, const cpu_linear *linear, int64_t length)
{
    double *const *matrix = power->lane->matrix;
    cpu_linear_dense(linear, matrix[0]);
    power->dense = cpu_matrix_power(2 * power->shape->modes, matrix[0], length, &matrix[1]);
    power->dense_next = power->dense == matrix[1] ? matrix[2] : matrix[1];
    power->copy = -1;
}

int cpu_power_raise(cpu_power *power, const s4_system *system, int64_t h, double scale, int64_t length)
{
    const s4_shape *shape = power->shape;
    cpu_linear linear = cpu_linear_view(shape->modes, shape->rank, power->lane->linear);
    if (!cpu_linear_build(shape, system, h, scale, &linear)) return 0;
    cpu_power_open(power, system, h);
    if (power->is_dense)
        raise_dense(power, &linear, length);
    else {
        put_linear(power, &linear);
        raise(power, length);
    }
    return 1;
}

int cpu_power_is_finite(const cpu_power *power)
{
    const cpu_displacement *d = &power->displacement;
    int64_t state = 2 * d->modes;
    if (power->is_dense) return cpu_first_not_finite(state * state, power->dense) < 0;
    int64_t columns = d->rank * 2 * d->padded;
    if (cpu_first_not_finite(columns, power->x.u) >= 0 || cpu_first_not_finite(4 * d->padded, power->x.own) >= 0)
        return 0;
    return d->rank == 1 || cpu_first_not_finite(columns, power->x.v) < 0;
}

void cpu_power_double(cpu_power *power)
{
    int64_t state = 2 * power->shape->modes;
    if (!power->is_dense) {
        square(power);
        return;
    }
    double *squared = power->dense_next;
    cpu_matrix_product(state, power->dense, power->dense, squared);
    power->dense_next = power->dense;
    power->dense = squared;
}

void cpu_power_row(cpu_power *power, const double *row, double *out)
{
    int64_t modes = power->shape->modes, padded = power->displacement.padded;
    if (power->is_dense) {
        cpu_row_times_matrix(2 * modes, row, power->dense, out);
        return;
    }
    for (int64_t n = 0; n < modes; n++)
        cpu_split_put(power->row, padded, n,
                      cpu_times((cpu_complex){row[n], -row[modes + n]}, cpu_split_at(power->rotation, padded, n)));
    power->level->row_times(&power->displacement, &power->x, power->row, power->product);
    for (int64_t n = 0; n < modes; n++) {
        cpu_complex c =
            cpu_times(cpu_split_at(power->product, padded, n), cpu_split_at(power->inverse_rotation, padded, n));
        cpu_split_put(out, modes, n, cpu_conjugate(c));
    }
}

/* One mode's pair of entries, X1_ij and X2_ij, into the real basis: columns for 1 and for i are X1 + X2 and i (X1 - X2). */
static void put_real(double *matrix, int64_t modes, int64_t i, int64_t j, cpu_complex x1, cpu_complex x2)
{
    int64_t state = 2 * modes;
    matrix[i * state + j] = x1.re + x2.re;
    matrix[i * state + modes + j] = x2.im - x1.im;
    matrix[(modes + i) * state + j] = x1.im + x2.im;
    matrix[(modes + i) * state + modes + j] = x1.re - x2.re;
}

double *cpu_power_matrix(cpu_power *power)
{
    if (power->is_dense) return power->dense;
    const cpu_displacement *d = &power->displacement;
    int64_t modes = d->modes, padded = d->padded, lanes = power->level->lanes;
    double *matrix = power->lane->matrix[2];
    for (int64_t first = 0; first < modes; first += lanes) {
        power->level->rows(d, &power->x, first, d->strip[0]);
        for (int64_t i = first; i < modes && i < first + lanes; i++)
            for (int64_t j = 0; j < modes; j++) {
                const double *of_j = d->strip[0] + j * 4 * lanes + (i - first);
                cpu_complex back = cpu_split_at(power->inverse_rotation, padded, j),
                            turn = cpu_split_at(power->rotation, padded, i);
                cpu_complex x1 = cpu_times((cpu_complex){of_j[0], of_j[lanes]}, cpu_times(turn, back));
                cpu_complex x2 = cpu_times((cpu_complex){of_j[2 * lanes], of_j[3 * lanes]},
                                           cpu_times(turn, cpu_conjugate(back)));
                put_real(matrix, modes, i, j, x1, x2);
            }
    }
    return matrix;
}
