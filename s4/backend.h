/*
 * The interface between the core and a place (cpu/, gpu/): one table of typed functions per place.
 *
 * The core decides; a backend computes. Every operation gets one s4_task: the shape that the plan fixed, the buffers
 * the plan laid out (each in the memory of the task's place), the block of channels and batch rows in work, and the
 * tensors of the caller. An operation allocates nothing, and its values for one channel depend neither on the block
 * nor on the number of threads. A missing optional entry is S4_ERROR_UNSUPPORTED, never a detour.
 *
 * Seen by s4/, cpu/ and gpu/ (there also by plain C host code and .cu files). Names no library type.
 */
#ifndef S4_BACKEND_H
#define S4_BACKEND_H

#include "s4/layer.h"
#include "s4/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

#define S4_BACKEND_VERSION 5

/* ---- what the plan fixed ------------------------------------------------------------------------------------- */

/* What the gradients that a call asks for need of SYSTEM_GRADIENT. An operation makes at least these parts; what it is
 * not asked for costs nothing where leaving it out saves work. Operations that only make parts which nobody wants are
 * not run. */
typedef enum s4_wanted {
    S4_WANTED_D = 1,     /* d */
    S4_WANTED_C = 2,     /* c */
    S4_WANTED_SYSTEM = 4 /* lambda, b, p, dt */
} s4_wanted;
#define S4_WANTED_KERNEL (S4_WANTED_C | S4_WANTED_SYSTEM) /* all that come through the kernel */

typedef struct s4_shape {
    s4_direction direction;
    s4_dtype dtype;
    s4_step_mode step_mode;
    int64_t batch, length;    /* B, T as planned */
    int64_t kernel_length;    /* L */
    int64_t fft_length;       /* of the convolution, even, >= L + T - 1, bidirectional >= L + T; 0 without one */
    int64_t chunk;            /* tau, samples of a chunk, a power of two: the convolution is chunked; 0 where it is not */
    int64_t d_model;          /* H */
    int64_t modes;            /* n = N/2 */
    int64_t rank, n_ssm;      /* R (0: diagonal), S */
    s4_mode mode;
    s4_discretisation discretisation;
    int64_t channels;         /* M, outputs per input channel */
    int64_t kernels;          /* M, or 2 M if bidirectional: kernel M + c is the backward one of output c */
    int bidirectional;
    int64_t dt_modes;         /* step sizes per channel: 1, or n (untied) */
    int rate_parity;          /* the stored C~ is used as it is */
    int threads;              /* CPU lanes */
    int states;               /* forward and backward with state in and out */
    s4_place tensors;         /* where the caller's u, y, their gradients and states live */
    int resident;             /* spectra of all channels are kept */
    int64_t block_channels, block_batch;
    int64_t stage_channels;   /* CPU: channels of a (batch, time, channel) tensor that are turned at a time; else 0 */
    int64_t tile_rows;        /* GPU: rows (b,h) of one batched FFT of the convolution; constant for a length */
    int64_t tile_channels;    /* GPU: channels of one batched FFT of the kernel; constant for a length */
    double rate;
    unsigned wanted;          /* training: bits of s4_wanted that a call may ask for: 0 for what is frozen */
    unsigned trained;         /* training: bits 1 << s4_parameter of what is not frozen */
} s4_shape;

/* ---- buffers ------------------------------------------------------------------------------------------------- */

/*
 * Shapes of buffers; complex counts as two. nf = fft_length, F = nf/2 + 1, on the CPU s4_ring_points; dt = dtype of the
 * plan. Row stride: s4_row_stride.
 * "lanes": CPU: one per thread; GPU: tile_channels for the kernel and set-up, tile_rows for the convolution.
 * Kept channels: d_model if resident, else block_channels; row of channel h: h if resident, else h - task->channel.
 * All buffers begin at multiples of 256 bytes; their contents are unknown at first.
 */
