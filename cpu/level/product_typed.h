/*
 * Included by product.c only, once for each precision, with REAL, VECTOR, LANES, LOAD, STORE, ALL, ADD_TO_DOUBLES and
 * TYPED(name) defined; no include guard therefore. product.h says what each function computes.
 */

/* ---- products ------------------------------------------------------------------------------------------------------ */

/* R rows and V vectors of columns of the product; R and V are constants where this is called. */
static inline __attribute__((always_inline)) void TYPED(tile)(const cpu_matrices *m, int64_t i, int64_t j,
                                                              int64_t first, int64_t last, const int R, const int V,
                                                              const ending end)
{
    const REAL *a = (const REAL *)m->a + i * m->a_row + first * m->a_depth;
    const REAL *b = (const REAL *)m->b + j + first * m->b_depth;
    int64_t a_row = m->a_row, a_depth = m->a_depth, b_depth = m->b_depth;
    VECTOR sum[TILE_ROWS][2];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int v = 0; v < V; v++) sum[r][v] = ALL(0);
    for (int64_t k = first; k < last; k++) {
        VECTOR row[2];
#pragma GCC unroll 2
        for (int v = 0; v < V; v++) row[v] = LOAD(b + v * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            VECTOR factor = ALL(a[r * a_row]);
#pragma GCC unroll 2
            for (int v = 0; v < V; v++) sum[r][v] += factor * row[v];
        }
        a += a_depth;
        b += b_depth;
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int v = 0; v < V; v++) {
            if (end == SUM)
                ADD_TO_DOUBLES((double *)m->c + (i + r) * m->c_row + j + v * LANES, sum[r][v]);
            else {
                REAL *c = (REAL *)m->c + (i + r) * m->c_row + j + v * LANES;
                STORE(c, end == ADD ? LOAD(c) + sum[r][v] : sum[r][v]);
            }
        }
}

/* All rows of V vectors of columns. */
static inline __attribute__((always_inline)) void TYPED(columns)(const cpu_matrices *m, int64_t j, const int V,
                                                                 const ending end)
{
    int64_t width = V * LANES, first = 0, last = m->depth, rows = m->rows, i = 0;
    if (m->part == CPU_PRODUCT_B_UPPER && last > j + width) last = j + width;
    if (m->part == CPU_PRODUCT_B_LOWER) first = j;
    if (m->part == CPU_PRODUCT_C_UPPER && rows > j + width) rows = j + width;
    for (; i + TILE_ROWS <= rows; i += TILE_ROWS) TYPED(tile)(m, i, j, first, last, TILE_ROWS, V, end);
    if (TILE_ROWS > 4 && i + 4 <= rows) {
        TYPED(tile)(m, i, j, first, last, 4, V, end);
        i += 4;
    }
    if (i + 2 <= rows) {
        TYPED(tile)(m, i, j, first, last, 2, V, end);
        i += 2;
    }
    if (i < rows) TYPED(tile)(m, i, j, first, last, 1, V, end);
}

static inline __attribute__((always_inline)) void TYPED(multiply)(const cpu_matrices *m, const ending end)
{
    int64_t j = 0;
    for (; j + 2 * LANES <= m->columns; j += 2 * LANES) TYPED(columns)(m, j, 2, end);
    if (j < m->columns) TYPED(columns)(m, j, 1, end);
}

static void TYPED(set)(const cpu_matrices *m) { TYPED(multiply)(m, SET); }
static void TYPED(add)(const cpu_matrices *m) { TYPED(multiply)(m, ADD); }
static void TYPED(sum)(const cpu_matrices *m) { TYPED(multiply)(m, SUM); }

/* ---- recurrences --------------------------------------------------------------------------------------------------- */

/*
 * R rows and V vectors of elements of one dense step. Even and odd elements of the state are two sums, so that one row
 * alone has enough of them in flight.
 */
