/*
 * Panels: some chunks, one after the other, of some rows of one channel, side by side: chunk j of row i of the group is
 * row j rows + i of a panel. A panel of samples has tau columns, one of states N^. States between chunks are carried in
 * double; what products need of them has the dtype of the plan.
 */
#ifndef CPU_CHUNK_PANEL_H
#define CPU_CHUNK_PANEL_H

#include "cpu/chunk.h"

/* Rows first .. first + rows - 1 of the block, of channel h, in work, and the scratch of their thread. */
typedef struct cpu_chunk_group {
    const s4_task *task;
    const s4_shape *shape;
    const cpu_product *product; /* of the dtype */
    cpu_chunk_system system;
    int64_t h, first, rows;
    int64_t chunks;                     /* of the longest row */
    int64_t length[S4_CHUNK_GROUP_MAX]; /* samples that count */
    int64_t size, chunk, state;         /* bytes of an element, tau, N^ */
    char *u, *out, *back;               /* panels (.., tau): u; y or dy; du */
    char *states;                       /* panel (.., N^): states; on the way back, adjoints */
    char *kept;                         /* (kept chunks of the group, N^) */
    char *scratch;                      /* (rows, N^) */
    char *ends;                         /* (rows, tau): du of samples after the last whole chunk */
    double *carry, *adjoint;            /* (rows, N^) */
    double *leaving;                    /* (rows, N^): states after the last whole chunk; then their adjoints */
    double *starts;                     /* (parts, rows, N^) */
} cpu_chunk_group;

/* The group of rows that begins at row `first` of the block, in the scratch of a thread. */
cpu_chunk_group cpu_chunk_group_open(const s4_task *task, int thread, int64_t h, int64_t first);

/* Samples of a tensor of the caller. */
typedef struct cpu_chunk_tensor {
    const void *samples; /* of the block */
    const s4_strides *strides;
    int64_t output;
} cpu_chunk_tensor;
/* Sample t of row i of the group. */
char *cpu_chunk_sample(const cpu_chunk_group *group, cpu_chunk_tensor tensor, int64_t i, int64_t t);
/* Chunks first .. first + count - 1 as a panel, zero where no sample counts: in `panel`, or where they lie. */
void *cpu_chunk_gather(const cpu_chunk_group *group, cpu_chunk_tensor from, int64_t first, int64_t count, void *panel);
/* Where to put such a panel: `panel`, or where it belongs. `read`: a tensor of the caller that is still needed then. */
void *cpu_chunk_target(const cpu_chunk_group *group, cpu_chunk_tensor to, const void *read, int64_t first,
                       int64_t count, void *panel);
/* The samples that count = panel, unless it is where it belongs; what lies beyond them, up to task->length, in these
 * chunks = 0. */
void cpu_chunk_scatter(const cpu_chunk_group *group, const void *panel, int64_t first, int64_t count,
                       cpu_chunk_tensor to);
/* 0 in the samples after the last chunk. */
void cpu_chunk_clear_rest(const cpu_chunk_group *group, cpu_chunk_tensor to);

/* carry = states (batch,H,n,2) of these rows, or zero where it is NULL; and back. */
void cpu_chunk_load_states(const cpu_chunk_group *group, const double *states, double *carry);
void cpu_chunk_store_states(const cpu_chunk_group *group, const double *carry, double *states);

/* From panel u of these chunks: states = those before them, carry after them; leaving = each row's state after its last
 * whole chunk, once that was met, of plans with states. NULL: leaving is no longer of states. */
void cpu_chunk_states(const cpu_chunk_group *group, int64_t first, int64_t count, const void *u, void *states,
                      double *leaving);
/* Steps of the states (or adjoints) of all rows, from chunk `first` of a panel on, in this direction: its rows, inputs,
 * become what carry was. */
void cpu_chunk_steps(const cpu_chunk_group *group, const void *power, int64_t first, int64_t steps, int direction,
                     double *carry, void *panel);
/* The first chunk behind `after` that comes after the last whole one of some row, but not beyond `end`; `end` where
 * states do not leave. */
int64_t cpu_chunk_next_end(const cpu_chunk_group *group, int64_t after, int64_t end);

#endif