typedef enum s4_buffer {
    S4_BUFFER_SYSTEM,            /* double, effective parameters of all channels: see s4_system_view */
    S4_BUFFER_RAW,               /* double, GPU: raw parameters, see s4_raw_offset */
    S4_BUFFER_RAW_GRADIENT,      /* double, GPU: gradients of raw parameters, the same layout without plain C */
    S4_BUFFER_STAGE_GRADIENT,    /* the same on the host, on its way to the caller's */
    S4_BUFFER_FLAGS,             /* int64 (S4_FLAGS), GPU: what operations found, see s4_backend.check */
    S4_BUFFER_SETUP_MATRICES,    /* double (threads, s4_setup_lane(n)): scratch of powers and solves */
    S4_BUFFER_STEP_SYSTEM,       /* double (H, s4_step_system): cpu/step_system.c */
    S4_BUFFER_STEP_ROWS,         /* double (threads, S4_STEP_ROWS, N): CPU scratch of states */
    S4_BUFFER_STATE_ROWS,        /* double (threads, s4_state_lane): scratch of states_backward */
    S4_BUFFER_STATE_SUMS,        /* double (H, s4_state_sums(shape), N): sums of states_backward, see s4_state_sums */
    S4_BUFFER_KERNEL_ROWS,       /* double (lanes, row stride of L): K^ complex, then K as L reals, in place; CPU, DPLR:
                                  * (lanes, kernels, row stride of L) */
    S4_BUFFER_KERNEL_TERMS,      /* double: CPU (lanes, s4_cpu_kernel_scratch), GPU s4_gpu_kernel_scratch */
    S4_BUFFER_KERNEL_ADJOINT,    /* double (lanes, 1+2R, row stride of L), GPU, DPLR, training: factors of the sums'
                                  * adjoints */
    S4_BUFFER_KERNEL_FFT_WORK,   /* bytes, GPU: work area of the kernel's FFTs */
    S4_BUFFER_KERNEL,            /* dt (kernels, channels of the block, L) */
    S4_BUFFER_SPECTRUM,          /* dt complex (kept channels, M, F): of forward and backward kernel together */
    S4_BUFFER_ROWS_U,            /* dt (lanes, row stride of nf): padded u, then its spectrum, in place; CPU: complex
                                  * (lanes, s4_ring_rows, F) */
    S4_BUFFER_ROWS_DY,           /* GPU: dt (M, lanes, row stride of nf), the same of dy, or of outputs; CPU: complex
                                  * (lanes, F) */
    S4_BUFFER_ROWS_STAGE,        /* dt (lanes, 1 or in training 2, stage_channels, s4_stage_stride), CPU: rows of u, of dy */
    S4_BUFFER_CONVOLVE_FFT_WORK, /* bytes, GPU: work area of the convolution's FFTs; before them, double (M, lanes,
                                  * s4_skip_parts(T)): parts of sums of u dy */
    S4_BUFFER_BLOCK_U,           /* dt (S4_SLOTS, block_batch, block_channels, T), GPU, tensors on the host: u */
    S4_BUFFER_BLOCK_DY,          /* dt (S4_SLOTS, block_batch, M, block_channels, T), likewise: dy */
    S4_BUFFER_BLOCK_OUT,         /* the same, likewise: y, or du (block_batch, block_channels, T) */
    S4_BUFFER_BLOCK_STATE,       /* double (block_batch, block_channels, n, 2), likewise: state in and out */
    S4_BUFFER_BLOCK_DSTATE,      /* the same: gradient of the state out, then in */
    S4_BUFFER_LENGTHS,           /* int64 (batch), likewise */
    S4_BUFFER_STAGE_U,           /* as BLOCK_U, on the host and pinned: on its way to the device */
    S4_BUFFER_STAGE_DY,
    S4_BUFFER_STAGE_OUT,
    S4_BUFFER_GRADIENT_SPECTRUM, /* double complex (channels of the block, M, F): sum over the batch of conj(U) * DY;
                                  * NULL if the shape wants nothing that comes through the kernel */
    S4_BUFFER_KERNEL_GRADIENT,   /* double (kernels, channels of the block, L): dL/dK */
    S4_BUFFER_SYSTEM_GRADIENT,   /* double, all channels: see s4_system_gradient_view */
    S4_BUFFER_CHUNK_SYSTEM,      /* dt (kept channels, s4_chunk_system): cpu/chunk.h */
    S4_BUFFER_CHUNK_ROWS,        /* bytes (threads, s4_chunk_lane): scratch of chunk_forward and chunk_backward */
    S4_BUFFER_CHUNK_SUMS,        /* double (channels of the block, s4_chunk_sums): gradients of the chunk matrices */
    S4_BUFFER_CHUNK_SETUP,       /* double (threads, s4_chunk_setup): scratch of chunk_matrices and chunk_gradient */
    S4_BUFFER_COUNT
} s4_buffer;

/* Reals from one in-place row of a real FFT to the next: length/2 + 1 complex, rounded up so that every row is
 * aligned like the first (64 bytes): one FFT plan serves all rows, and bits do not depend on the row. */
static inline int64_t s4_row_stride(int64_t length)
{
    return (2 * (length / 2 + 1) + 15) / 16 * 16;
}

#define S4_VECTOR_LANES 8 /* doubles of the widest vector of a CPU */

/* CPU: complex points that a padded row of the convolution has (cpu/level/ring.h): r 2^k >= fft_length/2, r = 1, 3, 5, with
 * 2^k at least the square of as many numbers of the dtype as the widest vector of any level holds. */
static inline int64_t s4_ring_points(const s4_shape *s)
{
    int64_t least = s->dtype == S4_F32 ? 256 : 64, best = 0;
    for (int64_t factor = 1; factor <= 5; factor += 2) {
        int64_t points = factor * least;
        while (2 * points < s->fft_length) points *= 2;
        if (!best || points < best) best = points;
    }
    return best;
}
/* CPU: rows that a thread has in ROWS_U: of several outputs, one more for their sum or product. */
static inline int64_t s4_ring_rows(const s4_shape *s) { return s->channels > 1 ? 2 : 1; }

/* CPU: reals from one staged row to the next; an odd number of cache lines, so that rows do not meet in one set. */
static inline int64_t s4_stage_stride(const s4_shape *s) { return (s->length + 31) / 32 * 32 + 16; }

/* On the GPU, sum over t of u dy is made of parts of so many samples. */
#define S4_SKIP_PART 512
static inline int64_t s4_skip_parts(int64_t length) { return (length + S4_SKIP_PART - 1) / S4_SKIP_PART; }

/* A diagonal kernel is the product K[m j + i] = Re sum_n (c_n p_n^(m j)) p_n^i of two small matrices; m, a power of two. */
static inline int64_t s4_vandermonde_width(int64_t length)
{
    int64_t m = 1;
    while (m * m < length) m *= 2;
    return m;
}

