/*
 * Plans of the kernel's real FFTs, their execution on single rows; and what else a shape needs prepared.
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

/* ---- wisdom ---------------------------------------------------------------------------------------------------- */

void cpu_fft_lock(void) { pthread_mutex_lock(&planner); }
void cpu_fft_unlock(void) { pthread_mutex_unlock(&planner); }
char *cpu_fft_wisdom(void) { return fftw_export_wisdom_to_string(); }
int cpu_fft_learn(const char *text) { return fftw_import_wisdom_from_string(text); }
void cpu_fft_forget(void) { fftw_forget_wisdom(); }
const char *cpu_fft_version(void) { return fftw_version; }

/* ---- plans --------------------------------------------------------------------------------------------------- */

enum { FORWARD, INVERSE };

/* `row` tells the planner the alignment; measuring writes to it, estimating does not. */
static fftw_plan make_plan(int direction, int64_t length, double *row, unsigned effort, double seconds)
{
    fftw_iodim64 samples = {.n = (ptrdiff_t)length, .is = 1, .os = 1};
    fftw_complex *frequencies = (fftw_complex *)row;
    fftw_set_timelimit(seconds);
    fftw_plan plan = direction == FORWARD ? fftw_plan_guru64_dft_r2c(1, &samples, 0, NULL, row, frequencies, effort)
                                          : fftw_plan_guru64_dft_c2r(1, &samples, 0, NULL, frequencies, row, effort);
    fftw_set_timelimit(FFTW_NO_TIMELIMIT);
    return plan;
}

static void destroy_plan(fftw_plan plan)
{
    if (plan) fftw_destroy_plan(plan);
}

void cpu_fft_forward(const cpu_fft *fft, double *row) { fftw_execute_dft_r2c(fft->forward, row, (fftw_complex *)row); }
void cpu_fft_inverse(const cpu_fft *fft, double *row) { fftw_execute_dft_c2r(fft->inverse, (fftw_complex *)row, row); }

static s4_status new_row(int64_t length, double **row)
{
    size_t bytes = (size_t)s4_row_stride(length) * sizeof **row;
    *row = aligned_alloc(ROW_ALIGNMENT, bytes);
    if (!*row)
        return cpu_host->fail(S4_ERROR_MEMORY, "planning a real FFT of length %lld needs %zu bytes", (long long)length,
                              bytes);
    memset(*row, 0, bytes);
    return S4_OK;
}

static void destroy_plans(cpu_fft *fft)
{
    destroy_plan(fft->forward);
    destroy_plan(fft->inverse);
    *fft = (cpu_fft){0};
}

/* The lock is held. */
static s4_status estimate_plans(cpu_fft *fft, int64_t length)
{
    double *row;
    *fft = (cpu_fft){0};
    s4_status status = new_row(length, &row);
    if (status) return status;
    fft->length = length;
    fft->forward = make_plan(FORWARD, length, row, FFTW_ESTIMATE, FFTW_NO_TIMELIMIT);
    fft->inverse = make_plan(INVERSE, length, row, FFTW_ESTIMATE, FFTW_NO_TIMELIMIT);
    free(row);
    if (fft->forward && fft->inverse) return S4_OK;
    destroy_plans(fft);
    return cpu_host->fail(S4_ERROR_LIBRARY, "FFTW made no plan for a real FFT of length %lld", (long long)length);
}

s4_status cpu_fft_open(cpu_fft *fft, int64_t length, int untuned)
{
    cpu_fft_lock();
    char *wisdom = untuned ? cpu_fft_wisdom() : NULL;
    if (wisdom) cpu_fft_forget();
    s4_status status = estimate_plans(fft, length);
    if (wisdom) {
        cpu_fft_forget();
        cpu_fft_learn(wisdom);
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
s4_status cpu_fft_measure(int64_t length, double seconds)
{
    static const unsigned efforts[] = {FFTW_MEASURE, FFTW_PATIENT};
    double *row;
    s4_status status = new_row(length, &row);
    if (status) return status;
    for (int direction = FORWARD; direction <= INVERSE; direction++) {
        double start = now(), left = seconds;
        for (int i = 0; i < 2 && left > 0; i++) {
            destroy_plan(make_plan(direction, length, row, efforts[i], left));
            left = seconds - (now() - start);
        }
    }
    free(row);
    return S4_OK;
}

/* ---- what a shape needs -------------------------------------------------------------------------------------- */

int64_t cpu_fft_length(const s4_shape *shape)
{
    int wanted = shape->mode == S4_MODE_DPLR && shape->direction != S4_DIRECTION_STEP && !shape->chunk;
    return wanted ? shape->kernel_length : 0;
}

s4_status cpu_prepare(s4_device *device, const s4_shape *shape, const int64_t *bytes, void **prepared)
{
    *prepared = NULL;
    cpu_prepared *plans = calloc(1, sizeof *plans);
    if (!plans) return cpu_host->fail(S4_ERROR_MEMORY, "the list of FFT plans needs %zu bytes", sizeof *plans);

    int untuned = device && !device->uses_wisdom;
    s4_status status = S4_OK;
    /* FFTW has no work areas that a caller could give; but without rows in this place nothing is transformed here. */
    if (cpu_fft_length(shape) && bytes[S4_BUFFER_KERNEL_ROWS])
        status = cpu_fft_open(&plans->kernel, cpu_fft_length(shape), untuned);
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
    snprintf(text, size, "FFTW %s", fftw_version + skip);
}
