/*
 * The recurrence of a DPLR layer in eigenvectors of dA: dA = V E V^-1, z = V^-1 x when a call begins, x = V z when it
 * ends, and between them O(N) work a sample: z <- E z + V^-1 dB u[t], y_c[t] = (c V) z + D_c u[t], all real.
 *
 * E has blocks of two. With z split in halves, pair j is z_j and z_{n+j}, and its block
 *   z_j' = r z_j + s z_{n+j},   z_{n+j}' = r z_{n+j} - |s| z_j
 * is a complex pair of eigenvalues r +- is, s > 0, on the real and imaginary part of an eigenvector; or two real
 * eigenvalues r +- s, s <= 0, on the sum and the difference of their eigenvectors. Eigenvalues are 2 rows (n): r, s.
 *
 * dA of a DPLR layer can be far from normal. Its eigenvectors are then nearly dependent, and what x loses by the change
 * of basis grows like their condition number |V| |V^-1| (1-norms): above a bound this is refused.
 */
#include <math.h>
#include <string.h>

#include <lapacke.h>

#include "cpu/step.h"

/* STEP_SYSTEM of a channel. Matrices are column-major, as LAPACK has them: rows of the transposed ones. */
typedef struct eigen_system {
    double *vectors, *inverse; /* V, V^-1 */
    double *r, *s;             /* (n) */
    double *b;                 /* V^-1 dB */
    double *c;                 /* (M,N): read-outs times V */
} eigen_system;

static eigen_system open_system(const s4_shape *shape, double *base)
{
    int64_t modes = shape->modes, state = 2 * modes;
    eigen_system e;
    e.vectors = base;
    e.inverse = e.vectors + state * state;
    e.r = e.inverse + state * state;
    e.s = e.r + modes;
    e.b = e.s + modes;
    e.c = e.b + state;
    return e;
}

/* ---- eigenvalues and eigenvectors -------------------------------------------------------------------------------- */

/* What LAPACK gives: eigenvalues (N), and the columns that go with them; a complex pair, re +- i im with im > 0 first,
 * has the real and the imaginary part of one eigenvector. */
typedef struct decomposition {
    double *re, *im, *columns;
} decomposition;

/* Its columns `first` and `second` become pair j. */
static void put_pair(const s4_shape *shape, const decomposition *of, int64_t first, int64_t second, int64_t j,
                     const eigen_system *e)
{
    int64_t state = 2 * shape->modes;
    const double *a = of->columns + first * state, *b = of->columns + second * state;
    double *left = e->vectors + j * state, *right = e->vectors + (shape->modes + j) * state;
    if (of->im[first] > 0) {
        e->r[j] = of->re[first];
        e->s[j] = of->im[first];
        memcpy(left, a, (size_t)state * sizeof *a);
        memcpy(right, b, (size_t)state * sizeof *b);
        return;
    }
    int ascending = of->re[first] <= of->re[second];
    const double *of_low = ascending ? a : b, *of_high = ascending ? b : a;
    e->r[j] = (of->re[first] + of->re[second]) / 2;
    e->s[j] = -fabs(of->re[first] - of->re[second]) / 2;
    for (int64_t m = 0; m < state; m++) {
        left[m] = (of_low[m] + of_high[m]) / sqrt(2);
        right[m] = (of_low[m] - of_high[m]) / sqrt(2);
    }
}

/* Complex pairs stand side by side; the real eigenvalues, an even number of them, are paired as they come. */
static void pair_up(const s4_shape *shape, const decomposition *of, const eigen_system *e)
{
    int64_t j = 0, waiting = -1;
    for (int64_t k = 0; k < 2 * shape->modes; k++) {
        if (of->im[k] > 0) {
            put_pair(shape, of, k, k + 1, j++, e);
            k++;
        } else if (waiting < 0)
            waiting = k;
        else {
            put_pair(shape, of, waiting, k, j++, e);
            waiting = -1;
        }
    }
}

static void transpose(int64_t size, double *matrix)
{
    for (int64_t m = 0; m < size; m++)
        for (int64_t k = 0; k < m; k++) {
            double swapped = matrix[m * size + k];
            matrix[m * size + k] = matrix[k * size + m];
            matrix[k * size + m] = swapped;
        }
}