/* The same matrices on the CPU, padded: m to whole panels, the number of rows to whole vectors. */
#define S4_VANDERMONDE_PANEL 32
static inline int64_t s4_cpu_vandermonde_width(int64_t length)
{
    int64_t m = s4_vandermonde_width(length);
    return m < S4_VANDERMONDE_PANEL ? S4_VANDERMONDE_PANEL : m;
}
static inline int64_t s4_cpu_vandermonde_rows(int64_t length)
{
    int64_t m = s4_cpu_vandermonde_width(length);
    return ((length + m - 1) / m + S4_VECTOR_LANES - 1) / S4_VECTOR_LANES * S4_VECTOR_LANES;
}

/* Scratch of the kernel stage on the CPU. DPLR: a tile of frequencies of what depends on mode and frequency, and sums over
 * frequencies in lanes (cpu/cauchy.h). Diagonal: both matrices, a panel of samples twice, what is kept per mode, and its
 * sums in lanes. */
#define S4_CPU_DIAGONAL_TERMS (32 + 4 * S4_VECTOR_LANES)
#define S4_CAUCHY_TILE 32 /* frequencies */
static inline int64_t s4_cpu_kernel_scratch(const s4_shape *s)
{
    if (s->mode == S4_MODE_DIAG) {
        int64_t m = s4_cpu_vandermonde_width(s->kernel_length), rows = s4_cpu_vandermonde_rows(s->kernel_length);
        int64_t diagonal = 2 * s->modes * (m + rows) + 2 * S4_VANDERMONDE_PANEL * rows +
                           S4_CPU_DIAGONAL_TERMS * s->modes;
        return (diagonal + 7) / 8 * 8;
    }
    int64_t pairs = (1 + s->rank) * (s->kernels + s->rank);
    int64_t count = S4_CAUCHY_TILE * (2 * s->modes + 5 + 6 * pairs) +
                    s->modes * (2 + 2 * pairs) * (2 + S4_VECTOR_LANES);
    return (count + 7) / 8 * 8;
}

/* Doubles of that scratch on the GPU, whose lanes are tile_channels rows of C~ (DPLR) or channels (diagonal). In front of
 * all lanes' is the index of the first number of a kernel that is not finite. DPLR: sums per mode; diagonal: both matrices
 * of the product, weights of the modes, sums over samples of every kernel, and for dss what the modes that grow give. */
#define S4_GPU_KERNEL_INDEX 32
static inline int64_t s4_gpu_mode_sums(int64_t rank) { return 2 + 2 * (1 + rank) * (1 + rank); }
static inline int64_t s4_gpu_kernel_scratch(const s4_shape *s)
{
    int64_t n = s->modes, lanes = s->tile_channels;
    if (s->mode == S4_MODE_DPLR) return S4_GPU_KERNEL_INDEX + lanes * n * s4_gpu_mode_sums(s->rank);
    int64_t m = s4_vandermonde_width(s->kernel_length), rows = (s->kernel_length + m - 1) / m;
    int64_t growing = s->discretisation == S4_DSS ? s->kernels * s->kernel_length : 0;
    return S4_GPU_KERNEL_INDEX + lanes * (2 * n * (m + rows + 1 + 2 * s->kernels) + growing);
}

/* Doubles of scratch of a HiPPO initialisation: a complex N x N matrix, its eigenvalues, and the work areas of their search,
 * with an integer in every double. */
static inline int64_t s4_hippo_scratch(int64_t modes)
{
    int64_t state = 2 * modes;
    return 2 * state * state + state + 2 * (2 * state + state * state) + (1 + 5 * state + 2 * state * state) +
           (3 + 5 * state);
}

/* Modes in vectors of any width. */
static inline int64_t s4_padded_modes(int64_t modes)
{
    return (modes + 7) / 8 * 8;
}

/* Doubles in which cpu/structured_power.c has a power of dA: inverses of differences of eigenvalues, two strips, two
 * matrices of which it keeps some rows, dA, and rows; any rank. */
static inline int64_t s4_structured_power(int64_t modes)
{
    int64_t padded = s4_padded_modes(modes), rows = (4 + 2 * 4 + 6) * S4_RANK_MAX + 2 * 4 + 12;
    return modes * (4 * padded + 2 * 4 * 8 + 2 * 2 + 2) + rows * padded;
}

/* Doubles of set-up scratch a thread has: two N x N matrices, or a structured power in their place; one more matrix, and
 * ten rows of N. */
static inline int64_t s4_setup_front(int64_t modes)
{
    int64_t power = s4_structured_power(modes), dense = 2 * (2 * modes) * (2 * modes);
    return power > dense ? power : dense;
}
static inline int64_t s4_setup_lane(int64_t modes)
{
    int64_t state = 2 * modes;
    return (s4_setup_front(modes) + (state + 10) * state + 7) / 8 * 8;
}

/* The same on the GPU, one lane per channel in work: three matrices, four where the gradient of a read-out needs one more,
 * and rows. As many lanes as the device needs to be busy and some 30 MB hold; constant for a shape. */
#define S4_GPU_SETUP_ROWS (2 + 2 * S4_RANK_MAX + 4)
static inline int64_t s4_gpu_setup_matrices(const s4_shape *s)
{
    if (s->mode != S4_MODE_DPLR) return 0;
    return s->states && s->direction == S4_DIRECTION_TRAINING ? 4 : 3;
}
static inline int64_t s4_gpu_setup_lane(const s4_shape *s)
{
    int64_t state = 2 * s->modes;
    return ((s4_gpu_setup_matrices(s) * state + S4_GPU_SETUP_ROWS) * state + 7) / 8 * 8;
}
static inline int64_t s4_gpu_setup_lanes(const s4_shape *s)
{
    int64_t lanes = ((int64_t)1 << 20) / (4 * s->modes * s->modes);
    if (lanes > 128) lanes = 128;
    if (lanes > s->d_model) lanes = s->d_model;
    return lanes < 1 ? 1 : lanes;
}

