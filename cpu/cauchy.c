/*
 * The sums sigma_bc of the generating function at a tile of frequencies, and the small low-rank correction
 * (Woodbury) that makes one number of them. Formulas in cauchy.h.
 */
#include "cpu/cauchy.h"

#include <math.h>

#define PI 3.14159265358979323846

cpu_channel cpu_channel_view(const s4_shape *shape, const s4_system *system, int64_t h, int64_t k)
{
    int64_t modes = shape->modes, copy = h % shape->n_ssm;
    cpu_channel channel = {.modes = modes, .side = 1 + shape->rank};
    channel.pairs = channel.side * channel.side;
    channel.dt_stride = shape->dt_modes == 1 ? 0 : 1;
    channel.dt = system->dt + h * shape->dt_modes;
    channel.lambda = system->lambda + copy * modes * 2;
    channel.row[0] = system->b + copy * modes * 2;
    channel.column[0] = system->c + (k * shape->d_model + h) * modes * 2;
    channel.column_sign[0] = 1.0;
    for (int64_t r = 0; r < shape->rank; r++) {
        const double *p = system->p + (r * shape->n_ssm + copy) * modes * 2;
        channel.row[1 + r] = p;
        channel.column[1 + r] = p; /* Q = conj P */
        channel.column_sign[1 + r] = -1.0;
    }
    return channel;
}

/* The angle is measured from the nearer end of [0, pi/2], so that both values have full relative precision and the
 * cosine at Nyquist (k = L/2) is 0, the sine 1, exactly. */
void cpu_cauchy_angles(int64_t length, int64_t first, cpu_angles *angles)
{
    for (int j = 0; j < CPU_TILE; j++) {
        int64_t k = first + j < length / 2 ? first + j : length / 2;
        if (k <= length / 4) {
            double angle = PI * (double)k / (double)length;
            angles->sine[j] = sin(angle);
            angles->cosine[j] = cos(angle);
        } else {
            double angle = PI * (double)(length - 2 * k) / (2.0 * (double)length);
            angles->sine[j] = cos(angle);
            angles->cosine[j] = sin(angle);
        }
    }
}

void cpu_cauchy_terms(const cpu_channel *channel, double *terms)
{
    for (int64_t n = 0; n < channel->modes; n++) {
        double *term = terms + n * cpu_cauchy_stride(channel), dt = channel->dt[n * channel->dt_stride];
        double w_re = dt * channel->lambda[2 * n], w_im = dt * channel->lambda[2 * n + 1];
        term[0] = w_re;
        term[1] = w_re * w_re + w_im * w_im;
        for (int64_t b = 0; b < channel->side; b++) {
            const double *row = channel->row[b] + 2 * n;
            for (int64_t c = 0; c < channel->side; c++) {
                const double *column = channel->column[c] + 2 * n;
                double column_im = channel->column_sign[c] * column[1];
                double v_re = dt * (row[0] * column[0] - row[1] * column_im);
                double v_im = dt * (row[0] * column_im + row[1] * column[0]);
                double *of_pair = term + 2 + 2 * (b * channel->side + c);
                of_pair[0] = v_re;
                of_pair[1] = v_re * w_re + v_im * w_im;
            }
        }
    }
}

void cpu_cauchy_sums(const cpu_channel *channel, const double *terms, const cpu_angles *angles, cpu_pair_tile *sigma)
{
    memset(sigma->re, 0, sizeof sigma->re[0] * channel->pairs);
    memset(sigma->im, 0, sizeof sigma->im[0] * channel->pairs);
    for (int64_t n = 0; n < channel->modes; n++) {
        const double *term = terms + n * cpu_cauchy_stride(channel);
        double inverse_re[CPU_TILE], inverse_im[CPU_TILE];
        cpu_cauchy_inverse(term, angles, inverse_re, inverse_im);
        for (int64_t pair = 0; pair < channel->pairs; pair++) {
            double v_re = term[2 + 2 * pair], v_conj_w = term[3 + 2 * pair];
            double *sum_re = sigma->re[pair], *sum_im = sigma->im[pair];
            for (int j = 0; j < CPU_TILE; j++) {
                double numerator_re = -2.0 * angles->cosine[j] * v_conj_w;
                double numerator_im = 4.0 * angles->sine[j] * v_re;
                sum_re[j] += numerator_re * inverse_re[j] - numerator_im * inverse_im[j];
                sum_im[j] += numerator_re * inverse_im[j] + numerator_im * inverse_re[j];
            }
        }
    }
}

/* x <- matrix^-1 x by elimination with row exchanges; destroys the matrix (size, S4_RANK_MAX). */
static void solve(int64_t size, double complex (*matrix)[S4_RANK_MAX], double complex *x)
{
    for (int64_t i = 0; i < size; i++) {
        int64_t pivot = i;
        for (int64_t row = i + 1; row < size; row++)
            if (cabs(matrix[row][i]) > cabs(matrix[pivot][i])) pivot = row;
        for (int64_t column = i; column < size; column++) {
            double complex swapped = matrix[i][column];
            matrix[i][column] = matrix[pivot][column];
            matrix[pivot][column] = swapped;
        }
        double complex swapped = x[i];
        x[i] = x[pivot];
        x[pivot] = swapped;
        for (int64_t row = i + 1; row < size; row++) {
            double complex factor = matrix[row][i] / matrix[i][i];
            for (int64_t column = i + 1; column < size; column++) matrix[row][column] -= factor * matrix[i][column];
            x[row] -= factor * x[i];
        }
    }
    for (int64_t i = size - 1; i >= 0; i--) {
        for (int64_t column = i + 1; column < size; column++) x[i] -= matrix[i][column] * x[column];
        x[i] /= matrix[i][i];
    }
}

double complex cpu_woodbury(const cpu_channel *channel, const cpu_pair_tile *sigma, double cosine, int j,
                            double complex *right, double complex *left)
{
    int64_t side = channel->side, rank = side - 1;
    double complex value[CPU_PAIRS_MAX], matrix[S4_RANK_MAX][S4_RANK_MAX];
    for (int64_t pair = 0; pair < channel->pairs; pair++) value[pair] = cpu_c99(sigma->re[pair][j], sigma->im[pair][j]);

    for (int64_t r = 0; r < rank; r++) {
        for (int64_t s = 0; s < rank; s++) matrix[r][s] = (r == s) + cosine * value[(1 + r) * side + 1 + s];
        right[r] = value[(1 + r) * side];
    }
    solve(rank, matrix, right);

    double complex correction = 0.0;
    for (int64_t r = 0; r < rank; r++) correction += value[1 + r] * right[r];
    if (left) { /* the transposed system */
        for (int64_t r = 0; r < rank; r++) {
            for (int64_t s = 0; s < rank; s++) matrix[s][r] = (r == s) + cosine * value[(1 + r) * side + 1 + s];
            left[r] = value[1 + r];
        }
        solve(rank, matrix, left);
    }
    return value[0] - cosine * correction;
}
