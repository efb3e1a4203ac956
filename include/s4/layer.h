/*
 * s4_layer: the description and the raw parameters of one S4 layer, in double, on the host. It belongs to no
 * context and is the one source of truth: an optimiser writes into the pointers that s4_layer_parameter gives and
 * then says so with s4_layer_changed.
 *
 * Symbols: H d_model, N d_state, n = N/2 stored modes (one of each conjugate pair), S n_ssm (channel h uses copy
 * h % S), R rank, K kernels: `channels`, twice that if bidirectional.
 *   DPLR      A = Lambda - P P*  (Gu, Goel, Re, "Efficiently Modeling Long Sequences with Structured State Spaces",
 *             2022), bilinear
 *   diagonal  A = Lambda         (Gu, Gupta, Goel, Re, "On the Parameterization and Initialization of Diagonal State
 *             Space Models", 2022; dss: Gupta, Gu, Berant, "Diagonal State Spaces are as Effective as Structured State
 *             Spaces", 2022), bilinear, zoh or dss
 * Lambda = -f(A_real) - i g(A_imag),  dt = t(inv_dt);  x' = dA x + dB u,  y_c = 2 Re(C_c x') + D_c u.
 * Bidirectional: the second half of the kernels, k1, runs backward: y_c[t] += sum over s > t of k1_c[s-t-1] u[s].
 *
 * The leaf. What is trained is what is stored. A DPLR layer stores plain C (length 0), or C~ = C (I - dA^length) with
 * its length; s4_layer_setup changes one into the other. A diagonal layer stores plain C.
 */
#ifndef S4_LAYER_H
#define S4_LAYER_H

#include "context.h"

S4_BEGIN_DECLS

typedef struct s4_layer s4_layer;

#define S4_RANK_MAX 4
#define S4_CHANNELS_MAX 1024

typedef struct s4_layer_options {
    size_t struct_size;
    s4_mode mode;
    int64_t d_model;   /* H in 1 .. 2^24 */
    int64_t d_state;   /* N in 2 .. 4096, even */
    int64_t rank;      /* R in 1 .. S4_RANK_MAX; 0 = 1; diagonal: 0 */
    int64_t n_ssm;     /* S, divides H; 0 = H */
    int64_t channels;  /* outputs per input channel, 1 .. S4_CHANNELS_MAX; 0 = 1 */
    s4_discretisation discretisation; /* DPLR: bilinear */
    int transforms_given; /* 0: the three below are exp, exp, none */
    s4_transform dt_transform, real_transform, imag_transform;
    int bidirectional;
    int dt_untied;     /* 1: a step size per mode, inv_dt (H,n); 0: per channel, (H,1) */
    double bandlimit;  /* alpha > 0: C is taken as 0 where dt |Im A| / 2 pi >= alpha / 2 (dt at rate 1); 0 = off */
} s4_layer_options;

/* All parameters are 0. S4_ERROR_ARGUMENT, S4_ERROR_UNSUPPORTED, S4_ERROR_MEMORY; *layer is NULL then. */
S4_API s4_status s4_layer_create(const s4_layer_options *options, s4_layer **layer);
S4_API void s4_layer_destroy(s4_layer *layer);
/* Fills *options (its struct_size must be set) with no zeros left standing for defaults. */
S4_API s4_status s4_layer_describe(const s4_layer *layer, s4_layer_options *options);

typedef enum s4_parameter {
    S4_PARAMETER_INV_DT = 0, /* (H,1)|(H,n) "layer.kernel.inv_dt" */
    S4_PARAMETER_A_REAL = 1, /* (S,n)      "layer.kernel.A_real" */
    S4_PARAMETER_A_IMAG = 2, /* (S,n)      "layer.kernel.A_imag" */
    S4_PARAMETER_B = 3,      /* (1,S,n,2)  "layer.kernel.B" */
    S4_PARAMETER_P = 4,      /* (R,S,n,2)  "layer.kernel.P"; diagonal: count 0, data NULL */
    S4_PARAMETER_C = 5,      /* (K,H,n,2)  "layer.kernel.C": plain C, or C~ of length s4_layer_length */
    S4_PARAMETER_D = 6       /* (channels,H) "layer.D" */
} s4_parameter;
#define S4_PARAMETER_COUNT 7
#define S4_PARAMETER_ALL ((1u << S4_PARAMETER_COUNT) - 1u)
S4_API const char *s4_parameter_name(s4_parameter which); /* "inv_dt" ... "D" */
S4_API s4_status s4_parameter_parse(const char *text, s4_parameter *which);

