/*
 * The transform of ring.h. Included by convolve.c only, once for each precision, with REAL, VECTOR, LANES, GROUP and
 * TYPED(name) defined; no include guard therefore.
 *
 * A block of LANES vectors: UNITS * GROUP = LANES, and each factor is the radix of one level before it is transposed,
 * and of one behind. Vector g GROUP + r meets those of other g first, and those of other r second. Transposing the
 * groups needs vectors of one g, transposing the units those of one r: so both are done between two levels, in
 * registers.
 */
#define UNITS (LANES / GROUP)
#define INLINE static inline __attribute__((always_inline))

typedef struct TYPED(complex) {
    VECTOR re, im;
} TYPED(complex);
#define COMPLEX TYPED(complex)

INLINE VECTOR TYPED(all)(REAL value) { return (VECTOR){0} + value; }
INLINE COMPLEX TYPED(add)(COMPLEX a, COMPLEX b) { return (COMPLEX){a.re + b.re, a.im + b.im}; }
INLINE COMPLEX TYPED(minus)(COMPLEX a, COMPLEX b) { return (COMPLEX){a.re - b.re, a.im - b.im}; }
INLINE COMPLEX TYPED(times)(COMPLEX a, COMPLEX b)
{
    return (COMPLEX){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
INLINE COMPLEX TYPED(conj_times)(COMPLEX a, COMPLEX b)
{
    return (COMPLEX){a.re * b.re + a.im * b.im, a.re * b.im - a.im * b.re};
}
INLINE COMPLEX TYPED(plus_i)(COMPLEX a, COMPLEX b) { return (COMPLEX){a.re - b.im, a.im + b.re}; }
INLINE COMPLEX TYPED(minus_i)(COMPLEX a, COMPLEX b) { return (COMPLEX){a.re + b.im, a.im - b.re}; }

/* Twiddle k: the same for all lanes, or one for every lane. */
INLINE COMPLEX TYPED(twiddle)(const REAL *table, int64_t k, int by_lane)
{
    if (!by_lane) return (COMPLEX){TYPED(all)(table[2 * k]), TYPED(all)(table[2 * k + 1])};
    const VECTOR *vectors = (const VECTOR *)table;
    return (COMPLEX){vectors[2 * k], vectors[2 * k + 1]};
}

/* ---- one split --------------------------------------------------------------------------------------------------- */

/* The roots of a split in four are w, -w, i w, -i w; in two w, -w. twiddle: w, w^2, w^3; w. */
INLINE void TYPED(split)(int radix, COMPLEX *x, const COMPLEX *w)
{
    if (radix == 2) {
        COMPLEX b = TYPED(times)(w[0], x[1]);
        x[1] = TYPED(minus)(x[0], b);
        x[0] = TYPED(add)(x[0], b);
    } else if (radix == 4) {
        COMPLEX one = TYPED(times)(w[0], x[1]), two = TYPED(times)(w[1], x[2]), three = TYPED(times)(w[2], x[3]);
        COMPLEX even = TYPED(add)(x[0], two), even_i = TYPED(minus)(x[0], two);
        COMPLEX odd = TYPED(add)(one, three), odd_i = TYPED(minus)(one, three);
        x[0] = TYPED(add)(even, odd);
        x[1] = TYPED(minus)(even, odd);
        x[2] = TYPED(plus_i)(even_i, odd_i);
        x[3] = TYPED(minus_i)(even_i, odd_i);
    }
}

/* The adjoint, which is radix times the inverse. */
INLINE void TYPED(join)(int radix, COMPLEX *x, const COMPLEX *w)
{
    if (radix == 2) {
        COMPLEX b = TYPED(minus)(x[0], x[1]);
        x[0] = TYPED(add)(x[0], x[1]);
        x[1] = TYPED(conj_times)(w[0], b);
    } else if (radix == 4) {
        COMPLEX even = TYPED(add)(x[0], x[1]), odd = TYPED(minus)(x[0], x[1]);
        COMPLEX even_i = TYPED(add)(x[2], x[3]), odd_i = TYPED(minus)(x[2], x[3]);
        x[0] = TYPED(add)(even, even_i);
        x[1] = TYPED(conj_times)(w[0], TYPED(minus_i)(odd, odd_i));
        x[2] = TYPED(conj_times)(w[1], TYPED(minus)(even, even_i));
        x[3] = TYPED(conj_times)(w[2], TYPED(plus_i)(odd, odd_i));
    }
}

/* Any radix; w[p (radix - 1) + q - 1] is the p-th root to the power q. */
INLINE void TYPED(split_odd)(int radix, COMPLEX *x, const COMPLEX *w)
{
    COMPLEX y[5];
    for (int p = 0; p < radix; p++) {
        y[p] = x[0];
        for (int q = 1; q < radix; q++) y[p] = TYPED(add)(y[p], TYPED(times)(w[p * (radix - 1) + q - 1], x[q]));
    }
    for (int p = 0; p < radix; p++) x[p] = y[p];
}
INLINE void TYPED(join_odd)(int radix, COMPLEX *x, const COMPLEX *w)
{
    COMPLEX y[5];
    for (int q = 0; q < radix; q++) {
        y[q] = q ? TYPED(conj_times)(w[q - 1], x[0]) : x[0];
        for (int p = 1; p < radix; p++)
            y[q] = TYPED(add)(y[q], q ? TYPED(conj_times)(w[p * (radix - 1) + q - 1], x[p]) : x[p]);
    }
    for (int q = 0; q < radix; q++) x[q] = y[q];
}

INLINE int TYPED(twiddles)(int radix) { return radix == 3 || radix == 5 ? radix * (radix - 1) : radix - 1; }

/* A level of one node: `count` vectors of each of its parts. */
INLINE void TYPED(split_node)(int radix, COMPLEX *x, int64_t count, const REAL *table)
{
    COMPLEX w[20], part[5];
    for (int k = 0; k < TYPED(twiddles)(radix); k++) w[k] = TYPED(twiddle)(table, k, 0);
    for (int64_t j = 0; j < count; j++) {
        for (int q = 0; q < radix; q++) part[q] = x[j + q * count];
        if (radix % 2)
            TYPED(split_odd)(radix, part, w);
        else
            TYPED(split)(radix, part, w);
        for (int q = 0; q < radix; q++) x[j + q * count] = part[q];
    }
}
INLINE void TYPED(join_node)(int radix, COMPLEX *x, int64_t count, const REAL *table)
{
    COMPLEX w[20], part[5];
    for (int k = 0; k < TYPED(twiddles)(radix); k++) w[k] = TYPED(twiddle)(table, k, 0);
    for (int64_t j = 0; j < count; j++) {
        for (int q = 0; q < radix; q++) part[q] = x[j + q * count];
        if (radix % 2)
            TYPED(join_odd)(radix, part, w);
        else
            TYPED(join)(radix, part, w);
        for (int q = 0; q < radix; q++) x[j + q * count] = part[q];
    }
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Twiddles of a block: those of all its nodes before transposing, then by lane those of all behind; UNITS - 1 of its
 * first level, GROUP - 1 of each of UNITS nodes of the second. Padded: 2 LANES reals, and LANES times as many. */
#define BLOCK_REALS (2 * LANES + 2 * LANES * LANES)

/* Behind the transposition lanes are nodes of their own. Twiddles of theirs are what they are in a block with modulus
 * t^LANES - 1, times a power of a root of the block's own modulus. So where a row is far larger than a cache, which
 * its twiddles would double, the table has the former once, and the first 2 LANES reals of every block with the UNITS
 * - 1 + GROUP - 1 factors of the two levels behind them. */
#define FACTOR_REALS (2 * LANES + 2 * (UNITS - 1 + GROUP - 1))
#define LONG_ROW_BYTES (1 << 22)

INLINE void TYPED(put_products)(int count, const VECTOR *of_one, const REAL *factors, VECTOR *to)
{
    for (int k = 0; k < count; k++) {
        COMPLEX w = TYPED(times)(TYPED(twiddle)(factors, k, 0), TYPED(twiddle)((const REAL *)of_one, k, 1));
        to[2 * k] = w.re;
        to[2 * k + 1] = w.im;
    }
}

/* The twiddles of block `node`; made in `room`, of BLOCK_REALS, where the table is short. */
static const REAL *TYPED(block_table)(const cpu_ring *ring, int64_t node, REAL *room)
{
    const REAL *table = (const REAL *)ring->table + ring->twiddle[ring->levels];
    if (!ring->short_table) return table + node * BLOCK_REALS;
    const REAL *own = table + BLOCK_REALS + node * FACTOR_REALS, *factors = own + 2 * LANES;
    memcpy(room, own, sizeof(REAL) * 2 * LANES);
    const VECTOR *of_one = (const VECTOR *)(table + 2 * LANES);
    VECTOR *to = (VECTOR *)(room + 2 * LANES);
    TYPED(put_products)(UNITS - 1, of_one, factors, to);
    for (int at = UNITS - 1; at < LANES - 1; at += GROUP - 1)
        TYPED(put_products)(GROUP - 1, of_one + 2 * at, factors + 2 * (UNITS - 1), to + 2 * at);
    return room;
}

INLINE void TYPED(transpose_groups_of)(COMPLEX *x)
{
    VECTOR re[GROUP], im[GROUP];
    for (int r = 0; r < GROUP; r++) re[r] = x[r].re;
    for (int r = 0; r < GROUP; r++) im[r] = x[r].im;
    TYPED(cpu_transpose_groups)(re);
    TYPED(cpu_transpose_groups)(im);
    for (int r = 0; r < GROUP; r++) x[r] = (COMPLEX){re[r], im[r]};
}
INLINE void TYPED(transpose_units_of)(COMPLEX *x)
{
    VECTOR re[UNITS], im[UNITS];
    for (int g = 0; g < UNITS; g++) re[g] = x[g].re;
    for (int g = 0; g < UNITS; g++) im[g] = x[g].im;
    TYPED(cpu_transpose_units)(re);
    TYPED(cpu_transpose_units)(im);
    for (int g = 0; g < UNITS; g++) x[g] = (COMPLEX){re[g], im[g]};
}

/* All levels of a block but the last. */
static void TYPED(block_down)(COMPLEX *x, const REAL *table)
{
    COMPLEX w[4], part[4];
    if (UNITS > 1) TYPED(split_node)(UNITS, x, GROUP, table);
    for (int g = 0; g < UNITS; g++) {
        for (int k = 0; k < GROUP - 1; k++) w[k] = TYPED(twiddle)(table, UNITS - 1 + g * (GROUP - 1) + k, 0);
        for (int r = 0; r < GROUP; r++) part[r] = x[g * GROUP + r];
        TYPED(split)(GROUP, part, w);
        TYPED(transpose_groups_of)(part);
        for (int r = 0; r < GROUP; r++) x[g * GROUP + r] = part[r];
    }
    table += 2 * LANES;
    if (UNITS == 1) return;
    for (int k = 0; k < UNITS - 1; k++) w[k] = TYPED(twiddle)(table, k, 1);
    for (int r = 0; r < GROUP; r++) {
        for (int g = 0; g < UNITS; g++) part[g] = x[g * GROUP + r];
        TYPED(transpose_units_of)(part);
        TYPED(split)(UNITS, part, w);
        for (int g = 0; g < UNITS; g++) x[g * GROUP + r] = part[g];
    }
}
static void TYPED(block_up)(COMPLEX *x, const REAL *table)
{
    COMPLEX w[4], part[4];
    const REAL *by_lane = table + 2 * LANES;
    if (UNITS > 1) {
        for (int k = 0; k < UNITS - 1; k++) w[k] = TYPED(twiddle)(by_lane, k, 1);
        for (int r = 0; r < GROUP; r++) {
            for (int g = 0; g < UNITS; g++) part[g] = x[g * GROUP + r];
            TYPED(join)(UNITS, part, w);
            TYPED(transpose_units_of)(part);
            for (int g = 0; g < UNITS; g++) x[g * GROUP + r] = part[g];
        }
    }
    for (int g = 0; g < UNITS; g++) {
        for (int k = 0; k < GROUP - 1; k++) w[k] = TYPED(twiddle)(table, UNITS - 1 + g * (GROUP - 1) + k, 0);
        for (int r = 0; r < GROUP; r++) part[r] = x[g * GROUP + r];
        TYPED(transpose_groups_of)(part);
        TYPED(join)(GROUP, part, w);
        for (int r = 0; r < GROUP; r++) x[g * GROUP + r] = part[r];
    }
    if (UNITS > 1) TYPED(join_node)(UNITS, x, GROUP, table);
}

/* Vectors [0, GROUP) of node g of the last level, there and back. */
INLINE void TYPED(block_last)(int g, COMPLEX *part, const REAL *table, int down)
{
    COMPLEX w[4];
    for (int k = 0; k < GROUP - 1; k++) w[k] = TYPED(twiddle)(table + 2 * LANES, UNITS - 1 + g * (GROUP - 1) + k, 1);
    if (down)
        TYPED(split)(GROUP, part, w);
    else
        TYPED(join)(GROUP, part, w);
}

/* ---- levels above the blocks ------------------------------------------------------------------------------------- */

static void TYPED(level_down)(int radix, COMPLEX *x, int64_t count, const REAL *table)
{
    switch (radix) {
    case 2:
        TYPED(split_node)(2, x, count, table);
        break;
    case 3:
        TYPED(split_node)(3, x, count, table);
        break;
    case 4:
        TYPED(split_node)(4, x, count, table);
        break;
    default:
        TYPED(split_node)(5, x, count, table);
        break;
    }
}
static void TYPED(level_up)(int radix, COMPLEX *x, int64_t count, const REAL *table)
{
    switch (radix) {
    case 2:
        TYPED(join_node)(2, x, count, table);
        break;
    case 3:
        TYPED(join_node)(3, x, count, table);
        break;
    case 4:
        TYPED(join_node)(4, x, count, table);
        break;
    default:
        TYPED(join_node)(5, x, count, table);
        break;
    }
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Blocks take all of 2^k in the end, a level above them as much as it can. */
static void TYPED(plan)(cpu_ring *ring, int64_t points)
{
    int64_t vectors = points / LANES / LANES, nodes = 1, count = 0;
    ring->points = points;
    ring->levels = 0;
    int odd = vectors % 3 == 0 ? 3 : vectors % 5 == 0 ? 5 : 1;
    vectors /= odd;
    for (int first = 1; vectors > 1 || (first && odd > 1); first = 0) {
        int square = 1;
        for (int64_t v = vectors; v > 1; v /= 2) square = !square;
        int radix = first && odd > 1 ? odd : square ? 4 : 2;
        ring->radix[ring->levels] = radix;
        ring->twiddle[ring->levels++] = count;
        count += 2 * TYPED(twiddles)(radix) * nodes;
        nodes *= radix;
        if (radix != odd) vectors /= radix;
    }
    count = (count + 15) / 16 * 16;
    ring->twiddle[ring->levels] = count;
    ring->short_table = points * (int64_t)sizeof(COMPLEX) / LANES >= LONG_ROW_BYTES;
    ring->table_count = count + (ring->short_table ? BLOCK_REALS + nodes * FACTOR_REALS : nodes * BLOCK_REALS);
}

/* e^(2 pi i turns), 0 <= turns < 1, exact at the eighths. */
static void TYPED(put_root)(REAL *to, double turns)
{
    static const double two_pi = 6.283185307179586476925286766559;
    double eighths = floor(8.0 * turns + 0.5), c = cos(two_pi * (turns - eighths / 8.0)),
           s = sin(two_pi * (turns - eighths / 8.0));
    double half = sqrt(0.5), cosines[] = {1, half, 0, -half, -1, -half, 0, half};
    int octant = (int)eighths % 8;
    double x = cosines[octant], y = cosines[(octant + 6) % 8];
    to[0] = (REAL)(c * x - s * y);
    to[1] = (REAL)(c * y + s * x);
}

/* Angle of the p-th root of e^(2 pi i turns), in the order of `split`. */
static double TYPED(child)(int radix, int p, double turns)
{
    static const double quarters[] = {0, 0.5, 0.25, 0.75};
    return turns / radix + (radix == 4 ? quarters[p] : (double)p / radix);
}

/* The twiddles of a split, each as far from the next as `stride` says. */
static void TYPED(put_twiddles)(int radix, double turns, REAL *to, int64_t stride, int64_t imaginary)
{
    REAL root[2];
    for (int k = 0; k < TYPED(twiddles)(radix); k++) {
        int p = radix % 2 ? k / (radix - 1) : 0, q = radix % 2 ? k % (radix - 1) + 1 : k + 1;
        double angle = q * TYPED(child)(radix, p, turns);
        TYPED(put_root)(root, angle - floor(angle));
        to[k * stride] = root[0];
        to[k * stride + imaginary] = root[1];
    }
}

/* Levels UNITS and GROUP of one node; its LANES leaves. */
static void TYPED(put_pair)(double turns, REAL *to, int64_t stride, int64_t imaginary, double *leaf)
{
    if (UNITS > 1) TYPED(put_twiddles)(UNITS, turns, to, stride, imaginary);
    for (int g = 0; g < UNITS; g++) {
        double child = UNITS > 1 ? TYPED(child)(UNITS, g, turns) : turns;
        TYPED(put_twiddles)(GROUP, child, to + (UNITS - 1 + g * (GROUP - 1)) * stride, stride, imaginary);
        for (int r = 0; r < GROUP; r++) leaf[g * GROUP + r] = TYPED(child)(GROUP, r, child);
    }
}

static void TYPED(put_block)(double turns, REAL *to)
{
    double lane[LANES], leaf[LANES];
    TYPED(put_pair)(turns, to, 2, 1, lane);
    for (int l = 0; l < LANES; l++) TYPED(put_pair)(lane[l], to + 2 * LANES + l, 2 * LANES, LANES, leaf);
}

static void TYPED(fill_node)(const cpu_ring *ring, int level, int64_t node, double turns)
{
    REAL *table = ring->table, *to = table + ring->twiddle[level];
    if (level < ring->levels) {
        int radix = ring->radix[level];
        TYPED(put_twiddles)(radix, turns, to + 2 * TYPED(twiddles)(radix) * node, 2, 1);
        for (int p = 0; p < radix; p++)
            TYPED(fill_node)(ring, level + 1, node * radix + p, TYPED(child)(radix, p, turns));
        return;
    }
    double lane[LANES];
    if (!ring->short_table) {
        TYPED(put_block)(turns, to + node * BLOCK_REALS);
        return;
    }
    to += BLOCK_REALS + node * FACTOR_REALS;
    TYPED(put_pair)(turns, to, 2, 1, lane);
    to += 2 * LANES;
    if (UNITS > 1) TYPED(put_twiddles)(UNITS, turns / LANES, to, 2, 1);
    TYPED(put_twiddles)(GROUP, turns / LANES / UNITS, to + 2 * (UNITS - 1), 2, 1);
}

static void TYPED(fill)(cpu_ring *ring)
{
    memset(ring->table, 0, sizeof(REAL) * (size_t)ring->table_count);
    if (ring->short_table) TYPED(put_block)(0, (REAL *)ring->table + ring->twiddle[ring->levels]);
    TYPED(fill_node)(ring, 0, 0, 0.25);
}
