/*
 * The recurrence x <- dA x + dB u[t], y_c[t] = c x + D_c u[t] of one row: see step.h. The first read-out is summed while x is
 * made, the others after it.
 */
#include "cpu/level/step.h"

#include <string.h>

#include "cpu/level/state_lanes.h"
#include "cpu/place.h"

/* ---- states -------------------------------------------------------------------------------------------------------- */

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

/* Of modes n and on: f, b and the first read-out, loaded once for all rows that share them. */
typedef struct coefficients {
    lanes f_re, f_im, b_re, b_im, c_re, c_im;
} coefficients;

INLINE coefficients coefficients_at(vectors of, int reads, int takes, int64_t n, int64_t count)
{
    int64_t modes = of.modes;
    coefficients k = {.f_re = load(of.f + n, count), .f_im = load(of.f + modes + n, count)};
    if (takes) {
        k.b_re = load(of.b + n, count);
        k.b_im = load(of.b + modes + n, count);
    }
    if (reads) {
        k.c_re = load(of.c + n, count);
        k.c_im = load(of.c + modes + n, count);
    }
    return k;
}

/* Modes n and on; inner: g_r . x. The new state times the first read-out is added to read. Where `from` and `to` are given,
 * the state comes from and goes to these (n,2). */
INLINE void advance_block(vectors of, coefficients k, way how, int64_t rank, int reads, int takes, int64_t n,
                          int64_t count, double u, const double *inner, const double *from, double *to,
                          lanes *read_re, lanes *read_im)
{
    int64_t modes = of.modes;
    lanes re, im;
    if (from)
        load_pairs(from + 2 * n, count, &re, &im);
    else {
        re = load(of.x + n, count);
        im = load(of.x + modes + n, count);
    }
    lanes next_re, next_im;
    if (how == WAY_LINEAR) {
        lanes of_im = k.f_im * im, of_re = k.f_im * re;
        CPU_ROUNDED(of_im);
        CPU_ROUNDED(of_re);
        next_re = k.f_re * re - of_im;
        next_im = k.f_re * im + of_re;
    } else {
        lanes size = k.f_im;
        for (int64_t i = 0; i < LANES; i++) size[i] = k.f_im[i] < 0 ? -k.f_im[i] : k.f_im[i];
        next_re = k.f_re * re + k.f_im * im;
        next_im = k.f_re * im - size * re;
    }
    if (takes) {
        next_re += k.b_re * u;
        next_im += k.b_im * u;
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
        *read_re += k.c_re * next_re;
        *read_im += k.c_im * next_im;
    }
}

/* x <- dA x + dB u; returns the first read-out of the new state. */
INLINE double advance(vectors of, way how, int64_t rank, int reads, int takes, double u)
{
    int64_t modes = of.modes, n = 0;
    double of_g[S4_RANK_MAX];
    lanes re = {0}, im = {0};
    for (int64_t r = 0; r < rank; r++) of_g[r] = inner(modes, of.g + r * 2 * modes, of.x);
    for (; n + LANES <= modes; n += LANES)
        advance_block(of, coefficients_at(of, reads, takes, n, LANES), how, rank, reads, takes, n, LANES, u, of_g, NULL,
                      NULL, &re, &im);
    if (n < modes)
        advance_block(of, coefficients_at(of, reads, takes, n, modes - n), how, rank, reads, takes, n, modes - n, u,
                      of_g, NULL, NULL, &re, &im);
    return sum_of(re + im);
}

/* ---- rows of samples --------------------------------------------------------------------------------------------- */

INLINE double read_out(const cpu_recurrence *row, int64_t c)
{
    return inner(row->modes, row->c + row->system + c * 2 * row->modes, row->x);
}

INLINE double with_skip(double read_out, double d, double u)
{
    double skip = d * u;
    CPU_ROUNDED(skip);
    return read_out + skip;
}

INLINE void put_outputs(const cpu_recurrence *row, s4_dtype dtype, int64_t t, double first, double u)
{
    for (int64_t c = 0; c < row->channels; c++) {
        double y = with_skip(c ? read_out(row, c) : first, row->d[c * row->d_output], u);
        cpu_put_sample(dtype, row->y, c * row->y_output + t * row->y_time, y);
    }
}

