/*
 * How large the parts of buffers are, and how they are cut, in words that the core, which plans them, and the backends,
 * which use them, share. The buffers themselves are listed in backend.h.
 */
#ifndef S4_BUFFER_SIZES_H
#define S4_BUFFER_SIZES_H

#include "s4/shape.h"

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

static inline int64_t s4_chunk_count(const s4_shape *s) { return (s->length + s->chunk - 1) / s->chunk; }
/* GPU: samples of a padded row of the convolution, and rows (b,h) that are padded at a time. */
static inline int64_t s4_gpu_row_length(const s4_shape *s)
{
    return s->chunk ? s4_chunk_count(s) * s->chunk : s->fft_length;
}
static inline int64_t s4_gpu_row_lanes(const s4_shape *s)
{
    int64_t rows = s->block_batch * s->block_channels;
    return s->chunk && rows < s->tile_rows ? rows : s->tile_rows;
}

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
#define S4_DIAGONAL_KEPT 22 /* of a mode, beside its powers */
#define S4_CPU_DIAGONAL_TERMS (S4_DIAGONAL_KEPT + 10 + 4 * S4_VECTOR_LANES)
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
    if (s->kernel_dtype == S4_F32) count += S4_CAUCHY_TILE * 5 / 2;
    return (count + 7) / 8 * 8;
}

/* Doubles of that scratch on the GPU, whose lanes are tile_channels rows of C~ (DPLR) or channels (diagonal). DPLR: sums per
 * mode; diagonal: both matrices of the product, weights of the modes, sums over samples of every kernel, and for dss what
 * the modes that grow give. */
