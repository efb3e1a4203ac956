/*
 * Sums of the generating function over the modes, and K^ of them (cauchy.c). Included by cauchy.c only, once for each
 * precision, behind woodbury_typed.h; no include guard therefore.
 */

/* ---- angles and denominators ------------------------------------------------------------------------------------- */

typedef struct TYPED(angles) {
    VECTOR sine, cosine, cosine_squared;
} TYPED(angles);

INLINE TYPED(angles) TYPED(load_angles)(const cpu_cauchy *work, int64_t vector)
{
    const REAL *at = (const REAL *)work->rounded + vector * LANES;
    return (TYPED(angles)){TYPED(load)(at), TYPED(load)(at + CPU_TILE), TYPED(load)(at + 3 * CPU_TILE)};
}

/* The angles in the precision of the sums. */
INLINE void TYPED(round_angles)(const cpu_cauchy *work)
{
    REAL *rounded = work->rounded;
    if (sizeof(REAL) == sizeof(double)) return;
    for (int i = 0; i < 5 * CPU_TILE; i++) rounded[i] = (REAL)work->angle[i];
}

/* 1 / den of the mode whose terms these are. */
INLINE COMPLEXES TYPED(inverse_of_den)(const cpu_cauchy *work, int64_t vector, const double *term)
{
    VECTOR product = TYPED(load)((const REAL *)work->rounded + 4 * CPU_TILE + vector * LANES);
    VECTOR re = TYPED(den_re)(work->angle + vector * LANES, term), minus_im = product * (REAL)term[0];
    VECTOR scale = 1 / (re * re + minus_im * minus_im);
    return (COMPLEXES){re * scale, minus_im * scale};
}

/* ---- sums over modes ------------------------------------------------------------------------------------------- */

/* sigma of `count` pairs from `pair` on at one vector of frequencies. `make`: 1 / den, too. */
INLINE void TYPED(sum_group)(const cpu_cauchy *work, int64_t vector, int64_t pair, int count, int make)
{
    const int64_t modes = work->channel->modes, pairs = work->channel->pairs;
    const TYPED(angles) a = TYPED(load_angles)(work, vector);
    VECTOR p_re[GROUP], p_im[GROUP], q_re[GROUP], q_im[GROUP];
    for (int i = 0; i < count; i++) p_re[i] = p_im[i] = q_re[i] = q_im[i] = (VECTOR){0};
    for (int64_t n = 0; n < modes; n++) {
        const REAL *of_pair = (const REAL *)work->factors + 2 * (n * pairs + pair);
        REAL *stored = (REAL *)work->inverse + n * 2 * CPU_TILE + vector * LANES;
        COMPLEXES inverse;
        if (make) {
            inverse = TYPED(inverse_of_den)(work, vector, work->terms + 2 * n);
            TYPED(store)(stored, inverse.re);
            TYPED(store)(stored + CPU_TILE, inverse.im);
        } else {
            inverse.re = TYPED(load)(stored);
            inverse.im = TYPED(load)(stored + CPU_TILE);
        }
        for (int i = 0; i < count; i++) {
            p_re[i] += of_pair[2 * i] * inverse.re;
            p_im[i] += of_pair[2 * i] * inverse.im;
            q_re[i] += of_pair[2 * i + 1] * inverse.re;
            q_im[i] += of_pair[2 * i + 1] * inverse.im;
        }
    }
    for (int i = 0; i < count; i++) {
        REAL *sigma = (REAL *)work->sigma + (pair + i) * 2 * CPU_TILE + vector * LANES;
        TYPED(store)(sigma, a.cosine * q_re[i] - a.sine * p_im[i]);
        TYPED(store)(sigma + CPU_TILE, a.cosine * q_im[i] + a.sine * p_re[i]);
    }
}

INLINE void TYPED(sum_group_of)(const cpu_cauchy *work, int64_t vector, int64_t pair, int64_t count, int make)
{
    switch (count) {
    case 1:
        TYPED(sum_group)(work, vector, pair, 1, make);
        break;
    case 2:
        TYPED(sum_group)(work, vector, pair, 2, make);
        break;
    case 3:
        TYPED(sum_group)(work, vector, pair, GROUP < 3 ? GROUP : 3, make);
        break;
    default:
        TYPED(sum_group)(work, vector, pair, GROUP, make);
        break;
    }
}

/* sigma of the pairs from `pair` on, and 1 / den, at the first `vectors` vectors of a tile. */
static void TYPED(sum_over_modes)(const cpu_cauchy *work, int64_t pair, int64_t vectors)
{
    const int64_t pairs = work->channel->pairs;
    for (int64_t vector = 0; vector < vectors; vector++) {
        TYPED(sum_group_of)(work, vector, pair, pairs - pair, 1);
        for (int64_t next = pair + GROUP; next < pairs; next += GROUP)
            TYPED(sum_group_of)(work, vector, next, pairs - next, 0);
    }
}

