/*
 * Plans of the kernel's and the convolution's real FFTs, and their execution on single rows.
 *
 * The planner of FFTW is not thread-safe, not even between plans, so one lock of the library is held while a plan is
 * made or destroyed. Executing needs none.
 */
#define _POSIX_C_SOURCE 200809L

#include "cpu/convolve.h"

#include <fftw3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROW_ALIGNMENT 64

static pthread_mutex_t planner = PTHREAD_MUTEX_INITIALIZER;

/* ---- one precision ------------------------------------------------------------------------------------------- */

/* `row` tells the planner the alignment; measuring writes to it, estimating does not. */
#define DEFINE_PRECISION(suffix, real, fftw)                                                                           \
    static void *plan_forward_##suffix(int64_t length, void *row, unsigned effort, double seconds)                     \
    {                                                                                                                  \
        fftw##_iodim64 samples = {.n = (ptrdiff_t)length, .is = 1, .os = 1};                                           \
        fftw##_set_timelimit(seconds);                                                                                 \
        void *plan = fftw##_plan_guru64_dft_r2c(1, &samples, 0, NULL, row, row, effort);                               \
        fftw##_set_timelimit(FFTW_NO_TIMELIMIT);                                                                       \
        return plan;                                                                                                   \
    }                                                                                                                  \
    static void *plan_inverse_##suffix(int64_t length, void *row, unsigned effort, double seconds)                     \
    {                                                                                                                  \
        fftw##_iodim64 samples = {.n = (ptrdiff_t)length, .is = 1, .os = 1};                                           \
        fftw##_set_timelimit(seconds);                                                                                 \
        void *plan = fftw##_plan_guru64_dft_c2r(1, &samples, 0, NULL, row, row, effort);                               \
        fftw##_set_timelimit(FFTW_NO_TIMELIMIT);                                                                       \
        return plan;                                                                                                   \
    }                                                                                                                  \
    static void destroy_##suffix(void *plan)                                                                           \
    {                                                                                                                  \
        if (plan) fftw##_destroy_plan(plan);                                                                           \
    }                                                                                                                  \
    void cpu_fft_forward_##suffix(const cpu_fft *fft, real *row)                                                       \
    {                                                                                                                  \
        fftw##_execute_dft_r2c(fft->forward, row, (fftw##_complex *)row);                                              \
    }                                                                                                                  \
    void cpu_fft_inverse_##suffix(const cpu_fft *fft, real *row)                                                       \
    {                                                                                                                  \
        fftw##_execute_dft_c2r(fft->inverse, (fftw##_complex *)row, row);                                              \
    }

DEFINE_PRECISION(f32, float, fftwf)
DEFINE_PRECISION(f64, double, fftw)

typedef void *plan_function(int64_t length, void *row, unsigned effort, double seconds);

static const struct {
    const char *name, *version;
    size_t size;
    plan_function *plan[2]; /* forward, inverse */
    void (*destroy)(void *plan);
    char *(*wisdom)(void);
    int (*learn)(const char *text);
    void (*forget)(void);
} precision[] = {
    [S4_F32] = {"f32",
                fftwf_version,
                sizeof(float),
                {plan_forward_f32, plan_inverse_f32},
                destroy_f32,
                fftwf_export_wisdom_to_string,
                fftwf_import_wisdom_from_string,
                fftwf_forget_wisdom},
    [S4_F64] = {"f64",
                fftw_version,
                sizeof(double),
                {plan_forward_f64, plan_inverse_f64},
                destroy_f64,
                fftw_export_wisdom_to_string,
                fftw_import_wisdom_from_string,
                fftw_forget_wisdom},
};

/* ---- wisdom ---------------------------------------------------------------------------------------------------- */

void cpu_fft_lock(void) { pthread_mutex_lock(&planner); }
void cpu_fft_unlock(void) { pthread_mutex_unlock(&planner); }
char *cpu_fft_wisdom(s4_dtype dtype) { return precision[dtype].wisdom(); }
int cpu_fft_learn(s4_dtype dtype, const char *text) { return precision[dtype].learn(text); }
void cpu_fft_forget(s4_dtype dtype) { precision[dtype].forget(); }
const char *cpu_fft_version(s4_dtype dtype) { return precision[dtype].version; }

/* ---- plans --------------------------------------------------------------------------------------------------- */

static s4_status new_row(s4_dtype dtype, int64_t length, void **row)
{
    size_t bytes = (size_t)s4_row_stride(length) * precision[dtype].size;
    *row = aligned_alloc(ROW_ALIGNMENT, bytes);
    if (!*row)
        return cpu_host->fail(S4_ERROR_MEMORY, "planning a real FFT of length %lld needs %zu bytes", (long long)length,
                              bytes);
    memset(*row, 0, bytes);
    return S4_OK;
}

