/* One call of a chunked plan, with all that a call can have: for the tests of the chunked state form. */
#ifndef S4_TEST_CHUNKED_H
#define S4_TEST_CHUNKED_H

#include "layers.h"
#include "session.h"

/* What goes in. u (B,H,T), G (B,M*H,T): dy; x0, ds (B,H,n,2) or NULL: states in, gradients of states out. */
typedef struct chunked_call {
    s4_layer *layer;
    int64_t B, T;
    double *u, *G, *x0, *ds;
    const int64_t *lengths;
    s4_dtype dtype;
    s4_algorithm algorithm;
    double rate;
    s4_layout layout;
    int states, threads;
    int64_t host_budget, device_budget;
    int64_t planned_batch, planned_length; /* 0: B, T */
    unsigned frozen;                       /* bits of parameters whose gradient is not asked for */
    int no_du, no_entering;                /* nor those */
    int accumulate;                        /* onto parameter gradients of 0.5 */
    int on_cpu;                            /* whatever place is under test */
} chunked_call;

/* Random tensors; states: with x0 and ds. */
chunked_call chunked_open(s4_layer *layer, int64_t B, int64_t T, int states, uint64_t seed);
int64_t chunked_inputs(const chunked_call *c);
int64_t chunked_outputs(const chunked_call *c);
int64_t chunked_states(const chunked_call *c);
s4_problem chunked_problem(const chunked_call *c, s4_direction direction);

/* The same call in one of CHUNKED_WAYS ways that must not matter: with other threads, layout, budget, or planned larger. */
enum { CHUNKED_WAYS = 5 };
chunked_call chunked_another_way(s4_context *context, const chunked_call *c, s4_direction direction, int way);

typedef struct chunked_result {
    double *y, *state; /* forward */
    gradients g;       /* backward */
    double *entering;  /* gradient of x0 */
} chunked_result;
chunked_result chunked_forward(s4_context *context, const chunked_call *c);
chunked_result chunked_backward(s4_context *context, const chunked_call *c);
void expect_same_forward(const chunked_call *c, const chunked_result *got, const chunked_result *expected);
void expect_same_backward(const chunked_call *c, const chunked_result *got, const chunked_result *expected);

/* Layers of every kind, with names: every one that can be convolved in chunks. */
extern const struct chunked_kind {
    char name[48];
    layer_shape shape;
} chunked_kinds[];
extern const int chunked_kind_count;

#endif
