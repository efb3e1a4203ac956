/* The two small matrices of powers, and modes of either order: formulas in vandermonde.h. */
#include "cpu/vandermonde.h"

#include <math.h>
#include <string.h>

#include "cpu/level/vandermonde.h"

/* angle / 2 pi, beyond double precision, without whole turns: `coarse` is a multiple of 2^-22, so that multiples of it
 * up to the 2^31st are exact. */
static cpu_turns turns_of(double angle)
{
    const double two_pi = 6.28318530717958647693, two_pi_rest = 2.44929359829470635446e-16;
    double turns = angle / two_pi;
    double missing = (fma(-turns, two_pi, angle) - turns * two_pi_rest) / two_pi;
    turns -= nearbyint(turns);
    double coarse = nearbyint(turns * 0x1p22) * 0x1p-22;
    return (cpu_turns){coarse, (turns - coarse) + missing};
}

cpu_vandermonde cpu_vandermonde_make(const s4_device *device, int64_t modes, int64_t length, cpu_pole *pole,
                                     double *base)
{
    cpu_vandermonde v = {.device = device, .modes = modes, .length = length, .pole = pole};
    v.width = s4_cpu_vandermonde_width(length);
    v.rows = (length + v.width - 1) / v.width;
    v.padded_rows = s4_cpu_vandermonde_rows(length);
    v.fine = base;
    v.coarse = v.fine + 2 * modes * v.width;
    v.samples = v.coarse + 2 * modes * v.padded_rows;
    v.lanes = v.samples + 2 * CPU_PANEL * v.padded_rows;
    v.factor = v.lanes + 4 * S4_VECTOR_LANES * modes;
    v.reach = (int64_t *)(v.factor + 2 * CPU_ROW_BLOCK * modes);
    v.active = v.reach + modes;
    const cpu_vandermonde_level *level = cpu_vandermonde_at(device);
    for (int64_t n = 0; n < modes; n++) {
        const cpu_turns turns = turns_of(pole[n].angle);
        double *coarse_re = v.coarse + 2 * n * v.padded_rows, *coarse_im = coarse_re + v.padded_rows;
        if (pole[n].reversed) v.reversed++;
        for (int64_t i = 0; i < v.width; i += CPU_PANEL) {
            double *fine = v.fine + 2 * (i * modes + n * CPU_PANEL);
            level->powers(pole[n].log_modulus, turns, i, 1, CPU_PANEL, fine, fine + CPU_PANEL);
        }
        level->powers(pole[n].log_modulus, turns, 0, v.width, v.padded_rows, coarse_re, coarse_im);
        for (int64_t j = v.rows; j < v.padded_rows; j++) coarse_re[j] = coarse_im[j] = 0.0;
        v.reach[n] = v.rows;
        while (v.reach[n] && coarse_re[v.reach[n] - 1] == 0.0 && coarse_im[v.reach[n] - 1] == 0.0) v.reach[n]--;
    }
    return v;
}

static void reverse(int64_t length, double *row)
{
    for (int64_t l = 0; l < length / 2; l++) {
        double swapped = row[l];
        row[l] = row[length - 1 - l];
        row[length - 1 - l] = swapped;
    }
}

void cpu_vandermonde_product(const cpu_vandermonde *v, const cpu_complex *c, double *row)
{
    const cpu_vandermonde_level *level = cpu_vandermonde_at(v->device);
    memset(row, 0, sizeof *row * v->length);
    if (v->reversed) {
        level->product(v, 1, c, row);
        reverse(v->length, row);
    }
    if (v->reversed < v->modes) level->product(v, 0, c, row);
}

void cpu_vandermonde_moments(const cpu_vandermonde *v, const double *row, cpu_complex *moment, cpu_complex *slope)
{
    const cpu_vandermonde_level *level = cpu_vandermonde_at(v->device);
    if (v->reversed) level->moments(v, 1, row, moment, slope);
    if (v->reversed < v->modes) level->moments(v, 0, row, moment, slope);
}