/* Blocks of samples on their way at a time. */
#define S4_SLOTS 2

/* What operations of the GPU place found, to be told when the work has been waited for. */
#define S4_FLAGS 16

/* Raw parameters in RAW: parameter p at s4_raw_offset(shape, p), shaped as s4_layer_parameter says; p = S4_PARAMETER_COUNT:
 * plain C; one more: the end. */
static inline int64_t s4_raw_offset(const s4_shape *s, int parameter)
{
    const int64_t modes = s->n_ssm * s->modes, c = 2 * s->kernels * s->d_model * s->modes;
    int64_t count[S4_PARAMETER_COUNT + 1];
    count[S4_PARAMETER_INV_DT] = s->d_model * s->dt_modes;
    count[S4_PARAMETER_A_REAL] = count[S4_PARAMETER_A_IMAG] = modes;
    count[S4_PARAMETER_B] = 2 * modes;
    count[S4_PARAMETER_C] = c;
    count[S4_PARAMETER_P] = 2 * s->rank * modes;
    count[S4_PARAMETER_D] = s->channels * s->d_model;
    count[S4_PARAMETER_COUNT] = s->mode == S4_MODE_DPLR ? c : 0;
    int64_t offset = 0;
    for (int p = 0; p < parameter; p++) offset += count[p];
    return offset;
}

/*
 * Rows (N) of STATE_SUMS per channel, in the real basis [Re x; Im x]; left and right are those of
 * cpu/states_backward.c, summed over samples and batch:
 *   mode      sum of left conj(right), mode by mode
 *   input     sum of left u
 *   along_p   (R) sum of left (right . p_r)
 *   onto_p    (R) sum of right (left . dt p_r)
 *   read_out  (M) gradient of the rows [2 Re C, -2 Im C] of plain C
 */
static inline int64_t s4_state_sums(const s4_shape *s) { return 2 + 2 * s->rank + s->channels; }

#define S4_STEP_ROWS 2 /* a state and its scratch */

/* The states of a row that its gradient meets in reverse: every stride-th is kept, and those between two are made again;
 * a power of two near the root of the length, so that both are few. */
static inline int64_t s4_state_stride(int64_t length)
{
    int64_t stride = 1;
    while (stride * stride < length) stride *= 2;
    return stride;
}

/* Doubles of scratch that states_backward has per thread: rows of N for those states, for a state and its adjoint, and P
 * twice; DPLR: a matrix, too, which state_gradients needs. */
#define S4_STATE_ROWS 5
static inline int64_t s4_state_lane(const s4_shape *s)
{
    int64_t state = 2 * s->modes, stride = s4_state_stride(s->length);
    int64_t rows = S4_STATE_ROWS + 2 * s->rank + (s->length + stride - 1) / stride + stride + 1;
    return ((rows + (s->mode == S4_MODE_DPLR ? state : 0)) * state + 7) / 8 * 8;
}

/* On the GPU a lane of STATE_ROWS belongs to one row (b,h) in work: its sums, a state, two adjoints, and those states. As
 * many lanes as the device needs to be busy and some 60 MB hold. */
static inline int64_t s4_gpu_state_lane(const s4_shape *s)
{
    int64_t stride = s4_state_stride(s->length);
    return (s4_state_sums(s) + 3 + (s->length + stride - 1) / stride + stride + 1) * 2 * s->modes;
}
static inline int64_t s4_gpu_state_lanes(const s4_shape *s)
{
    int64_t lanes = ((int64_t)1 << 23) / s4_gpu_state_lane(s), rows = s->block_batch * s->block_channels;
    if (lanes > 4096) lanes = 4096;
    if (lanes > rows) lanes = rows;
    return lanes < 1 ? 1 : lanes;
}

/* Lanes of STEP_ROWS, one per row (b,h) in work, where two states do not fit shared memory. */
#define S4_GPU_STEP_SHARED 384 /* modes */
#define S4_GPU_STEP_LANES 1024

/* Doubles of the recurrence of one channel. linear: dA in factors (diagonal layers: dA), dB, and C of every output; dense:
 * dA as a matrix; diagonal, of a DPLR layer: eigenvalues and eigenvectors of dA, and their inverse. */
static inline int64_t s4_step_system(const s4_shape *s)
{
    int64_t state = 2 * s->modes;
    if (s->mode == S4_MODE_DIAG || s->step_mode == S4_STEP_LINEAR) return (2 + 2 * s->rank + s->channels) * state;
    if (s->step_mode == S4_STEP_DENSE) return (state + 1 + s->channels) * state;
    return (2 * state + 2 + s->channels) * state;
}

/*
 * The chunked state form: chunks of tau samples are rows of U, states before them rows of S,
 *   Y = U Toep + S M_C,   S' = S X^T + U M_B,   X = dA^tau,
 * in a real basis: [Re x; Im x], each half padded with zeros to a multiple of 8, so that a state is N^ reals. Work is on
 * panels of chunks: `panel` of them of each of `group` rows of one channel. None of these numbers depends on blocks, threads
 * or the batch. `kept` chunks of each row of a group have their states kept on the way back.
 */
#define S4_CHUNK_PANEL 128 /* chunks of a panel, of all rows together */
#define S4_CHUNK_GROUP_MAX 16
#define S4_CHUNK_KEPT 2048 /* states kept at a time, of all rows together */

