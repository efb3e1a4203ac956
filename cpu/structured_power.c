/*
 * Powers of dA of a DPLR channel in O(R N^2 log L): binary powers of X, which commutes with A' = diag(dt) A = dt Lambda - (dt P) P*;
 * where all modes have one step size, with A itself: differences of eigenvalues then belong to the copy, not to the channel.
 *   X <- X X   by displacement (cpu/level/structured.c);
 *   X <- dA X, dA = diag(f) - p g^T (discretise.c):   u <- dA u,   v <- dA* v,   X_ij <- f_i X_ij - p_i (g^T X)_j.
 *
 * Rank 1 is made symmetric, D^-1 A' D = Lambda' - q q^T with q_i = sqrt(dt_i) |P_i| and D_i = sqrt(dt_i) P_i / |P_i|. All is
 * scaled by a power of two, so that the largest eigenvalue is of size 1 to 2.
 */
#include "cpu/structured_power.h"

#include <math.h>
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

/* ---- eigenvalues ------------------------------------------------------------------------------------------------- */

static cpu_complex at(const double *split, int64_t padded, int64_t n)
{
    return (cpu_complex){split[n], split[padded + n]};
}

static void put(double *split, int64_t padded, int64_t n, cpu_complex value)
{
    split[n] = value.re;
    split[padded + n] = value.im;
}

static cpu_complex difference(const cpu_power *power, int64_t i, int64_t j, int half)
{
    const double *re = power->lambda, *im = power->lambda + power->displacement.padded;
    return (cpu_complex){re[i] - re[j], half ? im[i] + im[j] : im[i] - im[j]};
}

/* Entries whose eigenvalues nearly coincide, (i,j) with (j,i); 0 if they are too many: one costs O(N), a squaring O(N^2). The
 * bound is twice that of the level, which rounds otherwise. */
static int find_carried(cpu_power *power, const double *sizes)
{
    cpu_displacement *d = &power->displacement;
    const double *left = sizes, *right = sizes + d->padded;
    for (int i = 0; i < d->modes; i++)
        for (int j = 0; j < i; j++)
            for (int half = 0; half < 2; half++) {
                cpu_complex gap = difference(power, i, j, half);
                double bound = (left[i] * right[j] + left[j] * right[i]) / (CPU_NEAR * CPU_NEAR) + CPU_NEAR_LEAST;
                if (gap.re * gap.re + gap.im * gap.im >= 2 * bound) continue;
                if (d->carried_count + 2 > d->modes) return 0;
                d->carried[d->carried_count++] = (cpu_carried){i, j, half};
                d->carried[d->carried_count++] = (cpu_carried){j, i, half};
            }
    return 1;
}

