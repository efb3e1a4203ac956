/*
 * Included by convolve_row.c only, once for each precision, with REAL and TYPED(name) defined; no include guard
 * therefore. convolve_row.h says what each function computes.
 */

/* row[t] = source[t] for the samples that count. */
static void TYPED(gather)(cpu_source source, REAL *row)
{
    const REAL *samples = source.samples;
    if (source.stride == 1)
        memcpy(row, samples, sizeof *row * source.count);
    else
        for (int64_t t = 0; t < source.count; t++) row[t] = samples[t * source.stride];
}

/* target[t] = row[t] for the samples that count, and 0 beyond. */
static void TYPED(scatter)(const REAL *row, cpu_target target)
{
    REAL *samples = target.samples;
    if (target.stride == 1)
        memcpy(samples, row, sizeof *row * target.count);
    else
        for (int64_t t = 0; t < target.count; t++) samples[t * target.stride] = row[t];
    for (int64_t t = target.count; t < target.length; t++) samples[t * target.stride] = 0;
}

static void TYPED(load)(const cpu_fft *fft, cpu_source source, void *scratch)
{
    REAL *row = scratch;
    TYPED(gather)(source, row);
    memset(row + source.count, 0, sizeof *row * (fft->length - source.count));
    TYPED(cpu_fft_forward)(fft, row);
}

static void TYPED(spectrum)(const cpu_fft *fft, const void *kernel, const void *backward_kernel, int64_t count,
                            void *scratch, void *spectrum)
{
    const REAL *k1 = backward_kernel;
    REAL *row = scratch;
    memcpy(row, kernel, sizeof *row * count);
    memset(row + count, 0, sizeof *row * (fft->length - count));
    if (k1)
        for (int64_t j = 0; j < count; j++) row[fft->length - 1 - j] = k1[j];
    TYPED(cpu_fft_forward)(fft, row);
    memcpy(spectrum, row, sizeof(REAL[2]) * (fft->length / 2 + 1));
}

/* row[t] = row[t] / nf + d samples[t] */
static void TYPED(add_skip)(const cpu_fft *fft, double d, cpu_source source, REAL *row)
{
    const REAL *samples = source.samples, skip = (REAL)d, scale = (REAL)1 / (REAL)fft->length;
    if (source.stride == 1)
        for (int64_t t = 0; t < source.count; t++) row[t] = scale * row[t] + skip * samples[t];
    else
        for (int64_t t = 0; t < source.count; t++) row[t] = scale * row[t] + skip * samples[t * source.stride];
}

static void TYPED(convolve)(const cpu_fft *fft, const void *spectrum, double d, cpu_source u, void *scratch,
                            cpu_target y)
{
    const REAL *k = spectrum;
    REAL *row = scratch;
    for (int64_t f = 0; f <= fft->length / 2; f++) {
        REAL u_re = row[2 * f], u_im = row[2 * f + 1];
        row[2 * f] = k[2 * f] * u_re - k[2 * f + 1] * u_im;
        row[2 * f + 1] = k[2 * f] * u_im + k[2 * f + 1] * u_re;
    }
    TYPED(cpu_fft_inverse)(fft, row);
    TYPED(add_skip)(fft, d, u, row);
    TYPED(scatter)(row, y);
}

static void TYPED(gradient)(const cpu_fft *fft, cpu_source u, cpu_source dy, const void *spectrum_u,
                            const void *spectrum_dy, double *gradient_spectrum, double *gradient_d)
{
    const REAL *u_samples = u.samples, *dy_samples = dy.samples, *row_u = spectrum_u, *row_dy = spectrum_dy;
    double sum_d = 0.0;
    for (int64_t t = 0; t < u.count; t++) sum_d += (double)u_samples[t * u.stride] * (double)dy_samples[t * dy.stride];
    *gradient_d += sum_d;
    if (!gradient_spectrum) return;

    for (int64_t f = 0; f <= fft->length / 2; f++) {
        double u_re = row_u[2 * f], u_im = row_u[2 * f + 1];
        double g_re = row_dy[2 * f], g_im = row_dy[2 * f + 1];
        gradient_spectrum[2 * f] += u_re * g_re;
        gradient_spectrum[2 * f] += u_im * g_im;
        gradient_spectrum[2 * f + 1] += u_re * g_im;
        gradient_spectrum[2 * f + 1] -= u_im * g_re;
    }
}

static void TYPED(adjoint)(const cpu_fft *fft, const void *spectrum, double d, cpu_source dy, void *scratch, int add,
                           cpu_target du)
{
    const REAL *k = spectrum;
    REAL *row = scratch;
    for (int64_t f = 0; f <= fft->length / 2; f++) {
        REAL g_re = row[2 * f], g_im = row[2 * f + 1];
        row[2 * f] = k[2 * f] * g_re + k[2 * f + 1] * g_im;
        row[2 * f + 1] = k[2 * f] * g_im - k[2 * f + 1] * g_re;
    }
    TYPED(cpu_fft_inverse)(fft, row);
    TYPED(add_skip)(fft, d, dy, row);
    if (add) {
        const REAL *samples = du.samples;
        for (int64_t t = 0; t < du.count; t++) row[t] += samples[t * du.stride];
    }
    TYPED(scatter)(row, du);
}

static void TYPED(correlate)(const cpu_fft *fft, const double *gradient_spectrum, int64_t count, void *scratch,
                             double *kernel_gradient, double *backward_gradient)
{
    REAL *row = scratch;
    double scale = 1.0 / (double)fft->length;
    for (int64_t i = 0; i < 2 * (fft->length / 2 + 1); i++) row[i] = (REAL)gradient_spectrum[i];
    TYPED(cpu_fft_inverse)(fft, row);
    for (int64_t l = 0; l < count; l++) kernel_gradient[l] = scale * (double)row[l];
    if (backward_gradient)
        for (int64_t j = 0; j < count; j++) backward_gradient[j] = scale * (double)row[fft->length - 1 - j];
}
