/* The table of buffers: name and size of each. What they hold is told in backend.h. */
#include "s4/plan_object.h"

static int64_t dtype_bytes(const s4_shape *s) { return s->dtype == S4_F32 ? 4 : 8; }
static int64_t frequencies(const s4_shape *s, s4_place p)
{
    return p == S4_PLACE_CPU ? s4_ring_points(s) : s->fft_length / 2 + 1;
}
static int64_t kept(const s4_shape *s) { return s->resident ? s->d_model : s->block_channels; }
static int64_t kernel_lanes(const s4_shape *s, s4_place p) { return p == S4_PLACE_CPU ? s->threads : s->tile_channels; }
static int64_t kernel_rows(const s4_shape *s, s4_place p)
{
    return p == S4_PLACE_CPU && s->mode == S4_MODE_DPLR ? s->kernels : 1;
}
static int64_t row_lanes(const s4_shape *s, s4_place p) { return p == S4_PLACE_CPU ? s->threads : s4_gpu_row_lanes(s); }
static int64_t carries(const s4_shape *s) { return s->states || s->direction == S4_DIRECTION_STEP; } /* states */
static int is_dplr(const s4_shape *s) { return s->mode == S4_MODE_DPLR; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Work areas of cuFFT: what it needs is known only on the device, and s4_plan_prepare checks. Lengths of the short list
 * need at most a copy or two of the data; for others NVIDIA documents up to eight complex copies, and the chirp they
 * are multiplied with has at least twice their length. */
static int64_t fft_work(int64_t lanes, int64_t length, int64_t element)
{
    const int64_t least = 1 << 16;
    if (s4_fft_smooth(length)) return 2 * lanes * (s4_row_stride(length) + 16) * element + least;
    int64_t chirp = 1;
    while (chirp < 2 * length) chirp *= 2;
    return 16 * lanes * s4_row_stride(length) * element + 16 * chirp * element + least;
}

/* Doubles of all raw parameters, without plain C. */
static int64_t raw_count(const s4_shape *s) { return s4_raw_offset(s, S4_PARAMETER_COUNT); }
/* Elements of one slot of samples with `channels` outputs; only where the caller's tensors are on the host. */
static int64_t slot(const s4_shape *s, int64_t channels)
{
    return s->tensors == S4_PLACE_CPU ? s->block_batch * s->block_channels * channels * s->length : 0;
}

#define SIZE(function, expression)                                                                                     \
    static int64_t function(const s4_shape *s, s4_place p)                                                             \
    {                                                                                                                  \
        (void)s, (void)p;                                                                                              \
        return expression;                                                                                             \
    }
SIZE(system_bytes, 8 * s4_system_count(s))
SIZE(raw_bytes, p == S4_PLACE_GPU ? 8 * s4_raw_offset(s, S4_PARAMETER_COUNT + 1) : 0)
SIZE(raw_gradient_bytes, p == S4_PLACE_GPU && s->tensors == S4_PLACE_CPU ? 8 * raw_count(s) : 0)
SIZE(stage_gradient_bytes, p == S4_PLACE_CPU ? 8 * raw_count(s) : 0)
SIZE(flags_bytes, p == S4_PLACE_GPU ? 8 * S4_FLAGS : 0)
SIZE(state_sums_bytes, 8 * s->d_model * s4_state_sums(s) * 2 * s->modes)
SIZE(setup_bytes, 8 * (p == S4_PLACE_GPU ? s4_gpu_setup_scratch(s) : s->threads * s4_setup_lane(s->modes)))
SIZE(step_system_bytes, carries(s) * 8 * s->d_model * s4_step_system(s))
SIZE(step_rows_bytes, carries(s) * 16 * s->modes * S4_STEP_ROWS *
                          (p == S4_PLACE_CPU ? s->threads : s->modes > S4_GPU_STEP_SHARED ? S4_GPU_STEP_LANES : 0))
SIZE(state_rows_bytes, carries(s) * 8 * (p == S4_PLACE_GPU ? s4_gpu_state_lanes(s) * s4_gpu_state_lane(s)
                                              : s->threads * s4_state_lane(s)))
SIZE(kernel_rows_bytes, p == S4_PLACE_CPU || is_dplr(s)
                            ? 8 * kernel_lanes(s, p) * kernel_rows(s, p) * s4_row_stride(s->kernel_length)
                            : 0)
SIZE(kernel_terms_bytes, 8 * (p == S4_PLACE_CPU ? s->threads * s4_cpu_kernel_scratch(s) : s4_gpu_kernel_scratch(s)))
SIZE(kernel_adjoint_bytes, p == S4_PLACE_GPU && is_dplr(s)
                               ? (s->kernel_dtype == S4_F32 ? 4 : 8) * s->tile_channels * (1 + 2 * s->rank) * s4_row_stride(s->kernel_length)
                               : 0)
SIZE(kernel_work_bytes, p == S4_PLACE_GPU && is_dplr(s) ? fft_work(s->tile_channels, s->kernel_length, 8) : 0)
SIZE(kernel_bytes, dtype_bytes(s) * s->kernels * s->block_channels * s->kernel_length)
SIZE(spectrum_bytes, 2 * dtype_bytes(s) * kept(s) * s->channels * frequencies(s, p))
static int64_t row_bytes(const s4_shape *s, s4_place p)
{
    if (p == S4_PLACE_CPU && s->chunk) return 0;
    return dtype_bytes(s) * row_lanes(s, p) *
           (p == S4_PLACE_CPU ? 2 * s4_ring_points(s) : s4_row_stride(s4_gpu_row_length(s)));
}
SIZE(rows_u_bytes, row_bytes(s, p) * (p == S4_PLACE_CPU ? s4_ring_rows(s) : 1))
SIZE(turned_bytes, p == S4_PLACE_CPU ? dtype_bytes(s) * s->threads * s->stage_channels * s4_stage_stride(s) : 0)
SIZE(rows_stage_bytes, turned_bytes(s, p) * (s->direction == S4_DIRECTION_TRAINING ? 2 : 1))
/* A second row of every lane: of dy, or, on the GPU, of every output; in chunks y never takes the place of u. */
SIZE(second_rows_bytes, s->direction == S4_DIRECTION_TRAINING || (p == S4_PLACE_GPU && (s->channels > 1 || s->chunk))
                            ? row_bytes(s, p) * (p == S4_PLACE_GPU ? s->channels : 1)
                            : 0)
SIZE(convolve_work_bytes, p == S4_PLACE_GPU ? larger(fft_work(s->tile_rows, s->fft_length, dtype_bytes(s)),
                                                     8 * s->channels * s->tile_rows * s4_skip_parts(s->length))
                                            : 0)
SIZE(block_u_bytes, p == S4_PLACE_GPU ? S4_SLOTS * dtype_bytes(s) * slot(s, 1) : 0)
SIZE(block_bytes, p == S4_PLACE_GPU ? S4_SLOTS * dtype_bytes(s) * slot(s, s->channels) : 0)
SIZE(stage_u_bytes, p == S4_PLACE_CPU ? S4_SLOTS * dtype_bytes(s) * slot(s, 1) : 0)
SIZE(stage_bytes, p == S4_PLACE_CPU ? S4_SLOTS * dtype_bytes(s) * slot(s, s->channels) : 0)
SIZE(block_state_bytes,
     p == S4_PLACE_GPU && s->tensors == S4_PLACE_CPU ? 16 * s->block_batch * s->block_channels * s->modes : 0)
SIZE(lengths_bytes, p == S4_PLACE_GPU && s->tensors == S4_PLACE_CPU ? 8 * s->batch : 0)
SIZE(gradient_spectrum_bytes,
     s->wanted & S4_WANTED_KERNEL ? 16 * s->block_channels * s->channels * frequencies(s, p) : 0)
SIZE(kernel_gradient_bytes, 8 * s->kernels * s->block_channels * s->kernel_length)
SIZE(system_gradient_bytes, 8 * s4_system_gradient_count(s))
SIZE(chunk_system_bytes, dtype_bytes(s) * kept(s) * s4_chunk_system(s))
SIZE(chunk_rows_bytes, p == S4_PLACE_CPU ? s->threads * s4_chunk_lane(s)
                                         : s4_gpu_row_lanes(s) * (8 * s4_gpu_chunk_lane_doubles(s) +
                                                                  dtype_bytes(s) * s4_gpu_chunk_lane_elements(s)))
SIZE(chunk_sums_bytes, 8 * s->block_channels * s4_chunk_sums(s))
SIZE(chunk_setup_bytes, 8 * (p == S4_PLACE_CPU ? s->threads : s4_gpu_chunk_setup_lanes(s)) * s4_chunk_setup(s))

static const struct {
    const char *name;
    int64_t (*bytes)(const s4_shape *shape, s4_place place);
} buffers[S4_BUFFER_COUNT] = {
    [S4_BUFFER_SYSTEM] = {"system", system_bytes},
    [S4_BUFFER_RAW] = {"raw", raw_bytes},
    [S4_BUFFER_RAW_GRADIENT] = {"raw_gradient", raw_gradient_bytes},
    [S4_BUFFER_STAGE_GRADIENT] = {"stage_gradient", stage_gradient_bytes},
    [S4_BUFFER_FLAGS] = {"flags", flags_bytes},
    [S4_BUFFER_SETUP_MATRICES] = {"setup_matrices", setup_bytes},
    [S4_BUFFER_STEP_SYSTEM] = {"step_system", step_system_bytes},
    [S4_BUFFER_STEP_ROWS] = {"step_rows", step_rows_bytes},
    [S4_BUFFER_STATE_ROWS] = {"state_rows", state_rows_bytes},
    [S4_BUFFER_STATE_SUMS] = {"state_sums", state_sums_bytes},
    [S4_BUFFER_KERNEL_ROWS] = {"kernel_rows", kernel_rows_bytes},
    [S4_BUFFER_KERNEL_TERMS] = {"kernel_terms", kernel_terms_bytes},
    [S4_BUFFER_KERNEL_ADJOINT] = {"kernel_adjoint", kernel_adjoint_bytes},
    [S4_BUFFER_KERNEL_FFT_WORK] = {"kernel_fft_work", kernel_work_bytes},
    [S4_BUFFER_KERNEL] = {"kernel", kernel_bytes},
    [S4_BUFFER_SPECTRUM] = {"spectrum", spectrum_bytes},
    [S4_BUFFER_ROWS_U] = {"rows_u", rows_u_bytes},
    [S4_BUFFER_ROWS_DY] = {"rows_dy", second_rows_bytes},
    [S4_BUFFER_ROWS_STAGE] = {"rows_stage", rows_stage_bytes},
    [S4_BUFFER_CONVOLVE_FFT_WORK] = {"convolve_fft_work", convolve_work_bytes},
    [S4_BUFFER_BLOCK_U] = {"block_u", block_u_bytes},
    [S4_BUFFER_BLOCK_DY] = {"block_dy", block_bytes},
    [S4_BUFFER_BLOCK_OUT] = {"block_out", block_bytes},
    [S4_BUFFER_BLOCK_STATE] = {"block_state", block_state_bytes},
    [S4_BUFFER_BLOCK_DSTATE] = {"block_dstate", block_state_bytes},
    [S4_BUFFER_LENGTHS] = {"lengths", lengths_bytes},
    [S4_BUFFER_STAGE_U] = {"stage_u", stage_u_bytes},
    [S4_BUFFER_STAGE_DY] = {"stage_dy", stage_bytes},
    [S4_BUFFER_STAGE_OUT] = {"stage_out", stage_bytes},
    [S4_BUFFER_GRADIENT_SPECTRUM] = {"gradient_spectrum", gradient_spectrum_bytes},
    [S4_BUFFER_KERNEL_GRADIENT] = {"kernel_gradient", kernel_gradient_bytes},
    [S4_BUFFER_SYSTEM_GRADIENT] = {"system_gradient", system_gradient_bytes},
    [S4_BUFFER_CHUNK_SYSTEM] = {"chunk_system", chunk_system_bytes},
    [S4_BUFFER_CHUNK_ROWS] = {"chunk_rows", chunk_rows_bytes},
    [S4_BUFFER_CHUNK_SUMS] = {"chunk_sums", chunk_sums_bytes},
    [S4_BUFFER_CHUNK_SETUP] = {"chunk_setup", chunk_setup_bytes},
};

const char *s4_buffer_name(s4_buffer buffer) { return buffers[buffer].name; }

int64_t s4_buffer_bytes(s4_buffer buffer, const s4_shape *shape, s4_place place)
{
    return buffers[buffer].bytes(shape, place);
}

int s4_buffer_persists(s4_buffer buffer, const s4_shape *shape)
{
    return buffer == S4_BUFFER_SYSTEM || buffer == S4_BUFFER_STEP_SYSTEM || buffer == S4_BUFFER_RAW ||
           buffer == S4_BUFFER_FLAGS ||
           ((buffer == S4_BUFFER_SPECTRUM || buffer == S4_BUFFER_CHUNK_SYSTEM) && shape->resident);
}

int s4_buffer_travels(s4_buffer buffer)
{
    return buffer >= S4_BUFFER_BLOCK_U && buffer <= S4_BUFFER_STAGE_OUT;
}

int64_t s4_buffer_moved(s4_buffer buffer, const s4_shape *s, int64_t channels)
{
    switch (buffer) {
    case S4_BUFFER_SYSTEM: return system_bytes(s, S4_PLACE_CPU);
    case S4_BUFFER_STEP_SYSTEM: return step_system_bytes(s, S4_PLACE_CPU);
    case S4_BUFFER_STATE_SUMS: return state_sums_bytes(s, S4_PLACE_CPU);
    case S4_BUFFER_KERNEL: return dtype_bytes(s) * s->kernels * channels * s->kernel_length;
    case S4_BUFFER_KERNEL_GRADIENT: return 8 * s->kernels * channels * s->kernel_length;
    default: return 0;
    }
}