static inline int64_t s4_chunk_state(const s4_shape *s) { return 2 * ((s->modes + 7) / 8 * 8); }
static inline int64_t s4_chunk_count(const s4_shape *s) { return (s->length + s->chunk - 1) / s->chunk; }
/* A dense X is loaded once for all rows of a group. */
static inline int64_t s4_chunk_group(const s4_shape *s)
{
    int64_t least = s->mode == S4_MODE_DPLR ? 4 : 1, rows = S4_CHUNK_PANEL / s4_chunk_count(s);
    return rows < least ? least : rows > S4_CHUNK_GROUP_MAX ? S4_CHUNK_GROUP_MAX : rows;
}
static inline int64_t s4_chunk_panel(const s4_shape *s)
{
    int64_t panel = S4_CHUNK_PANEL / s4_chunk_group(s), count = s4_chunk_count(s);
    return count < panel ? count : panel;
}
static inline int64_t s4_chunk_kept(const s4_shape *s)
{
    int64_t panel = s4_chunk_panel(s), count = s4_chunk_count(s);
    int64_t kept = S4_CHUNK_KEPT / s4_chunk_group(s) / panel * panel;
    return count < kept ? (count + panel - 1) / panel * panel : kept;
}

/* Elements of the matrices of one channel. */
static inline int64_t s4_chunk_system(const s4_shape *s)
{
    int64_t state = s4_chunk_state(s), trains = s->direction == S4_DIRECTION_TRAINING;
    int64_t power = s->mode == S4_MODE_DPLR ? state * state : 2 * state;
    return (1 + trains) * (power + state * s->chunk + s->channels * (state * s->chunk + 2 * s->chunk));
}

/* Bytes of scratch per thread: panels of the dtype, then states in double. */
static inline int64_t s4_chunk_lane(const s4_shape *s)
{
    int64_t state = s4_chunk_state(s), group = s4_chunk_group(s), rows = group * s4_chunk_panel(s);
    int64_t trains = s->direction == S4_DIRECTION_TRAINING, size = s->dtype == S4_F32 ? 4 : 8;
    int64_t kept = trains ? s4_chunk_kept(s) : 0, parts = trains ? (s4_chunk_count(s) + kept - 1) / kept : 0;
    int64_t elements = rows * (s->chunk * (2 + trains) + state) + group * kept * state + group * (state + s->chunk);
    return (elements * size + 8 * group * state * (3 + parts) + 63) / 64 * 64;
}

/* Doubles of the sums over rows and chunks of one channel: of U^T G and S^T G of every output, of U^T L and L^T S, L the
 * adjoints of the states that leave; and what the ends of rows inside a chunk give (cpu/states_backward.h). */
static inline int64_t s4_chunk_sums(const s4_shape *s)
{
    int64_t state = s4_chunk_state(s), power = s->mode == S4_MODE_DPLR ? state * state : state;
    return s->channels * s->chunk * (s->chunk + state) + s->chunk * state + power +
           (4 + 4 * s->rank + s->channels) * 2 * s->modes;
}

/* Doubles of scratch per thread: rows of a step, and some more; of a chunk, powers of dA times dB, and C times powers;
 * DPLR: three matrices, training also dA to the powers 1, 2, 4 ... tau/2. */
#define S4_CHUNK_SETUP_ROWS 5
static inline int64_t s4_chunk_setup(const s4_shape *s)
{
    int64_t state = s4_chunk_state(s), matrices = s->mode == S4_MODE_DPLR ? 3 : 0;
    for (int64_t power = 1; matrices && power < s->chunk; power *= 2) matrices += s->direction == S4_DIRECTION_TRAINING;
    return (S4_CHUNK_SETUP_ROWS + 2 + 2 * s->rank + 2 * s->chunk + matrices * state) * state;
}

/* Effective parameters: what travels between places (O(H N) numbers). Complex interleaved, and first, so that every
 * pair is aligned to its size. */
typedef struct s4_system {
    double *lambda; /* (S,n,2) */
    double *b;      /* (S,n,2) */
    double *p;      /* (R,S,n,2) */
    double *c;      /* (kernels,H,n,2), bandlimited: C~ of kernel_length (DPLR kernel, by fft), else plain C */
    double *dt;     /* (H,dt_modes): rate * t(inv_dt) */
    double *d;      /* (M,H) */
} s4_system;

static inline s4_system s4_system_view(const s4_shape *s, double *base)
{
    s4_system v;
    v.lambda = base;
    v.b = v.lambda + s->n_ssm * s->modes * 2;
    v.p = v.b + s->n_ssm * s->modes * 2;
    v.c = v.p + s->rank * s->n_ssm * s->modes * 2;
    v.dt = v.c + s->kernels * s->d_model * s->modes * 2;
    v.d = v.dt + s->d_model * s->dt_modes;
    return v;
}
static inline int64_t s4_system_count(const s4_shape *s)
{
    return (s->n_ssm * (2 + s->rank) + s->kernels * s->d_model) * s->modes * 2 +
           s->d_model * (s->dt_modes + s->channels);
}

/* Gradients with respect to the effective parameters, per channel (not yet summed over the copies' channels). d alone has
 * memory where nothing that comes through the kernel is wanted and no states are used. */
typedef struct s4_system_gradient {
    double *lambda; /* (H,n,2) */
    double *b;      /* (H,n,2) */
    double *p;      /* (R,H,n,2) */
    double *c;      /* (kernels,H,n,2) */
    double *dt;     /* (H,dt_modes) */
    double *d;      /* (M,H): made by convolve_backward; all others by kernel_backward, and states_backward adds;
                     * chunked: by chunk_backward and chunk_gradient */
} s4_system_gradient;

