/*
 * Plans of the kernel's and the convolution's real FFTs, and their execution on single rows.
 *
 * The planner of FFTW is not thread-safe, not even between plans, so one lock of the library is held while a plan is
 * made or destroyed. Executing needs none.
 */
#include "cpu/fft.h"

#include <fftw3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_ALIGNMENT 64

static pthread_mutex_t planner = PTHREAD_MUTEX_INITIALIZER;

/* ---- one precision ------------------------------------------------------------------------------------------- */

/* `row` only tells the planner the alignment: estimated plans leave it as it is. */
#define DEFINE_PRECISION(suffix, real, fftw)                                                              \
    static void plan_##suffix(cpu_fft *fft, void *row)                                                    \
    {                                                                                                     \
        fftw##_iodim64 samples = {.n = (ptrdiff_t)fft->length, .is = 1, .os = 1};                         \
        fft->forward = fftw##_plan_guru64_dft_r2c(1, &samples, 0, NULL, row, row, FFTW_ESTIMATE);         \
        fft->inverse = fftw##_plan_guru64_dft_c2r(1, &samples, 0, NULL, row, row, FFTW_ESTIMATE);         \
    }                                                                                                     \
    static void destroy_##suffix(cpu_fft *fft)                                                            \
    {                                                                                                     \
        if (fft->forward) fftw##_destroy_plan(fft->forward);                                              \
        if (fft->inverse) fftw##_destroy_plan(fft->inverse);                                              \
    }                                                                                                     \
    void cpu_fft_forward_##suffix(const cpu_fft *fft, real *row)                                          \
    {                                                                                                     \
        fftw##_execute_dft_r2c(fft->forward, row, (fftw##_complex *)row);                                 \
    }                                                                                                     \
    void cpu_fft_inverse_##suffix(const cpu_fft *fft, real *row)                                          \
    {                                                                                                     \
        fftw##_execute_dft_c2r(fft->inverse, (fftw##_complex *)row, row);                                 \
    }

DEFINE_PRECISION(f32, float, fftwf)
DEFINE_PRECISION(f64, double, fftw)

static const struct {
    void (*plan)(cpu_fft *fft, void *row);
    void (*destroy)(cpu_fft *fft);
} precision[] = {
    [S4_F32] = {plan_f32, destroy_f32},
    [S4_F64] = {plan_f64, destroy_f64},
};

/* ---- plans --------------------------------------------------------------------------------------------------- */

s4_status cpu_fft_open(cpu_fft *fft, s4_dtype dtype, int64_t length)
{
    size_t bytes = (size_t)s4_row_stride(length) * (dtype == S4_F32 ? sizeof(float) : sizeof(double));
    void *row = aligned_alloc(ROW_ALIGNMENT, bytes);
    memset(fft, 0, sizeof *fft);
    if (!row) return cpu_host->fail(S4_ERROR_MEMORY, "planning a real FFT of length %lld needs %zu bytes",
                                    (long long)length, bytes);
    fft->dtype = dtype;
    fft->length = length;
    pthread_mutex_lock(&planner);
    precision[dtype].plan(fft, row);
    pthread_mutex_unlock(&planner);
    free(row);
    if (fft->forward && fft->inverse) return S4_OK;
    cpu_fft_close(fft);
    return cpu_host->fail(S4_ERROR_LIBRARY, "FFTW made no plan for a real FFT of length %lld in %s",
                          (long long)length, dtype == S4_F32 ? "f32" : "f64");
}

void cpu_fft_close(cpu_fft *fft)
{
    pthread_mutex_lock(&planner);
    precision[fft->dtype].destroy(fft);
    pthread_mutex_unlock(&planner);
    memset(fft, 0, sizeof *fft);
}

/* ---- what a shape needs -------------------------------------------------------------------------------------- */

s4_status cpu_prepare(s4_device *device, const s4_shape *shape, const int64_t *bytes, void **prepared)
{
    (void)device;
    (void)bytes; /* FFTW has no work areas that a caller could give */
    *prepared = NULL;
    cpu_prepared *plans = calloc(1, sizeof *plans);
    if (!plans) return cpu_host->fail(S4_ERROR_MEMORY, "the list of FFT plans needs %zu bytes", sizeof *plans);

    s4_status status = S4_OK;
    if (shape->direction != S4_DIRECTION_STEP) status = cpu_fft_open(&plans->kernel, S4_F64, shape->kernel_length);
    if (!status && shape->fft_length) status = cpu_fft_open(&plans->convolution, shape->dtype, shape->fft_length);
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
    cpu_fft_close(&plans->convolution);
    free(plans);
}

void cpu_fft_describe(char *text, size_t size)
{
    static const char prefix[] = "fftw-"; /* "fftw-3.3.10-sse2-avx" */
    size_t skip = strncmp(fftw_version, prefix, sizeof prefix - 1) ? 0 : sizeof prefix - 1;
    size_t skip_single = strncmp(fftwf_version, prefix, sizeof prefix - 1) ? 0 : sizeof prefix - 1;
    snprintf(text, size, "FFTW %s (f64), %s (f32)", fftw_version + skip, fftwf_version + skip_single);
}
