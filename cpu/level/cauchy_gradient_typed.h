/*
 * The gradient of the generating function: adjoints of its sums over modes, then sums over the frequencies (cauchy.c).
 * Included by cauchy.c only, once for each precision, behind cauchy_typed.h; no include guard therefore.
 */

/* ---- gradient: adjoints of sigma ------------------------------------------------------------------------------- */

/* Of one pair: its conj g_bc, times c and times S. */
INLINE void TYPED(store_adjoint)(const cpu_cauchy *work, int64_t vector, const TYPED(angles) *a, int64_t b, int64_t c,
                          COMPLEXES conj_g)
{
    REAL *adjoint = (REAL *)work->adjoint + cpu_pair(work->channel, b, c) * 4 * CPU_TILE + vector * LANES;
    TYPED(store)(adjoint, a->cosine * conj_g.re);
    TYPED(store)(adjoint + CPU_TILE, a->cosine * conj_g.im);
    TYPED(store)(adjoint + 2 * CPU_TILE, a->sine * conj_g.re);
    TYPED(store)(adjoint + 3 * CPU_TILE, a->sine * conj_g.im);
}

/* conj g of a kernel, g = e^(-i theta) gK^; 0 for frequencies beyond the last. */
static COMPLEXES TYPED(load_gradient)(const cpu_cauchy *work, const TYPED(angles) *a, int64_t k, int64_t at, int64_t count)
{
    const double *row = work->rows + k * work->row_stride + 2 * at;
    COMPLEXES g_row = {{0}, {0}};
    for (int64_t j = 0; j < LANES && j < count; j++) {
        double multiplicity = at + j == 0 || 2 * (at + j) == work->length ? 1.0 : 2.0;
        double weight = multiplicity / (double)work->length;
        g_row.re[j] = (REAL)(weight * row[2 * j]);
        g_row.im[j] = (REAL)(weight * row[2 * j + 1]);
    }
    COMPLEXES conj_g;
    conj_g.re = a->cosine * g_row.re + a->sine * g_row.im;
    conj_g.im = a->sine * g_row.re - a->cosine * g_row.im;
    return conj_g;
}

/* Adjoints of the pairs that are wanted, at one vector of frequencies. */
INLINE void TYPED(make_adjoints)(const cpu_cauchy *work, int system, int64_t vector, int rank, int64_t at, int64_t count)
{
    const cpu_channel *channel = work->channel;
    const TYPED(angles) a = TYPED(load_angles)(work, vector);
    COMPLEXES matrix[S4_RANK_MAX][S4_RANK_MAX], z[S4_RANK_MAX], y[S4_RANK_MAX] = {0};
    TYPED(make_z)(work, vector, rank, a.cosine, z);
    for (int64_t k = 0; k < channel->kernels; k++) {
        COMPLEXES conj_g = TYPED(load_gradient)(work, &a, k, at, count);
        TYPED(store_adjoint)(work, vector, &a, 0, k, conj_g);
        for (int r = 0; r < rank; r++) {
            COMPLEXES conj_g_10 = TYPED(scaled)(-a.cosine, TYPED(product)(conj_g, z[r]));
            TYPED(store_adjoint)(work, vector, &a, 1 + r, k, conj_g_10);
            if (system) y[r] = TYPED(plus_product)(y[r], conj_g, TYPED(load_sigma)(work, vector, 1 + r, k));
        }
    }
    if (!system) return;
    TYPED(load_matrix)(work, vector, rank, 0, a.cosine, matrix);
    TYPED(solve)(rank, matrix, y);
    for (int s = 0; s < rank; s++) {
        const int64_t column = cpu_column_of_q(channel, s);
        COMPLEXES conj_g_01 = TYPED(scaled)(-a.cosine, y[s]);
        TYPED(store_adjoint)(work, vector, &a, 0, column, conj_g_01);
        for (int r = 0; r < rank; r++) {
            COMPLEXES conj_g_11 = TYPED(scaled)(a.cosine_squared, TYPED(product)(z[r], y[s]));
            TYPED(store_adjoint)(work, vector, &a, 1 + r, column, conj_g_11);
        }
    }
}

/* ---- gradient: sums over frequencies --------------------------------------------------------------------------- */

typedef struct TYPED(mode) {
    const REAL *factors, *inverse;
    REAL *lanes;
} TYPED(mode);

INLINE VECTOR TYPED(load_lanes)(const TYPED(mode) *of, int64_t sum) { return TYPED(load)(of->lanes + sum * LANES); }
INLINE void TYPED(store_lanes)(const TYPED(mode) *of, int64_t sum, VECTOR v)
{
    TYPED(store)(of->lanes + sum * LANES, v);
}

/* Adds a tile of frequencies to X and Y of `count` pairs of a mode. `poles`: adds conj g num to `moment`, which begins
 * from 0 if `first`; U and V are made of it if `last`. */
