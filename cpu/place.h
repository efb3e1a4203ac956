/*
 * The CPU place, seen from inside: every operation of its table (s4/backend.h says what each one reads and writes).
 *
 *   place.c       the table; open, close, describe
 *   transforms.c  raw -> effective parameters
 *   phi.*         e^a, phi1(a) and its slope for complex a
 *   discretise.c  one step of a system in O(nR); dense dA and dB
 *   power.c       inner products, dense matrix products and powers
 *   structured_*  powers of dA in O(N^2), by displacement
 *   set_up.c      C <-> C~ between lengths
 *   step_*.c      the recurrence: linear, dense, and in eigenvectors of dA
 *   states_backward.*, read_out_backward.c, state_sums.*
 *                 gradients through states: by the recurrence in reverse; from C to C~; what both add to
 *   chain.c       gradients of effective parameters -> gradients of raw parameters
 *   hippo.c       HiPPO initialisation
 *   kernel*.c     C~ -> K by the generating function, and back
 *   diagonal*.c   C -> K of diagonal layers, and back, by products of Vandermonde matrices
 *   fft.*         FFTW plans and their single rows, of kernels
 *   wisdom.c      FFTW wisdom: loaded, measured, stored
 *   contract.c    products of contractions
 *   level.*       instruction levels; level/ is compiled once for each
 *   lanes.c       threads, and what is left of them after a fork
 *   convolve*.c   spectra, convolution, correlation
 *   chunk*.c      the same from the states between chunks of samples, without a kernel of their length
 */
#ifndef CPU_PLACE_H
#define CPU_PLACE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "s4/backend.h"

/* Services of the core: error texts. Set once, before any operation runs. */
extern const s4_host *cpu_host;

/* Threads of a parallel region: `planned`, but 1 in the thread that forked this process. The team that OpenMP keeps for it
 * has not come along, and GCC's run-time would wait for it for ever. Threads that a child starts have all of them. Bits do
 * not depend on it. */
int cpu_lanes(int planned);
/* Tasks of a parallel region, which threads take as they come to them: the first of the next `grain` tasks; at or beyond
 * their number there are none left. (LLVM's run-time allocates memory in its own dynamic loops.) */
static inline int64_t cpu_next_task(atomic_llong *taken, int64_t grain) { return atomic_fetch_add(taken, grain); }

/* ---- set-up, recurrence, chain --------------------------------------------------------------------------------- */

s4_status cpu_transform(const s4_task *task);
s4_status cpu_read_out(const s4_task *task);
s4_status cpu_step_system(const s4_task *task);
s4_status cpu_step(const s4_task *task);
s4_status cpu_states(const s4_task *task);
s4_status cpu_states_backward(const s4_task *task);
s4_status cpu_state_gradients(const s4_task *task);
s4_status cpu_chain(const s4_task *task);
s4_status cpu_discrete(const s4_setup *setup, double *dA, double *dB, int64_t power, double *dA_power);
s4_status cpu_convert_c(const s4_setup *setup, int64_t from, int64_t to, double *c);
s4_status cpu_effective(const s4_shape *shape, const s4_raw *raw, const s4_system *system);
s4_status cpu_hippo(s4_init init, int64_t modes, double *scratch, double *lambda, double *p, double *b);

/* ---- contractions -------------------------------------------------------------------------------------------------- */

s4_status cpu_contract(const s4_product *product);

/* ---- parts of set-up and recurrence -------------------------------------------------------------------------- */

/* t(raw) and dt/draw of the five transforms (transforms.c). */
double cpu_transform_value(s4_transform transform, double raw);
double cpu_transform_slope(s4_transform transform, double raw);
/* Index of the first value that is NaN or infinite, or -1 (transforms.c). */
int64_t cpu_first_not_finite(int64_t count, const double *values);
/* 1 where the bandlimit takes C of channel h, mode n as 0; lambda: (S,n,2), effective (transforms.c). */
int cpu_is_bandlimited(const s4_shape *shape, const s4_raw *raw, const double *lambda, int64_t h, int64_t n);

