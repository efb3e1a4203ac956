/*
 * Powers of dA of a DPLR channel in O(R N^2 log L): with Z = X - I,
 *   I + Z_a+b = (I + Z_a)(I + Z_b):   Z_a+b = Z_a + Z_b + Z_a Z_b,
 * from Z_1 = dA - I = (I - dt/2 A)^-1 dt A by binary powers. Every Z commutes with A' = diag(dt) A = dt Lambda - (dt P) P*; where
 * all modes have one step size, with A itself: differences of eigenvalues then belong to the copy, not to the channel.
 *
 * Rank 1 is made symmetric, D^-1 A' D = Lambda' - p p^T with p_i = sqrt(dt_i) |P_i| and D_i = sqrt(dt_i) P_i / |P_i|. All is
 * scaled so that the largest eigenvalue is of size 1.
 */
#include "cpu/structured_power.h"

#include <math.h>
#include <string.h>

/* Eigenvalues closer than this part of the largest one's size, over N, nearly coincide. */
#define NEAR 1e-3

_Static_assert(sizeof(cpu_carried) <= 2 * sizeof(double), "carried entries fit their part of s4_structured_power");

/* ---- layout ------------------------------------------------------------------------------------------------------ */

static int64_t commuting_rows(int64_t rank) { return 4 * rank + 4; }

static double *view_commuting(const cpu_displacement *d, double *at, cpu_commuting *z)
{
    z->u = at;
    z->v = z->u + d->rank * 2 * d->padded;
    z->own = z->v + d->rank * 2 * d->padded;
    z->mirror = z->own + 2 * d->padded;
    z->carried = (cpu_complex *)(at + commuting_rows(d->rank) * d->padded);
    return (double *)(z->carried + d->modes);
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
                 {&power.row, 2 * padded},
                 {&power.product, 2 * padded}};
    double *at = lane->matrix[0];
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        *parts[i].rows = at;
        at += parts[i].count;
    }
    at = view_commuting(d, at, &power.base);
    at = view_commuting(d, at, &power.z);
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

