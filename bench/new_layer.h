/* Layers that the command makes: what the options say of their kind, sizes and parameters, and copies. */
#ifndef BENCH_NEW_LAYER_H
#define BENCH_NEW_LAYER_H

#include "options.h"

int new_layer_asked(const struct options *options); /* any option that describes a layer was given */
/* Defaults: dplr unless --init names a diagonal family, d_state 64, zoh for diagonal layers, rank 2 for legt. */
void new_layer_sizes(const struct options *options, s4_layer_options *sizes);
s4_status new_layer_init(const struct options *options, s4_context *context, s4_layer *layer);

/* A layer with the same parameters and the same leaf, but without a plain C kept beside C~. */
s4_status copy_layer(s4_layer *from, s4_layer **to);

#endif