/* Step size of channel h, mode n. */
static inline double cpu_dt(const s4_shape *shape, const s4_system *system, int64_t h, int64_t n)
{
    return system->dt[h * shape->dt_modes + (shape->dt_modes > 1 ? n : 0)];
}

/*
 * One channel's step (discretise.c): dA x = f o x - sum_r p_r (g_r . x). Every vector here is split: n real parts, then
 * n imaginary parts, so that it is at the same time a vector of the real basis [Re x; Im x] of size N, and the inner
 * product is one of real vectors.
 */
typedef struct cpu_linear {
    int64_t modes, rank;
    double *f; /* (N): dA of Lambda alone */
    double *b; /* (N): dB */
    double *p; /* (R,N): low-rank part, left */
    double *g; /* (R,N): low-rank part, right: rows [2 Re g, -2 Im g] */
} cpu_linear;

static inline int64_t cpu_linear_rows(int64_t rank) { return 2 + 2 * rank; }
/* The view of rows (cpu_linear_rows, N) at base. */
cpu_linear cpu_linear_view(int64_t modes, int64_t rank, double *base);
/* Fills it for channel h at step scale * dt (lambda, b, p and dt of the system). 0 if it is not finite, that is, if
 * I - dt/2 A is singular or e^(dt Lambda) overflows; else 1. */
int cpu_linear_build(const s4_shape *shape, const s4_system *system, int64_t h, double scale, const cpu_linear *linear);
/* x <- dA x + dB u. */
void cpu_linear_advance(const cpu_linear *linear, double u, double *x);
/* dA in the real basis, (N,N) row-major. */
void cpu_linear_dense(const cpu_linear *linear, double *dA);

/* Interleaved (n,2) <-> split (N). */
void cpu_split(int64_t modes, const double *interleaved, double *split);
void cpu_interleave(int64_t modes, const double *split, double *interleaved);

/* Sum of a o b, always in the same order (power.c). */
double cpu_inner(int64_t count, const double *a, const double *b);
/* Square matrices (N,N), row-major (power.c); product is neither a nor b. */
void cpu_matrix_product(int64_t size, const double *a, const double *b, double *product);
/* base^exponent, exponent >= 0; the result is one of scratch[0], scratch[1], both (N,N). */
double *cpu_matrix_power(int64_t size, const double *base, int64_t exponent, double *const scratch[2]);
/* out = row * matrix, of sizes (N), (N,N). */
void cpu_row_times_matrix(int64_t size, const double *row, const double *matrix, double *out);

/* One thread's part of S4_BUFFER_SETUP_MATRICES: three matrices (N,N), and ten rows (N) behind the last. A structured power
 * (structured_power.h) lies in the place of the first two. Building dA overlays matrix[2] and all behind it but the last
 * row. */
#define CPU_LANE_ROWS 10
typedef struct cpu_lane {
    double *matrix[3];
    double *linear; /* rows of a cpu_linear of any rank, in matrix[2] and behind */
    double *rows;   /* (CPU_LANE_ROWS - 1,N), behind the matrices: work areas of LAPACK */
    double *row;    /* (N), the last */
} cpu_lane;
cpu_lane cpu_lane_view(const s4_shape *shape, double *matrices, int thread);

/* What went wrong first, by channel: found in parallel, told once by the calling thread, whose error text it is. */
typedef enum cpu_failure_kind {
    CPU_FAILURE_NONE,
    CPU_FAILURE_STEP,      /* dA or dB is not finite; value: dt of the first mode */
    CPU_FAILURE_UNDO,      /* I - dA^length is singular; value: reciprocal condition number */
    CPU_FAILURE_OVERFLOW,  /* dA^length, or what it gives, is not finite */
    CPU_FAILURE_CONDITION, /* eigenvectors of dA are too close to dependent; value: condition number */
    CPU_FAILURE_LIBRARY    /* LAPACK refuses an argument or does not converge; value: its info */
} cpu_failure_kind;
typedef struct cpu_failure {
    cpu_failure_kind kind;
    int64_t channel, length;
    double value;
} cpu_failure;
void cpu_failure_merge(cpu_failure *first, const cpu_failure *other);
s4_status cpu_failure_raise(const s4_shape *shape, const cpu_failure *first);

