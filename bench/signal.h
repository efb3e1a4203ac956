/* Tensor arguments: u, dy and states, read, checked against the layer, and brought to the dtype of the computation. */
#ifndef BENCH_SIGNAL_H
#define BENCH_SIGNAL_H

#include "options.h"

/* A sequence for H channels. */
struct signal {
    s4_array *array; /* (batch,H,length), or (H,length) where the file has no batch */
    int64_t batch, length;
};

/* Each returns an exit code, after printing the failure if it is not CODE_FINE. `what` names the tensor in texts. */

/* A tensor (T) drives every channel if `broadcast`, else it is refused. */
int signal_read(const struct options *options, const char *what, const char *source, int64_t d_model, int broadcast,
                struct signal *signal);
/* State (batch,H,modes,2), or (H,modes,2) for one row; f64. */
int state_read(const struct options *options, const char *source, int64_t batch, int64_t d_model, int64_t modes,
               s4_array **state);
/* The name must end in `suffix`; nothing is written otherwise. */
int check_output_name(const struct options *options, const char *option, const char *path, const char *suffix);

#endif