static inline __attribute__((always_inline)) void TYPED(advance)(const cpu_recurrence *r, int64_t i, int64_t j,
                                                                 const int R, const int V)
{
    int64_t state = r->state;
    const REAL *before = (const REAL *)r->scratch + i * state;
    const REAL *matrix = (const REAL *)r->matrix + j;
    const REAL *inputs = (const REAL *)r->inputs + i * state + j;
    double *carry = r->carry + i * state + j;
    VECTOR even[STEP_ROWS][4], odd[STEP_ROWS][4];
#pragma GCC unroll 4
    for (int row = 0; row < R; row++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) {
            even[row][v] = LOAD(inputs + row * state + v * LANES);
            odd[row][v] = ALL(0);
        }
    for (int64_t k = 0; k < state; k += 2) {
        const REAL *next = matrix + state;
#pragma GCC unroll 4
        for (int row = 0; row < R; row++) {
            VECTOR of_even = ALL(before[row * state + k]), of_odd = ALL(before[row * state + k + 1]);
#pragma GCC unroll 4
            for (int v = 0; v < V; v++) {
                even[row][v] += of_even * LOAD(matrix + v * LANES);
                odd[row][v] += of_odd * LOAD(next + v * LANES);
            }
        }
        matrix = next + state;
    }
#pragma GCC unroll 4
    for (int row = 0; row < R; row++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++)
            ADD_TO_DOUBLES(carry + row * state + v * LANES, even[row][v] + odd[row][v]);
}

static inline __attribute__((always_inline)) void TYPED(advance_rows)(const cpu_recurrence *r, int64_t i, const int R)
{
    const int V = R == STEP_ROWS ? 2 : 4;
    int64_t j = 0;
    for (; j + V * LANES <= r->state; j += V * LANES) TYPED(advance)(r, i, j, R, V);
    if (V == 4 && j + 2 * LANES <= r->state) {
        TYPED(advance)(r, i, j, R, 2);
        j += 2 * LANES;
    }
    if (j < r->state) TYPED(advance)(r, i, j, R, 1);
}

static void TYPED(step_dense)(const cpu_recurrence *r)
{
    int64_t count = r->rows * r->state, i = 0;
    REAL *before = r->scratch;
    for (int64_t n = 0; n < count; n++) before[n] = (REAL)r->carry[n];
    for (; i + STEP_ROWS <= r->rows; i += STEP_ROWS) TYPED(advance_rows)(r, i, STEP_ROWS);
    if (STEP_ROWS > 2 && i + 2 <= r->rows) {
        TYPED(advance_rows)(r, i, 2);
        i += 2;
    }
    if (i < r->rows) TYPED(advance_rows)(r, i, 1);
    memcpy(r->inputs, before, (size_t)count * sizeof *before);
}

static void TYPED(step_modes)(const cpu_recurrence *r)
{
    int64_t half = r->state / 2;
    const double *restrict pole_re = r->poles, *restrict pole_im = r->poles + half;
    for (int64_t i = 0; i < r->rows; i++) {
        double *restrict re = r->carry + i * r->state, *restrict im = re + half;
        REAL *restrict in_re = (REAL *)r->inputs + i * r->state, *restrict in_im = in_re + half;
        for (int64_t n = 0; n < half; n++) {
            double x = re[n], y = im[n];
            re[n] = pole_re[n] * x - pole_im[n] * y + (double)in_re[n];
            im[n] = pole_re[n] * y + pole_im[n] * x + (double)in_im[n];
            in_re[n] = (REAL)x;
            in_im[n] = (REAL)y;
        }
    }
}

/* ---- sums ---------------------------------------------------------------------------------------------------------- */

static double TYPED(inner)(int64_t count, const void *a, const void *b)
{
    const REAL *x = a, *y = b;
    double sum[CPU_PRODUCT_COLUMNS] = {0}, all = 0;
    for (int64_t i = 0; i < count; i += CPU_PRODUCT_COLUMNS)
        for (int lane = 0; lane < CPU_PRODUCT_COLUMNS; lane++)
            sum[lane] += (double)x[i + lane] * (double)y[i + lane];
    for (int lane = 0; lane < CPU_PRODUCT_COLUMNS; lane++) all += sum[lane];
    return all;
}

static void TYPED(sum_modes)(int64_t rows, int64_t state, const void *l, const void *s, double *sum)
{
    int64_t half = state / 2;
    double *restrict sum_re = sum, *restrict sum_im = sum + half;
    for (int64_t i = 0; i < rows; i++) {
        const REAL *restrict l_re = (const REAL *)l + i * state, *restrict l_im = l_re + half;
        const REAL *restrict s_re = (const REAL *)s + i * state, *restrict s_im = s_re + half;
        for (int64_t n = 0; n < half; n++) {
            double re = 0, im = 0;
            re += (double)l_re[n] * (double)s_re[n];
            re += (double)l_im[n] * (double)s_im[n];
            im += (double)l_im[n] * (double)s_re[n];
            im -= (double)l_re[n] * (double)s_im[n];
            sum_re[n] += re;
            sum_im[n] += im;
        }
    }
}
