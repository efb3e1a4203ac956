/*
 * Rows through the ring: samples in, what is done with their spectrum, samples out. Included by convolve.c only, once
 * for each precision, behind ring_typed.h; no include guard therefore. ring.h says what each function computes.
 */

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* Those that are not all there, and those that are not side by side. */
static __attribute__((noinline)) VECTOR TYPED(load_end)(const cpu_source *source, int64_t t)
{
    const REAL *samples = source->samples;
    REAL lanes[LANES] __attribute__((aligned(64))) = {0};
    for (int64_t l = 0; l < LANES && t + l < source->count; l++) lanes[l] = samples[(t + l) * source->stride];
    return *(const VECTOR *)lanes;
}
static __attribute__((noinline)) void TYPED(store_end)(const cpu_target *target, int64_t t, VECTOR value)
{
    REAL *samples = target->samples, lanes[LANES] __attribute__((aligned(64)));
    *(VECTOR *)lanes = value;
    for (int64_t l = 0; l < LANES && t + l < target->length; l++)
        samples[(t + l) * target->stride] = t + l < target->count ? lanes[l] : 0;
}
static __attribute__((noinline)) VECTOR TYPED(gather)(const REAL *samples, int64_t stride)
{
    REAL lanes[LANES] __attribute__((aligned(64)));
    for (int l = 0; l < LANES; l++) lanes[l] = samples[l * stride];
    return *(const VECTOR *)lanes;
}
static __attribute__((noinline)) void TYPED(scatter)(REAL *samples, int64_t stride, VECTOR value)
{
    REAL lanes[LANES] __attribute__((aligned(64)));
    *(VECTOR *)lanes = value;
    for (int l = 0; l < LANES; l++) samples[l * stride] = lanes[l];
}

/* LANES samples from t on; zeros beyond the last. */
INLINE VECTOR TYPED(load)(const cpu_source *source, int64_t t)
{
    if (t >= source->count) return (VECTOR){0};
    if (t + LANES > source->count) return TYPED(load_end)(source, t);
    const REAL *samples = (const REAL *)source->samples + t * source->stride;
    return source->stride == 1 ? (VECTOR) * (const STORED *)samples : TYPED(gather)(samples, source->stride);
}
INLINE void TYPED(store)(const cpu_target *target, int64_t t, VECTOR value)
{
    if (t >= target->length) return;
    REAL *samples = (REAL *)target->samples + t * target->stride;
    if (t + LANES > target->count)
        TYPED(store_end)(target, t, value);
    else if (target->stride == 1)
        *(STORED *)samples = value;
    else
        TYPED(scatter)(samples, target->stride, value);
}

INLINE VECTOR TYPED(with_skip)(const cpu_skip *skip, REAL first, int64_t t, VECTOR value)
{
    value += first * TYPED(load)(&skip->source, t);
    for (int64_t c = 1; c < skip->outputs; c++) {
        cpu_source source = skip->source;
        source.samples = (const REAL *)source.samples + c * skip->output_stride;
        value += (REAL)skip->d[c * skip->d_stride] * TYPED(load)(&source, t);
    }
    return value;
}

/* ---- the first level, of samples, and the last ------------------------------------------------------------------- */

INLINE COMPLEX TYPED(scaled)(COMPLEX a, VECTOR b) { return (COMPLEX){a.re * b, a.im * b}; }

