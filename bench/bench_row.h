/*
 * Measurement of one layer in one placement: time, memory, launches, bytes moved, error. verb_bench.c prints the rows,
 * bench_row.c measures one, bench_reference.c computes what is right.
 */
#ifndef BENCH_ROW_H
#define BENCH_ROW_H

#include "options.h"
#include "tensors.h"

struct reference;

/* What all rows share. `layer` is as it was loaded or made; `problem` has the placement of no row in particular. */
struct bench {
    const struct options *options;
    s4_context *context;
    s4_layer *layer;
    s4_problem problem; /* all sizes filled in */
    struct tensors tensors;
    const struct reference *reference;
};

/* All numbers are NOT_APPLICABLE until measured. */
struct row {
    const char *text; /* of the placement */
    s4_placement placement;
    char place_state[400]; /* "ok", "emulated"; "unavailable: why", "out of budget: why", "unsupported: why" */
    s4_status refusal;     /* why it did not run */
    int ran, emulated;
    int64_t setup_ns, first_ns, refresh_ns, forward_ns, backward_ns, step_ns;
    int64_t host_planned, host_measured, device_planned, device_measured;
    int64_t setup_launches, setup_device_bytes, launches, moved_to_device, moved_to_host;
    double max_error; /* -1 until measured */
};

/* The leaf that the problem takes: a DPLR layer that trains in chunks stores plain C, else C~ of kernel_length. A diagonal
 * layer is left as it is. */
s4_status fit_leaf(s4_context *context, const s4_problem *problem, s4_layer *layer);

/* A placement that cannot be had, or not within the budgets, is S4_OK with the reason in row->place_state and its status in
 * row->refusal; other failures are returned. row_check is arithmetic and a question whether the GPU is there; row_measure
 * comes after it, if row->refusal is S4_OK. */
s4_status row_check(const struct bench *bench, const char *text, const s4_placement *placement, struct row *row);
s4_status row_measure(const struct bench *bench, struct row *row);

/* The right values, in double on the CPU: of everything, or where that is too large of the first row and of evenly
 * spaced channels. `layer` has been set up. */
s4_status reference_create(s4_context *context, const s4_problem *problem, s4_layer *layer,
                           const struct tensors *tensors, struct reference **reference);
void reference_destroy(struct reference *reference);
int64_t reference_batch(const struct reference *reference); /* rows that gradients must be summed over */
/* Largest error of y, du and the gradients in `tensors`, each relative to its largest right value. */
double reference_error(const struct reference *reference, s4_layer *layer, const struct tensors *tensors);

#endif
