/*
 * The causal convolution as plain C on FFTW would have it, y = irfft(rfft(u padded) * K^) row by row, in single
 * precision: one r2c and one c2r plan (ESTIMATE), the spectrum of the kernel made before. Padding to the next power of two
 * that holds u and kernel.
 *
 *   fftw_row ROWS LENGTH THREADS
 *   fftw_row version
 *
 * For every line on standard input one pass over all rows; its nanoseconds on a line of standard output.
 */
#include <complex.h>
#include <fftw3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

struct convolution {
    size_t rows, length, padded, bins;
    fftwf_plan forward, inverse;
    float complex *spectrum; /* (bins), scaled by 1/padded */
    const float *u;          /* (rows,length) */
    float *y;
};

static void *allocate(size_t bytes)
{
    void *memory = fftwf_malloc(bytes);
    if (!memory) {
        fprintf(stderr, "fftw_row: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return memory;
}

static void one_row(const struct convolution *c, size_t row, float *samples, float complex *bins)
{
    memcpy(samples, c->u + row * c->length, c->length * sizeof *samples);
    memset(samples + c->length, 0, (c->padded - c->length) * sizeof *samples);
    fftwf_execute_dft_r2c(c->forward, samples, (fftwf_complex *)bins);
    const float *k = (const float *)c->spectrum;
    float *x = (float *)bins;
    for (size_t i = 0; i < c->bins; i++) {
        float re = x[2 * i] * k[2 * i] - x[2 * i + 1] * k[2 * i + 1];
        float im = x[2 * i] * k[2 * i + 1] + x[2 * i + 1] * k[2 * i];
        x[2 * i] = re;
        x[2 * i + 1] = im;
    }
    fftwf_execute_dft_c2r(c->inverse, (fftwf_complex *)bins, samples);
    memcpy(c->y + row * c->length, samples, c->length * sizeof *samples);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(int count, char **arguments)
{
    if (count == 2 && !strcmp(arguments[1], "version")) return puts(fftwf_version) < 0;
    if (count != 4) {
        fprintf(stderr, "usage: fftw_row ROWS LENGTH THREADS | version\n");
        return 2;
    }
    struct convolution c = {.rows = strtoull(arguments[1], NULL, 10), .length = strtoull(arguments[2], NULL, 10)};
    int threads = atoi(arguments[3]);
    if (!c.rows || !c.length || threads < 1) return 2;
    for (c.padded = 2; c.padded < 2 * c.length; c.padded *= 2) {}
    c.bins = c.padded / 2 + 1;

    float **samples = malloc((size_t)threads * sizeof *samples);
    float complex **bins = malloc((size_t)threads * sizeof *bins);
    if (!samples || !bins) return 1;
    for (int t = 0; t < threads; t++) {
        samples[t] = allocate(c.padded * sizeof **samples);
        bins[t] = allocate(c.bins * sizeof **bins);
    }
    c.forward = fftwf_plan_dft_r2c_1d((int)c.padded, samples[0], (fftwf_complex *)bins[0], FFTW_ESTIMATE);
    c.inverse = fftwf_plan_dft_c2r_1d((int)c.padded, (fftwf_complex *)bins[0], samples[0], FFTW_ESTIMATE);
    c.spectrum = allocate(c.bins * sizeof *c.spectrum);
    for (size_t i = 0; i < c.bins; i++) c.spectrum[i] = 1.0f / (float)c.padded;
    float *u = allocate(c.rows * c.length * sizeof *u);
    for (size_t i = 0; i < c.rows * c.length; i++) u[i] = (float)(i % 17) - 8.0f;
    c.u = u;
    c.y = allocate(c.rows * c.length * sizeof *c.y);
    memset(c.y, 0, c.rows * c.length * sizeof *c.y);

    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        int64_t began = now_ns();
#pragma omp parallel for num_threads(threads) schedule(static)
        for (size_t row = 0; row < c.rows; row++) {
#ifdef _OPENMP
            int t = omp_get_thread_num();
#else
            int t = 0;
#endif
            one_row(&c, row, samples[t], bins[t]);
        }
        printf("%lld\n", (long long)(now_ns() - began));
        fflush(stdout);
    }
    return 0; /* the system takes the memory back */
}