/* `split` of reals. */
INLINE void TYPED(split_reals)(int radix, const VECTOR *x, const COMPLEX *w, COMPLEX *y)
{
    if (radix == 2) {
        COMPLEX b = TYPED(scaled)(w[0], x[1]);
        y[0] = (COMPLEX){x[0] + b.re, b.im};
        y[1] = (COMPLEX){x[0] - b.re, -b.im};
    } else if (radix == 4) {
        COMPLEX one = TYPED(scaled)(w[0], x[1]), two = TYPED(scaled)(w[1], x[2]), three = TYPED(scaled)(w[2], x[3]);
        COMPLEX even = {x[0] + two.re, two.im}, even_i = {x[0] - two.re, -two.im};
        COMPLEX odd = TYPED(add)(one, three), odd_i = TYPED(minus)(one, three);
        y[0] = TYPED(add)(even, odd);
        y[1] = TYPED(minus)(even, odd);
        y[2] = TYPED(plus_i)(even_i, odd_i);
        y[3] = TYPED(minus_i)(even_i, odd_i);
    } else {
        for (int p = 0; p < radix; p++) {
            y[p] = TYPED(scaled)(w[p * (radix - 1)], x[1]);
            y[p].re += x[0];
            for (int q = 2; q < radix; q++) y[p] = TYPED(add)(y[p], TYPED(scaled)(w[p * (radix - 1) + q - 1], x[q]));
        }
    }
}

INLINE void TYPED(split_samples)(int radix, const cpu_ring_row *row)
{
    COMPLEX w[20], part[5], *x = row->row;
    VECTOR reals[5];
    int64_t count = row->ring->points / LANES / radix;
    for (int k = 0; k < TYPED(twiddles)(radix); k++) w[k] = TYPED(twiddle)(row->ring->table, k, 0);
    for (int64_t j = 0; j < count; j++) {
        for (int q = 0; q < radix; q++) reals[q] = TYPED(load)(&row->source, (j + q * count) * LANES);
        TYPED(split_reals)(radix, reals, w, part);
        for (int q = 0; q < radix; q++) x[j + q * count] = part[q];
    }
}

INLINE void TYPED(join_samples)(int radix, const cpu_ring_row *row)
{
    COMPLEX w[20], part[5], *x = row->row;
    int64_t count = row->ring->points / LANES / radix;
    REAL d = (REAL)row->skip.d[0];
    for (int k = 0; k < TYPED(twiddles)(radix); k++) w[k] = TYPED(twiddle)(row->ring->table, k, 0);
    for (int64_t j = 0; j < count; j++) {
        for (int q = 0; q < radix; q++) part[q] = x[j + q * count];
        if (radix % 2)
            TYPED(join_odd)(radix, part, w);
        else
            TYPED(join)(radix, part, w);
        for (int q = 0; q < radix; q++) {
            int64_t t = (j + q * count) * LANES;
            TYPED(store)(&row->target, t, TYPED(with_skip)(&row->skip, d, t, part[q].re));
        }
    }
}

/* Where the first level is not one of samples: their coefficients, and back. */
static void TYPED(load_row)(const cpu_ring_row *row)
{
    COMPLEX *x = row->row;
    int64_t points = row->ring->points;
    for (int64_t t = 0; t < points; t += LANES)
        x[t / LANES] = (COMPLEX){TYPED(load)(&row->source, t), TYPED(load)(&row->source, t + points)};
}
static void TYPED(store_row)(const cpu_ring_row *row)
{
    const COMPLEX *x = row->row;
    int64_t points = row->ring->points;
    REAL d = (REAL)row->skip.d[0];
    for (int64_t t = 0; t < points; t += LANES) {
        VECTOR re = TYPED(with_skip)(&row->skip, d, t, x[t / LANES].re);
        VECTOR im = TYPED(with_skip)(&row->skip, d, t + points, x[t / LANES].im);
        TYPED(store)(&row->target, t, re);
        TYPED(store)(&row->target, t + points, im);
    }
}

static void TYPED(first_level)(const cpu_ring_row *row)
{
    switch (row->ring->radix[0]) {
    case 2:
        TYPED(split_samples)(2, row);
        break;
    case 3:
        TYPED(split_samples)(3, row);
        break;
    case 4:
        TYPED(split_samples)(4, row);
        break;
    default:
        TYPED(split_samples)(5, row);
        break;
    }
}
static void TYPED(last_level)(const cpu_ring_row *row)
{
    switch (row->ring->radix[0]) {
    case 2:
        TYPED(join_samples)(2, row);
        break;
    case 3:
        TYPED(join_samples)(3, row);
        break;
    case 4:
        TYPED(join_samples)(4, row);
        break;
    default:
        TYPED(join_samples)(5, row);
        break;
    }
}