/*
 * One parameter, s4_parameter 0 .. S4_PARAMETER_COUNT - 1: all that an optimiser must know of it. Gradient descent with the
 * step size `rate`, where `gradients` are the s4_gradients (plan.h) that backward has filled:
 *   for (int p = 0; p < S4_PARAMETER_COUNT; p++) {
 *       s4_parameter_view v;
 *       s4_layer_parameter_gradient(layer, (s4_parameter)p, &gradients, &v);
 *       double step = v.learning_rate_max > 0 && v.learning_rate_max < rate ? v.learning_rate_max : rate;
 *       for (int64_t i = 0; v.gradient && i < v.count; i++) v.data[i] -= step * v.gradient[i];
 *   }
 *   s4_layer_changed(layer, S4_PARAMETER_ALL);
 */
typedef struct s4_parameter_view {
    const char *name; /* after the prefix "layer.": "kernel.inv_dt" ... "D" */
    int rank;
    int64_t shape[4];
    int64_t count;  /* product of the shape */
    double *data;   /* dense, row-major, host; valid as long as the layer */
    int is_complex; /* 1: the last dimension, 2, is (re, im) */
    /* As the published code trains: inv_dt, A_real, A_imag, B and P with a step size of at most 0.001 and no weight decay,
     * C and D as the optimiser trains everything else. */
    double learning_rate_max; /* bound on the optimiser's learning rate; 0 = none */
    double weight_decay;      /* in place of the optimiser's; negative = the optimiser's own */
    double *gradient; /* shaped like data; NULL: not asked for, or of s4_layer_parameter */
} s4_parameter_view;
S4_API s4_status s4_layer_parameter(s4_layer *layer, s4_parameter which, s4_parameter_view *view);
/* The same with the gradient pointer, which is the caller's own. */
struct s4_gradients;
S4_API s4_status s4_layer_parameter_gradient(s4_layer *layer, s4_parameter which, const struct s4_gradients *gradients,
                                             s4_parameter_view *view);

/* Says that parameters were written: bit p of mask for s4_parameter p. Derived data (workspaces, a plain C kept
 * beside C~) made before are stale from here on. */
S4_API s4_status s4_layer_changed(s4_layer *layer, unsigned mask);

/* Length that the stored C belongs to: 0 for plain C, else C~ = C (I - dA^length). */
S4_API int64_t s4_layer_length(const s4_layer *layer);
/* Declares what the caller has written into C. S4_ERROR_ARGUMENT if length < 0. */
S4_API s4_status s4_layer_set_length(s4_layer *layer, int64_t length);

/*
 * Initialisation, on the host, in double. Plain C afterwards.
 * DPLR, from the eigenvectors of the HiPPO matrix (LAPACKE zheevd): legs, legt (rank >= 2), lagt, fourier, hippo (legs and
 * fourier alternating by copy); columns of P beyond what the matrix needs are 0. Diagonal: lin, inv, inv2, quad, real,
 * legs (the imaginary part of the DPLR's, with its B).
 * dt: log-uniform in [dt_min, dt_max] per channel (and mode, if untied), or log-spaced over the channels. C: complex
 * normal of variance 1. D: normal. Random numbers: xoshiro256++ seeded through splitmix64, normals by the polar method;
 * the same seed gives the same layer.
 * Re Lambda of legt, lagt and fourier is 0: exp, sigmoid and softplus need a clamp, at 1e-4, which moves values by some
 * 1e-6.
 */