/* Lambda', L, R and the rotation of a channel, whose step sizes matter only if they are not all one. */
static void build_displacement(cpu_power *power, const s4_system *system, int64_t h)
{
    const s4_shape *shape = power->shape;
    cpu_displacement *d = &power->displacement;
    int64_t modes = d->modes, padded = d->padded, copy = h % shape->n_ssm;
    int is_untied = shape->dt_modes > 1, is_symmetric = d->rank == 1;
    memset(d->left, 0, (size_t)(4 * d->rank * padded) * sizeof *d->left);

    double largest = 0;
    for (int64_t n = 0; n < modes; n++) {
        const double *lambda = system->lambda + 2 * (copy * modes + n);
        double dt = is_untied ? cpu_dt(shape, system, h, n) : 1;
        put(power->lambda, padded, n, (cpu_complex){dt * lambda[0], dt * lambda[1]});
        largest = fmax(largest, hypot(dt * lambda[0], dt * lambda[1]));
    }
    double scale = largest > 0 ? ldexp(1, -ilogb(largest)) : 1;
    for (int64_t n = 0; n < modes; n++) {
        power->lambda[n] *= scale;
        power->lambda[padded + n] *= scale;
    }
    for (int64_t n = modes; n < padded; n++) put(power->lambda, padded, n, (cpu_complex){4, 0});

    for (int64_t n = 0; n < padded; n++) {
        put(power->rotation, padded, n, (cpu_complex){1, 0});
        put(power->inverse_rotation, padded, n, (cpu_complex){1, 0});
    }
    for (int64_t r = 0; r < d->rank; r++)
        for (int64_t n = 0; n < modes; n++) {
            const double *p = system->p + 2 * ((r * shape->n_ssm + copy) * modes + n);
            double dt = is_untied ? cpu_dt(shape, system, h, n) : 1, size = hypot(p[0], p[1]);
            double *left = d->left + r * 2 * padded, *right = d->right + r * 2 * padded;
            if (!is_symmetric) {
                put(left, padded, n, (cpu_complex){scale * dt * p[0], scale * dt * p[1]});
                put(right, padded, n, (cpu_complex){p[0], p[1]});
                continue;
            }
            cpu_complex phase = size > 0 ? (cpu_complex){p[0] / size, p[1] / size} : (cpu_complex){1, 0};
            double root = sqrt(dt);
            left[n] = sqrt(scale) * root * size;
            put(power->rotation, padded, n, (cpu_complex){root * phase.re, root * phase.im});
            put(power->inverse_rotation, padded, n, (cpu_complex){phase.re / root, -phase.im / root});
        }
}

/* |L_i|^2 and |R_i|^2 */
static void squared_sizes(const cpu_displacement *d, double *sizes)
{
    memset(sizes, 0, (size_t)(2 * d->padded) * sizeof *sizes);
    for (int64_t r = 0; r < d->rank; r++)
        for (int64_t n = 0; n < d->modes; n++) {
            cpu_complex left = at(d->left + r * 2 * d->padded, d->padded, n);
            cpu_complex right = d->rank == 1 ? left : at(d->right + r * 2 * d->padded, d->padded, n);
            sizes[n] += left.re * left.re + left.im * left.im;
            sizes[d->padded + n] += right.re * right.re + right.im * right.im;
        }
}

/* The differences of eigenvalues are those of the last channel if it has the same copy. */
static void open_displacement(cpu_power *power, const s4_system *system, int64_t h)
{
    int64_t copy = h % power->shape->n_ssm;
    if (power->shape->dt_modes == 1 && copy == power->copy) return;
    build_displacement(power, system, h);
    cpu_displacement *d = &power->displacement;
    double *sizes = power->row;
    squared_sizes(d, sizes);
    d->carried_count = 0;
    power->is_dense = 0;
    if (power->level->invert(d, power->lambda, sizes)) {
        power->is_dense = !find_carried(power, sizes);
        if (!power->is_dense) power->level->invert(d, power->lambda, sizes);
    }
    power->copy = copy;
}

/* ---- products with dA --------------------------------------------------------------------------------------------- */

static cpu_complex conjugate(cpu_complex x) { return (cpu_complex){x.re, -x.im}; }

/* The rows of a cpu_linear, rotated. Its g are [2 Re g, -2 Im g]. */
static void put_linear(cpu_power *power, const cpu_linear *linear)
{
    int64_t modes = linear->modes, state = 2 * modes, padded = power->displacement.padded;
    memset(power->f, 0, (size_t)((2 + 4 * linear->rank) * padded) * sizeof *power->f);
    for (int64_t n = 0; n < modes; n++) put(power->f, padded, n, at(linear->f, modes, n));
    for (int64_t r = 0; r < linear->rank; r++)
        for (int64_t n = 0; n < modes; n++) {
            cpu_complex p = at(linear->p + r * state, modes, n), twice_g = conjugate(at(linear->g + r * state, modes, n));
            cpu_complex g = {twice_g.re / 2, twice_g.im / 2};
            put(power->p + r * 2 * padded, padded, n, cpu_times(p, at(power->inverse_rotation, padded, n)));
            put(power->g + r * 2 * padded, padded, n, cpu_times(g, at(power->rotation, padded, n)));
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
        cpu_complex f = at(power->f, padded, n), sum = cpu_times((cpu_complex){f.re, sign * f.im}, at(x, padded, n));
        for (int64_t r = 0; r < d->rank; r++) {
            cpu_complex of_r = at(left + r * 2 * padded, padded, n);
            sum.re -= of_r.re * inner[r];
            sum.im -= sign * of_r.im * inner[r];
        }
        put(x, padded, n, sum);
    }
}

