/*
 * One problem from plan to results, through the public door: plan, prepare, workspace, refresh, execute. Tensors come
 * and go as double whatever the dtype of the plan; a conversion from single precision loses nothing, so bits can be
 * compared too.
 */
#ifndef S4_TEST_SESSION_H
#define S4_TEST_SESSION_H

#include "numbers.h"
#include "s4/s4.h"

typedef struct session {
    s4_context *context;
    s4_plan *plan;
    s4_workspace *workspace;
    s4_plan_info info;
} session;

/* A problem of this layer's shape at the place of the environment, by algorithm fft. */
s4_problem problem_of(const s4_layer *layer, s4_direction direction, s4_dtype dtype, int64_t batch, int64_t length,
                      int64_t kernel_length);

/* A context of two threads; skips the test if its place is not there. */
s4_context *context_open(void);

/* 0, and a line on standard error, if the run is of a GPU place that refuses this problem by name. */
int session_offered(s4_context *context, const s4_problem *problem);
/* Skips the test then, after destroying both objects. */
void session_required(s4_context *context, s4_layer *layer, const s4_problem *problem);
session session_open(s4_context *context, const s4_problem *problem);
/* The same, refreshed from the layer. */
session session_ready(s4_context *context, const s4_problem *problem, const s4_layer *layer);
void session_close(session *s); /* the context stays */

/* Results in new arrays: K (K,H,L), y (batch,channels*H,T). Each refreshes first. */
double *session_kernel(session *s, const s4_layer *layer);
/* state_in and state_out may be NULL. batch, length 0 = as planned. */
double *session_forward(session *s, const s4_layer *layer, int64_t batch, int64_t length, const double *u,
                        const double *state_in, double *state_out);
double *session_step(session *s, const s4_layer *layer, int64_t batch, int64_t length, const double *u,
                     double *state);

/* All gradients, in new arrays. */
typedef struct gradients {
    double *parameter[S4_PARAMETER_COUNT];
    int64_t count[S4_PARAMETER_COUNT];
    double *du;
    int64_t du_count;
} gradients;
gradients gradients_zero(s4_layer *layer, int64_t du_count);
gradients session_backward(session *s, s4_layer *layer, int64_t batch, int64_t length, const double *u,
                           const double *dy);
/* lengths: (batch) samples that count in each row, or NULL. */
gradients session_backward_rows(session *s, s4_layer *layer, int64_t batch, int64_t length, const int64_t *lengths,
                                const double *u, const double *dy);
/* Largest value of all parameter gradients and du. */
double gradients_largest(const gradients *g);
/* Each to `tolerance` of its own largest value; one that is smaller than FLOOR_GRADIENT of the largest of all to that
 * floor. */
void expect_close_gradients(const gradients *got, const gradients *expected, double tolerance);
void expect_same_gradients(const gradients *got, const gradients *expected);

#endif
