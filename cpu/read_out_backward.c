/*
 * From the gradient of plain C to that of the leaf C~ = C (I - X), X = dA^L, of a DPLR channel. Rows of the real basis;
 * g is the gradient of rows c, solved for in c (I - X) = c~:
 *   gc~ = g (I - X)^-T;   gX = sum over outputs of c^T gc~;
 *   g dA = sum over i < L of (dA^i)^T gX (dA^(L-1-i))^T.
 * The last is, transposed, the derivative of the power L at dA in the direction gX^T. So it is found as dA^L is, by
 * squares and products of pairs (Q, D) of a power and its derivative:
 *   square: D <- Q D + D Q, Q <- Q Q;   times dA: D <- D dA + Q gX^T, Q <- Q dA.
 * Through dA = (I - dt/2 A)^-1 (I + dt/2 A), whose inverse factor is (I + dA) / 2, it becomes
 *   Y = (I + dA)^T g dA (I + dA)^T / 2,   gA = dt/2 Y,
 * the same Y that state_sums.c sums over samples: it is added to those sums.
 */
#include <string.h>

#include "cpu/states_backward.h"

/* What the steps below share: N, its matrices, and the rows of gX = sum over c of read_out[c]^T leaf[c]. */
typedef struct power_gradient {
    int64_t state, channels;
    const double *read_out, *leaf; /* (M,N) */
    double *row;                   /* (N) scratch */
} power_gradient;

/* sum += row * matrix */
static void add_row_product(const power_gradient *pg, const double *row, const double *matrix, double *sum)
{
    cpu_row_times_matrix(pg->state, row, matrix, pg->row);
    for (int64_t j = 0; j < pg->state; j++) sum[j] += pg->row[j];
}

/* Row i of sum += row i of Q gX^T; power_row: row i of Q. */
static void add_row_direction(const power_gradient *pg, const double *power_row, double *sum)
{
    for (int64_t c = 0; c < pg->channels; c++) {
        double factor = cpu_inner(pg->state, power_row, pg->leaf + c * pg->state);
        const double *read_out = pg->read_out + c * pg->state;
#pragma omp simd
        for (int64_t j = 0; j < pg->state; j++) sum[j] += factor * read_out[j];
    }
}

static void swap(double **a, double **b)
{
    double *swapped = *a;
    *a = *b;
    *b = swapped;
}

/* Three matrices: Q and D of dA^length, and one of scratch; which is which changes on the way. */
typedef struct power_pair {
    double *power, *derivative, *next;
} power_pair;

static void square_pair(const power_gradient *pg, power_pair *pair)
{
    int64_t state = pg->state;
    for (int64_t i = 0; i < state; i++) {
        double *sum = pair->next + i * state;
        memset(sum, 0, (size_t)state * sizeof *sum);
        add_row_product(pg, pair->power + i * state, pair->derivative, sum);
        add_row_product(pg, pair->derivative + i * state, pair->power, sum);
    }
    swap(&pair->derivative, &pair->next);
    cpu_matrix_product(state, pair->power, pair->power, pair->next);
    swap(&pair->power, &pair->next);
}

static void multiply_pair(const power_gradient *pg, const double *dA, power_pair *pair)
{
    int64_t state = pg->state;
    for (int64_t i = 0; i < state; i++) {
        double *sum = pair->next + i * state;
        memset(sum, 0, (size_t)state * sizeof *sum);
        add_row_product(pg, pair->derivative + i * state, dA, sum);
        add_row_direction(pg, pair->power + i * state, sum);
    }
    swap(&pair->derivative, &pair->next);
    cpu_matrix_product(state, pair->power, dA, pair->next);
    swap(&pair->power, &pair->next);
}

/* pair->derivative <- the transpose of g dA. */
static void differentiate_power(const power_gradient *pg, const double *dA, int64_t length, power_pair *pair)
{
    int64_t state = pg->state;
    memcpy(pair->power, dA, (size_t)(state * state) * sizeof *dA);
    memset(pair->derivative, 0, (size_t)(state * state) * sizeof *dA);
    for (int64_t c = 0; c < pg->channels; c++) {
        const double *leaf = pg->leaf + c * state, *read_out = pg->read_out + c * state;
        for (int64_t i = 0; i < state; i++) {
            for (int64_t j = 0; j < state; j++) pair->derivative[i * state + j] += leaf[i] * read_out[j];
        }
    }
    int bit = 0;
    while (length >> (bit + 1)) bit++;
    while (bit-- > 0) {
        square_pair(pg, pair);
        if (length >> bit & 1) multiply_pair(pg, dA, pair);
    }
}

/* Adds Y = transposed^T / 2 to the sums. */
static void add_to_sums(const s4_shape *shape, double *transposed, double *row, const cpu_state_sums *sums)
{
    int64_t modes = shape->modes, state = 2 * modes;
    for (int64_t i = 0; i < state * state; i++) transposed[i] /= 2;
    for (int64_t n = 0; n < modes; n++) {
        const double *re = transposed + n * state, *im = transposed + (modes + n) * state;
        sums->mode[n] += re[n];
        sums->mode[n] += im[modes + n];
        sums->mode[modes + n] += re[modes + n];
        sums->mode[modes + n] -= im[n];
    }
    for (int64_t r = 0; r < shape->rank; r++) {
        const double *p = sums->p + r * state, *dt_p = sums->dt_p + r * state;
        double *along = sums->along_p + r * state, *onto = sums->onto_p + r * state;
        cpu_row_times_matrix(state, p, transposed, row);
        for (int64_t m = 0; m < state; m++) {
            along[m] += row[m];
            onto[m] += cpu_inner(state, transposed + m * state, dt_p);
        }
    }
}

int cpu_read_out_backward(const s4_shape *shape, const double *step_system, int64_t h, const cpu_lane *lane,
                          double *matrix, const cpu_state_sums *sums, cpu_failure *failure)
{
    int64_t modes = shape->modes, state = 2 * modes, length = shape->kernel_length;
    const cpu_linear linear = cpu_linear_view(modes, shape->rank, (double *)step_system);
    double *dA = lane->matrix[0];
    cpu_linear_dense(&linear, dA);
    double *power = cpu_matrix_power(state, dA, length, &lane->matrix[1]);
    if (!cpu_undo_factor(shape, h, length, lane, power, failure)) return 0;
    for (int64_t c = 0; c < shape->channels; c++)
        if (!cpu_undo_solve(shape, h, length, lane, power, 1, sums->read_out + c * state, failure)) return 0;

    const power_gradient pg = {.state = state,
                               .channels = shape->channels,
                               .read_out = step_system + cpu_linear_rows(shape->rank) * state,
                               .leaf = sums->read_out,
                               .row = lane->row};
    power_pair pair = {lane->matrix[1], lane->matrix[2], matrix};
    differentiate_power(&pg, dA, length, &pair);
    for (int64_t i = 0; i < state; i++) dA[i * state + i] += 1;
    cpu_matrix_product(state, dA, pair.derivative, pair.next);
    cpu_matrix_product(state, pair.next, dA, pair.power);
    add_to_sums(shape, pair.power, lane->row, sums);
    return 1;
}