static void destroy_plans(cpu_fft *fft)
{
    precision[fft->dtype].destroy(fft->forward);
    precision[fft->dtype].destroy(fft->inverse);
    *fft = (cpu_fft){0};
}

/* The lock is held. */
static s4_status estimate_plans(cpu_fft *fft, s4_dtype dtype, int64_t length)
{
    void *row;
    *fft = (cpu_fft){0};
    s4_status status = new_row(dtype, length, &row);
    if (status) return status;
    fft->dtype = dtype;
    fft->length = length;
    fft->forward = precision[dtype].plan[0](length, row, FFTW_ESTIMATE, FFTW_NO_TIMELIMIT);
    fft->inverse = precision[dtype].plan[1](length, row, FFTW_ESTIMATE, FFTW_NO_TIMELIMIT);
    free(row);
    if (fft->forward && fft->inverse) return S4_OK;
    destroy_plans(fft);
    return cpu_host->fail(S4_ERROR_LIBRARY, "FFTW made no plan for a real FFT of length %lld in %s", (long long)length,
                          precision[dtype].name);
}

s4_status cpu_fft_open(cpu_fft *fft, s4_dtype dtype, int64_t length, int untuned)
{
    cpu_fft_lock();
    char *wisdom = untuned ? cpu_fft_wisdom(dtype) : NULL;
    if (wisdom) cpu_fft_forget(dtype);
    s4_status status = estimate_plans(fft, dtype, length);
    if (wisdom) {
        cpu_fft_forget(dtype);
        cpu_fft_learn(dtype, wisdom);
        free(wisdom);
    }
    cpu_fft_unlock();
    return status;
}

void cpu_fft_close(cpu_fft *fft)
{
    cpu_fft_lock();
    destroy_plans(fft);
    cpu_fft_unlock();
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* PATIENT leaves nothing behind when its time is up, and MEASURE takes a small part of its time: so MEASURE first. */
s4_status cpu_fft_measure(s4_dtype dtype, int64_t length, double seconds)
{
    static const unsigned efforts[] = {FFTW_MEASURE, FFTW_PATIENT};
    void *row;
    s4_status status = new_row(dtype, length, &row);
    if (status) return status;
    for (int direction = 0; direction < 2; direction++) {
        double start = now(), left = seconds;
        for (int i = 0; i < 2 && left > 0; i++) {
            precision[dtype].destroy(precision[dtype].plan[direction](length, row, efforts[i], left));
            left = seconds - (now() - start);
        }
    }
    free(row);
    return S4_OK;
}

/* ---- what a shape needs -------------------------------------------------------------------------------------- */

static int transforms_kernel(const s4_shape *shape)
{
    return shape->mode == S4_MODE_DPLR && shape->direction != S4_DIRECTION_STEP;
}

int cpu_fft_needs(const s4_shape *shape, s4_dtype *dtype, int64_t *length)
{
    int count = 0;
    if (transforms_kernel(shape)) {
        dtype[count] = S4_F64;
        length[count++] = shape->kernel_length;
    }
    return count;
}

s4_status cpu_prepare(s4_device *device, const s4_shape *shape, const int64_t *bytes, void **prepared)
{
    *prepared = NULL;
    cpu_prepared *plans = calloc(1, sizeof *plans);
    if (!plans) return cpu_host->fail(S4_ERROR_MEMORY, "the list of FFT plans needs %zu bytes", sizeof *plans);

    int untuned = device && !device->uses_wisdom;
    s4_status status = S4_OK;
    /* FFTW has no work areas that a caller could give; but without rows in this place nothing is transformed here. */
    if (transforms_kernel(shape) && bytes[S4_BUFFER_KERNEL_ROWS])
        status = cpu_fft_open(&plans->kernel, S4_F64, shape->kernel_length, untuned);
    if (!status && shape->fft_length && bytes[S4_BUFFER_ROWS_U]) status = cpu_ring_open(&plans->ring, device, shape);
    if (status) {
        cpu_unprepare(device, plans);
        return status;
    }
    *prepared = plans;
    return S4_OK;
}

void cpu_unprepare(s4_device *device, void *prepared)
{
    (void)device;
    cpu_prepared *plans = prepared;
    if (!plans) return;
    cpu_fft_close(&plans->kernel);
    cpu_ring_close(&plans->ring);
    free(plans);
}

void cpu_fft_describe(char *text, size_t size)
{
    static const char prefix[] = "fftw-"; /* "fftw-3.3.10-sse2-avx" */
    size_t skip = strncmp(fftw_version, prefix, sizeof prefix - 1) ? 0 : sizeof prefix - 1;
    size_t skip_single = strncmp(fftwf_version, prefix, sizeof prefix - 1) ? 0 : sizeof prefix - 1;
    snprintf(text, size, "FFTW %s (f64), %s (f32)", fftw_version + skip, fftwf_version + skip_single);
}
