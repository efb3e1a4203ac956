/* Inside of s4_layer: description, raw parameters in one block, the leaf and its versions. */
#ifndef S4_LAYER_OBJECT_H
#define S4_LAYER_OBJECT_H

#include "s4/backend.h"
#include "s4/layer.h"

struct s4_layer {
    s4_layer_options options; /* defaults filled in */
    s4_parameter_view parameter[S4_PARAMETER_COUNT];
    double *block;       /* all parameters, then plain_c */
    double *plain_c;     /* (H,n,2): plain C kept beside C~, valid if keeps_plain */
    int keeps_plain;
    int64_t c_length;    /* 0: C is plain */
    uint64_t id, version; /* the version grows with every change */
    uint64_t changed_at[S4_PARAMETER_COUNT]; /* version that last changed a parameter, or what it stands for */
};

/* A new version, in which the parameters of `mask` are others. */
void s4_layer_touch(s4_layer *layer, unsigned mask);

/* The layer's raw parameters and shape as backends see them. `rate` multiplies dt. */
s4_raw s4_layer_raw(const s4_layer *layer);
s4_shape s4_layer_shape(const s4_layer *layer, int threads, double rate);

#endif
