/*
 * The recurrence x <- dA x + dB u[t], y_c[t] = c x + D_c u[t] of one row: see step.h. The first read-out is summed while x is
 * made, the others after it.
 */
#include "cpu/level/step.h"

#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "cpu/level/vector.h"
#include "cpu/place.h"

#define LANES CPU_DOUBLES

typedef cpu_doubles lanes;

/* ---- parts of vectors: the first `count` lanes, the others 0 ------------------------------------------------------- */

static inline lanes load(const double *from, int64_t count)
{
    if (count == LANES) return cpu_load_doubles(from);
#if defined(__AVX512F__)
    return (lanes)_mm512_maskz_loadu_pd((__mmask8)((1u << count) - 1), from);
#elif defined(__AVX2__)
    __m256i used = _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_set_epi64x(3, 2, 1, 0));
    return (lanes)_mm256_maskload_pd(from, used);
#else
    lanes part = {0};
    for (int64_t i = 0; i < count; i++) part[i] = from[i];
    return part;
#endif
}

static inline void store(double *to, int64_t count, lanes value)
{
    if (count == LANES) {
        cpu_store_doubles(to, value);
        return;
    }
#if defined(__AVX512F__)
    _mm512_mask_storeu_pd(to, (__mmask8)((1u << count) - 1), (__m512d)value);
#elif defined(__AVX2__)
    __m256i used = _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_set_epi64x(3, 2, 1, 0));
    _mm256_maskstore_pd(to, used, (__m256d)value);
#else
    for (int64_t i = 0; i < count; i++) to[i] = value[i];
#endif
}

static inline double sum_of(lanes v)
{
#if CPU_DOUBLES == 8
    lanes a = v + __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
    lanes b = a + __builtin_shufflevector(a, a, 2, 3, 0, 1, 6, 7, 4, 5);
    return b[0] + b[1];
#elif CPU_DOUBLES == 4
    lanes a = v + __builtin_shufflevector(v, v, 2, 3, 0, 1);
    return a[0] + a[1];
#else
    return v[0] + v[1];
#endif
}

/* ---- states -------------------------------------------------------------------------------------------------------- */

#define INLINE static inline __attribute__((always_inline))

#if CPU_DOUBLES == 8
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#define LOW 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#elif CPU_DOUBLES == 4
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#define LOW 0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#else
#define EVEN 0, 2
#define ODD 1, 3
#define LOW 0, 2
#define HIGH 1, 3
#endif

/* `count` complex numbers (count,2) as re and im, and back. */
INLINE void load_pairs(const double *from, int64_t count, lanes *re, lanes *im)
{
    int64_t low = 2 * count < LANES ? 2 * count : LANES, high = 2 * count - low;
    lanes a = load(from, low), b = {0};
    if (high) b = load(from + LANES, high);
    *re = __builtin_shufflevector(a, b, EVEN);
    *im = __builtin_shufflevector(a, b, ODD);
}

INLINE void store_pairs(double *to, int64_t count, lanes re, lanes im)
{
    int64_t low = 2 * count < LANES ? 2 * count : LANES, high = 2 * count - low;
    store(to, low, __builtin_shufflevector(re, im, LOW));
    if (high) store(to + LANES, high, __builtin_shufflevector(re, im, HIGH));
}

INLINE void enter_block(double *x, int64_t modes, const double *from, int64_t count)
{
    lanes re, im;
    load_pairs(from, count, &re, &im);
    store(x, count, re);
    store(x + modes, count, im);
}

static inline void enter(const cpu_recurrence *row)
{
    int64_t modes = row->modes, n = 0;
    const double *from = row->state_in;
    if (!from) return;
    for (; n + LANES <= modes; n += LANES) enter_block(row->x + n, modes, from + 2 * n, LANES);
    if (n < modes) enter_block(row->x + n, modes, from + 2 * n, modes - n);
}

static inline void leave(const cpu_recurrence *row)
{
    int64_t modes = row->modes, n = 0;
    const double *x = row->x;
    double *to = row->state_out;
    if (!to) return;
    for (; n + LANES <= modes; n += LANES) store_pairs(to + 2 * n, LANES, load(x + n, LANES), load(x + modes + n, LANES));
    if (n < modes) store_pairs(to + 2 * n, modes - n, load(x + n, modes - n), load(x + modes + n, modes - n));
}

/* ---- one sample ---------------------------------------------------------------------------------------------------- */

typedef enum way { WAY_LINEAR, WAY_BLOCKS } way;

static inline void add_inner(const double *a, const double *b, int64_t count, lanes *sum)
{
    *sum += load(a, count) * load(b, count);
}