/* Entries whose eigenvalues nearly coincide; 0 if they are too many: one costs O(N), a squaring O(N^2). */
static int find_carried(cpu_power *power, double limit)
{
    cpu_displacement *d = &power->displacement;
    for (int i = 0; i < d->modes; i++)
        for (int j = 0; j < d->modes; j++)
            for (int half = 0; half < 2; half++) {
                cpu_complex gap = difference(power, i, j, half);
                if (i == j || gap.re * gap.re + gap.im * gap.im >= limit * limit) continue;
                if (d->carried_count == d->modes) return 0;
                d->carried[d->carried_count++] = (cpu_carried){i, j, half};
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
    double scale = largest > 0 ? 1 / largest : 1;
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

/* The differences of eigenvalues are those of the last channel if it has the same copy. */
static void open_displacement(cpu_power *power, const s4_system *system, int64_t h)
{
    int64_t copy = h % power->shape->n_ssm;
    if (power->shape->dt_modes == 1 && copy == power->copy) return;
    build_displacement(power, system, h);
    cpu_displacement *d = &power->displacement;
    double limit = NEAR / (double)(2 * d->modes);
    d->carried_count = 0;
    power->is_dense = 0;
    if (power->level->invert(d, power->lambda, limit)) {
        power->is_dense = !find_carried(power, limit);
        if (!power->is_dense) power->level->invert(d, power->lambda, limit);
    }
    power->copy = copy;
}

/* ---- Z_1 --------------------------------------------------------------------------------------------------------- */

static cpu_complex minus(cpu_complex x, cpu_complex y) { return (cpu_complex){x.re - y.re, x.im - y.im}; }
static cpu_complex conjugate(cpu_complex x) { return (cpu_complex){x.re, -x.im}; }

/* Diagonal part of dA - I of channel h, mode n: f - 1 = 2a / (1 - a), a = dt/2 lambda. */
static cpu_complex change_of_mode(const cpu_power *power, const s4_system *system, int64_t h, double scale, int64_t n)
{
    const s4_shape *shape = power->shape;
    const double *lambda = system->lambda + 2 * (h % shape->n_ssm * shape->modes + n);
    double dt = scale * cpu_dt(shape, system, h, n);
    return cpu_quotient((cpu_complex){dt * lambda[0], dt * lambda[1]},
                        (cpu_complex){1 - dt / 2 * lambda[0], -dt / 2 * lambda[1]});
}

/* Entry (i,j) of the low-rank part of dA - I = diag(f - 1) - sum of p g^T, in the symmetric basis; half 1: (i,n+j). The row of g
 * is [2 Re g, -2 Im g]. */
static cpu_complex low_rank_entry(const cpu_power *power, const cpu_linear *linear, int64_t i, int64_t j, int half)
{
    int64_t modes = linear->modes, state = 2 * modes, padded = power->displacement.padded;
    cpu_complex sum = {0, 0}, turn = at(power->rotation, padded, j);
    for (int64_t r = 0; r < linear->rank; r++) {
        const double *p = linear->p + r * state, *g = linear->g + r * state;
        cpu_complex of_g = {g[j] / 2, (half ? g[modes + j] : -g[modes + j]) / 2};
        sum = minus(sum, cpu_times((cpu_complex){p[i], p[modes + i]}, of_g));
    }
    sum = cpu_times(sum, half ? conjugate(turn) : turn);
    return cpu_times(sum, at(power->inverse_rotation, padded, i));
}

/* u = Z L and v = Z* R of the columns r. */
static void begin_column(const cpu_power *power, const cpu_linear *linear, const double *change, int64_t r)
{
    const cpu_displacement *d = &power->displacement;
    int64_t modes = d->modes, state = 2 * modes, padded = d->padded;
    double *column = power->lane->row; /* (N), split */
    double *u = power->base.u + r * 2 * padded, *v = power->base.v + r * 2 * padded;
    for (int64_t n = 0; n < modes; n++) {
        cpu_complex left = cpu_times(at(d->left + r * 2 * padded, padded, n), at(power->rotation, padded, n));
        put(column, modes, n, left);
        put(u, padded, n, cpu_times(at(change, padded, n), left));
    }
    for (int64_t s = 0; s < linear->rank; s++) {
        const double *p = linear->p + s * state;
        double inner = cpu_inner(state, linear->g + s * state, column);
        for (int64_t n = 0; n < modes; n++) {
            u[n] -= inner * p[n];
            u[padded + n] -= inner * p[modes + n];
        }
    }
    for (int64_t n = 0; n < modes; n++)
        put(u, padded, n, cpu_times(at(u, padded, n), at(power->inverse_rotation, padded, n)));
    if (d->rank == 1) return;

    const double *right = d->right + r * 2 * padded;
    for (int64_t n = 0; n < modes; n++) {
        put(column, modes, n, at(right, padded, n));
        put(v, padded, n, cpu_times(conjugate(at(change, padded, n)), at(right, padded, n)));
    }
    for (int64_t s = 0; s < linear->rank; s++) {
        const double *g = linear->g + s * state;
        double inner = cpu_inner(state, linear->p + s * state, column);
        for (int64_t n = 0; n < modes; n++) {
            v[n] -= inner * g[n];
            v[padded + n] -= inner * g[modes + n];
        }
    }
}

static void begin(cpu_power *power, const s4_system *system, int64_t h, double scale, const cpu_linear *linear)
{
    const cpu_displacement *d = &power->displacement;
    cpu_commuting *base = &power->base;
    int64_t modes = d->modes, padded = d->padded;
    double *change = power->row;
    memset(base->u, 0, (size_t)(commuting_rows(d->rank) * padded) * sizeof *base->u);
    for (int64_t n = 0; n < modes; n++) {
        cpu_complex of_mode = change_of_mode(power, system, h, scale, n), low = low_rank_entry(power, linear, n, n, 0);
        put(change, padded, n, of_mode);
        put(base->own, padded, n, (cpu_complex){of_mode.re + low.re, of_mode.im + low.im});
        put(base->mirror, padded, n, low_rank_entry(power, linear, n, n, 1));
    }
    for (int64_t e = 0; e < d->carried_count; e++)
        base->carried[e] = low_rank_entry(power, linear, d->carried[e].i, d->carried[e].j, d->carried[e].half);
    for (int64_t r = 0; r < d->rank; r++) begin_column(power, linear, change, r);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static cpu_complex entry(const cpu_power *power, const cpu_commuting *z, int64_t i, int64_t j, int half)
{
    const cpu_displacement *d = &power->displacement;
    int64_t padded = d->padded;
    if (i == j) return at(half ? z->mirror : z->own, padded, i);
    for (int64_t e = 0; e < d->carried_count; e++)
        if (d->carried[e].i == i && d->carried[e].j == j && d->carried[e].half == half) return z->carried[e];
    cpu_complex sum = {0, 0};
    for (int64_t r = 0; r < d->rank; r++) {
        const double *left = d->left + r * 2 * padded, *right = d->rank == 1 ? left : d->right + r * 2 * padded;
        cpu_complex u_i = at(z->u + r * 2 * padded, padded, i), R_j = at(right, padded, j);
        cpu_complex v_j = d->rank == 1 ? conjugate(at(z->u, padded, j)) : at(z->v + r * 2 * padded, padded, j);
        cpu_complex of_left = cpu_times(at(left, padded, i), half ? v_j : conjugate(v_j));
        cpu_complex of_u = cpu_times(u_i, half ? R_j : conjugate(R_j));
        sum = (cpu_complex){sum.re + of_left.re - of_u.re, sum.im + of_left.im - of_u.im};
    }
    return cpu_quotient(sum, difference(power, i, j, half));
}

/* Carried entries of a + b + a b: entry (n+k, j) of b is the conjugate of (k, n+j). */
static void compose_carried(const cpu_power *power, const cpu_commuting *a, const cpu_commuting *b, cpu_commuting *sum)
{
    const cpu_displacement *d = &power->displacement;
    for (int64_t e = 0; e < d->carried_count; e++) {
        int64_t i = d->carried[e].i, j = d->carried[e].j;
        int half = d->carried[e].half;
        cpu_complex total = {a->carried[e].re + b->carried[e].re, a->carried[e].im + b->carried[e].im};
        for (int64_t k = 0; k < d->modes; k++) {
            cpu_complex near = cpu_times(entry(power, a, i, k, 0), entry(power, b, k, j, half));
            cpu_complex far = cpu_times(entry(power, a, i, k, 1), conjugate(entry(power, b, k, j, !half)));
            total.re += near.re + far.re;
            total.im += near.im + far.im;
        }
        sum->carried[e] = total;
    }
}

/* z <- z + b + z b */
static void compose(cpu_power *power, const cpu_commuting *b)
{
    power->level->compose(&power->displacement, &power->z, b, &power->next);
    compose_carried(power, &power->z, b, &power->next);
    cpu_commuting composed = power->next;
    power->next = power->z;
    power->z = composed;
}

static void raise(cpu_power *power, int64_t length)
{
    const cpu_displacement *d = &power->displacement;
    memcpy(power->z.u, power->base.u, (size_t)(commuting_rows(d->rank) * d->padded) * sizeof *power->z.u);
    memcpy(power->z.carried, power->base.carried, (size_t)d->carried_count * sizeof *power->z.carried);
    int bit = 0;
    while (length >> (bit + 1)) bit++;
    while (bit-- > 0) {
        compose(power, &power->z);
        if (length >> bit & 1) compose(power, &power->base);
    }
}

/* ---- Z ----------------------------------------------------------------------------------------------------------- */

static void raise_dense(cpu_power *power, const cpu_linear *linear, int64_t length)
{
    int64_t state = 2 * power->shape->modes;
    double *const *matrix = power->lane->matrix;
    cpu_linear_dense(linear, matrix[0]);
    power->dense = cpu_matrix_power(state, matrix[0], length, &matrix[1]);
    power->dense_next = power->dense == matrix[1] ? matrix[2] : matrix[1];
    for (int64_t m = 0; m < state; m++) power->dense[m * state + m] -= 1;
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
        begin(power, system, h, scale, &linear);
        raise(power, length);
    }
    return 1;
}

int cpu_power_is_finite(const cpu_power *power)
{
    const cpu_displacement *d = &power->displacement;
    int64_t state = 2 * d->modes;
    if (power->is_dense) return cpu_first_not_finite(state * state, power->dense) < 0;
    return cpu_first_not_finite(commuting_rows(d->rank) * d->padded, power->z.u) < 0;
}

void cpu_power_double(cpu_power *power)
{
    int64_t state = 2 * power->shape->modes;
    if (!power->is_dense) {
        compose(power, &power->z);
        return;
    }
    double *squared = power->dense_next;
    cpu_matrix_product(state, power->dense, power->dense, squared);
    for (int64_t i = 0; i < state * state; i++) squared[i] += 2 * power->dense[i];
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
    power->level->row_times(&power->displacement, &power->z, power->row, power->product);
    for (int64_t n = 0; n < modes; n++) {
        cpu_complex c = cpu_times(at(power->product, padded, n), at(power->inverse_rotation, padded, n));
        put(out, modes, n, conjugate(c));
    }
}

/* One mode's pair of entries, Z1_ij and Z2_ij, into the real basis: columns for 1 and for i are Z1 + Z2 and i (Z1 - Z2). */
static void put_real(double *matrix, int64_t modes, int64_t i, int64_t j, cpu_complex z1, cpu_complex z2)
{
    int64_t state = 2 * modes;
    matrix[i * state + j] = z1.re + z2.re;
    matrix[i * state + modes + j] = z2.im - z1.im;
    matrix[(modes + i) * state + j] = z1.im + z2.im;
    matrix[(modes + i) * state + modes + j] = z1.re - z2.re;
}

double *cpu_power_matrix(cpu_power *power)
{
    if (power->is_dense) return power->dense;
    const cpu_displacement *d = &power->displacement;
    int64_t modes = d->modes, padded = d->padded, lanes = power->level->lanes;
    double *matrix = power->lane->matrix[2];
    for (int64_t first = 0; first < modes; first += lanes) {
        power->level->rows(d, &power->z, first, d->strip[0]);
        for (int64_t i = first; i < modes && i < first + lanes; i++)
            for (int64_t j = 0; j < modes; j++) {
                const double *of_j = d->strip[0] + j * 4 * lanes + (i - first);
                cpu_complex back = at(power->inverse_rotation, padded, j), turn = at(power->rotation, padded, i);
                cpu_complex z1 = cpu_times((cpu_complex){of_j[0], of_j[lanes]}, cpu_times(turn, back));
                cpu_complex z2 = cpu_times((cpu_complex){of_j[2 * lanes], of_j[3 * lanes]},
                                           cpu_times(turn, conjugate(back)));
                put_real(matrix, modes, i, j, z1, z2);
            }
    }
    return matrix;
}
