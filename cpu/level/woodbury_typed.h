/*
 * Complex vectors, and the small linear systems of the low-rank correction, one in every lane: elimination with row
 * exchanges, each lane its own. Included by cauchy.c only, once for each precision, with REAL, VECTOR, MASKS, SIZE_BITS
 * and TYPED(name) defined; no include guard therefore.
 */
typedef struct TYPED(complexes) {
    VECTOR re, im;
} TYPED(complexes);
#define COMPLEXES TYPED(complexes)

INLINE VECTOR TYPED(load)(const REAL *from) { return *(const STORED *)from; }
INLINE void TYPED(store)(REAL *to, VECTOR v) { *(STORED *)to = v; }

INLINE VECTOR TYPED(select)(MASKS mask, VECTOR where, VECTOR elsewhere)
{
    return (VECTOR)((mask & (MASKS)where) | (~mask & (MASKS)elsewhere));
}

/* sum + x y, sum - x y */
INLINE COMPLEXES TYPED(plus_product)(COMPLEXES sum, COMPLEXES x, COMPLEXES y)
{
    return (COMPLEXES){sum.re + x.re * y.re - x.im * y.im, sum.im + x.re * y.im + x.im * y.re};
}
INLINE COMPLEXES TYPED(minus_product)(COMPLEXES sum, COMPLEXES x, COMPLEXES y)
{
    return (COMPLEXES){sum.re - x.re * y.re + x.im * y.im, sum.im - x.re * y.im - x.im * y.re};
}
INLINE COMPLEXES TYPED(product)(COMPLEXES x, COMPLEXES y)
{
    return (COMPLEXES){x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
INLINE COMPLEXES TYPED(scaled)(VECTOR factor, COMPLEXES x) { return (COMPLEXES){factor * x.re, factor * x.im}; }

/* The larger part in size: as good as the modulus to choose a pivot by, and never out of range. */
INLINE VECTOR TYPED(size_of)(COMPLEXES x)
{
    VECTOR re = (VECTOR)((MASKS)x.re & SIZE_BITS), im = (VECTOR)((MASKS)x.im & SIZE_BITS);
    return TYPED(select)((MASKS)(re > im), re, im);
}

/* 1 / x, without overflow in between; not finite for x = 0. */
INLINE COMPLEXES TYPED(inverse)(COMPLEXES x)
{
    VECTOR shrink = 1 / TYPED(size_of)(x), re = x.re * shrink, im = x.im * shrink;
    VECTOR scale = shrink / (re * re + im * im);
    return (COMPLEXES){re * scale, -im * scale};
}

INLINE void TYPED(exchange)(MASKS where, COMPLEXES *x, COMPLEXES *y)
{
    COMPLEXES kept = *x;
    x->re = TYPED(select)(where, y->re, kept.re);
    x->im = TYPED(select)(where, y->im, kept.im);
    y->re = TYPED(select)(where, kept.re, y->re);
    y->im = TYPED(select)(where, kept.im, y->im);
}

/* x <- matrix^-1 x; destroys the matrix. */
INLINE void TYPED(solve)(int size, COMPLEXES (*matrix)[S4_RANK_MAX], COMPLEXES *x)
{
    COMPLEXES inverse[S4_RANK_MAX];
    for (int i = 0; i < size; i++) {
        for (int row = i + 1; row < size; row++) {
            MASKS larger = (MASKS)(TYPED(size_of)(matrix[row][i]) > TYPED(size_of)(matrix[i][i]));
            for (int column = i; column < size; column++)
                TYPED(exchange)(larger, &matrix[i][column], &matrix[row][column]);
            TYPED(exchange)(larger, &x[i], &x[row]);
        }
        inverse[i] = TYPED(inverse)(matrix[i][i]);
        for (int row = i + 1; row < size; row++) {
            COMPLEXES factor = TYPED(product)(matrix[row][i], inverse[i]);
            for (int column = i + 1; column < size; column++)
                matrix[row][column] = TYPED(minus_product)(matrix[row][column], factor, matrix[i][column]);
            x[row] = TYPED(minus_product)(x[row], factor, x[i]);
        }
    }
    for (int i = size - 1; i >= 0; i--) {
        for (int column = i + 1; column < size; column++) x[i] = TYPED(minus_product)(x[i], matrix[i][column], x[column]);
        x[i] = TYPED(product)(x[i], inverse[i]);
    }
}
