/*
 * Channels side by side: a tile of them is turned into rows, and back, so that each cache line is met once. Included by
 * convolve.c only, once for each precision, behind ring_typed.h; no include guard therefore.
 */

INLINE void TYPED(transpose_tile)(VECTOR *x)
{
    VECTOR part[UNITS];
    for (int g = 0; g < UNITS; g++) TYPED(cpu_transpose_groups)(x + g * GROUP);
    for (int r = 0; r < GROUP; r++) {
        for (int g = 0; g < UNITS; g++) part[g] = x[g * GROUP + r];
        TYPED(cpu_transpose_units)(part);
        for (int g = 0; g < UNITS; g++) x[g * GROUP + r] = part[g];
    }
}

/* rows[c * stride + t] = samples[t * time + c] */
static void TYPED(stage_in)(const void *from, int64_t time, int64_t channels, int64_t count, void *to, int64_t stride)
{
    const REAL *samples = from;
    REAL *rows = to;
    VECTOR tile[LANES];
    int64_t whole = count / LANES * LANES, tiled = channels / LANES * LANES;
    for (int64_t t = 0; t < whole; t += LANES)
        for (int64_t c = 0; c < tiled; c += LANES) {
            for (int l = 0; l < LANES; l++) tile[l] = *(const STORED *)(samples + (t + l) * time + c);
            TYPED(transpose_tile)(tile);
            for (int l = 0; l < LANES; l++) *(STORED *)(rows + (c + l) * stride + t) = tile[l];
        }
    for (int64_t t = 0; t < count; t++)
        for (int64_t c = t < whole ? tiled : 0; c < channels; c++) rows[c * stride + t] = samples[t * time + c];
}

/* samples[t * time + c] = rows[c * stride + t] */
static void TYPED(stage_out)(const void *from, int64_t stride, int64_t channels, int64_t count, void *to, int64_t time)
{
    const REAL *rows = from;
    REAL *samples = to;
    VECTOR tile[LANES];
    int64_t whole = count / LANES * LANES, tiled = channels / LANES * LANES;
    for (int64_t t = 0; t < whole; t += LANES)
        for (int64_t c = 0; c < tiled; c += LANES) {
            for (int l = 0; l < LANES; l++) tile[l] = *(const STORED *)(rows + (c + l) * stride + t);
            TYPED(transpose_tile)(tile);
            for (int l = 0; l < LANES; l++) *(STORED *)(samples + (t + l) * time + c) = tile[l];
        }
    for (int64_t t = 0; t < count; t++)
        for (int64_t c = t < whole ? tiled : 0; c < channels; c++) samples[t * time + c] = rows[c * stride + t];
}
