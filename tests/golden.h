/* The golden cases (tests/golden/README.md): which there are, and reading them. */
#ifndef S4_TEST_GOLDEN_H
#define S4_TEST_GOLDEN_H

#include "s4/s4.h"
#include "session.h"

typedef struct golden_entry {
    char name[32];
    double forward, gradient; /* tolerances in double */
} golden_entry;
extern const golden_entry golden_list[];
extern const int golden_count;

typedef struct golden_case {
    s4_layer *layer; /* plain C, or C~ of `length` after golden_setup */
    int is_dplr;
    int64_t batch, d_model, d_state, input_length, length;
    int64_t channels, kernels;              /* outputs, and kernels, of an input channel */
    int64_t inputs, outputs, states;        /* numbers in u, y, state */
    int64_t matrices, vectors;              /* numbers in dA, dB */
    double *u, *G;                          /* (B,H,T), (B,channels*H,T) */
    double *K, *K_direct, *K_rate_2, *y;    /* K (kernels,H,L); K_direct, K_rate_2: NULL where the case has none */
    double *dA, *dB, *dA_L, *C_tilde;       /* NULL where the case has none */
    double *state_in, *state_out, *state_y; /* the same */
    int has_gradient;
    gradients gradient;
} golden_case;
void golden_open(const golden_entry *entry, golden_case *golden);
void golden_close(golden_case *golden);

/* Path of a file of the golden folder: of S4_TEST_GOLDEN, or of the source tree. */
void golden_path(const char *name, const char *end, size_t capacity, char *path);

#endif