typedef enum s4_init {
    S4_INIT_LEGS = 0, S4_INIT_LEGT, S4_INIT_LAGT, S4_INIT_FOURIER, S4_INIT_HIPPO, /* DPLR */
    S4_INIT_DIAG_LIN, S4_INIT_DIAG_INV, S4_INIT_DIAG_INV2, S4_INIT_DIAG_QUAD, S4_INIT_DIAG_REAL, S4_INIT_DIAG_LEGS
} s4_init;
S4_API const char *s4_init_name(s4_init init); /* "legs" ... "diag-legs" */
S4_API s4_status s4_init_parse(const char *text, s4_init *init);

typedef struct s4_init_options {
    size_t struct_size;
    s4_init init;
    uint64_t seed;
    double dt_min, dt_max; /* 0 = 1e-3, 1e-1 */
    int dt_spaced;         /* 1: log-spaced from dt_min to dt_max over the channels, not random */
    int published_clamps;  /* 1: as the published code: |Im Lambda| >= 1e-4, Re Lambda <= -1e-4, Im B clipped to +-2 */
} s4_init_options;
/* `options` may be NULL: legs, or diag-lin for a diagonal layer. S4_ERROR_ARGUMENT: a family of the other mode, a rank
 * below what it needs. On failure the layer has its old bits. */
S4_API s4_status s4_layer_init(s4_context *context, s4_layer *layer, const s4_init_options *options);

/*
 * Set-up, on the host, in double. Changes the leaf to C~ of `length`, or back to plain C with length 0.
 *   C~_L = C (I - dA^L);   C~_2L = C~_L (I + dA^L);   undo solves C (I - dA^L) = C~.
 * A plain C kept from an earlier set-up with the same parameters is used; else doubling where `length` is the old
 * length times a power of two; else through C. Undo is as exact as the condition of I - dA^L allows and refuses a
 * singular one (S4_ERROR_SINGULAR). S4_ERROR_NOT_FINITE names the parameter. On failure the layer has its old bits.
 * A diagonal layer needs no set-up: S4_ERROR_UNSUPPORTED.
 */
S4_API s4_status s4_layer_setup(s4_context *context, s4_layer *layer, int64_t length);

/* The discrete system at step rate * dt. DPLR, on the closed vector (n modes, then their conjugates): dA (H,2n,2n,2),
 * dB (H,2n,2), dA_power (H,2n,2n,2), dA to `power` >= 0. Diagonal: (H,n,2) each; dss is S4_ERROR_UNSUPPORTED. Any of the
 * three may be NULL. */
S4_API s4_status s4_layer_discrete(s4_context *context, const s4_layer *layer, double rate, double *dA, double *dB,
                                   int64_t power, double *dA_power);

/*
 * Files: safetensors with the names of published checkpoints. `prefix` goes before every name; NULL = "layer.", or none
 * where nothing lies under that.
 * Reading takes f32 or f64 tensors; shapes are cross-checked; the mode follows from P being there; derived tensors are
 * ignored. Older names are recognised and converted: v3 (log_dt, inv_w_real, w_imag = -A_imag, L) and the flat s4d file
 * (kernel.C (H,n,2), kernel.log_dt, kernel.log_A_real, kernel.A_imag; A = -exp(log_A_real) + i A_imag).
 * Transforms, discretisation, bidirectional and bandlimit come from the file's metadata (dt_transform, real_transform,
 * imag_transform, disc, bidirectional, bandlimit, mode) or from `overrides` (NULL, or "key=value,key=value", which win); what is
 * in neither has its default (zoh for diagonal layers).
 * S4_ERROR_FILE, S4_ERROR_FORMAT (naming tensor and reason), S4_ERROR_UNSUPPORTED, S4_ERROR_MEMORY, S4_ERROR_ARGUMENT for
 * NULL or a bad override; *layer is NULL then.
 */
S4_API s4_status s4_layer_load(const char *path, const char *prefix, const char *overrides, s4_layer **layer);
/* Writes atomically: on failure an old file of that name is untouched. */
S4_API s4_status s4_layer_save(const s4_layer *layer, const char *path, const char *prefix);

S4_END_DECLS
#endif
