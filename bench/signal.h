/* Tensor arguments and results: u, dy and states, read, checked against the layer, and brought to the dtype of the
 * computation; y and K, written in the format that the name's end says. */
#ifndef BENCH_SIGNAL_H
#define BENCH_SIGNAL_H

#include "options.h"

/* A sequence of some channels, in the layout that --layout says. */
struct signal {
    s4_array *array; /* (batch,channels,length) or (batch,length,channels), without batch where the file has none */
    int64_t batch, length;
    int64_t rate; /* samples per second, 0 where the file does not say */
};

/* Each returns an exit code, after printing the failure if it is not CODE_FINE. `what` names the tensor in texts. */

/* `broadcast`: a tensor (T), (1,T), or (T,1) in layout blh, drives every channel; else it is refused. */
int signal_read(const struct options *options, const char *what, const char *source, int64_t channels, int broadcast,
                struct signal *signal);
/* The same batch, length and, where there is one, the same batch dimension with other channels; zero. */
s4_status signal_create_like(const struct options *options, const struct signal *signal, int64_t channels,
                             s4_array **array);
/* Elements from one batch row, one channel, one sample to the next. */
void signal_strides(const struct options *options, int64_t channels, int64_t length, int64_t strides[3]);
/* State (batch,H,modes,2), or (H,modes,2) for one row; f64. */
int state_read(const struct options *options, const char *source, int64_t batch, int64_t d_model, int64_t modes,
               s4_array **state);
/* --lengths: *lengths is NULL where it was not given; release with free. */
int lengths_read(const struct options *options, const struct signal *signal, int64_t **lengths);

/* The name must end in `suffix`; nothing is written otherwise. */
int check_output_name(const struct options *options, const char *option, const char *path, const char *suffix);
/* A format of write_array. A .wav file needs a rate, which only `source`, if it is one too, can give; NULL if there is
 * no source. */
int check_array_name(const struct options *options, const char *option, const char *path, const char *source);
s4_status write_array(const char *path, const s4_array *array, int64_t rate);

#endif
