/*
 * One product of a contraction (s4/backend.h): z[b,i,j] = sum_k (sum_p x[b,i,k,p]) (sum_q y[b,k,j,q]), any strides.
 *
 * A part of k after the other, x and y are packed in double as tiles of TILE lines, and every tile of x meets every
 * tile of y. A complex product is packed as a real one of twice the rows and twice the depth:
 *
 *     [re z]   [re x  -im x] [re y]
 *     [im z] = [im x   re x] [im y]
 *
 * Every element of z is one sum over ascending k, whatever is in work beside it: tiles are padded with zeros to one
 * constant size, and sums that wait for the next part of k are kept as they are.
 */
#include <string.h>

#include "cpu/place.h"

#define TILE S4_PRODUCT_TILE

/* A product of less scalar multiplications is done by one thread. */
#define WORK_OF_THREADS 65536

/* ---- positions of a group of axes ------------------------------------------------------------------------------- */

typedef struct walk {
    const s4_product_axis *axis;
    int axes, tensor;
    int64_t offset; /* in elements of the tensor */
    int64_t at[S4_PRODUCT_AXES];
} walk;

static int64_t positions(const s4_product *p, s4_product_group group)
{
    int64_t count = 1;
    for (int a = 0; a < p->axes[group]; a++) count *= p->axis[group][a].size;
    return count;
}

static walk walk_from(const s4_product *p, s4_product_group group, int tensor, int64_t position)
{
    walk w;
    w.axis = p->axis[group];
    w.axes = p->axes[group];
    w.tensor = tensor;
    w.offset = 0;
    for (int a = w.axes - 1; a >= 0; a--) {
        w.at[a] = position % w.axis[a].size;
        position /= w.axis[a].size;
        w.offset += w.at[a] * w.axis[a].stride[tensor];
    }
    return w;
}