/* Channels that all but d has memory for. */
static inline int64_t s4_system_gradient_channels(const s4_shape *s)
{
    return s->states || (s->wanted & S4_WANTED_KERNEL) ? s->d_model : 0;
}
static inline s4_system_gradient s4_system_gradient_view(const s4_shape *s, double *base)
{
    int64_t channels = s4_system_gradient_channels(s);
    s4_system_gradient v;
    v.lambda = base;
    v.b = v.lambda + channels * s->modes * 2;
    v.p = v.b + channels * s->modes * 2;
    v.c = v.p + s->rank * channels * s->modes * 2;
    v.dt = v.c + s->kernels * channels * s->modes * 2;
    v.d = v.dt + channels * s->dt_modes;
    return v;
}
static inline int64_t s4_system_gradient_count(const s4_shape *s)
{
    int64_t channels = s4_system_gradient_channels(s);
    return channels * (2 + s->rank + s->kernels) * s->modes * 2 + channels * s->dt_modes + s->d_model * s->channels;
}

/* ---- one operation ------------------------------------------------------------------------------------------- */

typedef struct s4_device s4_device; /* a backend's own */
typedef struct s4_queue s4_queue;   /* a backend's own: streams and events that a workspace's work goes through */

/* Raw parameters, as s4_layer holds them. */
typedef struct s4_raw {
    const double *parameter[S4_PARAMETER_COUNT];
    s4_transform dt_transform, real_transform, imag_transform;
    double bandlimit;       /* 0 = off */
    int64_t c_length;       /* length that parameter[C] belongs to, 0 = plain */
    const double *plain_c;  /* (kernels,H,n,2) plain C kept beside C~, or NULL; never with a bandlimit */
} s4_raw;

/* Elements from one batch row, one input channel, one output of the same channel, one sample to the next. */
typedef struct s4_strides {
    int64_t batch, channel, output, time;
} s4_strides;

typedef struct s4_task {
    s4_device *device;
    s4_queue *queue; /* of the workspace; NULL on the CPU */
    const s4_shape *shape;
    void *prepared;           /* what prepare returned */
    void *const *buffer;      /* [S4_BUFFER_COUNT], in the memory of this place; NULL where the plan has none */
    int64_t channel, channels; /* block: channels [channel, channel + channels) */
    int64_t row, rows;         /* block: batch rows [row, row + rows) */
    int64_t length;            /* samples in this call, <= shape->length (step: any) */

    /* Tensors of the block in this place, dtype of the plan. Pointers are to element (row, channel, 0) of u and du, and to
     * (row, output 0 of channel, 0) of y and dy. They lie inside the caller's arrays, with any strides, or, on the GPU
     * where those are on the host, in BLOCK_U, BLOCK_DY and BLOCK_OUT, dense. */
    const void *u, *dy;
    void *y, *du; /* y may be u, du may be dy (M = 1); du may be NULL */
    s4_strides u_strides, y_strides, dy_strides, du_strides;
    const int64_t *lengths; /* of batch row `row` and on: samples that count; NULL: all; in this place */

    /* States (.., n, 2) of element (row, channel), or NULL; state_batch doubles from one batch row to the next. */
    const double *state_in;
    double *state_out;        /* may be state_in */
    const double *dstate_out; /* states_backward only */
    double *dstate_in;        /* may be dstate_out */
    int64_t state_batch;

    const s4_raw *raw;             /* transform, read_out, step_system, chain; its pointers are of this place */
    const s4_gradients *gradients; /* chain; pointers of this place */
    unsigned wanted;               /* backward: bits of s4_wanted */
} s4_task;

typedef s4_status (*s4_operation)(const s4_task *task);

/* ---- set-up outside plans (layers) ----------------------------------------------------------------------------- */

/* All of the shape that describes a layer, threads and rate count. */
typedef struct s4_setup {
    s4_device *device;
    const s4_shape *shape;
    s4_system system; /* effective parameters; dt at rate 1 */
    double *matrices; /* (threads, s4_setup_lane(n)) scratch */
} s4_setup;

/* ---- one product of a contraction ------------------------------------------------------------------------------ */

/*
 * z[b,i,j] = sum_k (sum_p x[b,i,k,p]) (sum_q y[b,k,j,q]), sums in double, ascending. Each of b, i, j, k, p, q is a group of
 * axes, slowest first, maybe of none. A group's positions are counted row-major over its axes. No size is 0.
 */
typedef enum s4_product_group {
    S4_PRODUCT_BATCH,   /* b: axes of x, y and z */
    S4_PRODUCT_ROWS,    /* i: of x and z */
    S4_PRODUCT_COLUMNS, /* j: of y and z */
    S4_PRODUCT_DEPTH,   /* k: of x and y */
    S4_PRODUCT_X_ALONE, /* p */
    S4_PRODUCT_Y_ALONE, /* q */
    S4_PRODUCT_GROUPS
} s4_product_group;

enum { S4_PRODUCT_X, S4_PRODUCT_Y, S4_PRODUCT_Z, S4_PRODUCT_TENSORS };
#define S4_PRODUCT_AXES 16 /* of a group */

typedef struct s4_product_axis {
    int64_t size;
    int64_t stride[S4_PRODUCT_TENSORS]; /* in elements (pairs, if complex) */
} s4_product_axis;