/* ---- spectra ----------------------------------------------------------------------------------------------------- */

/* gradient += conj(u) z of one vector, in double. */
INLINE void TYPED(gradient)(const COMPLEX *u_vector, const COMPLEX *z_vector, double *gradient)
{
    const REAL *u = (const REAL *)u_vector, *z = (const REAL *)z_vector;
    for (int l = 0; l < LANES; l++) {
        double u_re = (double)u[l], u_im = (double)u[LANES + l], z_re = (double)z[l], z_im = (double)z[LANES + l];
        gradient[l] += u_re * z_re;
        gradient[l] += u_im * z_im;
        gradient[LANES + l] += u_re * z_im;
        gradient[LANES + l] -= u_im * z_re;
    }
}

/* What is in work at a time, of node g of a block at vector `at` of the row: its last level, what is done to the
 * spectrum, and the same level back. */
INLINE void TYPED(spectrum_work)(const cpu_ring_row *row, unsigned work, int g, int64_t at, const REAL *table)
{
    COMPLEX part[GROUP], *x = (COMPLEX *)row->row + at;
    const COMPLEX *from = work & CPU_RING_FORWARD ? x : (const COMPLEX *)row->from + at;
    for (int r = 0; r < GROUP; r++) part[r] = from[r];
    if (work & CPU_RING_FORWARD) TYPED(block_last)(g, part, table, 1);
    if (work & CPU_RING_GRADIENT) {
        for (int r = 0; r < GROUP; r++) x[r] = part[r];
        for (int r = 0; r < GROUP; r++)
            TYPED(gradient)((const COMPLEX *)row->u + at + r, x + r, row->gradient + (at + r) * 2 * LANES);
    }
    if (work & CPU_RING_MULTIPLY) {
        const COMPLEX *kernel = (const COMPLEX *)row->kernel + at;
        for (int r = 0; r < GROUP; r++) part[r] = TYPED(times)(kernel[r], part[r]);
    }
    if (work & CPU_RING_ADJOINT) {
        const COMPLEX *kernel = (const COMPLEX *)row->kernel + at;
        for (int r = 0; r < GROUP; r++) part[r] = TYPED(conj_times)(kernel[r], part[r]);
    }
    if (work & CPU_RING_ADD) {
        const COMPLEX *sum = (const COMPLEX *)row->sum + at;
        for (int r = 0; r < GROUP; r++) part[r] = TYPED(add)(sum[r], part[r]);
    }
    if (work & CPU_RING_SUM) {
        COMPLEX *sum = (COMPLEX *)row->sum + at;
        for (int r = 0; r < GROUP; r++) sum[r] = part[r];
    }
    if (work & CPU_RING_INVERSE) TYPED(block_last)(g, part, table, 0);
    for (int r = 0; r < GROUP; r++) x[r] = part[r];
}

/* The same for all nodes of a block; those kinds of work that most rows need are compiled apart. */
static void TYPED(block_spectrum)(const cpu_ring_row *row, int64_t offset, const REAL *table)
{
#define EVERY_NODE(work)                                                                                               \
    for (int g = 0; g < UNITS; g++) TYPED(spectrum_work)(row, work, g, offset + g * GROUP, table)
    unsigned work = row->work & ~(unsigned)(CPU_RING_IN_PLACE | CPU_RING_BEGIN);
    switch (work) {
    case CPU_RING_FORWARD:
        EVERY_NODE(CPU_RING_FORWARD);
        break;
    case CPU_RING_INVERSE:
        EVERY_NODE(CPU_RING_INVERSE);
        break;
    case CPU_RING_CONVOLVE:
        EVERY_NODE(CPU_RING_CONVOLVE);
        break;
    case CPU_RING_BACKWARD:
        EVERY_NODE(CPU_RING_BACKWARD);
        break;
    case CPU_RING_BACKWARD | CPU_RING_GRADIENT:
        EVERY_NODE(CPU_RING_BACKWARD | CPU_RING_GRADIENT);
        break;
    default:
        EVERY_NODE(work);
        break;
    }
#undef EVERY_NODE
}

