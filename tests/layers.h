/* Layers for tests, and the view of one that the reference takes. */
#ifndef S4_TEST_LAYERS_H
#define S4_TEST_LAYERS_H

#include "numbers.h"
#include "reference.h"
#include "s4/s4.h"

typedef struct layer_shape {
    int64_t d_model, d_state, rank, n_ssm; /* n_ssm 0 = d_model */
    s4_transform dt_transform, real_transform, imag_transform;
    int plain_transforms; /* 1: the three above are ignored: exp, exp, none */
    s4_mode mode;         /* diagonal: rank 0 */
    s4_discretisation discretisation;
    int64_t channels; /* 0 = 1 */
    int bidirectional, dt_untied;
    double bandlimit;
} layer_shape;

/* A stable layer off any start, with dt in [0.02, 0.2] and a plain C. */
s4_layer *layer_random(const layer_shape *shape, uint64_t seed);
/* HiPPO-LegS. */
s4_layer *layer_legs(s4_context *context, int64_t d_model, int64_t d_state, uint64_t seed);
/* One channel, n = 2, whose kernel is known by hand (tests/golden/README.md names the origin of such values):
 * Lambda = (-0.5 + i pi/2, -0.5 + 3 i pi/2), P = (0.5 + 0.25i, 0.75 - 0.1i), B = (1, 1), C = (1 - i, 0.5 + 2i),
 * dt = 0.1, D = 0. */
s4_layer *layer_by_hand(void);

/* C~ of `length` in a DPLR layer, which trains from that; a diagonal layer stays as it is. */
void layer_make_trainable(s4_context *context, s4_layer *layer, int64_t length);

double *layer_data(s4_layer *layer, s4_parameter which);
int64_t layer_count(s4_layer *layer, s4_parameter which);
s4_layer_options layer_options(const s4_layer *layer);
/* Copies of all parameters, one after the other, and how many numbers that is. */
double *layer_bits(s4_layer *layer, int64_t *count);
/* Writes C (or C~ of `length`) and says so: no plain C is kept beside it then, as after loading a file. */
void layer_write_c(s4_layer *layer, const double *c, int64_t length);

/* Kernels a channel: `channels`, twice that if bidirectional. */
int64_t layer_kernels(const s4_layer *layer);

/* The parameters of `layer` (pointers into it) as the reference sees them; C is taken as it is stored. A bandlimit is
 * not looked at; a diagonal layer is seen as one of rank 0, which is bilinear. */
struct ref_layer layer_reference(s4_layer *layer);
/* The same with the C of kernel c, and the D of output c, or none for a backward kernel. */
struct ref_layer layer_reference_kernel(s4_layer *layer, int64_t c);

#endif