/* a . b, of sizes (N); halves in sums of their own, two of each */
static inline double inner(int64_t modes, const double *a, const double *b)
{
    lanes re[2] = {{0}, {0}}, im[2] = {{0}, {0}};
    const double *a_im = a + modes, *b_im = b + modes;
    int64_t n = 0;
    for (; n + 2 * LANES <= modes; n += 2 * LANES)
        for (int64_t k = 0; k < 2; k++) {
            add_inner(a + n + k * LANES, b + n + k * LANES, LANES, &re[k]);
            add_inner(a_im + n + k * LANES, b_im + n + k * LANES, LANES, &im[k]);
        }
    for (; n < modes; n += LANES) {
        int64_t count = modes - n < LANES ? modes - n : LANES;
        add_inner(a + n, b + n, count, &re[0]);
        add_inner(a_im + n, b_im + n, count, &im[0]);
    }
    return sum_of((re[0] + im[0]) + (re[1] + im[1]));
}

/* Where the vectors of a row are: in variables, which no store to a state can change. */
typedef struct vectors {
    int64_t modes;
    const double *f, *b, *p, *g, *c;
    double *x;
} vectors;

INLINE vectors vectors_of(const cpu_recurrence *row)
{
    int64_t at = row->system;
    return (vectors){row->modes, row->dA + at, row->b + at, row->p + at, row->g + at, row->c + at, row->x};
}

/* Modes n and on; inner: g_r . x. The new state times the first read-out is added to read. Where `from` and `to` are given,
 * the state comes from and goes to these (n,2). */
INLINE void advance_block(vectors of, way how, int64_t rank, int reads, int takes, int64_t n, int64_t count, double u,
                          const double *inner, const double *from, double *to, lanes *read_re, lanes *read_im)
{
    int64_t modes = of.modes;
    lanes re, im, f_re = load(of.f + n, count), f_im = load(of.f + modes + n, count);
    if (from)
        load_pairs(from + 2 * n, count, &re, &im);
    else {
        re = load(of.x + n, count);
        im = load(of.x + modes + n, count);
    }
    lanes next_re, next_im;
    if (how == WAY_LINEAR) {
        next_re = f_re * re - f_im * im;
        next_im = f_re * im + f_im * re;
    } else {
        lanes size = f_im;
        for (int64_t i = 0; i < LANES; i++) size[i] = f_im[i] < 0 ? -f_im[i] : f_im[i];
        next_re = f_re * re + f_im * im;
        next_im = f_re * im - size * re;
    }
    if (takes) {
        next_re += load(of.b + n, count) * u;
        next_im += load(of.b + modes + n, count) * u;
    }
    for (int64_t r = 0; r < rank; r++) {
        const double *p = of.p + r * 2 * modes + n;
        next_re -= load(p, count) * inner[r];
        next_im -= load(p + modes, count) * inner[r];
    }
    if (to)
        store_pairs(to + 2 * n, count, next_re, next_im);
    else {
        store(of.x + n, count, next_re);
        store(of.x + modes + n, count, next_im);
    }
    if (reads) {
        *read_re += load(of.c + n, count) * next_re;
        *read_im += load(of.c + modes + n, count) * next_im;
    }
}

/* x <- dA x + dB u; returns the first read-out of the new state. */
INLINE double advance(vectors of, way how, int64_t rank, int reads, int takes, double u, const double *from, double *to)
{
    int64_t modes = of.modes, n = 0;
    double of_g[S4_RANK_MAX];
    lanes re = {0}, im = {0};
    for (int64_t r = 0; r < rank; r++) of_g[r] = inner(modes, of.g + r * 2 * modes, of.x);
    for (; n + LANES <= modes; n += LANES)
        advance_block(of, how, rank, reads, takes, n, LANES, u, of_g, from, to, &re, &im);
    if (n < modes) advance_block(of, how, rank, reads, takes, n, modes - n, u, of_g, from, to, &re, &im);
    return sum_of(re + im);
}

/* ---- rows of samples --------------------------------------------------------------------------------------------- */

INLINE double read_out(const cpu_recurrence *row, int64_t c)
{
    return inner(row->modes, row->c + row->system + c * 2 * row->modes, row->x);
}

INLINE void put_outputs(const cpu_recurrence *row, s4_dtype dtype, int64_t t, double first, double u)
{
    for (int64_t c = 0; c < row->channels; c++) {
        double y = (c ? read_out(row, c) : first) + row->d[c * row->d_output] * u;
        cpu_put_sample(dtype, row->y, c * row->y_output + t * row->y_time, y);
    }
}

/* One sample of one output: the state passes through registers, unless g . x asks for it before. */
INLINE void step_once(const cpu_recurrence *row, int64_t rank, s4_dtype dtype)
{
    double u = cpu_sample(dtype, row->u, 0);
    if (rank) enter(row);
    double first = advance(vectors_of(row), WAY_LINEAR, rank, 1, 1, u, rank ? NULL : row->state_in, row->state_out);
    put_outputs(row, dtype, 0, first, u);
}