INLINE void step_row(const cpu_recurrence *row, way how, int64_t rank, s4_dtype dtype)
{
    vectors of = vectors_of(row);
    enter(row);
    for (int64_t t = 0; t < row->length; t++) {
        double u = cpu_sample(dtype, row->u, t * row->u_time);
        put_outputs(row, dtype, t, advance(of, how, rank, 1, 1, u), u);
    }
    leave(row);
}

INLINE void respond_row(const cpu_recurrence *row, int64_t rank, s4_dtype dtype)
{
    vectors of = vectors_of(row);
    enter(row);
    for (int64_t t = 0; t < row->length; t++) {
        double first = advance(of, WAY_LINEAR, rank, 1, 0, 0);
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
        advance(of, WAY_LINEAR, rank, 0, 1, cpu_sample(dtype, row->u, t * row->u_time));
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

/* ---- one sample of many rows ----------------------------------------------------------------------------------------- */

/* Channel h of the rows of a tile, at most two. */
typedef struct tile_row {
    vectors of;
    double u, of_g[S4_RANK_MAX];
    const double *from; /* NULL: the state is in of.x */
    double *to;
    lanes re, im; /* of the read-out */
} tile_row;

/* The state passes through registers, unless g . x asks for it before. */
INLINE void open_row(const cpu_step_tile *tile, int64_t h, int b, int64_t rank, s4_dtype dtype, tile_row *t)
{
    cpu_recurrence row = tile->first;
    int64_t state = b * tile->state_batch + h * 2 * row.modes;
    row.system += h * tile->system_size;
    row.x = b ? tile->first.scratch : tile->first.x;
    row.state_in += state;
    t->of = vectors_of(&row);
    t->u = cpu_sample(dtype, row.u, b * tile->u_batch + h * tile->u_channel);
    t->from = rank ? NULL : row.state_in;
    t->to = row.state_out + state;
    t->re = t->im = (lanes){0};
    if (rank) enter(&row);
    for (int64_t r = 0; r < rank; r++) t->of_g[r] = inner(row.modes, t->of.g + r * 2 * row.modes, row.x);
}

INLINE void tile_block(tile_row *t, const int rows, int64_t rank, int64_t n, int64_t count)
{
    coefficients k = coefficients_at(t[0].of, 1, 1, n, count);
    for (int b = 0; b < rows; b++)
        advance_block(t[b].of, k, WAY_LINEAR, rank, 1, 1, n, count, t[b].u, t[b].of_g, t[b].from, t[b].to, &t[b].re,
                      &t[b].im);
}

INLINE void tile_channel(const cpu_step_tile *tile, int64_t h, const int rows, int64_t rank, s4_dtype dtype)
{
    int64_t modes = tile->first.modes, n = 0;
    tile_row t[2];
    for (int b = 0; b < rows; b++) open_row(tile, h, b, rank, dtype, &t[b]);
    for (; n + LANES <= modes; n += LANES) tile_block(t, rows, rank, n, LANES);
    if (n < modes) tile_block(t, rows, rank, n, modes - n);
    for (int b = 0; b < rows; b++) {
        double y = with_skip(sum_of(t[b].re + t[b].im), tile->first.d[h], t[b].u);
        cpu_put_sample(dtype, tile->first.y, b * tile->y_batch + h * tile->y_channel, y);
    }
}

INLINE void tile_rows(const cpu_step_tile *tile, int64_t rank, s4_dtype dtype)
{
    for (int64_t h = 0; h < tile->channels && tile->rows == 1; h++) tile_channel(tile, h, 1, rank, dtype);
    for (int64_t h = 0; h < tile->channels && tile->rows == 2; h++) tile_channel(tile, h, 2, rank, dtype);
}

static void step_tile(const cpu_step_tile *tile)
{
    const cpu_recurrence *row = &tile->first;
#define TILE(rank, dtype) tile_rows(tile, rank, dtype)
    BY_DTYPE(TILE)
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
                                                  .tile = step_tile,
                                                  .blocks = step_blocks,
                                                  .dense = step_dense,
                                                  .respond = respond,
                                                  .absorb = absorb};
