/* A plan made ready for one layer: plan, prepare, workspace, refresh. */
#ifndef BENCH_EXECUTION_H
#define BENCH_EXECUTION_H

#include "s4/s4.h"

struct execution {
    s4_plan *plan;
    s4_workspace *workspace;
};

/* Close it in any case. */
s4_status execution_open(struct execution *execution, s4_context *context, const s4_problem *problem,
                         const s4_layer *layer);
void execution_close(struct execution *execution);

#endif
