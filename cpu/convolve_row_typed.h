/*
 * Included by convolve_row.c only, once for each precision, with REAL and TYPED(name) defined; no include guard
 * therefore. convolve_row.h says what each function computes.
 */

/* Spectrum of `count` samples, padded with zeros to the length of the FFT. */
static void TYPED(load)(const cpu_fft *fft, const REAL *samples, int64_t count, REAL *row)
{
    memcpy(row, samples, sizeof *row * count);
    memset(row + count, 0, sizeof *row * (fft->length - count));
    TYPED(cpu_fft_forward)(fft, row);
}

static void TYPED(spectrum)(const cpu_fft *fft, const void *kernel, int64_t count, void *row, void *spectrum)
{
    TYPED(load)(fft, kernel, count, row);
    memcpy(spectrum, row, sizeof(REAL[2]) * (fft->length / 2 + 1));
}

static void TYPED(convolve)(const cpu_fft *fft, const void *spectrum, double d, int64_t count, const void *u_samples,
                            void *scratch, void *y_samples)
{
    const REAL *k = spectrum, *u = u_samples, skip = (REAL)d, scale = (REAL)1 / (REAL)fft->length;
    REAL *row = scratch, *y = y_samples;
    TYPED(load)(fft, u, count, row);
    for (int64_t f = 0; f <= fft->length / 2; f++) {
        REAL u_re = row[2 * f], u_im = row[2 * f + 1];
        row[2 * f] = k[2 * f] * u_re - k[2 * f + 1] * u_im;
        row[2 * f + 1] = k[2 * f] * u_im + k[2 * f + 1] * u_re;
    }
    TYPED(cpu_fft_inverse)(fft, row);
    for (int64_t t = 0; t < count; t++) y[t] = scale * row[t] + skip * u[t];
}

static void TYPED(backward)(const cpu_fft *fft, const void *spectrum, double d, int64_t count, const void *u_samples,
                            const void *dy_samples, void *scratch_u, void *scratch_dy, double *gradient_spectrum,
                            double *gradient_d, void *du_samples)
{
    const REAL *k = spectrum, *u = u_samples, *dy = dy_samples, skip = (REAL)d, scale = (REAL)1 / (REAL)fft->length;
    REAL *row_u = scratch_u, *row_dy = scratch_dy, *du = du_samples;
    TYPED(load)(fft, u, count, row_u);
    TYPED(load)(fft, dy, count, row_dy);

    double sum_d = 0.0;
    for (int64_t t = 0; t < count; t++) sum_d += (double)u[t] * (double)dy[t];
    *gradient_d += sum_d;

    for (int64_t f = 0; f <= fft->length / 2; f++) {
        double u_re = row_u[2 * f], u_im = row_u[2 * f + 1];
        double g_re = row_dy[2 * f], g_im = row_dy[2 * f + 1];
        gradient_spectrum[2 * f] += u_re * g_re;
        gradient_spectrum[2 * f] += u_im * g_im;
        gradient_spectrum[2 * f + 1] += u_re * g_im;
        gradient_spectrum[2 * f + 1] -= u_im * g_re;
    }
    if (!du) return;

    for (int64_t f = 0; f <= fft->length / 2; f++) {
        REAL g_re = row_dy[2 * f], g_im = row_dy[2 * f + 1];
        row_dy[2 * f] = k[2 * f] * g_re + k[2 * f + 1] * g_im;
        row_dy[2 * f + 1] = k[2 * f] * g_im - k[2 * f + 1] * g_re;
    }
    TYPED(cpu_fft_inverse)(fft, row_dy);
    for (int64_t t = 0; t < count; t++) {
        REAL through_kernel = scale * row_dy[t];
        REAL through_skip = skip * dy[t];
        du[t] = through_kernel + through_skip;
    }
}

static void TYPED(correlate)(const cpu_fft *fft, const double *gradient_spectrum, int64_t count, void *scratch,
                             double *kernel_gradient)
{
    REAL *row = scratch;
    double scale = 1.0 / (double)fft->length;
    for (int64_t i = 0; i < 2 * (fft->length / 2 + 1); i++) row[i] = (REAL)gradient_spectrum[i];
    TYPED(cpu_fft_inverse)(fft, row);
    for (int64_t l = 0; l < count; l++) kernel_gradient[l] = scale * (double)row[l];
}