/* Each block has its share of the row fetched that comes next, and of the one that is to be written; and, where it is
 * cold, that of the kernel which a block a little later meets: the memory works while the processor does. */
#define BLOCKS_AHEAD 4
INLINE void TYPED(fetch)(const cpu_ring_row *row, int64_t offset)
{
    const int64_t line = 64 / (int64_t)sizeof(REAL);
    const REAL *next = row->next, *target = row->target.samples;
    int64_t t = offset * LANES, end = t + LANES * LANES;
    if (row->cold && row->work & (CPU_RING_MULTIPLY | CPU_RING_ADJOINT)) {
        const REAL *kernel = (const REAL *)row->kernel + 2 * (t + BLOCKS_AHEAD * LANES * LANES);
        for (int64_t s = 0; s < 2 * LANES * LANES; s += line) __builtin_prefetch(kernel + s, 0, 2);
    }
    if (next)
        for (int64_t s = t; s < end && s < row->source.count; s += line) __builtin_prefetch(next + s, 0, 2);
    if (row->work & CPU_RING_INVERSE && row->target.stride == 1)
        for (int64_t s = t; s < end && s < row->target.count; s += line) __builtin_prefetch(target + s, 1, 2);
}

static void TYPED(block)(const cpu_ring_row *row, int64_t node, int64_t offset)
{
    TYPED(fetch)(row, offset);
    REAL room[BLOCK_REALS] __attribute__((aligned(64)));
    const REAL *table = TYPED(block_table)(row->ring, node, room);
    COMPLEX *x = (COMPLEX *)row->row + offset;
    if (row->work & CPU_RING_BEGIN) memset(row->gradient + offset * 2 * LANES, 0, sizeof(double) * 2 * LANES * LANES);
    if (row->work & CPU_RING_FORWARD) TYPED(block_down)(x, table);
    TYPED(block_spectrum)(row, offset, table);
    if (row->work & CPU_RING_INVERSE) TYPED(block_up)(x, table);
}

/* A node of `vectors` vectors, from `offset` on, with all below it. */
static void TYPED(walk)(const cpu_ring_row *row, int level, int64_t node, int64_t offset, int64_t vectors)
{
    const cpu_ring *ring = row->ring;
    if (level == ring->levels) {
        TYPED(block)(row, node, offset);
        return;
    }
    int radix = ring->radix[level];
    int64_t count = vectors / radix;
    COMPLEX *x = (COMPLEX *)row->row + offset;
    const REAL *table = (const REAL *)ring->table + ring->twiddle[level] + 2 * TYPED(twiddles)(radix) * node;
    if (row->work & CPU_RING_FORWARD) TYPED(level_down)(radix, x, count, table);
    for (int p = 0; p < radix; p++) TYPED(walk)(row, level + 1, node * radix + p, offset + p * count, count);
    if (row->work & CPU_RING_INVERSE) TYPED(level_up)(radix, x, count, table);
}

