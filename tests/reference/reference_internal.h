/* Shared by the files of this folder only: the effective parameters of one channel in long double,
 * and the dense and low-rank algebra on them. N = 2n closed entries throughout. */
#ifndef S4_TEST_REFERENCE_INTERNAL_H
#define S4_TEST_REFERENCE_INTERNAL_H

#include <complex.h>
#include <stddef.h>

#include "reference.h"

typedef long double ref_real;
typedef long double complex ref_complex;

#define REF_PI 3.141592653589793238462643383279502884L

/* Effective parameters of one channel, all closed. */
struct ref_channel {
    int n;               /* stored modes */
    int size;            /* N = 2n */
    int rank;            /* R */
    ref_real *dt;        /* (N) */
    ref_complex *lambda; /* (N) */
    ref_complex *b;      /* (N) */
    ref_complex *c;      /* (N) C or C~ */
    ref_complex *p;      /* (R,N) */
    void *block;         /* owns all of the above */
};

/* Dense discrete system. */
struct ref_dense {
    ref_complex *da; /* (N,N) */
    ref_complex *db; /* (N) */
};

/* channel.c. output_row: (H,n,2) C or C~, or NULL for zeros. */
void ref_check(int condition, const char *what);
void *ref_allocate(size_t count, size_t size);
ref_real ref_transform_real(enum ref_transform transform, ref_real raw);
void ref_layer_check(const struct ref_layer *layer);
struct ref_channel ref_channel_create(int n, int rank);
void ref_channel_destroy(struct ref_channel *channel);
struct ref_channel ref_channel_read(const struct ref_layer *layer, int h, const double *output_row);
void ref_close(int n, ref_complex *x); /* x[n+i] = conj x[i] */
void ref_read_closed(int n, const double *stored, ref_complex *x);
void ref_write_complex(size_t count, const ref_complex *x, double *out);
ref_complex ref_dot(int size, const ref_complex *row, const ref_complex *x);

/* linear_algebra.c */
void ref_gauss_solve(int size, int columns, ref_complex *m, ref_complex *rhs);
void ref_multiply(int size, const ref_complex *x, const ref_complex *y, ref_complex *out);
void ref_matrix_power(int size, const ref_complex *x, int exponent, enum ref_power_method method,
                      ref_complex *out);
void ref_low_rank_solve(int size, int rank, const ref_complex *inverse_diagonal,
                        const ref_complex *left, const ref_complex *right, const ref_complex *rhs,
                        ref_complex *x);

/* discretise.c */
struct ref_dense ref_dense_create(const struct ref_channel *channel);
void ref_dense_destroy(struct ref_dense *dense);
void ref_dense_step(int size, const struct ref_dense *dense, ref_real u, ref_complex *x);
void ref_apply_dt_a(const struct ref_channel *channel, const ref_complex *x, ref_complex *out);

/* structured.c */
struct ref_structured {
    ref_complex *inverse_diagonal; /* (N) */
    ref_complex *left;             /* (R,N) */
    ref_complex *right;            /* (R,N) */
    ref_complex *work;             /* (N) */
};
struct ref_structured ref_structured_create(const struct ref_channel *channel);
void ref_structured_destroy(struct ref_structured *structured);
void ref_structured_step(const struct ref_channel *channel, struct ref_structured *structured,
                         ref_real u, ref_complex *x);
void ref_resolvent(const struct ref_channel *channel, ref_complex omega, const ref_complex *rhs,
                   ref_complex *x);
ref_complex ref_root_of_unity(int k, int length);

/* setup.c: replaces the row channel->c in place */
void ref_row_to_c_tilde(struct ref_channel *channel, const struct ref_dense *dense, int length,
                        enum ref_power_method method);
void ref_row_to_c(struct ref_channel *channel, const struct ref_dense *dense, int length,
                  enum ref_power_method method);

/* loss.c: the loss of one channel, without the skip, as a function of effective parameters */
struct ref_channel_loss {
    const struct ref_loss *loss;
    int d_model, h;
    ref_real *g_kernel;        /* (L) sum_b sum_t G[t] u[t-l] */
    ref_complex *g_kernel_dft; /* (L/2+1) sum_l g_kernel[l] omega^-l */
    ref_complex *g_state_dft;  /* (B,L/2+1) sum_{l<T} G[b][l] omega^-l */
    ref_complex *state_in;     /* (B,N) closed; moved by finite differences */
    ref_complex *g_state_out;  /* (B,n) */
};
struct ref_channel_loss ref_channel_loss_create(const struct ref_loss *loss, int d_model, int n,
                                                int h);
void ref_channel_loss_destroy(struct ref_channel_loss *cl);
ref_real ref_channel_loss_value(const struct ref_channel_loss *cl,
                                const struct ref_channel *channel);

#endif