INLINE void TYPED(add_group)(const cpu_cauchy *work, const TYPED(mode) *of, int64_t vectors, int64_t pair, int count, int poles,
                      int first, int last, COMPLEXES *moment)
{
    const REAL *of_pair = of->factors + 2 * pair;
    VECTOR x[GROUP], y[GROUP], u = {0}, v = {0};
    for (int i = 0; i < count; i++) {
        x[i] = TYPED(load_lanes)(of, 2 + 2 * (pair + i));
        y[i] = TYPED(load_lanes)(of, 3 + 2 * (pair + i));
    }
    if (last) {
        u = TYPED(load_lanes)(of, 0);
        v = TYPED(load_lanes)(of, 1);
    }
    for (int64_t vector = 0; vector < vectors; vector++) {
        const REAL *adjoint = (const REAL *)work->adjoint + pair * 4 * CPU_TILE + vector * LANES;
        VECTOR inverse_re = TYPED(load)(of->inverse + vector * LANES);
        VECTOR inverse_im = TYPED(load)(of->inverse + vector * LANES + CPU_TILE);
        COMPLEXES sum = {{0}, {0}};
        if (poles && !first) sum = moment[vector];
        for (int i = 0; i < count; i++) {
            REAL p = of_pair[2 * i], q = of_pair[2 * i + 1];
            VECTOR c_re = TYPED(load)(adjoint + i * 4 * CPU_TILE);
            VECTOR c_im = TYPED(load)(adjoint + i * 4 * CPU_TILE + CPU_TILE);
            VECTOR s_re = TYPED(load)(adjoint + i * 4 * CPU_TILE + 2 * CPU_TILE);
            VECTOR s_im = TYPED(load)(adjoint + i * 4 * CPU_TILE + 3 * CPU_TILE);
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
        const REAL *angle = (const REAL *)work->rounded + vector * LANES;
        VECTOR a_num_re = sum.re * inverse_re - sum.im * inverse_im;
        VECTOR a_num_im = sum.re * inverse_im + sum.im * inverse_re;
        VECTOR e_re = a_num_re * inverse_re - a_num_im * inverse_im;
        VECTOR e_im = a_num_re * inverse_im + a_num_im * inverse_re;
        u += TYPED(load)(angle + 3 * CPU_TILE) * e_re;
        v += TYPED(load)(angle + 4 * CPU_TILE) * e_im;
    }
    for (int i = 0; i < count; i++) {
        TYPED(store_lanes)(of, 2 + 2 * (pair + i), x[i]);
        TYPED(store_lanes)(of, 3 + 2 * (pair + i), y[i]);
    }
    if (last) {
        TYPED(store_lanes)(of, 0, u);
        TYPED(store_lanes)(of, 1, v);
    }
}

INLINE void TYPED(add_last_group)(const cpu_cauchy *work, const TYPED(mode) *of, int64_t vectors, int64_t pair, int64_t count,
                           int poles, int first, COMPLEXES *moment)
{
    switch (count) {
    case 1:
        TYPED(add_group)(work, of, vectors, pair, 1, poles, first, poles, moment);
        break;
    case 2:
        TYPED(add_group)(work, of, vectors, pair, 2, poles, first, poles, moment);
        break;
    case 3:
        TYPED(add_group)(work, of, vectors, pair, GROUP < 3 ? GROUP : 3, poles, first, poles, moment);
        break;
    default:
        TYPED(add_group)(work, of, vectors, pair, GROUP, poles, first, poles, moment);
        break;
    }
}

INLINE void TYPED(sum_over_frequencies)(const cpu_cauchy *work, int system, int64_t vectors)
{
    const cpu_channel *channel = work->channel;
    const int64_t pairs = system ? channel->pairs : channel->kernels * channel->side;
    const int64_t per_mode = cpu_cauchy_terms(channel);
    COMPLEXES moment[VECTORS];
    for (int64_t n = 0; n < channel->modes; n++) {
        const TYPED(mode) of = {(const REAL *)work->factors + 2 * n * channel->pairs,
                                (const REAL *)work->inverse + n * 2 * CPU_TILE,
                                (REAL *)work->lanes + n * per_mode * LANES};
        if (pairs <= GROUP) {
            TYPED(add_last_group)(work, &of, vectors, 0, pairs, system, 1, moment);
            continue;
        }
        TYPED(add_group)(work, &of, vectors, 0, GROUP, system, 1, 0, moment);
        int64_t pair = GROUP;
        for (; pair + GROUP < pairs; pair += GROUP) TYPED(add_group)(work, &of, vectors, pair, GROUP, system, 0, 0, moment);
        TYPED(add_last_group)(work, &of, vectors, pair, pairs - pair, system, 0, moment);
    }
}

/* Only z, and, of the system, y need sums over modes: sigma_01 and sigma_11, and sigma_1k. */
static void TYPED(gradient)(const cpu_cauchy *work, int system, int64_t first, int64_t count)
{
    const cpu_channel *channel = work->channel;
    const int64_t sums = channel->modes * cpu_cauchy_terms(channel);
    REAL *lanes = work->lanes;
    memset(lanes, 0, sizeof *lanes * (size_t)(sums * LANES));
    for (int64_t done = 0; done < count; done += CPU_TILE) {
        const int64_t vectors = TYPED(vectors_of)(count - done);
        make_angles(work, first + done);
        TYPED(round_angles)(work);
        TYPED(sum_over_modes)(work, system ? channel->kernels : channel->kernels * channel->side, vectors);
        for (int64_t vector = 0; vector < vectors; vector++) {
            const int64_t ahead = done + vector * LANES, at = first + ahead, left = count - ahead;
            switch (channel->rank) {
            case 1:
                TYPED(make_adjoints)(work, system, vector, 1, at, left);
                break;
            case 2:
                TYPED(make_adjoints)(work, system, vector, 2, at, left);
                break;
            default:
                TYPED(make_adjoints)(work, system, vector, (int)channel->rank, at, left);
                break;
            }
        }
        if (system)
            TYPED(sum_over_frequencies)(work, 1, vectors);
        else
            TYPED(sum_over_frequencies)(work, 0, vectors);
    }
    for (int64_t i = 0; i < sums; i++) {
        double total = 0.0;
        for (int j = 0; j < LANES; j++) total += (double)lanes[i * LANES + j];
        work->totals[i] += total;
    }
}

