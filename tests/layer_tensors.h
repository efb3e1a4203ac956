/* Files of a layer's tensors, made by hand, and what is expected of the layer that they hold. */
#ifndef S4_TEST_LAYER_TENSORS_H
#define S4_TEST_LAYER_TENSORS_H

#include "s4/s4.h"

s4_layer_options options_of(const s4_layer *layer);
s4_parameter_view view_of(s4_layer *layer, s4_parameter which);
/* What is saved is what is loaded, and the same bytes when it is saved again. */
void round_trip(s4_layer *layer);

enum { TENSORS = 24 };
typedef struct hand_file {
    s4_named_array tensor[TENSORS];
    s4_array *array[TENSORS];
    s4_metadata_entry metadata[4];
    int tensors, metadata_count;
} hand_file;

/* Values 0.01, 0.02, ... on from `start`, so that every tensor has its own. */
void hand_add(hand_file *file, const char *name, double start, int rank, const int64_t *shape);
#define ADD(file, name, start, ...)                                                                                    \
    hand_add(file, name, start, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
void hand_length(hand_file *file, const char *name, int64_t length);
void hand_say(hand_file *file, const char *key, const char *value);
/* H = 2, S = 1, n = 3; K kernels, M channels, T steps a channel. */
hand_file hand_diagonal(int64_t kernels, int64_t channels, int64_t steps);

/* Each writes the file, and frees what was added. */
const char *hand_write(hand_file *file);
s4_layer *hand_load(hand_file *file, const char *overrides);
void must_not_load(hand_file *file, const char *overrides, s4_status status, const char *word);

/* start + sign * 0.01 (i + 1) + shift, where hand_add put start + 0.01 (i + 1). */
void expect_values(s4_layer *layer, s4_parameter which, double start, double sign, double shift);

#endif