INLINE void step_row(const cpu_recurrence *row, way how, int64_t rank, s4_dtype dtype)
{
    if (how == WAY_LINEAR && row->length == 1 && row->channels == 1 && row->state_in && row->state_out) {
        step_once(row, rank, dtype);
        return;
    }
    vectors of = vectors_of(row);
    enter(row);
    for (int64_t t = 0; t < row->length; t++) {
        double u = cpu_sample(dtype, row->u, t * row->u_time);
        put_outputs(row, dtype, t, advance(of, how, rank, 1, 1, u, NULL, NULL), u);
    }
    leave(row);
}

INLINE void respond_row(const cpu_recurrence *row, int64_t rank, s4_dtype dtype)
{
    vectors of = vectors_of(row);
    enter(row);
    for (int64_t t = 0; t < row->length; t++) {
        double first = advance(of, WAY_LINEAR, rank, 1, 0, 0, NULL, NULL);
        for (int64_t c = 0; c < row->channels; c++) {
            int64_t offset = c * row->y_output + t * row->y_time;
            double y = cpu_sample(dtype, row->y, offset) + (c ? read_out(row, c) : first);
            cpu_put_sample(dtype, row->y, offset, y);
        }
    }
    leave(row);
}

INLINE void absorb_row(const cpu_recurrence *row, int64_t rank, s4_dtype dtype)
{
    vectors of = vectors_of(row);
    enter(row);
    for (int64_t t = 0; t < row->length; t++)
        advance(of, WAY_LINEAR, rank, 0, 1, cpu_sample(dtype, row->u, t * row->u_time), NULL, NULL);
    leave(row);
}

/* Calls of the above with a rank and a dtype that are known. */
#define BY_RANK(call, dtype)                                                                                           \
    switch (row->rank) {                                                                                               \
    case 0: call(0, dtype); break;                                                                                     \
    case 1: call(1, dtype); break;                                                                                     \
    default: call(row->rank, dtype);                                                                                   \
    }
#define BY_DTYPE(call)                                                                                                 \
    if (row->dtype == S4_F32) {                                                                                        \
        BY_RANK(call, S4_F32)                                                                                          \
    } else {                                                                                                           \
        BY_RANK(call, S4_F64)                                                                                          \
    }
#define STEP(rank, dtype) step_row(row, WAY_LINEAR, rank, dtype)
#define RESPOND(rank, dtype) respond_row(row, rank, dtype)
#define ABSORB(rank, dtype) absorb_row(row, rank, dtype)

static void step_linear(const cpu_recurrence *row) { BY_DTYPE(STEP) }
static void respond(const cpu_recurrence *row) { BY_DTYPE(RESPOND) }
static void absorb(const cpu_recurrence *row) { BY_DTYPE(ABSORB) }

static void step_blocks(const cpu_recurrence *row)
{
    if (row->dtype == S4_F32)
        step_row(row, WAY_BLOCKS, 0, S4_F32);
    else
        step_row(row, WAY_BLOCKS, 0, S4_F64);
}

/* ---- dense --------------------------------------------------------------------------------------------------------- */

/* Entries m and on of dA x + dB u: `wide` vectors, of which the last has `count` entries. */
INLINE void dense_block(const cpu_recurrence *row, int64_t m, int64_t wide, int64_t count, double u)
{
    int64_t state = 2 * row->modes;
    lanes sum[4] = {{0}, {0}, {0}, {0}};
    const double *column = row->dA + row->system + m, *b = row->b + row->system + m;
    for (int64_t k = 0; k < state; k++, column += state)
        for (int64_t i = 0; i < wide; i++) sum[i] += load(column + i * LANES, count) * row->x[k];
    for (int64_t i = 0; i < wide; i++)
        store(row->scratch + m + i * LANES, count, sum[i] + load(b + i * LANES, count) * u);
}

static void step_dense(const cpu_recurrence *row)
{
    int64_t state = 2 * row->modes;
    enter(row);
    for (int64_t t = 0; t < row->length; t++) {
        double u = cpu_sample(row->dtype, row->u, t * row->u_time);
        int64_t m = 0;
        for (; m + 4 * LANES <= state; m += 4 * LANES) dense_block(row, m, 4, LANES, u);
        for (; m + LANES <= state; m += LANES) dense_block(row, m, 1, LANES, u);
        if (m < state) dense_block(row, m, 1, state - m, u);
        memcpy(row->x, row->scratch, (size_t)state * sizeof *row->x);
        put_outputs(row, row->dtype, t, read_out(row, 0), u);
    }
    leave(row);
}

const cpu_stepper CPU_AT_LEVEL(cpu_stepper_at) = {.linear = step_linear,
                                                  .blocks = step_blocks,
                                                  .dense = step_dense,
                                                  .respond = respond,
                                                  .absorb = absorb};