typedef struct s4_product {
    int is_complex, threads;
    s4_dtype dtype[S4_PRODUCT_TENSORS];
    const void *x, *y;
    void *z;
    int axes[S4_PRODUCT_GROUPS];
    s4_product_axis axis[S4_PRODUCT_GROUPS][S4_PRODUCT_AXES];
    double *scratch; /* s4_product_scratch doubles */
} s4_product;

/* Reals of z in work at a time are (TILE, TILE), zero-padded; of x and y, DEPTH positions of k are packed at a time. */
#define S4_PRODUCT_TILE 4
#define S4_PRODUCT_DEPTH_MAX 256

/* The largest number that sizes are counted to: eight times it does not overflow yet. */
#define S4_PRODUCT_HUGE ((int64_t)1 << 57)
static inline int64_t s4_product_times(int64_t a, int64_t b)
{
    return b && a > S4_PRODUCT_HUGE / b ? S4_PRODUCT_HUGE : a * b;
}

static inline int64_t s4_product_padded(int64_t lines)
{
    return (lines + S4_PRODUCT_TILE - 1) / S4_PRODUCT_TILE * S4_PRODUCT_TILE;
}

/* Doubles of scratch: packed x (b, i, k) and y (b, k, j), and sums (b, i, j) where k is packed in parts. A complex
 * product is packed as a real one: twice the rows, twice the depth. */