/* f_i x - sum over r of p_ir product_jr, of entry x = (i,j), or with its conjugate: (i,n+j) */
static cpu_complex advanced(const cpu_power *power, int64_t i, int64_t j, int half, cpu_complex x)
{
    int64_t padded = power->displacement.padded;
    cpu_complex sum = cpu_times(at(power->f, padded, i), x);
    for (int64_t r = 0; r < power->displacement.rank; r++) {
        cpu_complex product = at(power->g_product + r * 2 * padded, padded, j);
        cpu_complex taken = cpu_times(at(power->p + r * 2 * padded, padded, i), half ? conjugate(product) : product);
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
        put(x->own, padded, n, advanced(power, n, n, 0, at(x->own, padded, n)));
        put(x->mirror, padded, n, advanced(power, n, n, 1, at(x->mirror, padded, n)));
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
    if (i == j) return at(half ? x->mirror : x->own, padded, i);
    for (int64_t e = 0; e < d->carried_count; e++)
        if (d->carried[e].i == i && d->carried[e].j == j && d->carried[e].half == half) return x->carried[e];
    cpu_complex sum = {0, 0};
    for (int64_t r = 0; r < d->rank; r++) {
        const double *left = d->left + r * 2 * padded, *right = d->rank == 1 ? left : d->right + r * 2 * padded;
        cpu_complex u_i = at(x->u + r * 2 * padded, padded, i), R_j = at(right, padded, j);
        cpu_complex v_j = d->rank == 1 ? conjugate(at(x->u, padded, j)) : at(x->v + r * 2 * padded, padded, j);
        cpu_complex of_left = cpu_times(at(left, padded, i), half ? v_j : conjugate(v_j));
        cpu_complex of_u = cpu_times(u_i, half ? R_j : conjugate(R_j));
        sum = (cpu_complex){sum.re + of_left.re - of_u.re, sum.im + of_left.im - of_u.im};
    }
    return cpu_quotient(sum, difference(power, i, j, half));
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
            cpu_complex far = cpu_times(entry(power, x, i, k, 1), conjugate(entry(power, x, k, j, !half)));
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
    open_displacement(power, system, h);
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
    if (cpu_first_not_finite(columns, power->x.u) >= 0 || cpu_first_not_finite(4 * d->padded, power->x.own) >= 0) return 0;
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
        put(power->row, padded, n, cpu_times((cpu_complex){row[n], -row[modes + n]}, at(power->rotation, padded, n)));
    power->level->row_times(&power->displacement, &power->x, power->row, power->product);
    for (int64_t n = 0; n < modes; n++) {
        cpu_complex c = cpu_times(at(power->product, padded, n), at(power->inverse_rotation, padded, n));
        put(out, modes, n, conjugate(c));
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
                cpu_complex back = at(power->inverse_rotation, padded, j), turn = at(power->rotation, padded, i);
                cpu_complex x1 = cpu_times((cpu_complex){of_j[0], of_j[lanes]}, cpu_times(turn, back));
                cpu_complex x2 = cpu_times((cpu_complex){of_j[2 * lanes], of_j[3 * lanes]},
                                           cpu_times(turn, conjugate(back)));
                put_real(matrix, modes, i, j, x1, x2);
            }
    }
    return matrix;
}