static inline int64_t s4_gpu_mode_sums(int64_t rank) { return 2 + 2 * (1 + rank) * (1 + rank); }
static inline int64_t s4_gpu_kernel_scratch(const s4_shape *s)
{
    int64_t n = s->modes, lanes = s->tile_channels;
    if (s->mode == S4_MODE_DPLR) return lanes * n * s4_gpu_mode_sums(s->rank);
    int64_t m = s4_vandermonde_width(s->kernel_length), rows = (s->kernel_length + m - 1) / m;
    int64_t growing = s->discretisation == S4_DSS ? s->kernels * s->kernel_length : 0;
    return lanes * (2 * n * (m + rows + 1 + 2 * s->kernels) + growing);
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

/* Rows (N) of a lane of set-up on the GPU, one channel's: dA in factors, scratch, and, DPLR, a structured power: what
 * is known of its displacement, dA in that basis, and two matrices. */
static inline int64_t s4_gpu_setup_rows(const s4_shape *s)
{
    int64_t displacement = 3 + 2 * s->rank, dA = 3 * s->rank, matrix = 3 + 2 * s->rank;
    return 2 + 2 * s->rank + 4 + (s->mode == S4_MODE_DPLR ? displacement + dA + 2 * matrix : 0);
}
static inline int64_t s4_gpu_setup_lane(const s4_shape *s)
{
    return (s4_gpu_setup_rows(s) * 2 * s->modes + 7) / 8 * 8;
}
/* As many lanes as the device needs to be busy and 8 MB hold; constant for a shape. */
static inline int64_t s4_gpu_setup_lanes(const s4_shape *s)
{
    int64_t lanes = ((int64_t)1 << 20) / s4_gpu_setup_lane(s);
    if (lanes > 256) lanes = 256;
    if (lanes > s->d_model) lanes = s->d_model;
    return lanes < 1 ? 1 : lanes;
}

/* Lanes for what needs dense matrices, (N,N), before the rows: solving for C, and powers of matrices with too many
 * eigenvalues that nearly coincide, take three; the gradient of a read-out, one more. Only where there are such
 * gradients are they used in every step of training, and are there many. */
static inline int64_t s4_gpu_dense_matrices(const s4_shape *s)
{
    if (s->mode != S4_MODE_DPLR) return 0;
    return s->states && s->direction == S4_DIRECTION_TRAINING ? 4 : 3;
}
static inline int64_t s4_gpu_dense_lane(const s4_shape *s)
{
    return (s4_gpu_dense_matrices(s) * 4 * s->modes * s->modes + s4_gpu_setup_rows(s) * 2 * s->modes + 7) / 8 * 8;
}
static inline int64_t s4_gpu_dense_lanes(const s4_shape *s)
{
    int64_t busy = s4_gpu_dense_matrices(s) == 4, matrices = (int64_t)1 << (busy ? 20 : 18), most = busy ? 128 : 16;
    int64_t lanes = matrices / (4 * s->modes * s->modes);
    if (lanes > most) lanes = most;
    if (lanes > s->d_model) lanes = s->d_model;
    return lanes < 1 ? 1 : lanes;
}

/* Doubles of SETUP_MATRICES on the GPU: a mark per channel, then lanes of the one or the other kind. */
static inline int64_t s4_gpu_setup_marks(const s4_shape *s) { return (s->d_model + 7) / 8 * 8; }
static inline int64_t s4_gpu_setup_scratch(const s4_shape *s)
{
    int64_t lanes = s4_gpu_setup_lanes(s) * s4_gpu_setup_lane(s), dense = s4_gpu_dense_lanes(s) * s4_gpu_dense_lane(s);
    return s4_gpu_setup_marks(s) + (s->mode == S4_MODE_DPLR && dense > lanes ? dense : lanes);
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
 * many lanes as the device needs to be busy and some 60 MB hold. In chunks only the samples after the last whole one are
 * met. */
static inline int64_t s4_gpu_state_span(const s4_shape *s) { return s->chunk ? s->chunk : s->length; }
static inline int64_t s4_gpu_state_lane(const s4_shape *s)
{
    int64_t span = s4_gpu_state_span(s), stride = s4_state_stride(span);
    return (s4_state_sums(s) + 3 + (span + stride - 1) / stride + stride + 1) * 2 * s->modes;
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

/* Where the matrices of one channel begin, in elements, and where they end (cpu/chunk.h); training: what the way back
 * multiplies with lies behind them in the same order. */
typedef struct s4_chunk_system_parts {
    int64_t power, into, out, kernel, end;
} s4_chunk_system_parts;
static inline s4_chunk_system_parts s4_chunk_system_parts_of(const s4_shape *s)
{
    int64_t state = s4_chunk_state(s);
    s4_chunk_system_parts at = {0, 0, 0, 0, 0};
    at.into = at.power + (s->mode == S4_MODE_DPLR ? state * state : 2 * state);
    at.out = at.into + s->chunk * state;
    at.kernel = at.out + s->channels * state * s->chunk;
    at.end = at.kernel + s->channels * 2 * s->chunk;
    return at;
}
static inline int64_t s4_chunk_system(const s4_shape *s)
{
    return s4_chunk_system_parts_of(s).end * (s->direction == S4_DIRECTION_TRAINING ? 2 : 1);
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

/* The same on the GPU, one lane a row (b,h) in work. Doubles: a state that is carried, the one that leaves and its adjoint;
 * training: parts of sums of u dy of every output. Then, of the dtype, the states before its chunks; training: adjoints,
 * too, and with states a padded row of du. */
static inline int64_t s4_gpu_chunk_lane_doubles(const s4_shape *s)
{
    int64_t parts = s->direction == S4_DIRECTION_TRAINING ? s->channels * s4_skip_parts(s->length) : 0;
    return s4_chunk_state(s) + 4 * s->modes + parts;
}
static inline int64_t s4_gpu_chunk_lane_elements(const s4_shape *s)
{
    int64_t states = s4_chunk_count(s) * s4_chunk_state(s);
    if (s->direction != S4_DIRECTION_TRAINING) return states;
    return 2 * states + (s->states ? s4_row_stride(s4_gpu_row_length(s)) : 0);
}

/* Doubles of the sums over rows and chunks of one channel: of U^T G and S^T G of every output, of U^T L and L^T S, L the
 * adjoints of the states that leave; and what the ends of rows inside a chunk give (cpu/states_backward.h). */
typedef struct s4_chunk_sums_parts {
    int64_t kernel, out, into, power, ends, end;
} s4_chunk_sums_parts;
static inline s4_chunk_sums_parts s4_chunk_sums_parts_of(const s4_shape *s)
{
    int64_t state = s4_chunk_state(s);
    s4_chunk_sums_parts at = {0, 0, 0, 0, 0, 0};
    at.out = at.kernel + s->channels * s->chunk * s->chunk;
    at.into = at.out + s->channels * state * s->chunk;
    at.power = at.into + s->chunk * state;
    at.ends = at.power + (s->mode == S4_MODE_DPLR ? state * state : state);
    at.end = at.ends + (4 + 4 * s->rank + s->channels) * 2 * s->modes;
    return at;
}
static inline int64_t s4_chunk_sums(const s4_shape *s) { return s4_chunk_sums_parts_of(s).end; }

/* Doubles of scratch per thread: rows of a step, and some more; of a chunk, powers of dA times dB, and C times powers;
 * DPLR: three matrices, training also dA to the powers 1, 2, 4 ... tau/2. */
#define S4_CHUNK_SETUP_ROWS 5
static inline int64_t s4_chunk_setup(const s4_shape *s)
{
    int64_t state = s4_chunk_state(s), matrices = s->mode == S4_MODE_DPLR ? 3 : 0;
    for (int64_t power = 1; matrices && power < s->chunk; power *= 2) matrices += s->direction == S4_DIRECTION_TRAINING;
    return (S4_CHUNK_SETUP_ROWS + 2 + 2 * s->rank + 2 * s->chunk + matrices * state) * state;
}
/* On the GPU, channels that have such scratch at a time: as many as 128 MB hold. */
static inline int64_t s4_gpu_chunk_setup_lanes(const s4_shape *s)
{
    int64_t lanes = ((int64_t)1 << 24) / s4_chunk_setup(s);
    if (lanes > 1024) lanes = 1024;
    if (lanes > s->block_channels) lanes = s->block_channels;
    return lanes < 1 ? 1 : lanes;
}

#endif