/* power, dA^length of channel h, <- factors of I - power, with pivots in the lane's rows; a singular one is refused. Then
 * row <- the c of c (I - power) = row, or, transposed, of c (I - power)^T = row. 0 with *failure filled. (set_up.c) */
int cpu_undo_factor(const s4_shape *shape, int64_t h, int64_t length, const cpu_lane *lane, double *power,
                    cpu_failure *failure);
int cpu_undo_solve(const s4_shape *shape, int64_t h, int64_t length, const cpu_lane *lane, const double *factors,
                   int transposed, double *row, cpu_failure *failure);

/* Where C of kernel k, channel h lies, interleaved: c + k * kernel + h * channel (doubles). */
typedef struct cpu_read_out_rows {
    double *c;
    int64_t kernel, channel;
} cpu_read_out_rows;
/* C of the raw parameters, bandlimited, at length `to` (0 = plain) for the step sizes of the system, which are
 * shape->rate times the raw ones. Lanes in `matrices`. (set_up.c) */
s4_status cpu_read_c(const s4_device *device, const s4_shape *shape, const s4_system *system, const s4_raw *raw,
                     double *matrices, int64_t to, const cpu_read_out_rows *rows);

/*
 * STEP_SYSTEM of one channel, s4_step_system doubles (step_system.c). Read-outs of the M outputs are rows
 * [2 Re C, -2 Im C] of the real basis.
 *   linear    rows of a cpu_linear; read-outs (M,N)
 *   dense     dA of the real basis, transposed (N,N); dB (N); read-outs (M,N)
 *   diagonal  eigenvectors V, transposed (N,N); V^-1, transposed (N,N); eigenvalues (2,n), see step_diagonal.c; V^-1 dB
 * (N); read-outs times V (M,N)
 */

/* Most condition number of eigenvectors that the diagonal step takes: the state loses this many epsilons. */
#define CPU_STEP_CONDITION_MAX 1e4

static inline double cpu_sample(s4_dtype dtype, const void *samples, int64_t offset)
{
    return dtype == S4_F32 ? (double)((const float *)samples)[offset] : ((const double *)samples)[offset];
}
static inline void cpu_put_sample(s4_dtype dtype, void *samples, int64_t offset, double value)
{
    if (dtype == S4_F32)
        ((float *)samples)[offset] = (float)value;
    else
        ((double *)samples)[offset] = value;
}

/* ---- kernel and convolution ---------------------------------------------------------------------------------- */

s4_status cpu_kernel(const s4_task *task);
s4_status cpu_kernel_backward(const s4_task *task);
s4_status cpu_spectrum(const s4_task *task);
s4_status cpu_convolve(const s4_task *task);
s4_status cpu_convolve_backward(const s4_task *task);
s4_status cpu_correlate(const s4_task *task);
s4_status cpu_chunk_matrices(const s4_task *task);
s4_status cpu_chunk_forward(const s4_task *task);
s4_status cpu_chunk_backward(const s4_task *task);
s4_status cpu_chunk_gradient(const s4_task *task);
/* One per context. */
struct s4_device {
    int level;       /* instructions: cpu/level.h */
    int uses_wisdom; /* 0: FFT plans are estimated, whatever was tuned */
};
s4_status cpu_prepare(s4_device *device, const s4_shape *shape, const int64_t *bytes, void **prepared);
void cpu_unprepare(s4_device *device, void *prepared);
void cpu_load_wisdom(s4_device *device);
s4_status cpu_tune(s4_device *device, const s4_shape *shape, double seconds, char *path, size_t path_size);

/* "FFTW <version> ..." of the FFT library in use. */
void cpu_fft_describe(char *text, size_t size);
/* Model name of the processor, or "unknown" (place.c). */
void cpu_processor_name(char *text, size_t size);

#endif