/* Largest sum of magnitudes of a column. */
static double norm_1(int64_t size, const double *columns)
{
    double norm = 0;
    for (int64_t k = 0; k < size; k++) {
        double sum = 0;
        for (int64_t m = 0; m < size; m++) sum += fabs(columns[k * size + m]);
        if (!(sum <= norm)) norm = sum;
    }
    return norm;
}

static int fail(cpu_failure *failure, cpu_failure_kind kind, int64_t h, double value)
{
    *failure = (cpu_failure){.kind = kind, .channel = h, .value = value};
    return 0;
}

static int make_diagonal(const s4_shape *shape, const s4_system *system, int64_t h, const cpu_lane *lane,
                         double *base, cpu_failure *failure)
{
    int64_t state = 2 * shape->modes, square = state * state;
    lapack_int size = (lapack_int)state;
    eigen_system e = open_system(shape, base);
    cpu_linear linear = cpu_linear_view(shape->modes, shape->rank, lane->linear);
    if (!cpu_linear_build(shape, system, h, 1, &linear))
        return fail(failure, CPU_FAILURE_STEP, h, cpu_dt(shape, system, h, 0));
    double *dA = lane->matrix[0];
    cpu_linear_dense(&linear, dA);
    transpose(state, dA);
    memcpy(e.b, linear.b, (size_t)state * sizeof *e.b);

    /* Work areas: matrix 2 and the four rows behind it; then rows. */
    double *work = lane->matrix[2];
    lapack_int work_count = (lapack_int)(square + 4 * state);
    decomposition found = {lane->rows + 4 * state, lane->rows + 5 * state, lane->matrix[1]};
    lapack_int info = LAPACKE_dgeev_work(LAPACK_COL_MAJOR, 'N', 'V', size, dA, size, found.re, found.im, NULL, 1,
                                         found.columns, size, work, work_count);
    if (info) return fail(failure, CPU_FAILURE_LIBRARY, h, info);
    pair_up(shape, &found, &e);

    lapack_int *pivots = (lapack_int *)(lane->rows + 6 * state);
    memcpy(e.inverse, e.vectors, (size_t)square * sizeof *e.inverse);
    info = LAPACKE_dgetrf_work(LAPACK_COL_MAJOR, size, size, e.inverse, size, pivots);
    if (info > 0) return fail(failure, CPU_FAILURE_CONDITION, h, INFINITY);
    if (!info) info = LAPACKE_dgetri_work(LAPACK_COL_MAJOR, size, e.inverse, size, pivots, work, work_count);
    if (info) return fail(failure, CPU_FAILURE_LIBRARY, h, info);
    double condition = norm_1(state, e.vectors) * norm_1(state, e.inverse);
    if (!(condition <= CPU_STEP_CONDITION_MAX)) return fail(failure, CPU_FAILURE_CONDITION, h, condition);

    cpu_row_times_matrix(state, e.b, e.inverse, lane->row);
    memcpy(e.b, lane->row, (size_t)state * sizeof *e.b);
    for (int64_t c = 0; c < shape->channels; c++) {
        double *row = e.c + c * state;
        for (int64_t k = 0; k < state; k++) lane->row[k] = cpu_inner(state, row, e.vectors + k * state);
        memcpy(row, lane->row, (size_t)state * sizeof *row);
    }
    return 1;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static int64_t rows_before(const s4_shape *shape) { return 4 * shape->modes + 2; }

static cpu_recurrence open_diagonal(const s4_shape *shape, const double *base)
{
    const eigen_system e = open_system(shape, (double *)base);
    cpu_recurrence row = cpu_recurrence_of(shape);
    row.dA = e.r;
    row.b = e.b;
    row.c = e.c;
    return row;
}

/* x = V z around the steps; V^-1 and V lie before the eigenvalues. */
static void run_diagonal(const cpu_stepper *level, const cpu_recurrence *row)
{
    int64_t state = 2 * row->modes;
    const double *inverse = row->dA + row->system - state * state, *vectors = inverse - state * state;
    cpu_recurrence of_z = *row;
    of_z.x = row->scratch;
    of_z.state_in = NULL;
    of_z.state_out = NULL;
    cpu_split(row->modes, row->state_in, row->x);
    cpu_row_times_matrix(state, row->x, inverse, of_z.x);
    level->blocks(&of_z);
    cpu_row_times_matrix(state, of_z.x, vectors, row->x);
    cpu_interleave(row->modes, row->x, row->state_out);
}

const cpu_step_way cpu_way_diagonal = {make_diagonal, rows_before, open_diagonal, run_diagonal};
