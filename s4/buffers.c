/* The table of buffers: name and size of each. What they hold is told in backend.h. */
#include "s4/plan_object.h"

static int64_t dtype_bytes(const s4_shape *s) { return s->dtype == S4_F32 ? 4 : 8; }
static int64_t frequencies(const s4_shape *s) { return s->fft_length / 2 + 1; }
static int64_t kept(const s4_shape *s) { return s->resident ? s->d_model : s->block_channels; }
static int64_t kernel_lanes(const s4_shape *s, s4_place p) { return p == S4_PLACE_CPU ? s->threads : s->tile_channels; }
static int64_t row_lanes(const s4_shape *s, s4_place p) { return p == S4_PLACE_CPU ? s->threads : s->tile_rows; }
static int64_t square(int64_t value) { return value * value; }
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

#define SIZE(function, expression)                                                                                     \
    static int64_t function(const s4_shape *s, s4_place p)                                                             \
    {                                                                                                                  \
        (void)p;                                                                                                       \
        return expression;                                                                                             \
    }
SIZE(system_bytes, 8 * s4_system_count(s))
SIZE(setup_bytes, 8 * s->threads * s4_setup_lane(s->modes))
SIZE(step_system_bytes, 8 * s->d_model * s4_step_system(s))
SIZE(step_rows_bytes, 8 * s->threads * S4_STEP_ROWS * 2 * s->modes)
SIZE(state_rows_bytes, 8 * s->threads * s4_state_lane(s))
SIZE(kernel_rows_bytes, 8 * kernel_lanes(s, p) * s4_row_stride(s->kernel_length))
SIZE(kernel_terms_bytes, 8 * kernel_lanes(s, p) * s4_kernel_scratch(s))
SIZE(kernel_adjoint_bytes,
     p == S4_PLACE_GPU ? 8 * s->tile_channels * square(1 + s->rank) * s4_row_stride(s->kernel_length) : 0)
SIZE(kernel_work_bytes, p == S4_PLACE_GPU ? fft_work(s->tile_channels, s->kernel_length, 8) : 0)
SIZE(kernel_bytes, dtype_bytes(s) * s->kernels * s->block_channels * s->kernel_length)
SIZE(spectrum_bytes, 2 * dtype_bytes(s) * kept(s) * s->channels * frequencies(s))
SIZE(rows_bytes, dtype_bytes(s) * row_lanes(s, p) * s4_row_stride(s->fft_length) * (p == S4_PLACE_GPU ? s->channels : 1))
SIZE(convolve_work_bytes, p == S4_PLACE_GPU ? larger(fft_work(s->tile_rows, s->fft_length, dtype_bytes(s)),
                                                     8 * s->channels * s->tile_rows * s4_skip_parts(s->length))
                                            : 0)
SIZE(block_bytes, p == S4_PLACE_GPU ? dtype_bytes(s) * s->block_batch * s->block_channels * s->channels * s->length : 0)
SIZE(gradient_spectrum_bytes, 16 * s->block_channels * s->channels * frequencies(s))
SIZE(kernel_gradient_bytes, 8 * s->kernels * s->block_channels * s->kernel_length)
SIZE(system_gradient_bytes, 8 * s4_system_gradient_count(s))

static const struct {
    const char *name;
    int64_t (*bytes)(const s4_shape *shape, s4_place place);
} buffers[S4_BUFFER_COUNT] = {
    [S4_BUFFER_SYSTEM] = {"system", system_bytes},
    [S4_BUFFER_SETUP_MATRICES] = {"setup_matrices", setup_bytes},
    [S4_BUFFER_STEP_SYSTEM] = {"step_system", step_system_bytes},
    [S4_BUFFER_STEP_ROWS] = {"step_rows", step_rows_bytes},
    [S4_BUFFER_STATE_ROWS] = {"state_rows", state_rows_bytes},
    [S4_BUFFER_KERNEL_ROWS] = {"kernel_rows", kernel_rows_bytes},
    [S4_BUFFER_KERNEL_TERMS] = {"kernel_terms", kernel_terms_bytes},
    [S4_BUFFER_KERNEL_ADJOINT] = {"kernel_adjoint", kernel_adjoint_bytes},
    [S4_BUFFER_KERNEL_FFT_WORK] = {"kernel_fft_work", kernel_work_bytes},
    [S4_BUFFER_KERNEL] = {"kernel", kernel_bytes},
    [S4_BUFFER_SPECTRUM] = {"spectrum", spectrum_bytes},
    [S4_BUFFER_ROWS_U] = {"rows_u", rows_bytes},
    [S4_BUFFER_ROWS_DY] = {"rows_dy", rows_bytes},
    [S4_BUFFER_CONVOLVE_FFT_WORK] = {"convolve_fft_work", convolve_work_bytes},
    [S4_BUFFER_BLOCK_U] = {"block_u", block_bytes},
    [S4_BUFFER_BLOCK_DY] = {"block_dy", block_bytes},
    [S4_BUFFER_GRADIENT_SPECTRUM] = {"gradient_spectrum", gradient_spectrum_bytes},
    [S4_BUFFER_KERNEL_GRADIENT] = {"kernel_gradient", kernel_gradient_bytes},
    [S4_BUFFER_SYSTEM_GRADIENT] = {"system_gradient", system_gradient_bytes},
};

const char *s4_buffer_name(s4_buffer buffer) { return buffers[buffer].name; }

int64_t s4_buffer_bytes(s4_buffer buffer, const s4_shape *shape, s4_place place)
{
    return buffers[buffer].bytes(shape, place);
}

int s4_buffer_persists(s4_buffer buffer, const s4_shape *shape)
{
    return buffer == S4_BUFFER_SYSTEM || buffer == S4_BUFFER_STEP_SYSTEM ||
           (buffer == S4_BUFFER_SPECTRUM && shape->resident);
}