/* From the last position back to the first. */
static inline void walk_on(walk *w)
{
    for (int a = w->axes - 1; a >= 0; a--) {
        w->offset += w->axis[a].stride[w->tensor];
        if (++w->at[a] < w->axis[a].size) return;
        w->offset -= w->axis[a].size * w->axis[a].stride[w->tensor];
        w->at[a] = 0;
    }
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

typedef struct number {
    double re, im;
} number;

/* x or y as it is packed: tiles of TILE reals a position of the depth. */
typedef struct side {
    const s4_product *product;
    const void *data;
    s4_dtype dtype;
    int tensor, is_complex;
    int wide; /* lines of a tile: TILE, or, of complex rows, half of it */
    s4_product_group group, alone;
    int64_t lines, tiles, alone_count;
} side;

static side side_of(const s4_product *p, int tensor)
{
    int is_x = tensor == S4_PRODUCT_X;
    side s = {
        .product = p,
        .data = is_x ? p->x : p->y,
        .dtype = p->dtype[tensor],
        .tensor = tensor,
        .is_complex = p->is_complex,
        .wide = is_x && p->is_complex ? TILE / 2 : TILE,
        .group = is_x ? S4_PRODUCT_ROWS : S4_PRODUCT_COLUMNS,
        .alone = is_x ? S4_PRODUCT_X_ALONE : S4_PRODUCT_Y_ALONE,
    };
    s.lines = positions(p, s.group);
    s.tiles = (s.lines + s.wide - 1) / s.wide;
    s.alone_count = positions(p, s.alone);
    return s;
}

static inline number element(const side *s, int64_t offset)
{
    if (!s->is_complex) return (number){cpu_sample(s->dtype, s->data, offset), 0.0};
    return (number){cpu_sample(s->dtype, s->data, 2 * offset), cpu_sample(s->dtype, s->data, 2 * offset + 1)};
}

/* Sum over the indices that no other tensor has. */
static number element_sum(const side *s, int64_t offset)
{
    number sum = {0.0, 0.0};
    walk w = walk_from(s->product, s->alone, s->tensor, 0);
    for (int64_t p = 0; p < s->alone_count; p++, walk_on(&w)) {
        number value = element(s, offset + w.offset);
        sum.re += value.re;
        sum.im += value.im;
    }
    return sum;
}

static inline void put(const side *s, double *at, int line, number value)
{
    if (!s->is_complex) {
        at[line] = value.re;
    } else if (s->tensor == S4_PRODUCT_Y) {
        at[line] = value.re;
        at[TILE + line] = value.im;
    } else {
        at[2 * line] = value.re;
        at[2 * line + 1] = value.im;
        at[TILE + 2 * line] = -value.im;
        at[TILE + 2 * line + 1] = value.re;
    }
}

/* Tile number `tile` of batch position b, depth positions [k, k + depth). */
static void pack_tile(const side *s, int64_t b, int64_t tile, int64_t k, int64_t depth, double *packed)
{
    int64_t begin = walk_from(s->product, S4_PRODUCT_BATCH, s->tensor, b).offset, line_offset[TILE];
    int64_t left = s->lines - tile * s->wide;
    int lines = left < s->wide ? (int)left : s->wide;
    walk line = walk_from(s->product, s->group, s->tensor, tile * s->wide);
    for (int i = 0; i < lines; i++, walk_on(&line)) line_offset[i] = begin + line.offset;

    int64_t step = s->is_complex ? 2 * TILE : TILE;
    if (lines < s->wide) memset(packed, 0, sizeof *packed * (size_t)(depth * step));
    walk w = walk_from(s->product, S4_PRODUCT_DEPTH, s->tensor, k);
    for (int64_t d = 0; d < depth; d++, walk_on(&w), packed += step)
        for (int i = 0; i < lines; i++) {
            int64_t offset = line_offset[i] + w.offset;
            put(s, packed, i, s->alone_count == 1 ? element(s, offset) : element_sum(s, offset));
        }
}

/* ---- one tile ---------------------------------------------------------------------------------------------------- */

/* sum[i][j] += sum_k x[k][i] y[k][j]. The copy of the sums and the unrolled loops let them live in registers. */
static void add_products(int64_t depth, const double *restrict x, const double *restrict y, double sum[TILE][TILE])
{
    double s[TILE][TILE];
    memcpy(s, sum, sizeof s);
    for (int64_t k = 0; k < depth; k++, x += TILE, y += TILE) {
#pragma GCC unroll 4
        for (int i = 0; i < TILE; i++) {
#pragma GCC unroll 4
            for (int j = 0; j < TILE; j++) s[i][j] += x[i] * y[j];
        }
    }
    memcpy(sum, s, sizeof s);
}

/* Writes the sums of a tile into z; b: offset of the batch position. */
static void store_tile(const s4_product *p, int64_t b, int64_t row, int64_t rows, int64_t column, int64_t columns,
                       double sum[TILE][TILE])
{
    s4_dtype dtype = p->dtype[S4_PRODUCT_Z];
    int parts = p->is_complex ? 2 : 1;
    int64_t column_offset[TILE];
    walk w = walk_from(p, S4_PRODUCT_COLUMNS, S4_PRODUCT_Z, column);
    for (int64_t j = 0; j < columns; j++, walk_on(&w)) column_offset[j] = b + w.offset;
    w = walk_from(p, S4_PRODUCT_ROWS, S4_PRODUCT_Z, row);
    for (int64_t i = 0; i < rows; i++, walk_on(&w))
        for (int64_t j = 0; j < columns; j++)
            for (int part = 0; part < parts; part++)
                cpu_put_sample(dtype, p->z, parts * (w.offset + column_offset[j]) + part, sum[parts * i + part][j]);
}

/* ---- the product ------------------------------------------------------------------------------------------------- */

s4_status cpu_contract(const s4_product *product)
{
    const side x = side_of(product, S4_PRODUCT_X), y = side_of(product, S4_PRODUCT_Y);
    const int64_t batch = positions(product, S4_PRODUCT_BATCH), depth = positions(product, S4_PRODUCT_DEPTH);
    const int64_t parts = product->is_complex ? 2 : 1, tiles = x.tiles * y.tiles;
    const int64_t part = depth < S4_PRODUCT_DEPTH_MAX / parts ? depth : S4_PRODUCT_DEPTH_MAX / parts;
    const int64_t line = part * parts * TILE; /* reals of a packed tile */
    double *packed_x = product->scratch, *packed_y = packed_x + batch * x.tiles * line;
    double(*sums)[TILE][TILE] = (double(*)[TILE][TILE])(packed_y + batch * y.tiles * line);
    const int threads = (double)(batch * tiles) * TILE * TILE * (double)depth < WORK_OF_THREADS ? 1 : product->threads;

#pragma omp parallel num_threads(cpu_lanes(threads))
    for (int64_t k = 0; k < depth; k += part) {
        const int64_t count = part < depth - k ? part : depth - k;
        const int is_first = k == 0, is_last = k + count == depth;
#pragma omp for schedule(static) nowait
        for (int64_t t = 0; t < batch * x.tiles; t++)
            pack_tile(&x, t / x.tiles, t % x.tiles, k, count, packed_x + t * line);
#pragma omp for schedule(static)
        for (int64_t t = 0; t < batch * y.tiles; t++)
            pack_tile(&y, t / y.tiles, t % y.tiles, k, count, packed_y + t * line);
#pragma omp for schedule(static)
        for (int64_t t = 0; t < batch * tiles; t++) {
            const int64_t b = t / tiles, i = t % tiles / y.tiles, j = t % y.tiles;
            double sum[TILE][TILE] = {{0.0}};
            if (!is_first) memcpy(sum, sums[t], sizeof sum);
            add_products(count * parts, packed_x + (b * x.tiles + i) * line, packed_y + (b * y.tiles + j) * line, sum);
            if (!is_last) {
                memcpy(sums[t], sum, sizeof sum);
                continue;
            }
            const int64_t rows = x.lines - i * x.wide, columns = y.lines - j * y.wide;
            store_tile(product, walk_from(product, S4_PRODUCT_BATCH, S4_PRODUCT_Z, b).offset, i * x.wide,
                       rows < x.wide ? rows : x.wide, j * y.wide, columns < y.wide ? columns : y.wide, sum);
        }
    }
    return S4_OK;
}
