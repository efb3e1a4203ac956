/*
 * The recurrence of one row (b,h), sample by sample, modes in lanes:
 *   x <- dA x + dB u[t],   y_c[t] = c x + D_c u[t],   c = [2 Re C_c, -2 Im C_c],
 * states in double, u and y in the plan's dtype. dA is diag(f) - sum over r of p_r g_r^T, or blocks of two, or dense.
 * Vectors are rows of the real basis [Re x; Im x]. The order of every sum depends on the number of modes only.
 */
#ifndef CPU_LEVEL_STEP_H
#define CPU_LEVEL_STEP_H

#include "cpu/level.h"

typedef struct cpu_recurrence {
    int64_t modes, rank, channels;
    s4_dtype dtype;
    int64_t system;      /* added to each of dA, b, p, g and c: where the channel's are */
    const double *dA;    /* f (N); of blocks r, s (2,n); dense: by columns (N,N) */
    const double *b;     /* (N) */
    const double *p, *g; /* (R,N) */
    const double *c;     /* (M,N) */
    const double *d;     /* D of output c: d[c * d_output] */
    const void *u;       /* sample t: t * u_time */
    void *y;             /* sample t of output c: c * y_output + t * y_time; may be u */
    int64_t d_output, u_time, y_output, y_time;
    int64_t length;
    double *x, *scratch;    /* (N): the state, updated */
    const double *state_in; /* (n,2), what x is at first; NULL: it is there already */
    double *state_out;      /* (n,2), what x is at last, or NULL */
} cpu_recurrence;

/* One sample, of one output, of channels side by side: `first` is that of the first row and channel. */
typedef struct cpu_step_tile {
    cpu_recurrence first; /* state_in and state_out are given */
    int64_t channels, rows; /* rows of the batch: 1 or 2 */
    int64_t system_size;  /* from a channel to the next one */
    int64_t u_channel, y_channel, u_batch, y_batch, state_batch;
} cpu_step_tile;

typedef struct cpu_stepper {
    void (*linear)(const cpu_recurrence *row);
    void (*tile)(const cpu_step_tile *tile); /* linear */
    /* x_j <- r_j x_j + s_j x_n+j,   x_n+j <- r_j x_n+j - |s_j| x_j */
    void (*blocks)(const cpu_recurrence *row);
    void (*dense)(const cpu_recurrence *row);
    /* y_c[t] += c dA^(t+1) x: linear, without u, dB and D */
    void (*respond)(const cpu_recurrence *row);
    /* linear, the state alone */
    void (*absorb)(const cpu_recurrence *row);
} cpu_stepper;

CPU_LEVEL_TABLES(cpu_stepper, cpu_stepper_at)

#endif