static void TYPED(row)(const cpu_ring_row *row)
{
    const cpu_ring *ring = row->ring;
    int64_t vectors = ring->points / LANES;
    unsigned in = row->work & CPU_RING_IN_PLACE ? 0 : row->work & CPU_RING_FORWARD;
    unsigned out = row->work & CPU_RING_IN_PLACE ? 0 : row->work & CPU_RING_INVERSE;
    if (row->wide || row->work & CPU_RING_IN_PLACE || !ring->levels) {
        if (in) TYPED(load_row)(row);
        TYPED(walk)(row, 0, 0, 0, vectors);
        if (out) TYPED(store_row)(row);
        return;
    }
    int radix = ring->radix[0];
    if (in) TYPED(first_level)(row);
    for (int p = 0; p < radix; p++) TYPED(walk)(row, 1, p, p * (vectors / radix), vectors / radix);
    if (out) TYPED(last_level)(row);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* Where sample t < 2M of a row is. */
INLINE int64_t TYPED(place)(int64_t points, int64_t t)
{
    int64_t j = t < points ? t : t - points;
    return j / LANES * (2 * LANES) + (t < points ? 0 : LANES) + j % LANES;
}

/* Sample j of the backward kernel is that of t^-(1+j) = -t^(2M-1-j). */
static void TYPED(spectrum)(const cpu_ring *ring, const void *kernel, const void *backward_kernel, int64_t count,
                            void *spectrum)
{
    const REAL *k = kernel, *k1 = backward_kernel;
    REAL *row = spectrum, scale = (REAL)1 / (REAL)ring->points;
    int64_t points = ring->points;
    cpu_source samples = {k, 1, count};
    for (int64_t t = 0; t < points; t += LANES) {
        ((VECTOR *)row)[2 * t / LANES] = scale * TYPED(load)(&samples, t);
        ((VECTOR *)row)[2 * t / LANES + 1] = (VECTOR){0}; /* samples that count are no more than the points */
    }
    if (k1)
        for (int64_t j = 0; j < count; j++) row[TYPED(place)(points, 2 * points - 1 - j)] = -scale * k1[j];
    TYPED(row)(&(cpu_ring_row){.ring = ring, .work = CPU_RING_FORWARD | CPU_RING_IN_PLACE, .row = row});
}

/* to[t] = factor * sample t of a row, t < count. */
static void TYPED(take)(const REAL *row, int64_t points, int64_t count, double factor, double *to)
{
    for (int64_t t = 0; t < count; t += LANES) {
        const REAL *lanes = row + TYPED(place)(points, t);
        if (t + LANES <= count)
            for (int l = 0; l < LANES; l++) to[t + l] = factor * (double)lanes[l];
        else
            for (int64_t l = 0; t + l < count; l++) to[t + l] = factor * (double)lanes[l];
    }
}

static void TYPED(correlate)(const cpu_ring *ring, const double *gradient, int64_t count, void *scratch,
                             double *kernel_gradient, double *backward_gradient)
{
    REAL *row = scratch;
    int64_t points = ring->points;
    double scale = 1.0 / (double)points;
    for (int64_t i = 0; i < 2 * points; i++) row[i] = (REAL)gradient[i];
    TYPED(row)(&(cpu_ring_row){.ring = ring, .work = CPU_RING_INVERSE | CPU_RING_IN_PLACE, .row = row, .from = row});
    TYPED(take)(row, points, count, scale, kernel_gradient);
    if (!backward_gradient) return;
    for (int64_t j = 0; j < count; j++)
        backward_gradient[j] = -scale * (double)row[TYPED(place)(points, 2 * points - 1 - j)];
}

static int TYPED(round)(const double *row, double factor, int64_t count, void *to)
{
    REAL *rounded = to;
    double poison[CPU_DOUBLES] = {0};
    int64_t l = 0;
    for (; l + CPU_DOUBLES <= count; l += CPU_DOUBLES)
        for (int j = 0; j < CPU_DOUBLES; j++) {
            rounded[l + j] = (REAL)(factor * row[l + j]);
            poison[j] += 0.0 * row[l + j];
        }
    for (; l < count; l++) {
        rounded[l] = (REAL)(factor * row[l]);
        poison[0] += 0.0 * row[l];
    }
    int finite = 1;
    for (int j = 0; j < CPU_DOUBLES; j++) finite &= poison[j] == 0.0;
    return finite;
}

static double TYPED(inner)(cpu_source a, cpu_source b)
{
    double sum[LANES] = {0}, total = 0.0;
    for (int64_t t = 0; t < a.count; t += LANES) {
        VECTOR a_vector = TYPED(load)(&a, t), b_vector = TYPED(load)(&b, t);
        const REAL *x = (const REAL *)&a_vector, *y = (const REAL *)&b_vector;
        for (int l = 0; l < LANES; l++) sum[l] += (double)x[l] * (double)y[l];
    }
    for (int l = 0; l < LANES; l++) total += sum[l];
    return total;
}
#undef COMPLEX
