/*
 * Included by product.c only, once for each precision, with REAL, VECTOR, LANES, LOAD, STORE, ALL, TO_DOUBLES,
 * FROM_DOUBLES, ADD_TO_DOUBLES and TYPED(name) defined; no include guard therefore. product.h says what each function
 * computes.
 */

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* R rows and V vectors of columns of the product; R and V are constants where this is called. */
static inline __attribute__((always_inline)) void TYPED(tile)(const cpu_matrices *m, int64_t i, int64_t j,
                                                              int64_t first, int64_t last, const int R, const int V,
                                                              const ending end)
{
    const REAL *a = (const REAL *)m->a + i * m->a_row + first * m->a_depth;
    const REAL *b = (const REAL *)m->b + j + first * m->b_depth;
    int64_t a_row = m->a_row, a_depth = m->a_depth, b_depth = m->b_depth;
    VECTOR sum[TILE_ROWS][2];
    UNROLL
    for (int r = 0; r < R; r++) {
        UNROLL
        for (int v = 0; v < V; v++) sum[r][v] = ALL(0);
    }
    for (int64_t k = first; k < last; k++) {
        VECTOR row[2];
        UNROLL
        for (int v = 0; v < V; v++) row[v] = LOAD(b + v * LANES);
        UNROLL
        for (int r = 0; r < R; r++) {
            VECTOR factor = ALL(a[r * a_row]);
            UNROLL
            for (int v = 0; v < V; v++) sum[r][v] += factor * row[v];
        }
        a += a_depth;
        b += b_depth;
    }
    UNROLL
    for (int r = 0; r < R; r++) {
        int64_t at = (i + r) * m->c_row + j;
        UNROLL
        for (int v = 0; v < V; v++, at += LANES) {
            if (end == SUM)
                ADD_TO_DOUBLES((double *)m->c + at, sum[r][v]);
            else
                STORE((REAL *)m->c + at, end == ADD ? LOAD((REAL *)m->c + at) + sum[r][v] : sum[r][v]);
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

/* ---- recurrences ------------------------------------------------------------------------------------------------- */

/*
 * R rows and V vectors of elements of one dense step. Even and odd elements of the state are two sums, so that one row
 * alone has enough of them in flight.
 */
static inline __attribute__((always_inline)) void TYPED(advance)(const cpu_chunk_recurrence *r, int64_t i, int64_t j,
                                                                 const int R, const int V)
{
    int64_t state = r->state;
    const REAL *before = (const REAL *)r->scratch + i * state;
    const REAL *matrix = (const REAL *)r->matrix + j;
    const REAL *inputs = (const REAL *)r->inputs + i * state + j;
    double *carry = r->carry + i * state + j;
    VECTOR even[STEP_ROWS][4], odd[STEP_ROWS][4];
    UNROLL
    for (int row = 0; row < R; row++) {
        UNROLL
        for (int v = 0; v < V; v++) {
            even[row][v] = LOAD(inputs + row * state + v * LANES);
            odd[row][v] = ALL(0);
        }
    }
    for (int64_t k = 0; k < state; k += 2) {
        const REAL *next = matrix + state;
        UNROLL
        for (int row = 0; row < R; row++) {
            VECTOR of_even = ALL(before[row * state + k]), of_odd = ALL(before[row * state + k + 1]);
            UNROLL
            for (int v = 0; v < V; v++) {
                even[row][v] += of_even * LOAD(matrix + v * LANES);
                odd[row][v] += of_odd * LOAD(next + v * LANES);
            }
        }
        matrix = next + state;
    }
    UNROLL
    for (int row = 0; row < R; row++) {
        UNROLL
        for (int v = 0; v < V; v++) ADD_TO_DOUBLES(carry + row * state + v * LANES, even[row][v] + odd[row][v]);
    }
}

static inline __attribute__((always_inline)) void TYPED(advance_rows)(const cpu_chunk_recurrence *r, int64_t i, const int R)
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

static void TYPED(steps_dense)(const cpu_chunk_recurrence *all)
{
    int64_t count = all->rows * all->state;
    cpu_chunk_recurrence r = *all;
    REAL *before = r.scratch;
    for (int64_t step = 0; step < all->steps; step++) {
        int64_t i = 0;
        for (int64_t n = 0; n < count; n++) before[n] = (REAL)r.carry[n];
        for (; i + STEP_ROWS <= r.rows; i += STEP_ROWS) TYPED(advance_rows)(&r, i, STEP_ROWS);
        if (STEP_ROWS > 2 && i + 2 <= r.rows) {
            TYPED(advance_rows)(&r, i, 2);
            i += 2;
        }
        if (i < r.rows) TYPED(advance_rows)(&r, i, 1);
        memcpy(r.inputs, before, (size_t)count * sizeof *before);
        r.inputs = (REAL *)r.inputs + r.step;
    }
}

/* V vectors of modes of one row, kept in registers over all steps. */
static inline __attribute__((always_inline)) void TYPED(modes)(const cpu_chunk_recurrence *r, int64_t i, int64_t n,
                                                               const int V)
{
    int64_t half = r->state / 2;
    const double *poles = r->poles + n;
    double *carry = r->carry + i * r->state + n;
    REAL *inputs = (REAL *)r->inputs + i * r->state + n;
    cpu_doubles pole_re[2], pole_im[2], re[2], im[2];
    UNROLL
    for (int v = 0; v < V; v++) {
        pole_re[v] = cpu_load_doubles(poles + v * CPU_DOUBLES);
        pole_im[v] = cpu_load_doubles(poles + half + v * CPU_DOUBLES);
        re[v] = cpu_load_doubles(carry + v * CPU_DOUBLES);
        im[v] = cpu_load_doubles(carry + half + v * CPU_DOUBLES);
    }
    for (int64_t step = 0; step < r->steps; step++, inputs += r->step) {
        UNROLL
        for (int v = 0; v < V; v++) {
            REAL *in_re = inputs + v * CPU_DOUBLES, *in_im = in_re + half;
            cpu_doubles x = re[v], y = im[v];
            re[v] = TO_DOUBLES(in_re) + pole_re[v] * x - pole_im[v] * y;
            im[v] = TO_DOUBLES(in_im) + pole_re[v] * y + pole_im[v] * x;
            FROM_DOUBLES(in_re, x);
            FROM_DOUBLES(in_im, y);
        }
    }
    UNROLL
    for (int v = 0; v < V; v++) {
        cpu_store_doubles(carry + v * CPU_DOUBLES, re[v]);
        cpu_store_doubles(carry + half + v * CPU_DOUBLES, im[v]);
    }
}

static void TYPED(steps_modes)(const cpu_chunk_recurrence *r)
{
    for (int64_t i = 0; i < r->rows; i++) {
        int64_t n = 0;
        for (; n + 2 * CPU_DOUBLES <= r->state / 2; n += 2 * CPU_DOUBLES) TYPED(modes)(r, i, n, 2);
        if (n < r->state / 2) TYPED(modes)(r, i, n, 1);
    }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static double TYPED(inner)(int64_t count, const void *a, const void *b)
{
    const REAL *x = a, *y = b;
    cpu_doubles sum[2] = {cpu_all_doubles(0), cpu_all_doubles(0)};
    double all = 0;
    for (int64_t i = 0; i < count; i += 2 * CPU_DOUBLES) {
        sum[0] += TO_DOUBLES(x + i) * TO_DOUBLES(y + i);
        sum[1] += TO_DOUBLES(x + i + CPU_DOUBLES) * TO_DOUBLES(y + i + CPU_DOUBLES);
    }
    sum[0] += sum[1];
    for (int lane = 0; lane < CPU_DOUBLES; lane++) all += sum[0][lane];
    return all;
}

/* One vector of modes, kept in registers over all rows. */
static inline __attribute__((always_inline)) void TYPED(sum_of_modes)(int64_t rows, int64_t state, const REAL *l,
                                                                      const REAL *s, double *sum)
{
    int64_t half = state / 2;
    cpu_doubles re = cpu_all_doubles(0), im = cpu_all_doubles(0);
    for (int64_t i = 0; i < rows; i++, l += state, s += state) {
        cpu_doubles l_re = TO_DOUBLES(l), l_im = TO_DOUBLES(l + half);
        cpu_doubles s_re = TO_DOUBLES(s), s_im = TO_DOUBLES(s + half);
        re += l_re * s_re;
        re += l_im * s_im;
        im += l_im * s_re;
        im -= l_re * s_im;
    }
    cpu_store_doubles(sum, cpu_load_doubles(sum) + re);
    cpu_store_doubles(sum + half, cpu_load_doubles(sum + half) + im);
}

static void TYPED(sum_modes)(int64_t rows, int64_t state, const void *l, const void *s, double *sum)
{
    for (int64_t n = 0; n < state / 2; n += CPU_DOUBLES)
        TYPED(sum_of_modes)(rows, state, (const REAL *)l + n, (const REAL *)s + n, sum + n);
}