static inline int64_t s4_product_scratch(int is_complex, int64_t batch, int64_t rows, int64_t columns, int64_t depth)
{
    int64_t parts = is_complex ? 2 : 1, packed = parts * (depth < S4_PRODUCT_HUGE ? depth : S4_PRODUCT_HUGE);
    int whole = packed <= S4_PRODUCT_DEPTH_MAX;
    int64_t i = s4_product_times(batch, s4_product_padded(parts * rows)), j = s4_product_padded(columns);
    int64_t k = whole ? packed : S4_PRODUCT_DEPTH_MAX;
    return s4_product_times(i, k) + s4_product_times(s4_product_times(batch, j), k) +
           (whole ? 0 : s4_product_times(i, j));
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Services of the core for a backend. */
typedef struct s4_host {
    /* Sets the thread's error text (printf) and returns code. */
    s4_status (*fail)(s4_status code, const char *format, ...)
#if defined(__GNUC__)
        __attribute__((format(printf, 2, 3)))
#endif
        ;
} s4_host;

typedef enum s4_lane { S4_LANE_WORK, S4_LANE_UP, S4_LANE_DOWN, S4_LANES } s4_lane;
#define S4_EVENTS 16

typedef struct s4_copy {
    int to_device; /* 1: host to device; 0: device to host */
    void *to;
    const void *from;
    size_t to_pitch, from_pitch, width, height;
} s4_copy;

typedef struct s4_device_ledger {
    int64_t launches, to_device, to_host;
} s4_device_ledger;

/* How a place is opened. */
typedef struct s4_open_options {
    int device_number;     /* GPU */
    const char *cpu_level; /* CPU: as in s4_context_options, or NULL */
} s4_open_options;

typedef struct s4_backend {
    int version; /* S4_BACKEND_VERSION */
    const char *name;

    /* life: open returns S4_ERROR_UNAVAILABLE with a text that says why; describe works on an open device, and on
     * NULL where the place could not be opened (fills what can be known). */
    s4_status (*open)(const s4_open_options *options, s4_device **device);
    void (*close)(s4_device *device);
    void (*describe)(s4_device *device, s4_place_info *info);

    /* memory of the place; NULL for the CPU, whose memory comes from the context's hooks */
    s4_status (*allocate)(s4_device *device, size_t bytes, void **pointer);
    void (*release)(s4_device *device, void *pointer);
    void (*ledger)(s4_device *device, s4_device_ledger *ledger);
    /* Makes host memory fit for asynchronous copies, and gives it back. */
    s4_status (*pin)(s4_device *device, void *pointer, size_t bytes);
    void (*unpin)(s4_device *device, void *pointer);

    /* Queues: three lanes (streams), and events between them. Operations run in lane WORK. */
    s4_status (*queue_create)(s4_device *device, s4_queue **queue);
    void (*queue_destroy)(s4_device *device, s4_queue *queue); /* waits for what is in it */
    /* WORK becomes the caller's stream (a cudaStream_t); NULL: the queue's own again. Waits for what is in it. */
    s4_status (*queue_use_stream)(s4_device *device, s4_queue *queue, void *stream);
    /* 2-D copy, asynchronous in a lane: `height` rows of `width` bytes. The host side must stay as it is until the lane
     * has got so far. */
    s4_status (*copy)(s4_device *device, s4_queue *queue, s4_lane lane, const s4_copy *copy);
    /* Event number `event` (0 .. S4_EVENTS - 1): lane reaches it; another lane, or the host, waits for it. An event that
     * was never recorded is not waited for. */
    s4_status (*record)(s4_device *device, s4_queue *queue, s4_lane lane, int event);
    s4_status (*wait)(s4_device *device, s4_queue *queue, s4_lane lane, int event);
    s4_status (*await)(s4_device *device, s4_queue *queue, int event);
    s4_status (*synchronise)(s4_device *device, s4_queue *queue); /* the host waits for all lanes; asynchronous errors */
    /* optional: after synchronise, what operations of this queue found: reads FLAGS and begins anew. S4_ERROR_NOT_FINITE,
     * S4_ERROR_SINGULAR with a text, as the CPU place says it at once. */
    s4_status (*check)(s4_device *device, s4_queue *queue, const s4_shape *shape, void *const *buffer);

    /* FFT plans and what else a shape needs; checks that work areas fit the buffers' bytes (S4_ERROR_OUT_OF_BUDGET
     * with both numbers). bytes[S4_BUFFER_COUNT] are the plan's. */
    s4_status (*prepare)(s4_device *device, const s4_shape *shape, const int64_t *bytes, void **prepared);
    void (*unprepare)(s4_device *device, void *prepared);

    /* required of every place: kernel and convolution, forward and backward */
    s4_operation kernel;            /* SYSTEM -> KERNEL, channels of the block; scratch KERNEL_ROWS */
    s4_operation spectrum;          /* KERNEL -> SPECTRUM, channels of the block */
    s4_operation convolve;          /* u, SPECTRUM, SYSTEM.d -> y; scratch ROWS_U */
    s4_operation convolve_backward; /* u, dy, SPECTRUM -> du; adds into GRADIENT_SPECTRUM and SYSTEM_GRADIENT.d, b
                                     * ascending; a block with row == 0 begins from zero; scratch ROWS_U, ROWS_DY */
    s4_operation correlate;         /* GRADIENT_SPECTRUM -> KERNEL_GRADIENT; scratch ROWS_U */
    s4_operation kernel_backward;   /* SYSTEM, KERNEL_GRADIENT -> SYSTEM_GRADIENT (all but d); scratch KERNEL_ROWS */

    /* optional (NULL): set-up and recurrence */
    s4_operation transform;   /* raw -> SYSTEM (dt with rate; c copied as it is); checks that all is finite */
    s4_operation read_out;    /* DPLR: raw, SYSTEM -> SYSTEM.c: C~ of kernel_length at this rate, or plain C for step */
    s4_operation step_system; /* raw, SYSTEM -> STEP_SYSTEM (from plain C, made here if SYSTEM.c is C~) */
    s4_operation step;        /* STEP_SYSTEM, u, state_in -> y, state_out */
    s4_operation states;      /* STEP_SYSTEM, u, state_in -> y += response to state_in; state_out */
    s4_operation states_backward; /* SYSTEM, STEP_SYSTEM, u, dy, state_in, dstate_out -> adds what states give to du;
                                   * dstate_in; adds into STATE_SUMS, b ascending; a block with row == 0 begins from
                                   * zero; scratch STATE_ROWS */
    s4_operation state_gradients; /* SYSTEM, STEP_SYSTEM, STATE_SUMS -> adds to SYSTEM_GRADIENT, c being the leaf's;
                                   * scratch SETUP_MATRICES, STATE_ROWS */
    s4_operation chain;       /* raw, SYSTEM, SYSTEM_GRADIENT -> gradients of raw parameters */

    /* optional: reads and writes FFT wisdom. load: called once when the place is opened, unless it is to be ignored. tune:
     * measures the FFTs of a shape, then writes; path as in s4_context_tune */
    void (*load_wisdom)(s4_device *device);
    s4_status (*tune)(s4_device *device, const s4_shape *shape, double seconds, char *path, size_t path_size);

    /* optional: the chunked convolution, with states in and out; see S4_CHUNK_PANEL */
    s4_operation chunk_matrices; /* SYSTEM -> CHUNK_SYSTEM, channels of the block; scratch CHUNK_SETUP */
    s4_operation chunk_forward;  /* u, CHUNK_SYSTEM, state_in -> y, state_out; scratch CHUNK_ROWS; STEP_SYSTEM, STEP_ROWS */
    s4_operation chunk_backward; /* u, dy, CHUNK_SYSTEM, SYSTEM.d, states -> du, dstate_in, SYSTEM_GRADIENT.d, CHUNK_SUMS:
                                  * of the whole batch; scratch CHUNK_ROWS, STATE_ROWS; STEP_SYSTEM */
    s4_operation chunk_gradient; /* SYSTEM, CHUNK_SUMS -> SYSTEM_GRADIENT (all but d); scratch CHUNK_SETUP */

    /* optional, for layers: dA, dB (closed, see s4_layer_discrete), powers; conversion of the read-out */
    s4_status (*discrete)(const s4_setup *setup, double *dA, double *dB, int64_t power, double *dA_power);
    /* DPLR: c (kernels,H,n,2) from length `from` to length `to` (0 = plain), in place; undefined after a failure */
    s4_status (*convert_c)(const s4_setup *setup, int64_t from, int64_t to, double *c);
    /* effective parameters at rate 1 from raw ones; S4_ERROR_NOT_FINITE */
    s4_status (*effective)(const s4_shape *shape, const s4_raw *raw, const s4_system *system);
    /* Lambda (n,2), P (R,n,2), B (n,2) of a DPLR family with N = 2n, without clamps; s4_hippo_scratch. R is 2 for legt,
     * else 1. S4_INIT_HIPPO is the caller's business. */
    s4_status (*hippo)(s4_init init, int64_t modes, double *scratch, double *lambda, double *p, double *b);

    /* optional: one product of a contraction; values depend neither on threads nor on which part of x, y and z it is */
    s4_status (*contract)(const s4_product *product);
} s4_backend;

/* s4/registry.c finds these. The GPU's is exported by the module libs4_gpu.so. */
const s4_backend *cpu_backend(const s4_host *host);
typedef const s4_backend *(*s4_gpu_backend_function)(const s4_host *host);
#define S4_GPU_BACKEND_SYMBOL "s4_gpu_backend"

#ifdef __cplusplus
}
#endif
#endif