/* ---- low rank -------------------------------------------------------------------------------------------------- */

INLINE COMPLEXES TYPED(load_sigma)(const cpu_cauchy *work, int64_t vector, int64_t b, int64_t c)
{
    const REAL *sigma = (const REAL *)work->sigma + cpu_pair(work->channel, b, c) * 2 * CPU_TILE + vector * LANES;
    return (COMPLEXES){TYPED(load)(sigma), TYPED(load)(sigma + CPU_TILE)};
}

/* I + c sigma_11, or its transpose. */
INLINE void TYPED(load_matrix)(const cpu_cauchy *work, int64_t vector, int rank, int transposed, VECTOR cosine,
                        COMPLEXES (*matrix)[S4_RANK_MAX])
{
    for (int r = 0; r < rank; r++)
        for (int s = 0; s < rank; s++) {
            COMPLEXES entry = TYPED(load_sigma)(work, vector, 1 + r, cpu_column_of_q(work->channel, s));
            entry = TYPED(scaled)(cosine, entry);
            if (r == s) entry.re += 1;
            *(transposed ? &matrix[s][r] : &matrix[r][s]) = entry;
        }
}

/* z = sigma_01 (I + c sigma_11)^-1 */
INLINE void TYPED(make_z)(const cpu_cauchy *work, int64_t vector, int rank, VECTOR cosine, COMPLEXES *z)
{
    COMPLEXES matrix[S4_RANK_MAX][S4_RANK_MAX];
    TYPED(load_matrix)(work, vector, rank, 1, cosine, matrix);
    for (int r = 0; r < rank; r++) z[r] = TYPED(load_sigma)(work, vector, 0, cpu_column_of_q(work->channel, r));
    TYPED(solve)(rank, matrix, z);
}

/* Interleaved complex numbers of one vector of frequencies, of which `count` are in the row. */
static void TYPED(store_row)(double *row, int64_t count, VECTOR re, VECTOR im)
{
    double parts[2 * LANES];
    for (int j = 0; j < LANES; j++) {
        parts[2 * j] = (double)re[j];
        parts[2 * j + 1] = (double)im[j];
    }
    if (count >= LANES)
        memcpy(row, parts, sizeof parts);
    else
        memcpy(row, parts, sizeof *parts * 2 * (size_t)count);
}

/* K^ of all kernels at one vector of frequencies, of which `count` are in the rows, the first of these at `at`. Returns
 * zeros, or NaN where it is not finite. */
INLINE VECTOR TYPED(make_spectrum)(const cpu_cauchy *work, int64_t vector, int rank, int64_t at, int64_t count)
{
    const TYPED(angles) a = TYPED(load_angles)(work, vector);
    COMPLEXES z[S4_RANK_MAX];
    VECTOR poison = {0};
    TYPED(make_z)(work, vector, rank, a.cosine, z);
    for (int64_t k = 0; k < work->channel->kernels; k++) {
        COMPLEXES correction = {{0}, {0}};
        for (int r = 0; r < rank; r++)
            correction = TYPED(plus_product)(correction, z[r], TYPED(load_sigma)(work, vector, 1 + r, k));
        COMPLEXES kappa = TYPED(load_sigma)(work, vector, 0, k);
        kappa.re -= a.cosine * correction.re;
        kappa.im -= a.cosine * correction.im;
        VECTOR re = a.cosine * kappa.re - a.sine * kappa.im, im = a.cosine * kappa.im + a.sine * kappa.re;
        poison += 0 * re + 0 * im;
        TYPED(store_row)(work->rows + k * work->row_stride + 2 * at, count, re, im);
    }
    return poison;
}

static int64_t TYPED(vectors_of)(int64_t frequencies)
{
    return frequencies >= CPU_TILE ? VECTORS : (frequencies + LANES - 1) / LANES;
}

static int TYPED(spectrum)(const cpu_cauchy *work, int64_t first, int64_t count)
{
    VECTOR poison = {0};
    for (int64_t done = 0; done < count; done += CPU_TILE) {
        const int64_t vectors = TYPED(vectors_of)(count - done);
        make_angles(work, first + done);
        TYPED(round_angles)(work);
        TYPED(sum_over_modes)(work, 0, vectors);
        for (int64_t vector = 0; vector < vectors; vector++) {
            const int64_t ahead = done + vector * LANES, at = first + ahead, left = count - ahead;
            switch (work->channel->rank) {
            case 1:
                poison += TYPED(make_spectrum)(work, vector, 1, at, left);
                break;
            case 2:
                poison += TYPED(make_spectrum)(work, vector, 2, at, left);
                break;
            default:
                poison += TYPED(make_spectrum)(work, vector, (int)work->channel->rank, at, left);
                break;
            }
        }
    }
    int finite = 1;
    for (int j = 0; j < LANES; j++) finite &= poison[j] == 0;
    return finite;
}

