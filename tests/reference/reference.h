/* Naive reference for DPLR S4 layers, against which the fast code is tested.
 *
 * Independent of the library: it includes none of its headers. Everything is computed from the
 * definitions (dense inverse, plain recurrence, direct convolution, finite differences), inside in
 * long double, and rounded once to the caller's double. Where long double is only double (some
 * platforms, and under valgrind) forward values are good to double rounding, gradients to 1e-8
 * (fourier layers: 1e-7).
 *
 * Scope: A = Lambda - P P*, bilinear, one kernel per channel, causal. Several kernels a channel
 * are several calls with another C.
 *
 * Shapes and layout: row-major, dense; a trailing 2 is (re, im). H = d_model, N = d_state,
 * n = N/2 stored modes, R = rank, S = n_ssm (divides H; channel h uses copy h % S), T = input
 * length, L = kernel length. "Closed" vectors and matrices have all N entries: the n modes, then
 * their conjugates; stored ones have n. Outputs must not overlap inputs. Invalid sizes and lack of
 * memory end the process with a message: this is test code.
 */
#ifndef S4_TEST_REFERENCE_H
#define S4_TEST_REFERENCE_H

#ifdef __cplusplus
extern "C" {
#endif

/* How a raw parameter becomes an effective one. relu: max(raw, 0) + 1e-4, slope 0 at raw <= 0. */
enum ref_transform {
    REF_TRANSFORM_NONE,
    REF_TRANSFORM_EXP,
    REF_TRANSFORM_RELU,
    REF_TRANSFORM_SIGMOID,
    REF_TRANSFORM_SOFTPLUS
};

/* How to raise dA to a power. */
enum ref_power_method {
    REF_POWER_REPEATED, /* one multiplication a step: plain, slow */
    REF_POWER_BINARY    /* square and multiply */
};

/* By which route the loss behind a finite difference is computed. Both agree to rounding. */
enum ref_route {
    REF_ROUTE_DENSE,     /* dense inverse, dense power, dense recurrence: O(N^3 log L + L N^2) */
    REF_ROUTE_STRUCTURED /* low-rank solves; frequency by frequency for C~: O(L N R) */
};

/* Which output row is the parameter that the gradient belongs to. */
enum ref_leaf {
    REF_LEAF_C,      /* plain C */
    REF_LEAF_C_TILDE /* C~ = C (I - dA^L), held fixed while the other parameters move */
};

/* One layer as stored in a checkpoint. Effective: A = -f(A_real) - i g(A_imag),
 * dt = rate * t(inv_dt). */
struct ref_layer {
    int d_model;          /* H >= 1 */
    int d_state;          /* N >= 2, even */
    int rank;             /* R >= 0 */
    int n_ssm;            /* S >= 1, divides H */
    int dt_per_mode;      /* 0: inv_dt is (H); 1: inv_dt is (H,n), A becomes diag(dt) A */
    const double *inv_dt; /* (H) or (H,n) */
    const double *A_real; /* (S,n) */
    const double *A_imag; /* (S,n) */
    const double *B;      /* (S,n,2) */
    const double *P;      /* (R,S,n,2); may be NULL if R = 0 */
    const double *C;      /* (H,n,2) plain C; not read where a function takes c_tilde */
    const double *D;      /* (H) skip; NULL is 0 */
    enum ref_transform dt_transform;
    enum ref_transform real_transform;
    enum ref_transform imag_transform;
    double rate; /* 1 is the trained resolution */
};

/* --- transforms and effective parameters --- */

double ref_transform(enum ref_transform transform, double raw);
double ref_transform_derivative(enum ref_transform transform, double raw);

/* dt: (H) or (H,n) as inv_dt, rate included; lambda: (S,n,2). */
void ref_effective_parameters(const struct ref_layer *layer, double *dt, double *lambda);

/* --- one channel h, dense closed basis --- */

/* a: (N,N,2), A[i][j] = Lambda_i [i=j] - sum_r P_ri conj(P_rj), without the step size. */
void ref_dense_a(const struct ref_layer *layer, int h, double *a);

/* da: (N,N,2); db: (N,2). dA = (I - dt/2 A)^-1 (I + dt/2 A), dB = (I - dt/2 A)^-1 dt B. */
void ref_discretise(const struct ref_layer *layer, int h, double *da, double *db);

/* da_power: (N,N,2), dA to the power exponent >= 0. */
void ref_power(const struct ref_layer *layer, int h, int exponent, enum ref_power_method method,
               double *da_power);

/* --- set-up --- */

/* c_tilde: (H,n,2), C (I - dA^L) from the layer's C. */
void ref_c_tilde(const struct ref_layer *layer, int length, double *c_tilde);

/* c: (H,n,2), solves C (I - dA^L) = C~; c_tilde: (H,n,2). */
void ref_c_from_c_tilde(const struct ref_layer *layer, int length, const double *c_tilde,
                        double *c);

/* --- kernel --- */

/* kernel: (H,L), K[l] = C dA^l dB by dense recurrence. */
void ref_kernel(const struct ref_layer *layer, int length, double *kernel);

/* kernel: (H,L) from c_tilde (H,n,2) of length L: solves for C, then ref_kernel's recurrence. */
void ref_kernel_from_c_tilde(const struct ref_layer *layer, int length, const double *c_tilde,
                             double *kernel);

/* kernel: (H,L) from c_tilde (H,n,2) of length L by the truncated generating function
 * C~ (I - omega dA)^-1 dB at the L roots of unity and a direct inverse DFT, O(L^2 + L N R). */
void ref_kernel_frequency(const struct ref_layer *layer, int length, const double *c_tilde,
                          double *kernel);

/* kernel: (L) of channel h from the layer's C, in long double, O(L N R): for judging double code
 * at long L. Each step solves (I - dt/2 A) x' = (I + dt/2 A) x by the low-rank identity. */
void ref_kernel_long_double(const struct ref_layer *layer, int h, int length, long double *kernel);

/* kernel_state: (H,L), K[l] = C dA^(l+1) x0 by dense recurrence; x0: (H,n,2). */
void ref_kernel_state(const struct ref_layer *layer, int length, const double *x0,
                      double *kernel_state);

/* --- output --- */

/* y: (B,H,T) = sum over s <= t, t - s < L of K[t-s] u[s], plus D u. kernel: (H,L), L shorter or
 * longer than T; u: (B,H,T); skip: (H) or NULL. O(B H T L). */
void ref_convolve(int batch, int d_model, int input_length, int kernel_length, const double *kernel,
                  const double *u, const double *skip, double *y);

/* x <- dA x + dB u[t], then y[t] = C x + D u[t], for all t (no kernel cut); dense.
 * u, y: (B,H,T); state_in: (B,H,n,2) or NULL for 0; state_out: (B,H,n,2) or NULL. */
void ref_recurrence(const struct ref_layer *layer, int batch, int input_length, const double *u,
                    const double *state_in, double *y, double *state_out);

/* --- gradients --- */

/* The loss sum(y G) + Re sum(conj(g_state_out) state_out) of one input. */
struct ref_loss {
    enum ref_leaf leaf;
    enum ref_route route;
    const double *c_tilde;     /* (H,n,2) of length kernel_length; only with REF_LEAF_C_TILDE */
    int kernel_length;         /* L: y is cut to lags < L, the state's answer to t < L */
    int batch;                 /* B */
    int input_length;          /* T */
    const double *u;           /* (B,H,T) */
    const double *G;           /* (B,H,T) weight of y in the loss */
    const double *state_in;    /* (B,H,n,2) or NULL for 0 */
    const double *g_state_out; /* (B,H,n,2), d loss/d Re + i d loss/d Im of the final state (after
                                  all T inputs, never cut), or NULL for 0 */
};

/* Where gradients go: each has the shape of its parameter and holds d loss/d Re, d loss/d Im;
 * NULL is skipped. C belongs to the leaf. Shared copies are summed over their channels. */
struct ref_gradients {
    double *inv_dt;   /* (H) or (H,n) */
    double *A_real;   /* (S,n) */
    double *A_imag;   /* (S,n) */
    double *B;        /* (S,n,2) */
    double *P;        /* (R,S,n,2) */
    double *C;        /* (H,n,2) */
    double *D;        /* (H) */
    double *u;        /* (B,H,T) */
    double *state_in; /* (B,H,n,2); needs loss->state_in */
};

/* The loss itself. */
double ref_loss(const struct ref_layer *layer, const struct ref_loss *loss);

/* All gradients asked for. D and u by direct sums; B, C and the state, in which the loss is linear,
 * by one central difference; dt, Lambda and P by central differences extrapolated to sixth order,
 * then the slope of the transform. Returns the largest |sixth order - fourth order|, relative to
 * the largest derivative of its kind (dt, Lambda or P) in its channel: an upper estimate of what
 * the extrapolation still misses. 0 where nothing was differenced. */
double ref_gradients(const struct ref_layer *layer, const struct ref_loss *loss,
                     const struct ref_gradients *out);

#ifdef __cplusplus
}
#endif

#endif
